// SPDX-License-Identifier: GPL-3.0-or-later
//! A directory of the host as a medium.
//!
//! Every step goes through `openat` with `O_NOFOLLOW`, one name at a time from the root's descriptor, so that no link
//! in the tree, not even one that is put there while we read, leads out of it. Files are opened when they are asked for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};

use super::entry::Location;
use super::host_file::HostFile;
use super::limits::MAX_DIRECTORY_ENTRIES;
use super::name::{join, same_name};
use super::{Entry, EntryKind, Extent, FileSystem, MediumError, ReadAt};

/// The names from the medium's root, as the host has them: an [`Entry`]'s own path may be a lossy form.
#[derive(Debug, Clone, Default)]
pub(super) struct HostLocation {
    names: Vec<OsString>,
}

/// An open directory of the host.
#[derive(Debug)]
pub(super) struct HostDirectory {
    root: OwnedFd,
    path: PathBuf,
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl HostDirectory {
    /// Opens it; a link that the person gave is followed, none below it is.
    pub(super) fn open(path: &Path) -> Result<Self, MediumError> {
        let root = openat(CWD, path, DIRECTORY_FLAGS, Mode::empty()).map_err(|errno| MediumError::Open {
            path: path.to_owned(),
            source: errno.into(),
        })?;
        Ok(Self {
            root,
            path: path.to_owned(),
        })
    }

    fn names<'a>(&self, entry: &'a Entry) -> &'a [OsString] {
        match &entry.location {
            Location::Host(location) => &location.names,
            // An entry of another medium: at worst it names nothing here.
            Location::Udf(_) | Location::Iso(_) => &[],
        }
    }

    fn host_path(&self, names: &[OsString]) -> PathBuf {
        let mut path = self.path.clone();
        path.extend(names);
        path
    }

    fn error(&self, names: &[OsString], source: impl Into<io::Error>) -> MediumError {
        MediumError::Host {
            path: self.host_path(names),
            source: source.into(),
        }
    }

    /// Opens a directory below the root, name by name.
    fn open_directory(&self, names: &[OsString]) -> Result<OwnedFd, MediumError> {
        let step = |from: &OwnedFd, name: &OsStr| openat(from, name, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty());
        let mut directory = step(&self.root, OsStr::new(".")).map_err(|errno| self.error(&[], errno))?;
        for (index, name) in names.iter().enumerate() {
            directory =
                step(&directory, name).map_err(|errno| self.error(names.get(..=index).unwrap_or(names), errno))?;
        }
        Ok(directory)
    }

    fn entry(&self, directory: &Entry, fd: &OwnedFd, name: &OsStr) -> Result<Option<Entry>, MediumError> {
        let mut names = self.names(directory).to_vec();
        names.push(name.to_owned());
        let stat = match statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NAMETOOLONG) => return Ok(None),
            Err(errno) => return Err(self.error(&names, errno)),
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink {
                target: readlinkat(fd, name, Vec::new())
                    .map(|target| String::from_utf8_lossy(target.as_bytes()).into_owned())
                    .unwrap_or_default(),
            },
            _ => EntryKind::Other,
        };
        Ok(Some(Entry {
            path: join(&directory.path, &name.to_string_lossy()),
            size_bytes: if kind == EntryKind::File {
                u64::try_from(stat.st_size).unwrap_or(0)
            } else {
                0
            },
            kind,
            modified_ns: modified_ns(&stat),
            stored_compressed: false,
            location: Location::Host(HostLocation { names }),
        }))
    }

    fn list(&self, directory: &Entry, fd: &OwnedFd) -> Result<Vec<OsString>, MediumError> {
        let names = self.names(directory);
        let mut listed = Vec::new();
        for item in Dir::read_from(fd).map_err(|errno| self.error(names, errno))? {
            let item = item.map_err(|errno| self.error(names, errno))?;
            let name = OsStr::from_bytes(item.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if listed.len() >= MAX_DIRECTORY_ENTRIES {
                return Err(MediumError::Limit {
                    path: self.path.clone(),
                    subject: format!("the directory /{}", directory.path),
                    limit: MAX_DIRECTORY_ENTRIES as u64,
                    unit: "entries",
                });
            }
            listed.push(name.to_owned());
        }
        Ok(listed)
    }
}

fn modified_ns(stat: &Stat) -> Option<i64> {
    stat.st_mtime
        .checked_mul(1_000_000_000)?
        .checked_add(i64::try_from(stat.st_mtime_nsec).ok()?)
}

impl FileSystem for HostDirectory {
    fn root(&self) -> Entry {
        Entry {
            path: String::new(),
            kind: EntryKind::Directory,
            size_bytes: 0,
            modified_ns: None,
            stored_compressed: false,
            location: Location::Host(HostLocation::default()),
        }
    }

    fn children(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        let fd = self.open_directory(self.names(directory))?;
        let names = self.list(directory, &fd)?;
        // A name that is gone since it was listed is no entry any more.
        names
            .iter()
            .filter_map(|name| self.entry(directory, &fd, name).transpose())
            .collect()
    }

    fn find(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError> {
        let fd = self.open_directory(self.names(directory))?;
        if let Some(entry) = self.entry(directory, &fd, OsStr::new(name))? {
            return Ok(Some(entry));
        }
        let mut alike = self.list(directory, &fd)?;
        alike.retain(|host_name| host_name.to_str().is_some_and(|host_name| same_name(host_name, name)));
        alike.sort();
        alike
            .first()
            .map_or(Ok(None), |host_name| self.entry(directory, &fd, host_name))
    }

    fn open(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        let names = self.names(file);
        let Some((name, parents)) = names.split_last() else {
            return Err(MediumError::NotFound {
                path: self.path.clone(),
                entry: file.path.clone(),
            });
        };
        let parent = self.open_directory(parents)?;
        // NONBLOCK: a pipe that has taken the file's place must not hold us up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&parent, name, flags, Mode::empty()).map_err(|errno| self.error(names, errno))?;
        let file = HostFile::from_file(File::from(opened), self.host_path(names))
            .map_err(|source| self.error(names, source))?;
        Ok(Arc::new(file))
    }

    fn extents(&self, _file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        Ok(None)
    }

    fn identity(&self, _directory: &Entry) -> Option<(u64, u64)> {
        // Links are not followed and the host has no other cycles.
        None
    }
}
