// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask kill-test`: the test `decant/tests/cli_kill.rs` with a count of one's own.

use crate::shell::cargo;
use crate::{Result, tools};

#[derive(clap::Args)]
pub struct Arguments {
    /// How many imports to kill.
    #[arg(long, default_value_t = 50)]
    count: u32,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure()?;
    cargo()
        .env("VODKA_KILLS", arguments.count.to_string())
        .args([
            "test",
            "--locked",
            "--package",
            "vodka-decant",
            "--test",
            "cli_kill",
            "--",
            "--nocapture",
        ])
        .run()
}
