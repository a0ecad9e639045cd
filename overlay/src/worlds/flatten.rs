// SPDX-License-Identifier: GPL-3.0-or-later
//! A fork with all that shows through made into a base.

use std::collections::HashMap;
use std::fs::File;

use rustix::fs::{OFlags, RenameFlags, fsync, renameat_with};

use super::lock::{Hold, WorldLock};
use super::staging::Staging;
use super::{World, WorldName};
use crate::beneath::{FILE_MODE, open_entry, open_file_entry, open_root};
use crate::conf::WorldConf;
use crate::error::{Error, Result, Trying};
use crate::layer::{Entry, Kind};
use crate::layers::{Access, Layers, Located, copy_bytes};
use crate::manifest::{REGISTRY, SealOptions};
use crate::meta::NtMetadata;
use crate::name::{NtName, NtPath, PathId, StoredName, stored_names};
use crate::store::ExtraKey;
use crate::tree::{Dir, FileTree};

impl World {
    /// Makes a new, sealed base of this world as it shows now, and leaves this one as it is.
    ///
    /// # Errors
    /// [`Error::WorldExists`], [`Error::WorldInUse`], what Linux says, and damage of a layer.
    pub fn commit_to(&self, name: &WorldName, options: &SealOptions<'_>) -> Result<World> {
        // A world that can change is held alone, so that what is committed is one moment of it.
        let hold = if self.conf.digest.is_some() {
            Hold::Shared
        } else {
            Hold::Alone
        };
        let lock = WorldLock::take(&self.worlds, &self.name, hold, "a commit of it")?;
        let layers = Layers::open_held(self, Access::Read, Some(lock))?;
        let staging = self.worlds.begin(name, "")?;
        let conf = self.fill_flat(&layers, &staging)?;
        staging.commit(conf, options)
    }

    /// Makes this fork a sealed base, under its own name: after any crash the name has the fork or the base, whole. Worlds
    /// that have it as parent must not exist, since its digest changes.
    ///
    /// # Errors
    /// [`Error::WorldInUse`], [`Error::WorldHasChildren`], what Linux says, and damage of a layer.
    pub fn flatten(&mut self, options: &SealOptions<'_>) -> Result<()> {
        let lock = WorldLock::take(&self.worlds, &self.name, Hold::Alone, "its flattening")?;
        let children = self.worlds.children(&self.name)?;
        if !children.is_empty() {
            let children = children.iter().map(ToString::to_string).collect();
            return Err(Error::WorldHasChildren {
                name: self.name.to_string(),
                children,
            });
        }
        let layers = Layers::open_held(self, Access::Read, None)?;
        let staging = Staging::open_aside(&self.worlds, &self.name, lock)?;
        let mut conf = self.fill_flat(&layers, &staging)?;
        drop(layers);
        staging.prepare(&mut conf, options)?;
        staging.exchange()?;
        self.conf = conf;
        Ok(())
    }

