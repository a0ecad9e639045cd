// SPDX-License-Identifier: GPL-3.0-or-later
//! A drive as one directory of the host. Names are found without case; nothing outside the directory is ever reached,
//! neither through `..` nor through a symbolic link (`openat2` with `RESOLVE_BENEATH`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2, statat, unlinkat};
use rustix::io::Errno;

use crate::object::upcase;
use crate::status::Status;

/// The deepest path that is followed.
const MAX_DEPTH: usize = 256;

/// The drives of a process: letter → volume.
#[derive(Default)]
pub struct Drives(BTreeMap<char, Arc<Volume>>);

impl Drives {
    /// Maps a letter to a directory.
    ///
    /// # Errors
    /// The host's error when the directory cannot be opened.
    pub fn map(&mut self, letter: char, directory: &Path, write: Writing) -> std::io::Result<()> {
        self.0
            .insert(letter.to_ascii_uppercase(), Arc::new(Volume::open(directory, write)?));
        Ok(())
    }

    /// The volume of a letter.
    #[must_use]
    pub fn get(&self, letter: char) -> Option<&Arc<Volume>> {
        self.0.get(&letter.to_ascii_uppercase())
    }

    /// The letters in use.
    #[must_use]
    pub fn letters(&self) -> Vec<char> {
        self.0.keys().copied().collect()
    }

    /// The Windows path of a host path that lies in a drive: the drive whose root lies deepest.
    #[must_use]
    pub fn windows_path(&self, host: &Path) -> Option<String> {
        let fits = self
            .0
            .iter()
            .filter_map(|(letter, volume)| Some((letter, host.strip_prefix(&volume.path).ok()?)));
        let (letter, rest) = fits.min_by_key(|(_, rest)| rest.components().count())?;
        Some(format!("{letter}:\\{}", rest.to_string_lossy().replace('/', "\\")))
    }
}

/// Whether a program may change a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// It may.
    Allowed,
    /// Every change is refused: a sealed world's files.
    Refused,
}

/// One drive.
pub struct Volume {
    path: PathBuf,
    writing: Writing,
    root: OwnedFd,
}

/// What a lookup found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The path below the root; `.` for the root itself.
    pub(super) path: PathBuf,
    /// What is there.
    pub(super) metadata: Option<rustix::fs::Stat>,
}

impl Found {
    pub(super) fn is_directory(&self) -> bool {
        self.metadata
            .is_some_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
    }
}

/// One entry of a directory.
#[derive(Debug, Clone)]
pub(super) struct DirectoryEntry {
    pub(super) name: String,
    pub(super) metadata: std::fs::Metadata,
}

