// SPDX-License-Identifier: GPL-3.0-or-later
//! The small text files of a world: read whole within a bound, replaced whole.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{OFlags, fsync, renameat};

use crate::beneath::{FILE_MODE, open_entry, open_file_entry};
use crate::error::{Error, Result, Trying};

/// Reads a text file of a directory; `None` when there is none.
pub(crate) fn read_text(dir: impl AsFd, name: &str, place: &Path, limit_bytes: u64) -> Result<Option<String>> {
    let path = place.join(name);
    let file = match open_file_entry(dir, name) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let meta = file.metadata().trying("look at", &path)?;
    if !meta.is_file() {
        return Err(Error::ForeignEntry {
            path,
            found: "no regular file",
        });
    }
    if meta.len() > limit_bytes {
        return Err(Error::TooLarge {
            path,
            found_bytes: meta.len(),
            limit_bytes,
        });
    }
    let mut bytes = Vec::new();
    file.take(limit_bytes).read_to_end(&mut bytes).trying("read", &path)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let before = error
                .as_bytes()
                .get(..error.utf8_error().valid_up_to())
                .unwrap_or_default();
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(Error::Line {
                path,
                line,
                reason: "this is not UTF-8".into(),
            })
        }
    }
}

/// Whether a file must be on the disk before its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Each replacement by itself.
    Now,
    /// A later `syncfs` does it.
    Later,
}

/// Puts a file in the place of another, so that a reader sees the old one or the new one, whole.
pub(crate) fn replace(dir: impl AsFd, name: &str, bytes: &[u8], place: &Path, durable: Durable) -> Result<File> {
    let path = place.join(name);
    // A name that no stored name can be, so that nothing is hit; one writer at a time has the world's lock.
    let new = format!(".{name}.new");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    let mut file = File::from(open_entry(&dir, &new, flags, FILE_MODE).trying("make", &path)?);
    file.write_all(bytes).trying("write", &path)?;
    if durable == Durable::Now {
        fsync(&file).trying("write", &path)?;
    }
    renameat(&dir, &new, &dir, name).trying("replace", &path)?;
    if durable == Durable::Now {
        fsync(&dir).trying("write the directory of", &path)?;
    }
    Ok(file)
}
