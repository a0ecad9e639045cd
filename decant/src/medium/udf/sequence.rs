// SPDX-License-Identifier: GPL-3.0-or-later
//! The volume descriptor sequence: which partitions there are and which logical volume (ECMA-167 3/8.4, UDF 2.2.3).

use std::collections::{BTreeMap, HashSet};

use zerocopy::FromBytes;

use super::anchor::AnchorPoint;
use super::blocks::{Blocks, Mismatch};
use super::cs0::{decode_dstring, entity_text};
use super::format::{
    IntegrityDescriptor, IntegrityUse, LogicalVolumeDescriptor, LongAllocation, PartitionDescriptor, VolumeExtent,
    VolumePointer, tag_id,
};
use super::tag;
use crate::medium::limits::{MAX_INTEGRITY_DESCRIPTORS, MAX_VOLUME_DESCRIPTORS};
use crate::medium::{MediumError, UdfRevision};

/// A partition of the volume, in volume blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionSpace {
    pub start: u32,
    pub length: u32,
}

/// What a volume descriptor sequence says, the prevailing descriptors only.
#[derive(Debug)]
pub(super) struct VolumeDescriptors {
    pub label: String,
    pub revision: UdfRevision,
    pub file_set: LongAllocation,
    pub map_table: Vec<u8>,
    pub map_count: u32,
    /// By partition number.
    pub partitions: BTreeMap<u16, PartitionSpace>,
}

/// Reads the main sequence, or the reserve one where the main is damaged.
pub(super) fn read(blocks: &Blocks, anchor: &AnchorPoint) -> Result<VolumeDescriptors, MediumError> {
    read_one(blocks, anchor.main, "main")
        .or_else(|error| read_one(blocks, anchor.reserve, "reserve").map_err(|_| error))
}

/// The descriptors with the highest sequence numbers.
#[derive(Default)]
struct Prevailing {
    volume: Option<(u32, LogicalVolumeDescriptor, Vec<u8>, u64)>,
    partitions: BTreeMap<u16, (u32, PartitionSpace)>,
}

impl Prevailing {
    fn take(&mut self, identifier: u16, bytes: &[u8], block: u64) {
        if identifier == tag_id::PARTITION {
            if let Ok((found, _)) = PartitionDescriptor::read_from_prefix(bytes) {
                let space = PartitionSpace {
                    start: found.start.get(),
                    length: found.length.get(),
                };
                let known = self.partitions.get(&found.number.get()).map(|(sequence, _)| *sequence);
                if known.is_none_or(|known| found.sequence.get() >= known) {
                    self.partitions
                        .insert(found.number.get(), (found.sequence.get(), space));
                }
            }
        } else if identifier == tag_id::LOGICAL_VOLUME
            && let Ok((found, maps)) = LogicalVolumeDescriptor::read_from_prefix(bytes)
        {
            let known = self.volume.as_ref().map(|(sequence, ..)| *sequence);
            if known.is_none_or(|known| found.sequence.get() >= known) {
                self.volume = Some((found.sequence.get(), found, maps.to_vec(), block));
            }
        }
    }
}

fn read_one(blocks: &Blocks, extent: VolumeExtent, which: &str) -> Result<VolumeDescriptors, MediumError> {
    let mut prevailing = Prevailing::default();
    let (mut first, mut left) = in_blocks(blocks, extent);
    let start = first;
    let mut seen = 0;
    while left > 0 {
        seen += 1;
        if seen > MAX_VOLUME_DESCRIPTORS {
            let subject = format!("the {which} volume descriptor sequence at LBA {start}");
            return Err(blocks.limit(subject, MAX_VOLUME_DESCRIPTORS, "descriptors"));
        }
        let bytes = blocks.read(first)?;
        if bytes.iter().all(|byte| *byte == 0) {
            break; // An unrecorded block ends a sequence as well (3/8.4.2).
        }
        let tag = tag::check(&bytes, u32::try_from(first).ok())
            .map_err(|mismatch| blocks.damaged(first, format!("the {which} volume descriptor sequence"), mismatch))?;
        match tag.identifier.get() {
            tag_id::TERMINATING => break,
            tag_id::VOLUME_POINTER => {
                let Ok((pointer, _)) = VolumePointer::read_from_prefix(&bytes) else {
                    break;
                };
                (first, left) = in_blocks(blocks, pointer.next);
            }
            identifier => {
                prevailing.take(identifier, &bytes, first);
                first += 1;
                left -= 1;
            }
        }
    }
    finish(blocks, prevailing, start, which)
}

