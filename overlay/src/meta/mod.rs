// SPDX-License-Identifier: GPL-3.0-or-later
//! NT metadata of files and directories, and how it is kept in an xattr and in Linux's own times.
//!
//! Owns the meaning of `user.vodka.nt`. If it is broken, every file of a world says something else than its image.

pub mod attributes;
pub(crate) mod disk;
pub(crate) mod format;
mod time;

pub use format::RecordError;
pub use time::FileTime;

use crate::name::{PathId, ShortName};
use crate::store::{ExtraKey, SecurityId};

/// What NT keeps about a file or directory beside its name and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtMetadata {
    /// File attributes, as they came ([MS-FSCC] 2.6).
    pub attributes: u32,
    /// When it was made.
    pub created: FileTime,
    /// When it was last read; kept in atime, where Linux may change it, and no part of a digest.
    pub accessed: FileTime,
    /// When its bytes were last written; kept in mtime.
    pub written: FileTime,
    /// When anything about it was last changed; `None` when the source has no such time (a WIM has none).
    pub changed: Option<FileTime>,
    /// Its security descriptor, in `:nt/security`.
    pub security: Option<SecurityId>,
    /// Its 8.3 name.
    pub short_name: Option<ShortName>,
    /// Which of several hard links the short name belongs to; not needed when there is only one.
    pub short_owner: Option<PathId>,
    /// The reparse tag ([MS-FSCC] 2.1.2.1); its data is in the extra store.
    pub reparse_tag: Option<u32>,
    /// The directory of `:nt` with its named streams and reparse data.
    pub extra: Option<ExtraKey>,
}

impl NtMetadata {
    /// Metadata with the fields that everything has.
    pub fn new(attributes: u32, created: FileTime, accessed: FileTime, written: FileTime) -> Self {
        Self {
            attributes,
            created,
            accessed,
            written,
            changed: None,
            security: None,
            short_name: None,
            short_owner: None,
            reparse_tag: None,
            extra: None,
        }
    }

    /// The metadata of a record and of what Linux says.
    pub(crate) fn from_record(record: format::Record, mtime: (i64, u32), atime: (i64, u32)) -> Self {
        let written = FileTime::from_mtime(mtime, record.written);
        Self {
            attributes: record.attributes,
            created: record.created.unwrap_or(written),
            accessed: FileTime::from_unix(atime.0, atime.1),
            written,
            changed: record.changed,
            security: record.security,
            short_name: record.short_name,
            short_owner: record.short_owner,
            reparse_tag: record.reparse_tag,
            extra: record.extra,
        }
    }

    /// What something without a record has: a Linux program has put it there.
    pub(crate) fn without_record(is_directory: bool, mtime: (i64, u32), atime: (i64, u32)) -> Self {
        let written = FileTime::from_unix(mtime.0, mtime.1);
        let attributes = if is_directory {
            attributes::DIRECTORY
        } else {
            attributes::ARCHIVE
        };
        Self::new(attributes, written, FileTime::from_unix(atime.0, atime.1), written)
    }
}
