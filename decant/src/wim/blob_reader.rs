// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading whole blobs on one thread, each checked against its SHA-1.

use sha1::Digest as _;

use super::blob_table::{BlobId, ResourceId, SolidId};
use super::error::WimError;
use super::open::Wim;
use super::resource::{ChunkDecoder, ResourceLayout};
use super::types::Sha1Hash;

/// How many stored bytes are read at once, where chunks are smaller.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// Reads blobs one after another. Keeps its buffers, and of a solid resource the chunk table and the last chunk.
#[derive(Debug)]
pub struct BlobReader<'w> {
    wim: &'w Wim,
    decoder: ChunkDecoder,
    stored: Vec<u8>,
    unpacked: Vec<u8>,
    solid: Option<Solid>,
}

#[derive(Debug)]
struct Solid {
    id: SolidId,
    layout: ResourceLayout,
    /// Index of the chunk that `BlobReader::unpacked` holds.
    chunk: Option<u64>,
}

/// Takes a blob's bytes, block by block.
pub type Sink<'s> = dyn FnMut(&[u8]) -> std::io::Result<()> + 's;

impl<'w> BlobReader<'w> {
    /// A reader that has not allocated anything yet.
    #[must_use]
    pub fn new(wim: &'w Wim) -> Self {
        Self {
            wim,
            decoder: ChunkDecoder::new(),
            stored: Vec::new(),
            unpacked: Vec::new(),
            solid: None,
        }
    }

    /// Gives a blob's bytes to `sink`, block by block.
    ///
    /// # Errors
    /// [`WimError`] when the blob cannot be read, does not decompress, or has the wrong SHA-1, which is known only
    /// after its last block: only after `Ok` are the bytes good. [`WimError::Sink`] when `sink` fails.
    pub fn read(&mut self, blob: BlobId, sink: &mut Sink<'_>) -> Result<(), WimError> {
        let blobs = self.wim.blobs()?;
        let entry = blobs.get(blob);
        let mut hasher = sha1::Sha1::new();
        let mut hashing = |block: &[u8]| {
            hasher.update(block);
            sink(block)
        };
        match entry.resource {
            ResourceId::Blob(_) => {
                let layout = self.wim.layout(entry.resource)?;
                self.read_chunks(&layout, 0, layout.size_bytes(), &mut hashing)?;
            }
            ResourceId::Solid(id) => {
                self.read_solid(id, entry.offset_in_resource, entry.size_bytes, &mut hashing)?;
            }
        }
        let actual = Sha1Hash(hasher.finalize().into());
        if actual != entry.sha1 {
            let offset = blobs.location(entry.resource).1.offset;
            return Err(WimError::WrongHash {
                wim: self.wim.name(),
                offset,
                expected: entry.sha1,
                actual,
            });
        }
        Ok(())
    }

    fn read_solid(&mut self, id: SolidId, offset: u64, bytes: u64, sink: &mut Sink<'_>) -> Result<(), WimError> {
        let mut solid = match self.solid.take() {
            Some(solid) if solid.id == id => solid,
            _ => Solid {
                id,
                layout: self.wim.layout(ResourceId::Solid(id))?,
                chunk: None,
            },
        };
        let end = offset.saturating_add(bytes);
        for index in solid.layout.chunks_of(offset, bytes) {
            let chunk = solid.layout.chunk(index);
            if solid.chunk != Some(index) {
                solid.chunk = None;
                self.wim.read_stored(&solid.layout, &chunk, &mut self.stored)?;
                self.unpacked.resize(chunk.size_bytes as usize, 0);
                self.decoder
                    .decode(&solid.layout, &chunk, &self.stored, &mut self.unpacked)?;
                solid.chunk = Some(index);
            }
            let within = |position: u64| {
                let relative = position.saturating_sub(chunk.start).min(chunk.size_bytes.into());
                usize::try_from(relative).unwrap_or(usize::MAX)
            };
            sink(&self.unpacked[within(offset)..within(end)]).map_err(WimError::Sink)?;
        }
        self.solid = Some(solid);
        Ok(())
    }

    /// Gives `bytes` unpacked bytes from `offset` of a resource that is not solid. No SHA-1 is checked.
    pub(super) fn read_chunks(
        &mut self,
        layout: &ResourceLayout,
        offset: u64,
        bytes: u64,
        sink: &mut Sink<'_>,
    ) -> Result<(), WimError> {
        self.solid = None;
        let mut chunks = layout.chunks_of(offset, bytes);
        while chunks.start < chunks.end {
            let first = layout.chunk(chunks.start);
            let mut next = chunks.start + 1;
            let mut stored_bytes = u64::from(first.stored_bytes);
            while next < chunks.end {
                let more = u64::from(layout.chunk(next).stored_bytes);
                if stored_bytes + more > READ_AHEAD_BYTES {
                    break;
                }
                stored_bytes += more;
                next += 1;
            }
            self.stored
                .resize(usize::try_from(stored_bytes).unwrap_or(usize::MAX), 0);
            self.wim
                .read_exact("a chunk", first.part, &mut self.stored, first.offset)?;
            let mut rest = self.stored.as_slice();
            for index in chunks.start..next {
                let chunk = layout.chunk(index);
                let (stored, behind) = rest.split_at(chunk.stored_bytes as usize);
                rest = behind;
                if chunk.compressed {
                    self.unpacked.resize(chunk.size_bytes as usize, 0);
                    self.decoder.decode(layout, &chunk, stored, &mut self.unpacked)?;
                    sink(&self.unpacked).map_err(WimError::Sink)?;
                } else {
                    sink(stored).map_err(WimError::Sink)?;
                }
            }
            chunks.start = next;
        }
        Ok(())
    }
}
