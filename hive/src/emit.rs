// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing a hive in one pass, from the root down: cells are appended to one buffer, lists follow when
//! all keys below them are known, and only counts and references are patched.
//!
//! The result is canonical: it depends on the keys, their order by NT's upcase table, values in their
//! order, classes, descriptors, flags and times, and on nothing else. Leaves are `lh` of at most 507
//! elements under an `ri`; bins are closed before 64 KiB; segments of big data are padded as Windows
//! pads them; equal descriptors share one cell. If this order changes, the digest of every world does.

use std::collections::HashMap;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::error::{Error, Result};
use crate::format::{
    BASE_BLOCK_BYTES, BIN_ALIGN_BYTES, BIN_HEADER_BYTES, BaseBlock, BigData, BinHeader, CELL_ALIGN_BYTES, HBIN,
    KeyNode, MAX_SEGMENT_BYTES, NO_CELL, REGF, SecurityNode, ValueNode, checksum, file_type, key_flag, value_flag,
};
use crate::name::Name;
use crate::reader::MAX_BINS_BYTES;
use crate::value::Data;

/// The most elements in one leaf: what fits in a bin of 4,096 bytes.
pub(crate) const MAX_LEAF_ELEMENTS: usize = 507;
/// Bins are closed before they would grow over this.
const BIN_TARGET_BYTES: usize = 64 * 1024;
/// A segment's cell has 4 unused bytes after the data, as Windows has it.
pub(crate) const SEGMENT_CELL_BYTES: usize = MAX_SEGMENT_BYTES + 4;

/// One key to write, without its children.
#[derive(Clone, Copy)]
pub(crate) struct KeyRecord<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) flags: u16,
    pub(crate) last_written: u64,
    pub(crate) user_flags: u8,
    pub(crate) debug_flags: u8,
    pub(crate) layer_flags: u8,
    pub(crate) class: Option<&'a [u8]>,
    pub(crate) security: Option<Security<'a>>,
    /// The handle of a key that stands for one.
    pub(crate) predefined_handle: u32,
}

/// A descriptor, or the number that an equal one got before.
#[derive(Clone, Copy)]
pub(crate) enum Security<'a> {
    Bytes(&'a [u8]),
    Known(SecurityId),
}

/// Which of the descriptors already written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecurityId(usize);

struct OpenKey {
    /// Where the node begins in `out`.
    node: usize,
    first_child: usize,
    nr_values: u32,
    first_value: usize,
    max_subkey_name: u32,
    max_subkey_class: u32,
    max_value_name: u32,
    max_value_data: u32,
}

struct Child {
    offset: u32,
    hash: u32,
}

struct SecurityCell {
    offset: u32,
    nr_references: u32,
}

/// The writer. Keys are opened and closed in order; the first is the root.
pub(crate) struct Emitter {
    out: Vec<u8>,
    bin_start: Option<usize>,
    open: Vec<OpenKey>,
    children: Vec<Child>,
    values: Vec<u32>,
    security: Vec<SecurityCell>,
    security_ids: HashMap<Box<[u8]>, usize>,
    layered: bool,
    limit_bytes: usize,
}

fn as_u32(number: usize) -> u32 {
    // Everything in a hive is below MAX_BINS_BYTES, which `reserve` enforces.
    u32::try_from(number).unwrap_or(NO_CELL)
}

/// The length of a name for a field of 16 bits.
fn field_bytes(what: &'static str, bytes: &[u8]) -> Result<u16> {
    let too_long = |_| Error::InvalidName {
        what,
        actual: bytes.len() / 2,
        limit: usize::from(u16::MAX / 2),
    };
    u16::try_from(bytes.len()).map_err(too_long)
}

