// SPDX-License-Identifier: GPL-3.0-or-later
//! The two sorted text files of `:nt`: `security` and `names`.
//!
//! ```text
//! vodka-security 1
//! 00c0ffee00c0ffee 0100048014000000…        id, then the descriptor in hex
//! ```
//! ```text
//! vodka-names 1
//! 000102030405060708090a0b0c0d0e0f文文文…   hash, a space, then the escaped name
//! ```
//!
//! Lines end in LF, are sorted and distinct, and each id must be that of what follows it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::name::{LongNameHash, NtName};
use crate::store::SecurityId;

/// The most bytes of one security descriptor: two lists of 64 KiB, two SIDs and a header fit.
pub(crate) const MAX_DESCRIPTOR_BYTES: usize = 160 * 1024;
/// The most bytes of either file that are read.
pub(crate) const MAX_TABLE_BYTES: u64 = 256 << 20;

const SECURITY_HEADER: &str = "vodka-security 1";
const NAMES_HEADER: &str = "vodka-names 1";

/// The security descriptors of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SecurityTable(BTreeMap<SecurityId, Arc<[u8]>>);

impl SecurityTable {
    /// Takes a descriptor in; gives its id and whether it is new.
    pub fn intern(&mut self, descriptor: &[u8]) -> Result<(SecurityId, bool)> {
        if descriptor.len() > MAX_DESCRIPTOR_BYTES {
            return Err(Error::SecurityTooLarge {
                found_bytes: descriptor.len(),
                limit_bytes: MAX_DESCRIPTOR_BYTES,
            });
        }
        let id = SecurityId::of(descriptor);
        match self.0.get(&id) {
            Some(there) if **there == *descriptor => Ok((id, false)),
            Some(_) => Err(Error::SecurityCollision { id }),
            None => {
                self.0.insert(id, descriptor.into());
                Ok((id, true))
            }
        }
    }

    pub fn get(&self, id: SecurityId) -> Option<Arc<[u8]>> {
        self.0.get(&id).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All descriptors.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(|descriptor| &**descriptor)
    }

    pub fn encode(&self) -> String {
        let mut out = format!("{SECURITY_HEADER}\n");
        for (id, descriptor) in &self.0 {
            let _ = write!(out, "{id} ");
            for byte in descriptor.iter() {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('\n');
        }
        out
    }

    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut table = Self::default();
        for (line, key, value) in lines(text, SECURITY_HEADER, path)? {
            let refused = |reason: &str| Error::Line {
                path: path.into(),
                line,
                reason: reason.into(),
            };
            let descriptor = from_hex(value).ok_or_else(|| refused("the descriptor is not in lower-case hex"))?;
            let (id, _) = table.intern(&descriptor)?;
            if id.to_string() != key {
                return Err(refused(&format!("the id is `{key}`, and the descriptor's is {id}")));
            }
        }
        Ok(table)
    }
}

/// The full names of a layer's shortened stored names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameTable(BTreeMap<LongNameHash, NtName>);

impl NameTable {
    /// Takes a name in; says whether it is new.
    pub fn insert(&mut self, name: &NtName) -> bool {
        self.0.insert(LongNameHash::of(name), name.clone()).is_none()
    }

    pub fn get(&self, hash: LongNameHash) -> Option<NtName> {
        self.0.get(&hash).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn encode(&self) -> String {
        let mut out = format!("{NAMES_HEADER}\n");
        for (hash, name) in &self.0 {
            let _ = writeln!(out, "{hash} {name}");
        }
        out
    }

    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut table = Self::default();
        for (line, key, value) in lines(text, NAMES_HEADER, path)? {
            let refused = |reason: String| Error::Line {
                path: path.into(),
                line,
                reason,
            };
            let name = NtName::parse(value).map_err(|error| refused(error.to_string()))?;
            let hash = LongNameHash::of(&name);
            if hash.to_string() != key {
                return Err(refused(format!("the hash is `{key}`, and the name's is {hash}")));
            }
            table.0.insert(hash, name);
        }
        Ok(table)
    }
}

/// The key and value of each line after the header, checked to be sorted and distinct.
fn lines<'a>(text: &'a str, header: &str, path: &Path) -> Result<Vec<(usize, &'a str, &'a str)>> {
    let refused = |line: usize, reason: String| Error::Line {
        path: path.into(),
        line,
        reason,
    };
    let body = text
        .strip_prefix(header)
        .and_then(|rest| rest.strip_prefix('\n'))
        .ok_or_else(|| refused(1, format!("expected `{header}`")))?;
    let mut found = Vec::new();
    if body.is_empty() {
        return Ok(found);
    }
    let body = body
        .strip_suffix('\n')
        .ok_or_else(|| refused(text.lines().count(), "the last line has no end; the file is cut".into()))?;
    let mut previous = "";
    for (at, row) in body.split('\n').enumerate() {
        let line = at + 2;
        let (key, value) = row
            .split_once(' ')
            .ok_or_else(|| refused(line, "expected a key, a space and a value".into()))?;
        if key <= previous {
            return Err(refused(line, format!("`{key}` does not come after `{previous}`")));
        }
        previous = key;
        found.push((line, key, value));
    }
    Ok(found)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> &'static Path {
        Path::new(":nt/security")
    }

    #[test]
    fn a_descriptor_is_kept_once_and_found_by_its_id() {
        let mut table = SecurityTable::default();
        let (a, new) = table.intern(b"one").unwrap();
        assert!(new);
        assert_eq!(table.intern(b"one").unwrap(), (a, false));
        table.intern(b"two").unwrap();
        table.intern(b"").unwrap();
        let back = SecurityTable::parse(&table.encode(), path()).unwrap();
        assert_eq!(back, table);
        assert_eq!(back.get(a).as_deref(), Some(&b"one"[..]));
    }

    #[test]
    fn a_damaged_line_is_refused_with_its_number() {
        let mut table = SecurityTable::default();
        table.intern(b"one").unwrap();
        table.intern(b"two").unwrap();
        let text = table.encode();
        let lines: Vec<_> = text.lines().collect();
        let swapped = format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1]);
        let flipped = text.replacen("6f6e65", "6f6e66", 1);
        for (bad, right) in [
            (swapped, 3),
            (flipped, 2),
            (text.trim_end().to_owned(), 3),
            (String::new(), 1),
        ] {
            match SecurityTable::parse(&bad, path()) {
                Err(Error::Line { line, .. }) if line == right || bad.contains("6f6e66") => {}
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn tables_come_back_and_a_damaged_one_is_refused_or_equal(
            descriptors in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
            at in 0usize..200, to in any::<u8>()
        ) {
            let mut table = SecurityTable::default();
            for descriptor in &descriptors {
                table.intern(descriptor).unwrap();
            }
            let text = table.encode();
            prop_assert_eq!(&SecurityTable::parse(&text, path()).unwrap(), &table);
            let mut bytes = text.clone().into_bytes();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            if let Ok(changed) = String::from_utf8(bytes)
                && let Ok(other) = SecurityTable::parse(&changed, path())
            {
                prop_assert_eq!(other.encode(), changed);
            }
        }

        #[test]
        fn full_names_come_back(units in proptest::collection::vec(any::<u16>(), 1..255)) {
            let mut table = NameTable::default();
            if let Ok(name) = NtName::new(&units) {
                table.insert(&name);
                let back = NameTable::parse(&table.encode(), path()).unwrap();
                prop_assert_eq!(back.get(LongNameHash::of(&name)), Some(name));
            }
        }
    }
}
