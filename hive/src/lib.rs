// SPDX-License-Identifier: GPL-3.0-or-later
//! Registry hives (regf): reading, recovering, writing, comparing.
//!
//! - [`Hive`], [`Key`], [`Value`]: reading in place, borrowed from a byte buffer.
//! - [`Walk`] and [`count()`]: whole trees, damage reported and walked over.
//! - [`log::recover`]: a dirty hive and its logs become a clean hive.
//! - [`Editor`], [`HiveFile`]: changes in place, in memory and on disk; [`verify()`] checks a hive.
//! - [`reg_export`], [`reg_import`], [`mod@diff`]: registry text, both ways, and comparing.
//! - [`Node`], [`Merge`], [`rebuild`]: new hives, canonical and in bulk.
//! - [`upcase`]: how NT compares names, for the registry and for files.
#![forbid(unsafe_code)]

pub mod diff;
pub mod edit;
mod emit;
pub mod error;
pub mod file;
pub mod format;
pub mod key;
pub mod log;
mod log_write;
mod marvin;
pub mod merge;
pub mod name;
pub mod paths;
pub mod reader;
mod reg_apply;
pub mod reg_export;
pub mod reg_import;
mod reg_text;
pub mod subkeys;
pub mod tree;
pub mod upcase;
pub mod value;
pub mod verify;
pub mod walk;

pub use diff::{DiffOptions, Difference, diff};
pub use edit::{Change, Created, Editor, KeyId, NewKey};
pub use error::{Error, Result};
pub use file::{FileError, HiveFile, load};
pub use key::{Key, LayerSemantics};
pub use merge::{Merge, Merged, SourceReport, rebuild};
pub use name::{Name, NameBuf};
pub use reader::{Hive, MAX_DEPTH, OpenDamage};
pub use tree::{DEFAULT_SECURITY, Node, NodeValue, WriteOptions};
pub use value::{Data, Value};
pub use verify::{VerifyReport, verify};
pub use walk::{Counts, DamageReport, Order, Strictness, Walk, count};
