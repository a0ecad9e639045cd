// SPDX-License-Identifier: GPL-3.0-or-later
//! A plain file or block device of the host, read by pread: no lock, no seek, any number of threads.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{MediumError, ReadAt, ReadAtError};

/// An open file of the host and its length when it was opened.
#[derive(Debug)]
pub(super) struct HostFile {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl HostFile {
    /// Opens a plain file or a block device.
    pub(super) fn open(path: &Path) -> Result<Self, MediumError> {
        // NONBLOCK: a pipe is refused below, not waited for.
        openat(
            CWD,
            path,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(io::Error::from)
        .and_then(|file| Self::from_file(File::from(file), path.to_owned()))
        .map_err(|source| MediumError::Open {
            path: path.to_owned(),
            source,
        })
    }

    /// Takes an open file; `path` is what messages call it.
    pub(super) fn from_file(mut file: File, path: PathBuf) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let len_bytes = if metadata.is_file() {
            metadata.len()
        } else if metadata.file_type().is_block_device() {
            file.seek(SeekFrom::End(0))?
        } else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "neither a plain file nor a block device",
            ));
        };
        Ok(Self { file, path, len_bytes })
    }

    /// The path as opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `buffer`; on failure says at which offset of the host file it stopped.
    pub(super) fn fill(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), (u64, io::Error)> {
        while !buffer.is_empty() {
            match self.file.read_at(buffer, offset) {
                Ok(0) => return Err((offset, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    buffer = buffer.get_mut(count..).unwrap_or_default();
                    offset = offset.saturating_add(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((offset, error)),
            }
        }
        Ok(())
    }

    /// `length` bytes at `offset`, or fewer where the file ends.
    pub(super) fn up_to(&self, offset: u64, length: usize) -> Result<Vec<u8>, ReadAtError> {
        let rest = self.len_bytes.saturating_sub(offset);
        let length = usize::try_from(rest).map_or(length, |rest| rest.min(length));
        let mut buffer = vec![0; length];
        self.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }
}

impl ReadAt for HostFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError> {
        self.fill(buffer, offset).map_err(|(_, source)| ReadAtError {
            name: self.name(),
            offset,
            length_bytes: buffer.len() as u64,
            lba: None,
            source,
        })
    }
}
