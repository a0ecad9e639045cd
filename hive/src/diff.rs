// SPDX-License-Identifier: GPL-3.0-or-later
//! Comparing two trees of keys: what was added, removed and changed, named exactly, in NT's order.

use core::cmp::Ordering;
use std::fmt;

use crate::error::Result;
use crate::format::key_flag;
use crate::key::Key;
use crate::name::NameBuf;
use crate::reader::MAX_DEPTH;
use crate::reg_text::{quoted, value_text};
use crate::value::Value;

/// What is compared beside keys, values and their data.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffOptions {
    /// Also the times of last writes.
    pub times: bool,
    /// Also security descriptors, classes and flags.
    pub attributes: bool,
}

/// A value's type and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The type number.
    pub data_type: u32,
    /// The data.
    pub data: Vec<u8>,
}

/// One difference. `path` is below the two keys that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The second tree has a key that the first has not. Its subkeys and values follow, one by one.
    KeyAdded {
        /// The key.
        path: String,
    },
    /// The first tree has a key that the second has not. Its subkeys and values follow, one by one.
    KeyRemoved {
        /// The key.
        path: String,
    },
    /// Something of a key itself.
    KeyChanged {
        /// The key.
        path: String,
        /// What: "class", "security", "flags" or "last write".
        what: &'static str,
    },
    /// A value that only the second tree has.
    ValueAdded {
        /// Its key.
        path: String,
        /// Its name.
        name: String,
        /// What it is.
        new: Content,
    },
    /// A value that only the first tree has.
    ValueRemoved {
        /// Its key.
        path: String,
        /// Its name.
        name: String,
        /// What it was.
        old: Content,
    },
    /// A value that is another one.
    ValueChanged {
        /// Its key.
        path: String,
        /// Its name.
        name: String,
        /// What it was.
        old: Content,
        /// What it is.
        new: Content,
    },
}

impl fmt::Display for Difference {
    /// One line: `+`, `-` or `~`, the key in brackets, the value as registry text. Long data are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |name: &str| if name.is_empty() { "@".to_owned() } else { quoted(name) };
        let short = |content: &Content| {
            let text = value_text(content.data_type, &content.data[..content.data.len().min(64)]);
            match content.data.len() {
                0..=64 => text,
                more => format!("{text}\u{2026} ({more} bytes)"),
            }
        };
        match self {
            Self::KeyAdded { path } => write!(f, "+ [{path}]"),
            Self::KeyRemoved { path } => write!(f, "- [{path}]"),
            Self::KeyChanged { path, what } => write!(f, "~ [{path}] {what}"),
            Self::ValueAdded { path, name, new } => write!(f, "+ [{path}] {}={}", value(name), short(new)),
            Self::ValueRemoved { path, name, old } => write!(f, "- [{path}] {}={}", value(name), short(old)),
            Self::ValueChanged { path, name, old, new } => {
                write!(f, "~ [{path}] {}: {} -> {}", value(name), short(old), short(new))
            }
        }
    }
}

/// Compares two trees and calls `each` for every difference, in NT's order of names.
///
/// # Errors
/// Damage in either tree; what `each` returns.
pub fn diff(
    old: Key<'_>,
    new: Key<'_>,
    options: DiffOptions,
    each: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<()> {
    Walker {
        options,
        each,
        path: Vec::new(),
        nr_left: 2 * (old.cells.bins.len() + new.cells.bins.len()) / 80 + 2,
    }
    .both(old, new)
}

struct Walker<'e> {
    options: DiffOptions,
    each: &'e mut dyn FnMut(Difference) -> Result<()>,
    path: Vec<NameBuf>,
    /// More keys than two hives can hold mean a cycle.
    nr_left: usize,
}

fn sorted<'a>(key: &Key<'a>) -> Result<Vec<Key<'a>>> {
    let mut keys = key.subkeys()?.collect::<Result<Vec<_>>>()?;
    keys.sort_by(|a, b| a.name().cmp_upcase(b.name()));
    Ok(keys)
}

fn sorted_values<'a>(key: &Key<'a>) -> Result<Vec<Value<'a>>> {
    let mut values = key.values()?.collect::<Result<Vec<_>>>()?;
    values.sort_by(|a, b| a.name().cmp_upcase(b.name()));
    Ok(values)
}

fn content(value: &Value<'_>) -> Result<Content> {
    Ok(Content {
        data_type: value.data_type(),
        data: value.data()?.to_vec(),
    })
}

