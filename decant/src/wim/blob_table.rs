// SPDX-License-Identifier: GPL-3.0-or-later
//! The blob table ("lookup table"): which blobs a WIM holds, and where.
//!
//! Everything here is found again by a blob's SHA-1. Wrong here means a file gets another file's bytes, so the table
//! is only a guide: whoever reads a blob checks the SHA-1 of what came out.

use std::collections::HashMap;
use std::ops::Range;

use zerocopy::FromBytes as _;

use super::format::{RawBlobEntry, SOLID_RESOURCE_MARK, resource_flags};
use super::header::ResourceLocation;
use super::types::{Compression, Sha1Hash};

/// A blob's place in the [`BlobTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlobId(pub(super) u32);

/// A solid resource's place in the [`BlobTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SolidId(pub(super) u32);

/// What holds a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResourceId {
    /// A resource of the blob's own.
    Blob(BlobId),
    /// A resource that many blobs share.
    Solid(SolidId),
}

/// One blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Blob {
    /// SHA-1 of its unpacked bytes.
    pub sha1: Sha1Hash,
    /// How many unpacked bytes it has.
    pub size_bytes: u64,
    /// How many dentries and streams of all images use it, as the table says.
    pub reference_count: u32,
    /// Which part holds it, from 1.
    pub part: u16,
    /// What holds it.
    pub resource: ResourceId,
    /// Where it begins in the unpacked resource; 0 in a resource of its own.
    pub offset_in_resource: u64,
    /// Stored length of a resource of its own; 0 in a solid one, where a blob has no length of its own.
    pub stored_bytes: u64,
}

/// One resource that many blobs share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SolidResource {
    /// Which part holds it, from 1.
    pub part: u16,
    /// Where it lies; `size_bytes` is its real unpacked length.
    pub location: ResourceLocation,
    /// How its chunks are compressed.
    pub compression: Compression,
    /// Unpacked length of each chunk but the last.
    pub chunk_size_bytes: u32,
}

/// As kept: 64 bytes a blob.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sha1: Sha1Hash,
    reference_count: u32,
    offset: u64,
    stored_bytes: u64,
    size_bytes: u64,
    /// Index of the solid resource, [`NOT_SOLID`] for none.
    solid: u32,
    part: u16,
    flags: u8,
}

const NOT_SOLID: u32 = u32::MAX;

/// Every blob of a WIM (of all parts), found by SHA-1.
#[derive(Debug, Default)]
pub struct BlobTable {
    /// File blobs sorted by SHA-1, no two alike; then the metadata blobs in the order of the images.
    entries: Vec<Entry>,
    file_blob_count: usize,
    solids: Vec<SolidResource>,
    duplicate_count: u64,
}

/// An entry that makes no sense: which, and why.
#[derive(Debug)]
pub(super) struct InvalidEntry {
    pub entry: u64,
    pub reason: String,
}

/// Collects the entries of each part's table.
#[derive(Debug, Default)]
pub(super) struct BlobTableBuilder {
    files: Vec<Entry>,
    metadata: Vec<Entry>,
    solids: Vec<SolidResource>,
}

