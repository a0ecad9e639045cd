// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a whole `files/` on all cores: every entry, its metadata, its hash.
//!
//! One task for each directory and one for each large file. What comes out is a table by directory, so that the
//! order of the work shows nowhere. A task opens what it needs by path and closes it at its end: open descriptors are
//! bounded by the number of threads, however many files there are.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::Scope;
use rustix::fs::{Stat, fstat};

use super::{ContentHash, SealOptions};
use crate::beneath::{open_dir, open_dir_entry, open_file_entry};
use crate::error::{Error, Result, Trying};
use crate::layer::{Layer, links_of, size_of};
use crate::listing;
use crate::meta::{NtMetadata, disk};
use crate::name::{StoredName, StreamName};
use crate::store::{RESERVED, STREAMS};
use crate::tree::MAX_DEPTH;

/// A file of at least so many bytes is a task of its own.
const LARGE_BYTES: u64 = 1 << 20;

/// The number of a directory in [`Walked`]; the root is 0.
pub(super) type DirNumber = usize;

/// One entry of a directory.
pub(super) struct Node {
    pub stored: StoredName,
    pub body: Body,
    /// As it is on the disk: the short name may belong to another name of the inode.
    pub meta: NtMetadata,
    pub streams: Vec<StreamNode>,
    /// The reparse data's length and hash.
    pub reparse: Option<(u64, ContentHash)>,
}

pub(super) enum Body {
    Directory(DirNumber),
    File { ino: u64, links: u64, size_bytes: u64 },
}

pub(super) struct StreamNode {
    pub name: StreamName,
    pub size_bytes: u64,
    pub ino: u64,
}

/// All that was read.
pub(super) struct Walked {
    pub root: Node,
    pub directories: HashMap<DirNumber, Vec<Node>>,
    /// By inode; every file's and stream's is there.
    pub hashes: HashMap<u64, ContentHash>,
}

impl Walked {
    /// All entries, the root with them.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&self.root).chain(self.directories.values().flatten())
    }
}

struct Walk<'a> {
    layer: &'a Layer,
    root: &'a OwnedFd,
    options: &'a SealOptions<'a>,
    next: AtomicUsize,
    directories: Mutex<HashMap<DirNumber, Vec<Node>>>,
    hashes: Mutex<HashMap<u64, ContentHash>>,
    /// Inodes with several names that somebody hashes already.
    begun: Mutex<HashSet<u64>>,
    failed: AtomicBool,
    error: Mutex<Option<(String, Error)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads all of a layer.
