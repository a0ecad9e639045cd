// SPDX-License-Identifier: GPL-3.0-or-later
//! Changing a hive in place: cells are allocated and freed within the buffer that readers see.
//!
//! A change is a transaction: either all of it is in the buffer, or an error has put every byte back.
//! What a transaction touched is known by 512-byte sector, which is what [`HiveFile`](crate::HiveFile)
//! writes to its log. The editor opens only hives that the verifier finds sound, so that no damage is
//! spread, and it asks no clock: times come from the caller.

mod alloc;
mod graft;
mod keys;
mod lists;
mod security;
mod values;

use std::collections::{BTreeSet, HashMap};

use alloc::FreeCells;
pub(crate) use alloc::each_cell;
pub(crate) use lists::fast_leaf_hint;
use security::SecurityIndex;
pub(crate) use security::ring;

use crate::error::{Error, Result};
use crate::format::{
    BASE_BLOCK_BYTES, BIN_ALIGN_BYTES, BIN_HEADER_BYTES, CELL_ALIGN_BYTES, HBIN, NO_CELL, SECTOR_BYTES, checksum,
};
use crate::key::Key;
use crate::reader::{Hive, MAX_BINS_BYTES};

pub use keys::{Created, NewKey};

/// Where the base block has the length of the hive bins data, and its checksum.
const BASE_BINS_BYTES: usize = 40;
const BASE_CHECKSUM: usize = 508;

/// Where a hive's bytes are kept: a vector, or a memory map that the caller can make longer.
pub trait Buffer {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to change.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Makes the buffer `len` bytes long; new bytes are 0.
    ///
    /// # Errors
    /// Where there is no room.
    fn set_len(&mut self, len: usize) -> Result<()>;
}

impl Buffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn set_len(&mut self, len: usize) -> Result<()> {
        self.resize(len, 0);
        Ok(())
    }
}

/// A key within one hive: its cell offset. It stays good until the key is deleted, or renamed to a
/// longer name ([`Change::Moved`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub(crate) u32);

impl KeyId {
    /// The cell offset.
    #[must_use]
    pub fn cell_offset(self) -> u32 {
        self.0
    }
}

impl Key<'_> {
    /// What an [`Editor`] calls this key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(self.cell_offset())
    }
}

/// What a committed transaction did, for notify hooks. NT's filters are in the documentation of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A subkey was made (`REG_NOTIFY_CHANGE_NAME` of `parent`).
    Created {
        /// The key it is in.
        parent: KeyId,
        /// The new key.
        key: KeyId,
    },
    /// A subkey was deleted (`REG_NOTIFY_CHANGE_NAME` of `parent`).
    Deleted {
        /// The key it was in.
        parent: KeyId,
        /// The key that is no more.
        key: KeyId,
    },
    /// A subkey was renamed (`REG_NOTIFY_CHANGE_NAME` of `parent`).
    Renamed {
        /// The key it is in.
        parent: KeyId,
        /// The key, by its new identity.
        key: KeyId,
    },
    /// A key has another identity now; the old one is no key any more.
    Moved {
        /// The old identity.
        from: KeyId,
        /// The new identity.
        to: KeyId,
    },
    /// Values were set or deleted (`REG_NOTIFY_CHANGE_LAST_SET`).
    Values {
        /// The key they are in.
        key: KeyId,
    },
    /// The class or the flags were changed (`REG_NOTIFY_CHANGE_ATTRIBUTES`).
    Attributes {
        /// The key.
        key: KeyId,
    },
    /// The security descriptor was changed (`REG_NOTIFY_CHANGE_SECURITY`).
    Security {
        /// The key.
        key: KeyId,
    },
}

/// A function that hears of each change once it is committed.
pub type Hook = Box<dyn FnMut(&Change) + Send>;

/// What a running transaction can put back.
struct Transaction {
    len_before: usize,
    sectors_before: HashMap<usize, [u8; SECTOR_BYTES]>,
    changes: Vec<Change>,
}

/// A hive that is changed in place.
pub struct Editor<B: Buffer = Vec<u8>> {
    buffer: B,
    free: FreeCells,
    security: Option<SecurityIndex>,
    value_names: Option<values::ValueNames>,
    transaction: Option<Transaction>,
    hooks: Vec<Hook>,
}

impl<B: Buffer> Editor<B> {
    /// Opens a hive for changes.
    ///
    /// # Errors
    /// Where the hive is not whole, clean and sound: [`verify`](crate::verify::verify) lists all that is
    /// wrong with it, [`rebuild`](crate::rebuild()) makes a sound one of what can be read.
    pub fn open(buffer: B) -> Result<Self> {
        let hive = Hive::open(buffer.bytes())?;
        if let Some(error) = crate::verify::verify_hive(&hive).into_first_error() {
            return Err(error);
        }
        let free = FreeCells::scan(hive.cells)?;
        let editor = Self {
            buffer,
            free,
            security: None,
            value_names: None,
            transaction: None,
            hooks: Vec::new(),
        };
        Ok(editor)
    }

