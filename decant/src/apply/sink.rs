// SPDX-License-Identifier: GPL-3.0-or-later
//! Where one blob's bytes go: its hashes and the first of its files. The further files are filled when it is whole.

use std::io::Write;

use overlay::tree::NewFile;
use sha1::{Digest, Sha1};

use crate::wim::{BlobId, Sha1Hash};

/// A blob that is being written, in order, by one thread at a time.
pub(super) struct BlobSink {
    pub blob: BlobId,
    sha1: Sha1,
    content: blake3::Hasher,
    /// The file or stream that takes the bytes as they come; `None` for reparse data, which is gathered.
    file: Option<NewFile>,
    gathered: Vec<u8>,
}

impl std::fmt::Debug for BlobSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobSink")
            .field("blob", &self.blob)
            .finish_non_exhaustive()
    }
}

/// A blob whose bytes have all come.
pub(super) struct Filled {
    pub sha1: Sha1Hash,
    pub content: blake3::Hash,
    pub file: Option<NewFile>,
    pub gathered: Vec<u8>,
}

impl BlobSink {
    pub fn new(blob: BlobId, file: Option<NewFile>) -> Self {
        Self {
            blob,
            sha1: Sha1::new(),
            content: blake3::Hasher::new(),
            file,
            gathered: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sha1.update(bytes);
        self.content.update(bytes);
        match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => {
                self.gathered.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Ends the blob.
    pub fn finish(self) -> Filled {
        Filled {
            sha1: Sha1Hash(self.sha1.finalize().into()),
            content: self.content.finalize(),
            file: self.file,
            gathered: self.gathered,
        }
    }
}
