// SPDX-License-Identifier: GPL-3.0-or-later
//! The Windows imaging format: WIM, ESD and split WIMs, read in place.
//!
//! [`Wim`] opens one and reads its structures when they are asked for: the XML ([`WimInfo`]), the blob table
//! ([`BlobTable`]), an image's tree ([`ImageMetadata`]). Blobs come whole and checked from [`BlobReader`], or chunk by
//! chunk from a [`ResourceLayout`] and a [`ChunkDecoder`], which is how many threads share the work.
//!
//! Nothing here trusts what it reads: every length, offset and count is checked, and no structure may be larger than
//! the constants below. No file is ever written here. If this module lets a wrong blob or an unclean name pass, every
//! stage after it lays down a wrong world.

mod blob_reader;
mod blob_table;
pub mod decompress;
mod error;
pub mod format;
mod header;
mod layout;
mod metadata;
mod open;
mod resource;
mod types;
mod xml;

pub use blob_reader::{BlobReader, Sink};
pub use blob_table::{Blob, BlobId, BlobTable, ResourceId, ResourceRead, SolidId, SolidResource};
pub use error::WimError;
pub use header::{Guid, Header, ResourceLocation};
pub use metadata::{
    Dentry, DentryId, ImageMetadata, NameFault, NamedStream, Reparse, TaggedItem, check_name, escape_name,
    names_equal_ignore_case,
};
pub use open::Wim;
pub use resource::{Chunk, ChunkDecoder, ResourceLayout};
pub use types::{Compression, Filetime, Sha1Hash};
pub use xml::{Architecture, ImageInfo, ImageKind, Note, Version, WimInfo, WindowsInfo};

/// The XML of a Windows medium has some 50 KB.
pub const MAX_XML_BYTES: u64 = 32 << 20;
/// Two million blobs; a Windows medium has some 100,000.
pub const MAX_BLOB_TABLE_BYTES: u64 = 2_000_000 * 50;
/// A Windows image's metadata have some 30 MB.
pub const MAX_METADATA_BYTES: u64 = 128 << 20;
/// More images than any medium has.
pub const MAX_IMAGES: usize = 4096;
/// More solid resources than any ESD has.
pub const MAX_SOLID_RESOURCES: usize = 1 << 16;
/// Chunks of one resource: 128 GiB in the smallest LZX chunks.
pub const MAX_CHUNKS: u64 = 1 << 22;
/// Largest chunk that is unpacked, the bound of a worker's memory; ESDs have 64 MiB at most.
pub const MAX_CHUNK_BYTES: u32 = 128 << 20;
/// An uncompressed resource is read in pieces of this length.
pub const UNCOMPRESSED_CHUNK_BYTES: u32 = 1 << 20;
/// Directories inside directories; NTFS paths of 32,767 characters with names of 31.
pub const MAX_DEPTH: u32 = 1024;