    /// The hive as it is now, to read.
    ///
    /// # Panics
    /// Never: the buffer was opened as a hive and is one after each change.
    #[must_use]
    pub fn hive(&self) -> Hive<'_> {
        Hive::from_checked(self.buffer.bytes()).expect("the buffer was opened as a hive")
    }

    /// The file's bytes as they are now.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The buffer.
    #[must_use]
    pub fn into_buffer(self) -> B {
        self.buffer
    }

    /// The root key.
    ///
    /// # Errors
    /// Never for a hive that this editor opened.
    pub fn root(&self) -> Result<KeyId> {
        Ok(self.hive().root()?.id())
    }

    /// The key of an identity, to read.
    ///
    /// # Errors
    /// Where there is no key node there (any more).
    pub fn key(&self, id: KeyId) -> Result<Key<'_>> {
        Key::at(self.hive().cells, id.0)
    }

    /// The key at a path below the root.
    ///
    /// # Errors
    /// Damage on the way. A missing key is `None`.
    pub fn find(&self, path: &str) -> Result<Option<KeyId>> {
        Ok(self.hive().open_path(path)?.map(|key| key.id()))
    }

    /// Adds a function that hears of every committed change.
    pub fn on_change(&mut self, hook: Hook) {
        self.hooks.push(hook);
    }

    /// How many bytes are in free cells.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    /// Does several changes as one: all or none. Transactions do not nest; an inner one is part of the
    /// outer.
    ///
    /// # Errors
    /// What `work` returns; then every byte is as before.
    pub fn transact<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.transaction.is_some() {
            return work(self);
        }
        self.begin();
        match work(self) {
            Ok(value) => {
                self.commit();
                Ok(value)
            }
            Err(error) => {
                self.roll_back()?;
                Err(error)
            }
        }
    }

    /// Begins a transaction, which the caller commits or rolls back.
    pub(crate) fn begin(&mut self) {
        let len_before = self.buffer.bytes().len();
        self.transaction = Some(Transaction {
            len_before,
            sectors_before: HashMap::new(),
            changes: Vec::new(),
        });
    }

    /// The sectors that the running transaction has changed.
    pub(crate) fn pending(&self) -> BTreeSet<usize> {
        self.transaction
            .iter()
            .flat_map(|transaction| transaction.sectors_before.keys().copied())
            .collect()
    }

    /// Keeps what the running transaction did, and tells the hooks.
    pub(crate) fn commit(&mut self) {
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        let mut hooks = std::mem::take(&mut self.hooks);
        for change in &transaction.changes {
            hooks.iter_mut().for_each(|hook| hook(change));
        }
        self.hooks = hooks;
    }

    /// Puts back every byte that the running transaction changed.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        self.buffer.set_len(transaction.len_before)?;
        for (sector, before) in transaction.sectors_before {
            if let Some(place) = self
                .buffer
                .bytes_mut()
                .get_mut(sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES)
            {
                place.copy_from_slice(&before);
            }
        }
        self.security = None;
        self.value_names = None;
        self.free = FreeCells::scan(self.hive().cells)?;
        Ok(())
    }

    /// The buffer, for the durability layer to write the base block.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes_mut()
    }

    fn note(&mut self, change: Change) {
        if let Some(transaction) = &mut self.transaction {
            transaction.changes.push(change);
        }
    }

    // ---- bytes ----

    /// The file position of the content of a cell.
    fn content_at(cell: u32) -> usize {
        BASE_BLOCK_BYTES + cell as usize + 4
    }

    /// Keeps what is in these bytes, for putting back.
    fn touch(&mut self, at: usize, len: usize) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        for sector in at / SECTOR_BYTES..(at + len).div_ceil(SECTOR_BYTES) {
            let bytes = self.buffer.bytes();
            transaction.sectors_before.entry(sector).or_insert_with(|| {
                let mut before = [0; SECTOR_BYTES];
                if let Some(now) = bytes.get(sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES) {
                    before.copy_from_slice(now);
                }
                before
            });
        }
    }

    /// Writes bytes at a file position.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.touch(at, bytes.len());
        let len = self.buffer.bytes().len() as u64;
        match self.buffer.bytes_mut().get_mut(at..at + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::CellOutside {
                what: "a change",
                offset: at as u64,
                bins_bytes: len,
            }),
        }
    }

    fn write_u32(&mut self, at: usize, number: u32) -> Result<()> {
        self.write(at, &number.to_le_bytes())
    }

    /// Writes a number into the content of a cell.
    fn put_u32(&mut self, cell: u32, field: usize, number: u32) -> Result<()> {
        self.write_u32(Self::content_at(cell) + field, number)
    }

    fn put_u16(&mut self, cell: u32, field: usize, number: u16) -> Result<()> {
        self.write(Self::content_at(cell) + field, &number.to_le_bytes())
    }

    /// Moves bytes within the content of a cell.
    fn shift(&mut self, cell: u32, from: std::ops::Range<usize>, to: usize) -> Result<()> {
        let base = Self::content_at(cell);
        let (from, to) = (base + from.start..base + from.end, base + to);
        let len = self.buffer.bytes().len();
        if from.start > from.end || from.end.max(to + from.len()) > len {
            return Err(Error::CellOutside {
                what: "a list",
                offset: base as u64,
                bins_bytes: len as u64,
            });
        }
        self.touch(to, from.len());
        self.buffer.bytes_mut().copy_within(from, to);
        Ok(())
    }

    /// The length of a cell's content in bytes.
    fn capacity(&self, cell: u32) -> Result<usize> {
        Ok(self.hive().cells.cell(cell, "a cell")?.len())
    }

    // ---- cells ----

    /// A cell in use with `content`, and zeros up to `capacity` bytes.
    fn alloc(&mut self, content: &[u8], capacity: usize) -> Result<u32> {
        let wanted = content.len().max(capacity) as u64 + 4;
        let wanted = wanted.next_multiple_of(CELL_ALIGN_BYTES as u64);
        let too_large = || Error::TooLarge {
            needed_bytes: wanted,
            limit_bytes: u64::from(MAX_BINS_BYTES),
        };
        let bytes = u32::try_from(wanted)
            .ok()
            .filter(|&bytes| bytes < MAX_BINS_BYTES)
            .ok_or_else(too_large)?;
        let (offset, found) = match self.free.best_fit(bytes) {
            Some(found) => found,
            None => self.add_bin(bytes)?,
        };
        self.free.remove(offset, found);
        // A rest of 8 bytes would be a cell of its own that nothing fits in: better a slack.
        let taken = if found - bytes < 16 { found } else { bytes };
        if taken < found {
            self.write_u32(BASE_BLOCK_BYTES + (offset + taken) as usize, found - taken)?;
            self.free.insert(offset + taken, found - taken);
        }
        let mut cell = Vec::with_capacity(taken as usize);
        cell.extend_from_slice(&taken.wrapping_neg().to_le_bytes());
        cell.extend_from_slice(content);
        cell.resize(taken as usize, 0);
        self.write(BASE_BLOCK_BYTES + offset as usize, &cell)?;
        Ok(offset)
    }

    /// Frees a cell in use and joins it with free neighbours.
    fn free(&mut self, cell: u32) -> Result<()> {
        let mut offset = cell;
        let content = self.hive().cells.cell(cell, "a cell to free")?.len();
        let mut bytes = u32::try_from(content + 4).unwrap_or(u32::MAX);
        if let Some(next) = self.free.at(offset + bytes) {
            self.free.remove(offset + bytes, next);
            bytes += next;
        }
        if let Some((before, size)) = self.free.ending_at(offset) {
            self.free.remove(before, size);
            // The cell is in the middle of a free one now; its own size must not look like one in use.
            self.write_u32(BASE_BLOCK_BYTES + offset as usize, bytes)?;
            offset = before;
            bytes += size;
        }
        self.write_u32(BASE_BLOCK_BYTES + offset as usize, bytes)?;
        self.free.insert(offset, bytes);
        Ok(())
    }

    /// Appends a bin with one free cell of at least `cell_bytes`: its offset and size.
    fn add_bin(&mut self, cell_bytes: u32) -> Result<(u32, u32)> {
        let before = self.hive().bins_bytes();
        let bin = (cell_bytes as usize + BIN_HEADER_BYTES).next_multiple_of(BIN_ALIGN_BYTES);
        let after = before + bin;
        let too_large = || Error::TooLarge {
            needed_bytes: after as u64,
            limit_bytes: u64::from(MAX_BINS_BYTES),
        };
        let bins_bytes = u32::try_from(after)
            .ok()
            .filter(|&b| b <= MAX_BINS_BYTES)
            .ok_or_else(too_large)?;
        let (start, end) = (BASE_BLOCK_BYTES + before, BASE_BLOCK_BYTES + after);
        if self.buffer.bytes().len() < end {
            self.buffer.set_len(end)?;
        }
        // All of it goes to the log, so that a replay knows what new bins hold.
        self.touch(start, bin);
        let (offset, bin_bytes) = (
            bins_bytes - u32::try_from(bin).unwrap_or(0),
            u32::try_from(bin).unwrap_or(0),
        );
        let header = u32::try_from(BIN_HEADER_BYTES).unwrap_or(0);
        let mut bytes = vec![0; bin];
        bytes[..4].copy_from_slice(&HBIN);
        bytes[4..8].copy_from_slice(&offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&bin_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&(bin_bytes - header).to_le_bytes());
        self.write(start, &bytes)?;
        self.write_u32(BASE_BINS_BYTES, bins_bytes)?;
        let sum = checksum(self.buffer.bytes());
        self.write_u32(BASE_CHECKSUM, sum)?;
        self.free.insert(offset + header, bin_bytes - header);
        Ok((offset + header, bin_bytes - header))
    }

    /// Whether a field names a cell.
    fn is_cell(offset: u32) -> bool {
        offset != NO_CELL
    }
}
