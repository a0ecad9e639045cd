// SPDX-License-Identifier: GPL-3.0-or-later
//! Applying registry text to a hive, or making a new one of it.

use crate::edit::{Buffer, Editor, KeyId, NewKey};
use crate::error::{Error, Result};
use crate::format::key_flag;
use crate::merge::rebuild;
use crate::reg_import::KeyChange;
use crate::tree::{Node, WriteOptions};

/// Applies changes to a hive, all or none. `to_hive_path` says where a path of the text lies in the hive
/// (see [`paths`](crate::paths)); `None` refuses it.
///
/// # Errors
/// A path that does not belong to this hive, by its line; a name that is not possible; no room.
pub fn apply<B: Buffer>(
    editor: &mut Editor<B>,
    changes: &[KeyChange],
    now: u64,
    to_hive_path: impl Fn(&[u16]) -> Option<Vec<u16>>,
) -> Result<()> {
    editor.transact(|editor| {
        for change in changes {
            let Some(path) = to_hive_path(&change.path) else {
                let what = format!("[{}] is not in this hive", String::from_utf16_lossy(&change.path));
                return Err(Error::InvalidRegText {
                    line: change.line,
                    what,
                });
            };
            if change.delete {
                if let Some(key) = find(editor, &path)? {
                    editor.delete_tree(key, now)?;
                }
                continue;
            }
            let (flags, ..) = change.flags.unwrap_or_default();
            let mut key = editor.root()?;
            let mut names = split(&path).peekable();
            while let Some(name) = names.next() {
                let own = names.peek().is_none();
                let new = NewKey {
                    volatile: own && flags & key_flag::VOLATILE != 0,
                    ..NewKey::default()
                };
                key = editor.create_key(key, name, new, now)?.id();
            }
            if let Some((flags, user, layer)) = change.flags {
                editor.set_flags(key, flags, user, layer, now)?;
            }
            for value in &change.values {
                match &value.data {
                    Some((kind, data)) => editor.set_value(key, &value.name, *kind, data, now)?,
                    None => match editor.delete_value(key, &value.name, now) {
                        Ok(()) | Err(Error::MissingValue { .. }) => {}
                        Err(error) => return Err(error),
                    },
                }
            }
            apply_marks(editor, key, change, now)?;
        }
        // Times last: making a subkey touches its parent.
        for change in changes.iter().filter(|change| !change.delete) {
            let Some(time) = change.last_written else { continue };
            let key = to_hive_path(&change.path)
                .map(|path| find(editor, &path))
                .transpose()?
                .flatten();
            if let Some(key) = key {
                editor.set_last_written(key, time)?;
            }
        }
        Ok(())
    })
}

fn apply_marks<B: Buffer>(editor: &mut Editor<B>, key: KeyId, change: &KeyChange, now: u64) -> Result<()> {
    if let Some(class) = &change.class {
        let class: Vec<u16> = class
            .as_chunks::<2>()
            .0
            .iter()
            .map(|pair| u16::from_le_bytes(*pair))
            .collect();
        editor.set_class(key, Some(&class), now)?;
    }
    if let Some(security) = &change.security {
        editor.set_security(key, security, now)?;
    }
    Ok(())
}

fn split(path: &[u16]) -> impl Iterator<Item = &[u16]> {
    path.split(|&unit| unit == u16::from(b'\\'))
        .filter(|name| !name.is_empty())
}

fn find<B: Buffer>(editor: &Editor<B>, path: &[u16]) -> Result<Option<KeyId>> {
    let mut key = editor.hive().root()?;
    for name in split(path) {
        match key.subkey_units(name.iter().copied())? {
            Some(subkey) => key = subkey,
            None => return Ok(None),
        }
    }
    Ok(Some(key.id()))
}

/// Makes a new hive of the text: canonical, with the times of `options` where the text marks none.
///
/// # Errors
/// As [`apply`].
pub fn to_hive(
    changes: &[KeyChange],
    options: &WriteOptions,
    to_hive_path: impl Fn(&[u16]) -> Option<Vec<u16>>,
) -> Result<Vec<u8>> {
    let mut editor = Editor::open(Node::new("ROOT").to_hive(options)?)?;
    apply(&mut editor, changes, options.timestamp, to_hive_path)?;
    Ok(rebuild(&editor.hive(), options)?.0)
}
