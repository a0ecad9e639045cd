// SPDX-License-Identifier: GPL-3.0-or-later
//! One thread of a lay-down: takes jobs in order, reads, decompresses, checks and writes.
//!
//! A thread that waits for the run before its own never deadlocks: jobs are taken in order, so that run is done or
//! in the hands of a thread that waits for an earlier one at most. The first error stops all.

use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use overlay::tree::{Dir, FileTree, NewFile};
use overlay::{ContentHash, SecurityId};

use super::inventory::{Inventory, Target};
use super::jobs::{Handover, Job, Jobs, Resource};
use super::sink::{BlobSink, Filled};
use super::{ApplyError, Options, in_memory};
use crate::wim::{Blob, BlobId, BlobTable, ChunkDecoder, ImageMetadata, ResourceLayout, Wim, WimError};

/// How often a thread that waits for another looks whether the work was stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// What all threads share.
pub(super) struct Stage<'a> {
    wim: &'a Wim,
    metadata: &'a ImageMetadata,
    inventory: &'a Inventory,
    tree: &'a FileTree,
    security: &'a [SecurityId],
    directories: &'a [Dir],
    jobs: &'a Jobs,
    options: &'a Options<'a>,
    next_job: AtomicUsize,
    done_bytes: AtomicU64,
    stopped: AtomicBool,
    first_error: Mutex<Option<ApplyError>>,
}

/// What one thread keeps from job to job.
struct Scratch {
    decoder: ChunkDecoder,
    stored: Vec<u8>,
    run: Vec<u8>,
}

/// Stops the other threads if this one unwinds: they may wait for what will never come.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

impl<'a> Stage<'a> {
    #[allow(clippy::too_many_arguments)] // Everything that a lay-down knows, once.
    pub fn new(
        wim: &'a Wim,
        metadata: &'a ImageMetadata,
        inventory: &'a Inventory,
        tree: &'a FileTree,
        security: &'a [SecurityId],
        directories: &'a [Dir],
        jobs: &'a Jobs,
        options: &'a Options<'a>,
    ) -> Self {
        Self {
            wim,
            metadata,
            inventory,
            tree,
            security,
            directories,
            jobs,
            options,
            next_job: AtomicUsize::new(0),
            done_bytes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            first_error: Mutex::new(None),
        }
    }

