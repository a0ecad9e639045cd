// SPDX-License-Identifier: GPL-3.0-or-later
//! Changing a world: create, write, rename, link, remove.

use std::fs::File;

use rustix::fs::{AtFlags, linkat, renameat};

use super::locate::Located;
use super::{Changing, Layers, split};
use crate::error::{Error, Result, Trying};
use crate::layer::Kind;
use crate::meta::{NtMetadata, attributes, disk};
use crate::name::{NtPath, StoredName, StreamName};
use crate::store::SecurityId;

/// What a rename does where something is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It is refused.
    No,
    /// A file takes the place of a file.
    File,
}

impl Layers {
    /// Keeps a security descriptor, for metadata that refers to it.
    ///
    /// # Errors
    /// When it is too long, or another one has the same id.
    pub fn intern_security(&self, descriptor: &[u8]) -> Result<SecurityId> {
        let _changing = self.changing()?;
        self.intern(descriptor)
    }

    /// Makes a file and opens it.
    ///
    /// # Errors
    /// [`Error::PathExists`]; [`Error::PathMissing`] or [`Error::WrongKind`] for its directory; what Linux says.
    pub fn create_file(&self, path: &NtPath, meta: &NtMetadata) -> Result<File> {
        let changing = self.changing()?;
        self.create(&changing, path, meta, Kind::File)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Layers::create_file`].
    pub fn create_dir(&self, path: &NtPath, meta: &NtMetadata) -> Result<()> {
        let changing = self.changing()?;
        self.create(&changing, path, meta, Kind::Directory).map(drop)
    }

    fn create(&self, changing: &Changing<'_>, path: &NtPath, meta: &NtMetadata, kind: Kind) -> Result<File> {
        self.must_be_free(path)?;
        let (parent, name) = split(path)?;
        let parent = self.own_dir(changing, &parent)?;
        let stored = StoredName::alone(&name);
        self.note_name(&stored)?;
        let work = match kind {
            Kind::File => self.work_file(changing)?,
            Kind::Directory => self.work_directory(changing)?,
        };
        let meta = NtMetadata {
            extra: None,
            ..meta.clone()
        };
        disk::write(&work.file, &meta, &work.path)?;
        work.place(&self.open_own(&parent)?, &stored)
    }

    /// Opens a file to read and write it; a parent's file is copied up first.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`], what Linux says.
    pub fn open_file_to_write(&self, path: &NtPath) -> Result<File> {
        let changing = self.changing()?;
        self.need(path, Some(Kind::File))?;
        let located = self.copy_up(&changing, path)?;
        let (dir, stored) = self.own_place(&located)?;
        self.open_own_file(&dir, &stored)
    }

    /// Puts other metadata on a file or directory. Its streams and reparse data stay.
    ///
    /// # Errors
    /// [`Error::PathMissing`], what Linux says.
    pub fn set_metadata(&self, path: &NtPath, meta: &NtMetadata) -> Result<()> {
        let changing = self.changing()?;
        let found = self.own_found(&changing, path)?;
        let fd = found.open()?;
        let extra = disk::read_record(&fd, &found.path)?.and_then(|record| record.extra);
        disk::write(&fd, &NtMetadata { extra, ..meta.clone() }, &found.path)
    }

    /// Opens a named stream to write it, empty; it is made if it is not there.
    ///
    /// # Errors
    /// [`Error::PathMissing`] for the file, what Linux says.
    pub fn create_stream(&self, path: &NtPath, name: &StreamName) -> Result<File> {
        let changing = self.changing()?;
        let (store, at) = self.extra_of(&changing, path)?;
        // A name that differs only in case is the same stream.
        let mut there = self.streams(path)?.into_iter().map(|stream| stream.name);
        let there = there.find(|there| crate::upcase::eq_names(there.units(), name.units()));
        self.own_stream(&store, &at, there.as_ref().unwrap_or(name))
    }

    /// Makes a file or empty directory a reparse point.
    ///
    /// # Errors
    /// [`Error::PathMissing`], what Linux says.
    pub fn set_reparse(&self, path: &NtPath, tag: u32, data: &[u8]) -> Result<()> {
        let changing = self.changing()?;
        let (store, at) = self.extra_of(&changing, path)?;
        self.own_reparse(&store, &at, data)?;
        self.change_record(&changing, path, |meta| {
            meta.reparse_tag = Some(tag);
            meta.attributes |= attributes::REPARSE_POINT;
        })
    }

