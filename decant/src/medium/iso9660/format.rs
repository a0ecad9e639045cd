// SPDX-License-Identifier: GPL-3.0-or-later
//! ISO 9660 on disk: the structures of ECMA-119 (4th edition; sections as "8.4"), of SUSP (IEEE P1281, version 1.12) and
//! of Rock Ridge (IEEE P1282, version 1.12). Layout only, nothing is checked here.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned, big_endian, little_endian};

/// The identifier of every volume descriptor (8.1.2).
pub(super) const STANDARD_ID: &[u8; 5] = b"CD001";

/// Volume descriptor types (8.1.1).
pub(super) mod descriptor_type {
    pub const PRIMARY: u8 = 1;
    pub const SUPPLEMENTARY: u8 = 2;
    pub const TERMINATOR: u8 = 255;
}

/// File flags of a directory record (9.1.6).
pub(super) mod file_flags {
    pub const DIRECTORY: u8 = 1 << 1;
    pub const ASSOCIATED: u8 = 1 << 2;
    pub const MULTI_EXTENT: u8 = 1 << 7;
}

/// A 16-bit number in both byte orders (7.2.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Both16 {
    pub little: little_endian::U16,
    pub big: big_endian::U16,
}

/// A 32-bit number in both byte orders (7.3.3).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Both32 {
    pub little: little_endian::U32,
    pub big: big_endian::U32,
}

/// A date and time of a directory record (9.1.5).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RecordTime {
    /// Since 1900.
    pub year: u8,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    /// East of UTC, in quarters of an hour.
    pub zone: i8,
}

/// A directory record up to its identifier (9.1).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Record {
    pub length: u8,
    /// Blocks of extended attributes before the content.
    pub attribute_blocks: u8,
    pub block: Both32,
    pub size: Both32,
    pub recorded: RecordTime,
    pub flags: u8,
    pub unit_size: u8,
    pub gap_size: u8,
    pub volume: Both16,
    pub name_length: u8,
}

/// A primary or supplementary volume descriptor (8.4, 8.5), as far as it is read.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct VolumeDescriptor {
    pub descriptor_type: u8,
    pub id: [u8; 5],
    pub version: u8,
    pub flags: u8,
    pub system_id: [u8; 32],
    pub volume_id: [u8; 32],
    pub unused: [u8; 8],
    /// In logical blocks.
    pub space_size: Both32,
    pub escapes: [u8; 32],
    pub set_size: Both16,
    pub sequence: Both16,
    pub block_bytes: Both16,
    pub path_table_size: Both32,
    pub path_tables: [u8; 16],
    pub root: Record,
}

/// The header of a system use entry (SUSP 4).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SystemUse {
    pub signature: [u8; 2],
    pub length: u8,
    pub version: u8,
}

/// The body of a `CE` entry (SUSP 5.1).
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Continuation {
    pub block: Both32,
    pub offset: Both32,
    pub length: Both32,
}

const _: () = {
    assert!(size_of::<Record>() == 33);
    assert!(size_of::<VolumeDescriptor>() == 156 + 33);
    assert!(size_of::<Continuation>() == 24);
};
