// SPDX-License-Identifier: GPL-3.0-or-later
//! From a Windows installation medium to a world.
//!
//! [`medium`] reads ISO files and directories in place, [`wim`] reads the images on them, [`apply`] lays one down,
//! [`answers`] places an answer file, and [`import`] knows the whole way. [`cli`] is the only module that knows a
//! terminal. Data flows in that order; nothing here is `unsafe`.
#![forbid(unsafe_code)]

pub mod answers;
pub mod apply;
pub mod cli;
pub mod import;
pub mod medium;
pub mod wim;
