// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading one layer: the `files/` of one world, by NT paths.
//!
//! Nothing is cached but the tables of `:nt`, so that what another process changes is seen. A sealed layer's index
//! makes lookups fast; this is the plain way, which needs none.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use crate::beneath::{open_dir, open_dir_entry, open_file_entry, open_root};
use crate::error::{Error, Result, Trying};
use crate::listing::{self, Listed};
use crate::lookup::{Place, Slot, own_short_name};
use crate::meta::{NtMetadata, disk};
use crate::name::{NtName, NtPath, PathId, StoredName, StreamName};
use crate::store::table::{NameTable, SecurityTable};
use crate::store::{ExtraKey, REPARSE, RESERVED, STREAMS, SecurityId};
use crate::tree::read_tables;

/// The most bytes of reparse data ([MS-FSCC] 2.1.2: MAXIMUM_REPARSE_DATA_BUFFER_SIZE).
pub const MAX_REPARSE_BYTES: u64 = 16 * 1024;

/// What an entry is to Linux. A reparse point is one of both, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl Kind {
    /// `a file` or `a directory`.
    pub fn words(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
        }
    }
}

/// A file or directory of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as it is spelled, and how it is kept.
    pub stored: StoredName,
    /// What it is.
    pub kind: Kind,
    /// The length of its bytes; 0 for a directory.
    pub size_bytes: u64,
    /// How many names a file has; 1 for a directory.
    pub links: u64,
    /// The inode, which the names of a hard-link group share.
    pub ino: u64,
    /// Its NT metadata. The short name is there only if it belongs to this name.
    pub meta: NtMetadata,
}

impl Entry {
    /// Its NT name.
    pub fn name(&self) -> &NtName {
        self.stored.name()
    }
}

/// A named stream of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: StreamName,
    /// The length of its bytes.
    pub size_bytes: u64,
}

/// The files of one world, without those of its parents.
#[derive(Debug)]
pub struct Layer {
    path: PathBuf,
    root: OwnedFd,
    security: RwLock<SecurityTable>,
    names: RwLock<Arc<NameTable>>,
    /// Only of a layer that does not change.
    pub(crate) cache: Option<Slot>,
}

/// Where a path led.
pub(crate) struct Found {
    /// The directory that the entry is in; the root's own for the root.
    pub dir: OwnedFd,
    /// The entry; `None` for the root.
    pub entry: Option<Listed>,
    /// The path as its names are spelled on the disk.
    pub nt_path: NtPath,
    /// Where it is on Linux, for messages.
    pub path: PathBuf,
}

impl Found {
    pub fn kind(&self) -> Kind {
        match &self.entry {
            Some(entry) if !entry.is_directory => Kind::File,
            _ => Kind::Directory,
        }
    }

    pub fn open(&self) -> Result<OwnedFd> {
        match &self.entry {
            None => self.dir.try_clone().trying("open", &self.path),
            Some(entry) if entry.is_directory => {
                open_dir_entry(&self.dir, entry.stored.as_str()).trying("open", &self.path)
            }
            Some(entry) => open_file_entry(&self.dir, entry.stored.as_str()).trying("open", &self.path),
        }
    }
}

impl Layer {
    /// Opens the `files/` of a world.
    ///
    /// # Errors
    /// When it is no directory, or its `:nt` is damaged.
    pub fn open(files: impl Into<PathBuf>) -> Result<Self> {
        let path = files.into();
        let root = open_root(&path).trying("open", &path)?;
        let (security, names) = read_tables(&root, &path)?;
        Ok(Self {
            path,
            root,
            security: RwLock::new(security),
            names: RwLock::new(Arc::new(names)),
            cache: None,
        })
    }

