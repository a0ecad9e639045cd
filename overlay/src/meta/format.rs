// SPDX-License-Identifier: GPL-3.0-or-later
//! The xattr `user.vodka.nt`: one packed little-endian record for each inode.
//!
//! ```text
//! 0  version, 1
//! 1  flags: which fields follow
//! 2  units of the short name, 0 or 1 to 12
//! 3  0
//! 4  attributes, u32
//! 8  then, each only with its flag, in this order:
//!    01 created u64   02 changed u64   04 written u64   08 security id, 8 bytes
//!    10 reparse tag u32   20 extra-store key, 8 bytes   40 owner of the short name, 8 bytes
//!    and the short name in UTF-16LE
//! ```
//!
//! A usual file needs 24 bytes, one with a short name at most 48: with its header that fits into the 96 bytes which a
//! 256-byte ext4 inode has left, so that a lookup reads no further block.

use thiserror::Error;

use super::{FileTime, NtMetadata};
use crate::name::{PathId, ShortName};
use crate::store::{ExtraKey, SecurityId};

/// The xattr's name.
pub const XATTR: &str = "user.vodka.nt";
/// The version that this code writes.
pub const VERSION: u8 = 1;
/// The longest record: every field and a short name of 12 units.
pub const MAX_BYTES: usize = 8 + 3 * 8 + 8 + 4 + 8 + 8 + 24;

const CREATED: u8 = 0x01;
const CHANGED: u8 = 0x02;
const WRITTEN: u8 = 0x04;
const SECURITY: u8 = 0x08;
const REPARSE: u8 = 0x10;
const EXTRA: u8 = 0x20;
const SHORT_OWNER: u8 = 0x40;
const KNOWN: u8 = 0x7f;

/// Why a record is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Fewer or more bytes than its fields need.
    #[error("the record has {found} bytes and its fields need {expected}")]
    Length {
        /// What the fields need.
        expected: usize,
        /// What is there.
        found: usize,
    },
    /// A version that this code does not know.
    #[error("the record has version {found}, and this program knows {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// A flag or a reserved byte that this version does not have.
    #[error(
        "the record has the flags {flags:#04x} and the reserved byte {reserved:#04x}, which version {VERSION} does not have"
    )]
    Flags {
        /// The flags.
        flags: u8,
        /// The reserved byte.
        reserved: u8,
    },
    /// A short name that can be none.
    #[error("the record's short name is bad: {0}")]
    ShortName(#[from] crate::name::NameError),
}

/// What a record holds; `None` where a field is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    pub attributes: u32,
    pub created: Option<FileTime>,
    pub changed: Option<FileTime>,
    pub written: Option<FileTime>,
    pub security: Option<SecurityId>,
    pub reparse_tag: Option<u32>,
    pub extra: Option<ExtraKey>,
    pub short_owner: Option<PathId>,
    pub short_name: Option<ShortName>,
}

