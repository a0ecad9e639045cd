// SPDX-License-Identifier: GPL-3.0-or-later
//! The layout of regf hives and of their logs: structures and constants, no behaviour.
//!
//! Sources: M. Suhanov, "Windows registry file format specification" (the section is named at each
//! item); libyal, "Windows NT Registry File (REGF) format". Every number is little-endian, and every
//! structure may lie at any address. A *cell offset* counts from the start of the hive bins data,
//! which begins at byte 4,096 of the file. If a field here moves, every reader and writer breaks.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length of the base block in bytes: the hive bins data begin here.
pub const BASE_BLOCK_BYTES: usize = 4096;
/// Bins are multiples of this.
pub const BIN_ALIGN_BYTES: usize = 4096;
/// The length of a bin's header in bytes.
pub const BIN_HEADER_BYTES: usize = 32;
/// Cells are multiples of this and begin at multiples of it.
pub const CELL_ALIGN_BYTES: usize = 8;
/// The sector of logs, and the unit of the old format's dirty vector.
pub const SECTOR_BYTES: usize = 512;
/// "No cell": an absent list, class name or security descriptor.
pub const NO_CELL: u32 = 0xffff_ffff;
/// The most data bytes in one cell from version 1.4 on; longer data lie in segments of this size.
pub const MAX_SEGMENT_BYTES: usize = 16_344;
/// The first minor version with big data.
pub const BIG_DATA_MINOR_VERSION: u32 = 4;
/// The seed of the Marvin32 hashes of log entries (section "Log entries").
pub const LOG_HASH_SEED: u64 = 0x82ef_4d88_7a4e_55c5;

/// Signature of a base block.
pub const REGF: [u8; 4] = *b"regf";
/// Signature of a bin.
pub const HBIN: [u8; 4] = *b"hbin";
/// Signature of an entry of a new-format log.
pub const HVLE: [u8; 4] = *b"HvLE";
/// Signature of the dirty vector of an old-format log.
pub const DIRT: [u8; 4] = *b"DIRT";

/// File types of a base block.
pub mod file_type {
    /// A primary file.
    pub const PRIMARY: u32 = 0;
    /// A log of the old (DIRT) format.
    pub const LOG_OLD: u32 = 1;
    /// The same, as some systems number it.
    pub const LOG_OLD_VARIANT: u32 = 2;
    /// A log of the new (HvLE) format.
    pub const LOG_NEW: u32 = 6;
}

/// Key flags (section "Key node", "Flags").
pub mod key_flag {
    /// The key does not outlive a restart.
    pub const VOLATILE: u16 = 0x0001;
    /// The mount point of another hive.
    pub const HIVE_EXIT: u16 = 0x0002;
    /// The root key of a hive.
    pub const HIVE_ENTRY: u16 = 0x0004;
    /// The key cannot be deleted.
    pub const NO_DELETE: u16 = 0x0008;
    /// The key is a symbolic link: its target is the value `SymbolicLinkValue`.
    pub const SYMBOLIC_LINK: u16 = 0x0010;
    /// The name is Latin-1, one byte a unit; else UTF-16LE.
    pub const COMPRESSED_NAME: u16 = 0x0020;
    /// The key stands for a predefined handle, kept in the field of the number of values.
    pub const PREDEFINED_HANDLE: u16 = 0x0040;
}

/// Value flags (section "Key value", "Flags").
pub mod value_flag {
    /// The name is Latin-1, one byte a unit; else UTF-16LE.
    pub const COMPRESSED_NAME: u16 = 0x0001;
    /// In a delta hive: the value hides one of a lower layer.
    pub const TOMBSTONE: u16 = 0x0002;
}

