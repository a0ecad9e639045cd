// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a path is: in which layer, under which stored name, and which directories it is made of.

use std::sync::Arc;

use super::Layers;
use crate::beneath::open_dir;
use crate::error::{Error, Result};
use crate::layer::{Found, Kind, Layer};
use crate::listing::Listed;
use crate::lookup::{CachedDir, Place, Slot};
use crate::name::{NtName, NtPath};

/// A directory of one layer.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub layer: usize,
    /// Its path of stored names, and of names, in that layer.
    pub stored: String,
    pub nt_path: NtPath,
    /// What it is there; `None` for the root.
    pub listed: Option<Listed>,
    /// Its listing, in a layer that does not change.
    pub slot: Option<Slot>,
}

impl Part {
    fn below(&self, listed: Listed, slot: Option<Slot>) -> Self {
        let name = listed.stored.as_str();
        let mut stored = String::with_capacity(self.stored.len() + 1 + name.len());
        if !self.stored.is_empty() {
            stored.push_str(&self.stored);
            stored.push('/');
        }
        stored.push_str(name);
        let nt_path = self.nt_path.join(listed.stored.name());
        Self {
            layer: self.layer,
            stored,
            nt_path,
            listed: Some(listed),
            slot,
        }
    }

    pub fn is_directory(&self) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.is_directory)
    }
}

/// What a path is.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// The directories of the layers that make up this one, uppermost first; for a file, the file alone.
    pub parts: Vec<Part>,
    /// What the uppermost one is; `None` for the root.
    pub listed: Option<Listed>,
    /// The path as programs see it spelled.
    pub nt_path: NtPath,
}

impl Located {
    pub fn kind(&self) -> Kind {
        match &self.listed {
            Some(listed) if !listed.is_directory => Kind::File,
            _ => Kind::Directory,
        }
    }

    pub fn first(&self) -> Result<&Part> {
        self.parts.first().ok_or_else(|| Error::PathMissing {
            path: self.nt_path.to_string(),
        })
    }

    /// Whether the world itself has it.
    pub fn is_own(&self) -> bool {
        self.parts.first().is_some_and(|part| part.layer == 0)
    }
}

impl Layers {
    pub(crate) fn locate_root(&self) -> Located {
        let root = |(layer, one): (usize, &super::One)| Part {
            layer,
            stored: String::new(),
            nt_path: NtPath::root(),
            listed: None,
            slot: one.layer.cache.clone(),
        };
        let parts = self.layers.iter().enumerate().map(root).collect();
        Located {
            parts,
            listed: None,
            nt_path: NtPath::root(),
        }
    }

    /// What a path is; `None` when there is nothing.
    pub(super) fn locate(&self, path: &NtPath) -> Result<Option<Located>> {
        self.locate_from(self.locate_root(), path)
    }

    /// What a path is in the parents alone.
    pub(super) fn locate_below_top(&self, path: &NtPath) -> Result<Option<Located>> {
        let mut root = self.locate_root();
        root.parts.retain(|part| part.layer > 0);
        self.locate_from(root, path)
    }

