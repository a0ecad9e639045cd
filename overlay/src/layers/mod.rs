// SPDX-License-Identifier: GPL-3.0-or-later
//! A world with its parents: one tree out of several layers.
//!
//! Layer 0 is the world's own `files/`; the others are its parents' and are never written. A name is looked for layer by
//! layer: own file, own removed mark, parent's file, parent's mark, … Names that differ only in case are one group, and the
//! uppermost layer that has one of a group has all that shows of it. Directories of several layers are one, down to the
//! first that is opaque (its path has a mark) or hidden by a file.
//!
//! The rule that everything else stands on: whatever is done, only layer 0 and its `removed` change. A change first puts
//! what it needs into layer 0 (*copy-up*), then happens there.

mod change;
mod copy_up;
mod locate;
mod own;
mod read;

pub use change::Replace;
pub(crate) use copy_up::copy_bytes;
pub(crate) use locate::{Located, Part};

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::manifest::FILES;
use crate::name::{NtName, NtPath};
use crate::removed::Removed;
use crate::worlds::lock::{Hold, WorldLock};
use crate::worlds::{World, WorldName};

/// The most layers that a world may have.
pub const MAX_LAYERS: usize = 64;

/// What layers are opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only to read.
    Read,
    /// To change the world; it may not be sealed.
    Write,
}

/// A world with its parents, as programs see it. Any number of threads may use it.
#[derive(Debug)]
pub struct Layers {
    layers: Vec<One>,
    access: Access,
    /// One change at a time.
    change: Mutex<()>,
    next_work: AtomicU64,
    /// Parents that are in use cannot be removed.
    _locks: Vec<WorldLock>,
}

/// One layer.
#[derive(Debug)]
struct One {
    world: WorldName,
    /// The world's directory.
    path: PathBuf,
    layer: Layer,
    removed: RwLock<Removed>,
    /// The names of each file that has several; only of a sealed layer.
    links: OnceLock<Links>,
}

/// Groups of hard links, by the path of each name as lookups compare it.
#[derive(Debug, Default)]
struct Links {
    group_of: HashMap<Vec<Box<[u16]>>, usize>,
    groups: Vec<Vec<NtPath>>,
}

/// Says that the one change at a time is being made.
struct Changing<'a>(#[allow(dead_code, reason = "held, not read")] MutexGuard<'a, ()>);