impl BlobTableBuilder {
    /// Adds one part's table. `solid_header` reads the header of a solid resource from that part.
    ///
    /// Free entries, entries without a hash and entries of other parts are passed over: whoever needs such a blob is
    /// told that it is not there.
    pub fn add_part<E: From<InvalidEntry>>(
        &mut self,
        raw: &[u8],
        part: u16,
        mut solid_header: impl FnMut(ResourceLocation) -> Result<SolidResource, E>,
    ) -> Result<(), E> {
        self.files.reserve_exact(raw.len() / size_of::<RawBlobEntry>());
        // Blobs of a solid resource follow its entry. Of several in a row, they lie in their concatenation.
        let mut run: Range<usize> = 0..0;
        let mut run_is_open = false;
        for (entry, bytes) in raw.chunks_exact(size_of::<RawBlobEntry>()).enumerate() {
            let invalid = |reason: String| {
                E::from(InvalidEntry {
                    entry: entry as u64,
                    reason,
                })
            };
            let Ok(raw) = RawBlobEntry::ref_from_bytes(bytes) else {
                continue;
            };
            let location = ResourceLocation::from_raw(&raw.resource);
            if location.flags & resource_flags::FREE != 0 {
                continue;
            }
            if location.flags & resource_flags::SPANNED != 0 {
                return Err(invalid(
                    "a resource that is split over parts is not supported".to_owned(),
                ));
            }
            let is_solid = location.flags & resource_flags::SOLID != 0;
            if is_solid && location.size_bytes == SOLID_RESOURCE_MARK {
                if !run_is_open {
                    run = self.solids.len()..self.solids.len();
                    run_is_open = true;
                }
                if self.solids.len() >= super::MAX_SOLID_RESOURCES {
                    return Err(invalid(format!(
                        "there are more than {} solid resources",
                        super::MAX_SOLID_RESOURCES
                    )));
                }
                self.solids.push(solid_header(location)?);
                run.end = self.solids.len();
                continue;
            }
            run_is_open = false;
            let sha1 = Sha1Hash(raw.sha1);
            if sha1.is_zero() || raw.part_number.get() != part {
                continue;
            }
            let mut kept = Entry {
                sha1,
                reference_count: raw.reference_count.get(),
                offset: location.offset,
                stored_bytes: location.stored_bytes,
                size_bytes: location.size_bytes,
                solid: NOT_SOLID,
                part,
                flags: location.flags,
            };
            if is_solid {
                // In a solid resource the two lengths change their roles.
                kept.size_bytes = location.stored_bytes;
                kept.stored_bytes = 0;
                (kept.solid, kept.offset) = self.place_in_run(&run, &kept).map_err(invalid)?;
            } else if !location.is_compressed() && location.stored_bytes != location.size_bytes {
                return Err(invalid(format!(
                    "it is not compressed, but its stored length is {} and its unpacked length {}",
                    location.stored_bytes, location.size_bytes
                )));
            }
            if location.flags & resource_flags::METADATA != 0 {
                if self.metadata.len() >= super::MAX_IMAGES {
                    return Err(invalid(format!(
                        "there are more than {} metadata resources",
                        super::MAX_IMAGES
                    )));
                }
                self.metadata.push(kept);
            } else {
                self.files.push(kept);
            }
        }
        Ok(())
    }

    /// Which solid resource of the run holds the entry's blob, and where in it.
    fn place_in_run(&self, run: &Range<usize>, blob: &Entry) -> Result<(u32, u64), String> {
        let mut offset = blob.offset;
        for index in run.clone() {
            let size_bytes = self.solids[index].location.size_bytes;
            if offset < size_bytes || (offset == size_bytes && blob.size_bytes == 0) {
                if size_bytes - offset < blob.size_bytes {
                    return Err(format!(
                        "its blob ends at {} of a solid resource of {size_bytes} bytes",
                        offset.saturating_add(blob.size_bytes)
                    ));
                }
                // Bounded by MAX_SOLID_RESOURCES.
                return Ok((u32::try_from(index).unwrap_or(NOT_SOLID), offset));
            }
            offset -= size_bytes;
        }
        Err(format!(
            "its blob begins at {} and no solid resource before it reaches so far",
            blob.offset
        ))
    }

    /// The finished table.
    pub fn finish(mut self) -> BlobTable {
        // Stable, so that of duplicates the first stays.
        self.files.sort_by_key(|entry| entry.sha1);
        let before = self.files.len();
        self.files.dedup_by(|later, first| {
            let same = later.sha1 == first.sha1;
            if same {
                first.reference_count = first.reference_count.saturating_add(later.reference_count);
            }
            same
        });
        let file_blob_count = self.files.len();
        self.files.extend(self.metadata);
        self.files.shrink_to_fit();
        BlobTable {
            entries: self.files,
            file_blob_count,
            solids: self.solids,
            duplicate_count: (before - file_blob_count) as u64,
        }
    }
}

impl BlobTable {
    /// The file blob with this SHA-1.
    #[must_use]
    pub fn find(&self, sha1: &Sha1Hash) -> Option<BlobId> {
        let files = &self.entries[..self.file_blob_count];
        files.binary_search_by_key(sha1, |entry| entry.sha1).ok().map(Self::id)
    }

