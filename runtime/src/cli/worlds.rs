// SPDX-License-Identifier: GPL-3.0-or-later
//! Where worlds live, and how the `overlay` crate's errors end a command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use overlay::{Error, ExitClass, World, WorldName, Worlds};

use super::{ExitCode, Failure};

/// The `--worlds` option of every command that touches worlds.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Where worlds live [default: $XDG_DATA_HOME/vodka/worlds]
    #[arg(long, value_name = "DIR")]
    worlds: Option<PathBuf>,
}

impl Place {
    /// The directory that worlds live in; it may not exist yet.
    ///
    /// # Errors
    /// When neither the option nor the environment says where.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.worlds {
            return Ok(path.clone());
        }
        // An empty or relative XDG variable counts as unset (XDG Base Directory Specification).
        let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        let data = std::env::var_os("XDG_DATA_HOME").and_then(absolute);
        let home = || {
            std::env::var_os("HOME")
                .and_then(absolute)
                .map(|home| home.join(".local/share"))
        };
        data.or_else(home).map(|data| data.join("vodka/worlds")).ok_or_else(|| {
            Failure::new(ExitCode::Usage, "neither XDG_DATA_HOME nor HOME says where worlds live")
                .hint("say it with --worlds DIR")
        })
    }

    /// The worlds there; none where nobody has made one yet.
    ///
    /// # Errors
    /// As [`Place::path`], and what Linux says.
    pub fn worlds(&self) -> Result<Option<Worlds>, Failure> {
        Worlds::open_existing(&self.path()?).map_err(failure)
    }

    /// A world by its name.
    ///
    /// # Errors
    /// As [`Place::worlds`], [`Error::WorldMissing`], or a name that no world can have.
    pub fn world(&self, name: &str) -> Result<World, Failure> {
        let name = world_name(name)?;
        match self.worlds()? {
            Some(worlds) => worlds.world(&name).map_err(failure),
            None => Err(failure(Error::WorldMissing {
                name: name.to_string(),
                root: self.path()?,
            })),
        }
    }
}

/// A world's name as a person types it.
///
/// # Errors
/// [`ExitCode::Usage`] for what no world can be called.
pub fn world_name(name: &str) -> Result<WorldName, Failure> {
    WorldName::new(name).map_err(|error| failure(Error::WorldName(error)))
}

/// The exit code of a world's error.
#[must_use]
pub fn exit_code(error: &Error) -> ExitCode {
    match error.exit_class() {
        ExitClass::World => ExitCode::World,
        ExitClass::NoRoom => ExitCode::NoRoom,
        ExitClass::Damaged => ExitCode::Damaged,
        ExitClass::Usage => ExitCode::Usage,
        _ => ExitCode::Unexpected,
    }
}

/// What a person can do about a world's error.
#[must_use]
pub fn hints(error: &Error) -> Vec<String> {
    match error {
        Error::WorldMissing { .. } => vec!["`vodka world list` shows those that there are".to_owned()],
        Error::NoUserXattrs { .. } => {
            vec!["a world keeps NT metadata in extended attributes: choose another place with --worlds".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// A world's error as the person sees it.
#[must_use]
pub fn failure(error: Error) -> Failure {
    let hints = hints(&error);
    let mut failure = Failure::new(exit_code(&error), error);
    failure.hints = hints;
    failure
}
