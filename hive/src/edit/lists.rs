// SPDX-License-Identifier: GPL-3.0-or-later
//! Inserting into and removing from subkey lists and value lists, in place where there is room. Leaves
//! are kept in NT's order and of at most [`MAX_LEAF_ELEMENTS`], so that adding n keys one by one takes
//! n log n comparisons and moves at most one leaf for each.

use core::cmp::Ordering;

use super::{Buffer, Editor, KeyId};
use crate::emit::MAX_LEAF_ELEMENTS;
use crate::error::{Error, Result};
use crate::format::NO_CELL;
use crate::key::Key;
use crate::name::Name;
use crate::reader::{Cells, file_offset};
use crate::subkeys::List;

const NR_ELEMENTS: usize = 2;
const FIRST_ELEMENT: usize = 4;
const KEY_NR_SUBKEYS: usize = 20;
const KEY_SUBKEYS: usize = 28;

/// Where an element is, or would be: the leaf and the place in it; the index root, and the leaf's place
/// there.
struct Place {
    root: Option<(u32, usize)>,
    leaf: u32,
    index: usize,
    found: bool,
}

/// A leaf's kind decides what stands beside each key.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    elements: &'a [u8],
    stride: usize,
    hashed: bool,
}

impl<'a> Leaf<'a> {
    fn at(cells: Cells<'a>, offset: u32) -> Result<Self> {
        match List::at(cells, offset)? {
            List::Leaf {
                elements,
                stride,
                hashed,
            } => Ok(Self {
                elements,
                stride,
                hashed,
            }),
            List::Root(_) => Err(Error::UnexpectedSignature {
                what: "subkey list within an index root",
                offset: file_offset(offset),
                expected: "\"lf\", \"lh\" or \"li\"",
                actual: *b"ri",
            }),
        }
    }

    fn len(&self) -> usize {
        self.elements.len() / self.stride
    }

    fn key(&self, index: usize) -> u32 {
        let element = self
            .elements
            .get(index * self.stride..)
            .and_then(<[u8]>::first_chunk::<4>);
        element.map_or(NO_CELL, |bytes| u32::from_le_bytes(*bytes))
    }

    fn name(&self, cells: Cells<'a>, index: usize) -> Result<Name<'a>> {
        Ok(Key::at(cells, self.key(index))?.name())
    }

    /// Binary search: the place of the name, and whether it is there.
    fn find(&self, cells: Cells<'a>, name: Name<'_>) -> Result<(usize, bool)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(cells, middle)?.cmp_upcase(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }
}

/// The element of a key in a leaf.
fn element(key: u32, name: Name<'_>, stride: usize, hashed: bool) -> Vec<u8> {
    let mut element = key.to_le_bytes().to_vec();
    if hashed {
        element.extend_from_slice(&name.hash().to_le_bytes());
    } else if stride == 8 {
        element.extend_from_slice(&fast_leaf_hint(name));
    }
    element
}

/// The hint of an `lf` element: the first four characters, where they are single bytes.
pub(crate) fn fast_leaf_hint(name: Name<'_>) -> [u8; 4] {
    let mut hint = [0; 4];
    for (place, unit) in hint.iter_mut().zip(name.units()) {
        match u8::try_from(unit) {
            Ok(byte) => *place = byte,
            // Windows leaves the whole hint empty then.
            Err(_) => return [0; 4],
        }
    }
    hint
}

impl<B: Buffer> Editor<B> {
    fn place_of(&self, parent: KeyId, name: Name<'_>) -> Result<Option<Place>> {
        let key = self.key(parent)?;
        if key.nr_subkeys() == 0 {
            return Ok(None);
        }
        let cells = key.cells;
        let list = key.node.subkeys.get();
        let List::Root(leaves) = List::at(cells, list)? else {
            let (index, found) = Leaf::at(cells, list)?.find(cells, name)?;
            return Ok(Some(Place {
                root: None,
                leaf: list,
                index,
                found,
            }));
        };
        let offset_at = |index: usize| {
            leaves
                .get(index * 4..)
                .and_then(<[u8]>::first_chunk::<4>)
                .map_or(NO_CELL, |b| u32::from_le_bytes(*b))
        };
        // The first leaf whose last key is not before the name; else the last leaf.
        let (mut low, mut high) = (0, (leaves.len() / 4).saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            let leaf = Leaf::at(cells, offset_at(middle))?;
            let before = leaf.len() == 0 || leaf.name(cells, leaf.len() - 1)?.cmp_upcase(name) == Ordering::Less;
            if before { low = middle + 1 } else { high = middle }
        }
        let leaf = offset_at(low);
        let (index, found) = Leaf::at(cells, leaf)?.find(cells, name)?;
        Ok(Some(Place {
            root: Some((list, low)),
            leaf,
            index,
            found,
        }))
    }

