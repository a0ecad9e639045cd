// SPDX-License-Identifier: GPL-3.0-or-later
//! Setting and deleting values.

use std::collections::HashMap;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::{Buffer, Change, Editor, KeyId};
use crate::emit::SEGMENT_CELL_BYTES;
use crate::error::{Error, Result};
use crate::format::{BIG_DATA_MINOR_VERSION, BigData, MAX_SEGMENT_BYTES, NO_CELL, ValueNode, value_flag};
use crate::name::{Name, NameBuf};
use crate::upcase::upcase_unit;
use crate::value::{MAX_VALUE_NAME_UNITS, Value, prefix};

/// Up to this many values are looked through, as Windows looks through all.
const FEW_VALUES: u32 = 64;
const KEY_NR_VALUES: usize = 36;
const KEY_VALUES: usize = 40;
const KEY_MAX_VALUE_NAME: usize = 60;
const KEY_MAX_VALUE_DATA: usize = 64;
const VALUE_DATA_BYTES: usize = 4;
const VALUE_DATA_TYPE: usize = 12;

/// The values of one key by their upcased names; derived from the buffer, and forgotten where it might
/// not be true any more.
pub(super) struct ValueNames {
    key: KeyId,
    cells: HashMap<Vec<u16>, u32>,
}

fn upcased(name: Name<'_>) -> Vec<u16> {
    name.units().map(upcase_unit).collect()
}

impl<B: Buffer> Editor<B> {
    /// The cell of the value of this name. Of a key with many values the names are remembered, so that
    /// setting n values one by one does not take n² comparisons.
    fn value_named(&mut self, key: KeyId, name: Name<'_>) -> Result<Option<u32>> {
        if self.key(key)?.nr_values() > FEW_VALUES {
            if self.value_names.as_ref().is_none_or(|names| names.key != key) {
                let mut cells = HashMap::new();
                for value in self.key(key)?.values()? {
                    let value = value?;
                    // The first of two with one name is the one that lookups find.
                    cells.entry(upcased(value.name())).or_insert(value.offset);
                }
                self.value_names = Some(ValueNames { key, cells });
            }
            let names = self.value_names.as_ref();
            return Ok(names.and_then(|names| names.cells.get(&upcased(name)).copied()));
        }
        for value in self.key(key)?.values()? {
            let value = value?;
            if value.name().len() == name.len() && value.name().cmp_upcase(name).is_eq() {
                return Ok(Some(value.offset));
            }
        }
        Ok(None)
    }

    /// Sets a value: replaces one of the same name (whose spelling and place stay), or adds it at the end.
    ///
    /// # Errors
    /// A name of more than 16,383 units; data too long for the format; no such key; no room.
    pub fn set_value(&mut self, key: KeyId, name: &[u16], data_type: u32, data: &[u8], now: u64) -> Result<()> {
        if name.len() > MAX_VALUE_NAME_UNITS {
            let (actual, limit) = (name.len(), MAX_VALUE_NAME_UNITS);
            return Err(Error::InvalidName {
                what: "a value's name",
                actual,
                limit,
            });
        }
        let limit = MAX_SEGMENT_BYTES * usize::from(u16::MAX);
        if data.len() > limit {
            return Err(Error::TooLarge {
                needed_bytes: data.len() as u64,
                limit_bytes: limit as u64,
            });
        }
        let name = NameBuf::from_units(name);
        self.transact(|editor| {
            match editor.value_named(key, name.as_name())? {
                Some(cell) => {
                    editor.replace_data(cell, data)?;
                    editor.put_u32(cell, VALUE_DATA_TYPE, data_type)?;
                }
                None => editor.add_value(key, name.as_name(), data_type, data)?,
            }
            let node = editor.key(key)?.node;
            let (max_name, max_data) = (node.max_value_name_bytes.get(), node.max_value_data_bytes.get());
            let name_bytes = u32::try_from(name.as_name().len() * 2).unwrap_or(0);
            let data_bytes = u32::try_from(data.len()).unwrap_or(0);
            if name_bytes > max_name {
                editor.put_u32(key.0, KEY_MAX_VALUE_NAME, name_bytes)?;
            }
            if data_bytes > max_data {
                editor.put_u32(key.0, KEY_MAX_VALUE_DATA, data_bytes)?;
            }
            editor.set_last_written(key, now)?;
            editor.note(Change::Values { key });
            Ok(())
        })
    }

