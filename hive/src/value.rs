// SPDX-License-Identifier: GPL-3.0-or-later
//! Values of a key and their data: inline, in one cell, or in big data segments. Types are kept as raw
//! numbers and data as raw bytes; nothing is interpreted here.

use zerocopy::FromBytes;

use crate::error::{Error, Result};
use crate::format::{BIG_DATA_MINOR_VERSION, BigData, MAX_SEGMENT_BYTES, ValueNode, value_flag};
use crate::key::Key;
use crate::name::Name;
use crate::reader::{Cells, file_offset};

/// The longest value name in UTF-16 units (Microsoft, "Registry element size limits").
pub const MAX_VALUE_NAME_UNITS: usize = 16_383;

/// A value, borrowed from the hive's buffer.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    pub(crate) cells: Cells<'a>,
    pub(crate) offset: u32,
    pub(crate) node: &'a ValueNode,
    /// The node's bytes from `data` on, for inline data.
    inline: &'a [u8],
    tail: &'a [u8],
}

impl core::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "value {:?} of type {} at {:#x}",
            self.name(),
            self.data_type(),
            self.file_offset()
        )
    }
}

impl<'a> Value<'a> {
    /// The value in the cell at `offset`.
    #[inline]
    pub(crate) fn at(cells: Cells<'a>, offset: u32) -> Result<Self> {
        const WHAT: &str = "value";
        let (node, rest) = cells.record::<ValueNode>(offset, WHAT, *b"vk", "\"vk\"")?;
        let bytes = usize::from(node.name_bytes.get());
        let tail = rest.get(..bytes).ok_or_else(|| Error::CellTooSmall {
            what: WHAT,
            offset: file_offset(offset),
            expected_bytes: (size_of::<ValueNode>() + bytes) as u64,
            actual_bytes: (size_of::<ValueNode>() + rest.len()) as u64,
        })?;
        let value = Self {
            cells,
            offset,
            node,
            inline: &node.data,
            tail,
        };
        if !value.is_latin1() && !bytes.is_multiple_of(2) {
            let at = file_offset(offset);
            return Err(Error::OddLength {
                what: "a value's name",
                offset: at,
                actual_bytes: bytes as u64,
            });
        }
        Ok(value)
    }

    #[inline]
    fn is_latin1(&self) -> bool {
        self.flags() & value_flag::COMPRESSED_NAME != 0
    }

    /// The value's name; empty for the default value.
    #[inline]
    #[must_use]
    pub fn name(&self) -> Name<'a> {
        if self.is_latin1() {
            Name::Latin1(self.tail)
        } else {
            Name::Utf16(self.tail)
        }
    }

    /// The type number, see [`data_type`](crate::format::data_type).
    #[inline]
    #[must_use]
    pub fn data_type(&self) -> u32 {
        self.node.data_type.get()
    }

    /// The flags, see [`value_flag`].
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.node.flags.get()
    }

    /// Whether a delta hive deletes the value.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.cells.minor >= 6 && self.flags() & value_flag::TOMBSTONE != 0
    }

    /// The length of the data in bytes, as declared.
    #[inline]
    #[must_use]
    pub fn data_bytes(&self) -> u32 {
        self.node.data_bytes.get() & !ValueNode::INLINE
    }

    /// Where the value's cell begins in the file.
    #[must_use]
    pub fn file_offset(&self) -> u64 {
        file_offset(self.offset)
    }

    /// The value's cell offset: its identity within this hive.
    #[must_use]
    pub fn cell_offset(&self) -> u32 {
        self.offset
    }

    /// The cell offset of the data, where they are not inline.
    pub(crate) fn data_cell(&self) -> u32 {
        u32::from_le_bytes(self.node.data)
    }

    /// Whether the data lie in the node.
    pub(crate) fn is_inline(&self) -> bool {
        self.node.data_bytes.get() & ValueNode::INLINE != 0
    }

    /// Whether the data should be in segments, by their length.
    #[inline]
    pub(crate) fn is_in_segments(&self) -> bool {
        let declared = self.node.data_bytes.get();
        declared & ValueNode::INLINE == 0 && declared as usize > MAX_SEGMENT_BYTES
    }

    /// The data. Big data are checked whole here, so that reading them cannot fail.
    ///
    /// # Errors
    /// Where the reference, the length or a segment is wrong.
    #[inline]
    pub fn data(&self) -> Result<Data<'a>> {
        const WHAT: &str = "value data";
        let declared = self.node.data_bytes.get();
        let bytes = self.data_bytes() as usize;
        if declared & ValueNode::INLINE != 0 {
            return self
                .inline
                .get(..bytes)
                .map(Data::Plain)
                .ok_or_else(|| Error::CellTooSmall {
                    what: "inline value data",
                    offset: self.file_offset(),
                    expected_bytes: bytes as u64,
                    actual_bytes: 4,
                });
        }
        if bytes == 0 {
            return Ok(Data::Plain(&[]));
        }
        let offset = self.data_cell();
        let cell = self.cells.cell(offset, WHAT)?;
        match cell.get(..bytes) {
            Some(data) => Ok(Data::Plain(data)),
            None if self.cells.minor >= BIG_DATA_MINOR_VERSION
                && bytes > MAX_SEGMENT_BYTES
                && cell.starts_with(b"db") =>
            {
                Segments::of(self.cells, offset, bytes).map(Data::Big)
            }
            None => Err(Error::CellTooSmall {
                what: WHAT,
                offset: file_offset(offset),
                expected_bytes: bytes as u64,
                actual_bytes: cell.len() as u64,
            }),
        }
    }
}

