// SPDX-License-Identifier: GPL-3.0-or-later
//! The table of a sealed world's registry: a hash of each key and value, so that `verify` names what has changed.
//!
//! `:nt/registry` is zstd of a text: `vodka-registry 1`, then for each key, in NT's order with subkeys after their key,
//! `K`, its depth, its hash and its escaped name, and for each of its values, in NT's order, `V`, its hash and its escaped
//! name; columns parted by TAB. A hash is the first eight bytes of BLAKE3: for a key over its class, security descriptor and
//! time, for a value over its type and data. It only names: whether the registry is as it was says the manifest.

use std::cmp::Ordering;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use hive::walk::{Order, Strictness, Walk};
use hive::{Hive, Key};

use crate::error::{Error, Result};
use crate::manifest::{Change, Difference, FieldChange, What};
use crate::name::{escape, unescape};
use crate::pack::zstd;
use crate::upcase;

const HEADER: &str = "vodka-registry 1";

/// One key with its values.
struct Record {
    depth: usize,
    name: Vec<u16>,
    hash: String,
    values: Vec<(Vec<u16>, String)>,
}

fn short_hash(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex().get(..16).unwrap_or_default().to_owned()
}

/// The keys of a hive, in NT's order.
struct HiveKeys<'a> {
    walk: Walk<'a>,
}

impl<'a> HiveKeys<'a> {
    fn new(hive: &Hive<'a>) -> hive::Result<Self> {
        Ok(Self {
            walk: Walk::ordered(hive.root()?, Strictness::WalkOn, Order::Canonical),
        })
    }

    fn next(&mut self) -> hive::Result<Option<Record>> {
        let Some(key) = self.walk.next_key()? else {
            return Ok(None);
        };
        let mut values = Vec::new();
        self.walk.values(&key, |value, data| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&value.data_type().to_le_bytes());
            for chunk in data.chunks() {
                hasher.update(chunk);
            }
            values.push((value.name().units().collect::<Vec<u16>>(), short_hash(&hasher)));
            Ok(())
        })?;
        values.sort_by(|a, b| upcase::cmp_names(&a.0, &b.0).then_with(|| a.cmp(b)));
        let name = key.name().units().collect();
        Ok(Some(Record {
            depth: self.walk.depth(),
            name,
            hash: key_hash(&key),
            values,
        }))
    }
}

fn key_hash(key: &Key<'_>) -> String {
    let mut hasher = blake3::Hasher::new();
    if let Ok(Some(class)) = key.class() {
        hasher.update(class.as_bytes());
    }
    hasher.update(b"\0");
    if let Ok(Some(security)) = key.security() {
        hasher.update(security);
    }
    hasher.update(&key.last_written().to_le_bytes());
    short_hash(&hasher)
}

/// The table of a registry; `None` when it is no hive, of which only the whole can be compared.
pub(crate) fn table(registry: &[u8]) -> Option<Vec<u8>> {
    let hive = Hive::open(registry).ok()?;
    let mut keys = HiveKeys::new(&hive).ok()?;
    let mut out = zstd::Writer::new(Vec::new());
    let mut text = format!("{HEADER}\n");
    while let Some(key) = keys.next().ok()? {
        text.push_str(&format!("K\t{}\t{}\t{}\n", key.depth, key.hash, escape(&key.name)));
        for (name, hash) in &key.values {
            text.push_str(&format!("V\t{hash}\t{}\n", escape(name)));
        }
        if text.len() > 1 << 20 {
            out.write_all(text.as_bytes()).ok()?;
            text.clear();
        }
    }
    out.write_all(text.as_bytes()).ok()?;
    out.finish().ok()
}

/// The keys of a table.
struct TableKeys<R: Read> {
    lines: std::io::Lines<BufReader<R>>,
    next: Option<Record>,
    line: usize,
}

impl<R: Read> TableKeys<R> {
    fn next(&mut self, path: &Path) -> Result<Option<Record>> {
        loop {
            let line = match self.lines.next() {
                None => return Ok(self.next.take()),
                Some(line) => line.map_err(|error| Error::io("read", path, error))?,
            };
            self.line += 1;
            let bad = || Error::Line {
                path: path.into(),
                line: self.line,
                reason: "expected a key or a value".into(),
            };
            let columns: Vec<&str> = line.split('\t').collect();
            match (&columns[..], &mut self.next) {
                ([HEADER], None) if self.line == 1 => {}
                (["K", depth, hash, name], current) => {
                    let depth = depth.parse().map_err(|_| bad())?;
                    let name = unescape(name).ok_or_else(bad)?;
                    let record = Record {
                        depth,
                        name,
                        hash: (*hash).into(),
                        values: Vec::new(),
                    };
                    if let Some(done) = current.replace(record) {
                        return Ok(Some(done));
                    }
                }
                (["V", hash, name], Some(current)) => {
                    current.values.push((unescape(name).ok_or_else(bad)?, (*hash).into()));
                }
                _ => return Err(bad()),
            }
        }
    }
}