    /// Takes jobs until none is left or the work was stopped.
    pub fn work(&self) {
        let _stop = StopOnPanic(&self.stopped);
        let mut scratch = Scratch {
            decoder: ChunkDecoder::new(),
            stored: Vec::new(),
            run: Vec::new(),
        };
        while !self.stopped.load(Ordering::Acquire) {
            let Some(job) = self.jobs.list.get(self.next_job.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let done = if self.options.interrupted.load(Ordering::Relaxed) {
                Err(ApplyError::Interrupted)
            } else {
                self.take(job, &mut scratch)
            };
            match done {
                Ok(()) => (self.options.progress)(self.done_bytes.load(Ordering::Relaxed)),
                Err(error) => {
                    self.stopped.store(true, Ordering::Release);
                    if let Ok(mut first) = self.first_error.lock() {
                        first.get_or_insert(error);
                    }
                    return;
                }
            }
        }
    }

    /// How the work ended, once all threads have.
    pub fn outcome(self) -> Result<(), ApplyError> {
        match self.first_error.into_inner() {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(poisoned) => poisoned.into_inner().map_or(Ok(()), Err),
        }
    }

    fn take(&self, job: &Job, scratch: &mut Scratch) -> Result<(), ApplyError> {
        match job {
            Job::EmptyFiles(range) => {
                for position in &self.inventory.empty_inodes[range.clone()] {
                    let file = self.create_file(*position, 0)?;
                    self.finish_file(*position, file, ContentHash::of(&[]))?;
                }
            }
            Job::EmptyStreams => {
                for (key, name) in &self.inventory.empty_streams {
                    let stream = self.tree.create_stream(*key, name, 0)?;
                    self.tree.finish_stream(stream, Some(ContentHash::of(&[])))?;
                }
            }
            Job::Run(resource, run) => self.run(&self.jobs.resources[*resource], *run, scratch)?,
        }
        Ok(())
    }

    /// Decompresses one run of a resource and gives each blob its part of it.
    fn run(&self, resource: &Resource, run: usize, scratch: &mut Scratch) -> Result<(), ApplyError> {
        let blobs = self.wim.blobs()?;
        let whose = |error| self.unreadable(blobs, &resource.blobs, error);
        let layout = resource.layout(self.wim).map_err(whose)?;
        let start = run as u64 * resource.run_bytes;
        let end = layout.size_bytes().min(start.saturating_add(resource.run_bytes));
        let range = |blob: &Blob| {
            (
                blob.offset_in_resource,
                blob.offset_in_resource.saturating_add(blob.size_bytes),
            )
        };
        let first = resource.blobs.partition_point(|id| {
            let (blob_start, blob_end) = range(&blobs.get(*id));
            blob_end <= start && blob_start < start
        });
        let here: Vec<(BlobId, Blob)> = resource.blobs[first..]
            .iter()
            .map(|id| (*id, blobs.get(*id)))
            .take_while(|(_, blob)| {
                blob.offset_in_resource < end || (blob.size_bytes == 0 && run + 1 == resource.run_count)
            })
            .collect();
        let needed: Vec<(u64, u64)> = here
            .iter()
            .map(|(_, blob)| range(blob))
            .map(|(from, to)| (from.max(start), to.min(end)))
            .collect();
        self.decode(&layout, (start, end), &needed, scratch).map_err(whose)?;

        let piece = |(from, to): (u64, u64)| -> &[u8] {
            // Both lie within the run, whose length is that of a buffer.
            if from < to {
                &scratch.run[in_memory(from - start)..in_memory(to - start)]
            } else {
                &[]
            }
        };
        // Blobs that begin and end here wait for nobody, so they come first.
        for ((id, blob), part) in here.iter().zip(&needed) {
            let (from, to) = range(blob);
            if from >= start && to <= end {
                self.whole_blob(*id, blob, piece(*part))?;
            }
        }
        for ((id, blob), part) in here.iter().zip(&needed) {
            let (from, to) = range(blob);
            if from >= start && to <= end {
                continue;
            }
            let mut sink = if from < start {
                match self.await_handover(&resource.handovers[run - 1]) {
                    Some(sink) => sink,
                    None => return Ok(()), // Another thread has failed and says so.
                }
            } else {
                BlobSink::new(*id, self.first_file(blob)?)
            };
            sink.write(piece(*part))
                .map_err(|source| self.write_error(blob, source))?;
            self.done_bytes.fetch_add(part.1 - part.0, Ordering::Relaxed);
            if to > end {
                let handover = &resource.handovers[run];
                if let Ok(mut slot) = handover.slot.lock() {
                    *slot = Some(sink);
                    handover.filled.notify_all();
                }
            } else {
                self.finish_blob(blob, sink, None)?;
            }
        }
        Ok(())
    }

    /// Decompresses those chunks of the run that the `needed` ranges touch, each to its place in the run's buffer.
    fn decode(
        &self,
        layout: &ResourceLayout,
        (start, end): (u64, u64),
        needed: &[(u64, u64)],
        scratch: &mut Scratch,
    ) -> Result<(), WimError> {
        scratch.run.resize(in_memory(end.saturating_sub(start)), 0);
        let mut next_chunk = 0;
        for (from, to) in needed.iter().filter(|(from, to)| from < to) {
            let chunks = layout.chunks_of(*from, to - from);
            for index in chunks.start.max(next_chunk)..chunks.end {
                let chunk = layout.chunk(index);
                self.wim.read_stored(layout, &chunk, &mut scratch.stored)?;
                // A run consists of whole chunks, so each lies within it.
                let at = in_memory(chunk.start - start);
                let out = &mut scratch.run[at..at + chunk.size_bytes as usize];
                scratch.decoder.decode(layout, &chunk, &scratch.stored, out)?;
                next_chunk = index + 1;
            }
        }
        Ok(())
    }

    /// Waits for the run before to leave its blob; `None` when the work was stopped.
    fn await_handover(&self, handover: &Handover) -> Option<BlobSink> {
        let mut slot = handover.slot.lock().ok()?;
        loop {
            if let Some(sink) = slot.take() {
                return Some(sink);
            }
            if self.stopped.load(Ordering::Acquire) {
                return None;
            }
            slot = handover.filled.wait_timeout(slot, STOP_CHECK).ok()?.0;
        }
    }

    /// A blob that lies within one run.
    fn whole_blob(&self, id: BlobId, blob: &Blob, bytes: &[u8]) -> Result<(), ApplyError> {
        let mut sink = BlobSink::new(id, self.first_file(blob)?);
        sink.write(bytes).map_err(|source| self.write_error(blob, source))?;
        self.done_bytes.fetch_add(blob.size_bytes, Ordering::Relaxed);
        self.finish_blob(blob, sink, Some(bytes))
    }

    /// The targets of a blob; one that nothing needs is never read.
    fn targets(&self, blob: &Blob) -> &[Target] {
        self.inventory.targets.get(&blob.sha1).map_or(&[], Vec::as_slice)
    }

    /// The target that takes the bytes as they come: the first that is a file or a stream.
    fn first_writable(targets: &[Target]) -> Option<usize> {
        targets.iter().position(|target| !matches!(target, Target::Reparse(_)))
    }

    fn first_file(&self, blob: &Blob) -> Result<Option<NewFile>, ApplyError> {
        let targets = self.targets(blob);
        Self::first_writable(targets)
            .map(|first| self.create(&targets[first], blob.size_bytes))
            .transpose()
    }

    /// Checks a blob whose bytes have all come, ends its first file and fills the others. `whole` are the bytes where
    /// they are still at hand; otherwise they are copied from the first file.
    fn finish_blob(&self, blob: &Blob, sink: BlobSink, whole: Option<&[u8]>) -> Result<(), ApplyError> {
        let Filled {
            sha1,
            content,
            file,
            gathered,
        } = sink.finish();
        let targets = self.targets(blob);
        if sha1 != blob.sha1 {
            let files = self.names(targets);
            return Err(ApplyError::DamagedBlob {
                expected: blob.sha1,
                found: sha1,
                files,
            });
        }
        let content = ContentHash::from(content);
        let first = Self::first_writable(targets);
        for (position, target) in targets.iter().enumerate() {
            if Some(position) == first {
                continue;
            }
            if let Target::Reparse(key) = target {
                match (&file, whole) {
                    (_, Some(bytes)) => self.tree.set_reparse(*key, bytes)?,
                    (Some(file), None) => {
                        let bytes =
                            read_back(file, blob.size_bytes).map_err(|source| self.write_error(blob, source))?;
                        self.tree.set_reparse(*key, &bytes)?;
                    }
                    (None, None) => self.tree.set_reparse(*key, &gathered)?,
                }
                continue;
            }
            let mut copy = self.create(target, blob.size_bytes)?;
            let copied = match (whole, &file) {
                (Some(bytes), _) => std::io::Write::write_all(&mut copy, bytes),
                (None, Some(file)) => copy_contents(file, &copy),
                (None, None) => Ok(()),
            };
            copied.map_err(|source| self.write_error(blob, source))?;
            self.done_bytes.fetch_add(blob.size_bytes, Ordering::Relaxed);
            self.finish(target, copy, content)?;
        }
        if let (Some(first), Some(file)) = (first, file) {
            self.finish(&targets[first], file, content)?;
        }
        Ok(())
    }

    fn create(&self, target: &Target, size_bytes: u64) -> Result<NewFile, ApplyError> {
        match target {
            Target::File(position) => self.create_file(*position, size_bytes),
            Target::Stream(key, name) => Ok(self.tree.create_stream(*key, name, size_bytes)?),
            // Callers set reparse data at once; it has no file.
            Target::Reparse(_) => unreachable!("reparse data is no file"),
        }
    }

    fn finish(&self, target: &Target, file: NewFile, content: ContentHash) -> Result<(), ApplyError> {
        match target {
            Target::File(position) => self.finish_file(*position, file, content),
            _ => Ok(self.tree.finish_stream(file, Some(content))?),
        }
    }

    fn create_file(&self, position: usize, size_bytes: u64) -> Result<NewFile, ApplyError> {
        let (directory, stored) = &self.inventory.inodes[position].names[0];
        Ok(self
            .tree
            .create_file(&self.directories[*directory], stored, size_bytes)?)
    }

    fn finish_file(&self, position: usize, file: NewFile, content: ContentHash) -> Result<(), ApplyError> {
        let inode = &self.inventory.inodes[position];
        let metadata = self.inventory.inode_metadata(self.metadata, position, self.security);
        let (first_directory, first_name) = &inode.names[0];
        for (directory, name) in &inode.names[1..] {
            let from = (&self.directories[*first_directory], first_name);
            self.tree.link(from, (&self.directories[*directory], name))?;
        }
        Ok(self.tree.finish_file(file, &metadata, Some(content))?)
    }

    fn names(&self, targets: &[Target]) -> Vec<String> {
        let mut names: Vec<String> = targets
            .iter()
            .map(|target| self.inventory.target_path(target))
            .collect();
        names.sort();
        names
    }

    fn write_error(&self, blob: &Blob, source: std::io::Error) -> ApplyError {
        let path = self
            .targets(blob)
            .first()
            .map_or_else(String::new, |target| self.inventory.target_path(target));
        ApplyError::Write { path, source }
    }

    fn unreadable(&self, blobs: &BlobTable, ids: &[BlobId], source: WimError) -> ApplyError {
        // A solid resource can hold thousands of files; a few of them show where the damage is.
        let few = ids
            .iter()
            .take(8)
            .flat_map(|id| self.names(self.targets(&blobs.get(*id))));
        ApplyError::UnreadableBlob {
            files: few.take(8).collect(),
            source,
        }
    }
}

/// What was written into `file` so far.
fn read_back(file: &NewFile, size_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; in_memory(size_bytes)];
    file.file().read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Fills `to`, which is empty, with the content of `from`.
fn copy_contents(from: &NewFile, to: &NewFile) -> std::io::Result<()> {
    let mut source = from.file();
    source.seek(SeekFrom::Start(0))?;
    std::io::copy(&mut source, &mut to.file()).map(drop)
}