/// The data of a value.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// In one piece, borrowed.
    Plain(&'a [u8]),
    /// In segments.
    Big(Segments<'a>),
}

impl<'a> Data<'a> {
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Big(segments) => segments.bytes_left,
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in order; none is empty.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'a> {
        match *self {
            Self::Plain(bytes) => Chunks {
                plain: bytes,
                big: None,
            },
            Self::Big(segments) => Chunks {
                plain: &[],
                big: Some(segments),
            },
        }
    }

    /// All bytes, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.chunks().for_each(|chunk| bytes.extend_from_slice(chunk));
        bytes
    }

    /// All bytes, borrowed where they are in one piece.
    #[must_use]
    pub fn to_cow(&self) -> std::borrow::Cow<'a, [u8]> {
        match self {
            Self::Plain(bytes) => (*bytes).into(),
            Self::Big(_) => self.to_vec().into(),
        }
    }
}

impl PartialEq for Data<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(a), Self::Plain(b)) => a == b,
            _ => self.len() == other.len() && self.to_cow() == other.to_cow(),
        }
    }
}

/// The pieces of a value's data.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    plain: &'a [u8],
    big: Option<Segments<'a>>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(segments) = &mut self.big {
            return segments.next_segment()?.ok();
        }
        let bytes = core::mem::take(&mut self.plain);
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Checked big data.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    cells: Cells<'a>,
    list: &'a [u8],
    bytes_left: usize,
}

impl<'a> Segments<'a> {
    fn of(cells: Cells<'a>, offset: u32, bytes: usize) -> Result<Self> {
        const WHAT: &str = "big data";
        let (node, _) = cells.record::<BigData>(offset, WHAT, *b"db", "\"db\"")?;
        let nr = bytes.div_ceil(MAX_SEGMENT_BYTES);
        let declared = usize::from(node.nr_segments.get());
        let at = file_offset(offset);
        if declared != nr {
            return Err(Error::Mismatch {
                what: "the number of segments of big data",
                offset: at,
                expected: nr as u64,
                actual: declared as u64,
            });
        }
        // Segments are cells of their own: more data than bins means that some are listed twice.
        if bytes > cells.bins.len() {
            return Err(Error::Mismatch {
                what: "the length of big data, which all bins together bound,",
                offset: at,
                expected: cells.bins.len() as u64,
                actual: bytes as u64,
            });
        }
        let cell = cells.cell(node.segments.get(), "list of big data segments")?;
        let list = cell.get(..nr * 4).ok_or(Error::CellTooSmall {
            what: "list of big data segments",
            offset: file_offset(node.segments.get()),
            expected_bytes: nr as u64 * 4,
            actual_bytes: cell.len() as u64,
        })?;
        let segments = Self {
            cells,
            list,
            bytes_left: bytes,
        };
        let mut check = segments;
        while let Some(segment) = check.next_segment() {
            segment?;
        }
        Ok(segments)
    }

    fn next_segment(&mut self) -> Option<Result<&'a [u8]>> {
        let (element, rest) = self.list.split_first_chunk::<4>()?;
        self.list = rest;
        let bytes = self.bytes_left.min(MAX_SEGMENT_BYTES);
        self.bytes_left -= bytes;
        let offset = u32::from_le_bytes(*element);
        Some(self.cells.cell(offset, "big data segment").and_then(|cell| {
            cell.get(..bytes).ok_or(Error::CellTooSmall {
                what: "big data segment",
                offset: file_offset(offset),
                expected_bytes: bytes as u64,
                actual_bytes: cell.len() as u64,
            })
        }))
    }
}

/// The values of a key, in stored order. Where the list is too short for the declared number, the last
/// item is an error that says so.
#[derive(Clone)]
pub struct Values<'a> {
    cells: Cells<'a>,
    list: &'a [u8],
    missing: Option<Error>,
}

impl<'a> Values<'a> {
    pub(crate) fn of(key: &Key<'a>) -> Result<Self> {
        const WHAT: &str = "value list";
        let nr = key.nr_values() as usize;
        if nr == 0 {
            return Ok(Self {
                cells: key.cells,
                list: &[],
                missing: None,
            });
        }
        let offset = key.node.values.get();
        let cell = key.cells.cell(offset, WHAT)?;
        let bytes = nr.saturating_mul(4);
        let (list, missing) = match cell.get(..bytes) {
            Some(list) => (list, None),
            None => (
                &cell[..cell.len() / 4 * 4],
                Some(Error::CellTooSmall {
                    what: WHAT,
                    offset: file_offset(offset),
                    expected_bytes: bytes as u64,
                    actual_bytes: cell.len() as u64,
                }),
            ),
        };
        Ok(Self {
            cells: key.cells,
            list,
            missing,
        })
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Value<'a>>> {
        match self.list.split_first_chunk::<4>() {
            Some((element, rest)) => {
                self.list = rest;
                Some(Value::at(self.cells, u32::from_le_bytes(*element)))
            }
            None => self.missing.take().map(Err),
        }
    }
}

/// The structure at the start of a slice; a convenience for code that has checked the length.
pub(crate) fn prefix<T>(bytes: &[u8]) -> Option<&T>
where
    T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    T::ref_from_prefix(bytes).ok().map(|(record, _)| record)
}
