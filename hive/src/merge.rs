// SPDX-License-Identifier: GPL-3.0-or-later
//! From trees and hives to one new hive, streamed: no more than a level's frames is held beside the
//! result. The import's registry stage and the canonical form of a world's registry rest on this.

use crate::emit::{Emitter, KeyRecord, Security, SecurityId};
use crate::error::{Error, Result};
use crate::key::MAX_KEY_NAME_UNITS;
use crate::name::{Name, NameBuf};
use crate::reader::{Hive, MAX_DEPTH};
use crate::tree::{DEFAULT_SECURITY, Node, WriteOptions};
use crate::value::{Data, MAX_VALUE_NAME_UNITS};
use crate::walk::{Counts, DamageReport, Order, Walk};

/// Builds one hive out of several, each below a key path: whole keys, values, classes, security
/// descriptors, link targets and last-write times.
///
/// The root key of a source becomes the key at its path, under the path's name. Keys on the way get
/// [`DEFAULT_SECURITY`] and the time of the options. Volatile subkeys, which a file holds only as stale
/// counts, are not taken; boot-time access bits and the spare fields of nodes are no content and are
/// written as 0.
pub struct Merge<'a> {
    options: WriteOptions,
    root: Node,
    sources: Vec<Source<'a>>,
}

pub(crate) struct Source<'a> {
    path: String,
    names: Vec<NameBuf>,
    hive: Hive<'a>,
    report: SourceReport,
}

/// What came of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Where it was put.
    pub path: String,
    /// What was written of it. Its root, now the key at that path, is counted as a key.
    pub counts: Counts,
    /// What was left out, when not strict.
    pub damage: DamageReport,
}

/// A merged hive.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The file.
    pub bytes: Vec<u8>,
    /// For each source, in the order they were given.
    pub sources: Vec<SourceReport>,
    /// The whole hive, its root included.
    pub total: Counts,
}

impl<'a> Merge<'a> {
    /// A merge with nothing in it.
    #[must_use]
    pub fn new(options: WriteOptions) -> Self {
        Self {
            options,
            root: Node::new("ROOT"),
            sources: Vec::new(),
        }
    }

    /// The tree that the sources are put into; for a caller who wants other keys beside them.
    pub fn tree(&mut self) -> &mut Node {
        &mut self.root
    }

    /// Puts a hive below a path, such as `Windows\Machine\SYSTEM`. The path is new; sources may not be
    /// put into one another.
    ///
    /// # Errors
    /// An empty path, or one that is taken.
    pub fn mount(&mut self, path: &str, hive: Hive<'a>) -> Result<()> {
        let names: Vec<NameBuf> = path
            .split('\\')
            .filter(|name| !name.is_empty())
            .map(NameBuf::from)
            .collect();
        if names.is_empty() {
            return Err(Error::InvalidName {
                what: "a mount path",
                actual: 0,
                limit: MAX_KEY_NAME_UNITS,
            });
        }
        let overlaps = |other: &Source<'_>| {
            names
                .iter()
                .zip(&other.names)
                .all(|(a, b)| a.as_name().cmp_upcase(b.as_name()).is_eq())
        };
        if self.sources.iter().any(overlaps) {
            return Err(Error::AlreadyExists { path: path.to_owned() });
        }
        self.sources.push(Source {
            path: path.to_owned(),
            names,
            hive,
            report: SourceReport::default(),
        });
        Ok(())
    }

    /// Writes the merged hive.
    ///
    /// # Errors
    /// When strict, the first fault in a source, with its path in the result; a result that would be
    /// larger than four times its sources (which only a hostile source can cause) or than 2 GiB.
    pub fn build(mut self) -> Result<Merged> {
        let input: usize = self.sources.iter().map(|source| source.hive.bins_bytes()).sum();
        let tree = tree_bytes(&self.root);
        for source in &self.sources {
            if let Some((_, parents)) = source.names.split_last() {
                parents
                    .iter()
                    .fold(&mut self.root, |node, name| node.subkey_named(name.clone()));
            }
        }
        // A source of version 1.3 with many values just over 16,344 bytes can double.
        let limit = input.saturating_mul(4).saturating_add(tree).saturating_add(1 << 20);
        let mut emitter = Emitter::new(input + input / 32 + tree + (1 << 16), limit);
        let mut sources: Vec<&mut Source<'a>> = self.sources.iter_mut().collect();
        let total = emit_node(
            &mut emitter,
            &self.root,
            &mut Vec::new(),
            &self.options,
            sources.as_mut_slice(),
        )?;
        let bytes = emitter.finish(self.options.timestamp, &self.options.file_name);
        let sources = self.sources.into_iter().map(|source| SourceReport {
            path: source.path,
            ..source.report
        });
        Ok(Merged {
            bytes,
            sources: sources.collect(),
            total,
        })
    }
}

