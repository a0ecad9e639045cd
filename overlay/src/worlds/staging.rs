// SPDX-License-Identifier: GPL-3.0-or-later
//! A world that is being made.
//!
//! It grows in `.NAME.import/world` and gets its name by one rename, when it is whole and on the disk. Beside it are
//! `state`, which says how far the work is, and `scratch`. A kill at any moment leaves either nothing under the name,
//! or the whole world.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags, fsync, renameat, renameat_with, syncfs, unlinkat};
use rustix::io::Errno;

use super::lock::WorldLock;
use super::{World, WorldName, Worlds};
use crate::beneath::{open_dir, open_dir_entry, open_root};
use crate::conf::{self, WorldConf};
use crate::error::{Error, Result, Trying};
use crate::files::{self, Durable};
use crate::manifest::{FILES, Manifest, REGISTRY, SealOptions};
use crate::meta::{FileTime, NtMetadata, disk};
use crate::name::{NtPath, escape, unescape};
use crate::removed::{self, Removed};
use crate::store::{MANIFEST, REGISTRY_TABLE, RESERVED, WORK};
use crate::tree::{FIXED_TIME, FileTree, make_dir};

pub(crate) const WORLD: &str = "world";
const SCRATCH: &str = "scratch";
const STATE: &str = "state";
/// In `scratch`: whose times a placing changes for a while, and what they were.
const PLACING: &str = "placing";
const STATE_HEADER: &str = "vodka-import 1";
const MAX_STATE_BYTES: u64 = 64 << 10;

/// A world that is being made. Dropping it keeps what is there for a later [`Worlds::begin`] with the same
/// fingerprint.
#[derive(Debug)]
pub struct Staging {
    worlds: Worlds,
    name: WorldName,
    lock: WorldLock,
    path: PathBuf,
    fd: OwnedFd,
    tree: FileTree,
    fingerprint: String,
    last_stage: Option<String>,
}

/// The directory in which a world is made.
pub(crate) fn dir_name(name: &WorldName) -> String {
    format!(".{name}.import")
}

/// The directory in which a world's successor is made.
fn aside_name(name: &WorldName) -> String {
    format!(".{name}.flatten")
}

impl Staging {
    pub(crate) fn open(worlds: &Worlds, name: &WorldName, lock: WorldLock, fingerprint: &str) -> Result<Self> {
        let dir = dir_name(name);
        let path = worlds.root().join(&dir);
        let last_stage = match open_dir_entry(worlds.fd(), &dir) {
            Ok(fd) => read_state(&fd, &path, fingerprint),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(Error::io("open", path, error)),
        };
        // Without a whole stage there is nothing to go on from.
        if last_stage.is_none() {
            super::delete_tree(worlds, &dir)?;
            make_dir(worlds.fd(), &dir, &path)?;
        }
        let fd = open_dir_entry(worlds.fd(), &dir).trying("open", &path)?;
        make_dir(&fd, SCRATCH, &path.join(SCRATCH))?;
        make_dir(&fd, WORLD, &path.join(WORLD))?;
        let world = open_dir_entry(&fd, WORLD).trying("open", path.join(WORLD))?;
        let files = path.join(WORLD).join(FILES);
        make_dir(&world, FILES, &files)?;
        let tree = FileTree::open(files)?;
        let staging = Self {
            worlds: worlds.clone(),
            name: name.clone(),
            lock,
            path,
            fd,
            tree,
            fingerprint: fingerprint.to_owned(),
            last_stage,
        };
        if staging.last_stage.is_none() {
            staging.write_state(Durable::Later)?;
        }
        staging.undo_placing()?;
        Ok(staging)
    }

    /// A second world beside one that exists, to take its place: in `.NAME.flatten`. The caller holds the world.
    pub(super) fn open_aside(worlds: &Worlds, name: &WorldName, lock: WorldLock) -> Result<Self> {
        let dir = aside_name(name);
        let path = worlds.root().join(&dir);
        super::delete_tree(worlds, &dir)?;
        make_dir(worlds.fd(), &dir, &path)?;
        let fd = open_dir_entry(worlds.fd(), &dir).trying("open", &path)?;
        make_dir(&fd, WORLD, &path.join(WORLD))?;
        let world = open_dir_entry(&fd, WORLD).trying("open", path.join(WORLD))?;
        let files = path.join(WORLD).join(FILES);
        make_dir(&world, FILES, &files)?;
        let tree = FileTree::open(files)?;
        let (worlds, name, fingerprint) = (worlds.clone(), name.clone(), String::new());
        Ok(Self {
            worlds,
            name,
            lock,
            path,
            fd,
            tree,
            fingerprint,
            last_stage: None,
        })
    }

