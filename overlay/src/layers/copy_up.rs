// SPDX-License-Identifier: GPL-3.0-or-later
//! Copy-up: a parent's file or directory becomes the world's own, at the first change.
//!
//! The bytes are shared with the parent where the file system can (a reflink), the metadata, streams and all names of a
//! hard-linked file come along. Nothing that a program sees changes by it, directories' times included. Until the copy is
//! whole, the parent's file shows.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{AtFlags, copy_file_range, fstat, ioctl_ficlone, linkat};
use rustix::io::Errno;

use super::locate::{Located, Part};
use super::{Changing, Layers, split};
use crate::error::{Error, Result, Trying};
use crate::layer::Kind;
use crate::meta::{NtMetadata, disk};
use crate::name::NtPath;
use crate::store::ExtraKey;

/// Copies all of a file: by reflink, else inside the kernel, else through memory.
pub(crate) fn copy_bytes(from: &File, to: &mut File, place: &Path) -> Result<()> {
    if ioctl_ficlone(&*to, from).is_ok() {
        return Ok(());
    }
    let length = from.metadata().trying("look at", place)?.len();
    let mut copied = 0u64;
    while copied < length {
        let piece = usize::try_from((length - copied).min(1 << 30)).unwrap_or(1 << 30);
        match copy_file_range(from, None, &*to, None, piece) {
            Ok(0) => break,
            Ok(moved) => copied += moved as u64,
            Err(Errno::INTR) => {}
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::IO)) => return Err(Error::io("copy to", place, error)),
            Err(_) => {
                let mut from = from;
                from.seek(SeekFrom::Start(copied)).trying("read", place)?;
                to.seek(SeekFrom::Start(copied)).trying("write", place)?;
                copied += std::io::copy(&mut from, to).trying("copy to", place)?;
                break;
            }
        }
    }
    if copied == length {
        return Ok(());
    }
    let error = std::io::Error::other(format!("of {length} bytes, only {copied} could be copied"));
    Err(Error::io("copy to", place, error))
}

impl Layers {
    /// Makes a directory the world's own, without what is in it.
    pub(super) fn own_dir(&self, changing: &Changing<'_>, path: &NtPath) -> Result<Part> {
        let located = self.need(path, Some(Kind::Directory))?;
        if !located.is_own() {
            self.copy_up_twins(changing, &located)?;
        }
        self.need(path, Some(Kind::Directory))?.first().cloned()
    }

    /// Makes a file or directory the world's own, a directory without what is in it.
    pub(super) fn copy_up(&self, changing: &Changing<'_>, path: &NtPath) -> Result<Located> {
        let located = self.need(path, None)?;
        if !located.is_own() {
            self.copy_up_twins(changing, &located)?;
        }
        self.need(path, None)
    }

    /// Makes a directory and all that shows in it the world's own.
    pub(super) fn copy_up_all(&self, changing: &Changing<'_>, path: &NtPath) -> Result<Located> {
        let mut todo = vec![path.clone()];
        while let Some(path) = todo.pop() {
            let located = self.copy_up(changing, &path)?;
            if located.kind() == Kind::Directory {
                todo.extend(self.children(&located)?.into_iter().map(|child| child.nt_path));
            }
        }
        self.need(path, None)
    }

    /// Names that differ only in case show from one layer alone, so they come up together.
    fn copy_up_twins(&self, changing: &Changing<'_>, located: &Located) -> Result<()> {
        let (parent_path, name) = split(&located.nt_path)?;
        let parent = self.own_dir(changing, &parent_path)?;
        let from = located.first()?;
        let dir = self.need(&parent_path, Some(Kind::Directory))?;
        let twins = match dir.parts.iter().find(|part| part.layer == from.layer) {
            Some(part) => self.one(from.layer)?.layer.twins(part, &name)?,
            None => Vec::new(),
        };
        let mut all = vec![located.clone()];
        for twin in twins.iter().filter(|twin| *twin.stored.name() != name) {
            all.extend(self.step(&dir, twin.stored.name())?);
        }
        for located in &all {
            match located.kind() {
                Kind::Directory => self.copy_dir(changing, &parent, located)?,
                Kind::File => self.copy_file(changing, &parent, located)?,
            }
        }
        Ok(())
    }

