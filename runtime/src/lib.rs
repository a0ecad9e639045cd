// SPDX-License-Identifier: GPL-3.0-or-later
//! The compatibility runtime, and the `vodka` command that runs programs with it.
//!
//! A program, its DLLs and ntdll are mapped unmodified into this process; the runtime enters ntdll as the kernel would
//! and serves the NT services in the calling thread. `start` puts a process together, `nt` serves it, `arch` is where
//! control changes sides. [`cli`] holds the manners that both commands share on a terminal.
//!
//! `unsafe` is denied here and allowed in `arch`, `uaccess` and `linux` alone, each of which says why.
#![deny(unsafe_code)]

pub mod arch;
pub mod cli;
pub mod flavor;
pub mod image;
pub mod linux;
pub mod nt;
pub mod object;
pub mod start;
pub mod status;
pub mod uaccess;
pub mod vdk;
