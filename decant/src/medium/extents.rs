// SPDX-License-Identifier: GPL-3.0-or-later
//! A file of a medium as a list of extents: nothing is copied, any offset is read straight from the image.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::host_file::HostFile;
use super::limits::MAX_EXTENTS;
use super::{MediumError, ReadAt, ReadAtError};

/// One run of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file the run begins.
    pub file_offset: u64,
    /// How long it is; never 0.
    pub length_bytes: u64,
    /// Where on the medium its bytes are; `None` for a hole, which reads as zero.
    pub medium_offset: Option<u64>,
}

/// Collects extents in file order, joining neighbours.
#[derive(Debug, Default)]
pub(super) struct ExtentList {
    extents: Vec<Extent>,
    len_bytes: u64,
}

/// Why an extent cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtentListError {
    TooMany,
    TooLong,
}

impl ExtentListError {
    /// The error for a message about `subject`.
    pub(super) fn of(self, path: PathBuf, subject: String) -> MediumError {
        let (limit, unit) = match self {
            Self::TooMany => (MAX_EXTENTS as u64, "extents"),
            Self::TooLong => (u64::MAX, "bytes"),
        };
        MediumError::Limit {
            path,
            subject,
            limit,
            unit,
        }
    }
}

impl ExtentList {
    /// Adds a run behind what is there.
    pub(super) fn push(&mut self, medium_offset: Option<u64>, length_bytes: u64) -> Result<(), ExtentListError> {
        if length_bytes == 0 {
            return Ok(());
        }
        let end = self
            .len_bytes
            .checked_add(length_bytes)
            .ok_or(ExtentListError::TooLong)?;
        let joins = |last: &Extent| match (last.medium_offset, medium_offset) {
            (Some(before), Some(after)) => before.checked_add(last.length_bytes) == Some(after),
            (None, None) => true,
            _ => false,
        };
        let full = self.extents.len() >= MAX_EXTENTS;
        match self.extents.last_mut() {
            Some(last) if joins(last) => last.length_bytes += length_bytes,
            _ if full => return Err(ExtentListError::TooMany),
            _ => self.extents.push(Extent {
                file_offset: self.len_bytes,
                length_bytes,
                medium_offset,
            }),
        }
        self.len_bytes = end;
        Ok(())
    }

    /// The sum of all lengths.
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Drops what lies behind `len_bytes`: space that was set aside for the file, no part of its content.
    pub(super) fn truncate(&mut self, len_bytes: u64) {
        while let Some(last) = self.extents.last_mut() {
            if last.file_offset >= len_bytes {
                self.extents.pop();
            } else {
                last.length_bytes = last.length_bytes.min(len_bytes - last.file_offset);
                break;
            }
        }
        self.len_bytes = self.len_bytes.min(len_bytes);
    }

    /// The runs, in file order.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The runs, in file order.
    pub(super) fn into_extents(self) -> Vec<Extent> {
        self.extents
    }
}

/// A file on a disc image.
#[derive(Debug)]
pub(super) struct ExtentFile {
    disc: Arc<HostFile>,
    path: String,
    block_bytes: u32,
    extents: Vec<Extent>,
    len_bytes: u64,
}

impl ExtentFile {
    /// `path` is the file's path on the medium; `block_bytes` turns offsets into LBAs in messages.
    pub(super) fn new(disc: Arc<HostFile>, path: String, block_bytes: u32, extents: ExtentList) -> Self {
        let len_bytes = extents.len_bytes;
        Self {
            disc,
            path,
            block_bytes,
            extents: extents.into_extents(),
            len_bytes,
        }
    }

    fn error(&self, offset: u64, length: usize, medium_offset: Option<u64>, source: io::Error) -> ReadAtError {
        ReadAtError {
            name: self.name(),
            offset,
            length_bytes: length as u64,
            lba: medium_offset.map(|at| at / u64::from(self.block_bytes.max(1))),
            source,
        }
    }
}

