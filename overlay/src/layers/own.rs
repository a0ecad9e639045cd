// SPDX-License-Identifier: GPL-3.0-or-later
//! Layer 0 on the disk: what a change does there, one entry at a time.
//!
//! A new entry is made in `:nt/work`, gets its bytes and metadata, and then its name by one rename, so that a kill leaves it
//! whole or absent.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, OFlags, Stat, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::locate::Part;
use super::{Changing, Layers};
use crate::beneath::{DIRECTORY_MODE, FILE_MODE, open_dir, open_dir_entry, open_entry, open_file_entry};
use crate::error::{Error, Result, Trying};
use crate::files::{self, Durable};
use crate::layer::Layer;
use crate::meta::disk;
use crate::name::{NtPath, StoredName, StreamName};
use crate::store::{ExtraKey, NAMES, REPARSE, RESERVED, SECURITY, STREAMS, SecurityId, WORK};
use crate::tree::make_dir;

/// An open directory of layer 0.
pub(super) struct OwnDir {
    pub fd: OwnedFd,
    pub path: PathBuf,
    /// Its times when it was opened.
    before: Stat,
}

impl OwnDir {
    /// Sets the times back: NT's view of the directory has not changed.
    pub fn restore_times(&self) -> Result<()> {
        disk::restore_times(&self.fd, &self.before, &self.path)
    }
}

/// An entry in `:nt/work` that has no name yet.
pub(super) struct Work {
    dir: OwnedFd,
    name: String,
    pub file: File,
    pub path: PathBuf,
}

impl Work {
    /// Gives it its name, in the place of a file if there is one.
    pub fn place(self, dir: &OwnDir, stored: &StoredName) -> Result<File> {
        renameat(&self.dir, &*self.name, &dir.fd, stored.as_str())
            .trying("put into its place", dir.path.join(stored.as_str()))?;
        Ok(self.file)
    }
}

impl Layers {
    pub(super) fn own_layer(&self) -> Result<&Layer> {
        Ok(&self.top()?.layer)
    }

    pub(super) fn open_own(&self, part: &Part) -> Result<OwnDir> {
        let layer = self.own_layer()?;
        let path = layer.path().join(&part.stored);
        let fd = open_dir(layer.root_fd(), &part.stored).trying("open", &path)?;
        let before = fstat(&fd).trying("look at", &path)?;
        Ok(OwnDir { fd, path, before })
    }

