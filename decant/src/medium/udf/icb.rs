// SPDX-License-Identifier: GPL-3.0-or-later
//! Information control blocks: the file entry behind a name (ECMA-167 4/14.6 to 4/14.9, 4/14.17).

use std::collections::HashSet;

use zerocopy::FromBytes;

use super::blocks::Mismatch;
use super::format::{ExtendedFileEntry, FileEntry, IcbTag, IndirectEntry, LongAllocation, Tag, tag_id};
use super::partition::Partitions;
use super::tag;
use crate::medium::MediumError;
use crate::medium::limits::MAX_ICB_CHAIN;

const FILE_ENTRIES: [u16; 2] = [tag_id::FILE_ENTRY, tag_id::EXTENDED_FILE_ENTRY];

/// Where a file's ICB begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::medium) struct IcbAddress {
    /// Number in the partition map table.
    pub(super) partition: u16,
    /// Block within the partition.
    pub(super) block: u32,
}

impl IcbAddress {
    pub(super) fn of(allocation: &LongAllocation) -> Self {
        Self {
            partition: allocation.address.partition.get(),
            block: allocation.address.block.get(),
        }
    }
}

/// A file entry, plain or extended, as far as reading needs it.
#[derive(Debug)]
pub(super) struct Icb {
    /// The partition that it lies in: the one that short allocation descriptors mean.
    pub partition: u16,
    /// Its block in the volume.
    pub place: u64,
    pub file_type: u8,
    /// The form of the allocation descriptors: 0 short, 1 long, 2 extended, 3 the content itself.
    pub allocation_form: u16,
    pub information_length: u64,
    pub modified_ns: Option<i64>,
    pub allocation: Vec<u8>,
}

impl Icb {
    /// Reads the file entry that holds now: under strategy 4096 the last one of a chain of rewritten entries.
    /// `subject` is what messages call the file.
    pub(super) fn read(partitions: &Partitions, address: IcbAddress, subject: &str) -> Result<Self, MediumError> {
        let mut current = None;
        let mut next = Some(address);
        let mut visited = HashSet::new();
        while let Some(address) = next.take() {
            if !visited.insert(address) {
                let mismatch = Mismatch::new("a chain with an end", "an entry that leads back");
                return Err(damaged(partitions, address, subject, mismatch));
            }
            if visited.len() > MAX_ICB_CHAIN {
                return Err(partitions.blocks.limit(
                    format!("the ICB of {subject}"),
                    MAX_ICB_CHAIN,
                    "rewritten entries",
                ));
            }
            match Self::read_entry(partitions, address, subject) {
                Ok(Found::Direct(icb, strategy)) => {
                    if strategy == 4096 {
                        next = indirect_behind(partitions, address);
                    }
                    current = Some(icb);
                }
                Ok(Found::Indirect(target)) => next = Some(target),
                // The next entry of a chain may be set aside and not written yet.
                Err(_) if current.is_some() && ends_sequence(partitions, address) => break,
                Err(error) => return Err(error),
            }
        }
        current.ok_or_else(|| {
            damaged(
                partitions,
                address,
                subject,
                Mismatch::new("a file entry", "a chain that ends without one"),
            )
        })
    }

    fn read_entry(partitions: &Partitions, address: IcbAddress, subject: &str) -> Result<Found, MediumError> {
        let fault = |mismatch| damaged(partitions, address, subject, mismatch);
        let place = partitions.place_one(address.partition, address.block).map_err(fault)?;
        let bytes = partitions.blocks.read(place)?;
        let accepted = [FILE_ENTRIES[0], FILE_ENTRIES[1], tag_id::INDIRECT_ENTRY];
        let tag = tag::require(&bytes, &accepted, Some(address.block)).map_err(fault)?;
        if tag.identifier.get() == tag_id::INDIRECT_ENTRY {
            let (entry, _) = IndirectEntry::read_from_prefix(&bytes)
                .map_err(|_| fault(Mismatch::new("an indirect entry", "fewer bytes")))?;
            return Ok(Found::Indirect(IcbAddress::of(&entry.target)));
        }
        let (icb_tag, fields, rest) = split(&bytes, tag.identifier.get())
            .ok_or_else(|| fault(Mismatch::new("a file entry", format!("{} bytes", bytes.len()))))?;
        let strategy = icb_tag.strategy.get();
        if !matches!(strategy, 4 | 4096) {
            let what = format!("the file entry of {subject}");
            return Err(partitions.blocks.unsupported(what, format!("ICB strategy {strategy}")));
        }
        let range = usize::try_from(fields.attributes_length)
            .ok()
            .and_then(|start| Some(start..start.checked_add(usize::try_from(fields.allocation_length).ok()?)?));
        let allocation = range.and_then(|range| rest.get(range)).ok_or_else(|| {
            fault(Mismatch::new(
                format!("attributes and allocation of at most {} bytes", rest.len()),
                format!("{} + {} bytes", fields.attributes_length, fields.allocation_length),
            ))
        })?;
        let icb = Self {
            partition: address.partition,
            place,
            file_type: icb_tag.file_type,
            allocation_form: icb_tag.flags.get() & 7,
            information_length: fields.information_length,
            modified_ns: fields.modified_ns,
            allocation: allocation.to_vec(),
        };
        Ok(Found::Direct(icb, strategy))
    }
}

