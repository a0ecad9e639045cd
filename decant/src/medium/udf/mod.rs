// SPDX-License-Identifier: GPL-3.0-or-later
//! UDF 1.02 to 2.60: ECMA-167 (3rd edition) as the OSTA UDF specification narrows it.
//!
//! The way from a disc to a file: anchor → volume descriptor sequence → partitions → file set → root's ICB → file
//! identifiers → ICB → allocation descriptors → extents. Each descriptor's checksum, CRC and location are checked. Named
//! streams (UDF 2.00) and extended attributes are passed over: no Windows medium has any.

mod allocation;
mod anchor;
mod blocks;
mod cs0;
mod directory;
mod format;
mod icb;
mod metadata;
mod partition;
mod sequence;
mod sparing;
mod tag;
mod timestamp;
mod vat;

use std::collections::HashSet;
use std::sync::Arc;

use zerocopy::FromBytes;

use self::allocation::Content;
use self::anchor::AnchorPoint;
use self::blocks::{Blocks, Mismatch};
use self::format::{FileSet, LongAllocation, file_type, tag_id};
use self::icb::Icb;
pub(super) use self::icb::IcbAddress;
use self::partition::Partitions;
use self::sequence::VolumeDescriptors;
use super::entry::Location;
use super::extents::{ExtentFile, InlineFile};
use super::host_file::HostFile;
use super::limits::{MAX_FILE_SETS, MAX_SYMLINK_BYTES};
use super::name::{check_names, join, pick};
use super::{Entry, EntryKind, Extent, FileSystem, MediumError, MediumKind, ReadAt, UdfRevision};

/// Where the volume recognition sequence begins (ECMA-167 2/8.3), and how far it is followed here.
const RECOGNITION_OFFSET: u64 = 32_768;
const RECOGNITION_BYTES: usize = 64 * 2048;

/// An open UDF volume.
#[derive(Debug)]
pub(super) struct Volume {
    partitions: Partitions,
    label: String,
    revision: UdfRevision,
    anchor_block: u64,
    root: IcbAddress,
}

