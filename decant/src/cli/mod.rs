// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka-decant` command line. The only module of this crate that knows a terminal.

mod failure;
mod medium;
mod windows;

use clap::{Parser, Subcommand};
use runtime::cli::{ExitCode, Failure, vodka};

/// Takes a Windows installation medium to a world: a plain directory with an installed Windows in it.
#[derive(Debug, Parser)]
#[command(name = "vodka-decant", version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The end of every help text.
const EXIT_CODES: &str = "Exit codes: 0 done; 1 unexpected; 2 usage; 3 medium not readable or not a Windows medium; \
4 edition not found or ambiguous; 5 no room; 6 damaged data; 7 world exists, missing or in use; 9 a needed service is \
not served; 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    /// List, examine and import the editions of a Windows medium
    #[command(subcommand)]
    Windows(windows::Command),
    /// Look at a medium as it is: any ISO 9660 or UDF image, directory or bare WIM
    #[command(subcommand)]
    Medium(medium::Command),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match vodka::parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(exit_code) => return exit_code,
    };
    let done: Result<(), Failure> = match arguments.command {
        Command::Windows(command) => windows::run(command),
        Command::Medium(command) => medium::run(command),
    };
    match done {
        Ok(()) => ExitCode::Done,
        Err(failure) => failure.report(),
    }
}
