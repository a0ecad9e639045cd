// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka` command: worlds, and the programs in them.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    runtime::cli::vodka::main()
}
