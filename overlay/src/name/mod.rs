// SPDX-License-Identifier: GPL-3.0-or-later
//! NT names and how they are kept on Linux.
//!
//! Owns the rule that maps any NT name to exactly one stored name and back. If it is broken, two files of an image
//! fall on one, or a name escapes from `files/`.

mod escape;
mod path;
mod stored;

pub use escape::{escape, unescape};
pub(crate) use path::first_eight;
pub use path::{NtPath, PathId};
pub use stored::{LongNameHash, StoredName, stored_names};

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The most UTF-16 units that a component or a stream name has (the limit of NTFS: [MS-FSA] 2.1.5.1).
pub const MAX_NAME_UNITS: usize = 255;
/// The most UTF-16 units of a short name: eight, a dot, three ([MS-FSCC] 2.1.5.2.1).
pub const MAX_SHORT_NAME_UNITS: usize = 12;

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name of no unit.
    #[error("a name is empty")]
    Empty,
    /// Longer than NT allows.
    #[error("the name `{name}` has {units} UTF-16 units, more than the {limit} that NT allows")]
    TooLong {
        /// The name, escaped.
        name: String,
        /// How many units it has.
        units: usize,
        /// How many it may have.
        limit: usize,
    },
    /// `.` or `..`.
    #[error("the name `{name}` means a directory itself or its parent and can be no entry's name")]
    Dots {
        /// The name as it came.
        name: String,
    },
    /// `/`, `\` or NUL in a component.
    #[error(
        "the name `{name}` (escaped) has the character U+{unit:04X} at unit {position}, which no component can hold"
    )]
    Separator {
        /// The name, escaped.
        name: String,
        /// The unit found.
        unit: u16,
        /// Where, in units.
        position: usize,
    },
    /// The same name twice in one directory.
    #[error("the name `{name}` is in the directory twice")]
    Duplicate {
        /// The name, escaped.
        name: String,
    },
    /// A text that the escape never writes.
    #[error("`{text}` is not a name that the escape of a world writes")]
    NotEscaped {
        /// The text.
        text: String,
    },
    /// A shortened stored name whose full name is not in `:nt/names`.
    #[error("the shortened name `{stored}` has no full name in `:nt/names`")]
    FullNameMissing {
        /// The stored name.
        stored: String,
    },
    /// A name that can be no world's name.
    #[error("`{name}` can not be a world's name: {reason}")]
    WorldName {
        /// The name as it came.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// One component of an NT path: 1 to 255 UTF-16 units, none of them `\`, `/` or NUL, and neither `.` nor `..`.
///
/// Its order is that of its units, which is the order of a manifest. NT's own order ignores case: see
/// [`NtName::cmp_nt`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NtName(Arc<[u16]>);

impl NtName {
    /// Takes a component as it came from a medium.
    ///
    /// # Errors
    /// Says why the name can be no component.
    pub fn new(units: &[u16]) -> Result<Self, NameError> {
        if matches!(units, [0x2e] | [0x2e, 0x2e]) {
            return Err(NameError::Dots {
                name: String::from_utf16_lossy(units),
            });
        }
        check(units, MAX_NAME_UNITS, &[0, 0x2f, 0x5c])?;
        Ok(Self(units.into()))
    }

    /// Takes a component from its escaped text (what [`fmt::Display`] writes); an ordinary name is its own escape.
    ///
    /// # Errors
    /// As [`NtName::new`], and when the text is not one that the escape writes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match unescape(text) {
            Some(units) => Self::new(&units),
            None if matches!(text, "." | "..") => Err(NameError::Dots { name: text.to_owned() }),
            None => Err(NameError::NotEscaped { text: text.to_owned() }),
        }
    }

    /// The UTF-16 units.
    pub fn units(&self) -> &[u16] {
        &self.0
    }

    /// NT's order: after upcasing, and equal names of differing case by their units.
    pub fn cmp_nt(&self, other: &Self) -> std::cmp::Ordering {
        crate::upcase::cmp_names(&self.0, &other.0).then_with(|| self.0.cmp(&other.0))
    }

    /// Whether both are one name to NT.
    pub fn eq_nt(&self, other: &Self) -> bool {
        crate::upcase::eq_names(&self.0, &other.0)
    }

    /// The name as a lookup compares it.
    pub(crate) fn folded(&self) -> Box<[u16]> {
        self.0.iter().map(|&unit| crate::upcase::upcase_unit(unit)).collect()
    }
}

