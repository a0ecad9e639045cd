// SPDX-License-Identifier: GPL-3.0-or-later
//! An image's directory tree and all that NT keeps about its files.
//!
//! The metadata resource is parsed once into arenas: dentries refer to each other by index, names and streams lie in
//! one buffer each. A tree that comes out of here is a tree: no cycle, no name that leads elsewhere, no two children of
//! one name; whoever lays it down relies on that.

mod dentry;
mod name;
mod parse;
mod streams;
mod tree;

pub use dentry::{Dentry, DentryId, NamedStream, Reparse, TaggedItem};
pub use name::{NameFault, check_name, escape_name, names_equal_ignore_case};
pub(super) use parse::parse;
pub use tree::ImageMetadata;
