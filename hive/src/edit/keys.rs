// SPDX-License-Identifier: GPL-3.0-or-later
//! Making, deleting and renaming keys.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::{Buffer, Change, Editor, KeyId};
use crate::error::{Error, Result};
use crate::format::{KeyNode, NO_CELL, key_flag};
use crate::key::MAX_KEY_NAME_UNITS;
use crate::name::{Name, NameBuf};
use crate::reader::MAX_DEPTH;

const KEY_FLAGS: usize = 2;
const KEY_LAST_WRITTEN: usize = 4;
const KEY_LAYER_FLAGS: usize = 13;
const KEY_PARENT: usize = 16;
const KEY_CLASS: usize = 48;
const KEY_MAX_SUBKEY_NAME: usize = 52;
const KEY_USER_FLAGS: usize = 54;
const KEY_MAX_SUBKEY_CLASS: usize = 56;
const KEY_NAME_BYTES: usize = 72;
const KEY_CLASS_BYTES: usize = 74;
const KEY_NAME: usize = 76;

/// What a new key gets beside its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewKey<'a> {
    /// Its class name.
    pub class: Option<&'a [u16]>,
    /// Its security descriptor, self-relative; `None`: that of its parent.
    pub security: Option<&'a [u8]>,
    /// Whether it does not outlive a restart: [`Editor::discard_volatile`] deletes it. Subkeys of such a
    /// key must be so too.
    pub volatile: bool,
    /// Whether it is a symbolic link; its target is then set as the value `SymbolicLinkValue`.
    pub symbolic_link: bool,
}

/// Whether [`Editor::create_key`] made the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New(KeyId),
    /// It was there.
    Existing(KeyId),
}

impl Created {
    /// The key, new or not.
    #[must_use]
    pub fn id(self) -> KeyId {
        match self {
            Self::New(id) | Self::Existing(id) => id,
        }
    }
}

fn check_name(units: &[u16]) -> Result<()> {
    let bad = units.is_empty() || units.len() > MAX_KEY_NAME_UNITS || units.contains(&u16::from(b'\\'));
    if bad {
        return Err(Error::InvalidName {
            what: "a key's name",
            actual: units.len(),
            limit: MAX_KEY_NAME_UNITS,
        });
    }
    Ok(())
}

impl<B: Buffer> Editor<B> {
    /// Opens a subkey, or makes it.
    ///
    /// # Errors
    /// A name that is not possible; a parent that is no key; a stable key below a volatile one; a tree too
    /// deep; no room.
    pub fn create_key(&mut self, parent: KeyId, name: &[u16], new: NewKey<'_>, now: u64) -> Result<Created> {
        check_name(name)?;
        let name = NameBuf::from_units(name);
        let name = name.as_name();
        if let Some(key) = self.subkey_named(parent, name)? {
            return Ok(Created::Existing(key));
        }
        self.transact(|editor| {
            let node = editor.key(parent)?;
            if node.is_volatile() && !new.volatile {
                return Err(Error::ChildMustBeVolatile { name: name.to_string() });
            }
            if editor.depth(parent)? + 1 >= MAX_DEPTH {
                return Err(Error::TooDeep {
                    offset: node.file_offset(),
                    limit: MAX_DEPTH,
                });
            }
            let key = editor.new_node(parent, name, new, now)?;
            editor.insert_subkey(parent, key, name)?;
            editor.raise_maxima(parent, name, new.class.map_or(0, |class| class.len() * 2))?;
            editor.set_last_written(parent, now)?;
            editor.note(Change::Created { parent, key });
            Ok(Created::New(key))
        })
    }

    /// Opens the key at a path below the root, making every key on the way.
    ///
    /// # Errors
    /// As [`Editor::create_key`].
    pub fn create_path(&mut self, path: &str, now: u64) -> Result<KeyId> {
        self.transact(|editor| {
            let mut key = editor.root()?;
            for name in path.split('\\').filter(|name| !name.is_empty()) {
                let units: Vec<u16> = name.encode_utf16().collect();
                key = editor.create_key(key, &units, NewKey::default(), now)?.id();
            }
            Ok(key)
        })
    }

