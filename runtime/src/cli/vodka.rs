// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka` command line.

use clap::{Parser, Subcommand};

use super::run::{self, RunArguments};
use super::services::{self, ServicesArguments};
use super::{ExitCode, hive, world};

/// Works with worlds: plain directories that hold an installed Windows.
#[derive(Debug, Parser)]
#[command(
    name = "vodka",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = RUNNING
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

/// What the help says of running programs, as long as much of it is missing.
const RUNNING: &str = "Running programs is at its beginning: docs/runtime.md says what works and what does not.";

#[derive(Debug, Subcommand)]
enum Command {
    /// List, show, check and remove worlds
    #[command(subcommand)]
    World(world::Command),
    /// Show, change, compare, check and recover registry hives, in files and in worlds
    #[command(subcommand)]
    Hive(hive::HiveCommand),
    /// Say which NT services the runtime serves, and how far
    Services(ServicesArguments),
}

/// Parses the process's arguments; help and errors are printed, and their exit code is given.
///
/// # Errors
/// The exit code with which the process should end: 0 for help and version, 2 for a wrong command line.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        // Whoever closed the stream reads no help.
        let _ = error.print();
        if error.use_stderr() {
            ExitCode::Usage
        } else {
            ExitCode::Done
        }
    })
}

/// Runs the command, or the program, that the process was started with.
#[must_use]
pub fn main() -> std::process::ExitCode {
    // A program of a world that starts another starts this command again.
    if let Some(status) = crate::start::child::run_if_child() {
        return status.into();
    }
    let arguments = match parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code.into(),
    };
    let done = match (arguments.command, arguments.run) {
        (Some(Command::World(command)), _) => world::run(command).map(|()| ExitCode::Done.number()),
        (Some(Command::Hive(command)), _) => hive::run(command).map(ExitCode::number),
        (Some(Command::Services(arguments)), _) => services::run(&arguments).map(|()| ExitCode::Done.number()),
        (None, program) => run::run(program),
    };
    match done {
        Ok(status) => status.into(),
        Err(failure) => failure.report().into(),
    }
}
