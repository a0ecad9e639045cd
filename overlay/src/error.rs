// SPDX-License-Identifier: GPL-3.0-or-later
//! What can go wrong with a world, and what class of failure it is.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use crate::meta::RecordError;
use crate::name::NameError;
use crate::store::SecurityId;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Linux refused something.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file system cannot keep NT metadata.
    #[error(
        "the file system of `{}` ({kind}) keeps no `user.` extended attributes, which hold NT metadata; \
         put worlds on ext4, XFS, btrfs, ZFS, or tmpfs of Linux 6.6 or later", path.display()
    )]
    NoUserXattrs {
        /// A directory on it.
        path: PathBuf,
        /// Its kind, as far as it is known.
        kind: String,
    },
    /// The file system cannot keep NT times.
    #[error(
        "the file system of `{}` ({kind}) keeps a time of …,123456700 ns as {found_ns} ns, and NT's times have 100 ns \
         (an ext4 needs inodes of 256 bytes for that)", path.display()
    )]
    CoarseTimes {
        /// A directory on it.
        path: PathBuf,
        /// Its kind, as far as it is known.
        kind: String,
        /// The nanoseconds that it kept.
        found_ns: i64,
    },
    /// A name is refused.
    #[error("a name in `{place}` is refused: {source}")]
    Name {
        /// The directory that it is in.
        place: String,
        /// Why.
        source: NameError,
    },
    /// A world's name is refused.
    #[error(transparent)]
    WorldName(NameError),
    /// Something in `files/` that no world has.
    #[error("`{}` is {found}, and a world has only files and directories", path.display())]
    ForeignEntry {
        /// Where.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A damaged `user.vodka.nt`.
    #[error("the NT metadata of `{}` (xattr user.vodka.nt) is damaged: {source}", path.display())]
    Record {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
    },
    /// A damaged line of a text file of the world.
    #[error("`{}` is damaged at line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was expected and found.
        reason: String,
    },
    /// A text file of the world is longer than it can be.
    #[error("`{}` has {found_bytes} bytes, and at most {limit_bytes} are read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        found_bytes: u64,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// Two security descriptors with one id.
    #[error("two different security descriptors have the id {id}")]
    SecurityCollision {
        /// The id.
        id: SecurityId,
    },
    /// A security descriptor that can be none.
    #[error("a security descriptor of {found_bytes} bytes is longer than the {limit_bytes} that one can have")]
    SecurityTooLarge {
        /// Its length.
        found_bytes: usize,
        /// The most it can have.
        limit_bytes: usize,
    },
    /// A damaged or unknown `world.conf`.
    #[error("`{}` is no world.conf that this program reads: {reason}", path.display())]
    Conf {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// There is no such world.
    #[error("there is no world `{name}` in `{}`", root.display())]
    WorldMissing {
        /// Its name.
        name: String,
        /// Where it would be.
        root: PathBuf,
    },
    /// A world of that name is there already.
    #[error("the world `{name}` exists already in `{}`; `vodka world remove {name}` removes it", root.display())]
    WorldExists {
        /// Its name.
        name: String,
        /// Where it is.
        root: PathBuf,
    },
    /// Somebody else holds the world.
    #[error("the world `{name}` is in use by {by}")]
    WorldInUse {
        /// Its name.
        name: String,
        /// Who holds it, as far as it is known.
        by: String,
    },
    /// Other worlds stand on it.
    #[error("the world `{name}` is the parent of {}", children.join(", "))]
    WorldHasChildren {
        /// Its name.
        name: String,
        /// The worlds that have it as parent.
        children: Vec<String>,
    },
    /// A path that the world does not have.
    #[error("there is no `{path}` in the world")]
    PathMissing {
        /// The NT path.
        path: String,
    },
    /// A path that is there and should not be.
    #[error("`{path}` is there already")]
    PathExists {
        /// The NT path.
        path: String,
    },
    /// A file where a directory must be, or the other way round.
    #[error("`{path}` is {found}, and {expected} is needed")]
    WrongKind {
        /// The NT path.
        path: String,
        /// What it is.
        found: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A directory that must be empty and is not.
    #[error("the directory `{path}` is not empty")]
    NotEmpty {
        /// The NT path.
        path: String,
    },
    /// Deeper than this program goes.
    #[error("`{path}` is more than {limit} directories deep")]
    TooDeep {
        /// Where it was found.
        path: String,
        /// The most that is allowed.
        limit: usize,
    },
    /// A stored manifest that the world's digest does not name.
    #[error("the stored manifest of `{}` has the digest {found}, and world.conf says {expected}", path.display())]
    ManifestDigest {
        /// The world.
        path: PathBuf,
        /// The digest in world.conf.
        expected: String,
        /// The manifest's own.
        found: String,
    },
    /// The world has not been sealed.
    #[error("the world `{name}` is not sealed, so it has no digest; `vodka world seal {name}` gives it one")]
    NotSealed {
        /// Its name.
        name: String,
    },
    /// A sealed world was to be changed.
    #[error("the world `{name}` is sealed, and nothing writes to it; `vodka world new` makes a fork of it")]
    Sealed {
        /// Its name.
        name: String,
    },
    /// A world that was opened to read it was to be changed.
    #[error("the world `{name}` was opened only to read it")]
    ReadOnly {
        /// Its name.
        name: String,
    },
    /// The registry hive of a world cannot be read.
    #[error("the registry `{}` cannot be read: {reason}", path.display())]
    Registry {
        /// The hive file.
        path: PathBuf,
        /// What the reader of hives says.
        reason: String,
    },
    /// A packed world that is damaged, or none.
    #[error("cannot unpack `{}`", path.display())]
    Pack {
        /// The layout or blob.
        path: PathBuf,
        /// What is wrong.
        source: crate::pack::PackError,
    },
    /// A parent that is not what the world was forked from.
    #[error("the world `{name}` has the parent `{parent}` with the digest {expected}, and the one here has {found}")]
    ParentChanged {
        /// The world.
        name: String,
        /// Its parent.
        parent: String,
        /// The digest that it was forked from.
        expected: String,
        /// The digest of the one that is here.
        found: String,
    },
    /// More parents than this program goes through.
    #[error("the world `{name}` has more than {limit} parents, or its parents form a cycle")]
    TooManyLayers {
        /// The world.
        name: String,
        /// The most that is allowed.
        limit: usize,
    },
}

/// What class of failure an error is, for a program's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitClass {
    /// A world exists, is missing or in use (exit code 7).
    World,
    /// No room, or a file system that cannot hold a world (5).
    NoRoom,
    /// Damaged data (6).
    Damaged,
    /// Wrong words from the person (2).
    Usage,
    /// Anything else (1).
    Unexpected,
}

