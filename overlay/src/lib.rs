// SPDX-License-Identifier: GPL-3.0-or-later
//! Worlds on disk: a plain directory that holds an installed Windows.
//!
//! A world has four entries: `files/`, `registry.hiv`, `removed`, `world.conf`; `docs/world-format.md` specifies them.
//! This crate owns that format: names ([`name`]), NT metadata ([`meta`]), what does not fit beside a file ([`store`]),
//! writing a tree ([`tree`]), reading one ([`layer`]), the digest ([`manifest`]), and the directory of worlds with its
//! locks ([`worlds`]). It knows no terminal and never prints.
#![forbid(unsafe_code)]

mod beneath;
pub mod conf;
mod error;
mod files;
pub mod layer;
pub mod layers;
mod listing;
mod lookup;
pub mod manifest;
pub mod meta;
pub mod name;
pub mod pack;
mod probe;
mod registry;
pub mod removed;
mod sizes;
pub mod store;
pub mod tree;
mod upcase;
pub mod view;
pub mod worlds;

pub use conf::WorldConf;
pub use error::{Error, ExitClass, Result};
pub use layer::Layer;
pub use layers::{Access, Layers};
pub use manifest::{ContentHash, Difference, Digest, Manifest, SealOptions};
pub use meta::{FileTime, NtMetadata, attributes};
pub use name::{NameError, NtName, NtPath, PathId, ShortName, StoredName, StreamName, stored_names};
pub use probe::FileSystem;
pub use removed::Removed;
pub use sizes::Sizes;
pub use store::{ExtraKey, SecurityId};
pub use tree::{Dir, FileTree, NewFile};
pub use worlds::{Staging, Survey, World, WorldName, Worlds};