fn finish(blocks: &Blocks, prevailing: Prevailing, start: u64, which: &str) -> Result<VolumeDescriptors, MediumError> {
    let Some((_, volume, mut map_table, block)) = prevailing.volume else {
        let mismatch = Mismatch::new("a logical volume descriptor", "none");
        return Err(blocks.damaged(start, format!("the {which} volume descriptor sequence"), mismatch));
    };
    let damaged = |expected: String, found: String| {
        blocks.damaged(block, "the logical volume descriptor", Mismatch::new(expected, found))
    };
    if volume.block_bytes.get() != blocks.block_bytes {
        return Err(damaged(
            format!("blocks of {} bytes", blocks.block_bytes),
            volume.block_bytes.to_string(),
        ));
    }
    let domain = entity_text(&volume.domain.identifier);
    if domain != "*OSTA UDF Compliant" {
        return Err(damaged(
            "the domain *OSTA UDF Compliant".to_owned(),
            format!("{domain:?}"),
        ));
    }
    let map_bytes = usize::try_from(volume.map_table_length.get()).unwrap_or(usize::MAX);
    if map_bytes > map_table.len() {
        let room = map_table.len();
        return Err(damaged(
            format!("a partition map table of at most {room} bytes"),
            map_bytes.to_string(),
        ));
    }
    map_table.truncate(map_bytes);
    Ok(VolumeDescriptors {
        label: decode_dstring(&volume.identifier),
        revision: revision(blocks, &volume),
        file_set: volume.file_set,
        map_table,
        map_count: volume.map_count.get(),
        partitions: prevailing
            .partitions
            .into_iter()
            .map(|(number, (_, space))| (number, space))
            .collect(),
    })
}

fn in_blocks(blocks: &Blocks, extent: VolumeExtent) -> (u64, u64) {
    (
        u64::from(extent.location.get()),
        u64::from(extent.length.get() / blocks.block_bytes),
    )
}

/// The highest revision that the volume asks for: the domain's, or what its last integrity descriptor demands for
/// reading and writing. A damaged integrity sequence tells nothing and harms nothing.
fn revision(blocks: &Blocks, volume: &LogicalVolumeDescriptor) -> UdfRevision {
    let mut highest = UdfRevision(volume.domain.suffix_revision.get());
    let (mut first, mut left) = in_blocks(blocks, volume.integrity);
    let mut visited = HashSet::new();
    let mut last = None;
    while left > 0 && visited.len() < MAX_INTEGRITY_DESCRIPTORS && visited.insert(first) {
        let Ok(bytes) = blocks.read(first) else { break };
        if tag::require(&bytes, &[tag_id::INTEGRITY], u32::try_from(first).ok()).is_err() {
            break;
        }
        let Ok((integrity, tables)) = IntegrityDescriptor::read_from_prefix(&bytes) else {
            break;
        };
        // Two tables of 32-bit counts, one each partition, come before the implementation use.
        let skip = usize::try_from(integrity.partition_count.get())
            .unwrap_or(usize::MAX)
            .saturating_mul(8);
        last = tables
            .get(skip..)
            .and_then(|rest| IntegrityUse::read_from_prefix(rest).ok())
            .map(|(found, _)| found);
        let next = in_blocks(blocks, integrity.next);
        (first, left) = if next.1 > 0 { next } else { (first + 1, left - 1) };
    }
    if let Some(last) = last {
        highest = highest
            .max(UdfRevision(last.read_revision.get()))
            .max(UdfRevision(last.write_revision.get()));
    }
    highest
}