impl Volume {
    /// Opens the last whole session of a UDF disc; `None` if there is no anchor on it.
    pub(super) fn open(disc: &Arc<HostFile>) -> Result<Option<Self>, MediumError> {
        let Some((blocks, anchors)) = anchor::find(disc)? else {
            return Ok(None);
        };
        let mut candidates: Vec<_> = anchors
            .into_iter()
            .map(|anchor| (anchor, sequence::read(&blocks, &anchor)))
            .collect();
        let write_once =
            |volume: &VolumeDescriptors| volume.map_table.windows(22).any(|at| at == b"*UDF Virtual Partition");
        if candidates
            .iter()
            .any(|(_, volume)| volume.as_ref().is_ok_and(write_once))
            && let Some(last) = anchor::of_last_session(&blocks)?
        {
            candidates.insert(0, (last, sequence::read(&blocks, &last)));
        }
        let mut fault: Option<MediumError> = None;
        for (anchor, volume) in candidates {
            match volume.and_then(|volume| Self::open_session(&blocks, anchor, volume)) {
                Ok(volume) => return Ok(Some(volume)),
                // That bytes are missing explains all other faults.
                Err(error @ MediumError::Truncated { .. }) => fault = Some(error),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(None), Err)
    }

    fn open_session(blocks: &Blocks, anchor: AnchorPoint, volume: VolumeDescriptors) -> Result<Self, MediumError> {
        let partitions = Partitions::open(blocks, &volume)?;
        let file_set = read_file_set(&partitions, volume.file_set)?;
        let root = IcbAddress::of(&file_set.root);
        let volume = Self {
            label: partitions.newer_label.clone().unwrap_or(volume.label),
            partitions,
            revision: volume.revision,
            anchor_block: anchor.block,
            root,
        };
        // A session whose root cannot be read is not whole.
        let icb = Icb::read(&volume.partitions, root, "the root directory")?;
        if icb.file_type != file_type::DIRECTORY {
            let mismatch = Mismatch::new("a directory (file type 4)", icb.file_type.to_string());
            return Err(volume
                .partitions
                .blocks
                .damaged(icb.place, "the file entry of the root directory", mismatch));
        }
        Ok(volume)
    }

    /// What it is; `iso9660_too` says whether the disc is a bridge.
    pub(super) fn kind(&self, iso9660_too: bool) -> MediumKind {
        MediumKind::Udf {
            revision: self.revision,
            block_bytes: self.partitions.blocks.block_bytes,
            anchor_block: self.anchor_block,
            iso9660_too,
        }
    }

    /// The logical volume identifier.
    pub(super) fn label(&self) -> Option<String> {
        Some(self.label.clone())
    }

    fn address(&self, entry: &Entry) -> Result<IcbAddress, MediumError> {
        match entry.location {
            Location::Udf(address) => Ok(address),
            Location::Iso(_) | Location::Host(_) => Err(MediumError::NotFound {
                path: self.partitions.blocks.disc.path().to_owned(),
                entry: entry.path.clone(),
            }),
        }
    }

    fn identifiers(&self, directory: &Entry) -> Result<Vec<directory::Identifier>, MediumError> {
        let icb = Icb::read(&self.partitions, self.address(directory)?, &subject(&directory.path))?;
        directory::read(&self.partitions, &icb, &directory.path)
    }

    fn entry(&self, directory: &Entry, identifier: &directory::Identifier) -> Result<Entry, MediumError> {
        let path = join(&directory.path, &identifier.name);
        let icb = Icb::read(&self.partitions, identifier.icb, &subject(&path))?;
        let kind = match icb.file_type {
            file_type::DIRECTORY => EntryKind::Directory,
            file_type::UNSPECIFIED | file_type::BYTES | file_type::REAL_TIME => EntryKind::File,
            file_type::SYMLINK => EntryKind::Symlink {
                target: self.link_target(&icb, &path),
            },
            _ => EntryKind::Other,
        };
        Ok(Entry {
            size_bytes: if kind == EntryKind::File {
                icb.information_length
            } else {
                0
            },
            path,
            kind,
            modified_ns: icb.modified_ns,
            stored_compressed: false,
            location: Location::Udf(identifier.icb),
        })
    }

    fn link_target(&self, icb: &Icb, path: &str) -> String {
        allocation::read(&self.partitions, icb, path)
            .and_then(|content| content.into_bytes(&self.partitions.blocks, path, MAX_SYMLINK_BYTES as u64))
            .map(|components| directory::link_target(&components))
            .unwrap_or_default()
    }

    fn content(&self, file: &Entry) -> Result<Content, MediumError> {
        let icb = Icb::read(&self.partitions, self.address(file)?, &subject(&file.path))?;
        allocation::read(&self.partitions, &icb, &file.path)
    }
}

impl FileSystem for Volume {
    fn root(&self) -> Entry {
        Entry {
            path: String::new(),
            kind: EntryKind::Directory,
            size_bytes: 0,
            modified_ns: None,
            stored_compressed: false,
            location: Location::Udf(self.root),
        }
    }

    fn children(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        let identifiers = self.identifiers(directory)?;
        let disc_path = self.partitions.blocks.disc.path();
        check_names(
            disc_path,
            &directory.path,
            identifiers.iter().map(|identifier| identifier.name.as_str()),
        )?;
        identifiers
            .iter()
            .map(|identifier| self.entry(directory, identifier))
            .collect()
    }

