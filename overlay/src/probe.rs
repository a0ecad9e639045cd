// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a file system can hold worlds, asked before anything is written.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, OFlags, Timespec, Timestamps, XattrFlags, fgetxattr, fsetxattr, fstat, fstatfs, fstatvfs, futimens,
    unlinkat,
};
use rustix::io::Errno;

use crate::beneath::{FILE_MODE, open_entry};
use crate::error::{Error, Result, Trying};
use crate::meta::format::{MAX_BYTES, XATTR};

/// What a file system is and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its kind, as `ext4`; a number where this program has no name for it.
    pub kind: String,
    /// Bytes that an ordinary user can still write.
    pub free_bytes: u64,
    /// Files that can still be made; `None` where the file system sets no such bound.
    pub free_inodes: Option<u64>,
}

/// A time that only a file system with 100 ns or better keeps.
const PROBE_NS: i64 = 123_456_700;

/// Makes a file in a directory, and looks whether NT metadata and NT times stay on it.
pub(crate) fn probe(dir: &OwnedFd, path: &Path) -> Result<FileSystem> {
    let kind = kind_of(fstatfs(dir).trying("look at the file system of", path)?.f_type as u64);
    let name = format!(".probe.{}", rustix::process::getpid().as_raw_nonzero());
    let _ = unlinkat(dir, &*name, AtFlags::empty());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = open_entry(dir, &name, flags, FILE_MODE).trying("make a file in", path)?;
    let kept = keeps(&file, &kind, path);
    unlinkat(dir, &*name, AtFlags::empty()).trying("remove a file from", path)?;
    kept?;
    let vfs = fstatvfs(dir).trying("look at the file system of", path)?;
    Ok(FileSystem {
        kind,
        free_bytes: vfs.f_bavail.saturating_mul(vfs.f_frsize),
        free_inodes: (vfs.f_files > 0).then_some(vfs.f_favail),
    })
}

fn keeps(file: &OwnedFd, kind: &str, path: &Path) -> Result<()> {
    let refused = || Error::NoUserXattrs {
        path: path.into(),
        kind: kind.into(),
    };
    let value = [0x5a; MAX_BYTES];
    match fsetxattr(file, XATTR, &value, XattrFlags::empty()) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::RANGE | Errno::TOOBIG) => {
            return Err(refused());
        }
        Err(error) => return Err(Error::io("put an extended attribute on a file in", path, error)),
    }
    let mut back = [0; MAX_BYTES];
    match fgetxattr(file, XATTR, &mut back[..]) {
        Ok(length) if length == value.len() && back == value => {}
        _ => return Err(refused()),
    }
    let time = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: PROBE_NS,
    };
    futimens(
        file,
        &Timestamps {
            last_access: time,
            last_modification: time,
        },
    )
    .trying("set a time in", path)?;
    let stat = fstat(file).trying("look at a file in", path)?;
    if stat.st_mtime != 1_000_000_000 || stat.st_mtime_nsec as i64 != PROBE_NS {
        let found_ns = stat.st_mtime_nsec as i64;
        return Err(Error::CoarseTimes {
            path: path.into(),
            kind: kind.into(),
            found_ns,
        });
    }
    Ok(())
}

/// The name of a file system's magic number (statfs(2)).
fn kind_of(magic: u64) -> String {
    let name = match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x794c_7630 => "overlayfs",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x4d44 => "vfat",
        0x2011_bab0 => "exfat",
        0x7366_746e => "ntfs3",
        0x0102_1997 => "9p",
        _ => return format!("type {magic:#x}"),
    };
    name.into()
}
