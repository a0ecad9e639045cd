// SPDX-License-Identifier: GPL-3.0-or-later
//! A WIM's XML: what it says about each image.
//!
//! Everything in it is a claim by whoever made the WIM and any of it may be missing; nothing here decides where a byte
//! is read from, save which metadata resource an INDEX means.

mod info;
mod parse;

pub use info::{Architecture, ImageInfo, ImageKind, Note, Version, WimInfo, WindowsInfo};
pub(super) use parse::{decode_text, parse};
