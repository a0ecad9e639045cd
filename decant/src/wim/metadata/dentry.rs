// SPDX-License-Identifier: GPL-3.0-or-later
//! One file or directory of an image.

use crate::wim::types::{Filetime, Sha1Hash};

/// A dentry's place in its [`ImageMetadata`](super::ImageMetadata). The root is 0; a directory's children have
/// consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DentryId(pub(super) u32);

impl DentryId {
    /// The number, below [`ImageMetadata::len`](super::ImageMetadata::len): for a table beside the tree.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// `FILE_ATTRIBUTE_DIRECTORY` ([MS-FSCC] 2.6).
pub(super) const ATTRIBUTE_DIRECTORY: u32 = 0x10;
/// `FILE_ATTRIBUTE_REPARSE_POINT`.
pub(super) const ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
/// `FILE_ATTRIBUTE_ENCRYPTED`.
pub(super) const ATTRIBUTE_ENCRYPTED: u32 = 0x4000;

/// One file or directory of an image, with all that the image says about it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Dentry<'m> {
    /// Its place.
    pub id: DentryId,
    /// The directory that holds it; `None` for the root.
    pub parent: Option<DentryId>,
    /// Where it stands in the unpacked metadata resource, for messages.
    pub metadata_offset: u64,
    /// The name, UTF-16 as stored; empty for the root only.
    pub name: &'m [u16],
    /// The short name, UTF-16 as stored; empty for none.
    pub short_name: &'m [u16],
    /// `FILE_ATTRIBUTE_*`.
    pub attributes: u32,
    /// Which of the image's security descriptors it has.
    pub security_id: Option<u32>,
    /// When it was created.
    pub creation_time: Filetime,
    /// When it was last read.
    pub last_access_time: Filetime,
    /// When it was last written.
    pub last_write_time: Filetime,
    /// Files of one group are one file with several names.
    pub hard_link_group: Option<u64>,
    /// The reparse point.
    pub reparse: Option<Reparse>,
    /// The blob of the unnamed data stream; `None` when it is empty, and for directories.
    pub data: Option<Sha1Hash>,
    /// The blob of an encrypted file's raw (EFSRPC) data, instead of `data`.
    pub efs_data: Option<Sha1Hash>,
    pub(super) streams: &'m [StreamEntry],
    pub(super) names: &'m [u16],
    /// The tagged items behind the names, raw.
    pub(super) tagged: &'m [u8],
}

/// A reparse point: what it is, and the blob of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reparse {
    /// `IO_REPARSE_TAG_*`.
    pub tag: u32,
    /// Reserved, as stored.
    pub reserved: u16,
    /// Bit 0 set: an absolute target is as it was on the captured volume; clear: it may have been made relative to the
    /// image's root.
    pub flags: u16,
    /// The blob of the data behind the 8-byte reparse header; `None` when there are none.
    pub data: Option<Sha1Hash>,
}

/// A named data stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedStream<'m> {
    /// Its name, UTF-16 as stored.
    pub name: &'m [u16],
    /// Its blob; `None` when it is empty.
    pub sha1: Option<Sha1Hash>,
}

/// An item behind a dentry's names that says more about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaggedItem<'m> {
    /// What it is.
    pub tag: u32,
    /// Its bytes.
    pub data: &'m [u8],
}

/// As kept: a name in the names' buffer, and a blob.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEntry {
    pub name_start: u32,
    pub name_length: u16,
    pub sha1: Sha1Hash,
}

impl<'m> Dentry<'m> {
    /// Whether it is a directory. A directory may be a reparse point, a junction, too.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes & ATTRIBUTE_DIRECTORY != 0
    }

    /// Whether it is a reparse point.
    #[must_use]
    pub fn is_reparse_point(&self) -> bool {
        self.attributes & ATTRIBUTE_REPARSE_POINT != 0
    }

    /// Whether it is encrypted (EFS).
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.attributes & ATTRIBUTE_ENCRYPTED != 0
    }

    /// The named data streams, in their order.
    pub fn named_streams(&self) -> impl ExactSizeIterator<Item = NamedStream<'m>> + use<'m> {
        let names = self.names;
        self.streams.iter().map(move |stream| {
            let start = stream.name_start as usize;
            let name = &names[start..start + usize::from(stream.name_length)];
            NamedStream {
                name,
                sha1: stream.sha1.non_zero(),
            }
        })
    }

    /// The tagged items behind the names, in their order.
    pub fn tagged_items(&self) -> impl Iterator<Item = TaggedItem<'m>> + use<'m> {
        super::streams::TaggedItems::new(self.tagged)
    }

    /// The NTFS object id: 16 bytes, or 64 with the birth volume, birth object and domain ids.
    #[must_use]
    pub fn object_id(&self) -> Option<&'m [u8]> {
        let mut items = self.tagged_items();
        items
            .find(|item| item.tag == crate::wim::format::TAG_OBJECT_ID && item.data.len() >= 16)
            .map(|item| item.data)
    }

    /// Every blob that the file needs: data, raw encrypted data, reparse data, named streams.
    pub fn blobs(&self) -> impl Iterator<Item = Sha1Hash> + use<'m> {
        let own = [self.data, self.efs_data, self.reparse.and_then(|reparse| reparse.data)];
        own.into_iter()
            .flatten()
            .chain(self.named_streams().filter_map(|stream| stream.sha1))
    }
}
