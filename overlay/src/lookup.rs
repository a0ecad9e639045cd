// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding one name in one directory of `files/` without an index.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

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
    /// The entry of a name: as [`Place::find_long`], else the one whose short name it is.
    pub fn find(&self, name: &NtName) -> Result<Option<Listed>> {
        match self.find_long(name)? {
            Some(found) => Ok(Some(found)),
            None => self.find_short(name),
        }
    }

    /// The entry of a name: the exact spelling, else the first of those that differ only in case.
    pub fn find_long(&self, name: &NtName) -> Result<Option<Listed>> {
        if let Some(listed) = self.exact(StoredName::alone(name))? {
            return Ok(Some(listed));
        }
        let entries = self.entries()?;
        Ok(best_of(entries.iter().filter(|entry| entry.stored.name().eq_nt(name)), name).cloned())
    }

    /// The entry whose short name this is.
    pub fn find_short(&self, name: &NtName) -> Result<Option<Listed>> {
        if name.units().len() > MAX_SHORT_NAME_UNITS {
            return Ok(None);
        }
        for entry in self.entries()? {
            if let Some(short) = self.short_name(&entry)?
                && upcase::eq_names(short.units(), name.units())
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn entries(&self) -> Result<Vec<Listed>> {
        entries(self.fd, self.path, self.nt_path.is_root(), self.names)
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

/// Of the names that differ only in case: the exact one, else the first.
fn best_of<'a>(twins: impl Iterator<Item = &'a Listed>, name: &NtName) -> Option<&'a Listed> {
    twins.min_by_key(|entry| (entry.stored.name() != name, entry.stored.ordinal()))
}

/// A directory of a layer that does not change, as lookups need it.
#[derive(Debug)]
pub(crate) struct CachedDir {
    by_name: HashMap<Box<[u16]>, Vec<CachedEntry>>,
    by_short_name: OnceLock<ShortNames>,
}

#[derive(Debug)]
struct CachedEntry {
    listed: Listed,
    /// What is in it, if it is a directory and somebody has asked.
    slot: Slot,
}

/// Where a directory's listing is once somebody has asked for it; `None` in it for what is no directory.
pub(crate) type Slot = Arc<OnceLock<Option<Arc<CachedDir>>>>;

type ShortNames = HashMap<Box<[u16]>, Listed>;

impl CachedDir {
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let mut by_name: HashMap<_, Vec<CachedEntry>> = HashMap::new();
        for listed in place.entries()? {
            by_name
                .entry(listed.stored.name().folded())
                .or_default()
                .push(CachedEntry {
                    listed,
                    slot: Slot::default(),
                });
        }
        Ok(Self {
            by_name,
            by_short_name: OnceLock::new(),
        })
    }

    /// As [`Place::find_long`]; `folded` is the name as lookups compare it.
    pub fn find_long(&self, name: &NtName, folded: &[u16]) -> Option<(Listed, Slot)> {
        let group = self.by_name.get(folded)?;
        let best = group
            .iter()
            .min_by_key(|entry| (entry.listed.stored.name() != name, entry.listed.stored.ordinal()))?;
        Some((best.listed.clone(), Arc::clone(&best.slot)))
    }

    /// As [`Place::find_short`]; `read` makes the table of short names at the first question.
    pub fn find_short(&self, name: &NtName, read: impl FnOnce() -> Result<ShortNames>) -> Result<Option<Listed>> {
        if name.units().len() > MAX_SHORT_NAME_UNITS {
            return Ok(None);
        }
        let names = match self.by_short_name.get() {
            Some(names) => names,
            None => {
                let names = read()?;
                self.by_short_name.get_or_init(|| names)
            }
        };
        Ok(names.get(&name.folded()).cloned())
    }

    /// The table of short names.
    pub fn read_short_names(&self, place: &Place<'_>) -> Result<ShortNames> {
        let mut found = HashMap::new();
        for entry in self.entries() {
            if let Some(short) = place.short_name(entry)? {
                let folded = short.units().iter().map(|&unit| upcase::upcase_unit(unit)).collect();
                found.insert(folded, entry.clone());
            }
        }
        Ok(found)
    }

    /// The names that are one name to NT.
    pub fn twins(&self, name: &NtName) -> Vec<Listed> {
        let group = self.by_name.get(&name.folded());
        group
            .map(|group| group.iter().map(|entry| entry.listed.clone()).collect())
            .unwrap_or_default()
    }

    pub fn entries(&self) -> impl Iterator<Item = &Listed> {
        self.by_name.values().flatten().map(|entry| &entry.listed)
    }
}