impl Emitter {
    /// A writer that expects about `expected_bytes` and refuses to write more than `limit_bytes`.
    pub(crate) fn new(expected_bytes: usize, limit_bytes: usize) -> Self {
        let mut out = Vec::with_capacity(expected_bytes);
        out.resize(BASE_BLOCK_BYTES, 0);
        Self {
            out,
            bin_start: None,
            open: Vec::new(),
            children: Vec::new(),
            values: Vec::new(),
            security: Vec::new(),
            security_ids: HashMap::new(),
            layered: false,
            limit_bytes: limit_bytes.min(MAX_BINS_BYTES as usize) + BASE_BLOCK_BYTES,
        }
    }

    fn close_bin(&mut self) {
        if let Some(start) = self.bin_start.take() {
            let gap = (self.out.len() - start).next_multiple_of(BIN_ALIGN_BYTES) - (self.out.len() - start);
            if gap > 0 {
                self.out.extend_from_slice(&as_u32(gap).to_le_bytes());
                self.out.resize(self.out.len() + gap - 4, 0);
            }
            let bytes = as_u32(self.out.len() - start);
            self.put(start + 8, bytes);
        }
    }

    /// Begins a cell with room for `content` bytes, which the caller appends; returns its cell offset.
    #[inline]
    fn begin(&mut self, content: usize) -> Result<u32> {
        let size = (content + 4).next_multiple_of(CELL_ALIGN_BYTES);
        let needed = self.out.len() + size;
        if needed + 2 * BIN_ALIGN_BYTES > self.limit_bytes {
            return Err(Error::TooLarge {
                needed_bytes: needed as u64,
                limit_bytes: self.limit_bytes as u64,
            });
        }
        if self.bin_start.is_some_and(|start| needed - start > BIN_TARGET_BYTES) {
            self.close_bin();
        }
        if self.bin_start.is_none() {
            let start = self.out.len();
            let header = BinHeader {
                signature: HBIN,
                offset: U32::new(as_u32(start - BASE_BLOCK_BYTES)),
                size_bytes: U32::ZERO,
                reserved: [0; 8],
                timestamp: U64::ZERO,
                spare: U32::ZERO,
            };
            self.out.extend_from_slice(header.as_bytes());
            self.bin_start = Some(start);
        }
        let offset = as_u32(self.out.len() - BASE_BLOCK_BYTES);
        self.out.extend_from_slice(&as_u32(size).wrapping_neg().to_le_bytes());
        Ok(offset)
    }

    /// Pads the cell just written.
    #[inline]
    fn end(&mut self) {
        const ZEROS: [u8; CELL_ALIGN_BYTES] = [0; CELL_ALIGN_BYTES];
        let gap = self.out.len().next_multiple_of(CELL_ALIGN_BYTES) - self.out.len();
        self.out.extend_from_slice(&ZEROS[..gap]);
    }

    fn cell(&mut self, content: &[u8]) -> Result<u32> {
        let offset = self.begin(content.len())?;
        self.out.extend_from_slice(content);
        self.end();
        Ok(offset)
    }

