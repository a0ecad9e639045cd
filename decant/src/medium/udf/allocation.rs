// SPDX-License-Identifier: GPL-3.0-or-later
//! Allocation descriptors: from a file entry to the extents of its content (ECMA-167 4/12, 4/14.14, UDF 2.3.10, 2.3.11).

use std::collections::HashSet;

use zerocopy::FromBytes;

use super::blocks::{Blocks, Mismatch};
use super::format::{AllocationExtent, ExtendedAllocation, LongAllocation, ShortAllocation, tag_id};
use super::icb::Icb;
use super::partition::Partitions;
use super::tag;
use crate::medium::extents::{ExtentFile, ExtentList};
use crate::medium::limits::{MAX_ALLOCATION_EXTENTS, MAX_VIRTUAL_BLOCKS};
use crate::medium::{MediumError, ReadAt};

/// The low 30 bits of an extent length; the top two are its type.
const LENGTH_MASK: u32 = 0x3fff_ffff;
const RECORDED: u32 = 0;
const CONTINUATION: u32 = 3;

/// The content of a file.
#[derive(Debug)]
pub(super) enum Content {
    /// The bytes themselves, from inside the file entry.
    Inline(Vec<u8>),
    /// Where they are.
    Extents(ExtentList),
}

impl Content {
    /// Reads all of it, if it is no longer than `limit_bytes`.
    pub(super) fn into_bytes(self, blocks: &Blocks, subject: &str, limit_bytes: u64) -> Result<Vec<u8>, MediumError> {
        match self {
            Self::Inline(bytes) => Ok(bytes),
            Self::Extents(list) => {
                let length = list.len_bytes();
                let Some(length) = usize::try_from(length).ok().filter(|_| length <= limit_bytes) else {
                    return Err(blocks.limit(subject, limit_bytes, "bytes"));
                };
                let file = ExtentFile::new(blocks.disc.clone(), subject.to_owned(), blocks.block_bytes, list);
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            }
        }
    }

    /// Where on the medium a byte of the content is; `None` in a hole.
    pub(super) fn medium_offset(extents: &[crate::medium::Extent], offset: u64) -> Option<u64> {
        let index = extents.partition_point(|extent| extent.file_offset + extent.length_bytes <= offset);
        let extent = extents.get(index)?;
        Some(extent.medium_offset? + (offset - extent.file_offset))
    }
}

/// One allocation descriptor of any form.
struct Descriptor {
    kind: u32,
    /// Bytes of the file that it stands for.
    length: u32,
    partition: u16,
    block: u32,
    /// Set where recorded and information length differ: the extent is compressed.
    compressed: bool,
}

/// Collects a file's extents, through all its allocation extents. `subject` is what messages call the file.
pub(super) fn read(partitions: &Partitions, icb: &Icb, subject: &str) -> Result<Content, MediumError> {
    if icb.allocation_form == 3 {
        return inline(partitions, icb, subject);
    }
    let mut walk = Walk {
        partitions,
        icb,
        subject,
        list: ExtentList::default(),
        lookups: MAX_VIRTUAL_BLOCKS,
        place: icb.place,
    };
    let mut bytes = icb.allocation.clone();
    let mut visited = HashSet::new();
    while let Some((partition, block)) = walk.take(&bytes)? {
        if !visited.insert((partition, block)) {
            return Err(walk.damaged(Mismatch::new(
                "a chain with an end",
                "an allocation extent that leads back",
            )));
        }
        if visited.len() > MAX_ALLOCATION_EXTENTS {
            return Err(partitions
                .blocks
                .limit(subject, MAX_ALLOCATION_EXTENTS, "allocation extents"));
        }
        bytes = walk.continuation(partition, block)?;
    }
    let covered = walk.list.len_bytes();
    if covered < icb.information_length {
        let expected = format!("extents for {} bytes", icb.information_length);
        return Err(walk.damaged(Mismatch::new(expected, format!("for {covered}"))));
    }
    walk.list.truncate(icb.information_length);
    Ok(Content::Extents(walk.list))
}

fn inline(partitions: &Partitions, icb: &Icb, subject: &str) -> Result<Content, MediumError> {
    let bytes = usize::try_from(icb.information_length)
        .ok()
        .and_then(|length| icb.allocation.get(..length));
    bytes.map(|bytes| Content::Inline(bytes.to_vec())).ok_or_else(|| {
        let expected = format!("{} bytes of content in the file entry", icb.information_length);
        let mismatch = Mismatch::new(expected, icb.allocation.len().to_string());
        partitions
            .blocks
            .damaged(icb.place, format!("the file entry of {subject}"), mismatch)
    })
}

struct Walk<'a> {
    partitions: &'a Partitions,
    icb: &'a Icb,
    subject: &'a str,
    list: ExtentList,
    lookups: u64,
    /// The block with the descriptors at hand.
    place: u64,
}

