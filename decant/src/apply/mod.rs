// SPDX-License-Identifier: GPL-3.0-or-later
//! Laying an image down natively: from a WIM, wherever it lies, into a world's file tree, in parallel.
//!
//! [`Inventory`] is everything that an image asks for, checked before a byte is written. [`lay_down`] then writes it:
//! directories first, then every blob once, in the medium's order, each checked against its SHA-1. What comes out does
//! not depend on the number of threads or on who finished first.

mod error;
mod inventory;
mod jobs;
mod sink;
mod worker;

use std::sync::atomic::AtomicBool;

use overlay::tree::FileTree;

use crate::wim::{ImageMetadata, Wim};

pub use error::ApplyError;
pub use inventory::{EscapedName, Inventory, MissingBlob, Room};

/// How to lay down: threads, and whom to tell.
pub struct Options<'a> {
    /// Worker threads; 0 takes one for each core.
    pub threads: usize,
    /// Called with the bytes that were written so far, from any worker.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Set by Ctrl-C; the lay-down then stops between two jobs.
    pub interrupted: &'a AtomicBool,
}

impl Options<'_> {
    fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

/// Writes everything in `inventory` into `tree`.
///
/// # Errors
/// [`ApplyError`] when a blob is damaged (naming the files that use it), the host cannot write, or the person
/// interrupted. What was written by then stays in the tree, which is the caller's to keep or to clear.
pub fn lay_down(
    wim: &Wim,
    metadata: &ImageMetadata,
    inventory: &Inventory,
    tree: &FileTree,
    options: &Options<'_>,
) -> Result<(), ApplyError> {
    let security = metadata
        .security_descriptors()
        .map(|descriptor| tree.intern_security(descriptor))
        .collect::<Result<Vec<_>, _>>()?;
    let directories = inventory.create_directories(metadata, tree, &security)?;
    let jobs = jobs::plan(wim, inventory)?;
    let stage = worker::Stage::new(wim, metadata, inventory, tree, &security, &directories, &jobs, options);
    std::thread::scope(|scope| {
        for _ in 1..options.thread_count() {
            scope.spawn(|| stage.work());
        }
        stage.work();
    });
    stage.outcome()?;
    tree.finish()?;
    Ok(())
}

// A worker's buffers hold runs of a few MiB, or one solid chunk.
const _: () = assert!(usize::BITS >= 64, "lengths in memory are taken from 64-bit lengths");

/// A length or offset within a buffer of this process.
#[allow(clippy::cast_possible_truncation)] // Checked above for every target.
fn in_memory(length: u64) -> usize {
    length as usize
}