/// Data types of values. Any other number is kept as it is.
pub mod data_type {
    /// No defined type.
    pub const NONE: u32 = 0;
    /// A UTF-16LE string.
    pub const SZ: u32 = 1;
    /// A UTF-16LE string with `%VARIABLES%`.
    pub const EXPAND_SZ: u32 = 2;
    /// Bytes.
    pub const BINARY: u32 = 3;
    /// A 32-bit number.
    pub const DWORD: u32 = 4;
    /// A 32-bit number, big-endian.
    pub const DWORD_BIG_ENDIAN: u32 = 5;
    /// The target of a symbolic link, UTF-16LE, not terminated.
    pub const LINK: u32 = 6;
    /// UTF-16LE strings, each terminated, and an empty one at the end.
    pub const MULTI_SZ: u32 = 7;
    /// Hardware resources.
    pub const RESOURCE_LIST: u32 = 8;
    /// Hardware resources.
    pub const FULL_RESOURCE_DESCRIPTOR: u32 = 9;
    /// Hardware resources.
    pub const RESOURCE_REQUIREMENTS_LIST: u32 = 10;
    /// A 64-bit number.
    pub const QWORD: u32 = 11;
}

/// Base block, bytes 0 to 511 (section "Base block"): what a log's first sector repeats.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BaseBlock {
    /// `regf`.
    pub signature: [u8; 4],
    /// Counted up before a write.
    pub primary_sequence: U32,
    /// Counted up after a write: unequal numbers mean a dirty hive.
    pub secondary_sequence: U32,
    /// FILETIME of the last write, low half in these first 16 bytes.
    pub last_written: U64,

    /// 1.
    pub major_version: U32,
    /// 3 to 6.
    pub minor_version: U32,
    /// See [`file_type`].
    pub file_type: U32,

    /// 1: direct memory load.
    pub file_format: U32,
    /// Cell offset of the root key.
    pub root_cell: U32,
    /// The length of the hive bins data in bytes.
    pub bins_bytes: U32,
    /// Sector size divided by 512.
    pub clustering_factor: U32,

    /// The end of the hive's path, UTF-16LE.
    pub file_name: [u8; 64],

    /// Reserved, and since Windows 10 GUIDs, flags and a time.
    pub reserved: [u8; 396],
    /// XOR of the 127 numbers before it.
    pub checksum: U32,
}

/// The header of a bin (section "Hive bin").
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BinHeader {
    /// `hbin`.
    pub signature: [u8; 4],
    /// Where this bin begins in the hive bins data.
    pub offset: U32,
    /// The length of this bin in bytes.
    pub size_bytes: U32,
    /// Unused.
    pub reserved: [u8; 8],
    /// FILETIME: in the first bin, a copy of the base block's last write.
    pub timestamp: U64,
    /// Unused on disk.
    pub spare: U32,
}

/// A key node (section "Key node"); the name follows.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct KeyNode {
    /// `nk`.
    pub signature: [u8; 2],
    /// See [`key_flag`].
    pub flags: U16,
    /// FILETIME of the last write.
    pub last_written: U64,
    /// Who opened the key during boot; no part of the registry's content.
    pub access_bits: u8,
    /// Layered keys (version 1.6): bit 7 the class is inherited, bits 0 and 1 the layer semantics.
    pub layer_flags: u8,
    /// Unused.
    pub spare: U16,

    /// Cell offset of the parent key.
    pub parent: U32,
    /// The number of stable subkeys.
    pub nr_subkeys: U32,
    /// The number of volatile subkeys: a left-over of memory in a file of Windows.
    pub nr_volatile_subkeys: U32,
    /// Cell offset of the list of stable subkeys.
    pub subkeys: U32,

    /// Cell offset of the list of volatile subkeys.
    pub volatile_subkeys: U32,
    /// The number of values.
    pub nr_values: U32,
    /// Cell offset of the list of values.
    pub values: U32,
    /// Cell offset of the security descriptor's cell.
    pub security: U32,

    /// Cell offset of the class name.
    pub class: U32,
    /// The longest subkey name, in bytes of UTF-16.
    pub max_subkey_name_bytes: U16,
    /// Bits 0 to 3: user (WOW64) flags; bits 4 to 7: virtualization flags.
    pub user_flags: u8,
    /// Debug flags.
    pub debug_flags: u8,
    /// The longest subkey class name in bytes.
    pub max_subkey_class_bytes: U32,
    /// The longest value name, in bytes of UTF-16.
    pub max_value_name_bytes: U32,

    /// The longest value data in bytes.
    pub max_value_data_bytes: U32,
    /// Unused on disk.
    pub work_var: U32,
    /// The length of the name in bytes.
    pub name_bytes: U16,
    /// The length of the class name in bytes.
    pub class_bytes: U16,
}

