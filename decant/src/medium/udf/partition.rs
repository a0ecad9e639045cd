// SPDX-License-Identifier: GPL-3.0-or-later
//! Partitions: turning a block of a partition into a block of the volume (ECMA-167 3/10.7, UDF 2.2.8 to 2.2.10).

use std::collections::BTreeMap;

use zerocopy::FromBytes;

use super::blocks::{Blocks, Mismatch};
use super::cs0::entity_text;
use super::format::{MetadataRest, SparableRest, Type1Map, Type2Map};
use super::sequence::{PartitionSpace, VolumeDescriptors};
use super::{metadata, sparing, vat};
use crate::medium::limits::MAX_VIRTUAL_BLOCKS;
use crate::medium::{Extent, MediumError};

/// How one entry of the partition map table finds its blocks.
#[derive(Debug)]
pub(super) enum Partition {
    /// Blocks behind one another (a type 1 map).
    Physical(PartitionSpace),
    /// The same, with some packets moved elsewhere: first block of the packet in the partition → in the volume.
    Sparable {
        space: PartitionSpace,
        packet_blocks: u32,
        moved: BTreeMap<u32, u32>,
    },
    /// Each block looked up in a table (write-once discs), which gives blocks of the underlying partition.
    Virtual { space: PartitionSpace, table: Vec<u32> },
    /// The blocks of a file that holds all metadata.
    Metadata { extents: Vec<Extent>, blocks: u64 },
    /// Not read yet: what it needs lies in another partition.
    Pending,
}

/// A run of blocks of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub block: u64,
    pub count: u64,
}

/// All partitions of a volume, by their number in the map table.
#[derive(Debug)]
pub(super) struct Partitions {
    pub blocks: Blocks,
    list: Vec<Partition>,
    /// The label that a virtual allocation table gives the volume, newer than the descriptor's.
    pub newer_label: Option<String>,
}

/// A map that needs another partition to be read first.
enum Later {
    Virtual,
    Metadata(MetadataRest),
}

impl Partitions {
    /// Reads the map table and what the maps need: sparing tables, virtual allocation table, metadata file.
    pub(super) fn open(blocks: &Blocks, volume: &VolumeDescriptors) -> Result<Self, MediumError> {
        let mut partitions = Self {
            blocks: blocks.clone(),
            list: Vec::new(),
            newer_label: None,
        };
        let mut later = Vec::new();
        let mut numbers = Vec::new();
        let mut rest = volume.map_table.as_slice();
        for index in 0..volume.map_count {
            let (map, next) = split_map(rest)
                .ok_or_else(|| partitions.bad_map(index, "a whole map", format!("{} bytes", rest.len())))?;
            rest = next;
            let (number, partition) = partitions.read_map(index, map, volume, &mut later)?;
            numbers.push(number);
            partitions.list.push(partition);
        }
        if partitions.list.is_empty() || partitions.list.len() > usize::from(u16::MAX) {
            return Err(partitions.bad_map(0, "1 to 65535 partition maps", partitions.list.len().to_string()));
        }
        partitions.check_size(later.iter().any(|(_, _, what)| matches!(what, Later::Virtual)))?;
        for (index, number, what) in later {
            let (below, space) = partitions.below(number, &numbers, volume)?;
            let partition = match what {
                Later::Virtual => vat::open(&mut partitions, below, space)?,
                Later::Metadata(map) => metadata::open(&partitions, below, map)?,
            };
            if let Some(slot) = partitions.list.get_mut(index) {
                *slot = partition;
            }
        }
        Ok(partitions)
    }

    fn read_map(
        &self,
        index: u32,
        map: &[u8],
        volume: &VolumeDescriptors,
        later: &mut Vec<(usize, u16, Later)>,
    ) -> Result<(u16, Partition), MediumError> {
        let space = |number: u16| {
            volume.partitions.get(&number).copied().ok_or_else(|| {
                let known: Vec<String> = volume.partitions.keys().map(u16::to_string).collect();
                self.bad_map(
                    index,
                    &format!("a partition with a descriptor ({})", known.join(", ")),
                    number.to_string(),
                )
            })
        };
        if let Ok(map) = Type1Map::read_from_bytes(map)
            && map.map_type == 1
        {
            let number = map.partition.get();
            return Ok((number, Partition::Physical(space(number)?)));
        }
        let Some(map) = Type2Map::read_from_bytes(map).ok().filter(|map| map.map_type == 2) else {
            let found = format!("type {} of {} bytes", map.first().copied().unwrap_or(0), map.len());
            return Err(self.bad_map(index, "type 1 of 6 bytes or type 2 of 64 bytes", found));
        };
        let number = map.partition.get();
        let kind = entity_text(&map.kind.identifier);
        let partition = match &*kind {
            "*UDF Virtual Partition" => {
                later.push((self.list.len(), number, Later::Virtual));
                Partition::Pending
            }
            "*UDF Metadata Partition" => {
                let Ok(rest) = MetadataRest::read_from_bytes(&map.rest) else {
                    return Err(self.bad_map(index, "a metadata map", "fewer bytes".to_owned()));
                };
                later.push((self.list.len(), number, Later::Metadata(rest)));
                Partition::Pending
            }
            "*UDF Sparable Partition" => {
                let Ok(rest) = SparableRest::read_from_bytes(&map.rest) else {
                    return Err(self.bad_map(index, "a sparable map", "fewer bytes".to_owned()));
                };
                sparing::open(&self.blocks, space(number)?, &rest)?
            }
            other => {
                return Err(self
                    .blocks
                    .unsupported(format!("partition map {index}"), format!("the map kind {other:?}")));
            }
        };
        Ok((number, partition))
    }

