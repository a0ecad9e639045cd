// SPDX-License-Identifier: GPL-3.0-or-later
//! A hive on disk: read without changing it, or changed so that a kill at any instant leaves each change
//! whole or absent.
//!
//! The journal is Windows' own: each change is appended to `NAME.LOG1` as one HvLE entry with the
//! 512-byte sectors that it touched, before anyone is told that it is done; the primary file is marked
//! dirty by its sequence numbers after the first entry is in the log. [`HiveFile::flush`] syncs the log,
//! writes the sectors to the primary file, syncs it, marks it clean and empties the log. Whatever step is
//! cut short, either the primary file is clean, or the log holds all that it lacks: what replays a log
//! of Windows replays ours. A process that is killed loses nothing that was committed; a machine that
//! loses power loses nothing that was flushed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::edit::Editor;
use crate::error::Error;
use crate::format::{BASE_BLOCK_BYTES, BaseBlock, SECTOR_BYTES, checksum};
use crate::log::{Recovery, recover};
use crate::log_write::{log_base, log_entry};

/// A log that has grown over this is flushed before the next change.
pub const MAX_LOG_BYTES: u64 = 16 << 20;
/// The largest file that is read: the largest hive, its base block, and some garbage behind it.
pub const MAX_FILE_BYTES: u64 = (2 << 30) + (1 << 20);

/// What is wrong with a hive on disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused something.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has the hive open for changes.
    #[error("{}: the hive is open for changes in another process", path.display())]
    InUse {
        /// The hive.
        path: PathBuf,
    },
    /// The file is larger than any hive.
    #[error("{}: {actual_bytes} bytes, a hive file has at most {limit_bytes}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        actual_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The content is wrong, or a change was refused.
    #[error("{}: {source}", path.display())]
    Hive {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Error,
    },
}

fn io_error<'p>(path: &'p Path, action: &'static str) -> impl FnOnce(io::Error) -> FileError + 'p {
    move |source| FileError::Io {
        path: path.to_owned(),
        action,
        source,
    }
}

fn log_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let actual_bytes = std::fs::metadata(path).map_err(io_error(path, "read it"))?.len();
    if actual_bytes > MAX_FILE_BYTES {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            actual_bytes,
            limit_bytes: MAX_FILE_BYTES,
        });
    }
    std::fs::read(path).map_err(io_error(path, "read it"))
}

/// The logs beside a hive, in the order in which they are replayed. A log that is not there is empty.
///
/// # Errors
/// Where one cannot be read.
pub fn read_logs(path: &Path) -> Result<Vec<Vec<u8>>, FileError> {
    let mut logs = Vec::new();
    for suffix in [".LOG1", ".LOG2", ".LOG"] {
        let log = log_path(path, suffix);
        match log.try_exists() {
            Ok(true) => logs.push(read(&log)?),
            Ok(false) => logs.push(Vec::new()),
            Err(error) => return Err(io_error(&log, "look for it")(error)),
        }
    }
    Ok(logs)
}

/// Reads a hive and, where it is dirty, replays the logs beside it in memory. Nothing on disk changes.
///
/// # Errors
/// Where it cannot be read, is no hive, or is dirty and its logs do not help.
pub fn load(path: &Path) -> Result<(Vec<u8>, Option<Recovery>), FileError> {
    let bytes = read(path)?;
    let logs = read_logs(path)?;
    let logs: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    match recover(&bytes, &logs) {
        Ok((std::borrow::Cow::Owned(bytes), recovery)) => Ok((bytes, recovery)),
        Ok((std::borrow::Cow::Borrowed(_), recovery)) => Ok((bytes, recovery)),
        Err(source) => Err(FileError::Hive {
            path: path.to_owned(),
            source,
        }),
    }
}

/// A hive on disk that is open for changes. No other process can open it so meanwhile.
pub struct HiveFile {
    path: PathBuf,
    file: File,
    log_path: PathBuf,
    log: File,
    log_bytes: u64,
    editor: Editor,
    /// The sequence number of the hive at rest.
    settled: u32,
    /// The next entry's sequence number.
    next: u32,
    /// Sectors that the primary file lacks.
    unwritten: BTreeSet<usize>,
    /// Whether the log was there before: one of ours that holds nothing goes at the end.
    had_log: bool,
}