    pub(super) fn delete_aside(self) -> Result<()> {
        super::delete_tree(&self.worlds, &aside_name(&self.name))
    }

    pub(super) fn worlds(&self) -> &Worlds {
        &self.worlds
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The world's name-to-be.
    pub fn name(&self) -> &WorldName {
        &self.name
    }

    /// The directory of the world-to-be.
    pub fn path(&self) -> PathBuf {
        self.path.join(WORLD)
    }

    /// Its `files/`.
    pub fn files_path(&self) -> PathBuf {
        self.path().join(FILES)
    }

    /// Where its `registry.hiv` must be at [`Staging::commit`].
    pub fn registry_path(&self) -> PathBuf {
        self.path().join(REGISTRY)
    }

    /// A directory for what must not be in the world; it goes with the commit, and stays for a resume.
    pub fn scratch_path(&self) -> PathBuf {
        self.path.join(SCRATCH)
    }

    /// The last whole stage of an earlier, interrupted run with the same fingerprint.
    pub fn last_stage(&self) -> Option<&str> {
        self.last_stage.as_deref()
    }

    /// Writes down that a stage is whole. All that was written before is on the disk first.
    ///
    /// # Errors
    /// What Linux says.
    pub fn stage_done(&mut self, stage: &str) -> Result<()> {
        self.tree.finish()?;
        syncfs(&self.fd).trying("write to the disk", &self.path)?;
        self.last_stage = Some(stage.to_owned());
        self.write_state(Durable::Now)
    }

    /// The writer of `files/`.
    pub fn tree(&self) -> &FileTree {
        &self.tree
    }

    /// Empties `files/`, for a lay-down that was interrupted and begins again.
    ///
    /// # Errors
    /// What Linux says.
    pub fn clear_files(&mut self) -> Result<()> {
        let files = self.files_path();
        std::fs::remove_dir_all(&files).trying("remove", &files)?;
        let world = open_dir_entry(&self.fd, WORLD).trying("open", self.path())?;
        make_dir(&world, FILES, &files)?;
        self.tree = FileTree::open(files)?;
        Ok(())
    }

    /// Puts one file into `files/`: [`FileTree::place_file`]. A kill in the middle changes nothing of what doing it
    /// again gives: the times of the directory that it changes for a while are written down first.
    ///
    /// # Errors
    /// As there.
    pub fn place_file(&self, path: &NtPath, bytes: &[u8], meta: &NtMetadata) -> Result<()> {
        let scratch_path = self.scratch_path();
        let scratch = open_dir_entry(&self.fd, SCRATCH).trying("open", &scratch_path)?;
        let (base, stat) = self.tree.base_of(path)?;
        let ((seconds, nanoseconds), _) = disk::stat_times(&stat);
        let text = format!("{seconds} {nanoseconds} {base}\n");
        files::replace(&scratch, PLACING, text.as_bytes(), &scratch_path, Durable::Now)?;
        self.tree.place_file(path, bytes, meta)?;
        unlinkat(&scratch, PLACING, AtFlags::empty()).trying("remove", scratch_path.join(PLACING))
    }

    /// Gives the directory in which a killed placing was at work the times that it had.
    fn undo_placing(&self) -> Result<()> {
        let scratch_path = self.scratch_path();
        let scratch = open_dir_entry(&self.fd, SCRATCH).trying("open", &scratch_path)?;
        let Some(text) = files::read_text(&scratch, PLACING, &scratch_path, MAX_STATE_BYTES)? else {
            return Ok(());
        };
        let parsed = text.strip_suffix('\n').and_then(|line| {
            let mut fields = line.splitn(3, ' ');
            let (seconds, nanoseconds, base) = (fields.next()?, fields.next()?, fields.next()?);
            Some((seconds.parse().ok()?, nanoseconds.parse().ok()?, base.to_owned()))
        });
        let (seconds, nanoseconds, base) = parsed.ok_or_else(|| Error::Line {
            path: scratch_path.join(PLACING),
            line: 1,
            reason: "expected the times and the path of a directory".into(),
        })?;
        let files_path = self.files_path();
        let files = open_root(&files_path).trying("open", &files_path)?;
        let place = files_path.join(&base);
        let directory = open_dir(&files, &base).trying("open", &place)?;
        disk::set_time(&directory, FileTime::from_unix(seconds, nanoseconds), &place)?;
        unlinkat(&scratch, PLACING, AtFlags::empty()).trying("remove", scratch_path.join(PLACING))
    }

    /// Seals the world and gives it its name: computes the manifest, writes it and `world.conf` with the digest,
    /// puts all on the disk, renames. Hashes of the tree are used beside those of `options`.
    ///
    /// # Errors
    /// [`Error::WorldExists`] when the name was taken meanwhile; what [`Manifest::compute`] finds; what Linux says.
    /// After an error the staging is still there for a resume.
    pub fn commit(self, mut conf: WorldConf, options: &SealOptions<'_>) -> Result<World> {
        self.prepare(&mut conf, options)?;
        self.publish()
    }

    /// Gives a world that is prepared its name.
    pub(crate) fn publish(self) -> Result<World> {
        self.rename(Durable::Now)?;
        let _ = super::delete_tree(&self.worlds, &dir_name(&self.name));
        World::open(&self.worlds, &self.name)
    }

    /// Everything but the rename.
    pub(crate) fn prepare(&self, conf: &mut WorldConf, options: &SealOptions<'_>) -> Result<()> {
        self.tree.finish()?;
        let path = self.path();
        let world = open_root(&path).trying("open", &path)?;
        clear_work(&world, &path)?;
        if let Err(error) = crate::beneath::open_file_entry(&world, REGISTRY) {
            return Err(Error::io("open", self.registry_path(), error));
        }
        if crate::beneath::open_file_entry(&world, removed::FILE_NAME).is_err() {
            Removed::default().write(&world, &path, Durable::Later)?;
        }
        let options = SealOptions {
            known: options.known.or(Some(self.tree.known_hashes())),
            ..*options
        };
        seal(&world, &path, conf, &options)?;
        check_entries(&world, &path)?;
        syncfs(&world).trying("write to the disk", &path)
    }

    /// Gives a world its name without a digest, and without forcing it onto the disk: a fork.
    pub(crate) fn commit_unsealed(self, conf: &WorldConf) -> Result<World> {
        self.tree.finish()?;
        let path = self.path();
        let world = open_root(&path).trying("open", &path)?;
        Removed::default().write(&world, &path, Durable::Later)?;
        conf.write(&world, &path, Durable::Later)?;
        check_entries(&world, &path)?;
        self.rename(Durable::Later)?;
        let _ = super::delete_tree(&self.worlds, &dir_name(&self.name));
        World::open(&self.worlds, &self.name)
    }

    /// Removes all that was made.
    ///
    /// # Errors
    /// What Linux says.
    pub fn abandon(self) -> Result<()> {
        super::delete_tree(&self.worlds, &dir_name(&self.name))?;
        let Self { worlds, name, lock, .. } = self;
        lock.forget(&worlds, &name);
        Ok(())
    }

    fn rename(&self, durable: Durable) -> Result<()> {
        let to = self.worlds.root().join(self.name.as_str());
        let root = self.worlds.fd();
        match renameat_with(&self.fd, WORLD, root, self.name.as_str(), RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::NOTEMPTY) => return Err(self.worlds.exists(&self.name)),
            Err(Errno::INVAL | Errno::NOSYS) => {
                // A file system without it: the lock keeps others away between the look and the rename.
                if to.symlink_metadata().is_ok() {
                    return Err(self.worlds.exists(&self.name));
                }
                renameat(&self.fd, WORLD, root, self.name.as_str()).trying("rename to", &to)?;
            }
            Err(error) => return Err(Error::io("rename to", to, error)),
        }
        match durable {
            Durable::Now => fsync(root).trying("write to the disk", self.worlds.root()),
            Durable::Later => Ok(()),
        }
    }