impl ReadAt for ExtentFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn name(&self) -> String {
        format!("{} on {}", self.path, self.disc.path().display())
    }

    fn file_name(&self) -> String {
        self.path.rsplit('/').next().unwrap_or(&self.path).to_owned()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError> {
        let length = buffer.len();
        if offset.checked_add(length as u64).is_none_or(|end| end > self.len_bytes) {
            return Err(self.error(offset, length, None, io::ErrorKind::UnexpectedEof.into()));
        }
        let first = self
            .extents
            .partition_point(|extent| extent.file_offset + extent.length_bytes <= offset);
        let (mut rest, mut position) = (buffer, offset);
        for extent in self.extents.get(first..).unwrap_or_default() {
            if rest.is_empty() {
                break;
            }
            let skip = position - extent.file_offset;
            let run = usize::try_from(extent.length_bytes - skip).map_or(rest.len(), |run| run.min(rest.len()));
            let (now, later) = rest.split_at_mut(run);
            match extent.medium_offset {
                None => now.fill(0),
                Some(start) => self
                    .disc
                    .fill(now, start.saturating_add(skip))
                    .map_err(|(failed_at, source)| self.error(offset, length, Some(failed_at), source))?,
            }
            rest = later;
            position += run as u64;
        }
        Ok(())
    }
}

/// A file whose bytes lie inside its own file entry: a few hundred of them, kept in memory.
#[derive(Debug)]
pub(super) struct InlineFile {
    name: String,
    bytes: Vec<u8>,
}

impl InlineFile {
    /// `path` is the file's path on the medium.
    pub(super) fn new(disc: &HostFile, path: &str, bytes: Vec<u8>) -> Self {
        Self {
            name: format!("{path} on {}", disc.path().display()),
            bytes,
        }
    }
}

impl ReadAt for InlineFile {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError> {
        self.bytes.read_exact_at(buffer, offset).map_err(|error| ReadAtError {
            name: self.name(),
            ..error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn disc(bytes: &[u8]) -> Arc<HostFile> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(HostFile::open(file.path()).unwrap())
    }

    #[test]
    fn neighbours_are_joined() {
        let mut list = ExtentList::default();
        list.push(Some(4096), 2048).unwrap();
        list.push(Some(6144), 2048).unwrap();
        list.push(None, 10).unwrap();
        list.push(None, 0).unwrap();
        list.push(None, 10).unwrap();
        assert_eq!(list.extents.len(), 2);
        assert_eq!(list.len_bytes(), 4116);
    }

    #[test]
    fn a_read_error_names_file_offset_and_lba() {
        let mut list = ExtentList::default();
        list.push(Some(0), 2048).unwrap();
        list.push(Some(10 * 2048), 4096).unwrap();
        let file = ExtentFile::new(disc(&[1; 2048]), "sources/install.wim".to_owned(), 2048, list);
        let error = file.read_exact_at(&mut [0; 200], 2000).unwrap_err();
        assert_eq!((error.offset, error.length_bytes, error.lba), (2000, 200, Some(10)));
        let text = error.to_string();
        assert!(
            text.contains("sources/install.wim on ") && text.contains("offset 2000") && text.contains("(LBA 10)"),
            "{text}"
        );
    }

    #[test]
    fn a_read_behind_the_end_is_refused() {
        let mut list = ExtentList::default();
        list.push(None, 10).unwrap();
        let file = ExtentFile::new(disc(b""), "x".to_owned(), 2048, list);
        assert!(file.read_exact_at(&mut [0; 2], 9).is_err());
        assert!(file.read_exact_at(&mut [0; 2], u64::MAX).is_err());
        file.read_exact_at(&mut [], 10).unwrap();
    }

    proptest! {
        /// Any list of runs and holes reads, at any place, what reading it whole gives there.
        #[test]
        fn every_range_equals_the_whole(
            runs in prop::collection::vec((prop::option::of(0_usize..4000), 1_usize..300), 1..12),
            from in 0_usize..2000, length in 0_usize..2000, cut in 1_usize..3000,
        ) {
            let bytes: Vec<u8> = (0..=250).cycle().take(5000).collect();
            let mut whole = Vec::new();
            let mut list = ExtentList::default();
            for (at, run) in &runs {
                list.push(at.map(|at| at as u64), *run as u64).unwrap();
                match at {
                    Some(at) => whole.extend_from_slice(&bytes[*at..*at + *run]),
                    None => whole.resize(whole.len() + *run, 0),
                }
            }
            list.truncate(cut as u64);
            whole.truncate(cut);
            let file = ExtentFile::new(disc(&bytes), "x".to_owned(), 2048, list);
            prop_assert_eq!(file.len_bytes(), whole.len() as u64);
            let mut got = vec![0xee; length];
            match whole.get(from..from + length) {
                Some(expected) => {
                    file.read_exact_at(&mut got, from as u64).unwrap();
                    prop_assert_eq!(got, expected);
                }
                None => prop_assert!(file.read_exact_at(&mut got, from as u64).is_err()),
            }
        }
    }
}
