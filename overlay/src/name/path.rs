// SPDX-License-Identifier: GPL-3.0-or-later
//! Paths inside a world.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{NameError, NtName};

/// A path from the root of a world's `files/`: components, none of them `.` or `..`.
///
/// Its order is component by component, by UTF-16 units: a directory comes before what is in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NtPath(Vec<NtName>);

impl NtPath {
    /// The root of the drive.
    pub fn root() -> Self {
        Self::default()
    }

    /// Takes a path in its escaped text; both `\` and `/` part components, and empty ones are skipped, so that
    /// `\Windows\`, `Windows` and `/Windows` are one.
    ///
    /// # Errors
    /// As [`NtName::parse`], for the first component that is refused.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        text.split(['\\', '/'])
            .filter(|part| !part.is_empty())
            .map(NtName::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The path of an entry of this directory.
    #[must_use]
    pub fn join(&self, name: &NtName) -> Self {
        let mut path = Vec::with_capacity(self.0.len() + 1);
        path.extend_from_slice(&self.0);
        path.push(name.clone());
        Self(path)
    }

    /// Goes into an entry.
    pub fn push(&mut self, name: NtName) {
        self.0.push(name);
    }

    /// Goes out of an entry; gives its name, or `None` at the root.
    pub fn pop(&mut self) -> Option<NtName> {
        self.0.pop()
    }

    /// The components from the root.
    pub fn components(&self) -> &[NtName] {
        &self.0
    }

    /// The last component; `None` for the root.
    pub fn name(&self) -> Option<&NtName> {
        self.0.last()
    }

    /// The directory that the entry is in; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parent) = self.0.split_last()?;
        Some(Self(parent.to_vec()))
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as lookups compare it: every unit upcased.
    pub(crate) fn folded(&self) -> Vec<Box<[u16]>> {
        self.0.iter().map(NtName::folded).collect()
    }
}

impl FromIterator<NtName> for NtPath {
    fn from_iter<T: IntoIterator<Item = NtName>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

impl fmt::Display for NtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\\");
        }
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\\")?;
            }
            fmt::Display::fmt(name, f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for NtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// A path in eight bytes: the first eight of SHA-256 over its escaped text.
///
/// It says which of several hard links a short name belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub [u8; 8]);

impl PathId {
    /// The id of a path, as spelled.
    pub fn of(path: &NtPath) -> Self {
        Self(first_eight(&Sha256::digest(path.to_string())))
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The first eight bytes of a hash.
pub(crate) fn first_eight(hash: &[u8]) -> [u8; 8] {
    let mut id = [0; 8];
    for (to, from) in id.iter_mut().zip(hash) {
        *to = *from;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back_as_it_was_written() {
        for text in ["\\", "Windows\\System32\\notepad.exe", "a:003ab\\x", ":002e\\:d800"] {
            // `.` is no component even in its escaped form.
            match NtPath::parse(text) {
                Ok(path) => assert_eq!(path.to_string(), text),
                Err(error) => assert!(text.starts_with(":002e"), "{error}"),
            }
        }
        assert_eq!(
            NtPath::parse("/Windows//System32/").map(|p| p.to_string()),
            Ok("Windows\\System32".into())
        );
        assert!(NtPath::parse("a\\..\\b").is_err());
    }

    #[test]
    fn a_directory_comes_before_what_is_in_it_and_its_like_named_neighbour_after() {
        let mut paths: Vec<_> = ["a b", "a\\z", "a", "a\\b", "B", "a!"]
            .iter()
            .filter_map(|p| NtPath::parse(p).ok())
            .collect();
        paths.sort();
        let texts: Vec<_> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["B", "a", "a\\b", "a\\z", "a b", "a!"]);
    }
}