    fn write_state(&self, durable: Durable) -> Result<()> {
        let fingerprint: Vec<u16> = self.fingerprint.encode_utf16().collect();
        let mut text = format!("{STATE_HEADER}\nfingerprint {}\n", escape(&fingerprint));
        if let Some(stage) = &self.last_stage {
            let stage: Vec<u16> = stage.encode_utf16().collect();
            text.push_str(&format!("stage {}\n", escape(&stage)));
        }
        files::replace(&self.fd, STATE, text.as_bytes(), &self.path, durable).map(drop)
    }
}

/// The last whole stage that a state of the same fingerprint names. A state that cannot be read is as good as none.
fn read_state(staging: &OwnedFd, path: &Path, fingerprint: &str) -> Option<String> {
    let text = files::read_text(staging, STATE, path, MAX_STATE_BYTES).ok()??;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let read = |line: Option<&str>, key: &str| -> Option<String> {
        let units = unescape(line?.strip_prefix(key)?)?;
        String::from_utf16(&units).ok()
    };
    if lines.next()? != STATE_HEADER || read(lines.next(), "fingerprint ")? != fingerprint {
        return None;
    }
    open_dir_entry(staging, WORLD).ok()?;
    read(lines.next(), "stage ")
}

/// Computes the manifest and writes it and `world.conf`; sets the times that nobody else sets.
pub(crate) fn seal(world: &OwnedFd, path: &Path, conf: &mut WorldConf, options: &SealOptions<'_>) -> Result<Manifest> {
    conf.digest = None;
    let manifest = Manifest::compute(path, conf, options)?;
    conf.digest = Some(manifest.digest());
    let files_path = path.join(FILES);
    let files = open_dir_entry(world, FILES).trying("open", &files_path)?;
    let before = rustix::fs::fstat(&files).trying("look at", &files_path)?;
    let nt_path = files_path.join(RESERVED);
    make_dir(&files, RESERVED, &nt_path)?;
    let nt = open_dir_entry(&files, RESERVED).trying("open", &nt_path)?;
    let stored = files::replace(&nt, MANIFEST, manifest.text().as_bytes(), &nt_path, Durable::Later)?;
    disk::set_time(&stored, FIXED_TIME, &nt_path)?;
    let registry = path.join(REGISTRY);
    match crate::registry::table(&std::fs::read(&registry).trying("read", &registry)?) {
        Some(table) => drop(files::replace(&nt, REGISTRY_TABLE, &table, &nt_path, Durable::Later)?),
        None => drop(rustix::fs::unlinkat(&nt, REGISTRY_TABLE, rustix::fs::AtFlags::empty())),
    }
    fix_times_below(&nt, &nt_path, 0)?;
    disk::restore_times(&files, &before, &files_path)?;
    let written = conf.write(world.as_fd(), path, Durable::Later)?;
    disk::set_time(&written, FIXED_TIME, path)?;
    for name in [REGISTRY, removed::FILE_NAME] {
        if let Ok(fd) = crate::beneath::open_file_entry(world, name) {
            disk::set_time(File::from(fd), FIXED_TIME, &path.join(name))?;
        }
    }
    disk::set_time(world, FIXED_TIME, path)?;
    Ok(manifest)
}

