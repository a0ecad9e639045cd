// SPDX-License-Identifier: GPL-3.0-or-later
//! Random changes of stacks of one to five layers against a plain model in memory.
//!
//! `OVERLAY_MODEL_OPERATIONS` says how many operations (20,000 if not set), `OVERLAY_MODEL_SEED` where to begin.
#![allow(clippy::print_stdout, reason = "a test says what it counted")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

use common::{meta, path, picture, world_name};
use overlay::layers::Replace;
use overlay::{Access, Error, Layers, NtPath, SealOptions, Worlds, attributes};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn path(&mut self) -> String {
        // Few names, in both cases, so that things meet.
        const NAMES: [&str; 8] = ["a", "A", "b", "é", "É", "d:x", "long name.txt", "Long Name.TXT"];
        let depth = 1 + self.below(3);
        let names: Vec<_> = (0..depth)
            .map(|_| NAMES[self.below(NAMES.len())].replace(':', ":003a"))
            .collect();
        names.join("\\")
    }
}

/// A path as NT compares it; the names used here fold as Unicode's lower case does.
fn folded(path: &str) -> Vec<String> {
    path.split('\\').map(str::to_lowercase).collect()
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Directory(u32),
    File(usize),
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Inode {
    bytes: Vec<u8>,
    attributes: u32,
}

/// What a world is, without layers.
#[derive(Clone, Default)]
struct Model {
    entries: BTreeMap<Vec<String>, (String, Node)>,
    inodes: Vec<Inode>,
}

/// What an operation says.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Said {
    Done,
    Missing,
    Exists,
    WrongKind,
    NotEmpty,
}

fn said<T>(result: overlay::Result<T>) -> Said {
    match result {
        Ok(_) => Said::Done,
        Err(Error::PathMissing { .. }) => Said::Missing,
        Err(Error::PathExists { .. }) => Said::Exists,
        Err(Error::WrongKind { .. }) => Said::WrongKind,
        Err(Error::NotEmpty { .. }) => Said::NotEmpty,
        Err(error) => panic!("{error}: {error:?}"),
    }
}

impl Model {
    fn get(&self, path: &[String]) -> Option<&Node> {
        self.entries.get(path).map(|(_, node)| node)
    }

    /// Whether the directory of a path is one.
    fn parent(&self, path: &[String]) -> Result<(), Said> {
        for length in 1..path.len() {
            match self.get(&path[..length]) {
                Some(Node::Directory(_)) => {}
                Some(Node::File(_)) if length == path.len() - 1 => return Err(Said::WrongKind),
                _ => return Err(Said::Missing),
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &str, node: Node) -> Said {
        let key = folded(path);
        if self.get(&key).is_some() {
            return Said::Exists;
        }
        if let Err(said) = self.parent(&key) {
            return said;
        }
        let name = path.rsplit('\\').next().unwrap().to_owned();
        self.entries.insert(key, (name, node));
        Said::Done
    }

    fn file(&self, path: &str) -> Result<usize, Said> {
        match self.get(&folded(path)) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Directory(_)) => Err(Said::WrongKind),
            None => Err(Said::Missing),
        }
    }

    fn has_children(&self, key: &[String]) -> bool {
        self.entries
            .keys()
            .any(|other| other.len() > key.len() && other.starts_with(key))
    }

