// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a hive in place: base block, bins and cells. Everything that is handed out borrows from the
//! buffer; no step here allocates, and every offset is checked before it is followed.
//!
//! [`Hive`] is a view of a byte buffer and nothing else, so that one engine serves a file in memory, a
//! memory map and the buffer of an [`Editor`](crate::Editor).

use zerocopy::FromBytes;

use crate::error::{Error, Result};
use crate::format::{
    BASE_BLOCK_BYTES, BIN_ALIGN_BYTES, BIN_HEADER_BYTES, BaseBlock, BinHeader, CELL_ALIGN_BYTES, HBIN, REGF, checksum,
    file_type,
};
use crate::key::Key;

/// The deepest nesting of keys that is followed. Windows allows 512 levels; a merged hive adds a few.
pub const MAX_DEPTH: usize = 1024;
/// The largest hive bins data that is accepted (the highest bit of a cell offset means "volatile").
pub const MAX_BINS_BYTES: u32 = 0x7fff_f000;

/// A view of a hive.
#[derive(Clone, Copy, Debug)]
pub struct Hive<'a> {
    pub(crate) cells: Cells<'a>,
    root: u32,
    base: &'a BaseBlock,
}

/// What opening a hive says beside the hive: damage that does not stop a reader who wants to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDamage {
    /// Everything found, in the order of the file.
    pub errors: Vec<Error>,
}

impl std::fmt::Debug for BaseBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseBlock")
            .field(
                "sequences",
                &(self.primary_sequence.get(), self.secondary_sequence.get()),
            )
            .field("version", &(self.major_version.get(), self.minor_version.get()))
            .field("root_cell", &self.root_cell.get())
            .field("bins_bytes", &self.bins_bytes.get())
            .finish_non_exhaustive()
    }
}