/// What an ICB's block holds.
enum Found {
    Direct(Icb, u16),
    Indirect(IcbAddress),
}

/// What file entries of both kinds have, under one roof.
struct Fields {
    information_length: u64,
    modified_ns: Option<i64>,
    attributes_length: u32,
    allocation_length: u32,
}

fn split(bytes: &[u8], identifier: u16) -> Option<(IcbTag, Fields, &[u8])> {
    if identifier == tag_id::FILE_ENTRY {
        let (entry, rest) = FileEntry::read_from_prefix(bytes).ok()?;
        let fields = Fields {
            information_length: entry.information_length.get(),
            modified_ns: entry.modified.unix_ns(),
            attributes_length: entry.attributes_length.get(),
            allocation_length: entry.allocation_length.get(),
        };
        Some((entry.icb, fields, rest))
    } else {
        let (entry, rest) = ExtendedFileEntry::read_from_prefix(bytes).ok()?;
        let fields = Fields {
            information_length: entry.information_length.get(),
            modified_ns: entry.modified.unix_ns(),
            attributes_length: entry.attributes_length.get(),
            allocation_length: entry.allocation_length.get(),
        };
        Some((entry.icb, fields, rest))
    }
}

/// The indirect entry in the block behind a strategy 4096 entry (4/14.7, UDF 2.3.5.1).
fn indirect_behind(partitions: &Partitions, address: IcbAddress) -> Option<IcbAddress> {
    let block = address.block.checked_add(1)?;
    let place = partitions.place_one(address.partition, block).ok()?;
    let bytes = partitions.blocks.read(place).ok()?;
    tag::require(&bytes, &[tag_id::INDIRECT_ENTRY], Some(block)).ok()?;
    let (entry, _) = IndirectEntry::read_from_prefix(&bytes).ok()?;
    (entry.target.length.get() & 0x3fff_ffff != 0).then(|| IcbAddress::of(&entry.target))
}

/// Whether a block ends a sequence of descriptors: a terminating one, an empty block, or one that was never written and
/// so cannot be read. Anything else there is damage.
pub(super) fn ends_sequence(partitions: &Partitions, address: IcbAddress) -> bool {
    let Ok(place) = partitions.place_one(address.partition, address.block) else {
        return false;
    };
    let Ok(bytes) = partitions.blocks.read(place) else {
        return true;
    };
    let terminators = [tag_id::TERMINATING, tag_id::TERMINAL_ENTRY];
    bytes.iter().all(|byte| *byte == 0) || tag::require(&bytes, &terminators, Some(address.block)).is_ok()
}

/// The file type and tag location of a block that is a whole file entry of either kind.
pub(super) fn peek_file_type(bytes: &[u8]) -> Option<(u8, u32)> {
    let tag = tag::require(bytes, &FILE_ENTRIES, None).ok()?;
    let (icb, _) = IcbTag::read_from_prefix(bytes.get(size_of::<Tag>()..)?).ok()?;
    Some((icb.file_type, tag.location.get()))
}

fn damaged(partitions: &Partitions, address: IcbAddress, subject: &str, mismatch: Mismatch) -> MediumError {
    let IcbAddress { partition, block } = address;
    let structure = format!("the file entry of {subject} (block {block} of partition {partition})");
    let place = partitions.place_one(partition, block).unwrap_or(0);
    partitions.blocks.damaged(place, structure, mismatch)
}
