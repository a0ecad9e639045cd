// SPDX-License-Identifier: GPL-3.0-or-later
//! PE images: reading their headers, mapping and relocating them, finding exports, and learning service numbers from
//! ntdll's stubs. Everything in a file is untrusted: each offset and count is checked before use, and every bound is a
//! constant below. What would break if this were wrong is the promise that no program file makes the runtime fail.
//!
//! The format is documented in "PE Format" on Microsoft Learn; the names are those of winnt.h.

mod exports;
mod format;
mod headers;
mod learn;
mod map;

use std::os::unix::fs::FileExt;

pub use exports::{Export, exports};
pub use headers::{Directory, ImageHeaders, Section, SectionFlags};
pub use learn::{LearnedService, StubKind, learn_services};
pub use map::{MappedImage, map_image, rewrite_stub};

/// The most sections an image may have (the Windows loader's own limit).
pub const MAX_SECTIONS: u16 = 96;
/// The largest image that is mapped, in bytes of address space.
pub const MAX_IMAGE_BYTES: u32 = 0x4000_0000;
/// The most exports with a name that are read.
pub const MAX_EXPORTS: u32 = 0x2_0000;
/// The longest export name, in bytes.
pub const MAX_EXPORT_NAME_BYTES: usize = 512;

/// Why a file is no image that can run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It does not begin with `MZ`.
    #[error("not a program: no MZ mark at offset 0")]
    NotMz,
    /// The offset at 0x3c leads to no `PE` mark.
    #[error("not a Windows program: no PE mark at offset {offset:#x}, where offset 0x3c points")]
    NotPe {
        /// Where the mark should be.
        offset: u64,
    },
    /// It is an image for another processor.
    #[error(
        "a program for machine {found:#06x}; only x86-64 ({:#06x}) runs here",
        headers::MACHINE_AMD64
    )]
    WrongMachine {
        /// The machine in the file header.
        found: u16,
    },
    /// A field holds what no loader could use.
    #[error("damaged program: {what} is {found:#x} at offset {offset:#x}, expected {expected}")]
    Bad {
        /// The field.
        what: &'static str,
        /// What it holds.
        found: u64,
        /// Where it lies in the file.
        offset: u64,
        /// What it should hold.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("damaged program: {what} at offset {offset:#x} lies behind the end of the file")]
    Truncated {
        /// What lies there.
        what: &'static str,
        /// Where it should begin.
        offset: u64,
    },
    /// The file cannot be read.
    #[error("cannot read the program")]
    Io(#[from] std::io::Error),
    /// The address space has no room, or the image cannot be moved.
    #[error("cannot map the program: {0}")]
    Map(crate::status::Status),
}

impl From<&ImageError> for crate::status::Status {
    fn from(error: &ImageError) -> Self {
        match error {
            ImageError::NotMz => Self::INVALID_IMAGE_NOT_MZ,
            ImageError::NotPe { .. } => Self::INVALID_IMAGE_PROTECT,
            ImageError::Map(status) => *status,
            ImageError::Io(error) => error.raw_os_error().map_or(Self::UNSUCCESSFUL, |code| {
                Self::from(std::io::Error::from_raw_os_error(code))
            }),
            _ => Self::INVALID_IMAGE_FORMAT,
        }
    }
}

/// Bytes at offsets: a file, or a slice in a test.
pub trait ReadAt {
    /// Fills `to` from `offset` as far as the source goes; how many bytes.
    ///
    /// # Errors
    /// The host's error.
    fn read_at(&self, to: &mut [u8], offset: u64) -> std::io::Result<usize>;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, to: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match FileExt::read_at(self, &mut to[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, to: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let from = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or(&[]);
        let length = from.len().min(to.len());
        to[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, to: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.as_slice().read_at(to, offset)
    }
}