    /// The partition that a virtual or metadata partition lies on: another map with its number, else the bare
    /// partition, which is then added behind the numbered ones.
    fn below(
        &mut self,
        number: u16,
        numbers: &[u16],
        volume: &VolumeDescriptors,
    ) -> Result<(u16, PartitionSpace), MediumError> {
        let Some(space) = volume.partitions.get(&number).copied() else {
            return Err(self.bad_map(0, "a partition with a descriptor", number.to_string()));
        };
        let ready = |partition: &Partition| matches!(partition, Partition::Physical(_) | Partition::Sparable { .. });
        let index = self
            .list
            .iter()
            .zip(numbers)
            .position(|(partition, its)| *its == number && ready(partition));
        let index = index.unwrap_or_else(|| {
            self.list.push(Partition::Physical(space));
            self.list.len() - 1
        });
        Ok((u16::try_from(index).unwrap_or(u16::MAX), space))
    }

    fn bad_map(&self, index: u32, expected: &str, found: String) -> MediumError {
        let mismatch = Mismatch::new(expected, found);
        self.blocks.damaged(
            0,
            format!("partition map {index} of the logical volume descriptor"),
            mismatch,
        )
    }

    /// Refuses an image that is shorter than its partitions. Not on a write-once disc: there a partition reaches to the
    /// end of the blank disc, and the image ends where the last session does.
    fn check_size(&self, write_once: bool) -> Result<(), MediumError> {
        let end = self.list.iter().map(|partition| match partition {
            Partition::Physical(space) | Partition::Sparable { space, .. } => {
                u64::from(space.start).saturating_add(u64::from(space.length))
            }
            _ => 0,
        });
        let declared_bytes = self.blocks.offset(end.max().unwrap_or(0));
        let actual_bytes = crate::medium::ReadAt::len_bytes(&*self.blocks.disc);
        if write_once || declared_bytes <= actual_bytes {
            return Ok(());
        }
        Err(MediumError::Truncated {
            path: self.blocks.disc.path().to_owned(),
            file_system: "UDF",
            declared_bytes,
            actual_bytes,
        })
    }

    /// Where one block of a partition is.
    pub(super) fn place_one(&self, partition: u16, block: u32) -> Result<u64, Mismatch> {
        let mut place = 0;
        self.place(partition, block, 1, &mut MAX_VIRTUAL_BLOCKS.clone(), &mut |run| {
            place = run.block;
            Ok(())
        })?;
        Ok(place)
    }

    /// Gives the runs of volume blocks behind `count` blocks of a partition, in order. `lookups` is what is left of
    /// [`MAX_VIRTUAL_BLOCKS`].
    pub(super) fn place(
        &self,
        partition: u16,
        block: u32,
        count: u64,
        lookups: &mut u64,
        give: &mut dyn FnMut(Run) -> Result<(), Mismatch>,
    ) -> Result<(), Mismatch> {
        let Some(found) = self.list.get(usize::from(partition)) else {
            return Err(Mismatch::new(
                format!("a partition below {}", self.list.len()),
                partition.to_string(),
            ));
        };
        let first = u64::from(block);
        let inside = |size: u64| match first.checked_add(count) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Mismatch::new(
                format!("blocks of partition {partition}, which has {size}"),
                format!("{count} block(s) from {block}"),
            )),
        };
        match found {
            Partition::Physical(space) => {
                inside(u64::from(space.length))?;
                give(Run {
                    block: u64::from(space.start) + first,
                    count,
                })
            }
            Partition::Sparable {
                space,
                packet_blocks,
                moved,
            } => {
                inside(u64::from(space.length))?;
                sparing::place(*space, *packet_blocks, moved, Run { block: first, count }, give)
            }
            Partition::Virtual { space, table } => {
                inside(table.len() as u64)?;
                *lookups = lookups.checked_sub(count).ok_or_else(|| {
                    Mismatch::new(format!("at most {MAX_VIRTUAL_BLOCKS} virtual blocks a file"), "more")
                })?;
                let start = usize::try_from(block).unwrap_or(usize::MAX);
                let length = usize::try_from(count).unwrap_or(usize::MAX);
                let entries = table.iter().skip(start).take(length);
                entries
                    .zip(first..)
                    .try_for_each(|(physical, virtual_block)| match physical {
                        physical if *physical < space.length => give(Run {
                            block: u64::from(space.start) + u64::from(*physical),
                            count: 1,
                        }),
                        other => Err(Mismatch::new(
                            format!(
                                "a block below {} in the virtual allocation table's entry {virtual_block}",
                                space.length
                            ),
                            format!("{other:#x}"),
                        )),
                    })
            }
            Partition::Metadata { extents, blocks } => {
                inside(*blocks)?;
                metadata::place(
                    extents,
                    u64::from(self.blocks.block_bytes),
                    Run { block: first, count },
                    give,
                )
            }
            Partition::Pending => Err(Mismatch::new(
                "a partition of its own",
                "one that needs itself to be read",
            )),
        }
    }
}

/// The next map of the table and what follows it.
fn split_map(table: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(*table.get(1)?);
    if length < 2 {
        None
    } else {
        table.split_at_checked(length)
    }
}
