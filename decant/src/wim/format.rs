// SPDX-License-Identifier: GPL-3.0-or-later
//! The WIM format's layouts, and nothing else.
//!
//! Source: Microsoft's white paper "Windows Imaging File Format (WIM)" (2007): sections "WIM Header", "Resource
//! Header", "Lookup Table", "Metadata Resource". Solid resources, the 64-bit chunk tables' rule and the items behind a
//! dentry's name are later than it; their public description is the documentation of wimlib.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First eight bytes of a WIM that can be read at any offset.
pub const MAGIC: [u8; 8] = *b"MSWIM\0\0\0";
/// First eight bytes of a pipable WIM, a variant of wimlib's.
pub const MAGIC_PIPABLE: [u8; 8] = *b"WLPWM\0\0\0";
/// Length of [`RawHeader`], which is also its `header_bytes` field.
pub const HEADER_BYTES: u32 = 208;

/// `version` of a WIM whose blobs each have a resource of their own.
pub const VERSION_NORMAL: u32 = 0x10d00;
/// `version` of a WIM that may hold solid resources (an ESD).
pub const VERSION_SOLID: u32 = 0xe00;

/// [`RawHeader::flags`].
pub mod header_flags {
    /// Resources may be compressed, as one of the `COMPRESS_*` bits says.
    pub const COMPRESSION: u32 = 0x2;
    /// The WIM must not be changed.
    pub const READ_ONLY: u32 = 0x4;
    /// The WIM is split: more parts hold the other resources.
    pub const SPANNED: u32 = 0x8;
    /// The WIM holds file resources and no metadata.
    pub const RESOURCE_ONLY: u32 = 0x10;
    /// The WIM holds metadata and no file resources.
    pub const METADATA_ONLY: u32 = 0x20;
    /// A writer has begun and not ended.
    pub const WRITE_IN_PROGRESS: u32 = 0x40;
    /// Absolute link targets were made relative to the image's root at capture.
    pub const RP_FIX: u32 = 0x80;
    /// XPRESS with Huffman codes.
    pub const COMPRESS_XPRESS: u32 = 0x2_0000;
    /// LZX.
    pub const COMPRESS_LZX: u32 = 0x4_0000;
    /// LZMS.
    pub const COMPRESS_LZMS: u32 = 0x8_0000;
    /// A second XPRESS that no known writer uses.
    pub const COMPRESS_XPRESS_2: u32 = 0x20_0000;
    /// Every bit that names a compression.
    pub const COMPRESS_ANY: u32 = COMPRESS_XPRESS | COMPRESS_LZX | COMPRESS_LZMS | COMPRESS_XPRESS_2;
}

/// The flags byte of a resource header.
pub mod resource_flags {
    /// The entry is not in use.
    pub const FREE: u8 = 0x1;
    /// The resource is an image's metadata.
    pub const METADATA: u8 = 0x2;
    /// The resource is a chunk table and chunks.
    pub const COMPRESSED: u8 = 0x4;
    /// The resource is split over several parts; no known writer makes such.
    pub const SPANNED: u8 = 0x8;
    /// The resource is solid, or the blob lies inside a solid resource.
    pub const SOLID: u8 = 0x10;
}

/// The `unpacked_bytes` of a solid resource's own blob table entry: says "this is the resource, not a blob in it".
pub const SOLID_RESOURCE_MARK: u64 = 0x1_0000_0000;

/// Where a resource lies: 24 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawResourceHeader {
    /// Stored length in bytes, 56 bits, little-endian.
    pub stored_bytes: [u8; 7],
    /// [`resource_flags`].
    pub flags: u8,
    /// Offset in this part; for a blob in a solid resource, the offset in the unpacked resource.
    pub offset: U64,

    /// Length when unpacked; [`SOLID_RESOURCE_MARK`] for a solid resource, 0 for a blob in one.
    pub unpacked_bytes: U64,
}