/// Removes what killed changes have left in `:nt/work`.
pub(crate) fn clear_work(world: &OwnedFd, path: &Path) -> Result<()> {
    let Ok(nt) = crate::beneath::open_dir(world, &format!("{FILES}/{RESERVED}")) else {
        return Ok(());
    };
    if open_dir_entry(&nt, WORK).is_err() {
        return Ok(());
    }
    let work = path.join(FILES).join(RESERVED).join(WORK);
    std::fs::remove_dir_all(&work).trying("remove", work)
}

/// What is in `:nt` is no part of NT's view; its times are always the same.
fn fix_times_below(dir: &OwnedFd, place: &Path, depth: usize) -> Result<()> {
    // `KEY/streams` is the deepest.
    if depth > 2 {
        return Err(Error::TooDeep {
            path: place.display().to_string(),
            limit: 2,
        });
    }
    for (name, kind) in crate::listing::raw(dir, place)? {
        let at = place.join(&name);
        match kind {
            rustix::fs::FileType::Directory => {
                fix_times_below(&open_dir_entry(dir, &name).trying("open", &at)?, &at, depth + 1)?;
            }
            rustix::fs::FileType::RegularFile => {
                let file = crate::beneath::open_file_entry(dir, &name).trying("open", &at)?;
                disk::set_time(file, FIXED_TIME, &at)?;
            }
            other => {
                return Err(Error::ForeignEntry {
                    path: at,
                    found: crate::beneath::kind_words(other),
                });
            }
        }
    }
    disk::set_time(dir, FIXED_TIME, place)
}

/// A world has four entries and no other.
fn check_entries(world: &OwnedFd, path: &Path) -> Result<()> {
    for (name, _) in crate::listing::raw(world, path)? {
        if ![FILES, REGISTRY, removed::FILE_NAME, conf::FILE_NAME].contains(&&*name) {
            return Err(Error::ForeignEntry {
                path: path.join(name),
                found: "none of a world's four entries",
            });
        }
    }
    Ok(())
}