impl<'a> Hive<'a> {
    /// Opens a whole and clean hive: checks the base block, its checksum and sequence numbers, and every
    /// bin's header. What follows the hive bins data is ignored.
    ///
    /// # Errors
    /// The first fault found; [`Error::Dirty`] and [`Error::WrongChecksum`] call for
    /// [`recover`](crate::log::recover).
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let (hive, damage) = Self::open_damaged(bytes)?;
        match damage.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(hive),
        }
    }

    /// Opens what there is of a hive: a wrong checksum, a dirty state, missing bytes and wrong bins are
    /// returned beside it. At most 1,000 faults of bins are listed.
    ///
    /// # Errors
    /// Where nothing can be read: not a hive, an unknown version, not even one bin.
    pub fn open_damaged(bytes: &'a [u8]) -> Result<(Self, OpenDamage)> {
        let mut errors = Vec::new();
        if bytes.len() < BASE_BLOCK_BYTES + BIN_HEADER_BYTES || bytes.get(..4) != Some(&REGF) {
            return Err(not_a_hive(bytes));
        }
        let too_short = || Error::TooShort {
            expected_bytes: 4096,
            actual_bytes: bytes.len() as u64,
        };
        let (base, _) = BaseBlock::ref_from_prefix(bytes).map_err(|_| too_short())?;
        let (major, minor) = (base.major_version.get(), base.minor_version.get());
        if base.file_type.get() != file_type::PRIMARY {
            return Err(Error::UnexpectedFileType {
                expected: "0, a primary file",
                actual: base.file_type.get(),
            });
        }
        let expected = checksum(bytes);
        if expected != base.checksum.get() {
            errors.push(Error::WrongChecksum {
                expected,
                actual: base.checksum.get(),
            });
        }
        if major != 1 || !(3..=6).contains(&minor) {
            if errors.is_empty() {
                return Err(Error::UnsupportedVersion { major, minor });
            }
            errors.push(Error::UnsupportedVersion { major, minor });
        }
        let (primary, secondary) = (base.primary_sequence.get(), base.secondary_sequence.get());
        if primary != secondary {
            errors.push(Error::Dirty { primary, secondary });
        }
        let declared = base.bins_bytes.get();
        if declared == 0 || declared > MAX_BINS_BYTES || !(declared as usize).is_multiple_of(BIN_ALIGN_BYTES) {
            return Err(Error::InvalidBinsSize { actual_bytes: declared });
        }
        let present = &bytes[BASE_BLOCK_BYTES..];
        let bins = match present.get(..declared as usize) {
            Some(bins) => bins,
            None => {
                errors.push(Error::Truncated {
                    expected_bytes: BASE_BLOCK_BYTES as u64 + u64::from(declared),
                    actual_bytes: bytes.len() as u64,
                });
                present
            }
        };
        let cells = Cells { bins, minor };
        for bin in cells.bins() {
            match bin {
                Ok(_) => {}
                Err(error) if errors.len() < 1000 => errors.push(error),
                Err(_) => break,
            }
        }
        Ok((
            Self {
                cells,
                root: base.root_cell.get(),
                base,
            },
            OpenDamage { errors },
        ))
    }

    /// A view of a buffer that was checked before and has been written by this crate only.
    pub(crate) fn from_checked(bytes: &'a [u8]) -> Result<Self> {
        let too_short = || Error::TooShort {
            expected_bytes: 4096,
            actual_bytes: bytes.len() as u64,
        };
        let (base, _) = BaseBlock::ref_from_prefix(bytes).map_err(|_| too_short())?;
        let end = BASE_BLOCK_BYTES.saturating_add(base.bins_bytes.get() as usize);
        let bins = bytes.get(BASE_BLOCK_BYTES..end).ok_or_else(too_short)?;
        Ok(Self {
            cells: Cells {
                bins,
                minor: base.minor_version.get(),
            },
            root: base.root_cell.get(),
            base,
        })
    }

    /// The root key.
    ///
    /// # Errors
    /// Where the base block's reference does not lead to a key node.
    pub fn root(&self) -> Result<Key<'a>> {
        Key::at(self.cells, self.root)
    }

    /// The key at a path below the root: names parted by backslashes, compared as NT compares them. An
    /// empty path is the root.
    ///
    /// # Errors
    /// Damage on the way. A missing key is `None`.
    pub fn open_path(&self, path: &str) -> Result<Option<Key<'a>>> {
        self.root()?.open_path(path)
    }

    /// The base block's first sector.
    #[must_use]
    pub fn base_block(&self) -> &'a BaseBlock {
        self.base
    }

    /// The minor version: 3 to 6.
    #[must_use]
    pub fn minor_version(&self) -> u32 {
        self.cells.minor
    }

    /// The length of the hive bins data that is there, in bytes.
    #[must_use]
    pub fn bins_bytes(&self) -> usize {
        self.cells.bins.len()
    }

    /// The bins, in order: the file offset and length of each, or what is wrong with one (the walk then
    /// goes on at the next multiple of 4,096 that has a bin's signature).
    #[must_use]
    pub fn bins(&self) -> Bins<'a> {
        self.cells.bins()
    }
}

/// Says what a buffer is that does not begin like a hive.
fn not_a_hive(bytes: &[u8]) -> Error {
    let text = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    let narrow = [&b"REGEDIT4"[..], b"Windows Registry Editor"]
        .iter()
        .any(|head| text.starts_with(head));
    let wide = |head: &str| {
        let units: Vec<u8> = head.encode_utf16().flat_map(u16::to_le_bytes).collect();
        text.strip_prefix(&[0xff, 0xfe]).unwrap_or(text).starts_with(&units)
    };
    if narrow || wide("Windows Registry Editor") || wide("REGEDIT4") {
        return Error::RegistryText;
    }
    match bytes.first_chunk::<4>() {
        Some(actual) if *actual != REGF => Error::NotAHive { actual: *actual },
        _ => Error::TooShort {
            expected_bytes: (BASE_BLOCK_BYTES + BIN_HEADER_BYTES) as u64,
            actual_bytes: bytes.len() as u64,
        },
    }
}

/// The cells of the hive bins data.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) bins: &'a [u8],
    pub(crate) minor: u32,
}

impl core::fmt::Debug for Cells<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes of bins, version 1.{}", self.bins.len(), self.minor)
    }
}

/// The file offset of a cell offset.
pub(crate) fn file_offset(cell: u32) -> u64 {
    BASE_BLOCK_BYTES as u64 + u64::from(cell)
}

