// SPDX-License-Identifier: GPL-3.0-or-later
//! Names as a hive stores them: Latin-1 or UTF-16LE, borrowed, and never changed on the way. A name may
//! hold anything: lone surrogates, NULs, control characters.

use core::cmp::Ordering;
use core::fmt;

use crate::upcase::{cmp_units, upcase_unit};

/// A stored name: of a key, a value or a class.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// One byte a unit.
    Latin1(&'a [u8]),
    /// Two bytes a unit, little-endian; the length is even.
    Utf16(&'a [u8]),
}

impl<'a> Name<'a> {
    /// The name's UTF-16 units.
    #[must_use]
    pub fn units(self) -> Units<'a> {
        match self {
            Self::Latin1(bytes) => Units { bytes, wide: false },
            Self::Utf16(bytes) => Units { bytes, wide: true },
        }
    }

    /// The number of UTF-16 units.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Latin1(bytes) => bytes.len(),
            Self::Utf16(bytes) => bytes.len() / 2,
        }
    }

    /// Whether the name is empty, as a default value's is.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes as stored.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Latin1(bytes) | Self::Utf16(bytes) => bytes,
        }
    }

    /// Compares two names as NT sorts them.
    #[must_use]
    pub fn cmp_upcase(self, other: Name<'_>) -> Ordering {
        if let (Self::Latin1(a), Name::Latin1(b)) = (self, other) {
            return cmp_units(a.iter().map(|&x| u16::from(x)), b.iter().map(|&x| u16::from(x)));
        }
        cmp_units(self.units(), other.units())
    }

    /// Whether the name is `other` to NT.
    #[must_use]
    pub fn eq_upcase(self, other: &[u16]) -> bool {
        self.len() == other.len()
            && self
                .units()
                .zip(other)
                .all(|(a, &b)| a == b || upcase_unit(a) == upcase_unit(b))
    }

    /// The hash of an `lh` list (specification, section "Hash leaf", note).
    #[must_use]
    pub fn hash(self) -> u32 {
        hash_units(self.units())
    }
}

/// The hash of an `lh` list over a name's units.
pub(crate) fn hash_units(units: impl Iterator<Item = u16>) -> u32 {
    units.fold(0_u32, |hash, unit| {
        hash.wrapping_mul(37).wrapping_add(u32::from(upcase_unit(unit)))
    })
}

/// The UTF-16 units of a name.
#[derive(Clone)]
pub struct Units<'a> {
    bytes: &'a [u8],
    wide: bool,
}

impl Iterator for Units<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.wide {
            let (unit, rest) = self.bytes.split_first_chunk::<2>()?;
            self.bytes = rest;
            Some(u16::from_le_bytes(*unit))
        } else {
            let (&unit, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            Some(u16::from(unit))
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let nr = if self.wide {
            self.bytes.len() / 2
        } else {
            self.bytes.len()
        };
        (nr, Some(nr))
    }
}

impl ExactSizeIterator for Units<'_> {}

impl fmt::Display for Name<'_> {
    /// Lone surrogates become U+FFFD; everything else stands as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use core::fmt::Write;
        char::decode_utf16(self.units()).try_for_each(|c| f.write_char(c.unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl PartialEq for Name<'_> {
    /// Equal units, case and all, whatever the encoding.
    fn eq(&self, other: &Self) -> bool {
        self.units().eq(other.units())
    }
}

impl Eq for Name<'_> {}

impl PartialEq<str> for Name<'_> {
    fn eq(&self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }
}

impl PartialEq<&str> for Name<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

/// A name that owns its bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum NameBuf {
    /// One byte a unit.
    Latin1(Vec<u8>),
    /// Two bytes a unit, little-endian.
    Utf16(Vec<u8>),
}

impl NameBuf {
    /// Stores units as Windows does: Latin-1 where every unit is below 256, else UTF-16.
    #[must_use]
    pub fn from_units(units: &[u16]) -> Self {
        match units
            .iter()
            .map(|&unit| u8::try_from(unit))
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(bytes) => Self::Latin1(bytes),
            Err(_) => Self::Utf16(units.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
        }
    }

    /// The name, borrowed.
    #[must_use]
    pub fn as_name(&self) -> Name<'_> {
        match self {
            Self::Latin1(bytes) => Name::Latin1(bytes),
            Self::Utf16(bytes) => Name::Utf16(bytes),
        }
    }
}

impl From<&str> for NameBuf {
    fn from(text: &str) -> Self {
        Self::from_units(&text.encode_utf16().collect::<Vec<_>>())
    }
}

impl From<Name<'_>> for NameBuf {
    fn from(name: Name<'_>) -> Self {
        match name {
            Name::Latin1(bytes) => Self::Latin1(bytes.to_vec()),
            Name::Utf16(bytes) => Self::Utf16(bytes.to_vec()),
        }
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_name(), f)
    }
}