impl Walk<'_> {
    fn damaged(&self, mismatch: Mismatch) -> MediumError {
        self.partitions
            .blocks
            .damaged(self.place, format!("the allocation of {}", self.subject), mismatch)
    }

    /// Takes one area of descriptors; gives where the next area is, if there is one.
    fn take(&mut self, area: &[u8]) -> Result<Option<(u16, u32)>, MediumError> {
        let mut rest = area;
        while self.list.len_bytes() < self.icb.information_length {
            let Some((descriptor, next)) = self.next(rest)? else {
                break;
            };
            rest = next;
            match (descriptor.length, descriptor.kind) {
                (0, _) => break, // A descriptor without a length ends them all (4/12).
                (_, CONTINUATION) => return Ok(Some((descriptor.partition, descriptor.block))),
                (length, RECORDED) => {
                    if descriptor.compressed {
                        let subject = self.subject.to_owned();
                        return Err(self
                            .partitions
                            .blocks
                            .unsupported(subject, "an extent with compressed content"));
                    }
                    self.recorded(&descriptor, u64::from(length))?;
                }
                (length, _) => self.push(None, u64::from(length))?,
            }
        }
        Ok(None)
    }

    fn next<'b>(&self, area: &'b [u8]) -> Result<Option<(Descriptor, &'b [u8])>, MediumError> {
        let (length, partition, block, information, recorded, rest) = match self.icb.allocation_form {
            0 => match ShortAllocation::read_from_prefix(area) {
                Ok((found, rest)) => (
                    found.length.get(),
                    self.icb.partition,
                    found.block.get(),
                    None,
                    None,
                    rest,
                ),
                Err(_) => return Ok(None),
            },
            1 => match LongAllocation::read_from_prefix(area) {
                Ok((found, rest)) => {
                    let address = found.address;
                    (
                        found.length.get(),
                        address.partition.get(),
                        address.block.get(),
                        None,
                        None,
                        rest,
                    )
                }
                Err(_) => return Ok(None),
            },
            2 => match ExtendedAllocation::read_from_prefix(area) {
                Ok((found, rest)) => {
                    let (information, recorded) = (found.information_length.get(), found.recorded_length.get());
                    let address = found.address;
                    let (partition, block) = (address.partition.get(), address.block.get());
                    (
                        found.length.get(),
                        partition,
                        block,
                        Some(information),
                        Some(recorded & LENGTH_MASK),
                        rest,
                    )
                }
                Err(_) => return Ok(None),
            },
            other => {
                return Err(self.damaged(Mismatch::new(
                    "allocation descriptors of form 0 to 3",
                    other.to_string(),
                )));
            }
        };
        let kind = length >> 30;
        let bytes = length & LENGTH_MASK;
        // A continuation and an end say nothing of the file's own bytes.
        let content = if kind == CONTINUATION || bytes == 0 {
            bytes
        } else {
            information.unwrap_or(bytes)
        };
        let compressed = recorded.is_some_and(|recorded| recorded != content) || content > bytes;
        Ok(Some((
            Descriptor {
                kind,
                length: content,
                partition,
                block,
                compressed,
            },
            rest,
        )))
    }

    fn recorded(&mut self, descriptor: &Descriptor, length_bytes: u64) -> Result<(), MediumError> {
        let block_bytes = u64::from(self.partitions.blocks.block_bytes);
        let mut left = length_bytes;
        let mut runs = Ok(());
        let (list, partitions) = (&mut self.list, self.partitions);
        let count = length_bytes.div_ceil(block_bytes);
        let placed = partitions.place(
            descriptor.partition,
            descriptor.block,
            count,
            &mut self.lookups,
            &mut |run| {
                let bytes = run.count.saturating_mul(block_bytes).min(left);
                left -= bytes;
                runs = list.push(Some(partitions.blocks.offset(run.block)), bytes);
                match runs {
                    Ok(()) => Ok(()),
                    Err(_) => Err(Mismatch::new("", "")), // Stops here; `runs` has the reason.
                }
            },
        );
        if let Err(reason) = runs {
            return Err(self.over(reason));
        }
        placed.map_err(|mismatch| self.damaged(mismatch))
    }

    fn push(&mut self, medium_offset: Option<u64>, length_bytes: u64) -> Result<(), MediumError> {
        self.list
            .push(medium_offset, length_bytes)
            .map_err(|reason| self.over(reason))
    }

    fn over(&self, reason: crate::medium::extents::ExtentListError) -> MediumError {
        reason.of(self.partitions.blocks.disc.path().to_owned(), self.subject.to_owned())
    }

    /// Reads an allocation extent descriptor and gives the descriptors in it.
    fn continuation(&mut self, partition: u16, block: u32) -> Result<Vec<u8>, MediumError> {
        let place = self
            .partitions
            .place_one(partition, block)
            .map_err(|mismatch| self.damaged(mismatch))?;
        let bytes = self.partitions.blocks.read(place)?;
        self.place = place;
        tag::require(&bytes, &[tag_id::ALLOCATION_EXTENT], Some(block)).map_err(|mismatch| self.damaged(mismatch))?;
        let Ok((header, rest)) = AllocationExtent::read_from_prefix(&bytes) else {
            return Err(self.damaged(Mismatch::new("an allocation extent descriptor", "fewer bytes")));
        };
        let length = header.allocation_length.get();
        let area = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        area.map(<[u8]>::to_vec).ok_or_else(|| {
            self.damaged(Mismatch::new(
                format!("at most {} bytes of descriptors", rest.len()),
                length.to_string(),
            ))
        })
    }
}
