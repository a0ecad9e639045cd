// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka hive`: registry hives and the registries of worlds. Everything but words and files is in the `hive` crate.

mod change;
mod show;
mod target;
mod text;

use clap::Subcommand;

use super::{ExitCode, Failure};

/// What `vodka hive` can do. WHERE is a hive file, or `world:NAME` for the registry of a world; with `--world NAME` it
/// is left out. Keys are written as people type them: `HKLM\SYSTEM\Setup` in a world, `Setup` in a SYSTEM hive.
#[derive(Debug, Subcommand)]
pub(super) enum HiveCommand {
    /// Show a key: its subkeys and values
    Show(show::Show),
    /// Print the data of a value
    Get(show::Get),
    /// Set a value, making its key where it is missing
    Set(change::Set),
    /// Delete a value, or a key
    Delete(change::Delete),
    /// Write registry text (.reg)
    Export(text::Export),
    /// Apply registry text (.reg), all of it or nothing
    Import(text::Import),
    /// Compare two hives or worlds; exits with 1 where they differ
    Diff(show::Diff),
    /// Check every cell of a hive
    Verify(show::Verify),
    /// Write a clean hive from a dirty or damaged one
    Recover(change::Recover),
    /// Copy a hive below a key of another one
    Load(change::Load),
}

/// Runs one command.
///
/// # Errors
/// What the person is told; a key or value that is not there is exit code 1, a damaged hive 6.
pub(super) fn run(command: HiveCommand) -> Result<ExitCode, Failure> {
    match command {
        HiveCommand::Show(arguments) => show::show(&arguments),
        HiveCommand::Get(arguments) => show::get(&arguments),
        HiveCommand::Set(arguments) => change::set(&arguments),
        HiveCommand::Delete(arguments) => change::delete(&arguments),
        HiveCommand::Export(arguments) => text::export(&arguments),
        HiveCommand::Import(arguments) => text::import(&arguments),
        HiveCommand::Diff(arguments) => show::diff(&arguments),
        HiveCommand::Verify(arguments) => show::verify(&arguments),
        HiveCommand::Recover(arguments) => change::recover(&arguments),
        HiveCommand::Load(arguments) => change::load(&arguments),
    }
}
