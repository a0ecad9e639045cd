// SPDX-License-Identifier: GPL-3.0-or-later
//! What is different between two worlds, as programs see them.
//!
//! Both trees are walked at once, in NT's order. What both have from the same layer of the same world is not looked at:
//! a fork is compared with its parent in the time that its own files take. Bytes are compared, not hashes.

use std::cmp::Ordering;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::layer::{Entry, Kind};
use crate::layers::{Layers, Located};
use crate::manifest::{Change, Difference, FieldChange, What};
use crate::name::NtPath;

const BUFFER_BYTES: usize = 128 * 1024;

/// What the second world has otherwise than the first: files, directories, streams, in path order.
///
/// # Errors
/// What Linux says, and damage of either world.
pub fn diff(expected: &Layers, found: &Layers) -> Result<Vec<Difference>> {
    let mut out = Vec::new();
    let roots = (expected.locate_root(), found.locate_root());
    let mut todo = vec![Step::Both(roots.0, roots.1)];
    while let Some(step) = todo.pop() {
        match step {
            Step::Both(old, new) => {
                if same_place(expected, &old, found, &new) {
                    continue;
                }
                entry(expected, &old, found, &new, &mut out)?;
                if old.kind() == Kind::Directory || new.kind() == Kind::Directory {
                    let children = |layers: &Layers, dir: &Located| match dir.kind() {
                        Kind::Directory => layers.children(dir),
                        Kind::File => Ok(Vec::new()),
                    };
                    let merged = merge(children(expected, &old)?, children(found, &new)?);
                    todo.extend(merged.into_iter().rev());
                }
            }
            Step::Missing(old) => whole(expected, &old, &mut todo, &mut out, Change::Missing, Step::Missing)?,
            Step::Added(new) => whole(found, &new, &mut todo, &mut out, Change::Added, Step::Added)?,
        }
    }
    Ok(out)
}

enum Step {
    Both(Located, Located),
    Missing(Located),
    Added(Located),
}

/// An entry that only one world has, and all in it.
fn whole(
    layers: &Layers,
    located: &Located,
    todo: &mut Vec<Step>,
    out: &mut Vec<Difference>,
    change: Change,
    step: fn(Located) -> Step,
) -> Result<()> {
    out.push(Difference {
        what: What::Entry,
        path: located.nt_path.to_string(),
        change: change.clone(),
    });
    for stream in layers.streams(&located.nt_path)? {
        let path = format!("{}::{}", located.nt_path, stream.name);
        out.push(Difference {
            what: What::Stream,
            path,
            change: change.clone(),
        });
    }
    if located.kind() == Kind::Directory {
        todo.extend(layers.children(located)?.into_iter().rev().map(step));
    }
    Ok(())
}

/// Pairs the entries of two directories; both come in NT's order.
fn merge(old: Vec<Located>, new: Vec<Located>) -> Vec<Step> {
    let order = |a: &Located, b: &Located| match (a.nt_path.name(), b.nt_path.name()) {
        (Some(a), Some(b)) => crate::upcase::cmp_names(a.units(), b.units()),
        (a, b) => a.cmp(&b),
    };
    let mut steps = Vec::new();
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let next = match (old.peek(), new.peek()) {
            (None, None) => return steps,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => order(a, b),
        };
        match next {
            Ordering::Less => steps.extend(old.next().map(Step::Missing)),
            Ordering::Greater => steps.extend(new.next().map(Step::Added)),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (old.next(), new.next()) {
                    steps.push(Step::Both(a, b));
                }
            }
        }
    }
}

/// Whether both come from the same files of the same worlds, with all that shows in them.
fn same_place(a_layers: &Layers, a: &Located, b_layers: &Layers, b: &Located) -> bool {
    let places = |layers: &Layers, located: &Located| -> Vec<_> {
        let place = |part: &crate::layers::Part| layers.file_of(part);
        located.parts.iter().map(place).collect()
    };
    // A directory's marks belong to its layer, so the same layers hide the same.
    let (a, b) = (places(a_layers, a), places(b_layers, b));
    !a.is_empty() && a.iter().all(Option::is_some) && a == b
}