    /// Lays down all that shows, and gives the new world's conf.
    fn fill_flat(&self, layers: &Layers, staging: &Staging) -> Result<WorldConf> {
        lay_down(layers, staging.tree())?;
        let own = open_root(&self.path).trying("open", &self.path)?;
        let from = File::from(open_file_entry(&own, REGISTRY).trying("open", self.registry_path())?);
        let path = staging.path();
        let world = open_root(&path).trying("open", &path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let mut to =
            File::from(open_entry(&world, REGISTRY, flags, FILE_MODE).trying("make", staging.registry_path())?);
        copy_bytes(&from, &mut to, &staging.registry_path())?;
        let mut conf = WorldConf {
            parent: None,
            digest: None,
            ..self.conf.clone()
        };
        let mut parent = self.conf.parent.clone();
        while let Some(above) = parent {
            let name = WorldName::new(&above.name).map_err(Error::WorldName)?;
            let above = self.worlds.world(&name)?.conf;
            conf.source = conf.source.or(above.source);
            conf.laid_down = conf.laid_down.or(above.laid_down);
            for (key, value) in above.options {
                conf.options.entry(key).or_insert(value);
            }
            parent = above.parent;
        }
        Ok(conf)
    }
}

impl Staging {
    /// Puts the finished world in the place of the one with its name; that one is deleted.
    pub(super) fn exchange(self) -> Result<()> {
        let root = self.worlds().fd();
        let to = self.worlds().root().join(self.name().as_str());
        renameat_with(self.fd(), "world", root, self.name().as_str(), RenameFlags::EXCHANGE)
            .trying("exchange with the flattened world", &to)?;
        fsync(root).trying("write to the disk", self.worlds().root())?;
        self.delete_aside()
    }
}

/// A file of the tree that shows, with all its names.
struct Group {
    names: Vec<(Dir, StoredName)>,
    source: Located,
    entry: Entry,
    first_path: NtPath,
    short_owner: Option<PathId>,
}

/// Lays down everything that shows in layers.
pub(crate) fn lay_down(layers: &Layers, tree: &FileTree) -> Result<()> {
    let root = layers.locate_root();
    let meta = adopted(layers, tree, &root, &layers.entry(&root)?, &NtPath::root())?;
    tree.set_root_metadata(meta);
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of: HashMap<(usize, u64), usize> = HashMap::new();
    let mut todo = vec![(root, tree.root())];
    while let Some((at, dir)) = todo.pop() {
        // In path order, so that the first name of a file is the first that comes.
        let mut children = layers.children(&at)?;
        children.sort_by(|a, b| a.nt_path.cmp(&b.nt_path));
        let names: Vec<NtName> = children
            .iter()
            .filter_map(|child| child.nt_path.name().cloned())
            .collect();
        let names = stored_names(&names).map_err(|source| Error::Name {
            place: at.nt_path.to_string(),
            source,
        })?;
        for (child, stored) in children.into_iter().zip(names) {
            let entry = layers.entry(&child)?;
            if child.kind() == Kind::Directory {
                let meta = adopted(layers, tree, &child, &entry, &child.nt_path)?;
                let made = tree.create_dir(&dir, &stored, meta)?;
                todo.push((child, made));
                continue;
            }
            let key = (child.first()?.layer, entry.ino);
            let group = match group_of.get(&key).filter(|_| entry.links > 1) {
                Some(group) => *group,
                None => {
                    group_of.insert(key, groups.len());
                    groups.push(Group {
                        names: Vec::new(),
                        first_path: child.nt_path.clone(),
                        source: child.clone(),
                        entry: entry.clone(),
                        short_owner: None,
                    });
                    groups.len() - 1
                }
            };
            if let Some(group) = groups.get_mut(group) {
                if child.nt_path < group.first_path {
                    group.first_path = child.nt_path.clone();
                }
                if let Some(short) = entry.meta.short_name {
                    group.short_owner = Some(PathId::of(&child.nt_path));
                    group.entry.meta.short_name = Some(short);
                }
                group.names.push((dir.clone(), stored));
            }
        }
    }
    for group in groups {
        lay_down_file(layers, tree, group)?;
    }
    Ok(())
}

fn lay_down_file(layers: &Layers, tree: &FileTree, group: Group) -> Result<()> {
    let Some(((dir, stored), others)) = group.names.split_first() else {
        return Ok(());
    };
    let mut meta = adopted(layers, tree, &group.source, &group.entry, &group.first_path)?;
    meta.short_owner = group.short_owner.filter(|_| !others.is_empty());
    let mut file = tree.create_file(dir, stored, group.entry.size_bytes)?;
    let path = file.path().to_owned();
    copy_bytes(&layers.open_located(&group.source)?, file.file_mut(), &path)?;
    tree.finish_file(file, &meta, None)?;
    others
        .iter()
        .try_for_each(|(other_dir, other)| tree.link((dir, stored), (other_dir, other)))
}

/// An entry's metadata for the new tree, with its descriptor, streams and reparse data put there.
fn adopted(layers: &Layers, tree: &FileTree, located: &Located, entry: &Entry, path: &NtPath) -> Result<NtMetadata> {
    let mut meta = entry.meta.clone();
    meta.short_owner = None;
    if meta.security.is_some()
        && let Some(descriptor) = layers.security(&located.nt_path)?
    {
        meta.security = Some(tree.intern_security(&descriptor)?);
    }
    if meta.extra.is_some() {
        let key = ExtraKey::for_path(path);
        meta.extra = Some(key);
        if let Some(data) = layers.reparse_data(&located.nt_path)? {
            tree.set_reparse(key, &data)?;
        }
        for stream in layers.streams(&located.nt_path)? {
            let mut file = tree.create_stream(key, &stream.name, stream.size_bytes)?;
            let at = file.path().to_owned();
            copy_bytes(
                &layers.open_stream(&located.nt_path, &stream.name)?,
                file.file_mut(),
                &at,
            )?;
            tree.finish_stream(file, None)?;
        }
    }
    Ok(meta)
}
