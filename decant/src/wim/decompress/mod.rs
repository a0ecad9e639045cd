// SPDX-License-Identifier: GPL-3.0-or-later
//! Decompressors for single chunks: XPRESS, LZX and LZMS.
//!
//! Each is a struct that is used for many chunks and allocates nothing for one. A chunk is decompressed alone: nothing
//! is kept from the one before. Damaged input gives an error or wrong bytes, never a panic or bytes of another chunk
//! beyond what the caller's buffer held; the blob's SHA-1 tells the wrong bytes.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields of a bit stream and tables' indexes have few bits"
)]

mod bits;
mod copy;
mod huffman;
mod lzms;
mod lzx;
mod xpress;

pub use lzms::LzmsDecompressor;
pub use lzx::LzxDecompressor;
pub use xpress::XpressDecompressor;

use super::types::Compression;

/// Why a chunk does not decompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The input ends in the middle.
    #[error("the compressed data end too early")]
    Truncated,
    /// Codeword lengths that no Huffman code has.
    #[error("its Huffman codeword lengths are of no complete prefix code")]
    InvalidCode,
    /// A match that begins before the chunk.
    #[error("at unpacked byte {position} a match reaches {offset} byte(s) back, before the chunk's beginning")]
    InvalidOffset {
        /// Where.
        position: usize,
        /// How far.
        offset: usize,
    },
    /// A match or block that ends behind the chunk.
    #[error("at unpacked byte {position} a match or block of {length} byte(s) ends behind its chunk or block")]
    InvalidLength {
        /// Where.
        position: usize,
        /// How long.
        length: usize,
    },
    /// A block type that does not exist.
    #[error("at unpacked byte {position} is a block of the unknown type {found}")]
    InvalidBlockType {
        /// Where.
        position: usize,
        /// Which.
        found: u32,
    },
    /// The caller's buffers have not the chunk's lengths.
    #[error("the buffers have not the chunk's stored and unpacked lengths")]
    WrongBufferLength,
    /// The compression or chunk size is not served.
    #[error("this compression or chunk size is not supported")]
    Unsupported,
}

/// One decompressor of each kind, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Decompressors {
    xpress: Option<Box<XpressDecompressor>>,
    lzx: Option<Box<LzxDecompressor>>,
    lzms: Option<Box<LzmsDecompressor>>,
}

impl Decompressors {
    /// Decompresses one chunk with the decompressor for this compression and chunk size.
    pub fn decompress(
        &mut self,
        compression: Compression,
        chunk_size_bytes: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), DecompressError> {
        match compression {
            Compression::Xpress => self.xpress.get_or_insert_default().decompress(input, output),
            Compression::Lzx => {
                if self
                    .lzx
                    .as_ref()
                    .is_none_or(|lzx| lzx.window_bytes() != chunk_size_bytes)
                {
                    self.lzx = LzxDecompressor::new(chunk_size_bytes).map(Box::new);
                }
                self.lzx
                    .as_mut()
                    .ok_or(DecompressError::Unsupported)?
                    .decompress(input, output)
            }
            Compression::Lzms => self.lzms.get_or_insert_default().decompress(input, output),
            Compression::None => Err(DecompressError::Unsupported),
        }
    }
}
