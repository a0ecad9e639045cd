// SPDX-License-Identifier: GPL-3.0-or-later
//! Installation media: ISO 9660, UDF, directories and bare images, read in place.

mod read_at;

pub use read_at::{ReadAt, ReadAtError};
