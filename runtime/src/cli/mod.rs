// SPDX-License-Identifier: GPL-3.0-or-later
//! How the project's commands talk to a person: exit codes, errors, sizes, tables, progress and Ctrl-C.
//!
//! Libraries return values and errors; only the code in here and in the two commands' own argument modules prints.

pub mod exit_code;
pub mod failure;
mod hive;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod run;
pub mod services;
pub mod text;
pub mod vodka;
mod world;
pub mod worlds;

pub use exit_code::ExitCode;
pub use failure::Failure;
pub use output::Output;
pub use progress::Progress;
