// SPDX-License-Identifier: GPL-3.0-or-later
//! Stored names: what a component is called in `files/`.
//!
//! A stored name is the escaped name, then `:~N` where the name differs only in case from N earlier ones of its
//! directory. What would be longer than 255 bytes is cut and ends in `:#` and 32 hex digits of the name's SHA-256;
//! its full name is in `:nt/names`. Neither `:~` nor `:#` can come out of the escape, so no two names meet.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{NameError, NtName, StreamName, escape, unescape};
use crate::upcase;

/// The most bytes of a Linux file name.
const MAX_STORED_BYTES: usize = 255;
/// How many bytes of a shortened name stay readable.
const LONG_PREFIX_BYTES: usize = 180;

/// The first 16 bytes of SHA-256 over a name in UTF-16LE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongNameHash(pub [u8; 16]);

impl LongNameHash {
    /// The hash of a name.
    pub fn of(name: &NtName) -> Self {
        let mut hasher = Sha256::new();
        for unit in name.units() {
            hasher.update(unit.to_le_bytes());
        }
        let hash: [u8; 32] = hasher.finalize().into();
        let mut first = [0; 16];
        first.copy_from_slice(hash.get(..16).unwrap_or_default());
        Self(first)
    }
}

impl fmt::Display for LongNameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for LongNameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name in the form in which it is kept, with the name that it stands for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoredName {
    text: Arc<str>,
    name: NtName,
    ordinal: u32,
}

impl StoredName {
    /// The stored name of a component that has no case twin in its directory.
    pub fn alone(name: &NtName) -> Self {
        Self::with_ordinal(name, 0)
    }

    /// The stored name of the `ordinal`th of the names that differ only in case; 0 is the first.
    pub fn with_ordinal(name: &NtName, ordinal: u32) -> Self {
        let suffix = if ordinal == 0 {
            String::new()
        } else {
            format!(":~{ordinal}")
        };
        let mut text = escape(name.units());
        if text.len() + suffix.len() > MAX_STORED_BYTES {
            text.truncate(cut(&text, LONG_PREFIX_BYTES));
            text.push_str(&format!(":#{}", LongNameHash::of(name)));
        }
        text.push_str(&suffix);
        Self {
            text: text.into(),
            name: name.clone(),
            ordinal,
        }
    }

    /// What stands for the root's name, which has none.
    pub(crate) fn of_root() -> Self {
        Self {
            text: "".into(),
            name: NtName(Arc::from([])),
            ordinal: 0,
        }
    }

    /// The stored name of a named stream.
    pub(crate) fn of_stream(name: &StreamName) -> Self {
        // `.` and `..` can be streams, and their escape is as good as any other.
        Self::with_ordinal(&NtName(name.units().into()), 0)
    }

    /// Reads the name of a stream out of an extra store.
    pub(crate) fn decode_stream(
        text: &str,
        full_name: impl FnOnce(LongNameHash) -> Option<NtName>,
    ) -> Result<StreamName, NameError> {
        if let Some(units) = unescape(text)
            && matches!(&*units, [0x2e] | [0x2e, 0x2e])
        {
            return StreamName::new(&units);
        }
        match Self::decode(text, full_name)? {
            stored if stored.ordinal == 0 => StreamName::new(stored.name.units()),
            _ => Err(NameError::NotEscaped { text: text.to_owned() }),
        }
    }

    /// The name in `files/`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The NT name.
    pub fn name(&self) -> &NtName {
        &self.name
    }

    /// Which of the names that differ only in case this is; 0 is the first.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Whether the name is kept as it is, with no escape.
    pub fn is_verbatim(&self) -> bool {
        !self.text.contains(':')
    }

    /// Whether the full name must be kept in `:nt/names`.
    pub fn is_shortened(&self) -> bool {
        self.text.contains(":#")
    }