    /// Gives a file a further name.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`] for a directory, [`Error::PathExists`], what Linux says.
    pub fn link(&self, existing: &NtPath, new: &NtPath) -> Result<()> {
        let changing = self.changing()?;
        self.need(existing, Some(Kind::File))?;
        self.must_be_free(new)?;
        let (parent, name) = split(new)?;
        self.need(&parent, Some(Kind::Directory))?;
        let located = self.copy_up(&changing, existing)?;
        let parent = self.own_dir(&changing, &parent)?;
        let (from, from_stored) = self.own_place(&located)?;
        let to = self.open_own(&parent)?;
        let stored = StoredName::alone(&name);
        self.note_name(&stored)?;
        linkat(
            &from.fd,
            from_stored.as_str(),
            &to.fd,
            stored.as_str(),
            AtFlags::empty(),
        )
        .trying("make the hard link", to.path.join(stored.as_str()))
    }

    /// Gives a file or directory another name, in any directory. Of a directory, all that shows in it is made the world's
    /// own first.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::PathExists`], [`Error::WrongKind`] when a directory would go into itself or take the
    /// place of something; what Linux says.
    pub fn rename(&self, from: &NtPath, to: &NtPath, replace: Replace) -> Result<()> {
        let changing = self.changing()?;
        let source = self.need(from, None)?;
        let (to_parent, name) = split(to)?;
        split(from)?;
        let parent = self.need(&to_parent, Some(Kind::Directory))?;
        if source.kind() == Kind::Directory && parent.nt_path.folded().starts_with(&source.nt_path.folded()) {
            let path = to.to_string();
            return Err(Error::WrongKind {
                path,
                found: "in the directory itself",
                expected: "another place",
            });
        }
        let target = self.locate(to)?;
        // Another spelling of the same name, or its short name: nothing is in the way.
        let same = target.as_ref().is_some_and(|target| target.nt_path == source.nt_path);
        if let Some(target) = target.as_ref().filter(|_| !same) {
            if replace == Replace::No {
                return Err(Error::PathExists { path: to.to_string() });
            }
            for kind in [target.kind(), source.kind()] {
                if kind != Kind::File {
                    let path = to.to_string();
                    return Err(Error::WrongKind {
                        path,
                        found: kind.words(),
                        expected: "a file",
                    });
                }
            }
        }
        let source = self.copy_up_all(&changing, &source.nt_path)?;
        if let Some(target) = target.filter(|_| !same) {
            if self.same_file(&source, &target.nt_path)? {
                // Two names of one file: the old one goes.
                return self.remove_located(&changing, &source);
            }
            let target = self.copy_up(&changing, &target.nt_path)?;
            self.remove_located(&changing, &target)?;
        }
        let to_part = self.own_dir(&changing, &to_parent)?;
        let (from_dir, from_stored) = self.own_place(&source)?;
        let to_dir = self.open_own(&to_part)?;
        let stored = StoredName::alone(&name);
        self.note_name(&stored)?;
        // Before the rename: until then the world's own entry shows in spite of the mark.
        self.hide_parents(&changing, &source.nt_path)?;
        renameat(&from_dir.fd, from_stored.as_str(), &to_dir.fd, stored.as_str())
            .trying("rename", from_dir.path.join(from_stored.as_str()))?;
        self.drop_marks_below(&changing, &source.nt_path)
    }

    /// Removes a file's name, or an empty directory.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::NotEmpty`], [`Error::WrongKind`] for the root, what Linux says.
    pub fn remove(&self, path: &NtPath) -> Result<()> {
        let changing = self.changing()?;
        let located = self.need(path, None)?;
        split(&located.nt_path)?;
        if located.kind() == Kind::Directory && !self.children(&located)?.is_empty() {
            return Err(Error::NotEmpty { path: path.to_string() });
        }
        self.remove_located(&changing, &located)
    }

