// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting metadata on an open file or directory, and reading it back.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Stat, Timespec, Timestamps, XattrFlags, fgetxattr, fsetxattr, futimens};
use rustix::io::Errno;

use super::NtMetadata;
use super::format::{MAX_BYTES, Record, XATTR};
use crate::error::{Error, Result, Trying};

fn timespec((secs, nanos): (i64, u32)) -> Timespec {
    Timespec {
        tv_sec: secs,
        tv_nsec: nanos.into(),
    }
}

/// The mtime and atime of a `stat`.
pub(crate) fn stat_times(stat: &Stat) -> ((i64, u32), (i64, u32)) {
    // The kernel gives nanoseconds below 1e9.
    let nanos = |ns| u32::try_from(ns).unwrap_or(0);
    (
        (stat.st_mtime, nanos(stat.st_mtime_nsec)),
        (stat.st_atime, nanos(stat.st_atime_nsec)),
    )
}

/// Puts metadata on what is open; the times last, because writing changes them.
pub(crate) fn write(fd: impl AsFd, meta: &NtMetadata, place: &Path) -> Result<()> {
    let record = Record::of(meta).encode();
    fsetxattr(&fd, XATTR, &record, XattrFlags::empty()).trying("put NT metadata on", place)?;
    let times = Timestamps {
        last_access: timespec(meta.accessed.asked()),
        last_modification: timespec(meta.written.asked()),
    };
    futimens(&fd, &times).trying("set the times of", place)
}

/// Sets mtime and atime back to what they were.
pub(crate) fn restore_times(fd: impl AsFd, stat: &Stat, place: &Path) -> Result<()> {
    let (mtime, atime) = stat_times(stat);
    let times = Timestamps {
        last_access: timespec(atime),
        last_modification: timespec(mtime),
    };
    futimens(&fd, &times).trying("set the times of", place)
}

/// Sets mtime and atime to one time.
pub(crate) fn set_time(fd: impl AsFd, time: super::FileTime, place: &Path) -> Result<()> {
    let time = timespec(time.asked());
    futimens(
        &fd,
        &Timestamps {
            last_access: time,
            last_modification: time,
        },
    )
    .trying("set the times of", place)
}

/// The record of what is open; `None` when it has none.
pub(crate) fn read_record(fd: impl AsFd, place: &Path) -> Result<Option<Record>> {
    // One byte more, so that too long a record is seen to be so.
    let mut buffer = [0u8; MAX_BYTES + 1];
    match fgetxattr(&fd, XATTR, &mut buffer[..]) {
        Ok(length) => {
            let bytes = buffer.get(..length).unwrap_or_default();
            Record::decode(bytes).map(Some).map_err(|source| Error::Record {
                path: place.into(),
                source,
            })
        }
        Err(Errno::NODATA) => Ok(None),
        Err(Errno::RANGE) => {
            let source = super::RecordError::Length {
                expected: MAX_BYTES,
                found: MAX_BYTES + 1,
            };
            Err(Error::Record {
                path: place.into(),
                source,
            })
        }
        Err(error) => Err(Error::io("read the NT metadata of", place, error)),
    }
}

/// The metadata of what is open, of which `stat` is already known.
pub(crate) fn read(fd: impl AsFd, stat: &Stat, is_directory: bool, place: &Path) -> Result<NtMetadata> {
    let (mtime, atime) = stat_times(stat);
    Ok(match read_record(fd, place)? {
        Some(record) => NtMetadata::from_record(record, mtime, atime),
        None => NtMetadata::without_record(is_directory, mtime, atime),
    })
}