    fn new_node(&mut self, parent: KeyId, name: Name<'_>, new: NewKey<'_>, now: u64) -> Result<KeyId> {
        let security = match new.security {
            Some(descriptor) => self.reference_security(descriptor)?,
            None => {
                let cell = self.security_cell(parent)?;
                self.reference_security_cell(cell)?;
                cell
            }
        };
        let mut flags = 0;
        for (is, flag) in [
            (matches!(name, Name::Latin1(_)), key_flag::COMPRESSED_NAME),
            (new.volatile, key_flag::VOLATILE),
            (new.symbolic_link, key_flag::SYMBOLIC_LINK),
        ] {
            flags |= if is { flag } else { 0 };
        }
        let class: Option<Vec<u8>> = new
            .class
            .map(|class| class.iter().flat_map(|u| u.to_le_bytes()).collect());
        let (class_cell, class_bytes) = self.new_class(class.as_deref())?;
        let node = KeyNode {
            signature: *b"nk",
            flags: U16::new(flags),
            last_written: U64::new(now),
            access_bits: 0,
            layer_flags: 0,
            spare: U16::ZERO,
            parent: U32::new(parent.0),
            nr_subkeys: U32::ZERO,
            nr_volatile_subkeys: U32::ZERO,
            subkeys: U32::new(NO_CELL),
            volatile_subkeys: U32::new(NO_CELL),
            nr_values: U32::ZERO,
            values: U32::new(NO_CELL),
            security: U32::new(security),
            class: U32::new(class_cell),
            max_subkey_name_bytes: U16::ZERO,
            user_flags: 0,
            debug_flags: 0,
            max_subkey_class_bytes: U32::ZERO,
            max_value_name_bytes: U32::ZERO,
            max_value_data_bytes: U32::ZERO,
            work_var: U32::ZERO,
            name_bytes: U16::new(u16::try_from(name.as_bytes().len()).unwrap_or(0)),
            class_bytes: U16::new(class_bytes),
        };
        Ok(KeyId(self.alloc(&[node.as_bytes(), name.as_bytes()].concat(), 0)?))
    }

    fn new_class(&mut self, class: Option<&[u8]>) -> Result<(u32, u16)> {
        let Some(class) = class.filter(|class| !class.is_empty()) else {
            return Ok((NO_CELL, 0));
        };
        let bytes = u16::try_from(class.len()).map_err(|_| Error::InvalidName {
            what: "a class name",
            actual: class.len() / 2,
            limit: usize::from(u16::MAX / 2),
        })?;
        Ok((self.alloc(class, 0)?, bytes))
    }

    /// Gives a key another class name, or none.
    ///
    /// # Errors
    /// No such key; a class name of more than 32,767 units; no room.
    pub fn set_class(&mut self, key: KeyId, class: Option<&[u16]>, now: u64) -> Result<()> {
        self.transact(|editor| {
            let before = editor.key(key)?.node.class.get();
            let had = editor.key(key)?.node.class_bytes.get() != 0;
            let bytes: Option<Vec<u8>> = class.map(|class| class.iter().flat_map(|u| u.to_le_bytes()).collect());
            let (cell, class_bytes) = editor.new_class(bytes.as_deref())?;
            editor.put_u32(key.0, KEY_CLASS, cell)?;
            editor.put_u16(key.0, KEY_CLASS_BYTES, class_bytes)?;
            if Self::is_cell(before) && had {
                editor.free(before)?;
            }
            let parent = editor.key(key)?.parent_offset();
            if key != editor.root()? {
                let name = NameBuf::from_units(&[]);
                editor.raise_maxima(KeyId(parent), name.as_name(), usize::from(class_bytes))?;
            }
            editor.set_last_written(key, now)?;
            editor.note(Change::Attributes { key });
            Ok(())
        })
    }

