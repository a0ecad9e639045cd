// SPDX-License-Identifier: GPL-3.0-or-later
//! Everything that can be wrong with a medium, each a whole sentence.

use std::path::PathBuf;

use super::ReadAtError;

/// Why a medium, or something on it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediumError {
    /// The host does not let us open it.
    #[error("cannot open the medium {}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// What the host said.
        #[source]
        source: std::io::Error,
    },
    /// The file has no bytes.
    #[error("{} is empty: it is no ISO, WIM or ESD file", path.display())]
    Empty {
        /// The path as given.
        path: PathBuf,
    },
    /// Neither UDF, ISO 9660, WIM nor a directory.
    #[error(
        "{} is not a medium: expected an ISO (UDF or ISO 9660), a WIM, ESD or SWM file, or a directory; {seen}",
        path.display()
    )]
    NotAMedium {
        /// The path as given.
        path: PathBuf,
        /// What was seen in it, as in "it begins with `PK`: a zip file".
        seen: String,
    },
    /// The volume says that it is larger than the file.
    #[error(
        "{} is truncated: its {file_system} volume is {declared_bytes} bytes long, the file only {actual_bytes} \
         ({missing} bytes are missing); get it again",
        path.display(), missing = declared_bytes.saturating_sub(*actual_bytes)
    )]
    Truncated {
        /// The path as given.
        path: PathBuf,
        /// "UDF" or "ISO 9660".
        file_system: &'static str,
        /// Where the volume ends, in bytes.
        declared_bytes: u64,
        /// How long the file is.
        actual_bytes: u64,
    },
    /// The host failed to read, or an extent lies behind the medium's end.
    #[error(transparent)]
    Read(#[from] ReadAtError),
    /// A structure of the file system is not what its standard says.
    #[error("{} is damaged: {structure} at LBA {lba} (offset {offset}): expected {expected}, found {found}", path.display())]
    Damaged {
        /// The path as given.
        path: PathBuf,
        /// Which structure, as in "the file entry of sources/install.wim".
        structure: String,
        /// Its logical block on the medium.
        lba: u64,
        /// Its byte offset on the medium.
        offset: u64,
        /// What the standard asks for there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Something that the standards know and this reader does not serve.
    #[error("{subject} on {} cannot be read: {feature} is not served", path.display())]
    Unsupported {
        /// The medium.
        path: PathBuf,
        /// The file or structure that needs it.
        subject: String,
        /// What it needs, as in "interleaving (file unit size 1, gap size 2)".
        feature: String,
    },
    /// More than one of the documented bounds of [`limits`](super::limits).
    #[error("{subject} on {} goes over a limit: at most {limit} {unit}", path.display())]
    Limit {
        /// The medium.
        path: PathBuf,
        /// The file, directory or structure that asks for more.
        subject: String,
        /// The bound.
        limit: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A name that no file may have (`.`, `..`, empty, or with `/` or NUL in it).
    #[error("{} is damaged: the directory /{directory} has an entry with the unusable name {name:?}", path.display())]
    UnusableName {
        /// The medium.
        path: PathBuf,
        /// The directory's path on the medium.
        directory: String,
        /// The name as read.
        name: String,
    },
    /// Two entries of one directory have the same name.
    #[error("{} is damaged: the directory /{directory} has two entries with the name {name:?}", path.display())]
    DuplicateName {
        /// The medium.
        path: PathBuf,
        /// The directory's path on the medium.
        directory: String,
        /// The name that comes twice.
        name: String,
    },
    /// A directory that was already met elsewhere, or that holds itself.
    #[error("{} is damaged: the directory /{directory} is also /{first} (a cycle or a second parent)", path.display())]
    DirectoryMetTwice {
        /// The medium.
        path: PathBuf,
        /// The directory as reached now.
        directory: String,
        /// Where it was met first.
        first: String,
    },
    /// There is no such path.
    #[error("there is no {entry:?} on {}", path.display())]
    NotFound {
        /// The medium.
        path: PathBuf,
        /// The path on it as asked for.
        entry: String,
    },
    /// A directory was expected.
    #[error("{entry:?} on {} is not a directory", path.display())]
    NotADirectory {
        /// The medium.
        path: PathBuf,
        /// The path on it.
        entry: String,
    },
    /// A plain file was expected.
    #[error("{entry:?} on {} is {found}, not a plain file{}", path.display(), links_note(found))]
    NotAFile {
        /// The medium.
        path: PathBuf,
        /// The path on it.
        entry: String,
        /// What it is instead, as in "a directory".
        found: String,
    },
    /// The host cannot read something in a directory medium.
    #[error("cannot read {} of the directory medium", path.display())]
    Host {
        /// The host path.
        path: PathBuf,
        /// What the host said.
        #[source]
        source: std::io::Error,
    },
    /// A readable medium that holds no Windows.
    #[error(
        "{} is not a Windows installation medium: no sources/install.wim, install.esd, install.swm or boot.wim (also \
         looked for under x64/, x86/ and arm64/); {found}",
        path.display()
    )]
    NotWindows {
        /// The medium.
        path: PathBuf,
        /// What is there instead, as in "its root holds: EFI, boot, casper and 9 more".
        found: String,
    },
}

fn links_note(found: &str) -> &'static str {
    if found.starts_with("a symbolic link") {
        " (links on a medium are never followed)"
    } else {
        ""
    }
}
