// SPDX-License-Identifier: GPL-3.0-or-later
//! The manifest of a world and its digest.
//!
//! A manifest is a sorted text that says everything which makes a world that world, and nothing of the machine. Its
//! SHA-256 is the world's digest. The format is specified in `docs/world-format.md`; if one byte of it changes, every
//! digest does, so [`FORMAT`] goes up with it.

mod compare;
mod hash;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;

use sha2::{Digest as _, Sha256};

pub use compare::{Change, Difference, FieldChange, What};
pub use hash::{ContentHash, Digest, KnownHashes};
use walk::{Body, Node, Walked};

use crate::beneath::{open_file_entry, open_root};
use crate::conf::WorldConf;
use crate::error::{Error, Result, Trying};
use crate::layer::Layer;
use crate::lookup::own_short_name;
use crate::name::{NtPath, PathId, escape};
use crate::removed::Removed;
use crate::store::{ExtraKey, SecurityId};

/// The version of the manifest's format.
pub const FORMAT: u32 = 1;
/// A world's files.
pub const FILES: &str = "files";
/// A world's registry.
pub const REGISTRY: &str = "registry.hiv";

/// How to read a world for its manifest.
#[derive(Clone, Copy, Default)]
pub struct SealOptions<'a> {
    /// How many threads read; 0 is one for each core.
    pub threads: usize,
    /// Hashes that need not be made again.
    pub known: Option<&'a KnownHashes>,
    /// Is told of bytes that are hashed or known, from any thread.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl std::fmt::Debug for SealOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealOptions")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// A manifest: its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    text: String,
}

impl Manifest {
    /// Reads a world and writes its manifest. Every byte is read, but for files whose hash is known.
    ///
    /// # Errors
    /// What Linux says, and everything in the world that a world cannot have, with its path.
    pub fn compute(world: &Path, conf: &WorldConf, options: &SealOptions<'_>) -> Result<Self> {
        Self::compute_with_stores(world, conf, options).map(|(manifest, _)| manifest)
    }

    /// The same, with the extra stores that files of the world have.
    pub(crate) fn compute_with_stores(
        world: &Path,
        conf: &WorldConf,
        options: &SealOptions<'_>,
    ) -> Result<(Self, BTreeSet<ExtraKey>)> {
        let layer = Layer::open(world.join(FILES))?;
        let world_fd = open_root(world).trying("open", world)?;
        let removed = Removed::read(&world_fd, world)?;
        let registry = registry_line(&world_fd, world, options)?;
        let walked = walk::walk(&layer, options)?;
        let mut writer = Writer {
            layer: &layer,
            walked: &walked,
            out: String::new(),
            first: HashMap::new(),
        };
        let _ = writeln!(writer.out, "vodka-manifest {FORMAT}");
        let used = writer.entries()?;
        let mut text = writer.out;
        for id in used {
            let descriptor = layer.security(id).ok_or_else(|| Error::Line {
                path: layer.path().join(":nt/security"),
                line: 1,
                reason: format!("it has no descriptor {id}, which a file of the world has"),
            })?;
            let hash: String = Sha256::digest(&descriptor)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let _ = writeln!(text, "a\t{id}\tsize={}\tsha256={hash}", descriptor.len());
        }
        for mark in removed.sorted() {
            let _ = writeln!(text, "r\t{mark}");
        }
        text.push_str(&registry);
        for (key, value) in conf.identity() {
            let _ = writeln!(text, "c\t{}\t{}", escape_text(&key), escape_text(&value));
        }
        let stores = walked.nodes().filter_map(|node| node.meta.extra).collect();
        Ok((Self { text }, stores))
    }

