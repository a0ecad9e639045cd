// SPDX-License-Identifier: GPL-3.0-or-later
//! The work of a lay-down, cut into jobs that any thread can take, in the order of the medium.
//!
//! A small resource is one job. A large one is cut into runs of whole chunks, so that all cores decompress it; a blob
//! that spans runs is handed from one to the next, because its hashes and its file grow in order.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use super::ApplyError;
use super::in_memory;
use super::inventory::Inventory;
use super::sink::BlobSink;
use crate::wim::{BlobId, ResourceId, ResourceLayout, Wim, WimError};

/// Decompressed bytes that one job aims at. Large enough that a hand-over costs nothing, small enough that a few of
/// them for each thread stay within the memory bound.
const RUN_BYTES: u64 = 4 << 20;

/// Empty files of one job.
const EMPTY_FILES: usize = 256;

/// One piece of work.
#[derive(Debug)]
pub(super) enum Job {
    /// Inodes without content: positions in [`Inventory::empty_inodes`].
    EmptyFiles(Range<usize>),
    /// Streams without content.
    EmptyStreams,
    /// A run of a resource: positions in [`Jobs::resources`] and of the run.
    Run(usize, usize),
}

/// A resource that is being read.
#[derive(Debug)]
pub(super) struct Resource {
    pub id: ResourceId,
    /// Its blobs that the image needs, by offset.
    pub blobs: Vec<BlobId>,
    /// Bytes of one run.
    pub run_bytes: u64,
    pub run_count: usize,
    layout: OnceLock<Arc<ResourceLayout>>,
    /// `handovers[n]` holds the blob that run `n` left unfinished for run `n + 1`.
    pub handovers: Vec<Handover>,
}

/// A place where one run leaves its unfinished blob for the next.
#[derive(Debug, Default)]
pub(super) struct Handover {
    pub slot: Mutex<Option<BlobSink>>,
    pub filled: Condvar,
}

impl Resource {
    /// The chunk table, read by whoever comes first.
    pub fn layout(&self, wim: &Wim) -> Result<Arc<ResourceLayout>, WimError> {
        if let Some(layout) = self.layout.get() {
            return Ok(Arc::clone(layout));
        }
        // Two threads may both read it; the table is the same.
        let layout = Arc::new(wim.layout(self.id)?);
        Ok(Arc::clone(self.layout.get_or_init(|| layout)))
    }
}

/// All work of a lay-down.
#[derive(Debug)]
pub(super) struct Jobs {
    pub list: Vec<Job>,
    pub resources: Vec<Resource>,
}

/// Cuts a lay-down into jobs.
pub(super) fn plan(wim: &Wim, inventory: &Inventory) -> Result<Jobs, ApplyError> {
    let blobs = wim.blobs()?;
    let needed = inventory.targets.keys().filter_map(|sha1| blobs.find(sha1));
    let mut list = Vec::new();
    let mut resources = Vec::new();
    for read in wim.read_order(needed)? {
        // The size of a plain resource is known from its blob; its chunk table is read when its turn comes.
        let (size_bytes, layout) = match read.resource {
            ResourceId::Blob(id) => (blobs.get(id).size_bytes, OnceLock::new()),
            ResourceId::Solid(_) => {
                let layout = Arc::new(wim.layout(read.resource)?);
                (layout.size_bytes(), OnceLock::from(layout))
            }
        };
        let chunk_bytes = layout
            .get()
            .map_or(wim.header().chunk_size_bytes, |layout| layout.chunk_size_bytes());
        let run_bytes = RUN_BYTES.next_multiple_of(u64::from(chunk_bytes.max(1)));
        let run_count = in_memory(size_bytes.div_ceil(run_bytes).max(1));
        let position = resources.len();
        list.extend((0..run_count).map(|run| Job::Run(position, run)));
        resources.push(Resource {
            id: read.resource,
            blobs: read.blobs,
            run_bytes,
            run_count,
            layout,
            handovers: (1..run_count).map(|_| Handover::default()).collect(),
        });
    }
    let empty = inventory.empty_inodes.len();
    list.extend(
        (0..empty)
            .step_by(EMPTY_FILES)
            .map(|start| Job::EmptyFiles(start..empty.min(start + EMPTY_FILES))),
    );
    if !inventory.empty_streams.is_empty() {
        list.push(Job::EmptyStreams);
    }
    Ok(Jobs { list, resources })
}