impl Record {
    /// The record for a file's metadata.
    pub fn of(meta: &NtMetadata) -> Self {
        Self {
            attributes: meta.attributes,
            created: Some(meta.created),
            changed: meta.changed,
            written: meta.written.needs_xattr().then_some(meta.written),
            security: meta.security,
            reparse_tag: meta.reparse_tag,
            extra: meta.extra,
            short_owner: meta.short_name.as_ref().and(meta.short_owner),
            short_name: meta.short_name.clone(),
        }
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let name = self.short_name.as_ref().map(ShortName::units).unwrap_or_default();
        let mut out = Vec::with_capacity(MAX_BYTES);
        // A short name has at most 12 units.
        let name_units = u8::try_from(name.len()).unwrap_or(u8::MAX);
        out.extend([VERSION, 0, name_units, 0]);
        out.extend(self.attributes.to_le_bytes());
        let mut flags = 0;
        let mut put = |flag: u8, bytes: Option<&[u8]>| {
            if let Some(bytes) = bytes {
                flags |= flag;
                out.extend(bytes);
            }
        };
        put(
            CREATED,
            self.created.map(|t| t.0.to_le_bytes()).as_ref().map(|b| &b[..]),
        );
        put(
            CHANGED,
            self.changed.map(|t| t.0.to_le_bytes()).as_ref().map(|b| &b[..]),
        );
        put(
            WRITTEN,
            self.written.map(|t| t.0.to_le_bytes()).as_ref().map(|b| &b[..]),
        );
        put(SECURITY, self.security.as_ref().map(|id| &id.0[..]));
        put(REPARSE, self.reparse_tag.map(u32::to_le_bytes).as_ref().map(|b| &b[..]));
        put(EXTRA, self.extra.as_ref().map(|key| &key.0[..]));
        put(SHORT_OWNER, self.short_owner.as_ref().map(|id| &id.0[..]));
        if let Some(slot) = out.get_mut(1) {
            *slot = flags;
        }
        out.extend(name.iter().flat_map(|unit| unit.to_le_bytes()));
        out
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Every byte must be accounted for: says what is too many, too few or unknown.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let short = |expected| RecordError::Length {
            expected,
            found: bytes.len(),
        };
        let &[version, flags, name_units, reserved, a0, a1, a2, a3, ref rest @ ..] = bytes else {
            return Err(short(8));
        };
        if version != VERSION {
            return Err(RecordError::Version { found: version });
        }
        if flags & !KNOWN != 0 || reserved != 0 || (flags & SHORT_OWNER != 0 && name_units == 0) {
            return Err(RecordError::Flags { flags, reserved });
        }
        let eight = (flags & !REPARSE).count_ones() as usize * 8;
        let expected = 8 + eight + if flags & REPARSE == 0 { 0 } else { 4 } + usize::from(name_units) * 2;
        if bytes.len() != expected {
            return Err(short(expected));
        }
        let mut fields = Fields { flags, rest };
        let record = Self {
            attributes: u32::from_le_bytes([a0, a1, a2, a3]),
            created: fields.take(CREATED).map(|b| FileTime(u64::from_le_bytes(b))),
            changed: fields.take(CHANGED).map(|b| FileTime(u64::from_le_bytes(b))),
            written: fields.take(WRITTEN).map(|b| FileTime(u64::from_le_bytes(b))),
            security: fields.take(SECURITY).map(SecurityId),
            reparse_tag: fields.take(REPARSE).map(u32::from_le_bytes),
            extra: fields.take(EXTRA).map(ExtraKey),
            short_owner: fields.take(SHORT_OWNER).map(PathId),
            short_name: None,
        };
        let units: Vec<u16> = fields
            .rest
            .chunks_exact(2)
            .filter_map(|b| b.try_into().ok())
            .map(u16::from_le_bytes)
            .collect();
        let short_name = if name_units == 0 {
            None
        } else {
            Some(ShortName::new(&units)?)
        };
        Ok(Self { short_name, ..record })
    }
}

struct Fields<'a> {
    flags: u8,
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self, flag: u8) -> Option<[u8; N]> {
        if self.flags & flag == 0 {
            return None;
        }
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let time = || proptest::option::of(any::<u64>().prop_map(FileTime));
        let id = || proptest::option::of(any::<[u8; 8]>());
        let name = proptest::option::of(
            proptest::collection::vec(any::<u16>(), 1..=12).prop_filter_map("name", |u| ShortName::new(&u).ok()),
        );
        (
            any::<u32>(),
            time(),
            time(),
            time(),
            id(),
            proptest::option::of(any::<u32>()),
            id(),
            id(),
            name,
        )
            .prop_map(
                |(attributes, created, changed, written, security, reparse_tag, extra, owner, short_name)| Record {
                    attributes,
                    created,
                    changed,
                    written,
                    security: security.map(SecurityId),
                    reparse_tag,
                    extra: extra.map(ExtraKey),
                    short_owner: owner.map(PathId).filter(|_| short_name.is_some()),
                    short_name,
                },
            )
    }

    #[test]
    fn the_bytes_of_a_record_are_these() {
        let record = Record {
            attributes: 0x20,
            created: Some(FileTime(0x0102_0304_0506_0708)),
            security: Some(SecurityId([9; 8])),
            short_name: ShortName::new(&[0x41]).ok(),
            ..Record::default()
        };
        let mut right = vec![1, 0x09, 1, 0, 0x20, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1];
        right.extend([9; 8]);
        right.extend([0x41, 0]);
        assert_eq!(record.encode(), right);
        assert_eq!(Record::decode(&right), Ok(record));
    }

    #[test]
    fn a_usual_record_with_a_short_name_fits_a_256_byte_inode() {
        let record = Record {
            created: Some(FileTime(1)),
            changed: Some(FileTime(1)),
            security: Some(SecurityId([1; 8])),
            short_name: ShortName::new(&[0x41; 12]).ok(),
            ..Record::default()
        };
        assert_eq!(record.encode().len(), 56);
    }

    proptest! {
        #[test]
        fn every_record_comes_back(record in any_record()) {
            let bytes = record.encode();
            prop_assert!(bytes.len() <= MAX_BYTES);
            prop_assert_eq!(Record::decode(&bytes), Ok(record));
        }

        #[test]
        fn a_damaged_record_is_refused_or_is_another_whole_one(
            record in any_record(), at in 0usize..96, to in any::<u8>(), keep in 0usize..96
        ) {
            let mut bytes = record.encode();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            bytes.truncate(keep.max(1));
            if let Ok(other) = Record::decode(&bytes) {
                prop_assert_eq!(other.encode(), bytes);
            }
        }
    }
}