impl<'a> Cells<'a> {
    /// The content of a cell in use, without its size field.
    #[inline]
    pub(crate) fn cell(self, offset: u32, what: &'static str) -> Result<&'a [u8]> {
        let at = offset as usize;
        let Some((size, rest)) = self.bins.get(at..).and_then(<[u8]>::split_first_chunk::<4>) else {
            return Err(Error::CellOutside {
                what,
                offset: file_offset(offset),
                bins_bytes: self.bins.len() as u64,
            });
        };
        let size = i32::from_le_bytes(*size);
        if size >= 0 {
            return Err(Error::CellNotInUse {
                what,
                offset: file_offset(offset),
                size,
            });
        }
        let bytes = size.unsigned_abs() as usize;
        match rest.get(..bytes.wrapping_sub(4)) {
            Some(content) if at.is_multiple_of(CELL_ALIGN_BYTES) => Ok(content),
            _ => Err(Error::InvalidCellSize {
                what,
                offset: file_offset(offset),
                size,
                room: rest.len() as u64 + 4,
            }),
        }
    }

    /// A structure at the start of a cell in use, and what follows it in the cell.
    #[inline]
    pub(crate) fn record<T>(
        self,
        offset: u32,
        what: &'static str,
        signature: [u8; 2],
        expected: &'static str,
    ) -> Result<(&'a T, &'a [u8])>
    where
        T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
    {
        let content = self.cell(offset, what)?;
        if content.first_chunk::<2>() != Some(&signature) {
            let actual = content.first_chunk::<2>().copied().unwrap_or_default();
            return Err(Error::UnexpectedSignature {
                what,
                offset: file_offset(offset),
                expected,
                actual,
            });
        }
        T::ref_from_prefix(content).map_err(|_| Error::CellTooSmall {
            what,
            offset: file_offset(offset),
            expected_bytes: size_of::<T>() as u64,
            actual_bytes: content.len() as u64,
        })
    }

    /// The bins, in order.
    pub(crate) fn bins(self) -> Bins<'a> {
        Bins { bins: self.bins, at: 0 }
    }
}

/// The bins of a hive, in order.
#[derive(Clone, Debug)]
pub struct Bins<'a> {
    bins: &'a [u8],
    at: usize,
}

/// One bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Where it begins in the hive bins data, in bytes.
    pub offset: u32,
    /// Its length in bytes, header included.
    pub bytes: u32,
}

impl Iterator for Bins<'_> {
    type Item = Result<Bin>;

    fn next(&mut self) -> Option<Result<Bin>> {
        let rest = self.bins.get(self.at..).filter(|rest| !rest.is_empty())?;
        let offset = u32::try_from(self.at).ok()?;
        let room = rest.len();
        match read_bin(rest, offset) {
            Ok(bin) => {
                self.at += bin.bytes as usize;
                Some(Ok(bin))
            }
            Err(error) => {
                let mut next = BIN_ALIGN_BYTES;
                while next < room && rest.get(next..next + 4) != Some(&HBIN) {
                    next += BIN_ALIGN_BYTES;
                }
                self.at += next;
                Some(Err(error))
            }
        }
    }
}

/// Reads and checks the header of a bin at the start of `rest`.
pub(crate) fn read_bin(rest: &[u8], offset: u32) -> Result<Bin> {
    let at = file_offset(offset);
    let invalid = |what, actual, expected| Error::InvalidBin {
        offset: at,
        what,
        actual,
        expected,
    };
    let Ok((header, _)) = BinHeader::ref_from_prefix(rest) else {
        return Err(Error::Truncated {
            expected_bytes: at + 32,
            actual_bytes: at + rest.len() as u64,
        });
    };
    if header.signature != HBIN {
        return Err(invalid(
            "the signature",
            u32::from_le_bytes(header.signature),
            "\"hbin\" (0x6e696268)".to_owned(),
        ));
    }
    if header.offset.get() != offset {
        return Err(invalid("its own offset", header.offset.get(), format!("{offset:#x}")));
    }
    let bytes = header.size_bytes.get();
    let fits = (bytes as usize) <= rest.len() && (bytes as usize).is_multiple_of(BIN_ALIGN_BYTES);
    if bytes == 0 || !fits {
        return Err(invalid(
            "the size",
            bytes,
            format!("a multiple of 0x1000 of at most {:#x}", rest.len()),
        ));
    }
    Ok(Bin { offset, bytes })
}