/// Calls `each` with what both lists have of one name, in order.
fn join<T: Copy>(
    old: &[T],
    new: &[T],
    compare: impl Fn(&T, &T) -> Ordering,
    mut each: impl FnMut(Option<T>, Option<T>) -> Result<()>,
) -> Result<()> {
    let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => compare(x, y),
        };
        match order {
            Ordering::Less => each(a.next().copied(), None)?,
            Ordering::Greater => each(None, b.next().copied())?,
            Ordering::Equal => each(a.next().copied(), b.next().copied())?,
        }
    }
}

impl Walker<'_> {
    fn path(&self) -> String {
        self.path
            .iter()
            .map(|name| name.as_name().to_string())
            .collect::<Vec<_>>()
            .join("\\")
    }

    fn enter(&mut self, key: &Key<'_>) -> Result<()> {
        let limit = crate::Error::TooDeep {
            offset: key.file_offset(),
            limit: MAX_DEPTH,
        };
        if self.path.len() >= MAX_DEPTH {
            return Err(limit);
        }
        let Some(left) = self.nr_left.checked_sub(1) else {
            return Err(crate::Error::KeyReachedTwice {
                offset: key.file_offset(),
            });
        };
        self.nr_left = left;
        Ok(())
    }

    fn both(&mut self, old: Key<'_>, new: Key<'_>) -> Result<()> {
        self.enter(&old)?;
        let path = self.path();
        let flags = |key: &Key<'_>| {
            let own = key.flags() & !(key_flag::COMPRESSED_NAME | key_flag::HIVE_ENTRY | key_flag::NO_DELETE);
            (own, key.user_flags(), key.layer_flags())
        };
        let attributes = self.options.attributes;
        for (asked, same, what) in [
            (attributes, old.class()? == new.class()?, "class"),
            (attributes, old.security()? == new.security()?, "security"),
            (attributes, flags(&old) == flags(&new), "flags"),
            (
                self.options.times,
                old.last_written() == new.last_written(),
                "last write",
            ),
        ] {
            if asked && !same {
                (self.each)(Difference::KeyChanged {
                    path: path.clone(),
                    what,
                })?;
            }
        }
        let each = &mut self.each;
        join(
            &sorted_values(&old)?,
            &sorted_values(&new)?,
            |a, b| a.name().cmp_upcase(b.name()),
            |old, new| match (old, new) {
                (Some(old), Some(new)) if old.data_type() == new.data_type() && old.data()? == new.data()? => Ok(()),
                (Some(old), Some(new)) => each(Difference::ValueChanged {
                    path: path.clone(),
                    name: new.name().to_string(),
                    old: content(&old)?,
                    new: content(&new)?,
                }),
                (Some(old), None) => each(Difference::ValueRemoved {
                    path: path.clone(),
                    name: old.name().to_string(),
                    old: content(&old)?,
                }),
                (None, Some(new)) => each(Difference::ValueAdded {
                    path: path.clone(),
                    name: new.name().to_string(),
                    new: content(&new)?,
                }),
                (None, None) => Ok(()),
            },
        )?;
        join(
            &sorted(&old)?,
            &sorted(&new)?,
            |a, b| a.name().cmp_upcase(b.name()),
            |old, new| {
                let Some(key) = new.or(old) else { return Ok(()) };
                self.path.push(key.name().into());
                match (old, new) {
                    (Some(old), Some(new)) => self.both(old, new)?,
                    _ => self.one(key, new.is_some())?,
                }
                self.path.pop();
                Ok(())
            },
        )
    }

    /// A key that only one tree has, with all in it.
    fn one(&mut self, key: Key<'_>, added: bool) -> Result<()> {
        self.enter(&key)?;
        let path = self.path();
        (self.each)(if added {
            Difference::KeyAdded { path: path.clone() }
        } else {
            Difference::KeyRemoved { path: path.clone() }
        })?;
        for value in sorted_values(&key)? {
            let (path, name, content) = (path.clone(), value.name().to_string(), content(&value)?);
            (self.each)(if added {
                Difference::ValueAdded {
                    path,
                    name,
                    new: content,
                }
            } else {
                Difference::ValueRemoved {
                    path,
                    name,
                    old: content,
                }
            })?;
        }
        for subkey in sorted(&key)? {
            self.path.push(subkey.name().into());
            self.one(subkey, added)?;
            self.path.pop();
        }
        Ok(())
    }
}
