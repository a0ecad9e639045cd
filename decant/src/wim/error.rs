// SPDX-License-Identifier: GPL-3.0-or-later
//! What can go wrong with a WIM, in whole sentences.

use super::decompress::DecompressError;
use super::metadata::NameFault;
use super::types::{Compression, Sha1Hash};
use crate::medium::ReadAtError;

/// Everything that can go wrong with a WIM.
///
/// The prefixes mean: `Unsupported…` is well-formed but not served, `Invalid…` breaks the format, `Unexpected…` is
/// whole but not what was asked for, `Missing…`/`NoSuch…` is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WimError {
    /// The source could not be read.
    #[error("{what} of {wim} cannot be read")]
    Read {
        /// Which structure was being read.
        what: &'static str,
        /// The WIM.
        wim: String,
        /// Where and why.
        #[source]
        source: Box<ReadAtError>,
    },
    /// The first bytes are not a WIM's.
    #[error("{wim} is not a WIM: its first 8 bytes are {found:02x?}, expected `MSWIM` and three zeros")]
    UnexpectedMagic {
        /// The source.
        wim: String,
        /// What stands there.
        found: [u8; 8],
    },
    /// A pipable WIM.
    #[error(
        "{wim} is a pipable WIM (`WLPWM`), which is not supported; `wimlib-imagex export --not-pipable` converts it"
    )]
    UnsupportedPipable {
        /// The WIM.
        wim: String,
    },
    /// An unknown format version.
    #[error("{wim} has WIM version {found:#x}; 0x10d00 and 0xe00 are supported")]
    UnsupportedVersion {
        /// The WIM.
        wim: String,
        /// What the header says.
        found: u32,
    },
    /// A compression that is not served.
    #[error("{wim} is compressed with {compression}, which is not supported")]
    UnsupportedCompression {
        /// The WIM.
        wim: String,
        /// Its name.
        compression: String,
    },
    /// A chunk size that is not served.
    #[error("{wim} has {compression} chunks of {found} bytes; a power of two from {minimum} to {maximum} is supported")]
    UnsupportedChunkSize {
        /// The WIM.
        wim: String,
        /// The compression.
        compression: Compression,
        /// What the header says.
        found: u64,
        /// Smallest.
        minimum: u32,
        /// Largest.
        maximum: u32,
    },
    /// A header field makes no sense.
    #[error("the header of {wim} is damaged: {field} is {found}, expected {expected}")]
    InvalidHeader {
        /// The WIM.
        wim: String,
        /// Which field.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// The WIM is a part, but not the first, of a split WIM.
    #[error("{wim} is part {part} of {total_parts} of a split WIM: open its first part")]
    UnexpectedPart {
        /// The WIM.
        wim: String,
        /// Which part it is.
        part: u16,
        /// How many there are.
        total_parts: u16,
    },
    /// A part of a split WIM is not there.
    #[error("{wim} is split in {total_parts} parts, and part {part} ({part_name}) is missing")]
    MissingPart {
        /// The first part.
        wim: String,
        /// Which part is missing.
        part: u16,
        /// How many there are.
        total_parts: u16,
        /// What it would be called.
        part_name: String,
    },
    /// A file that has a part's name belongs to another WIM.
    #[error("{part_name} is not part {part} of {wim}: its {field} is {found}, expected {expected}")]
    WrongPart {
        /// The first part.
        wim: String,
        /// Which part was expected.
        part: u16,
        /// The file.
        part_name: String,
        /// Which field differs.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A resource does not lie in its file.
    #[error("{what} of {wim} lies at offset {offset} with {stored_bytes} bytes, but the file has {file_bytes} bytes")]
    InvalidLocation {
        /// Which structure.
        what: String,
        /// The WIM.
        wim: String,
        /// Where it should begin.
        offset: u64,
        /// How long it should be.
        stored_bytes: u64,
        /// How long the file is.
        file_bytes: u64,
    },
    /// A structure exceeds a documented bound.
    #[error("{what} of {wim} has {found} bytes; at most {limit} are read")]
    TooLarge {
        /// Which structure.
        what: String,
        /// The WIM.
        wim: String,
        /// How many there are.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The XML cannot be understood.
    #[error("the XML of {wim} is damaged at byte {offset} of its text: {reason}")]
    InvalidXml {
        /// The WIM.
        wim: String,
        /// Offset in the decoded text.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// There is no such image.
    #[error("{wim} has no image with INDEX {index}; it has {}", list_indexes(.available))]
    NoSuchImage {
        /// The WIM.
        wim: String,
        /// What was asked for.
        index: u32,
        /// What there is.
        available: Vec<u32>,
    },
    /// The XML names an image that has no metadata resource.
    #[error(
        "image {index} of {wim} has no metadata resource: the blob table has {found}, the XML names {expected} image(s)"
    )]
    MissingMetadata {
        /// The WIM.
        wim: String,
        /// The image.
        index: u32,
        /// How many metadata resources there are.
        found: usize,
        /// How many images there are.
        expected: usize,
    },
    /// A blob table entry makes no sense.
    #[error("entry {entry} of the blob table of {wim} (offset {offset}) is damaged: {reason}")]
    InvalidBlobEntry {
        /// The WIM.
        wim: String,
        /// Which entry, from 0.
        entry: u64,
        /// Where the table is.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// A blob that an image needs is not in the WIM.
    #[error("blob {sha1} is not in {wim}")]
    NoSuchBlob {
        /// The WIM.
        wim: String,
        /// The blob.
        sha1: Sha1Hash,
    },
    /// A resource's chunk table makes no sense.
    #[error(
        "the chunk table of the resource at offset {offset} of {wim} is damaged at entry {entry}: found {found}, expected {expected}"
    )]
    InvalidChunkTable {
        /// The WIM.
        wim: String,
        /// Where the resource begins.
        offset: u64,
        /// Which entry.
        entry: u64,
        /// What it says.
        found: u64,
        /// What it may say.
        expected: String,
    },
    /// A chunk does not decompress.
    #[error(
        "chunk {chunk} (offset {chunk_offset}, {stored_bytes} bytes) of the {compression} resource at offset {resource_offset} of {wim} does not decompress"
    )]
    InvalidChunk {
        /// The WIM.
        wim: String,
        /// Where the resource begins.
        resource_offset: u64,
        /// Which chunk, from 0.
        chunk: u64,
        /// Where the chunk begins.
        chunk_offset: u64,
        /// How long it is.
        stored_bytes: u32,
        /// How it is compressed.
        compression: Compression,
        /// What is wrong in it.
        #[source]
        source: DecompressError,
    },
    /// A blob's bytes are not those that were stored.
    #[error("the blob at offset {offset} of {wim} is damaged: its SHA-1 is {actual}, expected {expected}")]
    WrongHash {
        /// The WIM.
        wim: String,
        /// Where its resource begins.
        offset: u64,
        /// What the blob table says.
        expected: Sha1Hash,
        /// What the bytes give.
        actual: Sha1Hash,
    },
    /// The metadata resource makes no sense.
    #[error("the metadata of image {index} of {wim} is damaged at offset {offset}{}: {reason}", at_path(.path))]
    InvalidMetadata {
        /// The WIM.
        wim: String,
        /// The image.
        index: u32,
        /// Offset in the unpacked metadata.
        offset: u64,
        /// The dentry's path so far, empty before the tree.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A name that no directory may hold.
    #[error("image {index} of {wim} is refused: {fault}, at {path} (offset {offset} of its metadata)")]
    InvalidName {
        /// The WIM.
        wim: String,
        /// The image.
        index: u32,
        /// Offset in the unpacked metadata.
        offset: u64,
        /// The path with the name, escaped.
        path: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// Two dentries of one directory have the same name.
    #[error(
        "image {index} of {wim} is refused: {path} is there twice, at offsets {first_offset} and {offset} of its metadata"
    )]
    DuplicateName {
        /// The WIM.
        wim: String,
        /// The image.
        index: u32,
        /// The path, escaped.
        path: String,
        /// Where the first is.
        first_offset: u64,
        /// Where the second is.
        offset: u64,
    },
    /// A part of the tree is reached twice.
    #[error(
        "image {index} of {wim} is refused: offset {offset} of its metadata is reached a second time from {path}: the tree has a cycle"
    )]
    Cycle {
        /// The WIM.
        wim: String,
        /// The image.
        index: u32,
        /// What is reached twice, in the unpacked metadata.
        offset: u64,
        /// The second directory that has it.
        path: String,
    },
    /// Who was to take the bytes could not.
    #[error("the blob's bytes could not be passed on")]
    Sink(#[source] std::io::Error),
}

