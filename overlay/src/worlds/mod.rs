// SPDX-License-Identifier: GPL-3.0-or-later
//! The directory of worlds: what there is, what is being made, who holds what.
//!
//! In the root, a world is a directory of its name. Names with a dot in front are ours: `.NAME.import` is a world that
//! is being made, `.NAME.removed` one that is being deleted, `.locks` the locks. If this module is broken, somebody
//! sees half a world.

mod flatten;
mod fork;
pub(crate) mod lock;
mod name;
pub(crate) mod staging;
mod survey;
mod verify;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{RenameFlags, fsync, renameat, renameat_with};
use rustix::io::Errno;

pub use fork::WorldDiff;
pub use lock::WorldLock;
use lock::{Hold, LOCKS};
pub use name::WorldName;
pub use staging::Staging;
pub use survey::Survey;

use crate::beneath::{open_dir_entry, open_root};
use crate::conf::WorldConf;
use crate::error::{Error, Result, Trying};
use crate::files;
use crate::layer::Layer;
use crate::listing;
use crate::manifest::{Digest, FILES, Manifest};
use crate::probe::{self, FileSystem};
use crate::removed::Removed;
use crate::sizes::{Sizes, sizes};
use crate::store::{MANIFEST, RESERVED};

/// The most bytes of a stored manifest that are read: some ten million entries.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 2 << 30;

/// The directory of all worlds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worlds {
    root: PathBuf,
    fd: Arc<OwnedFd>,
}

/// A world in a list.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: WorldName,
    /// Its `world.conf`, or why it cannot be read.
    pub conf: Result<WorldConf>,
}

/// A world that is there.
#[derive(Debug)]
pub struct World {
    worlds: Worlds,
    name: WorldName,
    path: PathBuf,
    conf: WorldConf,
}

impl Worlds {
    /// Opens the directory of worlds, and makes it if it is missing.
    ///
    /// # Errors
    /// What Linux says.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root).trying("make the directory", &root)?;
        // The person's own path may go through links; from here on, none is followed.
        let root = std::fs::canonicalize(&root).trying("find", &root)?;
        let fd = Arc::new(open_root(&root).trying("open", &root)?);
        Ok(Self { root, fd })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Asks the file system whether it can hold worlds, and how much room it has.
    ///
    /// # Errors
    /// [`Error::NoUserXattrs`], [`Error::CoarseTimes`], or what Linux says.
    pub fn probe(&self) -> Result<FileSystem> {
        probe::probe(&self.fd, &self.root)
    }

