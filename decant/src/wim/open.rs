// SPDX-License-Identifier: GPL-3.0-or-later
//! Opening a WIM, alone or split, and reading its structures when they are first asked for.

use std::sync::{Arc, OnceLock};

use super::blob_reader::BlobReader;
use super::blob_table::{BlobId, BlobTable, BlobTableBuilder, InvalidEntry, ResourceRead};
use super::error::WimError;
use super::format::{self, SOLID_RESOURCE_MARK};
use super::header::{Header, ResourceLocation};
use super::metadata::{self, ImageMetadata};
use super::resource::{Chunk, ResourceLayout};
use super::types::Sha1Hash;
use super::xml::{self, ImageInfo, WimInfo};
use crate::medium::{ReadAt, ReadAtError};

/// A WIM, an ESD, or the parts of a split WIM.
///
/// Opening reads 208 bytes a part. The XML and the blob table are read when first needed, and kept.
#[derive(Debug)]
pub struct Wim {
    header: Header,
    /// Part 1 first. A split WIM opened without its other parts has only this.
    parts: Vec<Arc<dyn ReadAt>>,
    info: OnceLock<WimInfo>,
    blobs: OnceLock<BlobTable>,
}

/// Why one entry of a blob table cannot be taken.
enum TableFault {
    Entry(InvalidEntry),
    Wim(WimError),
}

impl From<InvalidEntry> for TableFault {
    fn from(fault: InvalidEntry) -> Self {
        Self::Entry(fault)
    }
}

impl Wim {
    /// Whether `source` begins like a WIM (of any kind, served or not). Reads 8 bytes.
    #[must_use]
    pub fn is_wim(source: &dyn ReadAt) -> bool {
        let mut magic = [0; 8];
        source.read_exact_at(&mut magic, 0).is_ok() && matches!(magic, format::MAGIC | format::MAGIC_PIPABLE)
    }

    /// Opens a WIM or an ESD by its content. Reads 208 bytes.
    ///
    /// The first part of a split WIM opens as well: its XML can be read; blobs that lie in other parts are then
    /// [`WimError::MissingPart`].
    ///
    /// # Errors
    /// [`WimError`] when the source cannot be read, is no WIM, is of an unsupported kind, has a damaged header, or is
    /// a later part of a split WIM.
    pub fn open(source: Arc<dyn ReadAt>) -> Result<Self, WimError> {
        let header = read_header(source.as_ref())?;
        if header.part_number != 1 {
            let (part, total_parts) = (header.part_number, header.total_parts);
            return Err(WimError::UnexpectedPart {
                wim: source.name(),
                part,
                total_parts,
            });
        }
        Ok(Self {
            header,
            parts: vec![source],
            info: OnceLock::new(),
            blobs: OnceLock::new(),
        })
    }

    /// Opens a WIM, and if it is the first part of a split one, its other parts: `resolve` gives the source of a file
    /// that lies beside the first (`install.swm` has `install2.swm`, `install3.swm`, …).
    ///
    /// # Errors
    /// As [`Self::open`]; [`WimError::MissingPart`] when `resolve` has no such file; [`WimError::WrongPart`] when a file
    /// of that name belongs to another WIM.
    pub fn open_split(
        first: Arc<dyn ReadAt>,
        resolve: &mut dyn FnMut(&str) -> Option<Arc<dyn ReadAt>>,
    ) -> Result<Self, WimError> {
        let mut wim = Self::open(first)?;
        for part in 2..=wim.header.total_parts {
            let part_name = wim.part_name(part);
            let source = resolve(&part_name).ok_or_else(|| wim.missing_part(part))?;
            wim.check_part(part, &part_name, &read_header(source.as_ref())?)?;
            wim.parts.push(source);
        }
        Ok(wim)
    }