/// A key's place among all keys: the names from the root.
#[derive(Default)]
struct Place(Vec<Vec<u16>>);

impl Place {
    fn enter(&mut self, record: &Record) {
        self.0.truncate(record.depth);
        self.0.push(record.name.clone());
    }

    /// Parents first, siblings in NT's order.
    fn cmp(&self, other: &Self) -> Ordering {
        for (a, b) in self.0.iter().zip(&other.0) {
            let order = upcase::cmp_names(a, b);
            if order != Ordering::Equal {
                return order;
            }
        }
        self.0.len().cmp(&other.0.len())
    }

    /// The path without the root's own name.
    fn path(&self) -> String {
        self.0
            .iter()
            .skip(1)
            .map(|name| escape(name))
            .collect::<Vec<_>>()
            .join("\\")
    }
}

/// What of a registry is otherwise than its table says.
pub(crate) fn compare(table: impl Read, table_path: &Path, registry: &[u8], path: &Path) -> Result<Vec<Difference>> {
    let refused = |error: hive::Error| Error::Registry {
        path: path.into(),
        reason: error.to_string(),
    };
    let hive = Hive::open(registry).map_err(refused)?;
    let mut keys = HiveKeys::new(&hive).map_err(refused)?;
    let text = BufReader::new(zstd::Reader::new(BufReader::new(table)));
    let mut old_keys = TableKeys {
        lines: text.lines(),
        next: None,
        line: 0,
    };
    let (mut old_place, mut new_place) = (Place::default(), Place::default());
    let mut out = Vec::new();
    let mut next_old = |place: &mut Place| -> Result<Option<Record>> {
        Ok(old_keys.next(table_path)?.inspect(|record| place.enter(record)))
    };
    let mut next_new = |place: &mut Place| -> Result<Option<Record>> {
        Ok(keys.next().map_err(refused)?.inspect(|record| place.enter(record)))
    };
    let (mut old, mut new) = (next_old(&mut old_place)?, next_new(&mut new_place)?);
    loop {
        let order = match (&old, &new) {
            (None, None) => return Ok(out),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), Some(_)) => old_place.cmp(&new_place),
        };
        let key = |place: &Place, change| Difference {
            what: What::RegistryKey,
            path: place.path(),
            change,
        };
        match order {
            Ordering::Less => {
                out.push(key(&old_place, Change::Missing));
                old = next_old(&mut old_place)?;
            }
            Ordering::Greater => {
                out.push(key(&new_place, Change::Added));
                new = next_new(&mut new_place)?;
            }
            Ordering::Equal => {
                if let (Some(was), Some(is)) = (&old, &new) {
                    if was.hash != is.hash {
                        let field = "class, security or time".to_owned();
                        let change = changed(field, &was.hash, &is.hash);
                        out.push(key(&new_place, change));
                    }
                    values(&new_place.path(), was, is, &mut out);
                }
                (old, new) = (next_old(&mut old_place)?, next_new(&mut new_place)?);
            }
        }
    }
}

fn changed(field: String, was: &str, is: &str) -> Change {
    Change::Changed(vec![FieldChange {
        field,
        expected: Some(was.into()),
        found: Some(is.into()),
    }])
}

fn values(key: &str, was: &Record, is: &Record, out: &mut Vec<Difference>) {
    let find = |record: &Record, name: &[u16]| {
        record
            .values
            .iter()
            .find(|(other, _)| upcase::eq_names(other, name))
            .map(|(_, hash)| hash.clone())
    };
    // `::` is in no escaped name, so that this is the value's path alone.
    let path = |name: &[u16]| format!("{key}::{}", escape(name));
    for (name, hash) in &was.values {
        let change = match find(is, name) {
            None => Change::Missing,
            Some(found) if found == *hash => continue,
            Some(found) => changed("hash of type and data".into(), hash, &found),
        };
        out.push(Difference {
            what: What::RegistryValue,
            path: path(name),
            change,
        });
    }
    for (name, _) in &is.values {
        if find(was, name).is_none() {
            out.push(Difference {
                what: What::RegistryValue,
                path: path(name),
                change: Change::Added,
            });
        }
    }
}