    /// The subkey of this name.
    pub(super) fn subkey_named(&self, parent: KeyId, name: Name<'_>) -> Result<Option<KeyId>> {
        let Some(place) = self.place_of(parent, name)?.filter(|place| place.found) else {
            return Ok(None);
        };
        Ok(Some(KeyId(Leaf::at(self.hive().cells, place.leaf)?.key(place.index))))
    }

    /// Adds a key to its parent's list. The name must not be there yet.
    pub(super) fn insert_subkey(&mut self, parent: KeyId, key: KeyId, name: Name<'_>) -> Result<()> {
        let nr = self.key(parent)?.nr_subkeys();
        match self.place_of(parent, name)? {
            None => {
                let hashed = self.hive().minor_version() >= 5;
                let mut leaf = if hashed {
                    b"lh\x01\0".to_vec()
                } else {
                    b"lf\x01\0".to_vec()
                };
                leaf.extend(element(key.0, name, 8, hashed));
                let leaf = self.alloc(&leaf, 0)?;
                self.put_u32(parent.0, KEY_SUBKEYS, leaf)?;
            }
            Some(place) => self.insert_at(parent, &place, key, name)?,
        }
        self.put_u32(parent.0, KEY_NR_SUBKEYS, nr + 1)
    }

    fn insert_at(&mut self, parent: KeyId, place: &Place, key: KeyId, name: Name<'_>) -> Result<()> {
        let leaf = Leaf::at(self.hive().cells, place.leaf)?;
        let (nr, stride, hashed) = (leaf.len(), leaf.stride, leaf.hashed);
        let new = element(key.0, name, stride, hashed);
        if nr < MAX_LEAF_ELEMENTS {
            let at = self.insert_element(place.leaf, nr, place.index, &new, MAX_LEAF_ELEMENTS)?;
            return self.leaf_moved(parent, place, at);
        }
        // Full. At the very end a new leaf is begun, so that keys that come in order fill their leaves;
        // elsewhere the leaf is halved.
        let keep = if place.index == nr { nr } else { nr / 2 };
        let signature = self.hive().cells.cell(place.leaf, "subkey list")?[..2].to_vec();
        let mut right = signature;
        right.extend_from_slice(&u16::try_from(nr - keep).unwrap_or(0).to_le_bytes());
        let elements = Leaf::at(self.hive().cells, place.leaf)?.elements;
        right.extend_from_slice(&elements[keep * stride..]);
        let mut right_cell = self.alloc(&right, FIRST_ELEMENT + (nr - keep + 8) * stride)?;
        self.put_u16(place.leaf, NR_ELEMENTS, u16::try_from(keep).unwrap_or(0))?;
        let mut left_cell = place.leaf;
        if place.index >= keep && (keep == nr || place.index > keep) {
            right_cell = self.insert_element(right_cell, nr - keep, place.index - keep, &new, MAX_LEAF_ELEMENTS)?;
        } else {
            left_cell = self.insert_element(left_cell, keep, place.index, &new, MAX_LEAF_ELEMENTS)?;
        }
        match place.root {
            Some((root, index)) => {
                if left_cell != place.leaf {
                    self.put_u32(root, FIRST_ELEMENT + index * 4, left_cell)?;
                }
                let List::Root(leaves) = List::at(self.hive().cells, root)? else {
                    return Ok(());
                };
                let nr_leaves = leaves.len() / 4;
                if nr_leaves >= usize::from(u16::MAX) {
                    let limit_bytes = u64::from(u16::MAX) * MAX_LEAF_ELEMENTS as u64 * 8;
                    return Err(Error::TooLarge {
                        needed_bytes: limit_bytes + 8,
                        limit_bytes,
                    });
                }
                let bytes = right_cell.to_le_bytes();
                let moved = self.insert_element(root, nr_leaves, index + 1, &bytes, usize::from(u16::MAX))?;
                if moved != root {
                    self.put_u32(parent.0, KEY_SUBKEYS, moved)?;
                }
                Ok(())
            }
            None => {
                let mut root = b"ri\x02\0".to_vec();
                root.extend_from_slice(&left_cell.to_le_bytes());
                root.extend_from_slice(&right_cell.to_le_bytes());
                let root = self.alloc(&root, 0)?;
                self.put_u32(parent.0, KEY_SUBKEYS, root)
            }
        }
    }