impl Drop for HiveFile {
    fn drop(&mut self) {
        // The lock is still held. An empty log left behind would be harmless, so errors are too.
        if !self.had_log && self.log.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            let _ = std::fs::remove_file(&self.log_path);
        }
    }
}

impl HiveFile {
    /// Opens a hive for changes. A dirty one is recovered first, on disk as well.
    ///
    /// # Errors
    /// Where it is in use, cannot be read or written, or is not sound.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io_error(path, "open it"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(FileError::InUse { path: path.to_owned() }),
            Err(error) => return Err(io_error(path, "lock it")(error.into())),
        }
        let (bytes, recovery) = load(path)?;
        let log_path = log_path(path, ".LOG1");
        let had_log = log_path.exists();
        let log = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&log_path);
        let log = log.map_err(io_error(&log_path, "open it"))?;
        let editor = Editor::open(bytes).map_err(|source| FileError::Hive {
            path: path.to_owned(),
            source,
        })?;
        let settled = editor.hive().base_block().primary_sequence.get();
        let mut hive = Self {
            path: path.to_owned(),
            file,
            log_path,
            log,
            log_bytes: 0,
            editor,
            settled,
            next: settled.wrapping_add(1),
            unwritten: BTreeSet::new(),
            had_log,
        };
        if recovery.is_some() {
            let before = read(path)?;
            let sectors = hive
                .editor
                .bytes()
                .chunks(SECTOR_BYTES)
                .zip(before.chunks(SECTOR_BYTES).map(Some).chain(std::iter::repeat(None)));
            hive.unwritten = sectors
                .enumerate()
                .filter(|(_, (a, b))| Some(*a) != *b)
                .map(|(at, _)| at)
                .collect();
            hive.settle(None)?;
        }
        Ok(hive)
    }

    /// Makes a new hive file and opens it.
    ///
    /// # Errors
    /// Where it exists, or cannot be written.
    pub fn create(path: &Path, bytes: &[u8]) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(io_error(path, "make it"))?;
        file.write_all_at(bytes, 0).map_err(io_error(path, "write it"))?;
        drop(file);
        Self::open(path)
    }

    /// The hive, to read.
    #[must_use]
    pub fn editor(&self) -> &Editor {
        &self.editor
    }

    /// Adds a function that hears of every committed change.
    pub fn on_change(&mut self, hook: crate::edit::Hook) {
        self.editor.on_change(hook);
    }

    /// Does a change: when this returns, all of it is in the log and survives a kill; on an error,
    /// nothing of it is left. It is on the disk for good after the next [`HiveFile::flush`].
    ///
    /// # Errors
    /// What `work` returns, or where the log cannot be written.
    pub fn change<T>(&mut self, work: impl FnOnce(&mut Editor) -> crate::Result<T>) -> Result<T, FileError> {
        if self.log_bytes > MAX_LOG_BYTES {
            self.settle(None)?;
        }
        self.editor.begin();
        let result = match work(&mut self.editor) {
            Ok(value) => self.append_entry().map(|()| value),
            Err(source) => Err(FileError::Hive {
                path: self.path.clone(),
                source,
            }),
        };
        match result {
            Ok(value) => {
                self.editor.commit();
                Ok(value)
            }
            Err(error) => {
                let undone = self.editor.roll_back();
                undone.map_err(|source| FileError::Hive {
                    path: self.path.clone(),
                    source,
                })?;
                Err(error)
            }
        }
    }

    /// Writes the running transaction to the log.
    fn append_entry(&mut self) -> Result<(), FileError> {
        let sectors = self.editor.pending();
        if sectors.is_empty() {
            return Ok(());
        }
        let bytes = self.editor.bytes();
        let mut pages: Vec<(u32, &[u8])> = Vec::new();
        for run in runs(&sectors, BASE_BLOCK_BYTES / SECTOR_BYTES) {
            let (start, end) = (run.start * SECTOR_BYTES, (run.end * SECTOR_BYTES).min(bytes.len()));
            let offset = u32::try_from(start - BASE_BLOCK_BYTES).unwrap_or(u32::MAX);
            pages.push((offset, &bytes[start..end]));
        }
        let base = self.editor.hive().base_block().clone();
        let entry = log_entry(self.next, base.bins_bytes.get(), &pages);
        let first = self.log_bytes == 0;
        if first {
            // What is left in the log is of the past; the primary file is clean, and it stays so until the
            // new entry is whole.
            self.empty_logs()?;
            let sector = log_base(&base, self.next);
            self.log
                .write_all_at(sector.as_bytes(), 0)
                .map_err(io_error(&self.log_path, "write it"))?;
        }
        let at = if first { SECTOR_BYTES as u64 } else { self.log_bytes };
        self.log
            .write_all_at(&entry, at)
            .map_err(io_error(&self.log_path, "write it"))?;
        if first {
            let mut dirty = base;
            dirty.primary_sequence = U32::new(self.next);
            dirty.secondary_sequence = U32::new(self.settled);
            // The file's own length and bins are those of the last flush.
            let mut flushed = [0; SECTOR_BYTES];
            self.file
                .read_exact_at(&mut flushed, 0)
                .map_err(io_error(&self.path, "read it"))?;
            if let Ok(flushed) = BaseBlock::ref_from_bytes(&flushed) {
                dirty.bins_bytes = flushed.bins_bytes;
            }
            dirty.checksum = U32::new(checksum(dirty.as_bytes()));
            self.file
                .write_all_at(dirty.as_bytes(), 0)
                .map_err(io_error(&self.path, "write it"))?;
        }
        self.log_bytes = at + entry.len() as u64;
        self.next = self.next.wrapping_add(1);
        self.unwritten.extend(sectors);
        Ok(())
    }

    fn empty_logs(&self) -> Result<(), FileError> {
        self.log.set_len(0).map_err(io_error(&self.log_path, "empty it"))?;
        for suffix in [".LOG2", ".LOG"] {
            let other = log_path(&self.path, suffix);
            if other.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                let file = OpenOptions::new()
                    .write(true)
                    .open(&other)
                    .map_err(io_error(&other, "open it"))?;
                file.set_len(0).map_err(io_error(&other, "empty it"))?;
            }
        }
        Ok(())
    }

    /// Brings the primary file up to date and the disk to rest; `now` becomes the hive's last write.
    ///
    /// # Errors
    /// Where something cannot be written; the log then still holds everything.
    pub fn flush(&mut self, now: u64) -> Result<(), FileError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.settle(Some(now))
    }

    fn settle(&mut self, now: Option<u64>) -> Result<(), FileError> {
        let (path, log_path) = (self.path.clone(), self.log_path.clone());
        self.log.sync_data().map_err(io_error(&log_path, "sync it"))?;
        for run in runs(&self.unwritten, BASE_BLOCK_BYTES / SECTOR_BYTES) {
            let bytes = self.editor.bytes();
            let (start, end) = (run.start * SECTOR_BYTES, (run.end * SECTOR_BYTES).min(bytes.len()));
            self.file
                .write_all_at(&bytes[start..end], start as u64)
                .map_err(io_error(&path, "write it"))?;
        }
        self.file.sync_data().map_err(io_error(&path, "sync it"))?;
        let mut base = self.editor.hive().base_block().clone();
        base.primary_sequence = U32::new(self.next);
        base.secondary_sequence = U32::new(self.next);
        if let Some(now) = now {
            base.last_written = U64::new(now);
        }
        base.checksum = U32::new(checksum(base.as_bytes()));
        self.file
            .write_all_at(base.as_bytes(), 0)
            .map_err(io_error(&path, "write it"))?;
        self.file.sync_data().map_err(io_error(&path, "sync it"))?;
        self.editor.bytes_mut()[..SECTOR_BYTES].copy_from_slice(base.as_bytes());
        self.settled = self.next;
        self.next = self.next.wrapping_add(1);
        self.unwritten.clear();
        self.empty_logs()?;
        self.log_bytes = 0;
        Ok(())
    }
}

/// Runs of sectors that follow one another, from sector `least` on.
fn runs(sectors: &BTreeSet<usize>, least: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for &sector in sectors.range(least..) {
        match runs.last_mut() {
            Some(run) if run.end == sector => run.end += 1,
            _ => runs.push(sector..sector + 1),
        }
    }
    runs
}
