// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing a tree of files fast: the lay-down's side of `files/`.
//!
//! Any number of threads make files at once. What is on the disk afterwards depends only on what was asked for, never
//! on the order: directories get their metadata at the end, tables are written sorted, keys come from paths. Nothing
//! is opened but by one component below an open directory, and nothing that is there is opened for writing: a link
//! that another process plants makes the call fail.

mod place;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FallocateFlags, OFlags, fallocate, linkat, mkdirat};
use rustix::io::Errno;

use crate::beneath::{DIRECTORY_MODE, FILE_MODE, open_dir, open_dir_entry, open_entry, open_root};
use crate::error::{Error, Result, Trying};
use crate::files::{self, Durable};
use crate::manifest::{ContentHash, KnownHashes};
use crate::meta::{FileTime, NtMetadata, disk};
use crate::name::{StoredName, StreamName};
use crate::store::table::{MAX_TABLE_BYTES, NameTable, SecurityTable};
use crate::store::{ExtraKey, NAMES, REPARSE, RESERVED, SECURITY, STREAMS, SecurityId};

/// How deep a tree may be. Real images stay below 40; the bound keeps what walks a tree within 1,024 open files.
pub const MAX_DEPTH: usize = 512;
/// How many directories stay open for the next file in them.
const OPEN_DIRECTORIES: usize = 128;
/// A file of at least so many bytes gets its room at once, so that a full disk is seen early and the file lies
/// together.
const PREALLOCATE_BYTES: u64 = 1 << 20;

/// A directory of a [`FileTree`], made or found. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dir(Arc<DirInner>);

#[derive(Debug)]
struct DirInner {
    /// The path of stored names from `files/`; empty for the root.
    path: String,
    /// Numbers directories for the table of open ones.
    number: u32,
    depth: usize,
}

impl Dir {
    /// The path of stored names below `files/`, parted by `/`; empty for the root.
    pub fn stored_path(&self) -> &str {
        &self.0.path
    }
}

/// A file that is being written. Give it to [`FileTree::finish_file`] (or `finish_stream`) at its end: without
/// that it has no NT metadata.
#[derive(Debug)]
#[must_use = "a file that is not finished has no NT metadata"]
pub struct NewFile {
    file: File,
    path: PathBuf,
}

