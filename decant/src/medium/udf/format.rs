// SPDX-License-Identifier: GPL-3.0-or-later
//! UDF on disk: the structures of ECMA-167 (3rd edition; its part and section are named as in "3/10.1") and of the OSTA
//! UDF specification (revision 2.60), as they lie in a block. Layout only, nothing is checked here.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Tag identifiers (ECMA-167 3/7.2.1, 4/7.2.1; UDF 2.2.12 for the sparing table's 0).
pub(super) mod tag_id {
    pub const SPARING_TABLE: u16 = 0;
    pub const PRIMARY_VOLUME: u16 = 1;
    pub const ANCHOR: u16 = 2;
    pub const VOLUME_POINTER: u16 = 3;
    pub const PARTITION: u16 = 5;
    pub const LOGICAL_VOLUME: u16 = 6;
    pub const TERMINATING: u16 = 8;
    pub const INTEGRITY: u16 = 9;
    pub const FILE_SET: u16 = 256;
    pub const FILE_IDENTIFIER: u16 = 257;
    pub const ALLOCATION_EXTENT: u16 = 258;
    pub const INDIRECT_ENTRY: u16 = 259;
    pub const TERMINAL_ENTRY: u16 = 260;
    pub const FILE_ENTRY: u16 = 261;
    pub const EXTENDED_FILE_ENTRY: u16 = 266;
}

/// File types of an ICB tag (4/14.6.6; UDF 2.2.11, 2.2.13 for those from 248).
pub(super) mod file_type {
    pub const UNSPECIFIED: u8 = 0;
    pub const DIRECTORY: u8 = 4;
    pub const BYTES: u8 = 5;
    pub const SYMLINK: u8 = 12;
    pub const VAT: u8 = 248;
    pub const REAL_TIME: u8 = 249;
    pub const METADATA: u8 = 250;
    pub const METADATA_MIRROR: u8 = 251;
}

/// Characteristics of a file identifier (4/14.4.3).
pub(super) mod characteristics {
    pub const DELETED: u8 = 1 << 2;
    pub const PARENT: u8 = 1 << 3;
}

/// A descriptor tag (3/7.2, 4/7.2).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Tag {
    pub identifier: U16,
    pub version: U16,
    pub checksum: u8,
    pub reserved: u8,
    pub serial: U16,
    pub crc: U16,
    pub crc_length: U16,
    pub location: U32,
}

/// An extent in the volume (3/7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct VolumeExtent {
    pub length: U32,
    pub location: U32,
}

/// A block of a partition (4/7.1).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct BlockAddress {
    pub block: U32,
    pub partition: U16,
}

/// A short allocation descriptor (4/14.14.1).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ShortAllocation {
    pub length: U32,
    pub block: U32,
}

/// A long allocation descriptor (4/14.14.2).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct LongAllocation {
    pub length: U32,
    pub address: BlockAddress,
    pub implementation_use: [u8; 6],
}

/// An extended allocation descriptor (4/14.14.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ExtendedAllocation {
    pub length: U32,
    pub recorded_length: U32,
    pub information_length: U32,
    pub address: BlockAddress,
    pub implementation_use: [u8; 2],
}

/// A timestamp (1/7.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Timestamp {
    pub type_and_zone: U16,
    pub year: U16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub centiseconds: u8,
    pub hundreds_of_microseconds: u8,
    pub microseconds: u8,
}

/// An entity identifier (1/7.4; its suffix as in UDF 2.1.5.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct EntityId {
    pub flags: u8,
    pub identifier: [u8; 23],
    pub suffix_revision: U16,
    pub suffix_rest: [u8; 6],
}

/// An anchor volume descriptor pointer (3/10.2), without its reserved bytes.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Anchor {
    pub tag: Tag,
    pub main: VolumeExtent,
    pub reserve: VolumeExtent,
}

/// A volume descriptor pointer (3/10.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct VolumePointer {
    pub tag: Tag,
    pub sequence: U32,
    pub next: VolumeExtent,
}

/// A partition descriptor (3/10.5).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct PartitionDescriptor {
    pub tag: Tag,
    pub sequence: U32,
    pub flags: U16,
    pub number: U16,
    pub contents: EntityId,
    pub contents_use: [u8; 128],
    pub access_type: U32,
    pub start: U32,
    pub length: U32,
}

/// A logical volume descriptor (3/10.6) up to its partition maps.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct LogicalVolumeDescriptor {
    pub tag: Tag,
    pub sequence: U32,
    pub character_set: [u8; 64],
    pub identifier: [u8; 128],
    pub block_bytes: U32,
    pub domain: EntityId,
    pub file_set: LongAllocation,
    pub map_table_length: U32,
    pub map_count: U32,
    pub implementation: EntityId,
    pub implementation_use: [u8; 128],
    pub integrity: VolumeExtent,
}

/// A logical volume integrity descriptor (3/10.10) up to its tables.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct IntegrityDescriptor {
    pub tag: Tag,
    pub recorded: Timestamp,
    pub integrity_type: U32,
    pub next: VolumeExtent,
    pub contents_use: [u8; 32],
    pub partition_count: U32,
    pub implementation_use_length: U32,
}

/// The implementation use of an integrity descriptor (UDF 2.2.6.4).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct IntegrityUse {
    pub implementation: EntityId,
    pub file_count: U32,
    pub directory_count: U32,
    pub read_revision: U16,
    pub write_revision: U16,
    pub highest_revision: U16,
}

/// A type 1 partition map (3/10.7.2).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Type1Map {
    pub map_type: u8,
    pub length: u8,
    pub volume: U16,
    pub partition: U16,
}