impl WimError {
    /// Whether the WIM is damaged (as opposed to not served, not there, or not readable).
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::InvalidHeader { .. }
                | Self::InvalidLocation { .. }
                | Self::TooLarge { .. }
                | Self::InvalidXml { .. }
                | Self::MissingMetadata { .. }
                | Self::InvalidBlobEntry { .. }
                | Self::NoSuchBlob { .. }
                | Self::InvalidChunkTable { .. }
                | Self::InvalidChunk { .. }
                | Self::WrongHash { .. }
                | Self::InvalidMetadata { .. }
                | Self::InvalidName { .. }
                | Self::DuplicateName { .. }
                | Self::Cycle { .. }
        )
    }

    /// Whether the WIM is well-formed as far as one sees, but of a kind that is not served.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedPipable { .. }
                | Self::UnsupportedVersion { .. }
                | Self::UnsupportedCompression { .. }
                | Self::UnsupportedChunkSize { .. }
        )
    }
}

fn at_path(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!(" ({path})")
    }
}

fn list_indexes(indexes: &[u32]) -> String {
    /// More would only fill the screen.
    const SHOWN: usize = 20;
    if indexes.is_empty() {
        return "no image at all".to_owned();
    }
    let shown: Vec<String> = indexes.iter().take(SHOWN).map(u32::to_string).collect();
    let rest = if indexes.len() > SHOWN { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}
