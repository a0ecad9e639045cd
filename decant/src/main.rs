// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka-decant` command.
#![forbid(unsafe_code)]

fn main() {}
