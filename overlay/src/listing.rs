// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a directory of `files/`: what is in it, decoded.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use crate::beneath::kind_words;
use crate::error::{Error, Result, Trying};
use crate::name::StoredName;
use crate::store::RESERVED;
use crate::store::table::NameTable;

/// One entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub stored: StoredName,
    pub is_directory: bool,
}

/// The names of a directory with their kinds, as Linux gives them, in no order.
pub(crate) fn raw(dir: &OwnedFd, place: &Path) -> Result<Vec<(String, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir).trying("list", place)? {
        let entry = entry.trying("list", place)?;
        let name = match entry.file_name().to_str() {
            Ok("." | "..") => continue,
            Ok(name) => name.to_owned(),
            Err(_) => {
                let path = place.join(entry.file_name().to_string_lossy().as_ref());
                return Err(Error::ForeignEntry {
                    path,
                    found: "a name that is not UTF-8",
                });
            }
        };
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat =
                    statat(dir.as_fd(), &*name, AtFlags::SYMLINK_NOFOLLOW).trying("look at", place.join(&name))?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push((name, kind));
    }
    Ok(found)
}

/// The entries of a directory of `files/`, decoded, in no order; `:nt` of the root is left out.
pub(crate) fn entries(dir: &OwnedFd, place: &Path, is_root: bool, names: &NameTable) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    for (name, kind) in raw(dir, place)? {
        if is_root && name == RESERVED {
            continue;
        }
        let is_directory = match kind {
            FileType::Directory => true,
            FileType::RegularFile => false,
            other => {
                return Err(Error::ForeignEntry {
                    path: place.join(&name),
                    found: kind_words(other),
                });
            }
        };
        let stored = StoredName::decode(&name, |hash| names.get(hash)).map_err(|source| Error::Name {
            place: place.display().to_string(),
            source,
        })?;
        found.push(Listed { stored, is_directory });
    }
    Ok(found)
}
