// SPDX-License-Identifier: GPL-3.0-or-later
//! Virtual partitions of write-once discs: a table of where each block is now (UDF 1.50 2.2.10, UDF 2.2.11).

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::allocation;
use super::blocks::Mismatch;
use super::cs0::{decode_dstring, entity_text};
use super::format::{VatHeader, VatTrailer, file_type};
use super::icb::{Icb, IcbAddress, peek_file_type};
use super::partition::{Partition, Partitions};
use super::sequence::PartitionSpace;
use crate::medium::MediumError;
use crate::medium::limits::{MAX_VAT_BYTES, MAX_VAT_SEARCH_BLOCKS};

/// Finds the table at the image's end, where a session ends, and reads it.
pub(super) fn open(partitions: &mut Partitions, below: u16, space: PartitionSpace) -> Result<Partition, MediumError> {
    let count = partitions.blocks.count();
    let first = count.saturating_sub(MAX_VAT_SEARCH_BLOCKS).max(u64::from(space.start));
    let mut fault = None;
    for block in (first..count).rev() {
        let bytes = partitions.blocks.read(block)?;
        let inside = block
            .checked_sub(u64::from(space.start))
            .and_then(|inside| u32::try_from(inside).ok());
        let (Some((file_type::VAT | file_type::UNSPECIFIED, location)), Some(inside)) =
            (peek_file_type(&bytes), inside)
        else {
            continue;
        };
        if location != inside {
            continue;
        }
        match read(
            partitions,
            IcbAddress {
                partition: below,
                block: inside,
            },
        ) {
            Ok((table, label)) => {
                partitions.newer_label = label.filter(|label| !label.is_empty());
                return Ok(Partition::Virtual { space, table });
            }
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    Err(fault.unwrap_or_else(|| {
        let mismatch = Mismatch::new(
            format!("a virtual allocation table in the last {MAX_VAT_SEARCH_BLOCKS} blocks of the image"),
            "none (perhaps the image is truncated, or padded)",
        );
        partitions
            .blocks
            .damaged(count.saturating_sub(1), "the virtual partition", mismatch)
    }))
}

/// The table and the label that goes with it.
fn read(partitions: &Partitions, address: IcbAddress) -> Result<(Vec<u32>, Option<String>), MediumError> {
    let what = "virtual allocation table";
    let icb = Icb::read(partitions, address, what)?;
    let bytes = allocation::read(partitions, &icb, what)?.into_bytes(&partitions.blocks, what, MAX_VAT_BYTES)?;
    let damaged = |expected: String, found: String| {
        partitions
            .blocks
            .damaged(icb.place, what, Mismatch::new(expected, found))
    };
    if icb.file_type == file_type::VAT {
        let header = VatHeader::read_from_prefix(&bytes).ok().map(|(header, _)| header);
        let length = header.map_or(0, |header| usize::from(header.header_length.get()));
        return match (header, bytes.get(length..)) {
            (Some(header), Some(entries)) if length >= size_of::<VatHeader>() => {
                Ok((parse(entries), Some(decode_dstring(&header.identifier))))
            }
            _ => Err(damaged(
                format!("a header of {} to {} bytes", size_of::<VatHeader>(), bytes.len()),
                format!("{length} bytes"),
            )),
        };
    }
    match VatTrailer::read_from_suffix(&bytes) {
        Ok((entries, trailer)) if entity_text(&trailer.kind.identifier) == "*UDF Virtual Alloc Tbl" => {
            Ok((parse(entries), None))
        }
        _ => Err(damaged(
            "*UDF Virtual Alloc Tbl at its end".to_owned(),
            "something else".to_owned(),
        )),
    }
}

fn parse(entries: &[u8]) -> Vec<u32> {
    entries
        .chunks_exact(4)
        .filter_map(|entry| U32::read_from_bytes(entry).ok())
        .map(U32::get)
        .collect()
}
