// SPDX-License-Identifier: GPL-3.0-or-later
//! Replaying the logs of a dirty hive: the new format (HvLE entries with Marvin32 hashes) and the old
//! one (DIRT, a dirty vector). The primary file is never changed; the result is a new buffer.
//!
//! Source: specification, sections "Format of transaction log files", "Dirty state of a hive" and
//! "Multiple transaction log files". A wrong rule here loses what a program wrote last.

use std::borrow::Cow;

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, Result};
use crate::format::{
    BASE_BLOCK_BYTES, BIN_ALIGN_BYTES, BaseBlock, BinHeader, DIRT, HVLE, LOG_HASH_SEED, LogEntry, LogPage, REGF,
    SECTOR_BYTES, checksum, file_type,
};
pub use crate::marvin::marvin32;
use crate::reader::{Hive, MAX_BINS_BYTES};
use crate::value::prefix;

/// The largest sector that a log is looked for in, in units of 512 bytes: one of 4,096.
const MAX_CLUSTERING_FACTOR: usize = 8;

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// HvLE entries, since Windows 8.1.
    New,
    /// A dirty vector and pages.
    Old,
}

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The format of the logs that were applied.
    pub format: LogFormat,
    /// How many entries were applied; 1 for the old format.
    pub nr_entries: usize,
    /// How many pages were written.
    pub nr_pages: usize,
    /// The sequence number that the hive has now.
    pub sequence: u32,
    /// Whether the base block was taken from a log, because the hive's own was damaged.
    pub base_block_from_log: bool,
    /// Why a log, or the rest of one, was not applied. An empty log is normal and not listed.
    pub notes: Vec<Error>,
}

/// Replays logs over a dirty hive. `logs` are the contents of LOG1 and LOG2 (or the single LOG), in that
/// order; any may be empty. A clean hive comes back as it is, with `None`, whatever the logs hold.
///
/// # Errors
/// Where the hive is dirty and no log can be applied ([`Error::NoUsableLog`] says why for each), or the
/// replayed hive does not open.
pub fn recover<'a>(primary: &'a [u8], logs: &[&[u8]]) -> Result<(Cow<'a, [u8]>, Option<Recovery>)> {
    let clean = match Hive::open_damaged(primary) {
        Ok((_, damage)) => !damage
            .errors
            .iter()
            .any(|e| matches!(e, Error::WrongChecksum { .. } | Error::Dirty { .. })),
        // Nothing that a log could help, unless the base block itself is damaged.
        Err(error) => match base_of(primary) {
            Some(base) if checksum(primary) != base.checksum.get() => false,
            _ => return Err(error),
        },
    };
    if clean {
        Hive::open(primary)?;
        return Ok((Cow::Borrowed(primary), None));
    }
    let mut notes = Vec::new();
    let mut usable = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        match Log::open(log, index + 1) {
            Ok(Some(log)) => usable.push(log),
            Ok(None) => {}
            Err(error) => notes.push(error),
        }
    }
    let new = usable.iter().any(|log| log.format == LogFormat::New);
    let replayed = if new {
        replay_new(primary, &usable, &mut notes)
    } else {
        replay_old(primary, &usable, &mut notes)
    };
    match replayed {
        Some((bytes, mut recovery)) => {
            Hive::open(&bytes)?;
            recovery.notes = notes;
            Ok((Cow::Owned(bytes), Some(recovery)))
        }
        None if notes.is_empty() => Err(Error::NoUsableLog {
            reasons: "there is no log, or only empty ones".to_owned(),
        }),
        None => {
            let reasons = notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Err(Error::NoUsableLog { reasons })
        }
    }
}

fn base_of(bytes: &[u8]) -> Option<&BaseBlock> {
    prefix::<BaseBlock>(bytes).filter(|base| base.signature == REGF)
}

/// A log whose base block is good.
struct Log<'a> {
    number: usize,
    format: LogFormat,
    base: &'a BaseBlock,
    bytes: &'a [u8],
}