impl One {
    fn removed(&self) -> RwLockReadGuard<'_, Removed> {
        self.removed.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layers {
    /// Opens a world with all its parents, and holds them so that none is removed.
    ///
    /// # Errors
    /// [`Error::WorldMissing`] for a parent that is not here, [`Error::ParentChanged`] for one that is another,
    /// [`Error::TooManyLayers`], [`Error::Sealed`] when a sealed world is opened to change it.
    pub fn open(world: &World, access: Access) -> Result<Self> {
        let own = WorldLock::take(world.worlds(), world.name(), Hold::Shared, "")?;
        Self::open_held(world, access, Some(own))
    }

    /// The same for a world that somebody of ours holds alone, or with the lock that holds it.
    pub(crate) fn open_held(world: &World, access: Access, own: Option<WorldLock>) -> Result<Self> {
        if access == Access::Write && world.conf().digest.is_some() {
            return Err(Error::Sealed {
                name: world.name().to_string(),
            });
        }
        let worlds = world.worlds();
        let mut layers = Vec::new();
        let mut locks = Vec::from_iter(own);
        let mut next = Some(world.name().clone());
        let mut expected: Option<(String, crate::manifest::Digest)> = None;
        while let Some(name) = next {
            if layers.len() == MAX_LAYERS {
                return Err(Error::TooManyLayers {
                    name: world.name().to_string(),
                    limit: MAX_LAYERS,
                });
            }
            if !layers.is_empty() {
                locks.push(WorldLock::take(worlds, &name, Hold::Shared, "")?);
            }
            let one = worlds.world(&name)?;
            if let Some((child, digest)) = expected.take()
                && one.conf().digest != Some(digest)
            {
                let found = one
                    .conf()
                    .digest
                    .map_or_else(|| "none: it is not sealed".into(), |found| found.to_string());
                let (parent, expected) = (name.to_string(), digest.to_string());
                return Err(Error::ParentChanged {
                    name: child,
                    parent,
                    expected,
                    found,
                });
            }
            let files = one.path().join(FILES);
            let layer = if one.conf().digest.is_some() {
                Layer::open_sealed(files)?
            } else {
                Layer::open(files)?
            };
            layers.push(One {
                world: name.clone(),
                path: one.path().to_owned(),
                layer,
                removed: RwLock::new(one.removed()?),
                links: OnceLock::new(),
            });
            next = match &one.conf().parent {
                None => None,
                Some(parent) => {
                    expected = Some((name.to_string(), parent.digest));
                    Some(WorldName::new(&parent.name).map_err(Error::WorldName)?)
                }
            };
        }
        Ok(Self {
            layers,
            access,
            change: Mutex::new(()),
            next_work: AtomicU64::new(0),
            _locks: locks,
        })
    }

    /// How many layers there are.
    pub fn nr_layers(&self) -> usize {
        self.layers.len()
    }

    fn one(&self, layer: usize) -> Result<&One> {
        // A layer number only ever comes from this list.
        self.layers.get(layer).ok_or_else(|| Error::PathMissing {
            path: format!("layer {layer}"),
        })
    }

    fn top(&self) -> Result<&One> {
        self.one(0)
    }

    fn changing(&self) -> Result<Changing<'_>> {
        if self.access == Access::Read {
            let name = self.top()?.world.to_string();
            return Err(Error::ReadOnly { name });
        }
        Ok(Changing(self.change.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The names that a file of a sealed layer has, by one of them.
    fn names_of(&self, layer: usize, path: &NtPath) -> Result<Vec<NtPath>> {
        let one = self.one(layer)?;
        let links = match one.links.get() {
            Some(links) => links,
            None => {
                let read = read_links(one)?;
                one.links.get_or_init(|| read)
            }
        };
        let group = links
            .group_of
            .get(&path.folded())
            .and_then(|group| links.groups.get(*group));
        Ok(group.cloned().unwrap_or_else(|| vec![path.clone()]))
    }
}

/// Reads the groups of hard links out of a layer's manifest.
fn read_links(one: &One) -> Result<Links> {
    let path = one.path.join(FILES).join(crate::store::RESERVED);
    let nt = crate::beneath::open_root(&path).map_err(|error| Error::io("open", &path, error))?;
    let limit = crate::worlds::MAX_MANIFEST_BYTES;
    let text = crate::files::read_text(&nt, crate::store::MANIFEST, &path, limit)?.unwrap_or_default();
    let mut links = Links::default();
    for (at, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("l\t") else { continue };
        let mut columns = rest.split('\t');
        let (Some(name), Some(first)) = (columns.next(), columns.next().and_then(|of| of.strip_prefix("of="))) else {
            continue;
        };
        let parse = |text: &str| {
            NtPath::parse(text).map_err(|error| Error::Line {
                path: path.join(crate::store::MANIFEST),
                line: at + 1,
                reason: error.to_string(),
            })
        };
        let (name, first) = (parse(name)?, parse(first)?);
        let group = match links.group_of.get(&first.folded()) {
            Some(group) => *group,
            None => {
                links.groups.push(vec![first.clone()]);
                links.group_of.insert(first.folded(), links.groups.len() - 1);
                links.groups.len() - 1
            }
        };
        links.group_of.insert(name.folded(), group);
        if let Some(group) = links.groups.get_mut(group) {
            group.push(name);
        }
    }
    Ok(links)
}

/// A path's parent and name; the root has neither.
fn split(path: &NtPath) -> Result<(NtPath, NtName)> {
    let mut parent = path.clone();
    match parent.pop() {
        Some(name) => Ok((parent, name)),
        None => Err(Error::WrongKind {
            path: path.to_string(),
            found: "the root",
            expected: "a name in a directory",
        }),
    }
}
