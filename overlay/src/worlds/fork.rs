// SPDX-License-Identifier: GPL-3.0-or-later
//! Forks: worlds that stand on others, and what can be made of them.

use std::fs::File;

use rustix::fs::OFlags;

use super::lock::{Hold, WorldLock};
use super::staging::{clear_work, seal};
use super::{World, WorldName, Worlds};
use crate::beneath::{FILE_MODE, open_entry, open_file_entry, open_root};
use crate::conf::{Parent, WorldConf};
use crate::error::{Error, Result, Trying};
use crate::layers::{Access, Layers, copy_bytes};
use crate::manifest::{Difference, REGISTRY, SealOptions};
use crate::name::NtPath;

/// What is different between two worlds.
#[derive(Debug)]
pub struct WorldDiff {
    /// Files, directories and streams, in NT's order.
    pub files: Vec<Difference>,
    /// Keys and values, in NT's order.
    pub registry: Vec<hive::diff::Difference>,
}

impl Worlds {
    /// Makes a fork of a sealed world: its files fall through to the parent's, its registry is a copy (a reflink where the
    /// file system can). Nothing is forced onto the disk, since a fork that is lost in a power cut is made again in no time;
    /// a kill leaves the whole fork or none.
    ///
    /// # Errors
    /// [`Error::NotSealed`] for the parent, [`Error::WorldExists`], [`Error::WorldInUse`], [`Error::TooManyLayers`].
    pub fn fork(&self, name: &WorldName, base: &World) -> Result<World> {
        let digest = base.conf().digest.ok_or_else(|| Error::NotSealed {
            name: base.name().to_string(),
        })?;
        // The parent is held until the child names it.
        let layers = Layers::open(base, Access::Read)?;
        if layers.nr_layers() >= crate::layers::MAX_LAYERS {
            return Err(Error::TooManyLayers {
                name: name.to_string(),
                limit: crate::layers::MAX_LAYERS,
            });
        }
        let staging = self.begin(name, "")?;
        let conf = WorldConf {
            parent: Some(Parent {
                name: base.name().to_string(),
                digest,
            }),
            setup: base.conf().setup,
            ..WorldConf::default()
        };
        // The root is both worlds'; it looks like the parent's.
        let root_path = NtPath::root();
        if let Some(mut meta) = layers.metadata(&root_path)?.map(|entry| entry.meta) {
            if let Some(descriptor) = layers.security(&root_path)? {
                staging.tree().intern_security(&descriptor)?;
            }
            meta.extra = None;
            staging.tree().set_root_metadata(meta);
        }
        let from_path = base.registry_path();
        let base_fd = open_root(base.path()).trying("open", base.path())?;
        let from = File::from(open_file_entry(&base_fd, REGISTRY).trying("open", &from_path)?);
        let world_path = staging.path();
        let world = open_root(&world_path).trying("open", &world_path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut to =
            File::from(open_entry(&world, REGISTRY, flags, FILE_MODE).trying("make", staging.registry_path())?);
        copy_bytes(&from, &mut to, &staging.registry_path())?;
        staging.commit_unsealed(&conf)
    }
}

impl World {
    /// Seals a world: computes its manifest and digest. From then on nothing writes to it.
    ///
    /// # Errors
    /// [`Error::WorldInUse`] when a program runs in it; what [`crate::Manifest::compute`] finds.
    pub fn seal(&mut self, options: &SealOptions<'_>) -> Result<()> {
        let _lock = WorldLock::take(&self.worlds, &self.name, Hold::Alone, "its sealing")?;
        let fd = open_root(&self.path).trying("open", &self.path)?;
        let mut conf = WorldConf::read(&fd, &self.path)?.ok_or_else(|| self.worlds.missing(&self.name))?;
        clear_work(&fd, &self.path)?;
        seal(&fd, &self.path, &mut conf, options)?;
        rustix::fs::syncfs(&fd).trying("write to the disk", &self.path)?;
        self.conf = conf;
        Ok(())
    }

    /// What the other world has otherwise than this one: files as programs see them through all layers, and the registry.
    ///
    /// # Errors
    /// What Linux says; damage of either world or registry.
    pub fn diff(&self, other: &Self) -> Result<WorldDiff> {
        let (old, new) = (Layers::open(self, Access::Read)?, Layers::open(other, Access::Read)?);
        let files = crate::view::diff(&old, &new)?;
        let (old_path, new_path) = (self.registry_path(), other.registry_path());
        let read = |path: &std::path::Path| std::fs::read(path).trying("read", path);
        let (old, new) = (read(&old_path)?, read(&new_path)?);
        let mut registry = Vec::new();
        if old != new {
            let refused = |path: &std::path::Path, error: hive::Error| Error::Registry {
                path: path.into(),
                reason: error.to_string(),
            };
            let old = hive::Hive::open(&old)
                .and_then(|hive| hive.root())
                .map_err(|e| refused(&old_path, e))?;
            let new = hive::Hive::open(&new)
                .and_then(|hive| hive.root())
                .map_err(|e| refused(&new_path, e))?;
            let options = hive::diff::DiffOptions {
                times: false,
                attributes: true,
            };
            hive::diff::diff(old, new, options, &mut |difference| {
                registry.push(difference);
                Ok(())
            })
            .map_err(|error| refused(&new_path, error))?;
        }
        Ok(WorldDiff { files, registry })
    }

    /// Makes a sealed world changeable again, if no other stands on it.
    ///
    /// # Errors
    /// [`Error::WorldInUse`], [`Error::WorldHasChildren`].
    pub fn unseal(&mut self) -> Result<()> {
        let _lock = WorldLock::take(&self.worlds, &self.name, Hold::Alone, "its unsealing")?;
        let children = self.worlds.children(&self.name)?;
        if !children.is_empty() {
            let children = children.iter().map(ToString::to_string).collect();
            return Err(Error::WorldHasChildren {
                name: self.name.to_string(),
                children,
            });
        }
        let fd = open_root(&self.path).trying("open", &self.path)?;
        let mut conf = WorldConf::read(&fd, &self.path)?.ok_or_else(|| self.worlds.missing(&self.name))?;
        conf.digest = None;
        conf.write(&fd, &self.path, crate::files::Durable::Now)?;
        self.conf = conf;
        Ok(())
    }
}
