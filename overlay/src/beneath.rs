// SPDX-License-Identifier: GPL-3.0-or-later
//! Opening what is in a directory, never anything outside of it.
//!
//! Everything that this crate makes or opens in a world goes through a directory's descriptor, one component or a
//! relative path at a time, and no symbolic link is followed. If this is broken, a link that somebody planted in
//! `files/` sends a write out of the world.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};

/// The most bytes of a path that one system call takes (PATH_MAX is 4096 with its NUL).
const MAX_PATH_BYTES: usize = 4000;

/// How a directory is opened to look things up in it and to change its metadata.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// The mode of a new file, before the umask.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
/// The mode of a new directory, before the umask.
pub(crate) const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

/// Opens a directory by a path of the person's own; the last component may be no link.
pub(crate) fn open_root(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, DIRECTORY, Mode::empty())
}

/// Opens one entry of a directory, which may be no link.
pub(crate) fn open_entry(dir: impl AsFd, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    if name.contains('/') || matches!(name, "" | "." | "..") {
        return Err(Errno::INVAL);
    }
    openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
}

/// Opens an entry that is a directory.
pub(crate) fn open_dir_entry(dir: impl AsFd, name: &str) -> Result<OwnedFd> {
    open_entry(dir, name, DIRECTORY, Mode::empty())
}

/// Opens a regular file for reading. Other kinds are not waited for (a FIFO would block): check with `fstat`.
pub(crate) fn open_file_entry(dir: impl AsFd, name: &str) -> Result<OwnedFd> {
    open_entry(
        dir,
        name,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        Mode::empty(),
    )
}

/// Opens the directory of a relative path of stored names, parted by `/`; the empty path is the root itself.
pub(crate) fn open_dir(root: impl AsFd, path: &str) -> Result<OwnedFd> {
    if path.is_empty() {
        return openat(root, ".", DIRECTORY, Mode::empty());
    }
    let mut rest = path;
    let mut at: Option<OwnedFd> = None;
    loop {
        let (part, more) = split_path(rest);
        let from = at.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
        let next = open_part(from, part)?;
        match more {
            None => return Ok(next),
            Some(more) => {
                at = Some(next);
                rest = more;
            }
        }
    }
}

/// As much of a path as one call takes, and what is left.
fn split_path(path: &str) -> (&str, Option<&str>) {
    if path.len() <= MAX_PATH_BYTES {
        return (path, None);
    }
    let bytes = path.as_bytes().get(..MAX_PATH_BYTES).unwrap_or_default();
    match bytes.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => match (path.get(..slash), path.get(slash + 1..)) {
            (Some(part), Some(more)) => (part, Some(more)),
            _ => (path, None),
        },
        None => (path, None),
    }
}

fn open_part(from: impl AsFd, part: &str) -> Result<OwnedFd> {
    /// Set once Linux, or a sandbox around us, has said that it has no `openat2`.
    static NO_OPENAT2: AtomicBool = AtomicBool::new(false);
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(from.as_fd(), part, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM) => NO_OPENAT2.store(true, Ordering::Relaxed),
            result => return result,
        }
    }
    open_part_by_components(from, part)
}

fn open_part_by_components(from: impl AsFd, part: &str) -> Result<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    for component in part.split('/') {
        let dir = at.as_ref().map_or(from.as_fd(), |fd| fd.as_fd());
        at = Some(open_dir_entry(dir, component)?);
    }
    at.ok_or(Errno::INVAL)
}

/// The words for a kind of directory entry that a world does not have.
pub(crate) fn kind_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of a kind that Linux does not say",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_with_or_without_openat2() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outside.path().join("x")).unwrap();
        std::fs::create_dir_all(inside.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("a/out")).unwrap();
        std::os::unix::fs::symlink("b", inside.path().join("a/in")).unwrap();
        let root = open_root(inside.path()).unwrap();
        assert!(open_dir(&root, "a/b").is_ok());
        assert!(open_part_by_components(&root, "a/b").is_ok());
        for path in ["a/out", "a/out/x", "a/in", "a/../a/out/x"] {
            assert!(open_dir(&root, path).is_err(), "{path}");
            assert!(open_part_by_components(&root, path).is_err(), "{path}");
        }
        assert!(open_entry(&root, "a/out", OFlags::RDONLY, Mode::empty()).is_err());
        assert!(open_entry(&root, "..", OFlags::RDONLY, Mode::empty()).is_err());
    }

    #[test]
    fn a_path_longer_than_one_call_takes_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_root(dir.path()).unwrap();
        let name = "d".repeat(200);
        let mut path = String::new();
        for _ in 0..45 {
            let at = open_dir(&root, &path).unwrap();
            rustix::fs::mkdirat(&at, &name, DIRECTORY_MODE).unwrap();
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(&name);
        }
        assert!(path.len() > 2 * MAX_PATH_BYTES);
        assert!(open_dir(&root, &path).is_ok());
        let (first, more) = split_path(&path);
        assert!(first.len() <= MAX_PATH_BYTES && more.is_some());
    }
}
