// SPDX-License-Identifier: GPL-3.0-or-later
//! ISO 9660 (ECMA-119) with Joliet and Rock Ridge.
//!
//! A disc may carry up to three names for each file: Rock Ridge's are taken where there are any, then Joliet's, then the
//! plain ones. Files in several extents are joined, so that sizes are 64 bits wide. zisofs content is given as stored.

mod directory;
mod format;
mod names;
mod rock_ridge;
mod susp;
mod volume;

use std::collections::HashMap;
use std::sync::Arc;

use self::directory::Records;
use self::format::{Both32, Record, file_flags};
use self::names::{joliet_name, split_version, text, without_empty_extension};
use self::rock_ridge::{RockRidge, mode};
use self::volume::{Image, SECTOR_BYTES, Session};
use super::entry::Location;
use super::extents::{ExtentFile, ExtentList};
use super::host_file::HostFile;
use super::limits::{MAX_DIRECTORY_BYTES, MAX_SESSIONS};
use super::name::{check_names, join, pick};
use super::{Entry, EntryKind, Extent, FileSystem, MediumError, MediumKind, ReadAt};

/// One run of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct IsoExtent {
    /// Its first logical block.
    block: u64,
    bytes: u32,
}

/// Where a file's content is.
#[derive(Debug, Clone)]
pub(super) struct IsoLocation {
    extents: Vec<IsoExtent>,
    /// What keeps the content from being read, as the error says it.
    unsupported: Option<String>,
}

/// Which of the disc's trees is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tree {
    Plain,
    Joliet,
    /// With how many bytes to skip in each system use area.
    RockRidge(usize),
}

/// An open ISO 9660 volume.
#[derive(Debug)]
pub(super) struct Volume {
    session: Session,
    tree: Tree,
    root: IsoExtent,
}

/// Whether there is a volume descriptor where the first session has it.
pub(super) fn is_present(disc: &HostFile) -> Result<bool, MediumError> {
    volume::is_present(disc, 0)
}

impl Volume {
    /// Opens the last whole session; `None` if this is no ISO 9660 disc.
    pub(super) fn open(disc: &Arc<HostFile>) -> Result<Option<Self>, MediumError> {
        let Some(first) = Session::read(disc, 0)? else {
            return Ok(None);
        };
        let mut next = first.next_start()?;
        let mut last = Self::open_session(first);
        for _ in 1..MAX_SESSIONS {
            let Some(start) = next else { break };
            // What looks like a session but is not whole is none: the one before it holds.
            let Ok(Some(session)) = Session::read(disc, start) else {
                break;
            };
            next = session.next_start()?;
            match Self::open_session(session) {
                Ok(volume) => last = Ok(volume),
                Err(_) => break,
            }
        }
        last.map(Some)
    }

    fn open_session(session: Session) -> Result<Self, MediumError> {
        session.check_size()?;
        let image = &session.image;
        let plain_root = directory::extent(image, &session.root, session.root_offset, "the root directory's record")?;
        let (own, area, area_offset) = own_record(image, plain_root, "")?;
        let own_block = image.both32(own.block, area_offset, "the root directory's own record")?;
        if u64::from(own_block) + u64::from(own.attribute_blocks) != plain_root.block {
            let expected = format!("the root directory's own record (block {})", plain_root.block);
            let offset = plain_root.block * u64::from(image.block_bytes);
            return Err(image.damaged(offset, "the root directory", expected, format!("block {own_block}")));
        }
        let rock_ridge = match susp::start(&area) {
            Some(skip) if rock_ridge::read(image, &area, area_offset, "the root directory")?.present => Some(skip),
            _ => None,
        };
        let (tree, root) = match (rock_ridge, session.joliet) {
            (Some(skip), _) => (Tree::RockRidge(skip), plain_root),
            (None, Some(joliet)) => {
                let what = "the Joliet root directory's record";
                (
                    Tree::Joliet,
                    directory::extent(image, &joliet.root, joliet.root_offset, what)?,
                )
            }
            (None, None) => (Tree::Plain, plain_root),
        };
        Ok(Self { session, tree, root })
    }

    /// What it is; `udf_too` says whether the disc is a bridge.
    pub(super) fn kind(&self, udf_too: bool) -> MediumKind {
        MediumKind::Iso9660 {
            joliet: self.session.joliet.map(|joliet| joliet.level),
            rock_ridge: matches!(self.tree, Tree::RockRidge(_)),
            block_bytes: self.session.image.block_bytes,
            session_block: self.session.start * (SECTOR_BYTES / u64::from(self.session.image.block_bytes)),
            udf_too,
        }
    }

