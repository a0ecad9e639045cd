// SPDX-License-Identifier: GPL-3.0-or-later
//! Several processes in one world: what each keeps in memory of layer 0 is looked at again when another has changed it.
//!
//! Directories of layer 0 are always read anew. Kept are its `removed` and the tables of its `:nt`. Each is replaced by
//! rename, so a look at the file tells whether it is another. Changes take turns by an flock on the world's directory; a
//! killed process gives it up.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FlockOperation, Stat, flock, statat};
use rustix::io::Errno;

use super::{Access, Layers, One};
use crate::beneath::open_root;
use crate::error::{Error, Result, Trying};
use crate::manifest::FILES;
use crate::removed::{self, Removed};
use crate::store::RESERVED;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, i64, i64, i64, i64, i64);

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_wrap,
    reason = "field types differ between architectures"
)]
fn stamp(stat: &Stat) -> Stamp {
    let ns = |ns| ns as i64;
    Stamp(
        stat.st_ino,
        stat.st_size,
        stat.st_mtime,
        ns(stat.st_mtime_nsec),
        stat.st_ctime,
        ns(stat.st_ctime_nsec),
    )
}

/// The states in which the kept things were read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    removed: Option<Stamp>,
    reserved: Option<Stamp>,
}

/// Says that the one change at a time is being made, of all processes.
pub(super) struct Changing<'a> {
    world: OwnedFd,
    _here: MutexGuard<'a, ()>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // A process that we are just starting has the descriptor, too: closing it would not be enough.
        let _ = flock(&self.world, FlockOperation::Unlock);
    }
}

impl Layers {
    /// Waits for the turn to change the world.
    pub(super) fn changing(&self) -> Result<Changing<'_>> {
        let top = self.top()?;
        if self.access == Access::Read {
            return Err(Error::ReadOnly {
                name: top.world.to_string(),
            });
        }
        let here = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let world = open_root(&top.path).trying("open", &top.path)?;
        loop {
            match flock(&world, FlockOperation::LockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io("lock", &top.path, error)),
            }
        }
        let changing = Changing { world, _here: here };
        self.refresh()?;
        Ok(changing)
    }

    /// Reads again what another process has changed. Sealed worlds do not change.
    pub(super) fn refresh(&self) -> Result<()> {
        let top = self.top()?;
        if top.layer.cache.is_some() {
            return Ok(());
        }
        let mut kept = top.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = top.look(&top.directory, removed::FILE_NAME)?;
        if now != kept.removed {
            let fresh = Removed::read(&top.directory, &top.path)?;
            *top.removed.write().unwrap_or_else(PoisonError::into_inner) = fresh;
            kept.removed = now;
        }
        let now = top.look(top.layer.root_fd(), RESERVED)?;
        if now != kept.reserved {
            let (security, names) = crate::tree::read_tables(top.layer.root_fd(), &top.path.join(FILES))?;
            *top.layer.security_table() = security;
            top.layer.set_names(names);
            kept.reserved = now;
        }
        Ok(())
    }
}

impl One {
    fn look(&self, dir: impl AsFd, name: &str) -> Result<Option<Stamp>> {
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stamp(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::io("look at", self.path.join(name), error)),
        }
    }
}
