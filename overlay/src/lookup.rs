// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding one name in one directory of `files/` without an index.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, fstat, statat};
use rustix::io::Errno;

use crate::beneath::{kind_words, open_dir_entry, open_file_entry};
use crate::error::{Error, Result, Trying};
use crate::listing::{Listed, entries};
use crate::meta::disk;
use crate::name::{MAX_SHORT_NAME_UNITS, NtName, NtPath, PathId, ShortName, StoredName};
use crate::store::table::NameTable;
use crate::upcase;

/// A directory in which names are looked up.
pub(crate) struct Place<'a> {
    pub fd: &'a OwnedFd,
    /// Its NT path, as its names are spelled.
    pub nt_path: &'a NtPath,
    /// Where it is, for messages.
    pub path: &'a Path,
    pub names: &'a NameTable,
}

impl Place<'_> {
    /// The entry of a name: the exact spelling, else the first of those that differ only in case, else the one
    /// whose short name it is.
    pub fn find(&self, name: &NtName) -> Result<Option<Listed>> {
        let stored = StoredName::alone(name);
        if let Some(listed) = self.exact(stored)? {
            return Ok(Some(listed));
        }
        let entries = entries(self.fd, self.path, self.nt_path.is_root(), self.names)?;
        let best = entries
            .iter()
            .filter(|entry| entry.stored.name().eq_nt(name))
            .min_by_key(|entry| (entry.stored.name() != name, entry.stored.ordinal()));
        if let Some(best) = best {
            return Ok(Some(best.clone()));
        }
        if name.units().len() > MAX_SHORT_NAME_UNITS {
            return Ok(None);
        }
        for entry in entries {
            if let Some(short) = self.short_name(&entry)?
                && upcase::eq_names(short.units(), name.units())
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn exact(&self, stored: StoredName) -> Result<Option<Listed>> {
        match statat(self.fd, stored.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Ok(Some(Listed {
                    stored,
                    is_directory: true,
                })),
                FileType::RegularFile => Ok(Some(Listed {
                    stored,
                    is_directory: false,
                })),
                other => Err(Error::ForeignEntry {
                    path: self.path.join(stored.as_str()),
                    found: kind_words(other),
                }),
            },
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            Err(error) => Err(Error::io("look at", self.path.join(stored.as_str()), error)),
        }
    }

    /// The short name of an entry, if it is this name's own.
    fn short_name(&self, entry: &Listed) -> Result<Option<ShortName>> {
        let path = self.path.join(entry.stored.as_str());
        let name = entry.stored.as_str();
        let fd = if entry.is_directory {
            open_dir_entry(self.fd, name)
        } else {
            open_file_entry(self.fd, name)
        };
        let fd = fd.trying("open", &path)?;
        let Some(record) = disk::read_record(&fd, &path)? else {
            return Ok(None);
        };
        let stat = fstat(&fd).trying("look at", &path)?;
        let owner = PathId::of(&self.nt_path.join(entry.stored.name()));
        Ok(own_short_name(
            record.short_name,
            record.short_owner,
            stat.st_nlink > 1 && !entry.is_directory,
            owner,
        ))
    }
}

/// The short name of an inode as one of its paths sees it: of several hard links, only one has it.
pub(crate) fn own_short_name(
    short_name: Option<ShortName>,
    owner: Option<PathId>,
    has_links: bool,
    path: PathId,
) -> Option<ShortName> {
    short_name.filter(|_| !has_links || owner.is_none_or(|owner| owner == path))
}