    fn add_value(&mut self, key: KeyId, name: Name<'_>, data_type: u32, data: &[u8]) -> Result<()> {
        let compressed = matches!(name, Name::Latin1(bytes) if !bytes.is_empty());
        let node = ValueNode {
            signature: *b"vk",
            name_bytes: U16::new(u16::try_from(name.as_bytes().len()).unwrap_or(0)),
            data_bytes: U32::new(ValueNode::INLINE),
            data: [0; 4],
            data_type: U32::new(data_type),
            flags: U16::new(if compressed { value_flag::COMPRESSED_NAME } else { 0 }),
            spare: U16::ZERO,
        };
        let cell = self.alloc(&[node.as_bytes(), name.as_bytes()].concat(), 0)?;
        self.replace_data(cell, data)?;
        let node = self.key(key)?;
        let (nr, list) = (node.nr_values() as usize, node.node.values.get());
        if nr == 0 {
            let list = self.alloc(&cell.to_le_bytes(), 0)?;
            self.put_u32(key.0, KEY_VALUES, list)?;
        } else if self.capacity(list)? >= (nr + 1) * 4 {
            self.put_u32(list, nr * 4, cell)?;
        } else {
            let content = self.hive().cells.cell(list, "value list")?;
            let mut content = content.get(..nr * 4).unwrap_or(content).to_vec();
            content.extend_from_slice(&cell.to_le_bytes());
            let moved = self.alloc(&content, (nr + 1 + nr / 4) * 4)?;
            self.put_u32(key.0, KEY_VALUES, moved)?;
            self.free(list)?;
        }
        if let Some(names) = self.value_names.as_mut().filter(|names| names.key == key) {
            names.cells.insert(upcased(name), cell);
        }
        self.put_u32(key.0, KEY_NR_VALUES, u32::try_from(nr + 1).unwrap_or(u32::MAX))
    }

    fn forget_value(&mut self, key: KeyId, name: Name<'_>) {
        match &mut self.value_names {
            Some(names) if names.key == key => drop(names.cells.remove(&upcased(name))),
            _ => {}
        }
    }

    /// Gives a value node other data.
    fn replace_data(&mut self, value: u32, data: &[u8]) -> Result<()> {
        let hive = self.hive();
        let node = prefix::<ValueNode>(hive.cells.cell(value, "value")?).map(|node| (node.data_bytes.get(), node.data));
        let (declared, cell) = node.unwrap_or((ValueNode::INLINE, [0; 4]));
        let old = (declared & ValueNode::INLINE == 0 && declared != 0).then_some(u32::from_le_bytes(cell));
        let old_is_big = old.is_some() && matches!(Value::at(hive.cells, value)?.data()?, crate::Data::Big(_));
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if data.len() <= 4 {
            let mut inline = [0; 4];
            inline[..data.len()].copy_from_slice(data);
            self.put_u32(value, VALUE_DATA_BYTES, bytes | ValueNode::INLINE)?;
            self.put_u32(value, ValueNode::DATA_AT, u32::from_le_bytes(inline))?;
            return old.map_or(Ok(()), |old| self.free_data(old, old_is_big));
        }
        let segmented = data.len() > MAX_SEGMENT_BYTES && self.hive().minor_version() >= BIG_DATA_MINOR_VERSION;
        if let Some(old) = old.filter(|_| !old_is_big && !segmented) {
            let room = self.capacity(old)?;
            // In place where it fits and would not waste most of the cell.
            if room >= data.len() && room <= data.len() * 2 + 64 {
                self.put_u32(value, VALUE_DATA_BYTES, bytes)?;
                return self.write(Self::content_at(old), data);
            }
        }
        let cell = if segmented {
            self.new_big_data(data)?
        } else {
            self.alloc(data, 0)?
        };
        self.put_u32(value, VALUE_DATA_BYTES, bytes)?;
        self.put_u32(value, ValueNode::DATA_AT, cell)?;
        old.map_or(Ok(()), |old| self.free_data(old, old_is_big))
    }

