// SPDX-License-Identifier: GPL-3.0-or-later
//! Subkey lists of every kind: `lf`, `lh` and `li` leaves, and `ri` over them.

use core::cmp::Ordering;

use zerocopy::FromBytes;

use crate::error::{Error, Result};
use crate::format::{ListHeader, NO_CELL};
use crate::key::Key;
use crate::reader::{Cells, file_offset};
use crate::upcase::cmp_units;

#[inline]
pub(crate) fn element_at(element: &[u8]) -> u32 {
    element
        .first_chunk::<4>()
        .map_or(NO_CELL, |bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn nested_root(offset: u32) -> Error {
    Error::UnexpectedSignature {
        what: "subkey list within an index root",
        offset: file_offset(offset),
        expected: "\"lf\", \"lh\" or \"li\"",
        actual: *b"ri",
    }
}

pub(crate) fn find_in_leaf<'a>(
    cells: Cells<'a>,
    elements: &'a [u8],
    stride: usize,
    hashed: bool,
    hash: u32,
    name: &(impl Iterator<Item = u16> + Clone),
) -> Result<Option<Key<'a>>> {
    let hash = hash.to_le_bytes();
    let mut damage = None;
    for element in elements.chunks_exact(stride) {
        if hashed && element.get(4..8) != Some(&hash) {
            continue;
        }
        match Key::at(cells, element_at(element)) {
            Ok(key) if cmp_units(key.name().units(), name.clone()) == Ordering::Equal => return Ok(Some(key)),
            Ok(_) => {}
            Err(error) => damage = damage.or(Some(error)),
        }
    }
    damage.map_or(Ok(None), Err)
}

/// A subkey list, by kind. The elements' number is checked against the cell.
pub(crate) enum List<'a> {
    /// `ri`: offsets of leaves.
    Root(&'a [u8]),
    /// A leaf: elements of `stride` bytes, each beginning with a key's offset.
    Leaf {
        elements: &'a [u8],
        stride: usize,
        hashed: bool,
    },
}

impl<'a> List<'a> {
    pub(crate) fn at(cells: Cells<'a>, offset: u32) -> Result<Self> {
        const WHAT: &str = "subkey list";
        let cell = cells.cell(offset, WHAT)?;
        let too_small = |expected: usize| Error::CellTooSmall {
            what: WHAT,
            offset: file_offset(offset),
            expected_bytes: expected as u64,
            actual_bytes: cell.len() as u64,
        };
        let (header, rest) = ListHeader::ref_from_prefix(cell).map_err(|_| too_small(4))?;
        let nr = usize::from(header.nr_elements.get());
        let elements = |stride: usize| rest.get(..nr * stride).ok_or_else(|| too_small(4 + nr * stride));
        match &header.signature {
            b"lh" => Ok(Self::Leaf {
                elements: elements(8)?,
                stride: 8,
                hashed: true,
            }),
            b"lf" => Ok(Self::Leaf {
                elements: elements(8)?,
                stride: 8,
                hashed: false,
            }),
            b"li" => Ok(Self::Leaf {
                elements: elements(4)?,
                stride: 4,
                hashed: false,
            }),
            b"ri" => Ok(Self::Root(elements(4)?)),
            other => Err(Error::UnexpectedSignature {
                what: WHAT,
                offset: file_offset(offset),
                expected: "\"lf\", \"lh\", \"li\" or \"ri\"",
                actual: *other,
            }),
        }
    }
}

/// The subkeys of a key, in stored order. After a bad element it goes on with the next; where the lists
/// hold another number of keys than the key node says, the last item is an error that says so.
#[derive(Clone)]
pub struct Subkeys<'a> {
    cells: Cells<'a>,
    lists: &'a [u8],
    leaf: &'a [u8],
    stride: usize,
    /// Declared less listed; reset to 0 once a difference was reported.
    nr_left: i64,
    owner: u32,
}

impl<'a> Subkeys<'a> {
    /// The subkeys of `key`.
    pub(crate) fn of(key: &Key<'a>) -> Result<Self> {
        let mut subkeys = Self {
            nr_left: i64::from(key.nr_subkeys()),
            owner: key.offset,
            ..Self::none(key.cells)
        };
        if key.nr_subkeys() != 0 {
            match List::at(key.cells, key.node.subkeys.get())? {
                List::Root(elements) => subkeys.lists = elements,
                List::Leaf { elements, stride, .. } => (subkeys.leaf, subkeys.stride) = (elements, stride),
            }
        }
        Ok(subkeys)
    }

    /// The iteration over nothing.
    pub(crate) fn none(cells: Cells<'a>) -> Self {
        Self {
            cells,
            lists: &[],
            leaf: &[],
            stride: 4,
            nr_left: 0,
            owner: 0,
        }
    }
}

impl<'a> Iterator for Subkeys<'a> {
    type Item = Result<Key<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Key<'a>>> {
        self.next_with(|_| true)
    }
}

impl<'a> Subkeys<'a> {
    /// The next one; `enter_leaf` says of each leaf of an index root whether it may be read.
    #[inline]
    pub(crate) fn next_with(&mut self, mut enter_leaf: impl FnMut(u32) -> bool) -> Option<Result<Key<'a>>> {
        loop {
            if let Some((element, rest)) = self.leaf.split_at_checked(self.stride) {
                self.leaf = rest;
                self.nr_left -= 1;
                return Some(Key::at(self.cells, element_at(element)));
            }
            let Some((list, rest)) = self.lists.split_at_checked(4) else {
                break;
            };
            self.lists = rest;
            let offset = element_at(list);
            if !enter_leaf(offset) {
                return Some(Err(Error::ListReachedTwice {
                    offset: file_offset(offset),
                }));
            }
            match List::at(self.cells, offset) {
                Ok(List::Leaf { elements, stride, .. }) => (self.leaf, self.stride) = (elements, stride),
                Ok(List::Root(_)) => return Some(Err(nested_root(offset))),
                Err(error) => return Some(Err(error)),
            }
        }
        if self.nr_left == 0 {
            return None;
        }
        let declared = Key::at(self.cells, self.owner).map_or(0, |key| i64::from(key.nr_subkeys()));
        let listed = declared - self.nr_left;
        self.nr_left = 0;
        Some(Err(Error::Mismatch {
            what: "the number of subkeys in the lists of the key node",
            offset: file_offset(self.owner),
            expected: declared.unsigned_abs(),
            actual: listed.unsigned_abs(),
        }))
    }
}