    /// Sets a key's flags (those that say how its name is stored and that it is a root stay as they are), its
    /// user flags and its layered-key bits, which only a hive of version 1.6 keeps.
    ///
    /// # Errors
    /// No such key.
    pub fn set_flags(&mut self, key: KeyId, flags: u16, user: u8, layer: u8, now: u64) -> Result<()> {
        const KEPT: u16 = key_flag::COMPRESSED_NAME | key_flag::HIVE_ENTRY | key_flag::HIVE_EXIT;
        self.transact(|editor| {
            let node = editor.key(key)?;
            let root = if key == editor.root()? { key_flag::NO_DELETE } else { 0 };
            // A predefined handle would hide the number of values.
            let new = flags & !KEPT & !key_flag::PREDEFINED_HANDLE | node.flags() & KEPT | root;
            let layered = node.cells.minor >= 6;
            editor.put_u16(key.0, KEY_FLAGS, new)?;
            editor.write(Self::content_at(key.0) + KEY_USER_FLAGS, &[user])?;
            if layered {
                editor.write(Self::content_at(key.0) + KEY_LAYER_FLAGS, &[layer])?;
            }
            editor.set_last_written(key, now)?;
            editor.note(Change::Attributes { key });
            Ok(())
        })
    }

    /// Sets a key's time of last write (FILETIME).
    ///
    /// # Errors
    /// No such key.
    pub fn set_last_written(&mut self, key: KeyId, time: u64) -> Result<()> {
        self.transact(|editor| {
            editor.key(key)?;
            editor.write(Self::content_at(key.0) + KEY_LAST_WRITTEN, &time.to_le_bytes())
        })
    }

    /// How many keys are above this one.
    fn depth(&self, key: KeyId) -> Result<usize> {
        let root = self.root()?;
        let (mut at, mut depth) = (key, 0);
        while at != root && depth <= MAX_DEPTH {
            at = KeyId(self.key(at)?.parent_offset());
            depth += 1;
        }
        Ok(depth)
    }

    /// Whether `key` is `ancestor` or below it: for hooks that watch a tree.
    ///
    /// # Errors
    /// No such key.
    pub fn is_within(&self, key: KeyId, ancestor: KeyId) -> Result<bool> {
        let root = self.root()?;
        let mut at = key;
        for _ in 0..=MAX_DEPTH {
            if at == ancestor {
                return Ok(true);
            }
            if at == root {
                return Ok(false);
            }
            at = KeyId(self.key(at)?.parent_offset());
        }
        Ok(false)
    }

    fn raise_maxima(&mut self, parent: KeyId, name: Name<'_>, class_bytes: usize) -> Result<()> {
        let node = self.key(parent)?.node;
        let (max_name, max_class) = (node.max_subkey_name_bytes.get(), node.max_subkey_class_bytes.get());
        let name_bytes = u16::try_from(name.len() * 2).unwrap_or(u16::MAX);
        let class_bytes = u32::try_from(class_bytes).unwrap_or(u32::MAX);
        if name_bytes > max_name {
            self.put_u16(parent.0, KEY_MAX_SUBKEY_NAME, name_bytes)?;
        }
        if class_bytes > max_class {
            self.put_u32(parent.0, KEY_MAX_SUBKEY_CLASS, class_bytes)?;
        }
        Ok(())
    }

    /// Deletes a key that has no subkeys, with its values.
    ///
    /// # Errors
    /// The root, a key flagged as not deletable, a key with subkeys; no such key.
    pub fn delete_key(&mut self, key: KeyId, now: u64) -> Result<()> {
        let node = self.key(key)?;
        let name = || node.name().to_string();
        if key == self.root()? || node.flags() & key_flag::NO_DELETE != 0 {
            return Err(Error::NotDeletable {
                name: name(),
                why: "it is a root, or flagged as not deletable",
            });
        }
        if node.nr_subkeys() != 0 {
            return Err(Error::NotDeletable {
                name: name(),
                why: "it has subkeys",
            });
        }
        let parent = KeyId(node.parent_offset());
        self.transact(|editor| {
            editor.free_values(key)?;
            let node = editor.key(key)?.node;
            let (class, has_class) = (node.class.get(), node.class_bytes.get() != 0);
            let security = node.security.get();
            editor.remove_subkey(parent, key)?;
            if Self::is_cell(class) && has_class {
                editor.free(class)?;
            }
            editor.release_security(security)?;
            editor.free(key.0)?;
            editor.set_last_written(parent, now)?;
            editor.note(Change::Deleted { parent, key });
            Ok(())
        })
    }