impl fmt::Display for NtName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for NtName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// An 8.3 name: 1 to 12 UTF-16 units.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortName(Box<[u16]>);

impl ShortName {
    /// Takes a short name as it came from a medium. That it has the form 8.3 is not asked: NTFS takes any.
    ///
    /// # Errors
    /// Says why it can be no short name.
    pub fn new(units: &[u16]) -> Result<Self, NameError> {
        check(units, MAX_SHORT_NAME_UNITS, &[0, 0x2f, 0x5c])?;
        Ok(Self(units.into()))
    }

    /// The UTF-16 units.
    pub fn units(&self) -> &[u16] {
        &self.0
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// The name of a named data stream, without `:` and without `:$DATA` ([MS-FSCC] 2.1.5.3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Box<[u16]>);

impl StreamName {
    /// Takes a stream's name as it came from a medium.
    ///
    /// # Errors
    /// Says why it can be no stream's name.
    pub fn new(units: &[u16]) -> Result<Self, NameError> {
        check(units, MAX_NAME_UNITS, &[0, 0x2f, 0x3a, 0x5c])?;
        Ok(Self(units.into()))
    }

    /// The UTF-16 units.
    pub fn units(&self) -> &[u16] {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

fn check(units: &[u16], limit: usize, refused: &[u16]) -> Result<(), NameError> {
    if units.is_empty() {
        return Err(NameError::Empty);
    }
    if units.len() > limit {
        let shown = units.get(..limit.min(40)).unwrap_or(units);
        return Err(NameError::TooLong {
            name: format!("{}…", escape(shown)),
            units: units.len(),
            limit,
        });
    }
    if let Some((position, &unit)) = units.iter().enumerate().find(|(_, unit)| refused.contains(unit)) {
        return Err(NameError::Separator {
            name: escape(units),
            unit,
            position,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<NtName, NameError> {
        NtName::new(&text.encode_utf16().collect::<Vec<_>>())
    }

    #[test]
    fn a_hostile_component_is_refused_and_named() {
        assert_eq!(name(""), Err(NameError::Empty));
        assert!(matches!(name(".."), Err(NameError::Dots { .. })));
        assert!(matches!(name("."), Err(NameError::Dots { .. })));
        assert!(matches!(
            name("a/b"),
            Err(NameError::Separator {
                unit: 0x2f,
                position: 1,
                ..
            })
        ));
        assert!(matches!(
            name("..\\b"),
            Err(NameError::Separator {
                unit: 0x5c,
                position: 2,
                ..
            })
        ));
        assert!(matches!(
            name("a\0"),
            Err(NameError::Separator {
                unit: 0,
                position: 1,
                ..
            })
        ));
        assert!(matches!(
            name(&"x".repeat(256)),
            Err(NameError::TooLong { units: 256, .. })
        ));
        assert!(name("...").is_ok() && name("a:b").is_ok() && name(&"文".repeat(255)).is_ok());
    }

    #[test]
    fn a_stream_name_has_no_colon() {
        assert!(matches!(
            StreamName::new(&"a:b".encode_utf16().collect::<Vec<_>>()),
            Err(NameError::Separator { unit: 0x3a, .. })
        ));
        assert!(StreamName::new(&"..".encode_utf16().collect::<Vec<_>>()).is_ok());
    }
}
