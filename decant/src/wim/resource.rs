// SPDX-License-Identifier: GPL-3.0-or-later
//! Resources: from a place in a file to chunks that any thread can read and decompress by itself.
//!
//! A [`ResourceLayout`] is the checked chunk table. With it, reading ([`Wim::read_stored`](super::Wim::read_stored)) and
//! decompressing ([`ChunkDecoder`]) are apart, so that one thread can read in medium order while others decompress.

use std::ops::Range;

use super::decompress::{DecompressError, Decompressors};
use super::error::WimError;
use super::header::ResourceLocation;
use super::types::Compression;

/// A resource's chunks: where each lies, how long it is stored and unpacked.
#[derive(Clone, Debug)]
pub struct ResourceLayout {
    pub(super) wim: String,
    pub(super) part: u16,
    pub(super) location: ResourceLocation,
    pub(super) compression: Compression,
    pub(super) chunk_size_bytes: u32,
    pub(super) size_bytes: u64,
    /// Where the first chunk begins in the part.
    pub(super) data_offset: u64,
    /// End of each chunk, relative to `data_offset`; empty when nothing is compressed.
    pub(super) ends: Vec<u64>,
}

/// One chunk of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Which one, from 0.
    pub index: u64,
    /// Which part holds it, from 1.
    pub part: u16,
    /// Where it begins in that part.
    pub offset: u64,
    /// Length there.
    pub stored_bytes: u32,
    /// Where it begins in the unpacked resource.
    pub start: u64,
    /// Unpacked length.
    pub size_bytes: u32,
    /// Whether it is compressed; else the stored bytes are the unpacked ones.
    pub compressed: bool,
}

impl ResourceLayout {
    /// An uncompressed resource: chunks of [`super::UNCOMPRESSED_CHUNK_BYTES`].
    pub(super) fn uncompressed(wim: String, part: u16, location: ResourceLocation) -> Self {
        Self {
            wim,
            part,
            location,
            compression: Compression::None,
            chunk_size_bytes: super::UNCOMPRESSED_CHUNK_BYTES,
            size_bytes: location.stored_bytes,
            data_offset: location.offset,
            ends: Vec::new(),
        }
    }

    /// How many unpacked bytes the resource has.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Unpacked length of each chunk but the last.
    #[must_use]
    pub fn chunk_size_bytes(&self) -> u32 {
        self.chunk_size_bytes
    }

    /// How the chunks are compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// How many chunks there are.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        self.size_bytes.div_ceil(self.chunk_size_bytes.into())
    }

    /// The chunk with this index.
    ///
    /// # Panics
    /// When `index` is not below [`Self::chunk_count`].
    #[must_use]
    pub fn chunk(&self, index: u64) -> Chunk {
        assert!(index < self.chunk_count(), "chunk {index} of {}", self.chunk_count());
        let start = index * u64::from(self.chunk_size_bytes);
        // At most `chunk_size_bytes`, which is 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let size_bytes = (self.size_bytes - start).min(self.chunk_size_bytes.into()) as u32;
        if self.ends.is_empty() {
            let offset = self.data_offset + start;
            return Chunk {
                index,
                part: self.part,
                offset,
                stored_bytes: size_bytes,
                start,
                size_bytes,
                compressed: false,
            };
        }
        // There is one end a chunk, and the table's own length was checked against memory.
        #[allow(clippy::cast_possible_truncation)]
        let position = index as usize;
        let begin = if position == 0 { 0 } else { self.ends[position - 1] };
        // Checked to be at most `size_bytes` when the table was read.
        #[allow(clippy::cast_possible_truncation)]
        let stored_bytes = (self.ends[position] - begin) as u32;
        let offset = self.data_offset + begin;
        let compressed = stored_bytes != size_bytes;
        Chunk {
            index,
            part: self.part,
            offset,
            stored_bytes,
            start,
            size_bytes,
            compressed,
        }
    }

    /// Which chunks hold `bytes` unpacked bytes from `offset`.
    #[must_use]
    pub fn chunks_of(&self, offset: u64, bytes: u64) -> Range<u64> {
        if bytes == 0 {
            return 0..0;
        }
        let chunk = u64::from(self.chunk_size_bytes);
        let end = offset.saturating_add(bytes).div_ceil(chunk).min(self.chunk_count());
        (offset / chunk).min(end)..end
    }

    /// Checks the table's chunk ends: each chunk has at least one byte and at most its unpacked length.
    pub(super) fn check_ends(&self) -> Result<(), WimError> {
        let available = self.location.stored_bytes - (self.data_offset - self.location.offset);
        let mut begin = 0u64;
        let mut left = self.size_bytes;
        for (entry, &end) in self.ends.iter().enumerate() {
            let size_bytes = left.min(self.chunk_size_bytes.into());
            left -= size_bytes;
            let stored = end.checked_sub(begin);
            if !stored.is_some_and(|stored| (1..=size_bytes).contains(&stored)) || end > available {
                return Err(WimError::InvalidChunkTable {
                    wim: self.wim.clone(),
                    offset: self.location.offset,
                    entry: entry as u64,
                    found: end,
                    expected: format!(
                        "an end from {} to {}",
                        begin.saturating_add(1),
                        begin.saturating_add(size_bytes).min(available)
                    ),
                });
            }
            begin = end;
        }
        Ok(())
    }
}

/// Decompresses chunks; one a worker, used again and again.
///
/// Its tables are allocated at the first use of each compression and kept.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    decompressors: Decompressors,
}

impl ChunkDecoder {
    /// A decoder that has not allocated anything yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Unpacks `stored`, the stored bytes of `chunk`, into `out`.
    ///
    /// # Errors
    /// [`WimError::InvalidChunk`] when the chunk is damaged, or when `stored` or `out` has not the chunk's length. What
    /// `out` holds then is unspecified.
    pub fn decode(
        &mut self,
        layout: &ResourceLayout,
        chunk: &Chunk,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), WimError> {
        self.decode_bytes(layout, chunk, stored, out)
            .map_err(|source| WimError::InvalidChunk {
                wim: layout.wim.clone(),
                resource_offset: layout.location.offset,
                chunk: chunk.index,
                chunk_offset: chunk.offset,
                stored_bytes: chunk.stored_bytes,
                compression: layout.compression,
                source,
            })
    }

    fn decode_bytes(
        &mut self,
        layout: &ResourceLayout,
        chunk: &Chunk,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecompressError> {
        if stored.len() != chunk.stored_bytes as usize || out.len() != chunk.size_bytes as usize {
            return Err(DecompressError::WrongBufferLength);
        }
        if !chunk.compressed {
            out.copy_from_slice(stored);
            return Ok(());
        }
        self.decompressors
            .decompress(layout.compression, layout.chunk_size_bytes, stored, out)
    }
}