fn entry(expected: &Layers, old: &Located, found: &Layers, new: &Located, out: &mut Vec<Difference>) -> Result<()> {
    let (was, is) = (expected.entry(old)?, found.entry(new)?);
    let mut fields = Vec::new();
    let mut field = |name: &str, was: Option<String>, is: Option<String>| {
        if was != is {
            fields.push(FieldChange {
                field: name.into(),
                expected: was,
                found: is,
            });
        }
    };
    let kind = |kind: Kind| Some(if kind == Kind::File { "file" } else { "directory" }.to_owned());
    field("kind", kind(old.kind()), kind(new.kind()));
    field("name", name(&was), name(&is));
    field(
        "attributes",
        Some(format!("{:08x}", was.meta.attributes)),
        Some(format!("{:08x}", is.meta.attributes)),
    );
    field(
        "created",
        Some(was.meta.created.to_string()),
        Some(is.meta.created.to_string()),
    );
    field(
        "written",
        Some(was.meta.written.to_string()),
        Some(is.meta.written.to_string()),
    );
    field(
        "changed",
        was.meta.changed.map(|t| t.to_string()),
        is.meta.changed.map(|t| t.to_string()),
    );
    field(
        "security",
        was.meta.security.map(|id| id.to_string()),
        is.meta.security.map(|id| id.to_string()),
    );
    let tag = |entry: &Entry| entry.meta.reparse_tag.map(|tag| format!("{tag:08x}"));
    field("tag", tag(&was), tag(&is));
    let short = |entry: &Entry| entry.meta.short_name.as_ref().map(ToString::to_string);
    field("short", short(&was), short(&is));
    let reparse = |layers: &Layers, located: &Located| -> Result<Option<String>> {
        let data = layers.reparse_data(&located.nt_path)?;
        Ok(data.map(|data| Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()))
    };
    if was.meta.extra.is_some() || is.meta.extra.is_some() {
        field("reparse", reparse(expected, old)?, reparse(found, new)?);
    }
    if old.kind() == Kind::File && new.kind() == Kind::File {
        field(
            "size",
            Some(was.size_bytes.to_string()),
            Some(is.size_bytes.to_string()),
        );
        if was.size_bytes == is.size_bytes {
            let (a, b) = (expected.open_located(old)?, found.open_located(new)?);
            if let Some(at) = first_difference(&a, &b, Path::new(&new.nt_path.to_string()))? {
                field(
                    "content",
                    Some(format!("as it was up to byte {at}")),
                    Some("otherwise from there".into()),
                );
            }
        }
    }
    if !fields.is_empty() {
        let path = new.nt_path.to_string();
        out.push(Difference {
            what: What::Entry,
            path,
            change: Change::Changed(fields),
        });
    }
    if was.meta.extra.is_some() || is.meta.extra.is_some() {
        streams(expected, &old.nt_path, found, &new.nt_path, out)?;
    }
    Ok(())
}

fn name(entry: &Entry) -> Option<String> {
    Some(entry.name().to_string())
}

fn streams(expected: &Layers, old: &NtPath, found: &Layers, new: &NtPath, out: &mut Vec<Difference>) -> Result<()> {
    let (was, is) = (expected.streams(old)?, found.streams(new)?);
    for stream in &was {
        let path = format!("{new}::{}", stream.name);
        let Some(other) = is
            .iter()
            .find(|other| crate::upcase::eq_names(other.name.units(), stream.name.units()))
        else {
            out.push(Difference {
                what: What::Stream,
                path,
                change: Change::Missing,
            });
            continue;
        };
        let mut fields = Vec::new();
        if other.size_bytes != stream.size_bytes {
            fields.push(FieldChange {
                field: "size".into(),
                expected: Some(stream.size_bytes.to_string()),
                found: Some(other.size_bytes.to_string()),
            });
        } else {
            let (a, b) = (
                expected.open_stream(old, &stream.name)?,
                found.open_stream(new, &other.name)?,
            );
            if let Some(at) = first_difference(&a, &b, Path::new(&path))? {
                fields.push(FieldChange {
                    field: "content".into(),
                    expected: Some(format!("as it was up to byte {at}")),
                    found: Some("otherwise from there".into()),
                });
            }
        }
        if !fields.is_empty() {
            out.push(Difference {
                what: What::Stream,
                path,
                change: Change::Changed(fields),
            });
        }
    }
    for stream in &is {
        if !was
            .iter()
            .any(|other| crate::upcase::eq_names(other.name.units(), stream.name.units()))
        {
            let path = format!("{new}::{}", stream.name);
            out.push(Difference {
                what: What::Stream,
                path,
                change: Change::Added,
            });
        }
    }
    Ok(())
}

/// The offset of the first byte that is different; a shorter file ends there.
pub(crate) fn first_difference(a: &File, b: &File, place: &Path) -> Result<Option<u64>> {
    let (mut one, mut two) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut at = 0u64;
    loop {
        let read = read_full(a, &mut one, place)?;
        let other = read_full(b, &mut two, place)?;
        let (x, y) = (
            one.get(..read).unwrap_or_default(),
            two.get(..other).unwrap_or_default(),
        );
        if x != y {
            let same = x.iter().zip(y).take_while(|(x, y)| x == y).count();
            return Ok(Some(at + same as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        at += read as u64;
    }
}

fn read_full(file: impl AsFd, buffer: &mut [u8], place: &Path) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("read", place, error)),
        }
    }
    Ok(filled)
}
