// SPDX-License-Identifier: GPL-3.0-or-later
//! Why an image could not be laid down.

use crate::wim::{Sha1Hash, WimError};

/// A lay-down that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say what the fields hold.
pub enum ApplyError {
    #[error("the image cannot be read")]
    Wim(#[from] WimError),
    #[error("the world cannot be written")]
    World(#[from] overlay::Error),
    #[error("{path} cannot be written")]
    Write {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the blob {expected} is damaged: its SHA-1 is {found}; it is the content of {}", files.join(", "))]
    DamagedBlob {
        expected: Sha1Hash,
        found: Sha1Hash,
        files: Vec<String>,
    },
    #[error("the content of {} cannot be read", files.join(", "))]
    UnreadableBlob {
        files: Vec<String>,
        #[source]
        source: WimError,
    },
    #[error("{path} carries {found_bytes} bytes of reparse data; NT allows {most_bytes}")]
    ReparseTooLarge {
        path: String,
        found_bytes: u64,
        most_bytes: u64,
    },
    #[error("the name {path} cannot be kept: {reason}")]
    Name { path: String, reason: String },
    #[error("interrupted")]
    Interrupted,
}