    fn find(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError> {
        let identifiers = self.identifiers(directory)?;
        let found = pick(
            identifiers
                .iter()
                .map(|identifier| (identifier.name.as_str(), identifier)),
            name,
        );
        found.map(|identifier| self.entry(directory, identifier)).transpose()
    }

    fn open(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        let blocks = &self.partitions.blocks;
        Ok(match self.content(file)? {
            Content::Inline(bytes) => Arc::new(InlineFile::new(&blocks.disc, &file.path, bytes)),
            Content::Extents(list) => Arc::new(ExtentFile::new(
                Arc::clone(&blocks.disc),
                file.path.clone(),
                blocks.block_bytes,
                list,
            )),
        })
    }

    fn extents(&self, file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        Ok(match self.content(file)? {
            Content::Inline(_) => None,
            Content::Extents(list) => Some(list.into_extents()),
        })
    }

    fn identity(&self, directory: &Entry) -> Option<(u64, u64)> {
        let address = self.address(directory).ok()?;
        Some((u64::from(address.partition), u64::from(address.block)))
    }
}

fn subject(path: &str) -> String {
    format!("/{path}")
}

/// The file set that holds now: the one with the highest number of the sequence (ECMA-167 4/8.3.1).
fn read_file_set(partitions: &Partitions, first: LongAllocation) -> Result<FileSet, MediumError> {
    let mut newest: Option<FileSet> = None;
    let mut next = Some(first);
    let mut visited = HashSet::new();
    while let Some(extent) = next.take() {
        let address = IcbAddress::of(&extent);
        let count = (extent.length.get() & 0x3fff_ffff).div_ceil(partitions.blocks.block_bytes);
        for step in 0..count {
            let block = address.block.saturating_add(step);
            if !visited.insert((address.partition, block)) || visited.len() > MAX_FILE_SETS {
                return newest.ok_or_else(|| partitions.blocks.limit("the file set", MAX_FILE_SETS, "descriptors"));
            }
            match read_file_set_at(partitions, IcbAddress { block, ..address }) {
                Ok(found) => {
                    next = (found.next.length.get() & 0x3fff_ffff > 0).then_some(found.next);
                    if newest.is_none_or(|known| number(&found) >= number(&known)) {
                        newest = Some(found);
                    }
                }
                Err(_) if newest.is_some() && icb::ends_sequence(partitions, IcbAddress { block, ..address }) => break,
                Err(error) => return Err(error),
            }
        }
    }
    newest.ok_or_else(|| {
        let mismatch = Mismatch::new("a file set descriptor", "an extent of no bytes");
        partitions
            .blocks
            .damaged(0, "the file set of the logical volume descriptor", mismatch)
    })
}

fn number(file_set: &FileSet) -> (u32, u32) {
    (file_set.number.get(), file_set.descriptor_number.get())
}

fn read_file_set_at(partitions: &Partitions, address: IcbAddress) -> Result<FileSet, MediumError> {
    let blocks = &partitions.blocks;
    let IcbAddress { partition, block } = address;
    let structure = || format!("the file set descriptor (block {block} of partition {partition})");
    let place = partitions
        .place_one(partition, block)
        .map_err(|mismatch| blocks.damaged(0, structure(), mismatch))?;
    let bytes = blocks.read(place)?;
    tag::require(&bytes, &[tag_id::FILE_SET], Some(block))
        .map_err(|mismatch| blocks.damaged(place, structure(), mismatch))?;
    FileSet::read_from_prefix(&bytes)
        .map(|(file_set, _)| file_set)
        .map_err(|_| {
            blocks.damaged(
                place,
                structure(),
                Mismatch::new("a file set descriptor", format!("{} bytes", bytes.len())),
            )
        })
}

/// Says so if a disc names UDF in its recognition sequence: with no anchor on it, that is a damaged or cut-off UDF disc.
pub(super) fn recognized_only(disc: &Arc<HostFile>) -> Result<Option<String>, MediumError> {
    let bytes = disc.up_to(RECOGNITION_OFFSET, RECOGNITION_BYTES)?;
    let found = bytes.chunks(512).find_map(|sector| match sector.get(1..6) {
        Some(name @ (b"NSR02" | b"NSR03")) => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    });
    Ok(found.map(|name| {
        format!(
            "it has {name} in its recognition sequence (UDF), but no whole anchor at LBA 256, at 512 or at its end: it is \
             damaged or truncated ({} bytes)",
            disc.len_bytes()
        )
    }))
}
