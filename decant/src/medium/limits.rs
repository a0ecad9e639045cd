// SPDX-License-Identifier: GPL-3.0-or-later
//! What a medium may ask of us at most. An honest Windows medium stays far below each of these; a hostile one gets
//! [`MediumError::Limit`](super::MediumError::Limit) instead of our time or memory.

/// Directories below one another, the root not counted.
pub const MAX_DEPTH: usize = 128;
/// Entries in one directory.
pub const MAX_DIRECTORY_ENTRIES: usize = 1 << 18;
/// Bytes of directory records that one directory may have on the disc.
pub const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// Entries that one [`Walk`](super::Walk) gives.
pub const MAX_WALK_ENTRIES: usize = 1 << 19;
/// Faults that one [`Walk`](super::Walk) gives before it ends with one more.
pub const MAX_WALK_FAULTS: usize = 1000;
/// Extents of one file, after neighbours have been joined.
pub const MAX_EXTENTS: usize = 1 << 20;

/// UDF: allocation extent descriptors of one file.
pub const MAX_ALLOCATION_EXTENTS: usize = 1 << 16;
/// UDF: ICBs that a strategy 4096 chain may pass through.
pub const MAX_ICB_CHAIN: usize = 1 << 10;
/// UDF: descriptors of one volume descriptor sequence, over all its extents.
pub const MAX_VOLUME_DESCRIPTORS: usize = 1 << 10;
/// UDF: file set descriptors of one volume.
pub const MAX_FILE_SETS: usize = 64;
/// UDF: integrity descriptors of one volume.
pub const MAX_INTEGRITY_DESCRIPTORS: usize = 256;
/// UDF: bytes of a virtual allocation table (25 GB of 2048-byte blocks need 48 MiB).
pub const MAX_VAT_BYTES: u64 = 64 << 20;
/// UDF: blocks at the end of the image in which the virtual allocation table's ICB is looked for.
pub const MAX_VAT_SEARCH_BLOCKS: u64 = 512;
/// UDF: bytes before a partition in which its session's anchor is looked for.
pub const MAX_ANCHOR_SEARCH_BYTES: u64 = 8 << 20;
/// UDF: blocks that may be a session's end and for which the anchor is looked for.
pub const MAX_SESSION_ENDS: usize = 8;
/// UDF: blocks of one file that are looked up one by one in a virtual allocation table.
pub const MAX_VIRTUAL_BLOCKS: u64 = 1 << 22;
/// UDF: entries of a sparing table.
pub const MAX_SPARING_ENTRIES: usize = 1 << 16;

/// ISO 9660: volume descriptors of one session.
pub const MAX_ISO_DESCRIPTORS: u32 = 64;
/// ISO 9660: sessions of one image.
pub const MAX_SESSIONS: usize = 64;
/// ISO 9660: blocks behind a session's end in which the next session is looked for (lead-out, lead-in and pregap of
/// a CD are 11,550 blocks).
pub const MAX_SESSION_GAP_BLOCKS: u64 = 16_384;
/// Rock Ridge: continuation areas of one directory record.
pub const MAX_CONTINUATIONS: usize = 64;
/// Rock Ridge: bytes of one name.
pub const MAX_NAME_BYTES: usize = 1024;
/// Rock Ridge: bytes of one symbolic link's target.
pub const MAX_SYMLINK_BYTES: usize = 4096;