    /// Reads a name out of `files/`; a shortened one is looked up with `full_name`.
    ///
    /// # Errors
    /// [`NameError::NotEscaped`] when no NT name is stored so; [`NameError::FullNameMissing`].
    pub fn decode(text: &str, full_name: impl FnOnce(LongNameHash) -> Option<NtName>) -> Result<Self, NameError> {
        let refused = || NameError::NotEscaped { text: text.to_owned() };
        let decoded = Decoded::parse(text).ok_or_else(refused)?;
        let stored = match decoded {
            Decoded::Whole { name, ordinal } => Self::with_ordinal(&name, ordinal),
            Decoded::Shortened { hash, ordinal } => {
                let name = full_name(hash).ok_or_else(|| NameError::FullNameMissing {
                    stored: text.to_owned(),
                })?;
                Self::with_ordinal(&name, ordinal)
            }
        };
        // One spelling only: a wrong prefix, a needless hash or a full name of another hash ends here.
        if stored.as_str() == text {
            Ok(stored)
        } else {
            Err(refused())
        }
    }
}

impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

/// What a stored name says by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The name is all there.
    Whole { name: NtName, ordinal: u32 },
    /// The name is in `:nt/names`.
    Shortened { hash: LongNameHash, ordinal: u32 },
}

impl Decoded {
    fn parse(text: &str) -> Option<Self> {
        let (body, ordinal) = match text.rsplit_once(":~") {
            None => (text, 0),
            Some((body, digits)) => {
                let ordinal: u32 = digits.parse().ok()?;
                if ordinal == 0 || digits != ordinal.to_string() {
                    return None;
                }
                (body, ordinal)
            }
        };
        match body.rsplit_once(":#") {
            None => Some(Self::Whole {
                name: NtName::parse(body).ok()?,
                ordinal,
            }),
            Some((_, digits)) => {
                if digits.len() != 32 || digits.bytes().any(|b| !b.is_ascii_hexdigit()) {
                    return None;
                }
                let hash = LongNameHash(u128::from_str_radix(digits, 16).ok()?.to_be_bytes());
                Some(Self::Shortened { hash, ordinal })
            }
        }
    }
}

/// Where to cut an escaped text so that at most `limit` bytes stay and neither a character nor an escape is split.
fn cut(text: &str, limit: usize) -> usize {
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let step = if next == ':' { 5 } else { next.len_utf8() };
        if at + step > limit {
            break;
        }
        at += step;
    }
    at
}