    fn remove_located(&self, changing: &Changing<'_>, located: &Located) -> Result<()> {
        let (parent, _) = split(&located.nt_path)?;
        let parent = self.own_dir(changing, &parent)?;
        self.hide_parents(changing, &located.nt_path)?;
        // Hiding it may have made it the world's own.
        if let Some(own) = self
            .locate(&located.nt_path)?
            .filter(|own| own.is_own() && own.nt_path == located.nt_path)
        {
            let (dir, stored) = self.own_place(&own)?;
            self.unlink_own(&dir, &stored, own.kind() == Kind::Directory)?;
        } else {
            // NT sees the directory change; Linux saw nothing.
            let dir = self.open_own(&parent)?;
            let now = rustix::fs::Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            };
            let times = rustix::fs::Timestamps {
                last_access: rustix::fs::Timespec {
                    tv_sec: 0,
                    tv_nsec: rustix::fs::UTIME_OMIT,
                },
                last_modification: now,
            };
            rustix::fs::futimens(&dir.fd, &times).trying("set the times of", &dir.path)?;
        }
        self.drop_marks_below(changing, &located.nt_path)
    }

    /// A mark, if the parents have something at the path. A mark hides all names that differ only in case, so those that
    /// must stay are made the world's own first, with all in them; the same for directories that the path goes through.
    fn hide_parents(&self, changing: &Changing<'_>, path: &NtPath) -> Result<()> {
        let mut prefix = NtPath::root();
        for name in path.components() {
            let dir = self.need(&prefix, Some(Kind::Directory))?;
            prefix.push(name.clone());
            if self.top()?.removed().has_mark(&prefix) {
                return Ok(());
            }
            let is_last = prefix.components().len() == path.components().len();
            let mut twins = Vec::new();
            for part in dir.parts.iter().filter(|part| part.layer > 0) {
                // One layer with several of them; two layers that spell one name differently are no twins.
                let group = self.one(part.layer)?.layer.twins(part, name)?;
                if group.len() > 1 {
                    twins.extend(group.into_iter().filter(|twin| !is_last || twin.stored.name() != name));
                }
            }
            if twins.is_empty() {
                continue;
            }
            for twin in twins {
                if let Some(shown) = self.step_exact(&dir, twin.stored.name())? {
                    self.copy_up_all(changing, &shown)?;
                }
            }
            if !is_last {
                return self.add_mark(changing, &prefix);
            }
        }
        if self.locate_below_top(path)?.is_some() {
            self.add_mark(changing, path)
        } else {
            Ok(())
        }
    }

    /// The path of an entry if one of exactly that spelling shows.
    fn step_exact(&self, dir: &Located, name: &crate::name::NtName) -> Result<Option<NtPath>> {
        Ok(self
            .step(dir, name)?
            .filter(|shown| shown.nt_path.name() == Some(name))
            .map(|shown| shown.nt_path))
    }

    fn must_be_free(&self, path: &NtPath) -> Result<()> {
        match self.locate(path)? {
            Some(_) => Err(Error::PathExists { path: path.to_string() }),
            None => Ok(()),
        }
    }

    fn same_file(&self, own: &Located, other: &NtPath) -> Result<bool> {
        let Some(other) = self.locate(other)? else {
            return Ok(false);
        };
        Ok(other.is_own()
            && own.kind() == Kind::File
            && other.kind() == Kind::File
            && self.entry(own)?.ino == self.entry(&other)?.ino)
    }

    /// The open directory and stored name of something of layer 0.
    fn own_place(&self, located: &Located) -> Result<(super::own::OwnDir, StoredName)> {
        let (Some(part), Some(listed)) = (located.parts.first().filter(|part| part.layer == 0), &located.listed) else {
            return Err(Error::PathMissing {
                path: located.nt_path.to_string(),
            });
        };
        let mut dir = part.clone();
        dir.stored = part.stored.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
        dir.nt_path.pop();
        Ok((self.open_own(&dir)?, listed.stored.clone()))
    }

    fn own_found(&self, changing: &Changing<'_>, path: &NtPath) -> Result<crate::layer::Found> {
        let located = self.copy_up(changing, path)?;
        self.found(&located)
    }

    /// The extra store of a path in layer 0, made if there is none.
    fn extra_of(&self, changing: &Changing<'_>, path: &NtPath) -> Result<(std::os::fd::OwnedFd, std::path::PathBuf)> {
        let found = self.own_found(changing, path)?;
        let record = disk::read_record(found.open()?, &found.path)?;
        if let Some(key) = record.and_then(|record| record.extra) {
            return self.own_extra(key);
        }
        let (key, store, at) = self.new_extra(&found.nt_path)?;
        self.change_record(changing, path, |meta| meta.extra = Some(key))?;
        Ok((store, at))
    }

    fn change_record(
        &self,
        changing: &Changing<'_>,
        path: &NtPath,
        change: impl FnOnce(&mut NtMetadata),
    ) -> Result<()> {
        let found = self.own_found(changing, path)?;
        let fd = found.open()?;
        let stat = rustix::fs::fstat(&fd).trying("look at", &found.path)?;
        let mut meta = disk::read(&fd, &stat, found.kind() == Kind::Directory, &found.path)?;
        change(&mut meta);
        disk::write(&fd, &meta, &found.path)
    }
}
