// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the project's own jobs: `cargo xtask demo`, `test`, `bench`, `fuzz`, `fixtures`, `kill-test`.
// A program: what it prints is its result.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod checks;
mod demo;
mod fuzz;
mod kill;
mod licences;
mod shell;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What ends a job: words for a person, printed once by `main`.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The project's own jobs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Make a Microsoft-like ISO, list it, show an edition, import it, and show the world.
    Demo(demo::Arguments),
    /// Run every check and test that a change has to pass.
    Test(test::Arguments),
    /// Measure; every figure stands beside another program's of the same run.
    Bench(bench::Arguments),
    /// List or make the media that tests use (arguments as `cargo run -p fixtures`).
    Fixtures {
        /// `list`, `make NAME...` or `all`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Feed mutated ISOs, WIMs and XMLs to the real command and count what happens.
    Fuzz(fuzz::Arguments),
    /// Kill an import at random moments; no half world may be left, and running again must succeed.
    KillTest(kill::Arguments),
    /// Run the runtime's conformance programs. (Not built yet: ends with 2.)
    Conformance,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().job {
        Job::Demo(arguments) => demo::run(&arguments),
        Job::Test(arguments) => test::run(&arguments),
        Job::Bench(arguments) => bench::run(&arguments),
        Job::Fixtures { arguments } => fixtures_job(&arguments),
        Job::Fuzz(arguments) => fuzz::run(&arguments),
        Job::KillTest(arguments) => kill::run(&arguments),
        Job::Conformance => {
            eprintln!("error: there are no conformance programs yet: the runtime that they test is not built");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fixtures_job(arguments: &[String]) -> Result<()> {
    tools::ensure()?;
    shell::cargo()
        .args(["run", "--quiet", "--package", "fixtures", "--"])
        .args(arguments)
        .run()
}
