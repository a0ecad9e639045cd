// SPDX-License-Identifier: GPL-3.0-or-later
//! Metadata partitions: all ICBs and directories inside one file, with a mirror (UDF 2.2.10, 2.2.13).

use super::allocation::{self, Content};
use super::blocks::Mismatch;
use super::format::{MetadataRest, file_type};
use super::icb::{Icb, IcbAddress};
use super::partition::{Partition, Partitions, Run};
use crate::medium::{Extent, MediumError};

/// Reads the metadata file, or its mirror where the file is damaged. `below` is the partition that they lie in.
pub(super) fn open(partitions: &Partitions, below: u16, map: MetadataRest) -> Result<Partition, MediumError> {
    open_file(partitions, below, map.file.get(), file_type::METADATA)
        .or_else(|error| open_file(partitions, below, map.mirror.get(), file_type::METADATA_MIRROR).map_err(|_| error))
}

fn open_file(partitions: &Partitions, below: u16, block: u32, expected_type: u8) -> Result<Partition, MediumError> {
    let what = "metadata file";
    let icb = Icb::read(
        partitions,
        IcbAddress {
            partition: below,
            block,
        },
        what,
    )?;
    let damaged = |expected: &str, found: String| {
        partitions
            .blocks
            .damaged(icb.place, what, Mismatch::new(expected, found))
    };
    if icb.file_type != expected_type {
        return Err(damaged(
            &format!("file type {expected_type}"),
            icb.file_type.to_string(),
        ));
    }
    match allocation::read(partitions, &icb, what)? {
        Content::Extents(list) => {
            let blocks = list.len_bytes() / u64::from(partitions.blocks.block_bytes);
            Ok(Partition::Metadata {
                extents: list.into_extents(),
                blocks,
            })
        }
        Content::Inline(bytes) => Err(damaged("extents", format!("{} bytes in the file entry", bytes.len()))),
    }
}

/// Gives the runs of a range of the metadata file. `range` is inside the file.
pub(super) fn place(
    extents: &[Extent],
    block_bytes: u64,
    range: Run,
    give: &mut dyn FnMut(Run) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    let end = (range.block + range.count) * block_bytes;
    let mut at = range.block * block_bytes;
    let first = extents.partition_point(|extent| extent.file_offset + extent.length_bytes <= at);
    for extent in extents.get(first..).unwrap_or_default() {
        if at >= end {
            break;
        }
        let Some(start) = extent.medium_offset else {
            let block = at / block_bytes;
            return Err(Mismatch::new(
                format!("a recorded block {block} of the metadata file"),
                "a hole",
            ));
        };
        let bytes = (extent.file_offset + extent.length_bytes).min(end) - at;
        let place = start + (at - extent.file_offset);
        if !place.is_multiple_of(block_bytes) || !bytes.is_multiple_of(block_bytes) {
            return Err(Mismatch::new(
                "whole blocks in the metadata file's extents",
                format!("{bytes} bytes"),
            ));
        }
        give(Run {
            block: place / block_bytes,
            count: bytes / block_bytes,
        })?;
        at += bytes;
    }
    Ok(())
}