    /// Opens the `files/` of a sealed world: what is read once is not read again.
    pub(crate) fn open_sealed(files: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self {
            cache: Some(Slot::default()),
            ..Self::open(files)?
        })
    }

    /// The directory of its files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file or directory of a path, found without regard to case; `None` when there is none.
    ///
    /// # Errors
    /// What Linux says, or damaged metadata, with the path.
    pub fn metadata(&self, path: &NtPath) -> Result<Option<Entry>> {
        let Some(found) = self.find(path)? else { return Ok(None) };
        self.entry(&found).map(Some)
    }

    /// What is in a directory, in NT's order.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`], what Linux says, or damaged metadata.
    pub fn read_dir(&self, path: &NtPath) -> Result<Vec<Entry>> {
        let found = self.need(path, Some(Kind::Directory))?;
        let dir = found.open()?;
        let mut entries = Vec::new();
        for listed in listing::entries(&dir, &found.path, found.nt_path.is_root(), &self.names())? {
            let below = Found {
                path: found.path.join(listed.stored.as_str()),
                nt_path: found.nt_path.join(listed.stored.name()),
                dir: dir.try_clone().trying("open", &found.path)?,
                entry: Some(listed),
            };
            entries.push(self.entry(&below)?);
        }
        entries.sort_by(|a, b| a.name().cmp_nt(b.name()));
        Ok(entries)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`], or what Linux says.
    pub fn open_file(&self, path: &NtPath) -> Result<File> {
        Ok(File::from(self.need(path, Some(Kind::File))?.open()?))
    }

    /// A security descriptor of this layer.
    pub fn security(&self, id: SecurityId) -> Option<Arc<[u8]>> {
        self.security.read().unwrap_or_else(PoisonError::into_inner).get(id)
    }

    pub(crate) fn security_table(&self) -> RwLockWriteGuard<'_, SecurityTable> {
        self.security.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The full names of shortened stored names.
    pub(crate) fn names(&self) -> Arc<NameTable> {
        Arc::clone(&self.names.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_names(&self, names: NameTable) {
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    /// The named streams of a file or directory, in NT's order.
    ///
    /// # Errors
    /// As [`Layer::metadata`], and [`Error::PathMissing`].
    pub fn streams(&self, path: &NtPath) -> Result<Vec<Stream>> {
        let found = self.need(path, None)?;
        match self.entry(&found)?.meta.extra {
            Some(key) => self.streams_of(key),
            None => Ok(Vec::new()),
        }
    }

    /// Opens a named stream for reading; its name is found without regard to case.
    ///
    /// # Errors
    /// As [`Layer::streams`]; [`Error::PathMissing`] also when there is no such stream.
    pub fn open_stream(&self, path: &NtPath, name: &StreamName) -> Result<File> {
        let missing = || Error::PathMissing {
            path: format!("{path}:{name}"),
        };
        let key = self
            .metadata(path)?
            .and_then(|entry| entry.meta.extra)
            .ok_or_else(missing)?;
        let streams = self.streams_of(key)?;
        let found = streams
            .into_iter()
            .filter(|stream| crate::upcase::eq_names(stream.name.units(), name.units()))
            .min_by_key(|stream| stream.name != *name)
            .ok_or_else(missing)?;
        self.open_stored_stream(key, &found.name)
    }

    /// The raw reparse data of a reparse point; `None` when it has none.
    ///
    /// # Errors
    /// As [`Layer::metadata`], and [`Error::PathMissing`].
    pub fn reparse_data(&self, path: &NtPath) -> Result<Option<Vec<u8>>> {
        let found = self.need(path, None)?;
        match self.entry(&found)?.meta.extra {
            Some(key) => self.reparse_of(key),
            None => Ok(None),
        }
    }

    /// Opens a stream by its exact name.
    pub(crate) fn open_stored_stream(&self, key: ExtraKey, name: &StreamName) -> Result<File> {
        let missing = || Error::PathMissing {
            path: format!("{RESERVED}/{key}/{STREAMS}/{name}"),
        };
        let (dir, place) = self.extra_dir(key, Some(STREAMS))?.ok_or_else(missing)?;
        let stored = StoredName::of_stream(name);
        open_file_entry(&dir, stored.as_str())
            .trying("open", place.join(stored.as_str()))
            .map(File::from)
    }

    pub(crate) fn root_fd(&self) -> &OwnedFd {
        &self.root
    }

    pub(crate) fn streams_of(&self, key: ExtraKey) -> Result<Vec<Stream>> {
        let Some((dir, place)) = self.extra_dir(key, Some(STREAMS))? else {
            return Ok(Vec::new());
        };
        let names = self.names();
        let mut streams = Vec::new();
        for (text, kind) in listing::raw(&dir, &place)? {
            let at = place.join(&text);
            if kind != rustix::fs::FileType::RegularFile {
                return Err(Error::ForeignEntry {
                    path: at,
                    found: crate::beneath::kind_words(kind),
                });
            }
            let name = StoredName::decode_stream(&text, |hash| names.get(hash)).map_err(|source| Error::Name {
                place: place.display().to_string(),
                source,
            })?;
            let stat = rustix::fs::statat(&dir, &*text, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).trying("look at", at)?;
            streams.push(Stream {
                name,
                size_bytes: size_of(&stat),
            });
        }
        streams
            .sort_by(|a, b| crate::upcase::cmp_names(a.name.units(), b.name.units()).then_with(|| a.name.cmp(&b.name)));
        Ok(streams)
    }

    pub(crate) fn reparse_of(&self, key: ExtraKey) -> Result<Option<Vec<u8>>> {
        let Some((dir, place)) = self.extra_dir(key, None)? else {
            return Ok(None);
        };
        let path = place.join(REPARSE);
        let file = match open_file_entry(&dir, REPARSE) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let found_bytes = file.metadata().trying("look at", &path)?.len();
        if found_bytes > MAX_REPARSE_BYTES {
            return Err(Error::TooLarge {
                path,
                found_bytes,
                limit_bytes: MAX_REPARSE_BYTES,
            });
        }
        let mut data = Vec::new();
        file.take(MAX_REPARSE_BYTES)
            .read_to_end(&mut data)
            .trying("read", &path)?;
        Ok(Some(data))
    }

    /// The directory of an inode's extra store, or one in it; `None` when it is not there.
    pub(crate) fn extra_dir(&self, key: ExtraKey, below: Option<&str>) -> Result<Option<(OwnedFd, PathBuf)>> {
        let mut stored = format!("{RESERVED}/{key}");
        if let Some(below) = below {
            stored.push('/');
            stored.push_str(below);
        }
        let place = self.path.join(&stored);
        match open_dir(&self.root, &stored) {
            Ok(dir) => Ok(Some((dir, place))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::io("open", place, error)),
        }
    }

    pub(crate) fn need(&self, path: &NtPath, kind: Option<Kind>) -> Result<Found> {
        let found = self
            .find(path)?
            .ok_or_else(|| Error::PathMissing { path: path.to_string() })?;
        match kind {
            Some(kind) if kind != found.kind() => Err(Error::WrongKind {
                path: path.to_string(),
                found: found.kind().words(),
                expected: kind.words(),
            }),
            _ => Ok(found),
        }
    }

    pub(crate) fn find(&self, path: &NtPath) -> Result<Option<Found>> {
        let dir = self.root.try_clone().trying("open", &self.path)?;
        let mut at = Found {
            dir,
            entry: None,
            nt_path: NtPath::root(),
            path: self.path.clone(),
        };
        let names = self.names();
        for name in path.components() {
            if at.kind() == Kind::File {
                return Ok(None);
            }
            let dir = at.open()?;
            let place = Place {
                fd: &dir,
                nt_path: &at.nt_path,
                path: &at.path,
                names: &names,
            };
            let Some(listed) = place.find(name)? else {
                return Ok(None);
            };
            at = Found {
                nt_path: at.nt_path.join(listed.stored.name()),
                path: at.path.join(listed.stored.as_str()),
                entry: Some(listed),
                dir,
            };
        }
        Ok(Some(at))
    }

    pub(crate) fn entry(&self, found: &Found) -> Result<Entry> {
        let fd = found.open()?;
        let stat = fstat(&fd).trying("look at", &found.path)?;
        let kind = found.kind();
        let mut meta = disk::read(fd.as_fd(), &stat, kind == Kind::Directory, &found.path)?;
        let links = if kind == Kind::File { links_of(&stat) } else { 1 };
        if meta.short_name.is_some() {
            let id = PathId::of(&found.nt_path);
            meta.short_name = own_short_name(meta.short_name.take(), meta.short_owner, links > 1, id);
        }
        let stored = match &found.entry {
            Some(entry) => entry.stored.clone(),
            None => StoredName::of_root(),
        };
        let size_bytes = if kind == Kind::File { size_of(&stat) } else { 0 };
        Ok(Entry {
            stored,
            kind,
            size_bytes,
            links,
            ino: stat.st_ino,
            meta,
        })
    }
}

/// The length that Linux gives, which is never negative.
pub(crate) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// How many names Linux gives.
#[allow(
    clippy::useless_conversion,
    reason = "the field's type differs between architectures"
)]
pub(crate) fn links_of(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}
