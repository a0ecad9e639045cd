// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka` command line.

use clap::{Parser, Subcommand};

use super::{ExitCode, hive, world};

/// Works with worlds: plain directories that hold an installed Windows.
#[derive(Debug, Parser)]
#[command(name = "vodka", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List, show, check and remove worlds
    #[command(subcommand)]
    World(world::Command),
    /// Show, change, compare, check and recover registry hives, in files and in worlds
    #[command(subcommand)]
    Hive(hive::HiveCommand),
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

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let done = match arguments.command {
        Command::World(command) => world::run(command).map(|()| ExitCode::Done),
        Command::Hive(command) => hive::run(command),
    };
    match done {
        Ok(exit_code) => exit_code,
        Err(failure) => failure.report(),
    }
}