    /// A blob.
    ///
    /// # Panics
    /// When `id` is of another table.
    #[must_use]
    pub fn get(&self, id: BlobId) -> Blob {
        let entry = &self.entries[id.0 as usize];
        let (resource, offset_in_resource) = if entry.solid == NOT_SOLID {
            (ResourceId::Blob(id), 0)
        } else {
            (ResourceId::Solid(SolidId(entry.solid)), entry.offset)
        };
        Blob {
            sha1: entry.sha1,
            size_bytes: entry.size_bytes,
            reference_count: entry.reference_count,
            part: entry.part,
            resource,
            offset_in_resource,
            stored_bytes: entry.stored_bytes,
        }
    }

    /// How many file blobs there are, each counted once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.file_blob_count
    }

    /// Whether there is no file blob.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file_blob_count == 0
    }

    /// Every file blob, by ascending SHA-1.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (BlobId, Blob)> + '_ {
        (0..self.file_blob_count).map(|index| (Self::id(index), self.get(Self::id(index))))
    }

    /// How many entries repeated the SHA-1 of another; the first is taken.
    #[must_use]
    pub fn duplicate_count(&self) -> u64 {
        self.duplicate_count
    }

    /// The images' metadata blobs, in the table's order, which is the images' order.
    pub fn metadata_blobs(&self) -> impl ExactSizeIterator<Item = BlobId> + '_ {
        (self.file_blob_count..self.entries.len()).map(Self::id)
    }

    /// A solid resource.
    ///
    /// # Panics
    /// When `id` is of another table.
    #[must_use]
    pub fn solid(&self, id: SolidId) -> SolidResource {
        self.solids[id.0 as usize]
    }

    /// Every solid resource.
    pub fn solids(&self) -> impl ExactSizeIterator<Item = SolidId> + '_ {
        // Bounded by MAX_SOLID_RESOURCES.
        (0..self.solids.len()).map(|index| SolidId(u32::try_from(index).unwrap_or(NOT_SOLID)))
    }

    /// The part and the place of a resource.
    pub(super) fn location(&self, resource: ResourceId) -> (u16, ResourceLocation) {
        match resource {
            ResourceId::Blob(id) => {
                let Entry {
                    offset,
                    stored_bytes,
                    size_bytes,
                    flags,
                    part,
                    ..
                } = self.entries[id.0 as usize];
                (
                    part,
                    ResourceLocation {
                        offset,
                        stored_bytes,
                        size_bytes,
                        flags,
                    },
                )
            }
            ResourceId::Solid(id) => {
                let solid = &self.solids[id.0 as usize];
                (solid.part, solid.location)
            }
        }
    }

    /// Groups blobs by the resource that holds them, in the order in which the resources lie on the medium.
    pub(super) fn read_order(&self, blobs: impl IntoIterator<Item = BlobId>) -> Vec<ResourceRead> {
        let mut by_resource: HashMap<ResourceId, Vec<BlobId>> = HashMap::new();
        for blob in blobs {
            by_resource.entry(self.get(blob).resource).or_default().push(blob);
        }
        let mut reads: Vec<ResourceRead> = by_resource
            .into_iter()
            .map(|(resource, mut blobs)| {
                blobs.sort_unstable_by_key(|&blob| (self.get(blob).offset_in_resource, blob));
                blobs.dedup();
                let (part, location) = self.location(resource);
                ResourceRead {
                    resource,
                    part,
                    offset: location.offset,
                    blobs,
                }
            })
            .collect();
        reads.sort_unstable_by_key(|read| (read.part, read.offset, read.resource));
        reads
    }

    fn id(index: usize) -> BlobId {
        // A table has at most MAX_BLOB_TABLE_BYTES / 50 entries.
        BlobId(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// A resource that is to be read, and the blobs wanted from it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceRead {
    /// Which resource.
    pub resource: ResourceId,
    /// Which part holds it, from 1.
    pub part: u16,
    /// Where it begins in that part.
    pub offset: u64,
    /// The blobs, by ascending offset in the resource; each once.
    pub blobs: Vec<BlobId>,
}
