// SPDX-License-Identifier: GPL-3.0-or-later
//! A registry as a tree in memory, the small way to make a hive from a description:
//! [`Node::to_hive`].

use crate::emit::Emitter;
use crate::error::Result;
use crate::format::{data_type, key_flag};
use crate::key::Key;
use crate::merge::emit_node;
use crate::name::NameBuf;
use crate::reader::MAX_BINS_BYTES;
use crate::walk::{DamageReport, Strictness, Walk};

/// What keys get that nobody gave a descriptor: owner and group Administrators; SYSTEM and
/// Administrators may do all, Everyone may read; inherited by subkeys. Self-relative, 124 bytes.
pub const DEFAULT_SECURITY: &[u8] = &[
    0x01, 0x00, 0x04, 0x80, 0x5c, 0x00, 0x00, 0x00, 0x6c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00,
    0x00, // revision, control (self-relative, DACL present), owner, group, SACL, DACL
    0x02, 0x00, 0x48, 0x00, 0x03, 0x00, 0x00, 0x00, // ACL: revision 2, 72 bytes, 3 entries
    0x00, 0x02, 0x14, 0x00, 0x3f, 0x00, 0x0f, 0x00, 0x01, 0x01, 0, 0, 0, 0, 0, 5, 0x12, 0, 0, 0, // S-1-5-18: all
    0x00, 0x02, 0x18, 0x00, 0x3f, 0x00, 0x0f, 0x00, 0x01, 0x02, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 0x02, 0, 0,
    // S-1-5-32-544: all
    0x00, 0x02, 0x14, 0x00, 0x19, 0x00, 0x02, 0x00, 0x01, 0x01, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, // S-1-1-0: read
    0x01, 0x02, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 0x02, 0, 0, // owner: S-1-5-32-544
    0x01, 0x02, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 0x02, 0, 0, // group: S-1-5-32-544
];

/// How a hive is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The base block's last write, as a FILETIME; also the last write of keys that have none. No clock
    /// is ever asked.
    pub timestamp: u64,
    /// The name in the base block; its first 31 UTF-16 units are kept.
    pub file_name: String,
    /// What happens at damage in a source.
    pub strictness: Strictness,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            timestamp: 0,
            file_name: String::new(),
            strictness: Strictness::Strict,
        }
    }
}

/// A value in a [`Node`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeValue {
    /// Its name; empty for the default value.
    pub name: NameBuf,
    /// Its type number.
    pub data_type: u32,
    /// Its data.
    pub data: Vec<u8>,
    /// Its flags, without the one that says how the name is stored.
    pub flags: u16,
}

/// A key in memory, with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name; the root's has no meaning.
    pub name: NameBuf,
    /// Its last write as a FILETIME; `None`: that of the [`WriteOptions`].
    pub last_written: Option<u64>,
    /// Its class name in UTF-16LE.
    pub class: Option<Vec<u8>>,
    /// Its security descriptor, self-relative; `None`: [`DEFAULT_SECURITY`].
    pub security: Option<Vec<u8>>,
    /// Its flags, without the one that says how the name is stored.
    pub flags: u16,
    /// Its user and virtualization flags.
    pub user_flags: u8,
    /// Its layered-key bits.
    pub layer_flags: u8,
    /// Its values in order.
    pub values: Vec<NodeValue>,
    /// Its subkeys in any order.
    pub subkeys: Vec<Node>,
}

impl Node {
    /// A key of this name with nothing in it.
    #[must_use]
    pub fn new(name: impl Into<NameBuf>) -> Self {
        Self {
            name: name.into(),
            last_written: None,
            class: None,
            security: None,
            flags: 0,
            user_flags: 0,
            layer_flags: 0,
            values: Vec::new(),
            subkeys: Vec::new(),
        }
    }

    /// The key at a path below this one, made where it is missing.
    pub fn key(&mut self, path: &str) -> &mut Node {
        path.split('\\')
            .filter(|name| !name.is_empty())
            .fold(self, |node, name| node.subkey_named(name.into()))
    }

    /// The subkey of this name, made where it is missing.
    pub fn subkey_named(&mut self, name: NameBuf) -> &mut Node {
        let found = self
            .subkeys
            .iter()
            .position(|node| node.name.as_name().cmp_upcase(name.as_name()).is_eq());
        let index = found.unwrap_or_else(|| {
            self.subkeys.push(Node::new(name));
            self.subkeys.len() - 1
        });
        &mut self.subkeys[index]
    }