    /// The volume identifier.
    pub(super) fn label(&self) -> Option<String> {
        Some(self.session.label())
    }

    fn location<'a>(&self, entry: &'a Entry) -> Result<&'a IsoLocation, MediumError> {
        match &entry.location {
            Location::Iso(location) => Ok(location),
            Location::Udf(_) | Location::Host(_) => Err(MediumError::NotFound {
                path: self.session.image.disc.path().to_owned(),
                entry: entry.path.clone(),
            }),
        }
    }

    fn list(&self, path: &str, extents: &[IsoExtent]) -> Result<ExtentList, MediumError> {
        let image = &self.session.image;
        let mut list = ExtentList::default();
        for extent in extents {
            let offset = extent.block * u64::from(image.block_bytes);
            list.push(Some(offset), u64::from(extent.bytes))
                .map_err(|reason| reason.of(image.disc.path().to_owned(), format!("/{path}")))?;
        }
        Ok(list)
    }

    /// A directory's entries, in the order of the disc, moved and older ones left out.
    fn entries(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        let image = &self.session.image;
        let location = self.location(directory)?;
        let list = self.list(&directory.path, &location.extents)?;
        let length = list.len_bytes();
        if length > MAX_DIRECTORY_BYTES {
            return Err(MediumError::Limit {
                path: image.disc.path().to_owned(),
                subject: format!("the directory /{}", directory.path),
                limit: MAX_DIRECTORY_BYTES,
                unit: "bytes",
            });
        }
        let runs = list.extents().to_vec();
        let file = ExtentFile::new(
            Arc::clone(&image.disc),
            format!("/{}", directory.path),
            image.block_bytes,
            list,
        );
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        let offset_of = |at: usize| {
            let at = at as u64;
            let index = runs.partition_point(|run| run.file_offset + run.length_bytes <= at);
            runs.get(index)
                .map_or(0, |run| run.medium_offset.unwrap_or(0) + (at - run.file_offset))
        };
        let files = directory::read(image, &bytes, offset_of, &directory.path)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(files.len());
        let mut versions: HashMap<String, (u32, usize)> = HashMap::new();
        for file in files {
            let Some((entry, version)) = self.entry(directory, file)? else {
                continue;
            };
            // Of several versions of a file (never written today) the highest is the file.
            match versions.get(entry.name()).copied() {
                Some((known, index)) if known != version => {
                    if version > known {
                        versions.insert(entry.name().to_owned(), (version, index));
                        if let Some(slot) = entries.get_mut(index) {
                            *slot = entry;
                        }
                    }
                }
                _ => {
                    versions.insert(entry.name().to_owned(), (version, entries.len()));
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }

    /// The entry for a file's records and its version; `None` for a directory that belongs elsewhere.
    fn entry(&self, directory: &Entry, records: Records) -> Result<Option<(Entry, u32)>, MediumError> {
        let image = &self.session.image;
        let raw = match self.tree {
            Tree::Joliet => joliet_name(&records.identifier),
            Tree::Plain | Tree::RockRidge(_) => text(&records.identifier),
        };
        let (stem, version) = split_version(&raw);
        let plain_name = if self.tree == Tree::Joliet {
            stem
        } else {
            without_empty_extension(stem)
        };
        let rock_ridge = match self.tree {
            Tree::RockRidge(skip) => {
                let area = records.system_use.get(skip..).unwrap_or_default();
                let subject = format!("the system use area of /{}", join(&directory.path, plain_name));
                rock_ridge::read(image, area, records.system_use_offset + skip as u64, &subject)?
            }
            Tree::Plain | Tree::Joliet => RockRidge::default(),
        };
        if rock_ridge.relocated {
            return Ok(None);
        }
        let name = rock_ridge.name.as_deref().unwrap_or(plain_name);
        let path = join(&directory.path, name);
        let mut extents = records.extents;
        let mut is_directory = records.flags & file_flags::DIRECTORY != 0;
        if let Some(block) = rock_ridge.child_block {
            extents = vec![self.moved_directory(block, records.system_use_offset, &path)?];
            is_directory = true;
        }
        let kind = match rock_ridge.mode.map(|mode| mode & mode::TYPE_MASK) {
            _ if is_directory => EntryKind::Directory,
            Some(mode::SYMLINK) => EntryKind::Symlink {
                target: rock_ridge.link_target.unwrap_or_default(),
            },
            Some(mode::REGULAR | mode::DIRECTORY) | None => EntryKind::File,
            Some(_) => EntryKind::Other,
        };
        let unsupported = match records.interleaved {
            Some((unit, gap)) => Some(format!("interleaving (file unit size {unit}, gap size {gap})")),
            None => rock_ridge.sparse.then(|| "a Rock Ridge sparse file (SF)".to_owned()),
        };
        let size_bytes = match kind {
            EntryKind::File => extents
                .iter()
                .fold(0_u64, |sum, extent| sum.saturating_add(u64::from(extent.bytes))),
            _ => 0,
        };
        let entry = Entry {
            path,
            kind,
            size_bytes,
            modified_ns: rock_ridge.modified_ns.or(records.modified_ns),
            stored_compressed: rock_ridge.compressed,
            location: Location::Iso(IsoLocation { extents, unsupported }),
        };
        Ok(Some((entry, version)))
    }

    /// The directory that a `CL` entry leads to; its size is in its own record.
    fn moved_directory(&self, block: Both32, offset: u64, path: &str) -> Result<IsoExtent, MediumError> {
        let image = &self.session.image;
        let block = u64::from(image.both32(block, offset, &format!("the child link of /{path}"))?);
        let at = IsoExtent {
            block,
            bytes: image.block_bytes,
        };
        let (own, _, own_offset) = own_record(image, at, path)?;
        let extent = directory::extent(image, &own, own_offset, &format!("the own record of /{path}"))?;
        if extent.block == block + u64::from(own.attribute_blocks) {
            return Ok(extent);
        }
        let expected = format!("a moved directory's own record (block {block})");
        Err(image.damaged(
            own_offset,
            format!("the directory /{path}"),
            expected,
            format!("block {}", extent.block),
        ))
    }

    fn content(&self, file: &Entry) -> Result<ExtentList, MediumError> {
        let location = self.location(file)?;
        if let Some(feature) = &location.unsupported {
            return Err(MediumError::Unsupported {
                path: self.session.image.disc.path().to_owned(),
                subject: file.path.clone(),
                feature: feature.clone(),
            });
        }
        self.list(&file.path, &location.extents)
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
            location: Location::Iso(IsoLocation {
                extents: vec![self.root],
                unsupported: None,
            }),
        }
    }

    fn children(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        let entries = self.entries(directory)?;
        let disc_path = self.session.image.disc.path();
        check_names(
            disc_path,
            &directory.path,
            entries.iter().map(|entry| relative(directory, entry)),
        )?;
        Ok(entries)
    }

    fn find(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError> {
        let entries = self.entries(directory)?;
        Ok(pick(entries.iter().map(|entry| (relative(directory, entry), entry)), name).cloned())
    }

    fn open(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        let image = &self.session.image;
        let list = self.content(file)?;
        Ok(Arc::new(ExtentFile::new(
            Arc::clone(&image.disc),
            file.path.clone(),
            image.block_bytes,
            list,
        )))
    }

    fn extents(&self, file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        Ok(Some(self.content(file)?.into_extents()))
    }

    fn identity(&self, directory: &Entry) -> Option<(u64, u64)> {
        let location = self.location(directory).ok()?;
        location.extents.first().map(|extent| (extent.block, 0))
    }
}

/// What a directory calls an entry, even where that has a `/` in it.
fn relative<'a>(directory: &Entry, entry: &'a Entry) -> &'a str {
    let prefix = if directory.path.is_empty() {
        0
    } else {
        directory.path.len() + 1
    };
    entry.path.get(prefix..).unwrap_or_default()
}

/// A directory's record of itself: the first one in it. Gives its header and its system use area with its place.
fn own_record(image: &Image, directory: IsoExtent, path: &str) -> Result<(Record, Vec<u8>, u64), MediumError> {
    let offset = directory.block * u64::from(image.block_bytes);
    let bytes = image.read(offset, image.block_bytes as usize)?;
    let subject = || format!("the directory /{path}");
    match directory::split_record(&bytes) {
        Ok(record) if record.identifier == [0] => Ok((
            record.header,
            record.system_use.to_vec(),
            offset + record.system_use_at as u64,
        )),
        Ok(record) => {
            let found = text(record.identifier);
            Err(image.damaged(
                offset,
                subject(),
                "the directory's own record first",
                format!("{found:?}"),
            ))
        }
        Err((expected, found)) => Err(image.damaged(offset, subject(), expected, found)),
    }
}
