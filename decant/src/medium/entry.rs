// SPDX-License-Identifier: GPL-3.0-or-later
//! One name on a medium.

use super::directory::HostLocation;
use super::iso9660::IsoLocation;
use super::udf::IcbAddress;

/// What kind of thing an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A plain file.
    File,
    /// A symbolic link; nothing here follows it.
    Symlink {
        /// The target as stored; empty where the medium keeps it in a form that we do not read.
        target: String,
    },
    /// A device, socket, pipe or anything else.
    Other,
}

/// A file or directory of a medium: its name, path, size and where its bytes are.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(super) path: String,
    pub(super) kind: EntryKind,
    pub(super) size_bytes: u64,
    pub(super) modified_ns: Option<i64>,
    pub(super) stored_compressed: bool,
    pub(super) location: Location,
}

/// Where an entry's bytes are; each file system knows its own.
#[derive(Debug, Clone)]
pub(super) enum Location {
    Udf(IcbAddress),
    Iso(IsoLocation),
    Host(HostLocation),
}

impl Entry {
    /// The name in its directory, as stored. Empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The path from the medium's root, `/` between names, none at the front. Empty for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Directory, file, link or other.
    #[must_use]
    pub fn kind(&self) -> &EntryKind {
        &self.kind
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// Whether it is a plain file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == EntryKind::File
    }

    /// The length of a file's content in bytes; 0 for everything else.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// When the content was last changed: nanoseconds since 1970-01-01 UTC. `None` where the medium does not say.
    #[must_use]
    pub fn modified_ns(&self) -> Option<i64> {
        self.modified_ns
    }

    /// Whether the bytes on the medium are compressed (zisofs, Rock Ridge `ZF`). Reading gives them as they are
    /// stored: this reader does not decompress them, and no Windows medium has any.
    #[must_use]
    pub fn stored_compressed(&self) -> bool {
        self.stored_compressed
    }

    /// What to call it in a message, as in "a directory".
    pub(super) fn kind_words(&self) -> String {
        match &self.kind {
            EntryKind::Directory => "a directory".to_owned(),
            EntryKind::File => "a plain file".to_owned(),
            EntryKind::Symlink { target } => format!("a symbolic link to {target:?}"),
            EntryKind::Other => "a device, pipe or socket".to_owned(),
        }
    }
}
