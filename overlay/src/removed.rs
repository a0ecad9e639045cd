// SPDX-License-Identifier: GPL-3.0-or-later
//! `removed`: the names of the parents that a world does not show.
//!
//! One escaped path a line, sorted by components and their UTF-16 units, distinct without regard to case, each line
//! with its LF. The file is empty in a base. If it is broken, files that were deleted come back.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{self, Durable};
use crate::name::NtPath;

/// The file's name in the world's directory.
pub const FILE_NAME: &str = "removed";
/// The most bytes that are read: some 2.5 million paths.
const MAX_BYTES: u64 = 256 << 20;

/// The removed marks of one world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// By the path as lookups compare it.
    marks: BTreeMap<Vec<Box<[u16]>>, NtPath>,
}

impl Removed {
    /// Reads the text of the file; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Line`] for what is no escaped path, is out of order or there twice.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut removed = Self::default();
        if text.is_empty() {
            return Ok(removed);
        }
        let refused = |line: usize, reason: String| Error::Line {
            path: path.into(),
            line,
            reason,
        };
        let body = text
            .strip_suffix('\n')
            .ok_or_else(|| refused(text.lines().count(), "the last line has no end; the file is cut".into()))?;
        let mut previous: Option<NtPath> = None;
        for (at, row) in body.split('\n').enumerate() {
            let mark = NtPath::parse(row).map_err(|error| refused(at + 1, error.to_string()))?;
            if mark.to_string() != row || mark.is_root() {
                return Err(refused(at + 1, format!("`{row}` is not how a removed path is written")));
            }
            if let Some(previous) = previous.filter(|previous| *previous >= mark) {
                return Err(refused(at + 1, format!("`{mark}` does not come after `{previous}`")));
            }
            if !removed.insert(&mark) {
                return Err(refused(at + 1, format!("`{mark}` is there twice, but for case")));
            }
            previous = Some(mark);
        }
        Ok(removed)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for mark in self.sorted() {
            out.push_str(&mark.to_string());
            out.push('\n');
        }
        out
    }

    /// The marks in the file's order.
    pub fn sorted(&self) -> Vec<&NtPath> {
        let mut marks: Vec<_> = self.marks.values().collect();
        marks.sort();
        marks
    }

    /// Hides a path of the parents; says whether it was not hidden yet.
    pub fn insert(&mut self, path: &NtPath) -> bool {
        match self.marks.entry(path.folded()) {
            std::collections::btree_map::Entry::Occupied(_) => false,
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(path.clone());
                true
            }
        }
    }

    /// Takes a mark away; says whether it was there.
    pub fn remove(&mut self, path: &NtPath) -> bool {
        self.marks.remove(&path.folded()).is_some()
    }

    /// Takes away all marks below a path (and not the path's own).
    pub fn remove_below(&mut self, path: &NtPath) {
        let top = path.folded();
        let below: Vec<_> = self
            .marks
            .range(top.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(&top))
            .cloned()
            .collect();
        for key in below.into_iter().filter(|key| *key != top) {
            self.marks.remove(&key);
        }
    }

    /// The names in a directory that have a mark, as lookups compare them.
    pub(crate) fn children(&self, dir: &NtPath) -> Vec<Box<[u16]>> {
        if self.marks.is_empty() {
            return Vec::new();
        }
        let dir = dir.folded();
        let below = self
            .marks
            .range(dir.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(&dir));
        below
            .filter(|key| key.len() == dir.len() + 1)
            .filter_map(|key| key.last().cloned())
            .collect()
    }

    /// Whether the path itself has a mark.
    pub fn has_mark(&self, path: &NtPath) -> bool {
        self.marks.contains_key(&path.folded())
    }

    /// Whether the path, or a directory that it is in, is hidden.
    pub fn hides(&self, path: &NtPath) -> bool {
        let folded = path.folded();
        (1..=folded.len()).any(|length| {
            folded
                .get(..length)
                .is_some_and(|prefix| self.marks.contains_key(prefix))
        })
    }

    /// Whether nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// How many marks there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    pub(crate) fn read(world: impl AsFd, place: &Path) -> Result<Self> {
        match files::read_text(world, FILE_NAME, place, MAX_BYTES)? {
            Some(text) => Self::parse(&text, &place.join(FILE_NAME)),
            None => Ok(Self::default()),
        }
    }

    pub(crate) fn write(&self, world: impl AsFd, place: &Path, durable: Durable) -> Result<std::fs::File> {
        files::replace(world, FILE_NAME, self.to_text().as_bytes(), place, durable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> NtPath {
        NtPath::parse(text).unwrap()
    }

    fn marks(texts: &[&str]) -> Removed {
        let mut removed = Removed::default();
        for text in texts {
            removed.insert(&path(text));
        }
        removed
    }

    #[test]
    fn a_mark_hides_its_path_and_what_is_below_and_no_other() {
        let removed = marks(&["a\\x", "Windows\\Temp"]);
        assert!(removed.hides(&path("A\\X")) && removed.hides(&path("a\\x\\deep\\er")));
        for other in ["a", "b\\x", "x", "a\\xy", "a\\x y", "Windows"] {
            assert!(!removed.hides(&path(other)), "{other}");
        }
        assert!(removed.has_mark(&path("WINDOWS\\temp")) && !removed.has_mark(&path("Windows\\Temp\\x")));
        assert_eq!(removed.to_text(), "Windows\\Temp\na\\x\n");
    }

    #[test]
    fn marks_below_a_path_are_taken_away_with_it() {
        let mut removed = marks(&["a", "a\\b", "A\\c\\d", "a b", "ab"]);
        removed.remove_below(&path("a"));
        assert_eq!(removed.to_text(), "a\na b\nab\n");
        assert!(removed.remove(&path("A")) && !removed.remove(&path("A")));
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_line() {
        for (text, right) in [
            ("b\na\n", 2),
            ("a\na\n", 2),
            ("a\nA\n", 2),
            ("a", 1),
            ("a\n\n", 2),
            ("\\a\n", 1),
            ("a\nb:0041\n", 2),
            ("a\\..\\b\n", 1),
            ("\\\n", 1),
            ("a/b\n", 1),
            ("A\na\n", 2),
        ] {
            match Removed::parse(text, Path::new(FILE_NAME)) {
                Err(Error::Line { line, .. }) => assert_eq!(line, right, "{text:?}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn marks_read_back_and_a_damaged_file_is_refused_or_equal(
            texts in proptest::collection::vec("[aAb:é\\n]{1,3}(\\\\[aAb ]{1,2}){0,3}", 0..8), at in 0usize..80, to in any::<u8>()
        ) {
            let mut removed = Removed::default();
            for text in &texts {
                let path: NtPath = text
                    .split('\\')
                    .filter_map(|part| crate::name::NtName::new(&part.encode_utf16().collect::<Vec<_>>()).ok())
                    .collect();
                if !path.is_root() {
                    removed.insert(&path);
                }
            }
            let text = removed.to_text();
            prop_assert_eq!(&Removed::parse(&text, Path::new(FILE_NAME)).unwrap(), &removed);
            let mut bytes = text.into_bytes();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            if let Ok(changed) = String::from_utf8(bytes)
                && let Ok(other) = Removed::parse(&changed, Path::new(FILE_NAME))
            {
                prop_assert_eq!(other.to_text(), changed);
            }
        }
    }
}