    fn new_big_data(&mut self, data: &[u8]) -> Result<u32> {
        let mut list = Vec::new();
        for segment in data.chunks(MAX_SEGMENT_BYTES) {
            list.extend_from_slice(&self.alloc(segment, SEGMENT_CELL_BYTES)?.to_le_bytes());
        }
        let nr = u16::try_from(list.len() / 4).unwrap_or(u16::MAX);
        let segments = self.alloc(&list, 0)?;
        let node = BigData {
            signature: *b"db",
            nr_segments: U16::new(nr),
            segments: U32::new(segments),
        };
        self.alloc(node.as_bytes(), 0)
    }

    fn free_data(&mut self, cell: u32, big: bool) -> Result<()> {
        if big {
            let cells = self.hive().cells;
            let (node, _) = cells.record::<BigData>(cell, "big data", *b"db", "\"db\"")?;
            let (nr, list) = (usize::from(node.nr_segments.get()), node.segments.get());
            let content = cells.cell(list, "list of big data segments")?;
            let segments: Vec<u32> = content
                .as_chunks::<4>()
                .0
                .iter()
                .take(nr)
                .map(|b| u32::from_le_bytes(*b))
                .collect();
            segments.into_iter().try_for_each(|segment| self.free(segment))?;
            self.free(list)?;
        }
        self.free(cell)
    }

    fn free_value(&mut self, value: u32) -> Result<()> {
        let node = Value::at(self.hive().cells, value)?;
        let outside = node.node.data_bytes.get() & ValueNode::INLINE == 0 && node.data_bytes() != 0;
        let (cell, big) = (node.data_cell(), outside && matches!(node.data()?, crate::Data::Big(_)));
        if outside {
            self.free_data(cell, big)?;
        }
        self.free(value)
    }

    /// Deletes a value.
    ///
    /// # Errors
    /// No such key or value.
    pub fn delete_value(&mut self, key: KeyId, name: &[u16], now: u64) -> Result<()> {
        let name = NameBuf::from_units(name);
        let Some(cell) = self.value_named(key, name.as_name())? else {
            let path = self.key(key)?.name().to_string();
            return Err(Error::MissingValue {
                path,
                name: name.as_name().to_string(),
            });
        };
        self.transact(|editor| {
            let node = editor.key(key)?;
            let (nr, list) = (node.nr_values() as usize, node.node.values.get());
            let listed = editor.hive().cells.cell(list, "value list")?;
            let place = listed
                .as_chunks::<4>()
                .0
                .iter()
                .take(nr)
                .position(|bytes| u32::from_le_bytes(*bytes) == cell);
            let index = place.unwrap_or(nr.saturating_sub(1));
            editor.forget_value(key, name.as_name());
            editor.free_value(cell)?;
            if nr > 1 {
                editor.shift(list, (index + 1) * 4..nr * 4, index * 4)?;
            } else {
                editor.free(list)?;
                editor.put_u32(key.0, KEY_VALUES, NO_CELL)?;
            }
            editor.put_u32(key.0, KEY_NR_VALUES, u32::try_from(nr - 1).unwrap_or(0))?;
            editor.set_last_written(key, now)?;
            editor.note(Change::Values { key });
            Ok(())
        })
    }

    /// Frees all values of a key that goes.
    pub(super) fn free_values(&mut self, key: KeyId) -> Result<()> {
        self.value_names = None;
        let node = self.key(key)?;
        if node.nr_values() == 0 {
            return Ok(());
        }
        let list = node.node.values.get();
        let values = node
            .values()?
            .map(|value| value.map(|value| value.offset))
            .collect::<Result<Vec<_>>>()?;
        for value in values {
            self.free_value(value)?;
        }
        self.free(list)?;
        self.put_u32(key.0, KEY_VALUES, NO_CELL)?;
        self.put_u32(key.0, KEY_NR_VALUES, 0)
    }
}