    fn leaf_moved(&mut self, parent: KeyId, place: &Place, at: u32) -> Result<()> {
        if at == place.leaf {
            return Ok(());
        }
        match place.root {
            Some((root, index)) => self.put_u32(root, FIRST_ELEMENT + index * 4, at),
            None => self.put_u32(parent.0, KEY_SUBKEYS, at),
        }
    }

    /// Inserts an element into a counted list; the list may move to a larger cell, whose offset returns.
    fn insert_element(&mut self, list: u32, nr: usize, index: usize, new: &[u8], most: usize) -> Result<u32> {
        let stride = new.len();
        let end = FIRST_ELEMENT + nr * stride;
        let at = FIRST_ELEMENT + index * stride;
        let mut cell = list;
        if self.capacity(list)? < end + stride {
            // A quarter more than needed, so that moving is rare.
            let room = (nr + 1 + nr / 4).min(most).max(nr + 1);
            let content = self.hive().cells.cell(list, "a list")?;
            let content = content.get(..end).unwrap_or(content).to_vec();
            cell = self.alloc(&content, FIRST_ELEMENT + room * stride)?;
            self.free(list)?;
        }
        self.shift(cell, at..end, at + stride)?;
        self.write(Self::content_at(cell) + at, new)?;
        self.put_u16(cell, NR_ELEMENTS, u16::try_from(nr + 1).unwrap_or(u16::MAX))?;
        Ok(cell)
    }

    /// Takes a key out of its parent's list.
    pub(super) fn remove_subkey(&mut self, parent: KeyId, key: KeyId) -> Result<()> {
        let name = crate::NameBuf::from(self.key(key)?.name());
        let nr = self.key(parent)?.nr_subkeys();
        let missing = || Error::MissingKey {
            path: name.as_name().to_string(),
        };
        let place = self
            .place_of(parent, name.as_name())?
            .filter(|place| place.found)
            .ok_or_else(missing)?;
        let leaf = Leaf::at(self.hive().cells, place.leaf)?;
        if leaf.key(place.index) != key.0 {
            return Err(missing());
        }
        let (nr_elements, stride) = (leaf.len(), leaf.stride);
        if nr_elements > 1 {
            self.remove_element(place.leaf, nr_elements, place.index, stride)?;
        } else {
            self.free(place.leaf)?;
            match place.root {
                None => self.put_u32(parent.0, KEY_SUBKEYS, NO_CELL)?,
                Some((root, index)) => {
                    let List::Root(leaves) = List::at(self.hive().cells, root)? else {
                        return Err(missing());
                    };
                    let nr_leaves = leaves.len() / 4;
                    if nr_leaves > 1 {
                        self.remove_element(root, nr_leaves, index, 4)?;
                    } else {
                        self.free(root)?;
                        self.put_u32(parent.0, KEY_SUBKEYS, NO_CELL)?;
                    }
                }
            }
        }
        self.put_u32(parent.0, KEY_NR_SUBKEYS, nr.saturating_sub(1))
    }

    fn remove_element(&mut self, list: u32, nr: usize, index: usize, stride: usize) -> Result<()> {
        let at = FIRST_ELEMENT + index * stride;
        self.shift(list, at + stride..FIRST_ELEMENT + nr * stride, at)?;
        self.put_u16(list, NR_ELEMENTS, u16::try_from(nr - 1).unwrap_or(0))
    }
}