    fn copy_dir(&self, changing: &Changing<'_>, parent: &Part, located: &Located) -> Result<()> {
        let Some(listed) = &located.listed else { return Ok(()) };
        let meta = self.adopted(located)?;
        self.note_name(&listed.stored)?;
        let work = self.work_directory(changing)?;
        disk::write(&work.file, &meta, &work.path)?;
        let dir = self.open_own(parent)?;
        work.place(&dir, &listed.stored)?;
        dir.restore_times()
    }

    fn copy_file(&self, changing: &Changing<'_>, parent: &Part, located: &Located) -> Result<()> {
        let Some(listed) = &located.listed else { return Ok(()) };
        let from = File::from(self.found(located)?.open()?);
        let ino = fstat(&from).trying("look at", &listed_path(self, located)?)?.st_ino;
        // The other names that show, before anything changes.
        let first = located.first()?;
        let mut others = Vec::new();
        for name in self.names_of(first.layer, &first.nt_path)? {
            if name == first.nt_path {
                continue;
            }
            if let Some(other) = self.locate(&name)?
                && other.kind() == Kind::File
                && other.first()?.layer == first.layer
                && self.entry(&other)?.ino == ino
            {
                others.push(other);
            }
        }
        let meta = self.adopted(located)?;
        self.note_name(&listed.stored)?;
        let mut work = self.work_file(changing)?;
        copy_bytes(&from, &mut work.file, &work.path)?;
        disk::write(&work.file, &meta, &work.path)?;
        let dir = self.open_own(parent)?;
        work.place(&dir, &listed.stored)?;
        dir.restore_times()?;
        for other in others {
            let Some(other_listed) = &other.listed else { continue };
            let (other_parent, _) = split(&other.nt_path)?;
            let other_parent = self.own_dir(changing, &other_parent)?;
            let other_dir = self.open_own(&other_parent)?;
            self.note_name(&other_listed.stored)?;
            let name = other_listed.stored.as_str();
            linkat(&dir.fd, listed.stored.as_str(), &other_dir.fd, name, AtFlags::empty())
                .trying("make the hard link", other_dir.path.join(name))?;
            other_dir.restore_times()?;
        }
        Ok(())
    }

    /// The metadata of something of a parent, with what it refers to copied into layer 0.
    fn adopted(&self, located: &Located) -> Result<NtMetadata> {
        let found = self.found(located)?;
        let fd = found.open()?;
        let stat = fstat(&fd).trying("look at", &found.path)?;
        let mut meta = disk::read(&fd, &stat, located.kind() == Kind::Directory, &found.path)?;
        let part = located.first()?;
        let layer = &self.one(part.layer)?.layer;
        if let Some(id) = meta.security {
            let descriptor = layer.security(id).ok_or_else(|| Error::Line {
                path: layer.path().join(":nt/security"),
                line: 1,
                reason: format!("it has no descriptor {id}, which `{}` has", part.nt_path),
            })?;
            self.intern(&descriptor)?;
        }
        if let Some(key) = meta.extra {
            meta.extra = Some(self.copy_extra(part.layer, key, &part.nt_path)?);
        }
        Ok(meta)
    }

    fn copy_extra(&self, layer: usize, key: ExtraKey, path: &NtPath) -> Result<ExtraKey> {
        let from = &self.one(layer)?.layer;
        let (new_key, store, at) = self.new_extra(path)?;
        if let Some(data) = from.reparse_of(key)? {
            self.own_reparse(&store, &at, &data)?;
        }
        for stream in from.streams_of(key)? {
            let source = from.open_stored_stream(key, &stream.name)?;
            let mut target = self.own_stream(&store, &at, &stream.name)?;
            copy_bytes(&source, &mut target, &at)?;
        }
        Ok(new_key)
    }
}

fn listed_path(layers: &Layers, located: &Located) -> Result<std::path::PathBuf> {
    let part = located.first()?;
    Ok(layers.one(part.layer)?.layer.path().join(&part.stored))
}
