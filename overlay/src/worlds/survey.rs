// SPDX-License-Identifier: GPL-3.0-or-later
//! What there is before a world is begun, asked without making anything that stays.

use std::path::{Path, PathBuf};

use super::{WorldName, Worlds, staging};
use crate::beneath::open_root;
use crate::error::{Error, Result, Trying};
use crate::probe::{self, FileSystem};
use crate::sizes::sizes;

/// What a new world will find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Where the world will be.
    pub path: PathBuf,
    /// The file system there.
    pub file_system: FileSystem,
    /// What a killed import of the same name still takes: it is gone on with or cleared, so it counts as free.
    pub left_over_bytes: u64,
}

impl Worlds {
    /// Looks whether a world of that name can be begun in `root`, which need not be there yet.
    ///
    /// # Errors
    /// [`Error::WorldExists`]; [`Error::NoUserXattrs`] or [`Error::CoarseTimes`] for a file system that cannot hold
    /// worlds; what Linux says.
    pub fn survey(root: &Path, name: &WorldName) -> Result<Survey> {
        let path = root.join(name.as_str());
        if path.symlink_metadata().is_ok() {
            return Err(Error::WorldExists {
                name: name.to_string(),
                root: root.to_owned(),
            });
        }
        let root = std::path::absolute(root).trying("find", root)?;
        let existing = root.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(&root);
        let existing = std::fs::canonicalize(existing).trying("find", existing)?;
        let directory = open_root(&existing).trying("open", &existing)?;
        let file_system = probe::probe(&directory, &existing)?;
        let left_over = root.join(staging::dir_name(name)).join(staging::WORLD);
        // A half-made world may lack anything; what cannot be counted counts as taken.
        let left_over_bytes = sizes(&left_over).map_or(0, |sizes| sizes.allocated_bytes);
        Ok(Survey {
            path,
            file_system,
            left_over_bytes,
        })
    }

    /// Opens the directory of worlds where there is one; `None` where nobody has made a world yet.
    ///
    /// # Errors
    /// As [`Worlds::open`].
    pub fn open_existing(root: &Path) -> Result<Option<Self>> {
        match root.symlink_metadata() {
            Ok(_) => Self::open(root).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look at", root, error)),
        }
    }
}
