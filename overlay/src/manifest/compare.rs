// SPDX-License-Identifier: GPL-3.0-or-later
//! What is different between two manifests, by name.

use std::collections::BTreeMap;
use std::fmt;

/// What a line of a manifest is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum What {
    /// A file, a directory, or a further name of a file.
    Entry,
    /// A named stream.
    Stream,
    /// A security descriptor.
    SecurityDescriptor,
    /// A removed mark.
    RemovedMark,
    /// `registry.hiv`.
    Registry,
    /// A key of the registry.
    RegistryKey,
    /// A value of the registry; its path is its key's, `::`, and its name.
    RegistryValue,
    /// Something in `:nt` that belongs to no file.
    Reserved,
    /// A field of `world.conf`.
    WorldConf,
    /// A line that this version does not know.
    Unknown,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            Self::Entry => "",
            Self::Stream => "stream ",
            Self::SecurityDescriptor => "security descriptor ",
            Self::RemovedMark => "removed mark ",
            Self::Registry => "registry ",
            Self::RegistryKey => "registry key ",
            Self::RegistryValue => "registry value ",
            Self::Reserved => "entry of :nt, ",
            Self::WorldConf => "world.conf field ",
            Self::Unknown => "line ",
        }
    }
}

/// One field that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The field, as in the manifest (`attributes`, `blake3`, …); `kind` is file, directory or hard link.
    pub field: String,
    /// What was expected; `None` when the field was not there.
    pub expected: Option<String>,
    /// What was found; `None` when the field is not there.
    pub found: Option<String>,
}

/// How a line is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is there and was not expected.
    Added,
    /// It was expected and is not there.
    Missing,
    /// Both have it, with other fields.
    Changed(Vec<FieldChange>),
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is about.
    pub what: What,
    /// Its path, id or field name, escaped.
    pub path: String,
    /// How it is different.
    pub change: Change,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.what.words();
        match &self.change {
            Change::Added => write!(f, "added: {words}{}", self.path),
            Change::Missing => write!(f, "missing: {words}{}", self.path),
            Change::Changed(fields) => {
                write!(f, "changed: {words}{}", self.path)?;
                for (at, change) in fields.iter().enumerate() {
                    let none = "nothing";
                    let expected = change.expected.as_deref().unwrap_or(none);
                    let found = change.found.as_deref().unwrap_or(none);
                    let comma = if at == 0 { ": " } else { "; " };
                    write!(f, "{comma}{} is {found}, expected {expected}", change.field)?;
                }
                Ok(())
            }
        }
    }
}

/// The lines of a manifest by what they are about; a value is the kind letter and the fields.
fn lines(text: &str) -> BTreeMap<(What, String), (&str, Vec<&str>)> {
    let mut found = BTreeMap::new();
    for line in text.lines().skip(1) {
        let mut columns = line.split('\t');
        let kind = columns.next().unwrap_or_default();
        let path = columns.next().unwrap_or_default();
        let (what, key) = match kind {
            "d" | "f" | "l" => (What::Entry, path.to_owned()),
            // `::` is in no escaped path, so that this key is the stream's alone.
            "s" => (What::Stream, format!("{path}::{}", columns.next().unwrap_or_default())),
            "a" => (What::SecurityDescriptor, path.to_owned()),
            "r" => (What::RemovedMark, path.to_owned()),
            "h" => (What::Registry, path.to_owned()),
            "c" => (What::WorldConf, path.to_owned()),
            _ => (What::Unknown, line.to_owned()),
        };
        found.insert((what, key), (kind, columns.collect()));
    }
    found
}

fn split_field(field: &str) -> (&str, &str) {
    field.split_once('=').unwrap_or(("value", field))
}

fn kind_words(kind: &str) -> &str {
    match kind {
        "d" => "directory",
        "f" => "file",
        "l" => "hard link",
        other => other,
    }
}

fn field_changes(expected: &(&str, Vec<&str>), found: &(&str, Vec<&str>)) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    if expected.0 != found.0 {
        changes.push(FieldChange {
            field: "kind".into(),
            expected: Some(kind_words(expected.0).into()),
            found: Some(kind_words(found.0).into()),
        });
    }
    let old: BTreeMap<_, _> = expected.1.iter().map(|field| split_field(field)).collect();
    let new: BTreeMap<_, _> = found.1.iter().map(|field| split_field(field)).collect();
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for &&name in &names {
        let (was, is) = (old.get(name), new.get(name));
        if was != is {
            changes.push(FieldChange {
                field: name.into(),
                expected: was.map(|value| (*value).into()),
                found: is.map(|value| (*value).into()),
            });
        }
    }
    changes
}

pub(super) fn compare(expected: &str, found: &str) -> Vec<Difference> {
    let (old, new) = (lines(expected), lines(found));
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let change = match (old.get(key), new.get(key)) {
            (Some(was), Some(is)) if was == is => continue,
            (Some(was), Some(is)) => Change::Changed(field_changes(was, is)),
            (Some(_), None) => Change::Missing,
            (None, Some(_)) => Change::Added,
            (None, None) => continue,
        };
        differences.push(Difference {
            what: key.0,
            path: key.1.clone(),
            change,
        });
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_named() {
        let old = "vodka-manifest 1\nf\ta\tattributes=00000020\tsize=1\tblake3=aa\nf\tb\tsize=2\ns\ta\tx\tsize=1\nh\tregistry.hiv\tsize=9\n";
        let new =
            "vodka-manifest 1\nd\ta\tattributes=00000021\nf\tc\tsize=2\ns\ta\tx\tsize=2\nh\tregistry.hiv\tsize=9\n";
        let texts: Vec<_> = compare(old, new).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "changed: a: kind is directory, expected file; attributes is 00000021, expected 00000020; \
                 blake3 is nothing, expected aa; size is nothing, expected 1",
                "missing: b",
                "added: c",
                "changed: stream a::x: size is 2, expected 1",
            ]
        );
        assert!(compare(old, old).is_empty());
    }
}
