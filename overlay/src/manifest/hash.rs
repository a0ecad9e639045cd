// SPDX-License-Identifier: GPL-3.0-or-later
//! The two hashes: BLAKE3 of a file's bytes, SHA-256 of a manifest.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::meta::disk::stat_times;

/// How much of a file is hashed at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// BLAKE3 of a file's or stream's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// A hasher to feed piece by piece; its `finalize()` becomes a [`ContentHash`].
    pub fn hasher() -> blake3::Hasher {
        blake3::Hasher::new()
    }

    /// Hashes an open file from where it stands to its end, and gives the number of bytes; `progress` is told of each
    /// piece's.
    ///
    /// # Errors
    /// What reading gives.
    pub fn of_file(file: impl AsFd, progress: &(dyn Fn(u64) + Sync)) -> std::io::Result<(Self, u64)> {
        thread_local! {
            // Most files are small, and a fresh buffer costs more than hashing one.
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(BUFFER_BYTES, 0);
            let mut hasher = blake3::Hasher::new();
            let mut length = 0u64;
            loop {
                let read = match rustix::io::read(&file, &mut buffer[..]) {
                    Ok(0) => return Ok((hasher.finalize().into(), length)),
                    Ok(read) => read,
                    Err(Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
                hasher.update(buffer.get(..read).unwrap_or_default());
                length += read as u64;
                progress(read as u64);
            }
        })
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<blake3::Hash> for ContentHash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A world's digest: SHA-256 of its manifest. Its text is `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed piece by piece.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 64 hex digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is no digest: expected `sha256:` and 64 lower-case hex digits");
        let hex = text
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64)
            .ok_or_else(refused)?;
        if !hex
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = hex.get(at * 2..at * 2 + 2).ok_or_else(refused)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refused())?;
        }
        Ok(Self(bytes))
    }
}

/// What tells that a file is still the one that was hashed: its length and mtime.
type Stamp = (i64, (i64, u32));

/// Hashes by inode of files that were just written, so that sealing need not read them again.
#[derive(Debug, Default)]
pub struct KnownHashes(Mutex<HashMap<u64, (Stamp, ContentHash)>>);

impl KnownHashes {
    pub(crate) fn insert(&self, stat: &Stat, hash: ContentHash) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(stat.st_ino, (stamp(stat), hash));
    }

    /// The hash of an inode, if it has not been written since.
    pub(crate) fn get(&self, stat: &Stat) -> Option<ContentHash> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&stat.st_ino)
            .filter(|(was, _)| *was == stamp(stat))
            .map(|(_, hash)| *hash)
    }

    pub(crate) fn forget(&self, ino: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&ino);
    }
}

fn stamp(stat: &Stat) -> Stamp {
    (stat.st_size, stat_times(stat).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_and_nothing_else_is_taken() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in [
            "",
            "sha256:",
            "sha256:é",
            &digest.to_string().to_uppercase(),
            &digest.hex(),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
