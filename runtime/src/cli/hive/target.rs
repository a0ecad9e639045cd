// SPDX-License-Identifier: GPL-3.0-or-later
//! What a command works on: a hive file or a world's registry, and where a typed path lies in it.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use hive::{FileError, Hive, HiveFile, Key};
use overlay::worlds::WorldLock;
use overlay::{FileTime, World};

use super::super::worlds::Place;
use super::super::{ExitCode, Failure};

/// How a command names its hive. The words that follow it on the command line are the command's own.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// The registry of this world, in place of WHERE
    #[arg(long, value_name = "NAME")]
    world: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// A hive that a command works on.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// What the person calls it.
    pub(super) shown: String,
    /// Whether paths are those of a world.
    pub(super) is_world: bool,
    world: Option<World>,
    /// Keeps the world from being sealed or removed while its registry is open for changes.
    lock: Option<WorldLock>,
}

impl Where {
    /// The target and the words that are left. Of `words` the first is WHERE, unless `--world` says it.
    pub(super) fn target(&self, words: &[String], usage: &str) -> Result<(Target, VecDeque<String>), Failure> {
        let mut words: VecDeque<String> = words.iter().cloned().collect();
        let target = match &self.world {
            Some(name) => self.world(name)?,
            None => match words.pop_front() {
                Some(word) => self.named(&word)?,
                None => return Err(wrong_usage("no hive is named", usage)),
            },
        };
        Ok((target, words))
    }

    /// The target that one word names.
    pub(super) fn named(&self, word: &str) -> Result<Target, Failure> {
        match word.strip_prefix("world:") {
            Some(name) => self.world(name),
            None => Ok(Target {
                path: PathBuf::from(word),
                shown: word.to_owned(),
                is_world: false,
                world: None,
                lock: None,
            }),
        }
    }

    fn world(&self, name: &str) -> Result<Target, Failure> {
        let world = self.place.world(name)?;
        Ok(Target {
            path: world.registry_path(),
            shown: format!("world {}", world.name()),
            is_world: true,
            world: Some(world),
            lock: None,
        })
    }
}

pub(super) fn wrong_usage(what: &str, usage: &str) -> Failure {
    Failure::new(ExitCode::Usage, what.to_owned()).hint(format!("usage: vodka hive {usage}"))
}

impl Target {
    /// The hive's bytes, with its logs replayed in memory, which is said on standard error. With `damaged`, what there
    /// is of it.
    pub(super) fn read(&self, damaged: bool) -> Result<Vec<u8>, Failure> {
        match hive::load(&self.path) {
            Ok((bytes, recovery)) => {
                if let Some(recovery) = recovery {
                    let nr = recovery.nr_entries;
                    note(&format!(
                        "{} is dirty: {nr} log entr(ies) were replayed, in memory only",
                        self.shown
                    ));
                }
                Ok(bytes)
            }
            Err(FileError::Hive { .. }) if damaged => {
                std::fs::read(&self.path).map_err(|error| Failure::from(error).hint(self.shown.clone()))
            }
            Err(error) => {
                // Text is no damaged hive: there is nothing to read in it.
                let is_damage =
                    matches!(&error, FileError::Hive { source, .. } if !matches!(source, ::hive::Error::RegistryText));
                let failure = failure(error);
                Err(if is_damage {
                    failure.hint("--damaged reads what can be read")
                } else {
                    failure
                })
            }
        }
    }

    /// Opens the hive for changes; a world is held until the target goes.
    pub(super) fn edit(&mut self) -> Result<HiveFile, Failure> {
        if let Some(world) = &self.world {
            if world.conf().digest.is_some() {
                let what = format!("{} is sealed: nothing writes to it", self.shown);
                return Err(Failure::new(ExitCode::World, what).hint("make a fork of it and change that"));
            }
            self.lock = Some(world.lock_shared().map_err(super::super::worlds::failure)?);
        }
        HiveFile::open(&self.path).map_err(failure)
    }

    /// Where a typed path lies in the file.
    pub(super) fn key_path(&self, typed: &str) -> String {
        let path = if self.is_world {
            hive::paths::in_world_str(typed)
        } else {
            typed.to_owned()
        };
        path.trim_matches('\\').to_owned()
    }

    /// How a path in the file is shown.
    pub(super) fn shown_path(&self, path: &str) -> String {
        if self.is_world {
            hive::paths::shown_from_world(path)
        } else {
            path.to_owned()
        }
    }

