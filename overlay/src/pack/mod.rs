// SPDX-License-Identifier: GPL-3.0-or-later
//! Worlds as OCI image layouts, to be carried by any registry: pack and unpack.
//!
//! One OCI layer for each layer of the world, the base first: tar with PAX records, zstd. The same world gives the same
//! bytes, whoever packs it, where and when. What is unpacked must have the digest that it was packed with, or it does not
//! get a name. The format is specified in `docs/world-format.md`.

mod layout;
mod oci;
mod read;
mod tar;
mod write;
pub(crate) mod zstd;

use std::path::PathBuf;

use thiserror::Error;

/// What can be wrong with a packed world.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The archive of a layer.
    #[error("the layer's archive is damaged at byte {offset}: {reason}")]
    Tar {
        /// Where in the decompressed archive.
        offset: u64,
        /// What was expected and found.
        reason: String,
    },
    /// A file of the layout.
    #[error("`{}` is no part of a packed world: {reason}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
    /// A blob that is not what its name says.
    #[error("the blob `{}` is damaged: its digest is {found}", path.display())]
    BlobDigest {
        /// The file, named by the digest that it should have.
        path: PathBuf,
        /// Its digest.
        found: String,
    },
    /// An entry that no world has.
    #[error("the layer has an entry `{path}`: {reason}")]
    Entry {
        /// Its path in the archive.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Everything is there, and it is another world.
    #[error("the unpacked world has the digest {found}, and it was packed with {expected}")]
    WorldDigest {
        /// The digest in its world.conf.
        expected: String,
        /// The digest of what was unpacked.
        found: String,
    },
}
