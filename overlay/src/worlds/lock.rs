// SPDX-License-Identifier: GPL-3.0-or-later
//! Locks of worlds: any number that use one, or one that changes what worlds there are.
//!
//! A lock is an flock of `.locks/NAME` in the root. Linux gives it up when its holder dies, however that is, so that a
//! crash leaves none behind; the file's text only says who holds it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FlockOperation, OFlags, flock, fstat, statat, unlinkat};
use rustix::io::Errno;

use super::{WorldName, Worlds};
use crate::beneath::{FILE_MODE, open_dir_entry, open_entry};
use crate::error::{Error, Result, Trying};
use crate::tree::make_dir;

/// The directory of locks in the root.
pub(crate) const LOCKS: &str = ".locks";

/// How a world is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Beside others: a program runs in it, a fork of it is being made.
    Shared,
    /// Alone.
    Alone,
}

/// A held lock; dropping it gives it up.
#[derive(Debug)]
pub struct WorldLock {
    file: File,
    hold: Hold,
}

impl WorldLock {
    /// Takes a lock without waiting; `purpose` is what others are told.
    pub(crate) fn take(worlds: &Worlds, name: &WorldName, hold: Hold, purpose: &str) -> Result<Self> {
        let locks_path = worlds.root().join(LOCKS);
        make_dir(worlds.fd(), LOCKS, &locks_path)?;
        let locks = open_dir_entry(worlds.fd(), LOCKS).trying("open", &locks_path)?;
        let path = locks_path.join(name.as_str());
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let mut file = File::from(open_entry(&locks, name.as_str(), flags, FILE_MODE).trying("make", &path)?);
            let operation = match hold {
                Hold::Shared => FlockOperation::NonBlockingLockShared,
                Hold::Alone => FlockOperation::NonBlockingLockExclusive,
            };
            match flock(&file, operation) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::WorldInUse {
                        name: name.to_string(),
                        by: holder(&mut file),
                    });
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Error::io("lock", path, error)),
            }
            // A world's lock file goes with the world. One that is gone is nobody's lock: take the new one.
            let held = fstat(&file).trying("look at", &path)?;
            match statat(&locks, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(named) if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) => {}
                Ok(_) | Err(Errno::NOENT) => continue,
                Err(error) => return Err(Error::io("look at", path, error)),
            }
            let mut lock = Self { file, hold };
            if hold == Hold::Alone {
                lock.say(&format!(
                    "{purpose} (process {})",
                    rustix::process::getpid().as_raw_nonzero()
                ));
            }
            return Ok(lock);
        }
    }

    /// Removes the lock's file: the world is gone.
    pub(crate) fn forget(self, worlds: &Worlds, name: &WorldName) {
        if let Ok(locks) = open_dir_entry(worlds.fd(), LOCKS) {
            let _ = unlinkat(locks.as_fd(), name.as_str(), AtFlags::empty());
        }
    }

    /// A message for others; that it cannot be written is no reason to fail.
    fn say(&mut self, text: &str) {
        let _ = self.file.set_len(0);
        let _ = self.file.seek(SeekFrom::Start(0));
        let _ = self.file.write_all(text.as_bytes());
    }
}

impl Drop for WorldLock {
    fn drop(&mut self) {
        if self.hold == Hold::Alone {
            let _ = self.file.set_len(0);
        }
        // Closing is not enough: a process that we are just starting has our descriptors until its exec.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Who has the lock that we did not get.
fn holder(file: &mut File) -> String {
    // Shared holders leave no text: what is there is of one who died.
    if flock(&*file, FlockOperation::NonBlockingLockShared).is_ok() {
        return "a running program, or a fork that is being made".into();
    }
    let mut text = String::new();
    match file.take(200).read_to_string(&mut text) {
        Ok(length) if length > 0 => text.escape_debug().to_string(),
        _ => "another process".into(),
    }
}