    /// `:nt` of layer 0, made if it is missing.
    fn reserved(&self) -> Result<(OwnedFd, PathBuf)> {
        let layer = self.own_layer()?;
        let path = layer.path().join(RESERVED);
        let fd = match open_dir_entry(layer.root_fd(), RESERVED) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => {
                let before = fstat(layer.root_fd()).trying("look at", layer.path())?;
                make_dir(layer.root_fd(), RESERVED, &path)?;
                disk::restore_times(layer.root_fd(), &before, layer.path())?;
                open_dir_entry(layer.root_fd(), RESERVED).trying("open", &path)?
            }
            Err(error) => return Err(Error::io("open", path, error)),
        };
        Ok((fd, path))
    }

    fn work_dir(&self) -> Result<(OwnedFd, PathBuf, String)> {
        let (nt, path) = self.reserved()?;
        let path = path.join(WORK);
        make_dir(&nt, WORK, &path)?;
        let dir = open_dir_entry(&nt, WORK).trying("open", &path)?;
        let number = self.next_work.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", rustix::process::getpid().as_raw_nonzero());
        Ok((dir, path.join(&name), name))
    }

    pub(super) fn work_file(&self, _changing: &Changing<'_>) -> Result<Work> {
        let (dir, path, name) = self.work_dir()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = File::from(open_entry(&dir, &name, flags, FILE_MODE).trying("make", &path)?);
        Ok(Work { dir, name, file, path })
    }

    pub(super) fn work_directory(&self, _changing: &Changing<'_>) -> Result<Work> {
        let (dir, path, name) = self.work_dir()?;
        match mkdirat(&dir, &*name, DIRECTORY_MODE) {
            // Left by a killed process of the same number; it is empty.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(Error::io("make the directory", path, error)),
        }
        let file = File::from(open_dir_entry(&dir, &name).trying("open", &path)?);
        Ok(Work { dir, name, file, path })
    }

    /// Keeps a security descriptor in layer 0.
    pub(super) fn intern(&self, descriptor: &[u8]) -> Result<SecurityId> {
        let mut table = self.own_layer()?.security_table();
        let (id, new) = table.intern(descriptor)?;
        if new {
            let (nt, path) = self.reserved()?;
            files::replace(&nt, SECURITY, table.encode().as_bytes(), &path, Durable::Later)?;
        }
        Ok(id)
    }

    /// Keeps the full name of a shortened stored name in layer 0.
    pub(super) fn note_name(&self, stored: &StoredName) -> Result<()> {
        if stored.is_shortened() {
            let layer = self.own_layer()?;
            let mut names = (*layer.names()).clone();
            if names.insert(stored.name()) {
                let (nt, path) = self.reserved()?;
                files::replace(&nt, NAMES, names.encode().as_bytes(), &path, Durable::Later)?;
                layer.set_names(names);
            }
        }
        Ok(())
    }

    /// A new extra store of layer 0, for an inode that is made at a path.
    pub(super) fn new_extra(&self, path: &NtPath) -> Result<(ExtraKey, OwnedFd, PathBuf)> {
        let (nt, nt_path) = self.reserved()?;
        let mut key = ExtraKey::for_path(path);
        loop {
            let name = key.to_string();
            let at = nt_path.join(&name);
            match mkdirat(&nt, &*name, DIRECTORY_MODE) {
                Ok(()) => return Ok((key, open_dir_entry(&nt, &name).trying("open", &at)?, at)),
                Err(Errno::EXIST) => key = key.next(),
                Err(error) => return Err(Error::io("make the directory", at, error)),
            }
        }
    }

    pub(super) fn own_extra(&self, key: ExtraKey) -> Result<(OwnedFd, PathBuf)> {
        let (nt, path) = self.reserved()?;
        let name = key.to_string();
        let path = path.join(&name);
        make_dir(&nt, &name, &path)?;
        Ok((open_dir_entry(&nt, &name).trying("open", &path)?, path))
    }

    /// Makes or empties a stream of an extra store.
    pub(super) fn own_stream(&self, store: &OwnedFd, path: &std::path::Path, name: &StreamName) -> Result<File> {
        let path = path.join(STREAMS);
        make_dir(store, STREAMS, &path)?;
        let streams = open_dir_entry(store, STREAMS).trying("open", &path)?;
        let stored = StoredName::of_stream(name);
        self.note_name(&stored)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        Ok(File::from(
            open_entry(&streams, stored.as_str(), flags, FILE_MODE).trying("make", path.join(stored.as_str()))?,
        ))
    }

    pub(super) fn own_reparse(&self, store: &OwnedFd, path: &std::path::Path, data: &[u8]) -> Result<()> {
        let path = path.join(REPARSE);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut file = File::from(open_entry(store, REPARSE, flags, FILE_MODE).trying("make", &path)?);
        file.write_all(data).trying("write", &path)
    }

    /// Takes one name of a file of layer 0 away, or an empty directory; its extra store goes with the last name.
    pub(super) fn unlink_own(&self, dir: &OwnDir, stored: &StoredName, is_directory: bool) -> Result<()> {
        let path = dir.path.join(stored.as_str());
        let opened = if is_directory {
            open_dir_entry(&dir.fd, stored.as_str())
        } else {
            open_file_entry(&dir.fd, stored.as_str())
        };
        let fd = opened.trying("open", &path)?;
        let flags = if is_directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let extra = disk::read_record(&fd, &path)?.and_then(|record| record.extra);
        unlinkat(&dir.fd, stored.as_str(), flags).trying("remove", &path)?;
        let is_last = is_directory || fstat(&fd).trying("look at", &path)?.st_nlink == 0;
        if let Some(key) = extra
            && is_last
        {
            let (_, nt) = self.reserved()?;
            let store = nt.join(key.to_string());
            match std::fs::remove_dir_all(&store) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", store, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens a file of layer 0 to read and write it.
    pub(super) fn open_own_file(&self, dir: &OwnDir, stored: &StoredName) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        openat(&dir.fd, stored.as_str(), flags, rustix::fs::Mode::empty())
            .trying("open", dir.path.join(stored.as_str()))
            .map(File::from)
    }

    /// Hides a path of the parents, on the disk too.
    pub(super) fn add_mark(&self, _changing: &Changing<'_>, path: &NtPath) -> Result<()> {
        self.change_marks(|removed| removed.insert(path))
    }

    /// Takes away the marks below a path that shows nothing of the parents any more.
    pub(super) fn drop_marks_below(&self, _changing: &Changing<'_>, path: &NtPath) -> Result<()> {
        self.change_marks(|removed| {
            let before = removed.len();
            removed.remove_below(path);
            removed.len() != before
        })
    }

    fn change_marks(&self, change: impl FnOnce(&mut crate::removed::Removed) -> bool) -> Result<()> {
        let one = self.top()?;
        let mut removed = one.removed.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = removed.clone();
        if change(&mut changed) {
            let world = crate::beneath::open_root(&one.path).trying("open", &one.path)?;
            changed.write(&world, &one.path, Durable::Later)?;
            *removed = changed;
        }
        Ok(())
    }
}