    /// The key at a typed path.
    pub(super) fn find<'a>(&self, hive: &Hive<'a>, typed: &str) -> Result<Key<'a>, Failure> {
        let path = self.key_path(typed);
        match hive.open_path(&path).map_err(damage)? {
            Some(key) => Ok(key),
            None => Err(self.missing_key(hive, typed)),
        }
    }

    /// A failure that says how much of the path is there, and what stands beside the first missing name.
    pub(super) fn missing_key(&self, hive: &Hive<'_>, typed: &str) -> Failure {
        let failure = Failure::new(ExitCode::Unexpected, format!("{}: there is no key {typed}", self.shown));
        let path = self.key_path(typed);
        let Ok(mut key) = hive.root() else { return failure };
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            match key.subkey(name) {
                Ok(Some(subkey)) => key = subkey,
                _ => {
                    let all = key.subkeys().into_iter().flatten().filter_map(Result::ok);
                    let near: Vec<String> = all
                        .map(|key| key.name().to_string())
                        .filter(|n| is_near(n, name))
                        .collect();
                    return match near.first() {
                        Some(near) => failure.hint(format!("{name} is missing; did you mean {near}?")),
                        None => failure.hint(format!("{name} is missing")),
                    };
                }
            }
        }
        failure
    }
}

/// Whether a name is another one with at most two letters wrong, missing or too many.
fn is_near(a: &str, b: &str) -> bool {
    let lower = |text: &str| text.to_lowercase().chars().take(64).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = last[j] + usize::from(x != y);
            row.push(change.min(last[j + 1] + 1).min(row[j] + 1));
        }
        last = row;
    }
    last[b.len()] <= 2 && last[b.len()] * 2 <= b.len()
}

/// Now, as a FILETIME.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    FileTime::from_unix(seconds, since.subsec_nanos()).0
}

/// A FILETIME as RFC 3339 in UTC, to the second; `null` for 0 and for what no calendar holds.
pub(super) fn time_text(time: u64) -> Option<String> {
    let (seconds, _) = FileTime(time).to_unix();
    let stamp = jiff::Timestamp::from_second(seconds).ok()?;
    (time != 0).then(|| stamp.to_string())
}

/// Says something on standard error.
pub(super) fn note(text: &str) {
    // Whoever closed standard error cannot be told anything.
    let _ = writeln!(
        std::io::stderr().lock(),
        "note: {}",
        super::super::text::escape_controls(text)
    );
}

/// The failure of an error of the `hive` crate: damage.
pub(super) fn damage(error: hive::Error) -> Failure {
    let code = match error {
        hive::Error::InvalidRegText { .. } | hive::Error::InvalidName { .. } => ExitCode::Usage,
        hive::Error::NotDeletable { .. } | hive::Error::AlreadyExists { .. } | hive::Error::MissingValue { .. } => {
            ExitCode::Unexpected
        }
        _ => ExitCode::Damaged,
    };
    Failure::new(code, error)
}

/// The failure of an error of a hive on disk.
pub(super) fn failure(error: FileError) -> Failure {
    match &error {
        FileError::InUse { .. } => Failure::new(ExitCode::World, error),
        FileError::Hive { source, .. } => {
            let code = damage(source.clone()).exit_code;
            Failure::new(code, error)
        }
        _ => Failure::new(ExitCode::Unexpected, error),
    }
}

/// Reads a file that is no hive.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        failure(FileError::Io {
            path: path.to_owned(),
            action: "read it",
            source: error,
        })
    })
}

/// Writes a new file; one that exists stays as it is.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    made.and_then(|mut file| file.write_all(bytes)).map_err(|error| {
        failure(FileError::Io {
            path: path.to_owned(),
            action: "write it",
            source: error,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_a_calendar_has_them() {
        assert_eq!(
            time_text(131_331_190_510_000_000).as_deref(),
            Some("2017-03-04T16:37:31Z")
        );
        assert_eq!(
            time_text(FileTime::from_unix(0, 0).0).as_deref(),
            Some("1970-01-01T00:00:00Z")
        );
        assert_eq!(
            time_text(125_962_560_000_000_000).as_deref(),
            Some("2000-02-29T00:00:00Z")
        );
        assert_eq!(time_text(10_000_000).as_deref(), Some("1601-01-01T00:00:01Z"));
        assert_eq!((time_text(0), time_text(u64::MAX)), (None, None));
    }

    #[test]
    fn a_slip_of_the_finger_is_near() {
        assert!(is_near("ControlSet001", "ControlSet01") && is_near("Setup", "setpu"));
        assert!(!is_near("Setup", "Select") && !is_near("A", "B"));
    }
}