/// A bound of what a tree needs, without its sources.
fn tree_bytes(node: &Node) -> usize {
    let values: usize = node
        .values
        .iter()
        .map(|v| 128 + v.name.as_name().len() * 2 + v.data.len() * 2)
        .sum();
    let own = 512 + node.name.as_name().len() * 2 + node.class.as_ref().map_or(0, Vec::len);
    own + node.security.as_ref().map_or(0, Vec::len) + values + node.subkeys.iter().map(tree_bytes).sum::<usize>()
}

fn path_text(path: &[NameBuf]) -> String {
    path.iter()
        .map(|name| name.as_name().to_string())
        .collect::<Vec<_>>()
        .join("\\")
}

fn check_name(what: &'static str, name: Name<'_>, least: usize, limit: usize) -> Result<()> {
    let bad = name.len() < least || name.len() > limit;
    if bad || (least > 0 && name.units().any(|unit| unit == u16::from(b'\\'))) {
        return Err(Error::InvalidName {
            what,
            actual: name.len(),
            limit,
        });
    }
    Ok(())
}

/// Writes a node and all below it, with the sources that are mounted there. `path` holds the names from
/// the root, the root's own left out.
pub(crate) fn emit_node(
    emitter: &mut Emitter,
    node: &Node,
    path: &mut Vec<NameBuf>,
    options: &WriteOptions,
    sources: &mut [&mut Source<'_>],
) -> Result<Counts> {
    let mut counts = Counts {
        keys: 1,
        values: node.values.len() as u64,
    };
    if path.len() >= MAX_DEPTH {
        return Err(Error::TooDeep {
            offset: 0,
            limit: MAX_DEPTH,
        }
        .in_key(|| path_text(path)));
    }
    emitter.open_key(&KeyRecord {
        name: node.name.as_name(),
        flags: node.flags,
        last_written: node.last_written.unwrap_or(options.timestamp),
        user_flags: node.user_flags,
        debug_flags: 0,
        layer_flags: node.layer_flags,
        class: node.class.as_deref(),
        security: Some(Security::Bytes(node.security.as_deref().unwrap_or(DEFAULT_SECURITY))),
        predefined_handle: 0,
    })?;
    for value in &node.values {
        let name = value.name.as_name();
        check_name("a value's name", name, 0, MAX_VALUE_NAME_UNITS)
            .map_err(|error| error.in_key(|| path_text(path)))?;
        emitter.value(name, value.data_type, value.flags, Data::Plain(&value.data))?;
    }
    emitter.end_values()?;

    // Subkeys of the tree and sources that are mounted right here, in NT's order.
    let mut children: Vec<(NameBuf, Child)> = node
        .subkeys
        .iter()
        .enumerate()
        .map(|(at, subkey)| (subkey.name.clone(), Child::Node(at)))
        .collect();
    for (at, source) in sources.iter().enumerate() {
        if source.names.len() == path.len() + 1 {
            children.push((source.names[path.len()].clone(), Child::Source(at)));
        }
    }
    children.sort_by(|(a, _), (b, _)| a.as_name().cmp_upcase(b.as_name()));
    for pair in children.windows(2) {
        if pair[0].0.as_name().cmp_upcase(pair[1].0.as_name()).is_eq() {
            let name = pair[0].0.as_name().to_string();
            return Err(Error::DuplicateName { name }.in_key(|| path_text(path)));
        }
    }
    for (name, child) in children {
        check_name("a key's name", name.as_name(), 1, MAX_KEY_NAME_UNITS).map_err(|e| e.in_key(|| path_text(path)))?;
        counts += match child {
            Child::Node(at) => {
                // Only the sources below this child go with it.
                let depth = path.len();
                let mut below: Vec<&mut Source<'_>> = sources
                    .iter_mut()
                    .filter(|s| {
                        s.names.len() > depth + 1 && s.names[depth].as_name().cmp_upcase(name.as_name()).is_eq()
                    })
                    .map(|source| &mut **source)
                    .collect();
                path.push(name);
                let counts = emit_node(emitter, &node.subkeys[at], path, options, &mut below)?;
                path.pop();
                counts
            }
            Child::Source(at) => emit_source(emitter, sources[at], options)?,
        };
    }
    emitter.close_key()?;
    Ok(counts)
}

enum Child {
    Node(usize),
    Source(usize),
}

/// Streams one source below the open key.
fn emit_source(emitter: &mut Emitter, source: &mut Source<'_>, options: &WriteOptions) -> Result<Counts> {
    let prefix = source.path.clone();
    let prefixed = |error: Error| match error {
        Error::InKey { path, source } if path.is_empty() => Error::InKey {
            path: prefix.clone(),
            source,
        },
        Error::InKey { path, source } => Error::InKey {
            path: format!("{prefix}\\{path}"),
            source,
        },
        other => other.in_key(|| prefix.clone()),
    };
    let root = source.hive.root().map_err(prefixed)?;
    let mut walk = Walk::ordered(root, options.strictness, Order::Canonical);
    let counts = emit_walk(emitter, &mut walk, source.names.last()).map_err(prefixed)?;
    let mut damage = walk.into_damage();
    damage.found = damage.found.into_iter().map(prefixed).collect();
    source.report.counts = counts;
    source.report.damage = damage;
    Ok(counts)
}

/// Writes everything that a walk gives below the open key. The start takes the name `name`, if any.
pub(crate) fn emit_walk(emitter: &mut Emitter, walk: &mut Walk<'_>, name: Option<&NameBuf>) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut nr_open = 0;
    // Cell offset of the last descriptor read, and what it became.
    let mut known: Option<(u32, SecurityId)> = None;
    while let Some(key) = walk.next_key()? {
        while nr_open > walk.depth() {
            emitter.close_key()?;
            nr_open -= 1;
        }
        let class = match key.class() {
            Ok(class) => class.map(Name::as_bytes),
            Err(error) => {
                walk.report(error)?;
                None
            }
        };
        let cell = key.node.security.get();
        let security = match known {
            Some((offset, id)) if offset == cell => Some(Security::Known(id)),
            _ => match key.security() {
                Ok(descriptor) => descriptor.map(Security::Bytes),
                Err(error) => {
                    walk.report(error)?;
                    None
                }
            },
        };
        let written = emitter.open_key(&KeyRecord {
            name: name.filter(|_| counts.keys == 0).map_or(key.name(), NameBuf::as_name),
            flags: key.flags(),
            last_written: key.last_written(),
            user_flags: key.node.user_flags,
            debug_flags: key.node.debug_flags,
            layer_flags: key.layer_flags(),
            class,
            security,
            predefined_handle: key.node.nr_values.get(),
        })?;
        known = written.map(|id| (cell, id));
        nr_open += 1;
        counts.keys += 1;
        walk.values(&key, |value, data| {
            counts.values += 1;
            emitter.value(value.name(), value.data_type(), value.flags(), data)
        })?;
        emitter.end_values()?;
    }
    for _ in 0..nr_open {
        emitter.close_key()?;
    }
    Ok(counts)
}

/// Writes a hive anew: canonical, compact, without left-overs.
///
/// # Errors
/// When strict, the first fault.
pub fn rebuild(hive: &Hive<'_>, options: &WriteOptions) -> Result<(Vec<u8>, SourceReport)> {
    let bins = hive.bins_bytes();
    let mut emitter = Emitter::new(
        bins + bins / 32 + (1 << 16),
        bins.saturating_mul(4).saturating_add(1 << 20),
    );
    let mut walk = Walk::ordered(hive.root()?, options.strictness, Order::Canonical);
    let counts = emit_walk(&mut emitter, &mut walk, None)?;
    let report = SourceReport {
        path: String::new(),
        counts,
        damage: walk.into_damage(),
    };
    Ok((emitter.finish(options.timestamp, &options.file_name), report))
}
