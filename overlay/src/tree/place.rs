// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting a single file into a tree that is laid down already, as an answer file.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat, fstat, mkdirat, statat, unlinkat};

use super::{FileTree, locked, new_file};
use crate::beneath::{DIRECTORY_MODE, open_dir_entry};
use crate::error::{Error, Result, Trying};
use crate::lookup::Place;
use crate::manifest::ContentHash;
use crate::meta::{NtMetadata, attributes, disk};
use crate::name::{NtName, NtPath, StoredName};
use crate::store::table::NameTable;

impl FileTree {
    /// Puts a file at a path, found without regard to case; missing directories are made with the file's times, and
    /// a file that is there is replaced (its other hard links keep the old bytes). The times of directories that were
    /// there stay, so that the result does not depend on the clock.
    ///
    /// # Errors
    /// [`Error::WrongKind`] when a directory is in the file's place or a file in a directory's; what Linux says.
    pub fn place_file(&self, path: &NtPath, bytes: &[u8], meta: &NtMetadata) -> Result<()> {
        let Some((name, parents)) = path.components().split_last() else {
            return Err(Error::WrongKind {
                path: path.to_string(),
                found: "a directory",
                expected: "a file",
            });
        };
        let mut at = At {
            fd: Arc::new(self.root_fd.try_clone().trying("open", &self.path)?),
            nt_path: NtPath::root(),
            path: self.path.clone(),
        };
        for parent in parents {
            at = self.enter(&at, parent, meta)?;
        }
        let names = locked(&self.names).table.clone();
        let stored = match at.find(name, &names)? {
            None => StoredName::alone(name),
            Some(listed) if listed.is_directory => {
                return Err(Error::WrongKind {
                    path: path.to_string(),
                    found: "a directory",
                    expected: "a file",
                });
            }
            Some(listed) => listed.stored,
        };
        let before = fstat(&at.fd).trying("look at", &at.path)?;
        let file_path = at.path.join(stored.as_str());
        if let Ok(stat) = statat(&at.fd, stored.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            self.known.forget(stat.st_ino);
            unlinkat(&at.fd, stored.as_str(), AtFlags::empty()).trying("replace", &file_path)?;
        }
        self.note_name(&stored);
        let file = new_file(&at.fd, stored.as_str(), file_path, bytes.len() as u64)?;
        file.write_all_at(bytes, 0)?;
        self.finish_file(file, meta, Some(ContentHash::of(bytes)))?;
        disk::restore_times(&at.fd, &before, &at.path)
    }

    /// The directory whose times a placing changes, for a while: the deepest of the path that is there and finished.
    /// Gives its path of stored names, and its times.
    ///
    /// # Errors
    /// What Linux says.
    pub(crate) fn base_of(&self, path: &NtPath) -> Result<(String, Stat)> {
        let names = locked(&self.names).table.clone();
        let mut at = At {
            fd: Arc::new(self.root_fd.try_clone().trying("open", &self.path)?),
            nt_path: NtPath::root(),
            path: self.path.clone(),
        };
        let mut stored_path = String::new();
        let parents = path.components().split_last().map_or(&[][..], |(_, parents)| parents);
        for parent in parents {
            let Some(listed) = at.find(parent, &names)?.filter(|listed| listed.is_directory) else {
                break;
            };
            let path = at.path.join(listed.stored.as_str());
            let fd = open_dir_entry(&at.fd, listed.stored.as_str()).trying("open", &path)?;
            if disk::read_record(&fd, &path)?.is_none() {
                break;
            }
            if !stored_path.is_empty() {
                stored_path.push('/');
            }
            stored_path.push_str(listed.stored.as_str());
            let nt_path = at.nt_path.join(listed.stored.name());
            at = At {
                fd: Arc::new(fd),
                nt_path,
                path,
            };
        }
        let times = fstat(&at.fd).trying("look at", &at.path)?;
        Ok((stored_path, times))
    }

    fn enter(&self, at: &At, name: &NtName, meta: &NtMetadata) -> Result<At> {
        let names = locked(&self.names).table.clone();
        let listed = at.find(name, &names)?;
        let times = NtMetadata::new(attributes::DIRECTORY, meta.created, meta.accessed, meta.written);
        let stored = match listed {
            Some(listed) if listed.is_directory => {
                let path = at.path.join(listed.stored.as_str());
                let fd = open_dir_entry(&at.fd, listed.stored.as_str()).trying("open", &path)?;
                // Every finished directory has a record: this one is what a killed placing has left.
                if disk::read_record(&fd, &path)?.is_none() {
                    disk::write(&fd, &times, &path)?;
                }
                listed.stored
            }
            Some(_) => {
                let path = at.nt_path.join(name).to_string();
                return Err(Error::WrongKind {
                    path,
                    found: "a file",
                    expected: "a directory",
                });
            }
            None => {
                let stored = StoredName::alone(name);
                let before = fstat(&at.fd).trying("look at", &at.path)?;
                let path = at.path.join(stored.as_str());
                self.note_name(&stored);
                mkdirat(&at.fd, stored.as_str(), DIRECTORY_MODE).trying("make the directory", &path)?;
                let fd = open_dir_entry(&at.fd, stored.as_str()).trying("open", &path)?;
                disk::write(&fd, &times, &path)?;
                disk::restore_times(&at.fd, &before, &at.path)?;
                stored
            }
        };
        let path = at.path.join(stored.as_str());
        let fd = open_dir_entry(&at.fd, stored.as_str()).trying("open", &path)?;
        Ok(At {
            fd: Arc::new(fd),
            nt_path: at.nt_path.join(stored.name()),
            path,
        })
    }
}

struct At {
    fd: Arc<OwnedFd>,
    nt_path: NtPath,
    path: PathBuf,
}

impl At {
    fn find(&self, name: &NtName, names: &NameTable) -> Result<Option<crate::listing::Listed>> {
        Place {
            fd: &self.fd,
            nt_path: &self.nt_path,
            path: &self.path,
            names,
        }
        .find(name)
    }
}