impl Volume {
    /// Opens the directory.
    ///
    /// # Errors
    /// The host's error.
    pub fn open(directory: &Path, writing: Writing) -> std::io::Result<Self> {
        let path = directory.canonicalize()?;
        let root = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path, writing, root })
    }

    /// Refuses what would change a drive that must not change.
    pub(super) fn check_writing(&self) -> Result<(), Status> {
        const MEDIA_WRITE_PROTECTED: Status = Status(0xc000_00a2);
        match self.writing {
            Writing::Allowed => Ok(()),
            Writing::Refused => Err(MEDIA_WRITE_PROTECTED),
        }
    }

    fn beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        openat2(&self.root, path, flags | OFlags::CLOEXEC, mode, resolve)
    }

    /// The open parent directory of `path`, and its last name.
    fn parent(&self, path: &Path) -> Result<(OwnedFd, OsString), Errno> {
        let name = path.file_name().ok_or(Errno::BUSY)?.to_owned();
        let parent = path.parent().unwrap_or(Path::new("."));
        Ok((
            self.beneath(parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
            name,
        ))
    }

    /// Follows the components of a Windows path, each found without case.
    ///
    /// # Errors
    /// `OBJECT_PATH_NOT_FOUND` when a directory on the way is missing, `OBJECT_NAME_INVALID` for a name that cannot be.
    pub(super) fn lookup(&self, components: &[&str]) -> Result<Found, Status> {
        if components.len() > MAX_DEPTH {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let mut path = PathBuf::new();
        for (index, component) in components.iter().enumerate() {
            if *component == ".." || component.contains(['/', '\0']) {
                return Err(Status::OBJECT_NAME_INVALID);
            }
            let exact = path.join(component);
            let next = if self.beneath(&exact, OFlags::PATH, Mode::empty()).is_ok() {
                Some(exact)
            } else {
                self.find_without_case(&path, component)
            };
            match next {
                Some(next) => path = next,
                None if index + 1 == components.len() => {
                    return match self.beneath(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
                        Ok(_) => Ok(Found {
                            path: path.join(component),
                            metadata: None,
                        }),
                        Err(_) => Err(Status::OBJECT_PATH_NOT_FOUND),
                    };
                }
                None => return Err(Status::OBJECT_PATH_NOT_FOUND),
            }
        }
        let file = self.beneath(&path, OFlags::PATH, Mode::empty())?;
        let metadata = statat(&file, "", AtFlags::EMPTY_PATH)?;
        Ok(Found {
            path,
            metadata: Some(metadata),
        })
    }

    fn find_without_case(&self, directory: &Path, name: &str) -> Option<PathBuf> {
        let wanted = upcase(name);
        let fd = self
            .beneath(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .ok()?;
        let mut fits: Vec<OsString> = Vec::new();
        for entry in rustix::fs::Dir::new(fd).ok()?.flatten() {
            let entry = entry.file_name().to_string_lossy();
            if upcase(&entry) == wanted {
                fits.push(OsString::from(entry.as_ref()));
            }
        }
        // Case twins: always the same one of them.
        fits.sort();
        fits.into_iter().next().map(|name| directory.join(name))
    }

    /// Opens what a lookup found.
    pub(super) fn open_file(&self, path: &Path, write: bool, create: bool, truncate: bool) -> Result<File, Status> {
        if write || create || truncate {
            self.check_writing()?;
        }
        let mut flags = if write { OFlags::RDWR } else { OFlags::RDONLY };
        flags |= OFlags::NONBLOCK;
        if create {
            flags |= OFlags::CREATE;
        }
        if truncate {
            flags |= OFlags::TRUNC;
        }
        let mode = if create {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        };
        Ok(File::from(self.beneath(path, flags, mode)?))
    }

    /// Opens an existing plain file by its components.
    pub(crate) fn open_existing(&self, components: &[&str]) -> Option<File> {
        let found = self
            .lookup(components)
            .ok()
            .filter(|found| found.metadata.is_some() && !found.is_directory())?;
        self.open_file(&found.path, false, false, false).ok()
    }

    /// Opens a directory for its metadata.
    pub(super) fn open_directory(&self, path: &Path) -> Result<File, Status> {
        Ok(File::from(self.beneath(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )?))
    }

    /// Makes a directory.
    pub(super) fn create_directory(&self, path: &Path) -> Result<(), Status> {
        self.check_writing()?;
        let (parent, name) = self.parent(path)?;
        Ok(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a file or an empty directory.
    pub(super) fn remove(&self, path: &Path, directory: bool) -> Result<(), Status> {
        self.check_writing()?;
        let (parent, name) = self.parent(path)?;
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        Ok(unlinkat(parent, name, flags)?)
    }

    /// Moves a file or directory within this volume.
    pub(super) fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<(), Status> {
        self.check_writing()?;
        let ((from_parent, from_name), (to_parent, to_name)) = (self.parent(from)?, self.parent(to)?);
        let flags = if replace {
            rustix::fs::RenameFlags::empty()
        } else {
            rustix::fs::RenameFlags::NOREPLACE
        };
        Ok(rustix::fs::renameat_with(
            from_parent,
            from_name,
            to_parent,
            to_name,
            flags,
        )?)
    }

    /// Gives a file another name.
    pub(super) fn link(&self, from: &Path, to: &Path) -> Result<(), Status> {
        self.check_writing()?;
        let ((from_parent, from_name), (to_parent, to_name)) = (self.parent(from)?, self.parent(to)?);
        Ok(rustix::fs::linkat(
            from_parent,
            from_name,
            to_parent,
            to_name,
            AtFlags::empty(),
        )?)
    }

    /// The entries of a directory, sorted by upper-case name as NTFS gives them; unreadable ones are left out.
    pub(super) fn read_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>, Status> {
        let fd = self.beneath(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(fd)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let Ok(file) = self.beneath(&path.join(&name), OFlags::PATH, Mode::empty()) else {
                continue;
            };
            if let Ok(metadata) = File::from(file).metadata() {
                entries.push((upcase(&name), DirectoryEntry { name, metadata }));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Free and total blocks, and the block size in bytes.
    pub(super) fn space(&self) -> Result<(u64, u64, u64), Status> {
        let stat = rustix::fs::fstatvfs(self.root.as_fd())?;
        Ok((stat.f_bavail, stat.f_blocks, stat.f_frsize))
    }

    /// A serial number that stays the same for the same directory.
    pub(super) fn serial(&self) -> u32 {
        let number = self
            .path
            .metadata()
            .map_or(1, |metadata| metadata.ino() ^ metadata.dev());
        u32::try_from(number & 0xffff_ffff).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_must_not_change_refuses_every_change() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("file"), "x").expect("written");
        let volume = Volume::open(directory.path(), Writing::Refused).expect("opened");
        let refused = Err(Status(0xc000_00a2));
        let (file, new) = (Path::new("file"), Path::new("new"));
        assert!(
            volume.open_file(file, false, false, false).is_ok(),
            "reading is allowed"
        );
        assert_eq!(volume.open_file(file, true, false, false).map(drop), refused);
        assert_eq!(volume.open_file(new, false, true, false).map(drop), refused);
        assert_eq!(volume.open_file(file, false, false, true).map(drop), refused);
        assert_eq!(volume.create_directory(new), refused);
        assert_eq!(volume.remove(file, false), refused);
        assert_eq!(volume.rename(file, new, true), refused);
        assert_eq!(volume.link(file, new), refused);
    }

    #[test]
    fn names_are_found_without_case_and_nothing_outside_is_reached() {
        let outside = tempfile::tempdir().expect("a directory");
        std::fs::write(outside.path().join("secret"), "x").expect("written");
        let inside = outside.path().join("drive");
        std::fs::create_dir_all(inside.join("Windows/System32")).expect("made");
        std::fs::write(inside.join("Windows/System32/Ntdll.dll"), "x").expect("written");
        std::os::unix::fs::symlink("../secret", inside.join("escape")).expect("linked");
        let volume = Volume::open(&inside, Writing::Allowed).expect("opened");
        let found = volume.lookup(&["WINDOWS", "system32", "NTDLL.DLL"]).expect("found");
        assert_eq!(found.path, Path::new("Windows/System32/Ntdll.dll"));
        assert!(found.metadata.is_some());
        assert!(
            volume
                .lookup(&["Windows", "new.txt"])
                .expect("its place")
                .metadata
                .is_none()
        );
        assert_eq!(
            volume.lookup(&["nowhere", "new.txt"]).err(),
            Some(Status::OBJECT_PATH_NOT_FOUND)
        );
        assert_eq!(
            volume.lookup(&["..", "secret"]).err(),
            Some(Status::OBJECT_NAME_INVALID)
        );
        assert!(volume.lookup(&["escape"]).is_err(), "a link that leads out");
    }
}