    /// Takes a text for a manifest; only its first line is looked at.
    pub(crate) fn from_text(text: String) -> Option<Self> {
        (text.lines().next() == Some(&format!("vodka-manifest {FORMAT}"))).then_some(Self { text })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest of the world that it describes.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// What is different in the other, in the manifest's order; this one is what is expected.
    pub fn compare(&self, found: &Self) -> Vec<Difference> {
        compare::compare(&self.text, &found.text)
    }
}

fn escape_text(text: &str) -> String {
    escape(&text.encode_utf16().collect::<Vec<_>>())
}

fn registry_line(world: &std::os::fd::OwnedFd, place: &Path, options: &SealOptions<'_>) -> Result<String> {
    let path = place.join(REGISTRY);
    let file = match open_file_entry(world, REGISTRY) {
        Ok(fd) => std::fs::File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(String::new()),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let progress = |bytes| {
        if let Some(progress) = options.progress {
            progress(bytes);
        }
    };
    let (hash, size) = ContentHash::of_file(&file, &progress).trying("read", &path)?;
    Ok(format!("h\t{REGISTRY}\tsize={size}\tblake3={hash}\n"))
}

struct Writer<'a> {
    layer: &'a Layer,
    walked: &'a Walked,
    out: String,
    /// The first path of each hard-link group.
    first: HashMap<u64, String>,
}

impl Writer<'_> {
    /// Writes the lines of all entries, parents first and siblings by their units; gives the descriptors in use.
    fn entries(&mut self) -> Result<BTreeSet<SecurityId>> {
        let walked = self.walked;
        let mut used = BTreeSet::new();
        let mut path = NtPath::root();
        self.entry(&walked.root, &path, &mut used)?;
        let mut stack = vec![walked.directories.get(&0).map(|nodes| nodes.iter()).unwrap_or_default()];
        while let Some(nodes) = stack.last_mut() {
            let Some(node) = nodes.next() else {
                stack.pop();
                path.pop();
                continue;
            };
            path.push(node.stored.name().clone());
            self.entry(node, &path, &mut used)?;
            match node.body {
                Body::Directory(number) => {
                    stack.push(
                        walked
                            .directories
                            .get(&number)
                            .map(|nodes| nodes.iter())
                            .unwrap_or_default(),
                    );
                }
                Body::File { .. } => {
                    path.pop();
                }
            }
        }
        Ok(used)
    }

    fn entry(&mut self, node: &Node, path: &NtPath, used: &mut BTreeSet<SecurityId>) -> Result<()> {
        let text = path.to_string();
        let meta = &node.meta;
        let has_links = matches!(node.body, Body::File { links, .. } if links > 1);
        let short = own_short_name(meta.short_name.clone(), meta.short_owner, has_links, PathId::of(path));
        if let Body::File { ino, .. } = node.body
            && has_links
        {
            match self.first.get(&ino) {
                Some(first) => {
                    let _ = write!(self.out, "l\t{text}\tof={first}");
                    self.name_fields(node, short);
                    self.out.push('\n');
                    return Ok(());
                }
                None => {
                    self.first.insert(ino, text.clone());
                }
            }
        }
        let out = &mut self.out;
        let kind = if matches!(node.body, Body::Directory(_)) {
            'd'
        } else {
            'f'
        };
        let _ = write!(
            out,
            "{kind}\t{text}\tattributes={:08x}\tcreated={}",
            meta.attributes, meta.created.0
        );
        let _ = write!(out, "\twritten={}", meta.written.0);
        if let Some(changed) = meta.changed {
            let _ = write!(out, "\tchanged={}", changed.0);
        }
        if let Some(id) = meta.security {
            used.insert(id);
            let _ = write!(out, "\tsecurity={id}");
        }
        if let Some(tag) = meta.reparse_tag {
            let _ = write!(out, "\ttag={tag:08x}");
        }
        if let Some((size, hash)) = node.reparse {
            let _ = write!(out, "\treparse={size},{hash}");
        }
        if let Body::File { ino, size_bytes, .. } = node.body {
            let hash = self.hash_of(ino, &text)?;
            let _ = write!(self.out, "\tsize={size_bytes}\tblake3={hash}");
        }
        self.name_fields(node, short);
        self.out.push('\n');
        for stream in &node.streams {
            let hash = self.hash_of(stream.ino, &text)?;
            let _ = writeln!(
                self.out,
                "s\t{text}\t{}\tsize={}\tblake3={hash}",
                stream.name, stream.size_bytes
            );
        }
        Ok(())
    }

    /// What belongs to the name and not to the inode.
    fn name_fields(&mut self, node: &Node, short: Option<crate::name::ShortName>) {
        if let Some(short) = short {
            let _ = write!(self.out, "\tshort={short}");
        }
        if node.stored.ordinal() > 0 {
            let _ = write!(self.out, "\tordinal={}", node.stored.ordinal());
        }
    }

    fn hash_of(&self, ino: u64, path: &str) -> Result<ContentHash> {
        self.walked.hashes.get(&ino).copied().ok_or_else(|| {
            let changed = std::io::Error::other("it changed while the world was read");
            Error::io("hash", self.layer.path().join(path), changed)
        })
    }
}