impl<'a> Log<'a> {
    /// `None` for an empty log.
    fn open(bytes: &'a [u8], number: usize) -> Result<Option<Self>> {
        let invalid = |offset: u64, what: String| Error::InvalidLog {
            log: number,
            offset,
            what,
        };
        if bytes.iter().take(SECTOR_BYTES).all(|&byte| byte == 0) {
            return Ok(None);
        }
        let Some(base) = base_of(bytes) else {
            return Err(invalid(
                0,
                "a log begins with a sector of the base block, \"regf\"".to_owned(),
            ));
        };
        let (expected, actual) = (checksum(bytes), base.checksum.get());
        if expected != actual {
            let what = format!("the base block's checksum is {actual:#010x}, but its bytes give {expected:#010x}");
            return Err(invalid(0x1fc, what));
        }
        let (first, second) = (base.primary_sequence.get(), base.secondary_sequence.get());
        if first != second {
            return Err(invalid(
                4,
                format!("the log was not written to its end (sequence numbers {first} and {second})"),
            ));
        }
        let format = match base.file_type.get() {
            file_type::LOG_NEW => LogFormat::New,
            file_type::LOG_OLD | file_type::LOG_OLD_VARIANT => LogFormat::Old,
            other => {
                return Err(invalid(
                    0x1c,
                    format!("file type {other} is not one of a log (1, 2 or 6)"),
                ));
            }
        };
        Ok(Some(Self {
            number,
            format,
            base,
            bytes,
        }))
    }

    /// Where the second sector begins: behind as much of the base block as the disk's sectors hold. Logs
    /// on disks with large sectors have been seen with both.
    fn second_sector(&self, signature: [u8; 4]) -> usize {
        let factor = self.base.clustering_factor.get() as usize;
        let large = SECTOR_BYTES * factor.clamp(1, MAX_CLUSTERING_FACTOR);
        let is_at = |at: usize| self.bytes.get(at..at + 4) == Some(&signature);
        if !is_at(SECTOR_BYTES) && is_at(large) {
            large
        } else {
            SECTOR_BYTES
        }
    }

    fn invalid(&self, offset: usize, what: String) -> Error {
        Error::InvalidLog {
            log: self.number,
            offset: offset as u64,
            what,
        }
    }
}

/// One entry whose hashes are right.
struct Entry<'a> {
    sequence: u32,
    bins_bytes: u32,
    pages: Vec<(u32, &'a [u8])>,
    base: &'a BaseBlock,
}

/// The entries of a log up to its end, to a left-over of an older use, or to a bad one (which is noted).
fn read_entries<'a>(log: &Log<'a>, notes: &mut Vec<Error>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut at = log.second_sector(HVLE);
    while let Some(rest) = log.bytes.get(at..) {
        let Some(header) = prefix::<LogEntry>(rest).filter(|header| header.signature == HVLE) else {
            break;
        };
        let sequence = header.sequence.get();
        if entries
            .last()
            .is_some_and(|last| sequence != last.sequence.wrapping_add(1))
        {
            break;
        }
        match read_entry(log, header, rest, at) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                notes.push(error);
                break;
            }
        }
        at += header.size_bytes.get() as usize;
    }
    entries
}

fn read_entry<'a>(log: &Log<'a>, header: &LogEntry, rest: &'a [u8], at: usize) -> Result<Entry<'a>> {
    let size = header.size_bytes.get() as usize;
    let head = size_of::<LogEntry>();
    let whole = rest
        .get(..size)
        .filter(|_| size >= head && size.is_multiple_of(SECTOR_BYTES));
    let Some(whole) = whole else {
        return Err(log.invalid(at + 4, format!("an entry of {size} bytes, {} are left", rest.len())));
    };
    for (name, stored, hash) in [
        ("hash 1", header.hash_1.get(), marvin32(LOG_HASH_SEED, &whole[head..])),
        ("hash 2", header.hash_2.get(), marvin32(LOG_HASH_SEED, &whole[..32])),
    ] {
        if stored != hash {
            return Err(log.invalid(
                at,
                format!("{name} of the entry is {stored:#018x}, its bytes give {hash:#018x}"),
            ));
        }
    }
    let bins_bytes = header.bins_bytes.get();
    if bins_bytes == 0 || bins_bytes > MAX_BINS_BYTES || !(bins_bytes as usize).is_multiple_of(BIN_ALIGN_BYTES) {
        return Err(log.invalid(
            at + 16,
            format!("hive bins data of {bins_bytes} bytes are not possible"),
        ));
    }
    let nr = header.nr_pages.get() as usize;
    let references = nr
        .checked_mul(size_of::<LogPage>())
        .and_then(|bytes| whole[head..].get(..bytes));
    let Some(references) = references else {
        return Err(log.invalid(at + 20, format!("{nr} page references do not fit in the entry")));
    };
    let mut data = &whole[head + references.len()..];
    let mut pages = Vec::with_capacity(nr);
    for reference in references.chunks_exact(size_of::<LogPage>()) {
        let Ok(page) = LogPage::ref_from_bytes(reference) else {
            break;
        };
        let (offset, bytes) = (page.offset.get(), page.size_bytes.get());
        let end = u64::from(offset) + u64::from(bytes);
        match data.split_at_checked(bytes as usize) {
            Some((page, left)) if end <= u64::from(bins_bytes) => {
                pages.push((offset, page));
                data = left;
            }
            _ => {
                return Err(log.invalid(
                    at,
                    format!("a page of {bytes} bytes for offset {offset:#x} does not fit"),
                ));
            }
        }
    }
    Ok(Entry {
        sequence: header.sequence.get(),
        bins_bytes,
        pages,
        base: log.base,
    })
}

