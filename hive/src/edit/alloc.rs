// SPDX-License-Identifier: GPL-3.0-or-later
//! Which cells are free. The index is derived from the buffer and can be made again from it at any
//! time; if it ever disagreed with the buffer, cells would overlap.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::format::{BIN_HEADER_BYTES, CELL_ALIGN_BYTES};
use crate::reader::{Cells, file_offset};

/// The free cells of a hive, by size and by place.
#[derive(Default)]
pub(crate) struct FreeCells {
    by_size: BTreeSet<(u32, u32)>,
    by_offset: BTreeMap<u32, u32>,
}

impl FreeCells {
    /// Reads all cells of all bins.
    pub(crate) fn scan(cells: Cells<'_>) -> Result<Self> {
        let mut free = Self::default();
        each_cell(cells, |offset, size| {
            if size > 0 {
                free.insert(offset, size.unsigned_abs());
            }
        })?;
        Ok(free)
    }

    pub(crate) fn insert(&mut self, offset: u32, bytes: u32) {
        self.by_size.insert((bytes, offset));
        self.by_offset.insert(offset, bytes);
    }

    pub(crate) fn remove(&mut self, offset: u32, bytes: u32) {
        self.by_size.remove(&(bytes, offset));
        self.by_offset.remove(&offset);
    }

    /// The smallest free cell of at least `bytes`, the first one of that size: its offset and size.
    pub(crate) fn best_fit(&self, bytes: u32) -> Option<(u32, u32)> {
        self.by_size
            .range((bytes, 0)..)
            .next()
            .map(|&(size, offset)| (offset, size))
    }

    /// The free cell that begins at `offset`.
    pub(crate) fn at(&self, offset: u32) -> Option<u32> {
        self.by_offset.get(&offset).copied()
    }

    /// The free cell that ends at `offset`: its offset and size. Bins are parted by their headers, so
    /// that cells which touch are always of one bin.
    pub(crate) fn ending_at(&self, offset: u32) -> Option<(u32, u32)> {
        let (&before, &bytes) = self.by_offset.range(..offset).next_back()?;
        (before + bytes == offset).then_some((before, bytes))
    }

    /// All free bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_offset.values().map(|&bytes| u64::from(bytes)).sum()
    }
}

/// Calls `each` with the offset and the size field of every cell, bin by bin.
///
/// # Errors
/// Where a bin's header is wrong, or its cells do not fill it exactly.
pub(crate) fn each_cell(cells: Cells<'_>, mut each: impl FnMut(u32, i32)) -> Result<()> {
    for bin in cells.bins() {
        let bin = bin?;
        let (mut at, end) = (
            bin.offset as usize + BIN_HEADER_BYTES,
            bin.offset as usize + bin.bytes as usize,
        );
        while at < end {
            let size = cells
                .bins
                .get(at..)
                .and_then(<[u8]>::first_chunk::<4>)
                .map_or(0, |b| i32::from_le_bytes(*b));
            let bytes = size.unsigned_abs() as usize;
            let offset = u32::try_from(at).unwrap_or(u32::MAX);
            if bytes == 0 || !bytes.is_multiple_of(CELL_ALIGN_BYTES) || bytes > end - at {
                return Err(Error::InvalidCellSize {
                    what: "a cell",
                    offset: file_offset(offset),
                    size,
                    room: (end - at) as u64,
                });
            }
            each(offset, size);
            at += bytes;
        }
    }
    Ok(())
}