    #[inline]
    fn put(&mut self, at: usize, number: u32) {
        self.out[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }

    /// Opens a key below the one that is open.
    pub(crate) fn open_key(&mut self, key: &KeyRecord<'_>) -> Result<Option<SecurityId>> {
        let parent = self.open.last().map(|open| as_u32(open.node - 4 - BASE_BLOCK_BYTES));
        let name = key.name.as_bytes();
        let mut flags = key.flags & !(key_flag::COMPRESSED_NAME | key_flag::HIVE_ENTRY | key_flag::HIVE_EXIT);
        if let Name::Latin1(_) = key.name {
            flags |= key_flag::COMPRESSED_NAME;
        }
        if parent.is_none() {
            flags |= key_flag::HIVE_ENTRY | key_flag::NO_DELETE;
        }
        self.layered |= key.layer_flags != 0;
        let class_bytes = field_bytes("a class name", key.class.unwrap_or_default())?;
        let name_bytes = field_bytes("a key's name", name)?;
        let node = KeyNode {
            signature: *b"nk",
            flags: U16::new(flags),
            last_written: U64::new(key.last_written),
            access_bits: 0,
            layer_flags: key.layer_flags,
            spare: U16::ZERO,
            parent: U32::new(parent.unwrap_or(NO_CELL)),
            nr_subkeys: U32::ZERO,
            nr_volatile_subkeys: U32::ZERO,
            subkeys: U32::new(NO_CELL),
            volatile_subkeys: U32::new(NO_CELL),
            nr_values: U32::new(if flags & key_flag::PREDEFINED_HANDLE != 0 {
                key.predefined_handle
            } else {
                0
            }),
            values: U32::new(NO_CELL),
            security: U32::new(NO_CELL),
            class: U32::new(NO_CELL),
            max_subkey_name_bytes: U16::ZERO,
            user_flags: key.user_flags,
            debug_flags: key.debug_flags,
            max_subkey_class_bytes: U32::ZERO,
            max_value_name_bytes: U32::ZERO,
            max_value_data_bytes: U32::ZERO,
            work_var: U32::ZERO,
            name_bytes: U16::new(name_bytes),
            class_bytes: U16::new(class_bytes),
        };
        let offset = self.begin(size_of::<KeyNode>() + name.len())?;
        let at = offset as usize + BASE_BLOCK_BYTES + 4;
        self.out.extend_from_slice(node.as_bytes());
        self.out.extend_from_slice(name);
        self.end();
        let security = key.security.map(|security| self.security_id(security)).transpose()?;
        if let Some(id) = security {
            self.put(at + 44, self.security[id.0].offset);
        }
        if let Some(class) = key.class {
            let class = self.cell(class)?;
            self.put(at + 48, class);
        }
        if let Some(open) = self.open.last_mut() {
            open.max_subkey_name = open.max_subkey_name.max(as_u32(key.name.len() * 2));
            open.max_subkey_class = open.max_subkey_class.max(u32::from(class_bytes));
            self.children.push(Child {
                offset,
                hash: key.name.hash(),
            });
        }
        self.open.push(OpenKey {
            node: at,
            first_child: self.children.len(),
            nr_values: 0,
            first_value: self.values.len(),
            max_subkey_name: 0,
            max_subkey_class: 0,
            max_value_name: 0,
            max_value_data: 0,
        });
        Ok(security)
    }

    fn security_id(&mut self, security: Security<'_>) -> Result<SecurityId> {
        let descriptor = match security {
            Security::Known(id) => {
                self.security[id.0].nr_references += 1;
                return Ok(id);
            }
            Security::Bytes(descriptor) => descriptor,
        };
        if let Some(&id) = self.security_ids.get(descriptor) {
            self.security[id].nr_references += 1;
            return Ok(SecurityId(id));
        }
        let node = SecurityNode {
            signature: *b"sk",
            reserved: U16::ZERO,
            next: U32::ZERO,
            previous: U32::ZERO,
            nr_references: U32::ZERO,
            descriptor_bytes: U32::new(as_u32(descriptor.len())),
        };
        let offset = self.begin(size_of::<SecurityNode>() + descriptor.len())?;
        self.out.extend_from_slice(node.as_bytes());
        self.out.extend_from_slice(descriptor);
        self.end();
        self.security.push(SecurityCell {
            offset,
            nr_references: 1,
        });
        self.security_ids.insert(descriptor.into(), self.security.len() - 1);
        Ok(SecurityId(self.security.len() - 1))
    }

    /// Adds a value to the open key.
    pub(crate) fn value(&mut self, name: Name<'_>, data_type: u32, flags: u16, data: Data<'_>) -> Result<()> {
        let bytes = data.len();
        let stored = name.as_bytes();
        let name_bytes = field_bytes("a value's name", stored)?;
        let mut flags = flags & !value_flag::COMPRESSED_NAME;
        // Windows leaves the flag off where there is no name.
        if matches!(name, Name::Latin1(bytes) if !bytes.is_empty()) {
            flags |= value_flag::COMPRESSED_NAME;
        }
        self.layered |= flags & value_flag::TOMBSTONE != 0;
        let mut node = ValueNode {
            signature: *b"vk",
            name_bytes: U16::new(name_bytes),
            data_bytes: U32::new(as_u32(bytes)),
            data: [0; 4],
            data_type: U32::new(data_type),
            flags: U16::new(flags),
            spare: U16::ZERO,
        };
        if bytes <= 4 {
            node.data_bytes = U32::new(as_u32(bytes) | ValueNode::INLINE);
            if let Some(inline) = data.chunks().next() {
                node.data[..inline.len()].copy_from_slice(inline);
            }
        }
        let offset = self.begin(size_of::<ValueNode>() + stored.len())?;
        let at = offset as usize + BASE_BLOCK_BYTES + 4;
        self.out.extend_from_slice(node.as_bytes());
        self.out.extend_from_slice(stored);
        self.end();
        if bytes > 4 {
            let cell = self.data(data)?;
            self.put(at + ValueNode::DATA_AT, cell);
        }
        self.values.push(offset);
        if let Some(open) = self.open.last_mut() {
            open.nr_values += 1;
            open.max_value_name = open.max_value_name.max(as_u32(name.len() * 2));
            open.max_value_data = open.max_value_data.max(as_u32(bytes));
        }
        Ok(())
    }

    fn data(&mut self, data: Data<'_>) -> Result<u32> {
        if data.len() <= MAX_SEGMENT_BYTES {
            let offset = self.begin(data.len())?;
            data.chunks().for_each(|chunk| self.out.extend_from_slice(chunk));
            self.end();
            return Ok(offset);
        }
        let nr = data.len().div_ceil(MAX_SEGMENT_BYTES);
        let nr_segments = u16::try_from(nr).map_err(|_| Error::TooLarge {
            needed_bytes: data.len() as u64,
            limit_bytes: (usize::from(u16::MAX) * MAX_SEGMENT_BYTES) as u64,
        })?;
        let node = BigData {
            signature: *b"db",
            nr_segments: U16::new(nr_segments),
            segments: U32::ZERO,
        };
        let offset = self.cell(node.as_bytes())?;
        let list = self.begin(nr * 4)?;
        let list_at = list as usize + BASE_BLOCK_BYTES + 4;
        self.out.resize(list_at + nr * 4, 0);
        self.end();
        self.put(offset as usize + BASE_BLOCK_BYTES + 8, list);
        // Chunks of big data are whole segments; plain data are cut here.
        let pieces = data.chunks().flat_map(|chunk| chunk.chunks(MAX_SEGMENT_BYTES));
        for (element, piece) in pieces.enumerate() {
            let segment = self.begin(SEGMENT_CELL_BYTES)?;
            self.out.extend_from_slice(piece);
            self.out.resize(self.out.len() + SEGMENT_CELL_BYTES - piece.len(), 0);
            self.end();
            self.put(list_at + element * 4, segment);
        }
        Ok(offset)
    }

    /// Ends the values of the open key; none may follow.
    pub(crate) fn end_values(&mut self) -> Result<()> {
        let Some(open) = self.open.last() else { return Ok(()) };
        let (node, first, nr) = (open.node, open.first_value, open.nr_values);
        let (max_name, max_data) = (open.max_value_name, open.max_value_data);
        if nr == 0 {
            return Ok(());
        }
        let list = self.begin(nr as usize * 4)?;
        for value in self.values.drain(first..) {
            self.out.extend_from_slice(&value.to_le_bytes());
        }
        self.end();
        self.put(node + 36, nr);
        self.put(node + 40, list);
        self.put(node + 60, max_name);
        self.put(node + 64, max_data);
        Ok(())
    }

    /// Closes the open key: writes its subkey list.
    pub(crate) fn close_key(&mut self) -> Result<()> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let nr = self.children.len() - open.first_child;
        if nr == 0 {
            return Ok(());
        }
        let mut leaves = Vec::new();
        let mut first = open.first_child;
        while first < self.children.len() {
            let last = self.children.len().min(first + MAX_LEAF_ELEMENTS);
            let leaf = self.begin(4 + (last - first) * 8)?;
            self.out.extend_from_slice(b"lh");
            self.out
                .extend_from_slice(&u16::try_from(last - first).unwrap_or(0).to_le_bytes());
            for child in &self.children[first..last] {
                self.out.extend_from_slice(&child.offset.to_le_bytes());
                self.out.extend_from_slice(&child.hash.to_le_bytes());
            }
            self.end();
            leaves.push(leaf);
            first = last;
        }
        let list = match leaves[..] {
            [leaf] => leaf,
            _ => {
                let nr_leaves = u16::try_from(leaves.len()).map_err(|_| Error::TooLarge {
                    needed_bytes: nr as u64 * 8,
                    limit_bytes: u64::from(u16::MAX) * MAX_LEAF_ELEMENTS as u64 * 8,
                })?;
                let root = self.begin(4 + leaves.len() * 4)?;
                self.out.extend_from_slice(b"ri");
                self.out.extend_from_slice(&nr_leaves.to_le_bytes());
                leaves
                    .iter()
                    .for_each(|leaf| self.out.extend_from_slice(&leaf.to_le_bytes()));
                self.end();
                root
            }
        };
        self.children.truncate(open.first_child);
        self.put(open.node + 20, as_u32(nr));
        self.put(open.node + 28, list);
        let max_name = u16::try_from(open.max_subkey_name).unwrap_or(u16::MAX);
        self.out[open.node + 52..open.node + 54].copy_from_slice(&max_name.to_le_bytes());
        self.put(open.node + 56, open.max_subkey_class);
        Ok(())
    }

