// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys of a hive.

use core::cmp::Ordering;

use crate::error::{Error, Result};
use crate::format::{KeyNode, NO_CELL, SecurityNode, key_flag};
use crate::name::{Name, hash_units};
use crate::reader::{Cells, file_offset};
use crate::subkeys::{List, Subkeys, element_at, find_in_leaf, nested_root};
use crate::upcase::cmp_units;
use crate::value::{Value, Values};

/// The longest key name in UTF-16 units (Microsoft, "Registry element size limits").
pub const MAX_KEY_NAME_UNITS: usize = 255;

/// A key, borrowed from the hive's buffer.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub(crate) cells: Cells<'a>,
    pub(crate) offset: u32,
    pub(crate) node: &'a KeyNode,
    tail: &'a [u8],
}

/// What a layer of a delta hive says of a key (version 1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSemantics {
    /// The key is merged with that of the layer below.
    Merge,
    /// The key is deleted.
    Tombstone,
    /// The key replaces that of the layer below, its subkeys do not.
    SupersedeLocal,
    /// The key and all below it replace those of the layer below.
    SupersedeTree,
}

impl core::fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "key {:?} at {:#x}", self.name(), self.file_offset())
    }
}

impl<'a> Key<'a> {
    /// The key node in the cell at `offset`.
    #[inline]
    pub(crate) fn at(cells: Cells<'a>, offset: u32) -> Result<Self> {
        const WHAT: &str = "key node";
        let (node, rest) = cells.record::<KeyNode>(offset, WHAT, *b"nk", "\"nk\"")?;
        let bytes = usize::from(node.name_bytes.get());
        let tail = rest.get(..bytes).ok_or_else(|| Error::CellTooSmall {
            what: WHAT,
            offset: file_offset(offset),
            expected_bytes: (size_of::<KeyNode>() + bytes) as u64,
            actual_bytes: (size_of::<KeyNode>() + rest.len()) as u64,
        })?;
        let key = Self {
            cells,
            offset,
            node,
            tail,
        };
        if !key.has_flag(key_flag::COMPRESSED_NAME) && !bytes.is_multiple_of(2) {
            return Err(Error::OddLength {
                what: "a key's name",
                offset: file_offset(offset),
                actual_bytes: bytes as u64,
            });
        }
        Ok(key)
    }

