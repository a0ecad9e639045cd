// SPDX-License-Identifier: GPL-3.0-or-later
//! A WIM's header, checked: what it says about the whole file.

use std::fmt;

use zerocopy::FromBytes as _;

use super::error::WimError;
use super::format::{self, RawHeader, RawResourceHeader, header_flags, resource_flags};
use super::types::Compression;

/// A WIM's header.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Header {
    /// The format's version: [`format::VERSION_NORMAL`] or [`format::VERSION_SOLID`].
    pub version: u32,
    /// Every flag, as it stands there: [`header_flags`].
    pub flags: u32,
    /// How the resources that are compressed (and not solid) are.
    pub compression: Compression,
    /// Unpacked length of a chunk, 0 where nothing is compressed.
    pub chunk_size_bytes: u32,
    /// Tells WIMs apart.
    pub guid: Guid,
    /// Which part this is, from 1.
    pub part_number: u16,
    /// How many parts there are.
    pub total_parts: u16,
    /// How many images the header counts.
    pub image_count: u32,
    /// INDEX of the bootable image.
    pub boot_index: Option<u32>,
    /// Where the blob table is.
    pub blob_table: ResourceLocation,
    /// Where the XML is.
    pub xml: ResourceLocation,
    /// Where the integrity table is, empty for none.
    pub integrity: ResourceLocation,
}

impl Header {
    /// Reads a header from a WIM's first 208 bytes.
    pub(super) fn parse(raw: &[u8; format::HEADER_BYTES as usize], wim: &str) -> Result<Self, WimError> {
        let invalid = |field, found: u64, expected: &str| WimError::InvalidHeader {
            wim: wim.to_owned(),
            field,
            found: found.to_string(),
            expected: expected.to_owned(),
        };
        let Ok(raw) = RawHeader::read_from_bytes(raw) else {
            return Err(invalid("its length", raw.len() as u64, "208"));
        };
        match raw.magic {
            format::MAGIC => {}
            format::MAGIC_PIPABLE => return Err(WimError::UnsupportedPipable { wim: wim.to_owned() }),
            found => {
                return Err(WimError::UnexpectedMagic {
                    wim: wim.to_owned(),
                    found,
                });
            }
        }
        if raw.header_bytes.get() != format::HEADER_BYTES {
            return Err(invalid("header size", raw.header_bytes.get().into(), "208"));
        }
        let version = raw.version.get();
        if !matches!(version, format::VERSION_NORMAL | format::VERSION_SOLID) {
            return Err(WimError::UnsupportedVersion {
                wim: wim.to_owned(),
                found: version,
            });
        }
        let (part_number, total_parts) = (raw.part_number.get(), raw.total_parts.get());
        if part_number == 0 || part_number > total_parts {
            return Err(invalid(
                "part number",
                part_number.into(),
                &format!("1 to {total_parts} (the number of parts)"),
            ));
        }
        let flags = raw.flags.get();
        let compression = compression_of(flags, wim)?;
        let chunk_size_bytes = raw.chunk_bytes.get();
        if compression != Compression::None {
            check_chunk_size(compression, chunk_size_bytes, wim)?;
        }
        let image_count = raw.image_count.get();
        if image_count as usize > super::MAX_IMAGES {
            return Err(invalid(
                "image count",
                image_count.into(),
                &format!("at most {}", super::MAX_IMAGES),
            ));
        }
        Ok(Self {
            version,
            flags,
            compression,
            chunk_size_bytes,
            guid: Guid(raw.guid),
            part_number,
            total_parts,
            image_count,
            boot_index: Some(raw.boot_index.get()).filter(|&index| index != 0),
            blob_table: ResourceLocation::from_raw(&raw.blob_table),
            xml: ResourceLocation::from_raw(&raw.xml),
            integrity: ResourceLocation::from_raw(&raw.integrity),
        })
    }

    /// Whether a writer began to write this WIM and did not end.
    #[must_use]
    pub fn is_write_in_progress(&self) -> bool {
        self.flags & header_flags::WRITE_IN_PROGRESS != 0
    }

    /// Whether absolute link targets were made relative to the image's root at capture.
    #[must_use]
    pub fn has_relative_link_targets(&self) -> bool {
        self.flags & header_flags::RP_FIX != 0
    }

    /// Whether more parts hold the other resources.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.total_parts > 1
    }
}

fn compression_of(flags: u32, wim: &str) -> Result<Compression, WimError> {
    if flags & header_flags::COMPRESSION == 0 {
        return Ok(Compression::None);
    }
    match flags & header_flags::COMPRESS_ANY {
        header_flags::COMPRESS_XPRESS => Ok(Compression::Xpress),
        header_flags::COMPRESS_LZX => Ok(Compression::Lzx),
        header_flags::COMPRESS_LZMS => Ok(Compression::Lzms),
        header_flags::COMPRESS_XPRESS_2 => Err(WimError::UnsupportedCompression {
            wim: wim.to_owned(),
            compression: "XPRESS2".to_owned(),
        }),
        found => Err(WimError::InvalidHeader {
            wim: wim.to_owned(),
            field: "the compression in its flags",
            found: format!("{found:#x}"),
            expected: "one of 0x20000 (XPRESS), 0x40000 (LZX), 0x80000 (LZMS)".to_owned(),
        }),
    }
}

/// Refuses chunk sizes that a compression does not have, or that would need more memory than a worker may use.
pub(super) fn check_chunk_size(compression: Compression, found: u32, wim: &str) -> Result<(), WimError> {
    let (minimum, maximum) = match compression {
        Compression::None => (1, super::MAX_CHUNK_BYTES),
        Compression::Xpress => (1 << 12, 1 << 16),
        Compression::Lzx => (1 << 15, 1 << 21),
        Compression::Lzms => (1 << 15, super::MAX_CHUNK_BYTES),
    };
    if (minimum..=maximum).contains(&found) && found.is_power_of_two() {
        return Ok(());
    }
    Err(WimError::UnsupportedChunkSize {
        wim: wim.to_owned(),
        compression,
        found: found.into(),
        minimum,
        maximum,
    })
}

/// Where a resource lies in its part, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLocation {
    /// Offset in the part.
    pub offset: u64,
    /// Length there.
    pub stored_bytes: u64,
    /// Length when unpacked.
    pub size_bytes: u64,
    /// [`resource_flags`].
    pub flags: u8,
}

impl ResourceLocation {
    pub(super) fn from_raw(raw: &RawResourceHeader) -> Self {
        let mut stored = [0; 8];
        stored[..7].copy_from_slice(&raw.stored_bytes);
        Self {
            offset: raw.offset.get(),
            stored_bytes: u64::from_le_bytes(stored),
            size_bytes: raw.unpacked_bytes.get(),
            flags: raw.flags,
        }
    }

    /// Whether the resource is a chunk table and chunks.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.flags & resource_flags::COMPRESSED != 0
    }
}

/// Sixteen bytes that tell WIMs apart, shown as [MS-DTYP] 2.3.4 does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a0, a1, a2, a3, b0, b1, c0, c1, tail @ ..] = self.0;
        let a = u32::from_le_bytes([a0, a1, a2, a3]);
        let (b, c) = (u16::from_le_bytes([b0, b1]), u16::from_le_bytes([c0, c1]));
        let [d0, d1, node @ ..] = tail;
        write!(f, "{{{a:08x}-{b:04x}-{c:04x}-{d0:02x}{d1:02x}-")?;
        node.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("}")
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