/// The stored names of all names of one directory, in the order given.
///
/// Of names that differ only in case, the first by UTF-16 units is kept plain and the others are numbered, so that
/// the result depends on the set of names alone and not on their order.
///
/// # Errors
/// [`NameError::Duplicate`] when a name is there twice.
pub fn stored_names(names: &[NtName]) -> Result<Vec<StoredName>, NameError> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| match (names.get(a), names.get(b)) {
        (Some(a), Some(b)) => a.cmp_nt(b),
        (a, b) => a.cmp(&b),
    });
    let mut stored: Vec<Option<StoredName>> = vec![None; names.len()];
    let mut previous: Option<(&NtName, u32)> = None;
    for at in order {
        let Some(name) = names.get(at) else { continue };
        let ordinal = match previous {
            Some((twin, _)) if twin == name => return Err(NameError::Duplicate { name: name.to_string() }),
            Some((twin, ordinal)) if upcase::eq_names(twin.units(), name.units()) => ordinal + 1,
            _ => 0,
        };
        previous = Some((name, ordinal));
        if let Some(slot) = stored.get_mut(at) {
            *slot = Some(StoredName::with_ordinal(name, ordinal));
        }
    }
    Ok(stored.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> NtName {
        NtName::new(&text.encode_utf16().collect::<Vec<_>>()).unwrap()
    }

    fn decode(text: &str) -> Result<StoredName, NameError> {
        StoredName::decode(text, |_| None)
    }

    #[test]
    fn case_twins_are_numbered_by_their_units_whatever_the_order() {
        let forward = stored_names(&[name("readme"), name("README"), name("ReadMe"), name("x")]).unwrap();
        let texts: Vec<_> = forward.iter().map(StoredName::as_str).collect();
        assert_eq!(texts, ["readme:~2", "README", "ReadMe:~1", "x"]);
        let back = stored_names(&[name("x"), name("ReadMe"), name("README"), name("readme")]).unwrap();
        assert_eq!(back.into_iter().rev().collect::<Vec<_>>(), forward);
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_and_named() {
        assert_eq!(
            stored_names(&[name("a"), name("b"), name("a")]),
            Err(NameError::Duplicate { name: "a".into() })
        );
    }

    #[test]
    fn a_name_of_255_bytes_is_kept_and_one_more_is_shortened() {
        let whole = StoredName::alone(&name(&"x".repeat(255)));
        assert!(whole.is_verbatim() && whole.as_str().len() == 255);
        let twin = StoredName::with_ordinal(&name(&"x".repeat(255)), 1);
        assert!(twin.is_shortened() && twin.as_str().ends_with(":~1"));
        let long = name(&"文".repeat(86));
        let stored = StoredName::alone(&long);
        assert!(stored.is_shortened() && stored.as_str().len() <= 255);
        assert_eq!(
            StoredName::decode(stored.as_str(), |_| Some(long.clone())),
            Ok(stored.clone())
        );
        assert!(matches!(
            decode(stored.as_str()),
            Err(NameError::FullNameMissing { .. })
        ));
        // A full name that does not belong to the hash is not believed.
        assert!(StoredName::decode(stored.as_str(), |_| Some(name(&"文".repeat(87)))).is_err());
    }

    #[test]
    fn a_name_that_no_nt_name_is_stored_as_is_refused() {
        for text in [
            "", ".", "..", ":nt", "a:~0", "a:~01", "a:~", "a:~+1", "a:~1:~2", "a:#00", ":0041", "a\\b",
        ] {
            assert!(decode(text).is_err(), "{text:?}");
        }
    }

    fn any_name() -> impl Strategy<Value = NtName> {
        let unit = prop_oneof![
            4 => prop_oneof![Just(0x41u16), Just(0x61), Just(0x2e), Just(0x3a), Just(0x7e), Just(0x23), Just(0x30)],
            1 => any::<u16>(),
            1 => 0xd7ffu16..0xe001,
        ];
        prop_oneof![
            proptest::collection::vec(unit.clone(), 1..8),
            proptest::collection::vec(unit, 200..256),
        ]
        .prop_filter_map("no component", |units| NtName::new(&units).ok())
    }

    proptest! {
        #[test]
        fn stored_names_are_distinct_fit_linux_and_come_back(
            names in proptest::collection::hash_set(any_name(), 1..30)
        ) {
            let names: Vec<NtName> = names.into_iter().collect();
            let stored = stored_names(&names).unwrap();
            let full: HashMap<_, _> = names.iter().map(|n| (LongNameHash::of(n), n.clone())).collect();
            let distinct: HashSet<_> = stored.iter().map(StoredName::as_str).collect();
            prop_assert_eq!(distinct.len(), names.len());
            for (name, stored) in names.iter().zip(&stored) {
                let text = stored.as_str();
                prop_assert!(!text.is_empty() && text.len() <= 255 && text != "." && text != ".." && text != ":nt");
                prop_assert!(!text.bytes().any(|b| b == 0 || b == b'/'));
                let back = StoredName::decode(text, |hash| full.get(&hash).cloned()).unwrap();
                prop_assert_eq!(back.name(), name);
                prop_assert_eq!(&back, stored);
            }
        }

        #[test]
        fn any_text_is_refused_or_is_its_own_stored_name(text in "[aA.:~#0-9é]{0,16}") {
            if let Ok(stored) = decode(&text) {
                prop_assert_eq!(stored.as_str(), text);
            }
        }
    }
}