    fn locate_from(&self, root: Located, path: &NtPath) -> Result<Option<Located>> {
        let mut at = root;
        for name in path.components() {
            if at.kind() == Kind::File {
                return Ok(None);
            }
            match self.step(&at, name)? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// What tells a part of one world from any other: where it is, and what hides below it there.
    pub(crate) fn file_of(&self, part: &Part) -> Option<(std::path::PathBuf, String)> {
        let one = self.layers.get(part.layer)?;
        Some((one.path.clone(), part.stored.clone()))
    }

    pub(super) fn need(&self, path: &NtPath, kind: Option<Kind>) -> Result<Located> {
        let located = self
            .locate(path)?
            .ok_or_else(|| Error::PathMissing { path: path.to_string() })?;
        match kind {
            Some(kind) if kind != located.kind() => {
                let found = located.kind().words();
                Err(Error::WrongKind {
                    path: path.to_string(),
                    found,
                    expected: kind.words(),
                })
            }
            _ => Ok(located),
        }
    }

    /// An entry of a directory, by its name or short name.
    pub(super) fn step(&self, dir: &Located, name: &NtName) -> Result<Option<Located>> {
        if let Some(found) = self.step_long(dir, name)? {
            return Ok(Some(found));
        }
        for part in &dir.parts {
            let Some(listed) = self.one(part.layer)?.layer.lookup_short(part, name)? else {
                continue;
            };
            // It counts only if it shows: its long name must lead to the same entry.
            if let Some(found) = self.step_long(dir, listed.stored.name())?
                && let Some(first) = found.parts.first()
                && first.layer == part.layer
                && first.stored == part.below(listed.clone(), None).stored
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn step_long(&self, dir: &Located, name: &NtName) -> Result<Option<Located>> {
        let folded = name.folded();
        let mut parts = dir.parts.iter();
        let first = loop {
            let Some(part) = parts.next() else { return Ok(None) };
            if let Some(found) = self.one(part.layer)?.layer.lookup_long(part, name, &folded)? {
                break found;
            }
            if self.has_mark_in(part.layer, dir, name)? {
                return Ok(None);
            }
        };
        let true_name = first.nt_path.name().unwrap_or(name).clone();
        let mut located = Located {
            nt_path: dir.nt_path.join(&true_name),
            listed: first.listed.clone(),
            parts: Vec::with_capacity(dir.parts.len()),
        };
        let mut is_last = !first.is_directory() || self.has_mark(first.layer, &located.nt_path)?;
        located.parts.push(first);
        // The same name to NT, so the same when folded; only the exact spelling to prefer is another.
        while !is_last && let Some(part) = parts.next() {
            if let Some(found) = self.one(part.layer)?.layer.lookup_long(part, &true_name, &folded)? {
                if !found.is_directory() {
                    break;
                }
                located.parts.push(found);
            }
            is_last = self.has_mark(part.layer, &located.nt_path)?;
        }
        Ok(Some(located))
    }

    fn has_mark_in(&self, layer: usize, dir: &Located, name: &NtName) -> Result<bool> {
        let removed = self.one(layer)?.removed();
        Ok(!removed.is_empty() && removed.has_mark(&dir.nt_path.join(name)))
    }

    pub(super) fn has_mark(&self, layer: usize, path: &NtPath) -> Result<bool> {
        let removed = self.one(layer)?.removed();
        Ok(!removed.is_empty() && removed.has_mark(path))
    }

    /// The entry of a layer that a path led to, to open it.
    pub(super) fn found(&self, located: &Located) -> Result<Found> {
        let part = located.first()?;
        let layer = &self.one(part.layer)?.layer;
        let parent = part.stored.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = layer.path().join(&part.stored);
        let dir = open_dir(layer.root_fd(), parent).map_err(|error| Error::io("open", &path, error))?;
        Ok(Found {
            dir,
            entry: located.listed.clone(),
            nt_path: part.nt_path.clone(),
            path,
        })
    }
}

impl Layer {
    /// An entry by its name; `folded` is the name as lookups compare it.
    fn lookup_long(&self, dir: &Part, name: &NtName, folded: &[u16]) -> Result<Option<Part>> {
        let found = match self.cached(dir)? {
            Some(cached) => cached
                .find_long(name, folded)
                .map(|(listed, slot)| (listed, Some(slot))),
            None => self
                .with_place(dir, |place| place.find_long(name))?
                .flatten()
                .map(|listed| (listed, None)),
        };
        Ok(found.map(|(listed, slot)| dir.below(listed, slot)))
    }

    fn lookup_short(&self, dir: &Part, name: &NtName) -> Result<Option<Listed>> {
        match self.cached(dir)? {
            Some(cached) => cached.find_short(name, || {
                Ok(self
                    .with_place(dir, |place| cached.read_short_names(place))?
                    .unwrap_or_default())
            }),
            None => Ok(self.with_place(dir, |place| place.find_short(name))?.flatten()),
        }
    }

    /// The entries whose names are one name to NT.
    pub(super) fn twins(&self, dir: &Part, name: &NtName) -> Result<Vec<Listed>> {
        Ok(self
            .listing(dir)?
            .map(|listing| listing.twins(name))
            .unwrap_or_default())
    }

    /// All entries of a directory.
    pub(super) fn list(&self, dir: &Part) -> Result<Vec<Listed>> {
        Ok(self
            .listing(dir)?
            .map(|listing| listing.entries().cloned().collect())
            .unwrap_or_default())
    }

    fn listing(&self, dir: &Part) -> Result<Option<Arc<CachedDir>>> {
        match self.cached(dir)? {
            Some(cached) => Ok(Some(cached)),
            None => Ok(self.with_place(dir, CachedDir::read)?.map(Arc::new)),
        }
    }

    /// The listing of a directory of a layer that does not change; read at the first question.
    fn cached(&self, dir: &Part) -> Result<Option<Arc<CachedDir>>> {
        let Some(slot) = &dir.slot else { return Ok(None) };
        if let Some(cached) = slot.get() {
            return Ok(cached.clone());
        }
        let read = self.with_place(dir, CachedDir::read)?.map(Arc::new);
        Ok(slot.get_or_init(|| read).clone())
    }

    fn with_place<T>(&self, dir: &Part, work: impl FnOnce(&Place<'_>) -> Result<T>) -> Result<Option<T>> {
        let path = self.path().join(&dir.stored);
        let fd = match open_dir(self.root_fd(), &dir.stored) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let names = self.names();
        let place = Place {
            fd: &fd,
            nt_path: &dir.nt_path,
            path: &path,
            names: &names,
        };
        work(&place).map(Some)
    }
}