impl Error {
    /// Whether the disk or a quota is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Io { source, .. } => [Errno::NOSPC, Errno::DQUOT]
                .iter()
                .any(|e| source.raw_os_error() == Some(e.raw_os_error())),
            _ => false,
        }
    }

    /// The class of this failure.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::WorldMissing { .. }
            | Self::WorldExists { .. }
            | Self::WorldInUse { .. }
            | Self::WorldHasChildren { .. }
            | Self::ParentChanged { .. }
            | Self::TooManyLayers { .. }
            | Self::Sealed { .. }
            | Self::NotSealed { .. } => ExitClass::World,
            Self::NoUserXattrs { .. } | Self::CoarseTimes { .. } => ExitClass::NoRoom,
            Self::Io { .. } if self.is_no_space() => ExitClass::NoRoom,
            Self::WorldName(_) => ExitClass::Usage,
            Self::Name { .. }
            | Self::ForeignEntry { .. }
            | Self::Record { .. }
            | Self::Line { .. }
            | Self::TooLarge { .. }
            | Self::SecurityCollision { .. }
            | Self::SecurityTooLarge { .. }
            | Self::Conf { .. }
            | Self::TooDeep { .. }
            | Self::Registry { .. }
            | Self::Pack { .. }
            | Self::ManifestDigest { .. } => ExitClass::Damaged,
            _ => ExitClass::Unexpected,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source: source.into(),
        }
    }
}

/// Says what was tried on what when Linux refuses.
pub(crate) trait Trying<T> {
    fn trying(self, action: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Trying<T> for std::result::Result<T, E> {
    fn trying(self, action: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| Error::io(action, path.as_ref(), source))
    }
}
