// SPDX-License-Identifier: GPL-3.0-or-later
//! The `vodka` command, and later the compatibility runtime that it runs programs with.
//!
//! What exists today is [`cli`]: the manners that both commands share on a terminal, and the `vodka` command itself.
#![forbid(unsafe_code)]

pub mod cli;