    fn remove(&mut self, path: &str) -> Said {
        let key = folded(path);
        match self.get(&key) {
            None => Said::Missing,
            Some(_) if self.has_children(&key) => Said::NotEmpty,
            Some(_) => {
                self.entries.remove(&key);
                Said::Done
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str, replace: Replace) -> Said {
        let (old, new) = (folded(from), folded(to));
        let Some(node) = self.get(&old).cloned() else {
            return Said::Missing;
        };
        if let Err(said) = self.parent(&new) {
            return said;
        }
        if matches!(node, Node::Directory(_)) && new.len() > old.len() && new.starts_with(&old) {
            return Said::WrongKind;
        }
        if old != new
            && let Some(target) = self.get(&new)
        {
            if replace == Replace::No {
                return Said::Exists;
            }
            if matches!(target, Node::Directory(_)) || matches!(node, Node::Directory(_)) {
                return Said::WrongKind;
            }
            if *target == node {
                // Two names of one file: the old one goes.
                self.entries.remove(&old);
                return Said::Done;
            }
        }
        let moved: Vec<_> = self
            .entries
            .keys()
            .filter(|key| key.starts_with(&old))
            .cloned()
            .collect();
        let moved: Vec<_> = moved
            .into_iter()
            .map(|key| (key.clone(), self.entries.remove(&key).unwrap()))
            .collect();
        for (key, mut entry) in moved {
            let mut to_key = new.clone();
            to_key.extend_from_slice(&key[old.len()..]);
            if key == old {
                entry.0 = to.rsplit('\\').next().unwrap().to_owned();
            }
            self.entries.insert(to_key, entry);
        }
        Said::Done
    }
}

/// Everything that a world shows, compared with everything that the model has.
fn compare(layers: &Layers, model: &Model) {
    let mut seen = BTreeMap::new();
    let mut inodes: HashMap<u64, usize> = HashMap::new();
    let mut todo = vec![(NtPath::root(), Vec::new())];
    while let Some((at, key)) = todo.pop() {
        let mut previous: Option<overlay::NtName> = None;
        for entry in layers.read_dir(&at).unwrap() {
            if let Some(previous) = previous.replace(entry.name().clone()) {
                assert!(previous.cmp_nt(entry.name()).is_lt(), "NT's order in {at}");
            }
            let below = at.join(entry.name());
            let mut below_key = key.clone();
            below_key.push(entry.name().to_string().to_lowercase());
            let node = match entry.kind {
                overlay::layer::Kind::Directory => {
                    todo.push((below, below_key.clone()));
                    Node::Directory(entry.meta.attributes)
                }
                overlay::layer::Kind::File => {
                    let Some(Node::File(inode)) = model.get(&below_key) else {
                        panic!("{below} is a file, the model has {:?}", model.get(&below_key))
                    };
                    let mut bytes = Vec::new();
                    layers.open_file(&below).unwrap().read_to_end(&mut bytes).unwrap();
                    let expected = &model.inodes[*inode];
                    assert_eq!(bytes, expected.bytes, "{below}");
                    assert_eq!(entry.meta.attributes, expected.attributes, "{below}");
                    let same = *inodes.entry(entry.ino).or_insert(*inode);
                    assert_eq!(same, *inode, "{below} is another file's name");
                    Node::File(*inode)
                }
            };
            assert!(
                seen.insert(below_key, (entry.name().to_string(), node)).is_none(),
                "a name is there twice"
            );
        }
    }
    assert_eq!(seen, model.entries);
    // The names of one file are one inode.
    let distinct: std::collections::HashSet<_> = inodes.values().collect();
    assert_eq!(distinct.len(), inodes.len(), "a file has come apart");
}

fn run(seed: u64, operations: usize, every: usize) {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("w0"), "").unwrap();
    staging.tree().set_root_metadata(meta(attributes::DIRECTORY, 0));
    std::fs::write(staging.registry_path(), b"").unwrap();
    let mut world = staging
        .commit(overlay::WorldConf::default(), &SealOptions::default())
        .unwrap();
    world.unseal().unwrap();

    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut model = Model::default();
    let mut layers = Layers::open(&world, Access::Write).unwrap();
    let mut pictures = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for at in 0..operations {
        if at > 0 && at % (operations / 5).max(1) == 0 && pictures.len() < 4 {
            compare(&layers, &model);
            drop(layers);
            world
                .seal(&SealOptions {
                    threads: 1,
                    ..SealOptions::default()
                })
                .unwrap();
            pictures.push((world.path().to_owned(), picture(world.path())));
            world = worlds
                .fork(&world_name(&format!("w{}", pictures.len())), &world)
                .unwrap();
            layers = Layers::open(&world, Access::Write).unwrap();
            compare(&layers, &model);
        }
        // Of what is there, as often as of what may not be; files more often, because links need them.
        let mut one = random.path();
        if random.below(2) == 0 && !model.entries.is_empty() {
            let start = random.below(model.entries.len());
            let near = || model.entries.iter().skip(start).take(8);
            let there = near()
                .find(|(_, (_, node))| matches!(node, Node::File(_)))
                .or_else(|| near().next());
            one = there.map_or(one, |(key, _)| key.join("\\"));
        }
        let two = random.path();
        let kind = random.below(100);
        let (operation, got, expected) = match kind {
            0..22 => {
                let number = model.inodes.len();
                let bytes = format!("{seed}/{at}").into_bytes();
                let expected = model.create(&one, Node::File(number));
                if expected == Said::Done {
                    model.inodes.push(Inode {
                        bytes: bytes.clone(),
                        attributes: attributes::ARCHIVE,
                    });
                }
                let got = layers.create_file(&path(&one), &meta(attributes::ARCHIVE, at as u64));
                (
                    "create a file",
                    said(got.map(|mut file| file.write_all(&bytes).unwrap())),
                    expected,
                )
            }
            22..40 => {
                let expected = model.create(&one, Node::Directory(attributes::DIRECTORY));
                let got = layers.create_dir(&path(&one), &meta(attributes::DIRECTORY, at as u64));
                ("create a directory", said(got), expected)
            }
            40..52 => {
                let expected = match model.file(&one) {
                    Ok(inode) => {
                        model.inodes[inode].bytes = format!("written {at}").into_bytes();
                        Said::Done
                    }
                    Err(said) => said,
                };
                let got = layers.open_file_to_write(&path(&one)).map(|mut file| {
                    file.set_len(0).unwrap();
                    file.write_all(format!("written {at}").as_bytes()).unwrap();
                });
                ("write", said(got), expected)
            }
            52..58 => {
                let new = attributes::HIDDEN | u32::from(at % 2 == 1);
                let expected = match model.entries.get_mut(&folded(&one)) {
                    None => Said::Missing,
                    Some((_, Node::Directory(attributes))) => {
                        *attributes = new;
                        Said::Done
                    }
                    Some((_, Node::File(inode))) => {
                        model.inodes[*inode].attributes = new;
                        Said::Done
                    }
                };
                (
                    "set metadata",
                    said(layers.set_metadata(&path(&one), &meta(new, at as u64))),
                    expected,
                )
            }
            58..68 => {
                let expected = match model.file(&one) {
                    Ok(inode) => model.create(&two, Node::File(inode)),
                    Err(said) => said,
                };
                ("link", said(layers.link(&path(&one), &path(&two))), expected)
            }
            68..84 => {
                let replace = if random.below(2) == 0 {
                    Replace::No
                } else {
                    Replace::File
                };
                let expected = model.rename(&one, &two, replace);
                (
                    "rename",
                    said(layers.rename(&path(&one), &path(&two), replace)),
                    expected,
                )
            }
            _ => ("remove", said(layers.remove(&path(&one))), model.remove(&one)),
        };
        assert_eq!(
            got, expected,
            "seed {seed}, operation {at}: {operation} {one:?} {two:?}"
        );
        *counts.entry(format!("{operation}: {got:?}")).or_default() += 1;
        if at % every == 0 {
            compare(&layers, &model);
        }
    }
    compare(&layers, &model);
    drop(layers);
    // A world that is opened anew shows the same, and no parent has changed.
    compare(&Layers::open(&world, Access::Read).unwrap(), &model);
    world
        .seal(&SealOptions {
            threads: 1,
            ..SealOptions::default()
        })
        .unwrap();
    compare(&Layers::open(&world, Access::Read).unwrap(), &model);
    for (at, before) in &pictures {
        assert_eq!(&picture(at), before, "{} has changed", at.display());
    }
    println!("seed {seed}: {} layers, {counts:?}", pictures.len() + 1);
}

#[test]
fn random_changes_of_one_to_five_layers_are_as_the_model_says() {
    let number = |name: &str, default: usize| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let operations = number("OVERLAY_MODEL_OPERATIONS", 20_000);
    let first = number("OVERLAY_MODEL_SEED", 1);
    for seed in 0..operations.div_ceil(2_000) {
        run(
            (first + seed) as u64,
            2_000.min(operations),
            number("OVERLAY_MODEL_EVERY", 500),
        );
    }
}