fn replay_new(primary: &[u8], logs: &[Log<'_>], notes: &mut Vec<Error>) -> Option<(Vec<u8>, Recovery)> {
    let mut entries = Vec::new();
    for log in logs {
        if log.format == LogFormat::New {
            entries.extend(read_entries(log, notes));
        } else {
            notes.push(log.invalid(
                0x1c,
                "an old-format log beside a new-format one is not applied".to_owned(),
            ));
        }
    }
    entries.sort_by_key(|entry| entry.sequence);
    let base = base_of(primary).filter(|base| checksum(primary) == base.checksum.get());
    let chain = match base {
        Some(base) => chain_for(base, entries, notes)?,
        None => {
            // The longest run without a gap that ends with the newest entry. Entries are images of whole
            // pages: applying one that the file has already changes nothing, if all later ones follow.
            let mut first = entries.len().saturating_sub(1);
            while first > 0 && entries[first].sequence == entries[first - 1].sequence.wrapping_add(1) {
                first -= 1;
            }
            entries.split_off(first)
        }
    };
    let (first, last) = (chain.first()?, chain.last()?);
    let mut bytes = primary.to_vec();
    if base.is_none() {
        adopt_base(&mut bytes, first.base);
    }
    let mut nr_pages = 0;
    let mut nr_entries = 0;
    for entry in &chain {
        let fresh: usize = entry.pages.iter().map(|(_, page)| page.len()).sum();
        let needed = BASE_BLOCK_BYTES + entry.bins_bytes as usize;
        // Bins that are new to the file must be in the entry; this also bounds the memory.
        if needed > bytes.len() + fresh {
            notes.push(Error::Truncated {
                expected_bytes: needed as u64,
                actual_bytes: bytes.len() as u64,
            });
            return None;
        }
        if bytes.len() < needed {
            bytes.resize(needed, 0);
        }
        for (offset, page) in &entry.pages {
            let at = BASE_BLOCK_BYTES + *offset as usize;
            bytes.get_mut(at..at + page.len())?.copy_from_slice(page);
        }
        nr_pages += entry.pages.len();
        nr_entries += 1;
    }
    let sequence = last.sequence.wrapping_add(1);
    finish(&mut bytes, sequence, Some(last.bins_bytes))?;
    let base_block_from_log = base.is_none();
    let format = LogFormat::New;
    Some((
        bytes,
        Recovery {
            format,
            nr_entries,
            nr_pages,
            sequence,
            base_block_from_log,
            notes: Vec::new(),
        },
    ))
}

/// The entries to apply to a hive whose base block is good: from its last whole write on, without a gap.
fn chain_for<'a>(base: &BaseBlock, entries: Vec<Entry<'a>>, notes: &mut Vec<Error>) -> Option<Vec<Entry<'a>>> {
    let (primary, secondary) = (base.primary_sequence.get(), base.secondary_sequence.get());
    let from = primary.min(secondary);
    let mut chain: Vec<Entry<'a>> = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.sequence >= from) {
        match chain.last() {
            None if entry.sequence > primary => {
                notes.push(Error::Mismatch {
                    what: "the sequence number of the first log entry",
                    offset: 4,
                    expected: u64::from(primary),
                    actual: u64::from(entry.sequence),
                });
                return None;
            }
            Some(last) if entry.sequence == last.sequence => {}
            Some(last) if entry.sequence != last.sequence + 1 => {
                notes.push(Error::Mismatch {
                    what: "the sequence number of the next log entry",
                    offset: 4,
                    expected: u64::from(last.sequence) + 1,
                    actual: u64::from(entry.sequence),
                });
                break;
            }
            _ => chain.push(entry),
        }
    }
    Some(chain)
}

