// SPDX-License-Identifier: GPL-3.0-or-later
//! What stands behind a dentry's names: unnamed streams and tagged items.

use zerocopy::FromBytes as _;

use super::dentry::{ATTRIBUTE_DIRECTORY, ATTRIBUTE_ENCRYPTED, ATTRIBUTE_REPARSE_POINT, TaggedItem};
use crate::wim::format::{RawDentry, RawTaggedItem};
use crate::wim::types::Sha1Hash;

/// Sorts out which unnamed stream is which.
///
/// A reparse point's first unnamed stream is its reparse data, an encrypted file's only one its raw data; what comes
/// next is the file's data. A zero hash in the dentry itself says that the unnamed streams are among the extra entries.
pub struct Streams {
    is_reparse_point: bool,
    is_encrypted: bool,
    found_reparse_data: bool,
    found_data: bool,
    pub data: Sha1Hash,
    pub reparse_data: Sha1Hash,
    pub efs_data: Sha1Hash,
}

impl Streams {
    pub fn new(raw: &RawDentry) -> Self {
        let attributes = raw.attributes.get();
        let mut streams = Self {
            is_reparse_point: attributes & ATTRIBUTE_REPARSE_POINT != 0,
            is_encrypted: attributes & ATTRIBUTE_ENCRYPTED != 0 && attributes & ATTRIBUTE_DIRECTORY == 0,
            found_reparse_data: false,
            found_data: false,
            data: Sha1Hash::default(),
            reparse_data: Sha1Hash::default(),
            efs_data: Sha1Hash::default(),
        };
        let default = Sha1Hash(raw.default_sha1);
        if !default.is_zero() {
            streams.unnamed(default);
        }
        streams
    }

    pub fn unnamed(&mut self, sha1: Sha1Hash) {
        if self.is_encrypted {
            if self.efs_data.is_zero() {
                self.efs_data = sha1;
            }
        } else if self.is_reparse_point && !self.found_reparse_data {
            self.found_reparse_data = true;
            self.reparse_data = sha1;
        } else if !self.found_data {
            self.found_data = true;
            self.data = sha1;
        }
    }
}

/// Goes through raw tagged items; ends where one does not fit.
pub struct TaggedItems<'m> {
    rest: &'m [u8],
}

impl<'m> TaggedItems<'m> {
    pub fn new(rest: &'m [u8]) -> Self {
        Self { rest }
    }
}

impl<'m> Iterator for TaggedItems<'m> {
    type Item = TaggedItem<'m>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, behind) = RawTaggedItem::ref_from_prefix(self.rest).ok()?;
        let length = header.data_bytes.get() as usize;
        let data = behind.get(..length)?;
        self.rest = behind.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        let tag = header.tag.get();
        (tag != 0).then_some(TaggedItem { tag, data })
    }
}
