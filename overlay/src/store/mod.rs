// SPDX-License-Identifier: GPL-3.0-or-later
//! `files/:nt/`: what belongs to the files of a layer and does not fit into an xattr.
//!
//! No NT path can name it, because `:` can be in no component. It is made only when something must be in it:
//!
//! - `security`: the security descriptors of the layer (`table`);
//! - `names`: the full names of shortened stored names;
//! - `manifest`: the manifest of a sealed layer;
//! - `<key>/reparse` and `<key>/streams/<stored name>`: reparse data and named streams of the inode whose record has
//!   that key. A key belongs to an inode and not to a path, so that hard links and renames keep them.
//!
//! If it is broken, files lose their descriptors, streams or names, while their bytes stay.

pub(crate) mod table;

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::name::{NtPath, PathId};

/// The reserved directory at the root of `files/`.
pub const RESERVED: &str = ":nt";
/// The file of security descriptors in it.
pub const SECURITY: &str = "security";
/// The file of full names in it.
pub const NAMES: &str = "names";
/// The stored manifest in it.
pub const MANIFEST: &str = "manifest";
/// The table of the registry of a sealed world in it.
pub const REGISTRY_TABLE: &str = "registry";
/// An inode's directory of named streams, under its key.
pub const STREAMS: &str = "streams";
/// An inode's reparse data, under its key.
pub const REPARSE: &str = "reparse";

/// Where a layer's own entries are made before they get their names; only in a world that is not sealed.
pub const WORK: &str = "work";

/// A security descriptor's id: the first eight bytes of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecurityId(pub [u8; 8]);

impl SecurityId {
    /// The id of a descriptor.
    pub fn of(descriptor: &[u8]) -> Self {
        Self(crate::name::first_eight(&Sha256::digest(descriptor)))
    }
}

impl fmt::Display for SecurityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SecurityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of an inode's directory in `:nt`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtraKey(pub [u8; 8]);

impl ExtraKey {
    /// The key that an inode gets when it is laid down: that of its first path, so that it is the same on every
    /// machine and in every order of work.
    pub fn for_path(path: &NtPath) -> Self {
        Self(PathId::of(path).0)
    }

    /// The key to try when this one is taken: an inode that has moved away from its path keeps its own.
    pub(crate) fn next(self) -> Self {
        Self(crate::name::first_eight(&Sha256::digest(self.0)))
    }
}

impl fmt::Display for ExtraKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ExtraKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