    /// The finished hive.
    pub(crate) fn finish(mut self, timestamp: u64, file_name: &str) -> Vec<u8> {
        self.close_bin();
        for index in 0..self.security.len() {
            let nr = self.security.len();
            let at = self.security[index].offset as usize + BASE_BLOCK_BYTES + 4;
            self.put(at + 4, self.security[(index + 1) % nr].offset);
            self.put(at + 8, self.security[(index + nr - 1) % nr].offset);
            self.put(at + 12, self.security[index].nr_references);
        }
        let minor = if self.layered { 6 } else { 5 };
        let base = base_block(timestamp, minor, as_u32(self.out.len() - BASE_BLOCK_BYTES), file_name);
        self.out[..size_of::<BaseBlock>()].copy_from_slice(base.as_bytes());
        if let Some(stamp) = self.out.get_mut(BASE_BLOCK_BYTES + 20..BASE_BLOCK_BYTES + 28) {
            stamp.copy_from_slice(&timestamp.to_le_bytes());
        }
        self.out
    }
}

/// A clean base block with its checksum. The root is the first cell of the first bin.
pub(crate) fn base_block(timestamp: u64, minor: u32, bins_bytes: u32, file_name: &str) -> BaseBlock {
    let mut name = [0; 64];
    // 31 units and a NUL.
    for (place, unit) in name.chunks_exact_mut(2).zip(file_name.encode_utf16().take(31)) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
    let mut base = BaseBlock {
        signature: REGF,
        primary_sequence: U32::new(1),
        secondary_sequence: U32::new(1),
        last_written: U64::new(timestamp),
        major_version: U32::new(1),
        minor_version: U32::new(minor),
        file_type: U32::new(file_type::PRIMARY),
        file_format: U32::new(1),
        root_cell: U32::new(as_u32(BIN_HEADER_BYTES)),
        bins_bytes: U32::new(bins_bytes),
        clustering_factor: U32::new(1),
        file_name: name,
        reserved: [0; 396],
        checksum: U32::ZERO,
    };
    base.checksum = U32::new(checksum(base.as_bytes()));
    base
}
