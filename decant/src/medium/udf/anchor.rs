// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding the anchors, and with them the block size (ECMA-167 3/8.4.2, UDF 2.2.3).

use std::sync::Arc;

use zerocopy::FromBytes;

use super::blocks::Blocks;
use super::format::{Anchor, VolumeExtent, file_type, tag_id};
use super::icb::peek_file_type;
use super::tag;
use crate::medium::host_file::HostFile;
use crate::medium::limits::{MAX_ANCHOR_SEARCH_BYTES, MAX_SESSION_ENDS, MAX_VAT_SEARCH_BLOCKS};
use crate::medium::{MediumError, ReadAt};

/// Block sizes in the order in which they are tried: discs have 2048, disks 512 or 4096, the others are rare.
const BLOCK_SIZES: [u32; 7] = [2048, 512, 4096, 1024, 8192, 16_384, 32_768];
/// An anchor fits in the smallest block there is.
const ANCHOR_BYTES: usize = 512;

/// An anchor that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnchorPoint {
    pub block: u64,
    pub main: VolumeExtent,
    pub reserve: VolumeExtent,
}

/// The block size and the anchors, the one of the latest session first: those at the end of the disc are written
/// last. Empty if this is no UDF disc.
pub(super) fn find(disc: &Arc<HostFile>) -> Result<Option<(Blocks, Vec<AnchorPoint>)>, MediumError> {
    for block_bytes in BLOCK_SIZES {
        let blocks = Blocks {
            disc: Arc::clone(disc),
            block_bytes,
        };
        let last = blocks.count().checked_sub(1);
        let mut anchors = Vec::new();
        for place in [last, last.and_then(|last| last.checked_sub(256)), Some(256), Some(512)]
            .into_iter()
            .flatten()
        {
            // Most discs have the same anchor in several places.
            let known = |found: &AnchorPoint, anchor: &AnchorPoint| {
                (anchor.main, anchor.reserve) == (found.main, found.reserve)
            };
            let found = at(&blocks, place)?;
            anchors.extend(found.filter(|found| !anchors.iter().any(|anchor| known(found, anchor))));
        }
        if !anchors.is_empty() {
            return Ok(Some((blocks, anchors)));
        }
    }
    Ok(None)
}

/// The anchor at a block, if there is one.
fn at(blocks: &Blocks, block: u64) -> Result<Option<AnchorPoint>, MediumError> {
    let offset = blocks.offset(block);
    if offset.saturating_add(ANCHOR_BYTES as u64) > blocks.disc.len_bytes() {
        return Ok(None);
    }
    Ok(parse(&blocks.disc.up_to(offset, ANCHOR_BYTES)?, block))
}

fn parse(bytes: &[u8], block: u64) -> Option<AnchorPoint> {
    let location = u32::try_from(block).ok()?;
    tag::require(bytes, &[tag_id::ANCHOR], Some(location)).ok()?;
    let (anchor, _) = Anchor::read_from_prefix(bytes).ok()?;
    Some(AnchorPoint {
        block,
        main: anchor.main,
        reserve: anchor.reserve,
    })
}

/// The anchor of the last session of a write-once disc, which has none at the image's end.
///
/// Such a session ends with the ICB of its virtual allocation table, whose tag gives the block within the partition:
/// so the partition's start is known, and the session's anchor (256 blocks behind the session's start) lies before it.
pub(super) fn of_last_session(blocks: &Blocks) -> Result<Option<AnchorPoint>, MediumError> {
    let count = blocks.count();
    let first = count.saturating_sub(MAX_VAT_SEARCH_BLOCKS);
    let ends = read_range(blocks, first, count)?
        .into_iter()
        .rev()
        .filter_map(|(block, bytes)| match peek_file_type(&bytes) {
            Some((file_type::VAT | file_type::UNSPECIFIED, location)) => block.checked_sub(u64::from(location)),
            _ => None,
        });
    for partition_start in ends.take(MAX_SESSION_ENDS) {
        let from = partition_start.saturating_sub(MAX_ANCHOR_SEARCH_BYTES / u64::from(blocks.block_bytes));
        let before = read_range(blocks, from, partition_start)?;
        let found = before.iter().rev().find_map(|(block, bytes)| parse(bytes, *block));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads the blocks from `first` to before `end`, each with its number.
fn read_range(blocks: &Blocks, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, MediumError> {
    let length = usize::try_from(blocks.offset(end.saturating_sub(first))).unwrap_or(0);
    let bytes = blocks.read_bytes(first, length)?;
    Ok((first..)
        .zip(bytes.chunks_exact(blocks.block_bytes as usize).map(<[u8]>::to_vec))
        .collect())
}
