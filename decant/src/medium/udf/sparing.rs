// SPDX-License-Identifier: GPL-3.0-or-later
//! Sparable partitions: packets that were moved away from worn-out places (UDF 2.2.9, 2.2.12).

use std::collections::BTreeMap;

use zerocopy::FromBytes;

use super::blocks::{Blocks, Mismatch};
use super::cs0::entity_text;
use super::format::{SparableRest, SparingEntry, SparingTable, tag_id};
use super::partition::{Partition, Run};
use super::sequence::PartitionSpace;
use super::tag;
use crate::medium::MediumError;
use crate::medium::limits::MAX_SPARING_ENTRIES;

/// From this value on an entry's original location means "free" or "unusable".
const FIRST_SPECIAL: u32 = 0xffff_fff0;

/// Reads the newest of the table's copies.
pub(super) fn open(blocks: &Blocks, space: PartitionSpace, map: &SparableRest) -> Result<Partition, MediumError> {
    let packet_blocks = u32::from(map.packet_blocks.get());
    let mut newest: Option<(u32, BTreeMap<u32, u32>)> = None;
    let mut fault = None;
    for block in map.tables.iter().take(usize::from(map.table_count)) {
        let block = u64::from(block.get());
        match read_table(blocks, block, map.table_bytes.get()) {
            Ok((sequence, moved)) if newest.as_ref().is_none_or(|(known, _)| sequence > *known) => {
                newest = Some((sequence, moved));
            }
            Ok(_) => {}
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    match (newest, fault) {
        (Some((_, moved)), _) if packet_blocks > 0 => Ok(Partition::Sparable {
            space,
            packet_blocks,
            moved,
        }),
        (None, Some(error)) => Err(error),
        _ => {
            let found = format!("{} table(s), packets of {packet_blocks} blocks", map.table_count);
            let mismatch = Mismatch::new("at least one sparing table and a packet length", found);
            Err(blocks.damaged(0, "the sparable partition map", mismatch))
        }
    }
}

fn read_table(blocks: &Blocks, block: u64, table_bytes: u32) -> Result<(u32, BTreeMap<u32, u32>), MediumError> {
    let damaged = |mismatch| blocks.damaged(block, "the sparing table", mismatch);
    let header_bytes = size_of::<SparingTable>();
    let most = header_bytes + MAX_SPARING_ENTRIES * size_of::<SparingEntry>();
    let length = usize::try_from(table_bytes)
        .unwrap_or(usize::MAX)
        .clamp(header_bytes, most);
    let bytes = blocks.read_bytes(block, length)?;
    tag::require(&bytes, &[tag_id::SPARING_TABLE], u32::try_from(block).ok()).map_err(damaged)?;
    let Ok((table, entries)) = SparingTable::read_from_prefix(&bytes) else {
        return Err(damaged(Mismatch::new("a sparing table", "fewer bytes")));
    };
    let kind = entity_text(&table.kind.identifier);
    if kind != "*UDF Sparing Table" {
        return Err(damaged(Mismatch::new(
            "the identifier *UDF Sparing Table",
            format!("{kind:?}"),
        )));
    }
    let count = usize::from(table.entry_count.get());
    let (entries, _) = <[SparingEntry]>::ref_from_prefix_with_elems(entries, count).map_err(|_| {
        damaged(Mismatch::new(
            format!("{count} entries"),
            format!("{} bytes", entries.len()),
        ))
    })?;
    let moved = entries
        .iter()
        .map(|entry| (entry.original.get(), entry.mapped.get()))
        .filter(|(original, _)| *original < FIRST_SPECIAL)
        .collect();
    Ok((table.sequence.get(), moved))
}

/// Gives the runs of a range, taking moved packets from where they are now. `range` is in partition blocks, inside
/// the partition.
pub(super) fn place(
    space: PartitionSpace,
    packet_blocks: u32,
    moved: &BTreeMap<u32, u32>,
    range: Run,
    give: &mut dyn FnMut(Run) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    let start = u64::from(space.start);
    let packet_blocks = u64::from(packet_blocks);
    let end = range.block + range.count;
    let first_packet = u32::try_from(range.block / packet_blocks * packet_blocks).unwrap_or(u32::MAX);
    let mut at = range.block;
    for (packet, new_place) in moved.range(first_packet..) {
        let packet = u64::from(*packet);
        if packet >= end {
            break;
        }
        if !packet.is_multiple_of(packet_blocks) || packet + packet_blocks <= at {
            continue;
        }
        if packet > at {
            give(Run {
                block: start + at,
                count: packet - at,
            })?;
            at = packet;
        }
        let count = (packet + packet_blocks).min(end) - at;
        give(Run {
            block: u64::from(*new_place) + (at - packet),
            count,
        })?;
        at += count;
    }
    if at < end {
        give(Run {
            block: start + at,
            count: end - at,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each block of any range is found where looking it up alone finds it.
        #[test]
        fn a_range_is_what_its_blocks_are(
            packets in prop::collection::btree_map((0_u32..20).prop_map(|packet| packet * 4), 1000_u32..2000, 0..10),
            block in 0_u64..60, count in 1_u64..20,
        ) {
            let space = PartitionSpace { start: 100, length: 80 };
            let mut got = Vec::new();
            place(space, 4, &packets, Run { block, count }, &mut |run| {
                got.extend(run.block..run.block + run.count);
                Ok(())
            }).unwrap();
            let expected: Vec<u64> = (block..block + count).map(|at| {
                let packet = u32::try_from(at / 4 * 4).unwrap();
                packets.get(&packet).map_or(100 + at, |new_place| u64::from(*new_place) + at % 4)
            }).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
