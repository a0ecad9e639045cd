// SPDX-License-Identifier: GPL-3.0-or-later
//! A disc as numbered blocks, and the errors that name them.

use std::sync::Arc;

use crate::medium::host_file::HostFile;
use crate::medium::{MediumError, ReadAt, ReadAtError};

/// A disc read block by block.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    pub disc: Arc<HostFile>,
    pub block_bytes: u32,
}

/// What a structure should have been and what it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub expected: String,
    pub found: String,
}

impl Mismatch {
    pub(super) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            found: found.into(),
        }
    }
}

impl Blocks {
    /// How many whole blocks the file has.
    pub(super) fn count(&self) -> u64 {
        self.disc.len_bytes() / u64::from(self.block_bytes)
    }

    /// The byte offset of a block.
    pub(super) fn offset(&self, block: u64) -> u64 {
        block.saturating_mul(u64::from(self.block_bytes))
    }

    /// Reads one block.
    pub(super) fn read(&self, block: u64) -> Result<Vec<u8>, MediumError> {
        self.read_bytes(block, self.block_bytes as usize)
    }

    /// Reads bytes from the start of a block.
    pub(super) fn read_bytes(&self, block: u64, length: usize) -> Result<Vec<u8>, MediumError> {
        let mut buffer = vec![0; length];
        match self.disc.read_exact_at(&mut buffer, self.offset(block)) {
            Ok(()) => Ok(buffer),
            Err(error) => Err(ReadAtError {
                lba: Some(block),
                ..error
            }
            .into()),
        }
    }

    /// The error for a structure that begins with a block.
    pub(super) fn damaged(&self, block: u64, structure: impl Into<String>, mismatch: Mismatch) -> MediumError {
        self.damaged_at(self.offset(block), structure, mismatch)
    }

    /// The error for a structure anywhere.
    pub(super) fn damaged_at(&self, offset: u64, structure: impl Into<String>, mismatch: Mismatch) -> MediumError {
        MediumError::Damaged {
            path: self.disc.path().to_owned(),
            structure: structure.into(),
            lba: offset / u64::from(self.block_bytes),
            offset,
            expected: mismatch.expected,
            found: mismatch.found,
        }
    }

    /// The error for more than a bound allows.
    pub(super) fn limit(
        &self,
        subject: impl Into<String>,
        limit: impl TryInto<u64>,
        unit: &'static str,
    ) -> MediumError {
        MediumError::Limit {
            path: self.disc.path().to_owned(),
            subject: subject.into(),
            limit: limit.try_into().unwrap_or(u64::MAX),
            unit,
        }
    }

    /// The error for what this reader does not serve.
    pub(super) fn unsupported(&self, subject: impl Into<String>, feature: impl Into<String>) -> MediumError {
        MediumError::Unsupported {
            path: self.disc.path().to_owned(),
            subject: subject.into(),
            feature: feature.into(),
        }
    }
}
