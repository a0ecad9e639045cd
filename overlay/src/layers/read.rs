// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a world through its layers.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

use super::Layers;
use super::locate::Located;
use crate::error::{Error, Result};
use crate::layer::{Entry, Kind, Stream};
use crate::name::{NtPath, StreamName};
use crate::upcase;

impl Layers {
    /// The file or directory of a path, found without regard to case; `None` when there is none.
    ///
    /// # Errors
    /// What Linux says, or damaged metadata, with the path.
    pub fn metadata(&self, path: &NtPath) -> Result<Option<Entry>> {
        match self.locate(path)? {
            Some(located) => self.entry(&located).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there is something at a path; cheaper than [`Layers::metadata`].
    ///
    /// # Errors
    /// What Linux says.
    pub fn kind(&self, path: &NtPath) -> Result<Option<Kind>> {
        Ok(self.locate(path)?.map(|located| located.kind()))
    }

    /// The path as its names are spelled; `None` when there is nothing.
    ///
    /// # Errors
    /// What Linux says.
    pub fn spelled(&self, path: &NtPath) -> Result<Option<NtPath>> {
        Ok(self.locate(path)?.map(|located| located.nt_path))
    }

    /// What is in a directory, all layers together, in NT's order.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`], what Linux says, or damaged metadata.
    pub fn read_dir(&self, path: &NtPath) -> Result<Vec<Entry>> {
        let dir = self.need(path, Some(Kind::Directory))?;
        self.children(&dir)?.iter().map(|child| self.entry(child)).collect()
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::PathMissing`], [`Error::WrongKind`], or what Linux says.
    pub fn open_file(&self, path: &NtPath) -> Result<File> {
        let located = self.need(path, Some(Kind::File))?;
        Ok(File::from(self.found(&located)?.open()?))
    }

    /// The security descriptor of a file or directory; `None` when it has none.
    ///
    /// # Errors
    /// As [`Layers::metadata`], and [`Error::PathMissing`].
    pub fn security(&self, path: &NtPath) -> Result<Option<Arc<[u8]>>> {
        let located = self.need(path, None)?;
        let layer = &self.one(located.first()?.layer)?.layer;
        Ok(self.entry(&located)?.meta.security.and_then(|id| layer.security(id)))
    }

    /// The named streams of a file or directory, in NT's order.
    ///
    /// # Errors
    /// As [`Layers::metadata`], and [`Error::PathMissing`].
    pub fn streams(&self, path: &NtPath) -> Result<Vec<Stream>> {
        let located = self.need(path, None)?;
        match self.entry(&located)?.meta.extra {
            Some(key) => self.one(located.first()?.layer)?.layer.streams_of(key),
            None => Ok(Vec::new()),
        }
    }

    /// Opens a named stream for reading; its name is found without regard to case.
    ///
    /// # Errors
    /// As [`Layers::streams`]; [`Error::PathMissing`] also when there is no such stream.
    pub fn open_stream(&self, path: &NtPath, name: &StreamName) -> Result<File> {
        let located = self.need(path, None)?;
        let missing = || Error::PathMissing {
            path: format!("{path}:{name}"),
        };
        let key = self.entry(&located)?.meta.extra.ok_or_else(missing)?;
        let layer = &self.one(located.first()?.layer)?.layer;
        let found = layer
            .streams_of(key)?
            .into_iter()
            .filter(|stream| upcase::eq_names(stream.name.units(), name.units()))
            .min_by_key(|stream| stream.name != *name)
            .ok_or_else(missing)?;
        layer.open_stored_stream(key, &found.name)
    }

    /// The raw reparse data of a reparse point; `None` when it has none.
    ///
    /// # Errors
    /// As [`Layers::metadata`], and [`Error::PathMissing`].
    pub fn reparse_data(&self, path: &NtPath) -> Result<Option<Vec<u8>>> {
        let located = self.need(path, None)?;
        match self.entry(&located)?.meta.extra {
            Some(key) => self.one(located.first()?.layer)?.layer.reparse_of(key),
            None => Ok(None),
        }
    }

    pub(crate) fn open_located(&self, located: &Located) -> Result<File> {
        Ok(File::from(self.found(located)?.open()?))
    }

    pub(crate) fn entry(&self, located: &Located) -> Result<Entry> {
        let found = self.found(located)?;
        self.one(located.first()?.layer)?.layer.entry(&found)
    }

    /// The entries of a directory that show, in NT's order.
    pub(crate) fn children(&self, dir: &Located) -> Result<Vec<Located>> {
        let mut hidden: HashSet<Box<[u16]>> = HashSet::new();
        let mut children = Vec::new();
        for part in &dir.parts {
            let one = self.one(part.layer)?;
            let listed = one.layer.list(part)?;
            let mut here = HashSet::new();
            for entry in listed {
                let folded = entry.stored.name().folded();
                if hidden.contains(&folded) {
                    continue;
                }
                here.insert(folded);
                // A directory is made of more than this layer's.
                if let Some(child) = self.step(dir, entry.stored.name())? {
                    children.push(child);
                }
            }
            hidden.extend(here);
            for mark in one.removed().children(&dir.nt_path) {
                hidden.insert(mark);
            }
        }
        children.sort_by(|a, b| match (a.nt_path.name(), b.nt_path.name()) {
            (Some(a), Some(b)) => a.cmp_nt(b),
            (a, b) => a.cmp(&b),
        });
        Ok(children)
    }
}