/// A value (section "Key value"); the name follows.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ValueNode {
    /// `vk`.
    pub signature: [u8; 2],
    /// The length of the name in bytes; 0: the default value.
    pub name_bytes: U16,
    /// The length of the data; with [`ValueNode::INLINE`], up to 4 bytes lie in `data` itself.
    pub data_bytes: U32,
    /// Cell offset of the data, or the data.
    pub data: [u8; 4],
    /// See [`data_type`].
    pub data_type: U32,

    /// See [`value_flag`].
    pub flags: U16,
    /// Unused.
    pub spare: U16,
}

impl ValueNode {
    /// The bit of `data_bytes` that says that the data lie in the node.
    pub const INLINE: u32 = 0x8000_0000;
    /// Where `data` lies within the structure.
    pub const DATA_AT: usize = 8;
}

/// A security descriptor's cell (section "Key security"); the descriptor follows.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SecurityNode {
    /// `sk`.
    pub signature: [u8; 2],
    /// Unused.
    pub reserved: U16,
    /// Cell offset of the next one, in a ring.
    pub next: U32,
    /// Cell offset of the previous one.
    pub previous: U32,
    /// How many keys use it.
    pub nr_references: U32,

    /// The length of the descriptor in bytes.
    pub descriptor_bytes: U32,
}

/// What every list and `db` begins with; the elements follow.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ListHeader {
    /// `li`, `lf`, `lh`, `ri` or `db`.
    pub signature: [u8; 2],
    /// The number of elements.
    pub nr_elements: U16,
}

/// An element of `lf` and `lh`; one of `li` and `ri` is the offset alone.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LeafElement {
    /// Cell offset of a key node.
    pub key: U32,
    /// `lf`: the first four characters of the name; `lh`: its hash.
    pub hint: [u8; 4],
}

/// A big data record (section "Big data").
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BigData {
    /// `db`.
    pub signature: [u8; 2],
    /// The number of segments.
    pub nr_segments: U16,
    /// Cell offset of the list of segments.
    pub segments: U32,
}

/// The header of an entry in a new-format log (section "Log entries").
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LogEntry {
    /// `HvLE`.
    pub signature: [u8; 4],
    /// The length of the entry in bytes.
    pub size_bytes: U32,
    /// A copy of the base block's flags.
    pub flags: U32,
    /// The sequence number of this entry.
    pub sequence: U32,

    /// The length of the hive bins data with this entry applied.
    pub bins_bytes: U32,
    /// The number of page references that follow.
    pub nr_pages: U32,
    /// Marvin32 of everything after this header.
    pub hash_1: U64,

    /// Marvin32 of the 32 bytes before it.
    pub hash_2: U64,
}

/// A page reference of a log entry.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LogPage {
    /// Where the page lies in the hive bins data.
    pub offset: U32,
    /// Its length in bytes.
    pub size_bytes: U32,
}

/// The XOR-32 checksum of a base block's first 508 bytes (section "Base block", note 2). The two
/// values that mean something else are moved: 0 is written as 1, and all ones as all ones less one.
#[must_use]
pub fn checksum(sector: &[u8]) -> u32 {
    let sum = sector.chunks_exact(4).take(127).fold(0, |sum, word| {
        sum ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]])
    });
    match sum {
        0 => 1,
        0xffff_ffff => 0xffff_fffe,
        other => other,
    }
}
