// SPDX-License-Identifier: GPL-3.0-or-later
//! What a medium turned out to be.

use std::fmt;

/// What a medium is, with what its descriptors say of themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediumKind {
    /// A UDF volume (also the UDF side of a bridge disc).
    #[non_exhaustive]
    Udf {
        /// The highest revision that the volume names.
        revision: UdfRevision,
        /// Its logical block size.
        block_bytes: u32,
        /// The block of the anchor that was taken: the last one of the disc where there is one, as a later session's
        /// anchors lie behind those of an earlier one; else 256.
        anchor_block: u64,
        /// Whether an ISO 9660 volume is on the disc as well.
        iso9660_too: bool,
    },
    /// An ISO 9660 volume (also the ISO 9660 side of a bridge disc).
    #[non_exhaustive]
    Iso9660 {
        /// The Joliet level (1 to 3) where there is a Joliet tree.
        joliet: Option<u8>,
        /// Whether the primary tree carries Rock Ridge entries; then it is the one that is read.
        rock_ridge: bool,
        /// Its logical block size.
        block_bytes: u32,
        /// The block where the session that was taken begins: 0 on most discs.
        session_block: u64,
        /// Whether a UDF volume is on the disc as well.
        udf_too: bool,
    },
    /// A directory of the host.
    Directory,
    /// A bare WIM, ESD or SWM file. The tree has it and the images beside it that may be its other parts.
    #[non_exhaustive]
    BareImage {
        /// The image's name in its directory.
        name: String,
    },
}

impl fmt::Display for MediumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udf { revision, .. } => write!(f, "UDF {revision}"),
            Self::Iso9660 { rock_ridge: true, .. } => f.write_str("ISO 9660 with Rock Ridge"),
            Self::Iso9660 { joliet: Some(_), .. } => f.write_str("ISO 9660 with Joliet"),
            Self::Iso9660 { .. } => f.write_str("ISO 9660"),
            Self::Directory => f.write_str("directory"),
            Self::BareImage { .. } => f.write_str("bare image"),
        }
    }
}

/// A UDF revision as the standard writes it: two decimal digits a byte, `0x0250` for 2.50.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UdfRevision(pub u16);

impl fmt::Display for UdfRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:02x}", self.0 >> 8, self.0 & 0xff)
    }
}
