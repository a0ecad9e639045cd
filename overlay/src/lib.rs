// SPDX-License-Identifier: GPL-3.0-or-later
//! Worlds on disk: a plain directory that holds an installed Windows.
#![forbid(unsafe_code)]

mod beneath;
mod error;
pub mod meta;
pub mod name;
pub mod store;
mod upcase;

pub use error::{Error, ExitClass, Result};
pub use meta::{FileTime, NtMetadata, attributes};
pub use name::{NameError, NtName, NtPath, PathId, ShortName, StoredName, StreamName, stored_names};
pub use store::{ExtraKey, SecurityId};