    /// All worlds, by name.
    ///
    /// # Errors
    /// What Linux says about the directory; a single world's trouble is in its entry.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut worlds = Vec::new();
        for (name, kind) in listing::raw(&self.fd, &self.root)? {
            if kind != rustix::fs::FileType::Directory {
                continue;
            }
            let Ok(name) = WorldName::new(&name) else { continue };
            let conf = World::open(self, &name).map(|world| world.conf);
            worlds.push(Listed { name, conf });
        }
        worlds.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(worlds)
    }

    /// A world by its name.
    ///
    /// # Errors
    /// [`Error::WorldMissing`], or a damaged `world.conf`.
    pub fn world(&self, name: &WorldName) -> Result<World> {
        World::open(self, name)
    }

    /// Begins to make a world. What a killed run has left is gone on with if it had the same fingerprint and at least
    /// one whole stage, else cleared.
    ///
    /// # Errors
    /// [`Error::WorldExists`]; [`Error::WorldInUse`] when somebody else is making it.
    pub fn begin(&self, name: &WorldName, fingerprint: &str) -> Result<Staging> {
        if self.has(name) {
            return Err(self.exists(name));
        }
        let lock = WorldLock::take(self, name, Hold::Alone, "an import")?;
        if self.has(name) {
            return Err(self.exists(name));
        }
        delete_tree(self, &removed_name(name))?;
        Staging::open(self, name, lock, fingerprint)
    }

    /// Removes a world, all at once: after any crash it is whole or gone.
    ///
    /// # Errors
    /// [`Error::WorldMissing`], [`Error::WorldInUse`], [`Error::WorldHasChildren`].
    pub fn remove(&self, name: &WorldName) -> Result<()> {
        if !self.has(name) {
            return Err(self.missing(name));
        }
        // With the lock, nobody can begin a fork of it.
        let lock = WorldLock::take(self, name, Hold::Alone, "its removal")?;
        let children = self.children(name)?;
        if !children.is_empty() {
            let children = children.iter().map(ToString::to_string).collect();
            return Err(Error::WorldHasChildren {
                name: name.to_string(),
                children,
            });
        }
        let away = removed_name(name);
        delete_tree(self, &away)?;
        match renameat(&self.fd, name.as_str(), &self.fd, &*away) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(self.missing(name)),
            Err(error) => return Err(Error::io("remove", self.root.join(name.as_str()), error)),
        }
        fsync(&self.fd).trying("write to the disk", &self.root)?;
        delete_tree(self, &away)?;
        lock.forget(self, name);
        Ok(())
    }

    /// The worlds whose parent is this one.
    ///
    /// # Errors
    /// What Linux says, and a `world.conf` that cannot be read: it may name this world.
    pub fn children(&self, name: &WorldName) -> Result<Vec<WorldName>> {
        let mut children = Vec::new();
        for listed in self.list()? {
            match listed.conf {
                Ok(conf) => {
                    if conf.parent.is_some_and(|parent| parent.name == name.as_str()) {
                        children.push(listed.name);
                    }
                }
                // Removed while we looked, or no world at all.
                Err(Error::WorldMissing { .. }) => {}
                Err(_) if listed.name == *name => {}
                Err(error) => return Err(error),
            }
        }
        Ok(children)
    }

    /// Gives a world another name. Its children keep it as parent.
    ///
    /// # Errors
    /// [`Error::WorldMissing`], [`Error::WorldInUse`], [`Error::WorldExists`], [`Error::WorldHasChildren`].
    pub fn rename(&self, from: &WorldName, to: &WorldName) -> Result<World> {
        if !self.has(from) {
            return Err(self.missing(from));
        }
        let lock = WorldLock::take(self, from, Hold::Alone, "its renaming")?;
        let _new = WorldLock::take(self, to, Hold::Alone, "a renaming")?;
        let children = self.children(from)?;
        if !children.is_empty() {
            // A crash between several files would leave a child without parent.
            let children = children.iter().map(ToString::to_string).collect();
            return Err(Error::WorldHasChildren {
                name: from.to_string(),
                children,
            });
        }
        match renameat_with(&self.fd, from.as_str(), &self.fd, to.as_str(), RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(self.exists(to)),
            Err(Errno::INVAL | Errno::NOSYS) if !self.has(to) => {
                renameat(&self.fd, from.as_str(), &self.fd, to.as_str())
                    .trying("rename", self.root.join(from.as_str()))?;
            }
            Err(error) => return Err(Error::io("rename", self.root.join(from.as_str()), error)),
        }
        fsync(&self.fd).trying("write to the disk", &self.root)?;
        lock.forget(self, from);
        World::open(self, to)
    }

    /// Clears what killed processes have left: half-deleted worlds always, half-made ones too. What somebody works on
    /// is left alone. Gives the names of the cleared directories.
    ///
    /// # Errors
    /// What Linux says.
    pub fn sweep(&self) -> Result<Vec<String>> {
        let mut cleared = Vec::new();
        for (entry, _) in listing::raw(&self.fd, &self.root)? {
            let stem = entry.strip_prefix('.').and_then(|name| {
                [".import", ".removed", ".flatten"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
            });
            let Some(Ok(name)) = stem.map(WorldName::new) else {
                continue;
            };
            let Ok(_lock) = WorldLock::take(self, &name, Hold::Alone, "a clearing") else {
                continue;
            };
            delete_tree(self, &entry)?;
            cleared.push(entry);
        }
        cleared.sort();
        Ok(cleared)
    }

    pub(crate) fn has(&self, name: &WorldName) -> bool {
        self.root.join(name.as_str()).symlink_metadata().is_ok()
    }

    pub(crate) fn exists(&self, name: &WorldName) -> Error {
        Error::WorldExists {
            name: name.to_string(),
            root: self.root.clone(),
        }
    }

    pub(crate) fn missing(&self, name: &WorldName) -> Error {
        Error::WorldMissing {
            name: name.to_string(),
            root: self.root.clone(),
        }
    }
}