impl NewFile {
    /// The open file, for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Writes at an offset; several threads can.
    ///
    /// # Errors
    /// What Linux says, with the file's path.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).trying("write", &self.path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open directory, with its number.
type OpenDir = Option<(u32, Arc<OwnedFd>)>;

/// The writer of one layer's `files/`.
#[derive(Debug)]
pub struct FileTree {
    path: PathBuf,
    root: Dir,
    root_fd: OwnedFd,
    next_number: AtomicU32,
    open: Box<[Mutex<OpenDir>]>,
    directories: Mutex<Vec<(Dir, NtMetadata)>>,
    security: Mutex<Table<SecurityTable>>,
    names: Mutex<Table<NameTable>>,
    known: KnownHashes,
}

#[derive(Debug)]
struct Table<T> {
    table: T,
    changed: bool,
}

/// A panic of another thread leaves these tables whole: each change is one insertion.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileTree {
    /// Opens `files/` for writing; it may have something in it already.
    ///
    /// # Errors
    /// When it is no directory, or its `:nt` is damaged.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let root_fd = open_root(&path).trying("open", &path)?;
        let (security, names) = read_tables(&root_fd, &path)?;
        let root = Dir(Arc::new(DirInner {
            path: String::new(),
            number: 0,
            depth: 0,
        }));
        Ok(Self {
            path,
            root,
            root_fd,
            next_number: AtomicU32::new(1),
            open: (0..OPEN_DIRECTORIES).map(|_| Mutex::new(None)).collect(),
            directories: Mutex::new(Vec::new()),
            security: Mutex::new(Table {
                table: security,
                changed: false,
            }),
            names: Mutex::new(Table {
                table: names,
                changed: false,
            }),
            known: KnownHashes::default(),
        })
    }

    /// The root, `files/` itself.
    pub fn root(&self) -> Dir {
        self.root.clone()
    }

    /// The BLAKE3 of files that were finished with it, by inode.
    pub fn known_hashes(&self) -> &KnownHashes {
        &self.known
    }

    /// Makes a directory. Its metadata is put on it by [`FileTree::finish`], because every file that is made in it
    /// changes its times.
    ///
    /// # Errors
    /// When it is there already, is deeper than [`MAX_DEPTH`], or Linux refuses.
    pub fn create_dir(&self, parent: &Dir, name: &StoredName, meta: NtMetadata) -> Result<Dir> {
        let at = self.entry_path(parent, name.as_str());
        if parent.0.depth >= MAX_DEPTH {
            return Err(Error::TooDeep {
                path: at.display().to_string(),
                limit: MAX_DEPTH,
            });
        }
        self.note_name(name);
        let parent_fd = self.dir_fd(parent)?;
        mkdirat(&parent_fd, name.as_str(), DIRECTORY_MODE).trying("make the directory", &at)?;
        let dir = self.dir_below(parent, name.as_str());
        locked(&self.directories).push((dir.clone(), meta));
        Ok(dir)
    }

    /// What [`FileTree::finish`] puts on `files/` itself.
    pub fn set_root_metadata(&self, meta: NtMetadata) {
        locked(&self.directories).push((self.root(), meta));
    }

    /// Makes a file of which `size_bytes` will be written (a hint: large files get their room at once).
    ///
    /// # Errors
    /// When it is there already, the disk is full, or Linux refuses.
    pub fn create_file(&self, dir: &Dir, name: &StoredName, size_bytes: u64) -> Result<NewFile> {
        self.note_name(name);
        let path = self.entry_path(dir, name.as_str());
        let dir_fd = self.dir_fd(dir)?;
        new_file(&dir_fd, name.as_str(), path, size_bytes)
    }

    /// Puts metadata on a file that is written, and closes it. With the BLAKE3 of its bytes, sealing does not read
    /// it again.
    ///
    /// # Errors
    /// What Linux says, with the file's path.
    pub fn finish_file(&self, file: NewFile, meta: &NtMetadata, content: Option<ContentHash>) -> Result<()> {
        disk::write(&file.file, meta, &file.path)?;
        self.remember(&file, content)
    }

    /// Gives a file a further name. `from` is one that it has.
    ///
    /// # Errors
    /// When the name is there already, the file has as many as the file system allows, or Linux refuses.
    pub fn link(&self, from: (&Dir, &StoredName), to: (&Dir, &StoredName)) -> Result<()> {
        self.note_name(to.1);
        let from_fd = self.dir_fd(from.0)?;
        let to_fd = self.dir_fd(to.0)?;
        linkat(&from_fd, from.1.as_str(), &to_fd, to.1.as_str(), AtFlags::empty())
            .map_err(|error| Error::io("make the hard link", self.entry_path(to.0, to.1.as_str()), error))
    }

    /// Keeps a security descriptor (self-relative, [MS-DTYP] 2.4.6; its bytes are not looked into) and gives its id.
    ///
    /// # Errors
    /// When it is too long, or another one has the same id.
    pub fn intern_security(&self, descriptor: &[u8]) -> Result<SecurityId> {
        let mut security = locked(&self.security);
        let (id, new) = security.table.intern(descriptor)?;
        security.changed |= new;
        Ok(id)
    }

    /// Makes a named stream in the extra store of the inode with that key.
    ///
    /// # Errors
    /// When the inode has a stream of that name already, or Linux refuses.
    pub fn create_stream(&self, key: ExtraKey, name: &StreamName, size_bytes: u64) -> Result<NewFile> {
        let (store, at) = self.extra_dir(key)?;
        let at = at.join(STREAMS);
        make_dir(&store, STREAMS, &at)?;
        let streams = open_dir_entry(&store, STREAMS).trying("open", &at)?;
        let stored = StoredName::of_stream(name);
        // Streams are looked up without case as well, and no image has twins.
        new_file(&streams, stored.as_str(), at.join(stored.as_str()), size_bytes).inspect(|_| self.note_name(&stored))
    }

    /// Closes a stream that is written.
    ///
    /// # Errors
    /// What Linux says, with the stream's path.
    pub fn finish_stream(&self, stream: NewFile, content: Option<ContentHash>) -> Result<()> {
        disk::set_time(&stream.file, FIXED_TIME, &stream.path)?;
        self.remember(&stream, content)
    }

    /// Keeps the reparse data (what follows the tag, the length and the reserved field: [MS-FSCC] 2.1.2.2) of the
    /// inode with that key. The tag is part of [`NtMetadata`].
    ///
    /// # Errors
    /// When the inode has reparse data already, or Linux refuses.
    pub fn set_reparse(&self, key: ExtraKey, data: &[u8]) -> Result<()> {
        let (store, at) = self.extra_dir(key)?;
        let mut file = new_file(&store, REPARSE, at.join(REPARSE), 0)?;
        file.file.write_all(data).trying("write", &file.path)?;
        disk::set_time(&file.file, FIXED_TIME, &file.path)
    }

    /// Writes the tables of `:nt` and puts their metadata on all directories that were made since the last call.
    /// What is made later in one of them (but by [`FileTree::place_file`]) changes its times.
    ///
    /// # Errors
    /// What Linux says, with the path.
    pub fn finish(&self) -> Result<()> {
        self.write_tables()?;
        let mut directories = locked(&self.directories);
        for (dir, meta) in directories.iter() {
            let fd = self.dir_fd(dir)?;
            disk::write(&fd, meta, &self.entry_path(dir, ""))?;
        }
        directories.clear();
        Ok(())
    }

    fn write_tables(&self) -> Result<()> {
        let mut security = locked(&self.security);
        let mut names = locked(&self.names);
        let nt_path = self.path.join(RESERVED);
        if security.changed && !security.table.is_empty() {
            let nt = self.reserved_dir()?;
            let file = files::replace(
                &nt,
                SECURITY,
                security.table.encode().as_bytes(),
                &nt_path,
                Durable::Later,
            )?;
            disk::set_time(&file, FIXED_TIME, &nt_path)?;
        }
        if names.changed && !names.table.is_empty() {
            let nt = self.reserved_dir()?;
            let file = files::replace(&nt, NAMES, names.table.encode().as_bytes(), &nt_path, Durable::Later)?;
            disk::set_time(&file, FIXED_TIME, &nt_path)?;
        }
        security.changed = false;
        names.changed = false;
        Ok(())
    }

    fn remember(&self, file: &NewFile, content: Option<ContentHash>) -> Result<()> {
        if let Some(hash) = content {
            let stat = rustix::fs::fstat(&file.file).trying("look at", &file.path)?;
            self.known.insert(&stat, hash);
        }
        Ok(())
    }

    fn note_name(&self, name: &StoredName) {
        if name.is_shortened() {
            let mut names = locked(&self.names);
            names.changed |= names.table.insert(name.name());
        }
    }

    fn dir_below(&self, parent: &Dir, stored: &str) -> Dir {
        let mut path = String::with_capacity(parent.0.path.len() + 1 + stored.len());
        if !parent.0.path.is_empty() {
            path.push_str(&parent.0.path);
            path.push('/');
        }
        path.push_str(stored);
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        Dir(Arc::new(DirInner {
            path,
            number,
            depth: parent.0.depth + 1,
        }))
    }

    fn entry_path(&self, dir: &Dir, stored: &str) -> PathBuf {
        let mut path = self.path.join(&dir.0.path);
        if !stored.is_empty() {
            path.push(stored);
        }
        path
    }

    /// The directory's descriptor, from the table of open ones where it is.
    fn dir_fd(&self, dir: &Dir) -> Result<Arc<OwnedFd>> {
        let slot = self.open.get(dir.0.number as usize % OPEN_DIRECTORIES);
        if let Some(slot) = slot
            && let Some((number, fd)) = &*locked(slot)
            && *number == dir.0.number
        {
            return Ok(Arc::clone(fd));
        }
        let fd = open_dir(&self.root_fd, &dir.0.path).trying("open the directory", self.entry_path(dir, ""))?;
        let fd = Arc::new(fd);
        if let Some(slot) = slot {
            *locked(slot) = Some((dir.0.number, Arc::clone(&fd)));
        }
        Ok(fd)
    }

    fn reserved_dir(&self) -> Result<OwnedFd> {
        let path = self.path.join(RESERVED);
        make_dir(&self.root_fd, RESERVED, &path)?;
        open_dir_entry(&self.root_fd, RESERVED).trying("open", path)
    }

    fn extra_dir(&self, key: ExtraKey) -> Result<(OwnedFd, PathBuf)> {
        let nt = self.reserved_dir()?;
        let key = key.to_string();
        let path = self.path.join(RESERVED).join(&key);
        make_dir(&nt, &key, &path)?;
        let store = open_dir_entry(&nt, &key).trying("open", &path)?;
        Ok((store, path))
    }
}