/// What all type 2 partition maps of UDF begin with (UDF 2.2.8 to 2.2.10).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Type2Map {
    pub map_type: u8,
    pub length: u8,
    pub reserved: [u8; 2],
    pub kind: EntityId,
    pub volume: U16,
    pub partition: U16,
    /// What follows depends on the kind.
    pub rest: [u8; 24],
}

/// The rest of a sparable partition map (UDF 2.2.9).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SparableRest {
    pub packet_blocks: U16,
    pub table_count: u8,
    pub reserved: u8,
    pub table_bytes: U32,
    pub tables: [U32; 4],
}

/// The rest of a metadata partition map (UDF 2.2.10).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct MetadataRest {
    pub file: U32,
    pub mirror: U32,
    pub bitmap: U32,
    pub allocation_blocks: U32,
    pub alignment_blocks: U16,
    pub flags: u8,
    pub reserved: [u8; 5],
}

/// A sparing table (UDF 2.2.12) up to its entries.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SparingTable {
    pub tag: Tag,
    pub kind: EntityId,
    pub entry_count: U16,
    pub reserved: [u8; 2],
    pub sequence: U32,
}

/// An entry of a sparing table.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SparingEntry {
    pub original: U32,
    pub mapped: U32,
}

/// The header of a virtual allocation table of UDF 2.00 and later (UDF 2.2.11), without its implementation use.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct VatHeader {
    pub header_length: U16,
    pub implementation_use_length: U16,
    pub identifier: [u8; 128],
    pub previous: U32,
    pub file_count: U32,
    pub directory_count: U32,
    pub read_revision: U16,
    pub write_revision: U16,
    pub highest_revision: U16,
    pub reserved: [u8; 2],
}

/// The end of a virtual allocation table of UDF 1.50 (UDF 1.50, 2.2.10).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct VatTrailer {
    pub kind: EntityId,
    pub previous: U32,
}

/// A file set descriptor (4/14.1).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileSet {
    pub tag: Tag,
    pub recorded: Timestamp,
    pub levels_and_sets: [u8; 12],
    pub number: U32,
    pub descriptor_number: U32,
    pub volume_character_set: [u8; 64],
    pub volume_identifier: [u8; 128],
    pub character_set: [u8; 64],
    pub identifier: [u8; 32],
    pub copyright: [u8; 32],
    pub summary: [u8; 32],
    pub root: LongAllocation,
    pub domain: EntityId,
    pub next: LongAllocation,
}

/// An ICB tag (4/14.6).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct IcbTag {
    pub prior_direct_entries: U32,
    pub strategy: U16,
    pub strategy_parameter: U16,
    pub entry_count: U16,
    pub reserved: u8,
    pub file_type: u8,
    pub parent: BlockAddress,
    pub flags: U16,
}

/// An indirect entry (4/14.7).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct IndirectEntry {
    pub tag: Tag,
    pub icb: IcbTag,
    pub target: LongAllocation,
}

/// A file entry (4/14.9) up to its extended attributes.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileEntry {
    pub tag: Tag,
    pub icb: IcbTag,
    pub uid: U32,
    pub gid: U32,
    pub permissions: U32,
    pub link_count: U16,
    pub record_form: [u8; 6],
    pub information_length: U64,
    pub blocks_recorded: U64,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub attributes_changed: Timestamp,
    pub checkpoint: U32,
    pub attributes_icb: LongAllocation,
    pub implementation: EntityId,
    pub unique_id: U64,
    pub attributes_length: U32,
    pub allocation_length: U32,
}

/// An extended file entry (4/14.17) up to its extended attributes.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ExtendedFileEntry {
    pub tag: Tag,
    pub icb: IcbTag,
    pub uid: U32,
    pub gid: U32,
    pub permissions: U32,
    pub link_count: U16,
    pub record_form: [u8; 6],
    pub information_length: U64,
    pub object_size: U64,
    pub blocks_recorded: U64,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub created: Timestamp,
    pub attributes_changed: Timestamp,
    pub checkpoint: U32,
    pub reserved: U32,
    pub attributes_icb: LongAllocation,
    pub stream_directory: LongAllocation,
    pub implementation: EntityId,
    pub unique_id: U64,
    pub attributes_length: U32,
    pub allocation_length: U32,
}

/// An allocation extent descriptor (4/14.5).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct AllocationExtent {
    pub tag: Tag,
    pub previous: U32,
    pub allocation_length: U32,
}

/// A file identifier descriptor (4/14.4) up to its implementation use.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileIdentifier {
    pub tag: Tag,
    pub version: U16,
    pub characteristics: u8,
    pub identifier_length: u8,
    pub icb: LongAllocation,
    pub implementation_use_length: U16,
}

const _: () = {
    assert!(size_of::<Tag>() == 16);
    assert!(size_of::<LongAllocation>() == 16);
    assert!(size_of::<ExtendedAllocation>() == 20);
    assert!(size_of::<EntityId>() == 32);
    assert!(size_of::<PartitionDescriptor>() == 196);
    assert!(size_of::<LogicalVolumeDescriptor>() == 440);
    assert!(size_of::<IntegrityDescriptor>() == 80);
    assert!(size_of::<IntegrityUse>() == 46);
    assert!(size_of::<Type2Map>() == 64);
    assert!(size_of::<SparableRest>() == 24);
    assert!(size_of::<MetadataRest>() == 24);
    assert!(size_of::<SparingTable>() == 56);
    assert!(size_of::<VatHeader>() == 152);
    assert!(size_of::<VatTrailer>() == 36);
    assert!(size_of::<FileSet>() == 464);
    assert!(size_of::<IcbTag>() == 20);
    assert!(size_of::<FileEntry>() == 176);
    assert!(size_of::<ExtendedFileEntry>() == 216);
    assert!(size_of::<AllocationExtent>() == 24);
    assert!(size_of::<FileIdentifier>() == 38);
};
