// SPDX-License-Identifier: GPL-3.0-or-later
//! The runtime alone, without the rest of the `vodka` command: what the integration tests start until that command takes
//! programs itself.

use clap::Parser;
use runtime::cli::run::{RunArguments, run};
use runtime::cli::services::{ServicesArguments, run as services};

#[derive(Parser)]
#[allow(clippy::large_enum_variant, reason = "made once")]
enum Command {
    /// Run a program
    Run(RunArguments),
    /// Report on the services
    Services(ServicesArguments),
}

fn main() -> std::process::ExitCode {
    if let Some(code) = runtime::start::child::run_if_child() {
        return code.into();
    }
    let done = match Command::parse() {
        Command::Run(arguments) => run(arguments),
        Command::Services(arguments) => services(&arguments).map(|()| 0),
    };
    match done {
        Ok(code) => code.into(),
        Err(failure) => failure.report().into(),
    }
}