/// The header of a WIM: 208 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawHeader {
    /// [`MAGIC`] or [`MAGIC_PIPABLE`].
    pub magic: [u8; 8],
    /// [`HEADER_BYTES`].
    pub header_bytes: U32,
    /// [`VERSION_NORMAL`] or [`VERSION_SOLID`].
    pub version: U32,

    /// [`header_flags`].
    pub flags: U32,
    /// Unpacked length of each chunk of a (non-solid) compressed resource.
    pub chunk_bytes: U32,
    /// Tells WIMs apart; the same in each part of a split one.
    pub guid: [u8; 16],
    /// Which part this is, from 1.
    pub part_number: U16,
    /// How many parts there are.
    pub total_parts: U16,
    /// How many images there are.
    pub image_count: U32,

    /// The blob table ("lookup table").
    pub blob_table: RawResourceHeader,
    /// The XML.
    pub xml: RawResourceHeader,
    /// The metadata of the bootable image.
    pub boot_metadata: RawResourceHeader,
    /// INDEX of the bootable image, 0 for none.
    pub boot_index: U32,
    /// The integrity table.
    pub integrity: RawResourceHeader,
    /// Not used.
    pub unused: [u8; 60],
}

/// One entry of the blob table: 50 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawBlobEntry {
    /// Where the blob lies.
    pub resource: RawResourceHeader,
    /// In which part, from 1.
    pub part_number: U16,
    /// How many dentries and streams of all images use it.
    pub reference_count: U32,
    /// SHA-1 of the unpacked blob.
    pub sha1: [u8; 20],
}

/// The start of a solid resource, before its table of 32-bit chunk lengths.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSolidHeader {
    /// Unpacked length of the whole resource.
    pub unpacked_bytes: U64,
    /// Unpacked length of each chunk but the last.
    pub chunk_bytes: U32,
    /// 0 none, 1 XPRESS, 2 LZX, 3 LZMS.
    pub compression: U32,
}

/// The start of a metadata resource: `entry_count` 64-bit lengths follow, then the security descriptors.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSecurityData {
    /// Length of the security data with this header.
    pub total_bytes: U32,
    /// How many descriptors there are.
    pub entry_count: U32,
}

/// A directory entry up to its name: 102 bytes.
///
/// The name, its terminating zero, the short name, its zero, padding to 8 bytes and tagged items follow inside
/// `length_bytes`; the extra stream entries follow behind it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawDentry {
    /// Length of the dentry without its extra stream entries; 0 ends a directory.
    pub length_bytes: U64,
    /// NT file attributes.
    pub attributes: U32,
    /// Index of the security descriptor, or -1.
    pub security_id: I32,

    /// Offset of the directory's list in the metadata resource, 0 for none.
    pub subdir_offset: U64,
    /// Not used.
    pub unused_1: U64,

    /// Not used.
    pub unused_2: U64,
    /// FILETIME.
    pub creation_time: U64,

    /// FILETIME.
    pub last_access_time: U64,
    /// FILETIME.
    pub last_write_time: U64,

    /// SHA-1 of the default stream, zero for none.
    pub default_sha1: [u8; 20],
    /// Not understood by anyone who published about it.
    pub unknown: U32,
    /// Of a reparse point: its tag. Else the low half of the hard-link group.
    pub reparse_tag: U32,
    /// Of a reparse point: reserved. Else bits 32..48 of the hard-link group.
    pub reparse_reserved: U16,
    /// Of a reparse point: flags, bit 0 = the target was not made relative. Else bits 48..64 of the hard-link group.
    pub reparse_flags: U16,
    /// How many extra stream entries follow the dentry.
    pub extra_stream_count: U16,
    /// Length of the short name in bytes, without its terminating zero.
    pub short_name_bytes: U16,
    /// Length of the name in bytes, without its terminating zero.
    pub name_bytes: U16,
}

/// Length of [`RawDentry`].
pub const DENTRY_BYTES: usize = size_of::<RawDentry>();

/// An extra stream entry up to its name: 38 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawExtraStream {
    /// Length of the entry with its name; the next begins at the next multiple of 8.
    pub length_bytes: U64,
    /// Not used.
    pub unused: U64,

    /// SHA-1 of the stream, zero for an empty one.
    pub sha1: [u8; 20],
    /// Length of the name in bytes, without its terminating zero; 0 for an unnamed stream.
    pub name_bytes: U16,
}

/// The start of a tagged item behind a dentry's names.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawTaggedItem {
    /// What it is.
    pub tag: U32,
    /// Length of the data that follow, without the padding to 8 bytes.
    pub data_bytes: U32,
}

/// Tag of an item that holds an NTFS object id: 16 to 64 bytes, up to four GUIDs.
pub const TAG_OBJECT_ID: u32 = 1;

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES as usize);
const _: () = assert!(size_of::<RawBlobEntry>() == 50);
const _: () = assert!(DENTRY_BYTES == 102);
const _: () = assert!(size_of::<RawExtraStream>() == 38);