/// The time of what is in `:nt`, which NT never sees: always the same, for the sake of byte-identical worlds.
pub(crate) const FIXED_TIME: FileTime = FileTime(116_444_736_000_000_000);

/// The tables of a layer's `:nt`; empty ones when it has none.
pub(crate) fn read_tables(files: &OwnedFd, place: &Path) -> Result<(SecurityTable, NameTable)> {
    let place = place.join(RESERVED);
    let nt = match open_dir_entry(files, RESERVED) {
        Ok(nt) => nt,
        Err(Errno::NOENT) => return Ok(Default::default()),
        Err(error) => return Err(Error::io("open", place, error)),
    };
    let security = match files::read_text(&nt, SECURITY, &place, MAX_TABLE_BYTES)? {
        Some(text) => SecurityTable::parse(&text, &place.join(SECURITY))?,
        None => SecurityTable::default(),
    };
    let names = match files::read_text(&nt, NAMES, &place, MAX_TABLE_BYTES)? {
        Some(text) => NameTable::parse(&text, &place.join(NAMES))?,
        None => NameTable::default(),
    };
    Ok((security, names))
}

/// Makes a directory that may be there already.
pub(crate) fn make_dir(parent: impl AsFd, name: &str, path: &Path) -> Result<()> {
    match mkdirat(parent, name, DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::io("make the directory", path, error)),
    }
}

fn new_file(dir: &OwnedFd, name: &str, path: PathBuf, size_bytes: u64) -> Result<NewFile> {
    let fd = open_entry(dir, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, FILE_MODE).trying("make", &path)?;
    if size_bytes >= PREALLOCATE_BYTES
        && let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
            fallocate(&fd, FallocateFlags::KEEP_SIZE, 0, size_bytes)
    {
        // It has what there was; give it back. Any other error: the file system gives room while writing.
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        return Err(Error::io("get room for", path, error));
    }
    Ok(NewFile { file: fd.into(), path })
}
