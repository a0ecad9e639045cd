// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading chunk tables: from a resource's place to its [`ResourceLayout`], everything in it checked.
//!
//! A plain resource has a table of where each chunk but the first begins, 32 or 64 bits each; a solid one has a header
//! and the length of each chunk, 32 bits each.

use zerocopy::FromBytes as _;

use super::blob_table::{ResourceId, SolidResource};
use super::error::WimError;
use super::format::RawSolidHeader;
use super::header::{ResourceLocation, check_chunk_size};
use super::open::Wim;
use super::resource::ResourceLayout;
use super::types::Compression;

impl Wim {
    /// A resource's chunks. Reads the chunk table, nothing else.
    ///
    /// # Errors
    /// [`WimError`] when the table cannot be read, is damaged, or has more than [`super::MAX_CHUNKS`] entries.
    pub fn layout(&self, resource: ResourceId) -> Result<ResourceLayout, WimError> {
        let blobs = self.blobs()?;
        let (part, location) = blobs.location(resource);
        match resource {
            ResourceId::Blob(_) => self.layout_at("a resource", location, part),
            ResourceId::Solid(id) => self.solid_layout(blobs.solid(id)),
        }
    }

    pub(super) fn layout_at(
        &self,
        what: &str,
        location: ResourceLocation,
        part: u16,
    ) -> Result<ResourceLayout, WimError> {
        let wim = self.part(part)?.name();
        self.check_location(what, location, part)?;
        if !location.is_compressed() {
            return Ok(ResourceLayout::uncompressed(wim, part, location));
        }
        let (compression, chunk_size_bytes) = (self.header().compression, self.header().chunk_size_bytes);
        if compression == Compression::None {
            return Err(WimError::InvalidHeader {
                wim,
                field: "the compression in its flags",
                found: "none".to_owned(),
                expected: format!("one, for the resource at offset {} is compressed", location.offset),
            });
        }
        let chunk_count = location.size_bytes.div_ceil(chunk_size_bytes.into());
        // The first chunk begins right behind the table and has no entry. [WIM white paper, "Chunk table"]
        let entry_bytes = if location.size_bytes > u64::from(u32::MAX) {
            8
        } else {
            4
        };
        let table = self.read_chunk_table(
            location,
            part,
            0,
            entry_bytes,
            chunk_count,
            chunk_count.saturating_sub(1),
        )?;
        let table_bytes = table.len() as u64;
        let mut ends: Vec<u64> = if entry_bytes == 8 {
            let entries = table.as_chunks::<8>().0;
            entries.iter().map(|entry| u64::from_le_bytes(*entry)).collect()
        } else {
            let entries = table.as_chunks::<4>().0;
            entries.iter().map(|entry| u32::from_le_bytes(*entry).into()).collect()
        };
        if chunk_count > 0 {
            ends.push(location.stored_bytes - table_bytes);
        }
        let data_offset = location.offset + table_bytes;
        let size_bytes = location.size_bytes;
        let layout = ResourceLayout {
            wim,
            part,
            location,
            compression,
            chunk_size_bytes,
            size_bytes,
            data_offset,
            ends,
        };
        layout.check_ends()?;
        Ok(layout)
    }

    fn solid_layout(&self, solid: SolidResource) -> Result<ResourceLayout, WimError> {
        const HEADER_BYTES: u64 = size_of::<RawSolidHeader>() as u64;
        let SolidResource {
            part,
            location,
            compression,
            chunk_size_bytes,
        } = solid;
        let wim = self.part(part)?.name();
        let chunk_count = location.size_bytes.div_ceil(chunk_size_bytes.into());
        let table = self.read_chunk_table(location, part, HEADER_BYTES, 4, chunk_count, chunk_count)?;
        let mut end = 0u64;
        let entries = table.as_chunks::<4>().0;
        let ends = entries
            .iter()
            .map(|entry| {
                end += u64::from(u32::from_le_bytes(*entry));
                end
            })
            .collect();
        let data_offset = location.offset + HEADER_BYTES + table.len() as u64;
        let size_bytes = location.size_bytes;
        let layout = ResourceLayout {
            wim,
            part,
            location,
            compression,
            chunk_size_bytes,
            size_bytes,
            data_offset,
            ends,
        };
        layout.check_ends()?;
        Ok(layout)
    }

    /// Reads `entry_count` chunk table entries that lie `skip` bytes behind the resource's beginning.
    fn read_chunk_table(
        &self,
        location: ResourceLocation,
        part: u16,
        skip: u64,
        entry_bytes: u64,
        chunk_count: u64,
        entry_count: u64,
    ) -> Result<Vec<u8>, WimError> {
        let wim = self.part(part)?.name();
        if chunk_count > super::MAX_CHUNKS {
            let what = format!("the chunk table of the resource at offset {}", location.offset);
            let (found, limit) = (chunk_count.saturating_mul(entry_bytes), super::MAX_CHUNKS * entry_bytes);
            return Err(WimError::TooLarge {
                what,
                wim,
                found,
                limit,
            });
        }
        let table_bytes = entry_count * entry_bytes;
        if location.stored_bytes < skip + table_bytes {
            return Err(WimError::InvalidChunkTable {
                wim,
                offset: location.offset,
                entry: 0,
                found: location.stored_bytes,
                expected: format!(
                    "a resource of at least {} bytes for {chunk_count} chunk(s)",
                    skip + table_bytes
                ),
            });
        }
        self.read_vec("a chunk table", part, location.offset + skip, table_bytes)
    }

    /// The header of a solid resource, which says what its blob table entry does not.
    pub(super) fn read_solid_header(&self, location: ResourceLocation, part: u16) -> Result<SolidResource, WimError> {
        let wim = self.part(part)?.name();
        self.check_location("a solid resource", location, part)?;
        let mut raw = [0; size_of::<RawSolidHeader>()];
        self.read_exact("a solid resource's header", part, &mut raw, location.offset)?;
        let raw = RawSolidHeader::read_from_bytes(&raw).map_err(|_| self.missing_part(part))?;
        let compression = match raw.compression.get() {
            0 => Compression::None,
            1 => Compression::Xpress,
            2 => Compression::Lzx,
            3 => Compression::Lzms,
            found => {
                let compression = format!("the unknown method {found} (solid)");
                return Err(WimError::UnsupportedCompression { wim, compression });
            }
        };
        let chunk_size_bytes = raw.chunk_bytes.get();
        check_chunk_size(compression, chunk_size_bytes, &wim)?;
        let location = ResourceLocation {
            size_bytes: raw.unpacked_bytes.get(),
            ..location
        };
        Ok(SolidResource {
            part,
            location,
            compression,
            chunk_size_bytes,
        })
    }
}