fn replay_old(primary: &[u8], logs: &[Log<'_>], notes: &mut Vec<Error>) -> Option<(Vec<u8>, Recovery)> {
    let good_base = base_of(primary).filter(|base| checksum(primary) == base.checksum.get());
    // A damaged base block may still have its time; the first bin has a copy.
    let written = base_of(primary)?.last_written.get();
    let copy = match good_base {
        Some(_) => written,
        None => prefix::<BinHeader>(primary.get(BASE_BLOCK_BYTES..)?)?.timestamp.get(),
    };
    for log in logs {
        let time = log.base.last_written.get();
        if time != written && time != copy {
            notes.push(log.invalid(0x0c, format!("its last write ({time}) is not the hive's ({written})")));
            continue;
        }
        match apply_old(primary, log, good_base.is_none()) {
            Ok(replayed) => return Some(replayed),
            Err(error) => notes.push(error),
        }
    }
    None
}

fn apply_old(primary: &[u8], log: &Log<'_>, base_block_from_log: bool) -> Result<(Vec<u8>, Recovery)> {
    let start = log.second_sector(DIRT);
    let vector = log.bytes.get(start..).unwrap_or_default();
    if !vector.starts_with(&DIRT) {
        return Err(log.invalid(start, "expected a dirty vector, \"DIRT\"".to_owned()));
    }
    let bins_bytes = log.base.bins_bytes.get();
    if bins_bytes == 0 || bins_bytes > MAX_BINS_BYTES || !(bins_bytes as usize).is_multiple_of(BIN_ALIGN_BYTES) {
        return Err(log.invalid(0x28, format!("hive bins data of {bins_bytes} bytes are not possible")));
    }
    let nr_bits = bins_bytes as usize / SECTOR_BYTES;
    let Some(bitmap) = vector.get(4..4 + nr_bits.div_ceil(8)) else {
        return Err(log.invalid(
            SECTOR_BYTES,
            format!("a dirty vector of {nr_bits} bits does not fit in the log"),
        ));
    };
    let mut bytes = primary.to_vec();
    if base_block_from_log {
        adopt_base(&mut bytes, log.base);
    }
    let needed = BASE_BLOCK_BYTES + bins_bytes as usize;
    if needed > bytes.len() + log.bytes.len() {
        return Err(Error::Truncated {
            expected_bytes: needed as u64,
            actual_bytes: bytes.len() as u64,
        });
    }
    if bytes.len() < needed {
        bytes.resize(needed, 0);
    }
    // The sector size is that of the vector's own place.
    let mut from = (start + 4 + bitmap.len()).next_multiple_of(start);
    let mut nr_pages = 0;
    for bit in (0..nr_bits).filter(|bit| bitmap[bit / 8] & (1 << (bit % 8)) != 0) {
        let Some(page) = log.bytes.get(from..from + SECTOR_BYTES) else {
            return Err(log.invalid(from, format!("the log ends before dirty page {nr_pages}")));
        };
        let to = BASE_BLOCK_BYTES + bit * SECTOR_BYTES;
        bytes[to..to + SECTOR_BYTES].copy_from_slice(page);
        from += SECTOR_BYTES;
        nr_pages += 1;
    }
    let sequence = log.base.primary_sequence.get();
    if finish(&mut bytes, sequence, Some(bins_bytes)).is_none() {
        return Err(log.invalid(0, "the hive has no base block".to_owned()));
    }
    // The rule of the format: a dirty bin that is not one makes the log unusable.
    Hive::open(&bytes)?;
    let format = LogFormat::Old;
    Ok((
        bytes,
        Recovery {
            format,
            nr_entries: 1,
            nr_pages,
            sequence,
            base_block_from_log,
            notes: Vec::new(),
        },
    ))
}

fn adopt_base(bytes: &mut [u8], base: &BaseBlock) {
    let mut base = base.clone();
    base.file_type = U32::new(file_type::PRIMARY);
    if let Some(place) = bytes.get_mut(..size_of::<BaseBlock>()) {
        place.copy_from_slice(base.as_bytes());
    }
}

/// Makes the base block that of a clean hive.
fn finish(bytes: &mut [u8], sequence: u32, bins_bytes: Option<u32>) -> Option<()> {
    let mut base = base_of(bytes)?.clone();
    base.primary_sequence = U32::new(sequence);
    base.secondary_sequence = U32::new(sequence);
    if let Some(bins_bytes) = bins_bytes {
        base.bins_bytes = U32::new(bins_bytes);
    }
    base.checksum = U32::new(checksum(base.as_bytes()));
    bytes
        .get_mut(..size_of::<BaseBlock>())?
        .copy_from_slice(base.as_bytes());
    Some(())
}
