// SPDX-License-Identifier: GPL-3.0-or-later
//! Why an import, or a look at a medium, failed.

use std::path::PathBuf;

use super::select::{EditionNumber, SelectError};
use crate::answers::AnswersError;
use crate::apply::{ApplyError, MissingBlob};
use crate::medium::MediumError;
use crate::wim::WimError;

/// An import that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say what the fields hold.
pub enum ImportError {
    #[error(transparent)]
    Medium(#[from] MediumError),
    #[error("{} has no install.wim, install.esd or install.swm: it can start Windows PE, but installs nothing", path.display())]
    NoEditions { path: PathBuf },
    #[error("{path} cannot be read")]
    Wim {
        path: String,
        #[source]
        source: WimError,
    },
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error("image {number}, {name}, is no edition: it is {kind}")]
    NotInstallable {
        number: EditionNumber,
        name: String,
        kind: &'static str,
    },
    #[error("edition {number} holds no installed Windows: {file} is missing")]
    NoWindows { number: EditionNumber, file: String },
    #[error("the XML of edition {number} names no processor architecture that an answer file knows")]
    NoArchitecture { number: EditionNumber },
    #[error(transparent)]
    Answers(#[from] AnswersError),
    #[error("the answer file {} cannot be read", path.display())]
    ReadAnswers {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the image file lacks {} blob(s) that edition {number} needs, the first {} for {}",
        missing.len(), missing[0].sha1, missing[0].path
    )]
    MissingBlobs {
        number: EditionNumber,
        missing: Vec<MissingBlob>,
    },
    #[error(
        "the world needs {needed_bytes} bytes and {needed_files} inodes, but the file system of {} has only \
         {free_bytes} bytes and {free_files} inodes free", path.display()
    )]
    NoRoom {
        path: PathBuf,
        needed_bytes: u64,
        free_bytes: u64,
        needed_files: u64,
        free_files: u64,
    },
    #[error("the disk is full: the world needs {needed_bytes} bytes in {}", path.display())]
    DiskFull {
        path: PathBuf,
        needed_bytes: u64,
        #[source]
        source: Box<ImportError>,
    },
    #[error("the image cannot be laid down")]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    World(#[from] overlay::Error),
    #[error("the hive {file} cannot be imported")]
    Hive {
        file: String,
        #[source]
        source: hive::Error,
    },
    #[error(
        "the registry does not hold what {file} holds: {expected_keys} key(s) and {expected_values} value(s) were \
         expected under {key}, {found_keys} and {found_values} are there"
    )]
    HiveCounts {
        file: String,
        key: String,
        expected_keys: u64,
        expected_values: u64,
        found_keys: u64,
        found_values: u64,
    },
    #[error("{} cannot be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the target's path {path} is no NT path")]
    Place {
        path: String,
        #[source]
        source: overlay::NameError,
    },
    #[error("interrupted")]
    Interrupted,
}

impl ImportError {
    /// Whether the host's disk was full, however deep in the chain it said so.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return matches!(
                    error.kind(),
                    std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
                );
            }
            if let Some(error) = error.downcast_ref::<overlay::Error>()
                && error.is_no_space()
            {
                return true;
            }
            next = error.source();
        }
        false
    }
}
