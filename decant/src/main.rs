// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka-decant` command: from a Windows installation medium to a world.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    vodka_decant::cli::main().into()
}
