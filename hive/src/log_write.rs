// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing logs in the new format, so that whatever replays a log of Windows replays ours.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::format::{BaseBlock, HVLE, LOG_HASH_SEED, LogEntry, LogPage, SECTOR_BYTES, checksum, file_type};
use crate::marvin::marvin32;

/// The first sector of a new-format log for a hive with this base block.
pub(crate) fn log_base(base: &BaseBlock, sequence: u32) -> BaseBlock {
    let mut base = base.clone();
    base.file_type = U32::new(file_type::LOG_NEW);
    base.primary_sequence = U32::new(sequence);
    base.secondary_sequence = U32::new(sequence);
    base.checksum = U32::new(checksum(base.as_bytes()));
    base
}

/// A new-format log entry: `pages` are places in the hive bins data and their bytes.
pub(crate) fn log_entry(sequence: u32, bins_bytes: u32, pages: &[(u32, &[u8])]) -> Vec<u8> {
    let head = size_of::<LogEntry>();
    let data: usize = pages.iter().map(|(_, page)| page.len() + size_of::<LogPage>()).sum();
    let size = (head + data).next_multiple_of(SECTOR_BYTES);
    let number = |number: usize| U32::new(u32::try_from(number).unwrap_or(u32::MAX));
    let mut bytes = vec![0; head];
    bytes.reserve(size - head);
    for (offset, page) in pages {
        let reference = LogPage {
            offset: U32::new(*offset),
            size_bytes: number(page.len()),
        };
        bytes.extend_from_slice(reference.as_bytes());
    }
    pages.iter().for_each(|(_, page)| bytes.extend_from_slice(page));
    bytes.resize(size, 0);
    let mut header = LogEntry {
        signature: HVLE,
        size_bytes: number(size),
        flags: U32::ZERO,
        sequence: U32::new(sequence),
        bins_bytes: U32::new(bins_bytes),
        nr_pages: number(pages.len()),
        hash_1: U64::new(marvin32(LOG_HASH_SEED, &bytes[head..])),
        hash_2: U64::ZERO,
    };
    header.hash_2 = U64::new(marvin32(LOG_HASH_SEED, &header.as_bytes()[..32]));
    bytes[..head].copy_from_slice(header.as_bytes());
    bytes
}
