// SPDX-License-Identifier: GPL-3.0-or-later
//! Security descriptors: one cell for equal ones, counted, in a ring.

use std::collections::HashMap;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::{Buffer, Change, Editor, KeyId};
use crate::error::{Error, Result};
use crate::format::{NO_CELL, SecurityNode};
use crate::key::security_at;
use crate::reader::{Cells, file_offset};

/// Where each descriptor is, and one cell of the ring.
#[derive(Default)]
pub(super) struct SecurityIndex {
    cells: HashMap<Vec<u8>, u32>,
}

/// The ring's cells from one of them on.
///
/// # Errors
/// Where a cell is wrong, or the ring does not close.
pub(crate) fn ring(cells: Cells<'_>, start: u32) -> Result<Vec<u32>> {
    let limit = cells.bins.len() / 24 + 1;
    let mut found = vec![start];
    let mut at = start;
    loop {
        let (node, _) = security_at(cells, at)?;
        let (next, _) = security_at(cells, node.next.get())?;
        if next.previous.get() != at {
            return Err(Error::Mismatch {
                what: "the backward reference of the next security descriptor",
                offset: file_offset(node.next.get()),
                expected: u64::from(at),
                actual: u64::from(next.previous.get()),
            });
        }
        at = node.next.get();
        if at == start {
            return Ok(found);
        }
        if found.len() > limit {
            return Err(Error::ListReachedTwice {
                offset: file_offset(at),
            });
        }
        found.push(at);
    }
}

const NEXT: usize = 4;
const PREVIOUS: usize = 8;
const NR_REFERENCES: usize = 12;
/// Where a key node has its descriptor's cell.
const KEY_SECURITY: usize = 44;

impl<B: Buffer> Editor<B> {
    fn security_index(&mut self) -> Result<()> {
        if self.security.is_some() {
            return Ok(());
        }
        let mut index = SecurityIndex::default();
        let hive = self.hive();
        let first = hive.root()?.node.security.get();
        if Self::is_cell(first) {
            for cell in ring(hive.cells, first)? {
                index.cells.insert(security_at(hive.cells, cell)?.1.to_vec(), cell);
            }
        }
        self.security = Some(index);
        Ok(())
    }

    /// A reference to the cell of a descriptor, made where there is none.
    pub(super) fn reference_security(&mut self, descriptor: &[u8]) -> Result<u32> {
        self.security_index()?;
        let known = self
            .security
            .as_ref()
            .and_then(|index| index.cells.get(descriptor).copied());
        if let Some(cell) = known {
            self.reference_security_cell(cell)?;
            return Ok(cell);
        }
        let too_large = |_| Error::TooLarge {
            needed_bytes: descriptor.len() as u64,
            limit_bytes: 65_536,
        };
        let node = SecurityNode {
            signature: *b"sk",
            reserved: U16::ZERO,
            next: U32::ZERO,
            previous: U32::ZERO,
            nr_references: U32::new(1),
            descriptor_bytes: U32::new(u32::try_from(descriptor.len()).map_err(too_large)?),
        };
        let cell = self.alloc(&[node.as_bytes(), descriptor].concat(), 0)?;
        // Into the ring, behind the root's.
        let anchor = self.hive().root()?.node.security.get();
        let (previous, next) = if Self::is_cell(anchor) {
            (anchor, security_at(self.hive().cells, anchor)?.0.next.get())
        } else {
            (cell, cell)
        };
        self.put_u32(cell, NEXT, next)?;
        self.put_u32(cell, PREVIOUS, previous)?;
        self.put_u32(previous, NEXT, cell)?;
        self.put_u32(next, PREVIOUS, cell)?;
        if let Some(index) = &mut self.security {
            index.cells.insert(descriptor.to_vec(), cell);
        }
        Ok(cell)
    }

    /// One more reference to a descriptor's cell.
    pub(super) fn reference_security_cell(&mut self, cell: u32) -> Result<()> {
        if !Self::is_cell(cell) {
            return Ok(());
        }
        let nr = security_at(self.hive().cells, cell)?.0.nr_references.get();
        self.put_u32(cell, NR_REFERENCES, nr.saturating_add(1))
    }

    /// One reference less; the last one frees the cell.
    pub(super) fn release_security(&mut self, cell: u32) -> Result<()> {
        if !Self::is_cell(cell) {
            return Ok(());
        }
        self.security_index()?;
        let hive = self.hive();
        let (node, descriptor) = security_at(hive.cells, cell)?;
        let (nr, next, previous) = (node.nr_references.get(), node.next.get(), node.previous.get());
        if nr > 1 {
            return self.put_u32(cell, NR_REFERENCES, nr - 1);
        }
        let descriptor = descriptor.to_vec();
        self.put_u32(previous, NEXT, next)?;
        self.put_u32(next, PREVIOUS, previous)?;
        if let Some(index) = &mut self.security {
            index.cells.remove(&descriptor);
        }
        self.free(cell)
    }

    /// Gives a key another security descriptor (self-relative).
    ///
    /// # Errors
    /// No such key; no room.
    pub fn set_security(&mut self, key: KeyId, descriptor: &[u8], now: u64) -> Result<()> {
        self.transact(|editor| {
            let before = editor.key(key)?.node.security.get();
            let cell = editor.reference_security(descriptor)?;
            // The root's cell is where the ring is entered: it is replaced before it is released.
            editor.put_u32(key.0, KEY_SECURITY, cell)?;
            editor.release_security(before)?;
            editor.set_last_written(key, now)?;
            editor.note(Change::Security { key });
            Ok(())
        })
    }

    /// The cell of a key's descriptor.
    pub(super) fn security_cell(&self, key: KeyId) -> Result<u32> {
        Ok(self.key(key).map_or(NO_CELL, |key| key.node.security.get()))
    }
}
