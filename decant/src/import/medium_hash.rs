// SPDX-License-Identifier: GPL-3.0-or-later
//! SHA-256 of the medium, computed beside the other stages: most of it is read for them anyway.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use sha2::{Digest, Sha256};

use super::{ImportError, is_one_file};
use crate::medium::{Medium, MediumError};

const READ_BYTES: usize = 1 << 20;

/// A hash that is being computed.
pub(super) struct MediumHash<'scope> {
    thread: Option<ScopedJoinHandle<'scope, Result<Option<String>, ImportError>>>,
    stopped: Arc<AtomicBool>,
}

impl<'scope> MediumHash<'scope> {
    /// Starts to hash `medium` where it is one file; a directory has no hash.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        medium: &'env Medium,
        interrupted: &'env AtomicBool,
    ) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = is_one_file(medium.kind()).then(|| {
            let stopped = Arc::clone(&stopped);
            scope.spawn(move || {
                hash(medium, &|| {
                    stopped.load(Ordering::Relaxed) || interrupted.load(Ordering::Relaxed)
                })
            })
        });
        Self { thread, stopped }
    }

    /// The result is not wanted any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Waits for the hash: lower-case hex, or nothing for a directory.
    pub fn join(self) -> Result<Option<String>, ImportError> {
        match self.thread.map(ScopedJoinHandle::join) {
            None => Ok(None),
            Some(Ok(hash)) => hash,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

fn hash(medium: &Medium, stopped: &dyn Fn() -> bool) -> Result<Option<String>, ImportError> {
    let path = medium.path();
    let failed = |source| {
        ImportError::Medium(MediumError::Host {
            path: path.to_owned(),
            source,
        })
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if stopped() {
            return Err(ImportError::Interrupted);
        }
        match file.read(&mut buffer) {
            Ok(0) => {
                return Ok(Some(
                    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
                ));
            }
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