pub(super) fn walk(layer: &Layer, options: &SealOptions<'_>) -> Result<Walked> {
    let root = open_dir(layer.root_fd(), "").trying("open", layer.path())?;
    let state = Walk {
        layer,
        root: &root,
        options,
        next: AtomicUsize::new(1),
        directories: Mutex::default(),
        hashes: Mutex::default(),
        begun: Mutex::default(),
        failed: AtomicBool::new(false),
        error: Mutex::default(),
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .thread_name(|number| format!("manifest-{number}"))
        .build()
        .map_err(|error| Error::io("start threads for", layer.path(), std::io::Error::other(error)))?;
    let root_node = pool.install(|| {
        rayon::scope(|scope| {
            state.directory(scope, 0, String::new(), 0);
            let stat = fstat(&root).trying("look at", layer.path())?;
            state.node(scope, &root, &stat, StoredName::of_root(), Some(0), String::new())
        })
    })?;
    if let Some((_, error)) = state.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(Walked {
        root: root_node,
        directories: state.directories.into_inner().unwrap_or_else(PoisonError::into_inner),
        hashes: state.hashes.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}

impl<'a> Walk<'a> {
    /// Reads one directory and starts a task for each one in it.
    fn directory<'s>(&'s self, scope: &Scope<'s>, number: DirNumber, stored_path: String, depth: usize)
    where
        'a: 's,
    {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        match self.read_directory(scope, &stored_path, depth) {
            Ok(nodes) => drop(locked(&self.directories).insert(number, nodes)),
            Err(error) => self.fail(stored_path, error),
        }
    }

    fn read_directory<'s>(&'s self, scope: &Scope<'s>, stored_path: &str, depth: usize) -> Result<Vec<Node>>
    where
        'a: 's,
    {
        let place = self.place(stored_path);
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep {
                path: place.display().to_string(),
                limit: MAX_DEPTH,
            });
        }
        let dir = open_dir(self.root, stored_path).trying("open the directory", &place)?;
        let entries = listing::entries(&dir, &place, stored_path.is_empty(), &self.layer.names())?;
        let mut nodes = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = entry.stored.as_str();
            let path = if stored_path.is_empty() {
                name.to_owned()
            } else {
                format!("{stored_path}/{name}")
            };
            let opened = if entry.is_directory {
                open_dir_entry(&dir, name)
            } else {
                open_file_entry(&dir, name)
            };
            let fd = opened.trying("open", self.place(&path))?;
            let stat = fstat(&fd).trying("look at", self.place(&path))?;
            let number = entry.is_directory.then(|| self.next.fetch_add(1, Ordering::Relaxed));
            if let Some(number) = number {
                let path = path.clone();
                scope.spawn(move |scope| self.directory(scope, number, path, depth + 1));
            }
            nodes.push(self.node(scope, &fd, &stat, entry.stored, number, path)?);
        }
        nodes.sort_by(|a, b| a.stored.name().cmp(b.stored.name()));
        Ok(nodes)
    }

    fn node<'s>(
        &'s self,
        scope: &Scope<'s>,
        fd: &OwnedFd,
        stat: &Stat,
        stored: StoredName,
        number: Option<DirNumber>,
        path: String,
    ) -> Result<Node>
    where
        'a: 's,
    {
        let place = self.place(&path);
        let meta = disk::read(fd.as_fd(), stat, number.is_some(), &place)?;
        let (mut streams, mut reparse) = (Vec::new(), None);
        if let Some(key) = meta.extra {
            if let Some(data) = self.layer.reparse_of(key)? {
                reparse = Some((data.len() as u64, ContentHash::of(&data)));
            }
            for stream in self.layer.streams_of(key)? {
                let file = self.layer.open_stored_stream(key, &stream.name)?;
                let stat = fstat(&file).trying("look at", &place)?;
                let at = format!("{RESERVED}/{key}/{STREAMS}/{}", StoredName::of_stream(&stream.name));
                self.hash(scope, file.as_fd(), &stat, at)?;
                streams.push(StreamNode {
                    name: stream.name,
                    size_bytes: size_of(&stat),
                    ino: stat.st_ino,
                });
            }
            streams.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let body = match number {
            Some(number) => Body::Directory(number),
            None => {
                self.hash(scope, fd.as_fd(), stat, path)?;
                Body::File {
                    ino: stat.st_ino,
                    links: links_of(stat),
                    size_bytes: size_of(stat),
                }
            }
        };
        Ok(Node {
            stored,
            body,
            meta,
            streams,
            reparse,
        })
    }

    /// Finds the hash of an open file: known, by somebody else, here, or in a task of its own.
    fn hash<'s>(&'s self, scope: &Scope<'s>, fd: BorrowedFd<'_>, stat: &Stat, stored_path: String) -> Result<()>
    where
        'a: 's,
    {
        if links_of(stat) > 1 && !locked(&self.begun).insert(stat.st_ino) {
            return Ok(());
        }
        let (ino, size_bytes) = (stat.st_ino, size_of(stat));
        if let Some(hash) = self.options.known.and_then(|known| known.get(stat)) {
            locked(&self.hashes).insert(ino, hash);
            self.progress(size_bytes);
            return Ok(());
        }
        if size_bytes < LARGE_BYTES {
            return self.hash_open(fd, ino, size_bytes, &stored_path);
        }
        scope.spawn(move |_| {
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
            let (parent, name) = stored_path.rsplit_once('/').unwrap_or(("", &stored_path));
            let done = open_dir(self.root, parent)
                .and_then(|dir| open_file_entry(&dir, name))
                .trying("open", self.place(&stored_path))
                .and_then(|fd| self.hash_open(fd.as_fd(), ino, size_bytes, &stored_path));
            if let Err(error) = done {
                self.fail(stored_path, error);
            }
        });
        Ok(())
    }

    fn hash_open(&self, file: BorrowedFd<'_>, ino: u64, size_bytes: u64, stored_path: &str) -> Result<()> {
        let place = self.place(stored_path);
        let (hash, read) = ContentHash::of_file(file, &|bytes| self.progress(bytes)).trying("read", &place)?;
        if read != size_bytes {
            let changed = std::io::Error::other(format!("it had {size_bytes} bytes and now has {read}"));
            return Err(Error::io("read", place, changed));
        }
        locked(&self.hashes).insert(ino, hash);
        Ok(())
    }

    fn progress(&self, bytes: u64) {
        if let Some(progress) = self.options.progress {
            progress(bytes);
        }
    }

    /// Keeps the error of the first path, so that the message does not depend on the order of work more than it must.
    fn fail(&self, at: String, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        let mut first = locked(&self.error);
        if first.as_ref().is_none_or(|(path, _)| at < *path) {
            *first = Some((at, error));
        }
    }

    fn place(&self, stored_path: &str) -> PathBuf {
        if stored_path.is_empty() {
            self.layer.path().to_owned()
        } else {
            self.layer.path().join(stored_path)
        }
    }
}