    /// Sets a value: replaces one of the same name in its place, else adds it at the end.
    pub fn set(&mut self, name: impl Into<NameBuf>, data_type: u32, data: impl Into<Vec<u8>>) -> &mut Self {
        let value = NodeValue {
            name: name.into(),
            data_type,
            data: data.into(),
            flags: 0,
        };
        let same = |other: &&mut NodeValue| other.name.as_name().cmp_upcase(value.name.as_name()).is_eq();
        match self.values.iter_mut().find(same) {
            Some(place) => *place = value,
            None => self.values.push(value),
        }
        self
    }

    /// Sets a `REG_SZ`, terminated.
    pub fn set_sz(&mut self, name: &str, text: &str) -> &mut Self {
        self.set(name, data_type::SZ, utf16_terminated(text))
    }

    /// Sets a `REG_DWORD`.
    pub fn set_dword(&mut self, name: &str, number: u32) -> &mut Self {
        self.set(name, data_type::DWORD, number.to_le_bytes())
    }

    /// Makes the key a symbolic link to an absolute registry path (`\Registry\Machine\…`).
    pub fn link_to(&mut self, target: &str) -> &mut Self {
        self.flags |= key_flag::SYMBOLIC_LINK;
        let data: Vec<u8> = target.encode_utf16().flat_map(u16::to_le_bytes).collect();
        self.set("SymbolicLinkValue", data_type::LINK, data)
    }

    /// Sets the class name.
    pub fn set_class(&mut self, class: &str) -> &mut Self {
        self.class = Some(class.encode_utf16().flat_map(u16::to_le_bytes).collect());
        self
    }

    /// Reads a tree of keys into memory. The handle of a key that stands for one (Windows 7 and older) is
    /// left out with its flag; [`rebuild`](crate::rebuild()) and [`Merge`](crate::Merge) keep it.
    ///
    /// # Errors
    /// When strict, the first fault.
    pub fn read(start: Key<'_>, strictness: Strictness) -> Result<(Self, DamageReport)> {
        let mut walk = Walk::new(start, strictness);
        let mut open: Vec<Node> = Vec::new();
        while let Some(key) = walk.next_key()? {
            fold_to(&mut open, walk.depth());
            let mut node = Node::new(NameBuf::from(key.name()));
            node.last_written = Some(key.last_written());
            const NOT_KEPT: u16 =
                key_flag::COMPRESSED_NAME | key_flag::HIVE_ENTRY | key_flag::HIVE_EXIT | key_flag::PREDEFINED_HANDLE;
            node.flags = key.flags() & !NOT_KEPT;
            node.user_flags = key.user_flags();
            node.layer_flags = key.layer_flags();
            match key.class() {
                Ok(class) => node.class = class.map(|class| class.as_bytes().to_vec()),
                Err(error) => walk.report(error)?,
            }
            match key.security() {
                Ok(security) => node.security = security.map(<[u8]>::to_vec),
                Err(error) => walk.report(error)?,
            }
            walk.values(&key, |value, data| {
                node.values.push(NodeValue {
                    name: value.name().into(),
                    data_type: value.data_type(),
                    data: data.to_vec(),
                    flags: value.flags() & !crate::format::value_flag::COMPRESSED_NAME,
                });
                Ok(())
            })?;
            open.push(node);
        }
        fold_to(&mut open, 1);
        let root = open.pop().unwrap_or_else(|| Node::new(""));
        Ok((root, walk.into_damage()))
    }

    /// Writes the tree as a hive: canonical, so that the same tree gives the same bytes.
    ///
    /// # Errors
    /// A name that is not possible, two subkeys of one name, too deep a tree, too much data.
    pub fn to_hive(&self, options: &WriteOptions) -> Result<Vec<u8>> {
        let mut emitter = Emitter::new(1 << 16, MAX_BINS_BYTES as usize);
        let mut path = Vec::new();
        emit_node(&mut emitter, self, &mut path, options, &mut [])?;
        Ok(emitter.finish(options.timestamp, &options.file_name))
    }
}

fn fold_to(open: &mut Vec<Node>, depth: usize) {
    while open.len() > depth.max(1) {
        let Some(node) = open.pop() else { return };
        if let Some(parent) = open.last_mut() {
            parent.subkeys.push(node);
        }
    }
}

/// Text as the data of a `REG_SZ`.
#[must_use]
pub fn utf16_terminated(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