    /// Deletes a key and everything below it.
    ///
    /// # Errors
    /// As [`Editor::delete_key`], but for the subkeys.
    pub fn delete_tree(&mut self, key: KeyId, now: u64) -> Result<()> {
        self.transact(|editor| {
            // Depth-first by an explicit stack: deepest keys go first.
            let mut order = vec![key];
            let mut next = 0;
            while let Some(&at) = order.get(next) {
                for subkey in editor.key(at)?.subkeys()? {
                    order.push(subkey?.id());
                }
                next += 1;
            }
            order.into_iter().rev().try_for_each(|key| editor.delete_key(key, now))
        })
    }

    /// Deletes all volatile keys: what a restart does. Returns how many trees went.
    ///
    /// # Errors
    /// Damage on the way.
    pub fn discard_volatile(&mut self, now: u64) -> Result<usize> {
        let mut found = Vec::new();
        {
            let mut walk = crate::Walk::new(self.hive().root()?, crate::Strictness::Strict);
            let mut below = usize::MAX;
            while let Some(key) = walk.next_key()? {
                if walk.depth() <= below {
                    below = usize::MAX;
                    if key.is_volatile() && walk.depth() > 0 {
                        below = walk.depth();
                        found.push(key.id());
                    }
                }
            }
        }
        self.transact(|editor| found.iter().try_for_each(|&key| editor.delete_tree(key, now)))?;
        Ok(found.len())
    }

    /// Renames a key. Its identity may change: the new one returns.
    ///
    /// # Errors
    /// A name that is not possible or taken; the root; no such key.
    pub fn rename_key(&mut self, key: KeyId, name: &[u16], now: u64) -> Result<KeyId> {
        check_name(name)?;
        let node = self.key(key)?;
        let parent = KeyId(node.parent_offset());
        if key == self.root()? {
            return Err(Error::NotDeletable {
                name: node.name().to_string(),
                why: "it is the root",
            });
        }
        let new = NameBuf::from_units(name);
        if let Some(other) = self.subkey_named(parent, new.as_name())?
            && other != key
        {
            return Err(Error::AlreadyExists {
                path: new.as_name().to_string(),
            });
        }
        self.transact(|editor| {
            editor.value_names = None;
            editor.remove_subkey(parent, key)?;
            let bytes = new.as_name().as_bytes().to_vec();
            let moved = if editor.capacity(key.0)? >= KEY_NAME + bytes.len() {
                key
            } else {
                let node = editor.hive().cells.cell(key.0, "key node")?;
                let mut content = node.get(..KEY_NAME).unwrap_or_default().to_vec();
                content.extend_from_slice(&bytes);
                let moved = KeyId(editor.alloc(&content, 0)?);
                let subkeys = editor
                    .key(key)?
                    .subkeys()?
                    .map(|k| k.map(|k| k.id()))
                    .collect::<Result<Vec<_>>>()?;
                for subkey in subkeys {
                    editor.put_u32(subkey.0, KEY_PARENT, moved.0)?;
                }
                editor.free(key.0)?;
                moved
            };
            let before = u16::from_le_bytes(editor.field(moved, KEY_FLAGS)?);
            let flags = match new {
                NameBuf::Latin1(_) => before | key_flag::COMPRESSED_NAME,
                NameBuf::Utf16(_) => before & !key_flag::COMPRESSED_NAME,
            };
            editor.put_u16(moved.0, KEY_FLAGS, flags)?;
            editor.put_u16(moved.0, KEY_NAME_BYTES, u16::try_from(bytes.len()).unwrap_or(0))?;
            editor.write(Self::content_at(moved.0) + KEY_NAME, &bytes)?;
            editor.insert_subkey(parent, moved, new.as_name())?;
            let class_bytes = usize::from(editor.key(moved)?.node.class_bytes.get());
            editor.raise_maxima(parent, new.as_name(), class_bytes)?;
            editor.set_last_written(moved, now)?;
            editor.set_last_written(parent, now)?;
            if moved != key {
                editor.note(Change::Moved { from: key, to: moved });
            }
            editor.note(Change::Renamed { parent, key: moved });
            Ok(moved)
        })
    }

    /// Two bytes of a key node, whatever its name says of itself.
    fn field(&self, key: KeyId, at: usize) -> Result<[u8; 2]> {
        let node = self.hive().cells.cell(key.0, "key node")?;
        Ok(node
            .get(at..)
            .and_then(<[u8]>::first_chunk::<2>)
            .copied()
            .unwrap_or_default())
    }
}