    fn check_part(&self, part: u16, part_name: &str, header: &Header) -> Result<(), WimError> {
        let ours = &self.header;
        let fields = [
            ("GUID", header.guid.to_string(), ours.guid.to_string()),
            (
                "number of parts",
                header.total_parts.to_string(),
                ours.total_parts.to_string(),
            ),
            ("part number", header.part_number.to_string(), part.to_string()),
            (
                "compression",
                header.compression.to_string(),
                ours.compression.to_string(),
            ),
            (
                "chunk size",
                header.chunk_size_bytes.to_string(),
                ours.chunk_size_bytes.to_string(),
            ),
        ];
        match fields.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((field, found, expected)) => {
                let part_name = part_name.to_owned();
                Err(WimError::WrongPart {
                    wim: self.name(),
                    part,
                    part_name,
                    field,
                    found,
                    expected,
                })
            }
        }
    }

    /// The file name of a part: the first's, with the number before its extension.
    fn part_name(&self, part: u16) -> String {
        let base = self.parts[0].file_name();
        if part == 1 {
            return base;
        }
        match base.rsplit_once('.') {
            Some((stem, extension)) => format!("{stem}{part}.{extension}"),
            None => format!("{base}{part}"),
        }
    }

    pub(super) fn missing_part(&self, part: u16) -> WimError {
        let (total_parts, part_name) = (self.header.total_parts, self.part_name(part));
        WimError::MissingPart {
            wim: self.name(),
            part,
            total_parts,
            part_name,
        }
    }

    /// What to call this WIM in a message.
    #[must_use]
    pub fn name(&self) -> String {
        self.parts[0].name()
    }

    /// The header (of the first part).
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The length of all parts together, in bytes.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len_bytes()).sum()
    }

    /// What the XML says. Read once and kept.
    ///
    /// # Errors
    /// [`WimError`] when the XML cannot be read, is larger than [`super::MAX_XML_BYTES`], or is damaged.
    pub fn info(&self) -> Result<&WimInfo, WimError> {
        if self.info.get().is_none() {
            let info = xml::parse(&self.xml_text()?, &self.name())?;
            // Two threads may come here at once; they parse the same text.
            let _ = self.info.set(info);
        }
        Ok(self.info.get_or_init(WimInfo::default))
    }

    /// The XML's text.
    ///
    /// # Errors
    /// [`WimError`] when it cannot be read or is larger than [`super::MAX_XML_BYTES`].
    pub fn xml_text(&self) -> Result<String, WimError> {
        let location = self.header.xml;
        let bytes = self.read_location("the XML", location, super::MAX_XML_BYTES, 1)?;
        Ok(xml::decode_text(&bytes))
    }

    /// The image with this INDEX.
    ///
    /// # Errors
    /// [`WimError::NoSuchImage`]; or as [`Self::info`].
    pub fn image(&self, index: u32) -> Result<&ImageInfo, WimError> {
        let info = self.info()?;
        info.images
            .iter()
            .find(|image| image.index == index)
            .ok_or_else(|| WimError::NoSuchImage {
                wim: self.name(),
                index,
                available: info.images.iter().map(|image| image.index).collect(),
            })
    }

    /// The blobs of all parts. Read once and kept: 64 bytes a blob.
    ///
    /// # Errors
    /// [`WimError`] when a blob table cannot be read, is larger than [`super::MAX_BLOB_TABLE_BYTES`], or is damaged.
    pub fn blobs(&self) -> Result<&BlobTable, WimError> {
        if self.blobs.get().is_none() {
            let blobs = self.read_blob_tables()?;
            let _ = self.blobs.set(blobs);
        }
        Ok(self.blobs.get_or_init(BlobTable::default))
    }

    fn read_blob_tables(&self) -> Result<BlobTable, WimError> {
        let mut builder = BlobTableBuilder::default();
        for (part, source) in (1u16..).zip(&self.parts) {
            let location = if part == 1 {
                self.header.blob_table
            } else {
                read_header(source.as_ref())?.blob_table
            };
            let raw = self.read_location("the blob table", location, super::MAX_BLOB_TABLE_BYTES, part)?;
            let solid_header = |location| self.read_solid_header(location, part).map_err(TableFault::Wim);
            builder
                .add_part(&raw, part, solid_header)
                .map_err(|fault| match fault {
                    TableFault::Wim(error) => error,
                    TableFault::Entry(InvalidEntry { entry, reason }) => WimError::InvalidBlobEntry {
                        wim: source.name(),
                        entry,
                        offset: location.offset,
                        reason,
                    },
                })?;
        }
        Ok(builder.finish())
    }

    /// The directory tree of the image with this INDEX, checked against its SHA-1 and parsed whole.
    ///
    /// # Errors
    /// [`WimError`] when there is no such image, or its metadata cannot be read, are larger than
    /// [`super::MAX_METADATA_BYTES`], are damaged, or hold what no world may hold.
    pub fn metadata(&self, index: u32) -> Result<ImageMetadata, WimError> {
        let blob = self.metadata_blob(index)?;
        let bytes = self.read_blob(blob, super::MAX_METADATA_BYTES)?;
        metadata::parse(&bytes, &self.name(), index)
    }

    /// The metadata blob of the image with this INDEX.
    ///
    /// Indexes normally count the metadata resources from 1. Where they have gaps, the n-th smallest index has the
    /// n-th resource.
    ///
    /// # Errors
    /// [`WimError::NoSuchImage`], [`WimError::MissingMetadata`], or as [`Self::blobs`] and [`Self::info`].
    pub fn metadata_blob(&self, index: u32) -> Result<BlobId, WimError> {
        self.image(index)?;
        let images = &self.info()?.images;
        let mut resources = self.blobs()?.metadata_blobs();
        let found = resources.len();
        let has_gaps = images.iter().any(|image| image.index as usize > found) || images.iter().any(|i| i.index == 0);
        let position = if has_gaps {
            images.iter().position(|image| image.index == index)
        } else {
            (index as usize).checked_sub(1)
        };
        position.and_then(|position| resources.nth(position)).ok_or_else(|| {
            let wim = self.name();
            if self.header.is_split() && self.parts.len() == 1 {
                return self.missing_part(2);
            }
            WimError::MissingMetadata {
                wim,
                index,
                found,
                expected: images.len(),
            }
        })
    }

    /// The blob with this SHA-1, or an error that says that it is not there.
    ///
    /// # Errors
    /// [`WimError::NoSuchBlob`]; for a split WIM opened without its other parts, [`WimError::MissingPart`].
    pub fn find_blob(&self, sha1: &Sha1Hash) -> Result<BlobId, WimError> {
        self.blobs()?.find(sha1).ok_or_else(|| {
            if self.header.is_split() && self.parts.len() == 1 {
                self.missing_part(2)
            } else {
                WimError::NoSuchBlob {
                    wim: self.name(),
                    sha1: *sha1,
                }
            }
        })
    }

    /// Groups blobs by the resource that holds them, in the order in which the resources lie on the medium.
    ///
    /// # Errors
    /// As [`Self::blobs`].
    pub fn read_order(&self, blobs: impl IntoIterator<Item = BlobId>) -> Result<Vec<ResourceRead>, WimError> {
        Ok(self.blobs()?.read_order(blobs))
    }

    /// Reads a chunk's stored bytes into `stored`, which is made exactly that long.
    ///
    /// # Errors
    /// [`WimError::Read`] when the medium cannot be read.
    pub fn read_stored(&self, layout: &ResourceLayout, chunk: &Chunk, stored: &mut Vec<u8>) -> Result<(), WimError> {
        debug_assert_eq!(layout.part, chunk.part);
        stored.resize(chunk.stored_bytes as usize, 0);
        self.read_exact("a chunk", chunk.part, stored, chunk.offset)
    }

    /// Reads stored bytes of a part: for whoever reads several chunks at once.
    ///
    /// # Errors
    /// [`WimError::Read`] when the medium cannot be read, [`WimError::MissingPart`] when the part is not there.
    pub fn read_part(&self, part: u16, buffer: &mut [u8], offset: u64) -> Result<(), WimError> {
        self.read_exact("a resource", part, buffer, offset)
    }

    /// A whole blob, its SHA-1 checked.
    ///
    /// # Errors
    /// [`WimError::TooLarge`] when it has more than `limit_bytes`; else when it cannot be read or is damaged.
    pub fn read_blob(&self, blob: BlobId, limit_bytes: u64) -> Result<Vec<u8>, WimError> {
        let found = self.blobs()?.get(blob).size_bytes;
        if found > limit_bytes {
            let what = format!("blob {}", self.blobs()?.get(blob).sha1);
            return Err(WimError::TooLarge {
                what,
                wim: self.name(),
                found,
                limit: limit_bytes,
            });
        }
        let mut bytes = Vec::new();
        BlobReader::new(self).read(blob, &mut |block| {
            bytes.extend_from_slice(block);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Reads a resource that the header names: it has no SHA-1.
    fn read_location(
        &self,
        what: &'static str,
        location: ResourceLocation,
        limit: u64,
        part: u16,
    ) -> Result<Vec<u8>, WimError> {
        let found = location.size_bytes.max(location.stored_bytes);
        if found > limit || location.size_bytes == SOLID_RESOURCE_MARK {
            let wim = self.part(part)?.name();
            return Err(WimError::TooLarge {
                what: what.to_owned(),
                wim,
                found,
                limit,
            });
        }
        let layout = self.layout_at(what, location, part)?;
        let mut bytes = Vec::new();
        BlobReader::new(self).read_chunks(&layout, 0, layout.size_bytes(), &mut |block| {
            bytes.extend_from_slice(block);
            Ok(())
        })?;
        Ok(bytes)
    }

    pub(super) fn part(&self, part: u16) -> Result<&Arc<dyn ReadAt>, WimError> {
        let position = usize::from(part).checked_sub(1);
        position
            .and_then(|position| self.parts.get(position))
            .ok_or_else(|| self.missing_part(part))
    }

    pub(super) fn check_location(&self, what: &str, location: ResourceLocation, part: u16) -> Result<(), WimError> {
        let source = self.part(part)?;
        let file_bytes = source.len_bytes();
        if location
            .offset
            .checked_add(location.stored_bytes)
            .is_some_and(|end| end <= file_bytes)
        {
            return Ok(());
        }
        Err(WimError::InvalidLocation {
            what: what.to_owned(),
            wim: source.name(),
            offset: location.offset,
            stored_bytes: location.stored_bytes,
            file_bytes,
        })
    }

    pub(super) fn read_exact(
        &self,
        what: &'static str,
        part: u16,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), WimError> {
        let source = self.part(part)?;
        source
            .read_exact_at(buffer, offset)
            .map_err(|error| read_error(what, source.as_ref(), error))
    }

    /// Reads bytes whose place was checked before, so their count is bounded by the file's length.
    pub(super) fn read_vec(&self, what: &'static str, part: u16, offset: u64, bytes: u64) -> Result<Vec<u8>, WimError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length];
        self.read_exact(what, part, &mut buffer, offset)?;
        Ok(buffer)
    }
}

fn read_header(source: &dyn ReadAt) -> Result<Header, WimError> {
    let mut raw = [0; format::HEADER_BYTES as usize];
    if source.len_bytes() < raw.len() as u64 {
        // Too short for a header: say what stands there rather than that a read failed.
        let mut found = [0; 8];
        let length = usize::try_from(source.len_bytes()).unwrap_or(usize::MAX).min(8);
        source
            .read_exact_at(&mut found[..length], 0)
            .map_err(|error| read_error("the header", source, error))?;
        if length < 8 || found != format::MAGIC {
            return Err(WimError::UnexpectedMagic {
                wim: source.name(),
                found,
            });
        }
    }
    source
        .read_exact_at(&mut raw, 0)
        .map_err(|error| read_error("the header", source, error))?;
    Header::parse(&raw, &source.name())
}

fn read_error(what: &'static str, source: &dyn ReadAt, error: ReadAtError) -> WimError {
    WimError::Read {
        what,
        wim: source.name(),
        source: Box::new(error),
    }
}
