// SPDX-License-Identifier: GPL-3.0-or-later
//! Which exit code and which hints each error of this crate gets.

use runtime::cli::text::size;
use runtime::cli::{ExitCode, Failure, worlds};

use crate::apply::ApplyError;
use crate::import::{ImportError, SelectError};
use crate::medium::MediumError;
use crate::wim::WimError;

/// An import's error as the person sees it.
pub(super) fn from_import(error: ImportError) -> Failure {
    let exit_code = import_code(&error);
    let hints = hints(&error);
    let mut failure = Failure::new(exit_code, error);
    failure.hints.extend(hints);
    failure
}

/// A medium's error as the person sees it.
pub(super) fn from_medium(error: MediumError) -> Failure {
    from_import(ImportError::Medium(error))
}

fn import_code(error: &ImportError) -> ExitCode {
    match error {
        ImportError::Medium(error) => medium_code(error),
        ImportError::NoEditions { .. } => ExitCode::Medium,
        ImportError::Wim { source, .. } => wim_code(source),
        ImportError::Select(_)
        | ImportError::NotInstallable { .. }
        | ImportError::NoWindows { .. }
        | ImportError::NoArchitecture { .. } => ExitCode::Edition,
        ImportError::Answers(_) | ImportError::ReadAnswers { .. } => ExitCode::Usage,
        ImportError::MissingBlobs { .. } | ImportError::Hive { .. } | ImportError::HiveCounts { .. } => {
            ExitCode::Damaged
        }
        ImportError::NoRoom { .. } | ImportError::DiskFull { .. } => ExitCode::NoRoom,
        ImportError::Apply(error) => apply_code(error),
        ImportError::World(error) => worlds::exit_code(error),
        ImportError::Write { .. } | ImportError::Place { .. } => ExitCode::Unexpected,
        ImportError::Interrupted => ExitCode::Interrupted,
    }
}

fn medium_code(error: &MediumError) -> ExitCode {
    match error {
        MediumError::Damaged { .. }
        | MediumError::UnusableName { .. }
        | MediumError::DuplicateName { .. }
        | MediumError::DirectoryMetTwice { .. } => ExitCode::Damaged,
        _ => ExitCode::Medium,
    }
}

fn wim_code(error: &WimError) -> ExitCode {
    if error.is_damage() {
        ExitCode::Damaged
    } else {
        ExitCode::Medium
    }
}

fn apply_code(error: &ApplyError) -> ExitCode {
    match error {
        ApplyError::Wim(error) | ApplyError::UnreadableBlob { source: error, .. } => wim_code(error),
        ApplyError::World(error) => worlds::exit_code(error),
        ApplyError::DamagedBlob { .. } | ApplyError::ReparseTooLarge { .. } | ApplyError::Name { .. } => {
            ExitCode::Damaged
        }
        ApplyError::Interrupted => ExitCode::Interrupted,
        ApplyError::Write { .. } => ExitCode::Unexpected,
    }
}

fn hints(error: &ImportError) -> Vec<String> {
    match error {
        ImportError::Select(select) => {
            let opening = match select {
                SelectError::Ambiguous { .. } => "give its number, its name, or its EDITIONID with its type:",
                _ if select.candidates().is_empty() => return vec!["the medium has no installable edition".to_owned()],
                _ => "there is:",
            };
            let lines = select.candidates().iter().map(ToString::to_string);
            std::iter::once(opening.to_owned()).chain(lines).collect()
        }
        ImportError::NoRoom {
            needed_bytes,
            free_bytes,
            ..
        } => vec![format!(
            "{} are needed and {} are free; make room, or choose another place with --worlds",
            size(*needed_bytes),
            size(*free_bytes)
        )],
        ImportError::DiskFull { needed_bytes, .. } => vec![format!(
            "{} are needed; make room and run the same command again, or choose another place with --worlds",
            size(*needed_bytes)
        )],
        ImportError::Interrupted => {
            vec!["the same command goes on after the last whole stage".to_owned()]
        }
        ImportError::World(error) => worlds::hints(error),
        ImportError::MissingBlobs { .. } => {
            vec!["the medium is not whole: if it is split, put all parts beside the first".to_owned()]
        }
        _ => Vec::new(),
    }
}