    /// The key's name. The root's has no meaning.
    #[inline]
    #[must_use]
    pub fn name(&self) -> Name<'a> {
        if self.has_flag(key_flag::COMPRESSED_NAME) {
            Name::Latin1(self.tail)
        } else {
            Name::Utf16(self.tail)
        }
    }

    /// The flags, see [`key_flag`].
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.node.flags.get()
    }

    #[inline]
    fn has_flag(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Whether the key is a symbolic link.
    #[must_use]
    pub fn is_symbolic_link(&self) -> bool {
        self.has_flag(key_flag::SYMBOLIC_LINK)
    }

    /// Whether the key is flagged as one that does not outlive a restart.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.has_flag(key_flag::VOLATILE)
    }

    /// The target of a symbolic link: the data of its value `SymbolicLinkValue`, UTF-16LE.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn link_target(&self) -> Result<Option<Vec<u8>>> {
        if !self.is_symbolic_link() {
            return Ok(None);
        }
        match self.value("SymbolicLinkValue")? {
            Some(value) => Ok(Some(value.data()?.to_vec())),
            None => Ok(None),
        }
    }

    /// The last write as a FILETIME: 100 ns units since 1601.
    #[must_use]
    pub fn last_written(&self) -> u64 {
        self.node.last_written.get()
    }

    /// The user flags (bit 0: made by a 32-bit program) and, in the upper half, virtualization flags.
    #[must_use]
    pub fn user_flags(&self) -> u8 {
        self.node.user_flags
    }

    /// What a delta hive says of the key.
    #[must_use]
    pub fn layer_semantics(&self) -> LayerSemantics {
        match self.layer_flags() & 3 {
            0 => LayerSemantics::Merge,
            1 => LayerSemantics::Tombstone,
            2 => LayerSemantics::SupersedeLocal,
            _ => LayerSemantics::SupersedeTree,
        }
    }

    /// Whether a delta hive's key takes its class from the layer below.
    #[must_use]
    pub fn class_is_inherited(&self) -> bool {
        self.layer_flags() & 0x80 != 0
    }

    /// The byte of the layered-key bits; 0 in a hive older than version 1.6.
    #[must_use]
    pub fn layer_flags(&self) -> u8 {
        if self.cells.minor >= 6 {
            self.node.layer_flags
        } else {
            0
        }
    }

    /// The number of subkeys that the node declares.
    #[must_use]
    pub fn nr_subkeys(&self) -> u32 {
        self.node.nr_subkeys.get()
    }

    /// The number of values that the node declares.
    #[must_use]
    pub fn nr_values(&self) -> u32 {
        if self.has_flag(key_flag::PREDEFINED_HANDLE) {
            0
        } else {
            self.node.nr_values.get()
        }
    }

    /// Where the key's cell begins in the file.
    #[must_use]
    pub fn file_offset(&self) -> u64 {
        file_offset(self.offset)
    }

    /// The key's cell offset: its identity within this hive.
    #[must_use]
    pub fn cell_offset(&self) -> u32 {
        self.offset
    }

    /// The cell offset of the parent, as the node has it.
    #[must_use]
    pub fn parent_offset(&self) -> u32 {
        self.node.parent.get()
    }

    /// The class name.
    ///
    /// # Errors
    /// Where the reference or the length is wrong.
    pub fn class(&self) -> Result<Option<Name<'a>>> {
        const WHAT: &str = "class name";
        let (offset, bytes) = (self.node.class.get(), usize::from(self.node.class_bytes.get()));
        if offset == NO_CELL || bytes == 0 {
            return Ok(None);
        }
        let cell = self.cells.cell(offset, WHAT)?;
        let at = file_offset(offset);
        let name = cell.get(..bytes).ok_or(Error::CellTooSmall {
            what: WHAT,
            offset: at,
            expected_bytes: bytes as u64,
            actual_bytes: cell.len() as u64,
        })?;
        if !bytes.is_multiple_of(2) {
            return Err(Error::OddLength {
                what: WHAT,
                offset: at,
                actual_bytes: bytes as u64,
            });
        }
        Ok(Some(Name::Utf16(name)))
    }

    /// The security descriptor, self-relative.
    ///
    /// # Errors
    /// Where the reference or the length is wrong.
    pub fn security(&self) -> Result<Option<&'a [u8]>> {
        let offset = self.node.security.get();
        if offset == NO_CELL {
            return Ok(None);
        }
        security_at(self.cells, offset).map(|(_, descriptor)| Some(descriptor))
    }

    /// The subkeys in stored order.
    ///
    /// # Errors
    /// Where the list as a whole cannot be read. A single bad element is an error within the iteration,
    /// which then goes on.
    pub fn subkeys(&self) -> Result<Subkeys<'a>> {
        Subkeys::of(self)
    }

    /// The values in stored order.
    ///
    /// # Errors
    /// Where the list as a whole cannot be read. A single bad value is an error within the iteration.
    pub fn values(&self) -> Result<Values<'a>> {
        Values::of(self)
    }

    /// The subkey of this name, compared as NT compares names.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn subkey(&self, name: &str) -> Result<Option<Key<'a>>> {
        self.subkey_units(name.encode_utf16())
    }

    /// The subkey whose name has these UTF-16 units, compared as NT compares names.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn subkey_units(&self, name: impl Iterator<Item = u16> + Clone) -> Result<Option<Key<'a>>> {
        if self.nr_subkeys() == 0 {
            return Ok(None);
        }
        let hash = hash_units(name.clone());
        match List::at(self.cells, self.node.subkeys.get())? {
            List::Leaf {
                elements,
                stride,
                hashed,
            } => find_in_leaf(self.cells, elements, stride, hashed, hash, &name),
            List::Root(lists) => {
                // A damaged leaf must not hide what another one holds.
                let mut damage = None;
                for list in lists.chunks_exact(4) {
                    let found = match List::at(self.cells, element_at(list)) {
                        Ok(List::Leaf {
                            elements,
                            stride,
                            hashed,
                        }) => find_in_leaf(self.cells, elements, stride, hashed, hash, &name),
                        Ok(List::Root(_)) => Err(nested_root(element_at(list))),
                        Err(error) => Err(error),
                    };
                    match found {
                        Ok(Some(key)) => return Ok(Some(key)),
                        Ok(None) => {}
                        Err(error) => damage = damage.or(Some(error)),
                    }
                }
                damage.map_or(Ok(None), Err)
            }
        }
    }

    /// The key at a path below this one: names parted by backslashes; empty names are skipped.
    ///
    /// # Errors
    /// Damage on the way. A missing key is `None`.
    pub fn open_path(&self, path: &str) -> Result<Option<Key<'a>>> {
        let mut key = *self;
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            match key.subkey(name)? {
                Some(subkey) => key = subkey,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    /// The value of this name, compared as NT compares names; `""` is the default value.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn value(&self, name: &str) -> Result<Option<Value<'a>>> {
        self.value_units(name.encode_utf16())
    }

    /// The value whose name has these UTF-16 units.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn value_units(&self, name: impl Iterator<Item = u16> + Clone) -> Result<Option<Value<'a>>> {
        let mut damage = None;
        for value in self.values()? {
            match value {
                Ok(value) if cmp_units(value.name().units(), name.clone()) == Ordering::Equal => {
                    return Ok(Some(value));
                }
                Ok(_) => {}
                Err(error) => damage = damage.or(Some(error)),
            }
        }
        damage.map_or(Ok(None), Err)
    }
}

/// The security node in the cell at `offset`, and its descriptor.
pub(crate) fn security_at(cells: Cells<'_>, offset: u32) -> Result<(&SecurityNode, &[u8])> {
    const WHAT: &str = "security descriptor";
    let (node, rest) = cells.record::<SecurityNode>(offset, WHAT, *b"sk", "\"sk\"")?;
    let bytes = node.descriptor_bytes.get() as usize;
    let descriptor = rest.get(..bytes).ok_or_else(|| Error::CellTooSmall {
        what: WHAT,
        offset: file_offset(offset),
        expected_bytes: (size_of::<SecurityNode>() + bytes) as u64,
        actual_bytes: (size_of::<SecurityNode>() + rest.len()) as u64,
    })?;
    Ok((node, descriptor))
}