fn removed_name(name: &WorldName) -> String {
    format!(".{name}.removed")
}

/// Removes one of our own directories in the root, if it is there. No link is followed.
pub(crate) fn delete_tree(worlds: &Worlds, entry: &str) -> Result<()> {
    debug_assert!(
        entry.starts_with('.') && entry != LOCKS,
        "only what is being made or deleted"
    );
    let path = worlds.root().join(entry);
    match std::fs::remove_dir_all(&path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", path, error)),
    }
}

impl World {
    pub(crate) fn open(worlds: &Worlds, name: &WorldName) -> Result<Self> {
        let path = worlds.root.join(name.as_str());
        let fd = match open_dir_entry(worlds.fd(), name.as_str()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(worlds.missing(name)),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let conf = WorldConf::read(&fd, &path)?.ok_or_else(|| worlds.missing(name))?;
        Ok(Self {
            worlds: worlds.clone(),
            name: name.clone(),
            path,
            conf,
        })
    }

    /// Its name.
    pub fn name(&self) -> &WorldName {
        &self.name
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its registry is.
    pub fn registry_path(&self) -> PathBuf {
        self.path.join(crate::manifest::REGISTRY)
    }

    /// Its `world.conf`, as it was when the world was opened.
    pub fn conf(&self) -> &WorldConf {
        &self.conf
    }

    /// The directory of worlds that it is in.
    pub fn worlds(&self) -> &Worlds {
        &self.worlds
    }

    /// Its own files, without its parents'.
    ///
    /// # Errors
    /// As [`Layer::open`].
    pub fn layer(&self) -> Result<Layer> {
        Layer::open(self.path.join(FILES))
    }

    /// Its removed marks.
    ///
    /// # Errors
    /// [`Error::Line`] for a damaged file; what Linux says.
    pub fn removed(&self) -> Result<Removed> {
        Removed::read(open_root(&self.path).trying("open", &self.path)?, &self.path)
    }

    /// What it has and takes by itself.
    ///
    /// # Errors
    /// What Linux says.
    pub fn sizes(&self) -> Result<Sizes> {
        sizes(&self.path)
    }

    /// Holds the world beside others, for as long as a program runs in it.
    ///
    /// # Errors
    /// [`Error::WorldInUse`] when somebody has it alone.
    pub fn lock_shared(&self) -> Result<WorldLock> {
        let lock = WorldLock::take(&self.worlds, &self.name, Hold::Shared, "")?;
        // It may have been removed before we had the lock.
        if self.worlds.has(&self.name) {
            Ok(lock)
        } else {
            Err(self.worlds.missing(&self.name))
        }
    }

    /// The manifest that was stored when it was sealed, checked against the digest.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::ManifestDigest`].
    pub fn stored_manifest(&self) -> Result<Manifest> {
        let digest = self.conf.digest.ok_or_else(|| Error::NotSealed {
            name: self.name.to_string(),
        })?;
        let place = self.path.join(FILES).join(RESERVED);
        let nt = open_root(&place).trying("open", &place)?;
        let text = files::read_text(&nt, MANIFEST, &place, MAX_MANIFEST_BYTES)?.unwrap_or_default();
        let found = Digest::of(text.as_bytes());
        match Manifest::from_text(text) {
            Some(manifest) if found == digest => Ok(manifest),
            _ => Err(Error::ManifestDigest {
                path: self.path.clone(),
                expected: digest.to_string(),
                found: found.to_string(),
            }),
        }
    }
}
