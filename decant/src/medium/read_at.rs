// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading at an offset: the one way in which every parser here gets its bytes.

use std::fmt::Debug;

/// Bytes of known length that any thread can read at any offset.
///
/// A file inside an ISO, a plain file and a buffer in memory are all `ReadAt`; parsers own none of them.
pub trait ReadAt: Debug + Send + Sync {
    /// The whole length, in bytes.
    fn len_bytes(&self) -> u64;

    /// What to call this source in a message: a path on the medium, or a path of the host.
    fn name(&self) -> String;

    /// The source's name in its directory, without the directory: what its siblings are named after.
    fn file_name(&self) -> String {
        let name = self.name();
        name.rsplit('/').next().unwrap_or(&name).to_owned()
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`ReadAtError`] when the range ends behind the source's end, or the host cannot read it. The buffer's content
    /// is then unspecified.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError>;
}

/// A read that failed: which file, where in it, and where on the medium.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {length_bytes} byte(s) at offset {offset} of {name}{}", lba_suffix(*lba))]
pub struct ReadAtError {
    /// The file that was read, as [`ReadAt::name`] gives it.
    pub name: String,
    /// Where in the file the read began.
    pub offset: u64,
    /// How many bytes were asked for.
    pub length_bytes: u64,
    /// The medium's logical block that holds the first byte that failed, where there is one.
    pub lba: Option<u64>,
    /// What the host said; `UnexpectedEof` when the range ends behind the source.
    #[source]
    pub source: std::io::Error,
}

fn lba_suffix(lba: Option<u64>) -> String {
    lba.map_or_else(String::new, |lba| format!(" (LBA {lba})"))
}

/// A buffer in memory is its own source.
impl ReadAt for Vec<u8> {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn name(&self) -> String {
        "a buffer in memory".to_owned()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError> {
        let range = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(buffer.len())?))
            .and_then(|range| self.get(range));
        match range {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(ReadAtError {
                name: self.name(),
                offset,
                length_bytes: buffer.len() as u64,
                lba: None,
                source: std::io::ErrorKind::UnexpectedEof.into(),
            }),
        }
    }
}
