// SPDX-License-Identifier: GPL-3.0-or-later
//! The raw layout of a PE32+ file.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// `IMAGE_FILE_HEADER`.
#[derive(Debug, Clone, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FileHeader {
    pub machine: U16,
    pub section_count: U16,
    pub time_stamp: U32,
    pub symbol_table: U32,
    pub symbol_count: U32,
    pub optional_header_bytes: U16,
    pub characteristics: U16,
}

/// `IMAGE_OPTIONAL_HEADER64` without its data directories.
#[derive(Debug, Clone, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct OptionalHeader {
    pub magic: U16,
    pub linker_version: [u8; 2],
    pub code_bytes: U32,
    pub initialized_bytes: U32,
    pub uninitialized_bytes: U32,
    pub entry_point: U32,
    pub code_base: U32,
    pub image_base: U64,
    pub section_alignment: U32,
    pub file_alignment: U32,
    pub os_major: U16,
    pub os_minor: U16,
    pub image_major: U16,
    pub image_minor: U16,
    pub subsystem_major: U16,
    pub subsystem_minor: U16,
    pub win32_version: U32,
    pub image_bytes: U32,
    pub headers_bytes: U32,
    pub checksum: U32,
    pub subsystem: U16,
    pub dll_characteristics: U16,
    pub stack_reserve: U64,
    pub stack_commit: U64,
    pub heap_reserve: U64,
    pub heap_commit: U64,
    pub loader_flags: U32,
    pub directory_count: U32,
}

/// `IMAGE_DATA_DIRECTORY`.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct DataDirectory {
    pub rva: U32,
    pub bytes: U32,
}

/// `IMAGE_SECTION_HEADER`.
#[derive(Debug, Clone, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct SectionHeader {
    pub name: [u8; 8],
    pub virtual_bytes: U32,
    pub rva: U32,
    pub raw_bytes: U32,
    pub raw_offset: U32,
    pub relocations: U32,
    pub line_numbers: U32,
    pub relocation_count: U16,
    pub line_number_count: U16,
    pub characteristics: U32,
}

/// `IMAGE_EXPORT_DIRECTORY`.
#[derive(Debug, Clone, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct ExportDirectory {
    pub flags: U32,
    pub time_stamp: U32,
    pub major: U16,
    pub minor: U16,
    pub name: U32,
    pub ordinal_base: U32,
    pub function_count: U32,
    pub name_count: U32,
    pub functions: U32,
    pub names: U32,
    pub ordinals: U32,
}

const _: () = assert!(size_of::<FileHeader>() == 20 && size_of::<OptionalHeader>() == 112);
const _: () = assert!(size_of::<SectionHeader>() == 40 && size_of::<ExportDirectory>() == 40);
