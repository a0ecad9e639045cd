// SPDX-License-Identifier: GPL-3.0-or-later
//! Copying a tree of keys from another hive into this one, as one change.

use super::{Buffer, Editor, KeyId, NewKey};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::walk::{Counts, Order, Strictness, Walk};

impl<B: Buffer> Editor<B> {
    /// Copies `source` and all below it into a new subkey of `parent`: values, classes, descriptors, flags
    /// and times. Returns what was copied, the new subkey counted. Layered-key bits are kept where this
    /// hive has version 1.6.
    ///
    /// # Errors
    /// A subkey of this name is there already; damage in the source; no room.
    pub fn graft(&mut self, parent: KeyId, name: &[u16], source: Key<'_>, now: u64) -> Result<Counts> {
        self.transact(|editor| {
            if let Some(existing) = editor.key(parent)?.subkey_units(name.iter().copied())? {
                return Err(Error::AlreadyExists {
                    path: existing.name().to_string(),
                });
            }
            let mut walk = Walk::ordered(source, Strictness::Strict, Order::Canonical);
            let mut counts = Counts::default();
            let mut open: Vec<KeyId> = vec![parent];
            let mut times: Vec<(KeyId, u64)> = Vec::new();
            while let Some(key) = walk.next_key()? {
                open.truncate(walk.depth() + 1);
                let own: Vec<u16> = key.name().units().collect();
                let class: Option<Vec<u16>> = key.class()?.map(|class| class.units().collect());
                let new = NewKey {
                    class: class.as_deref(),
                    security: key.security()?,
                    volatile: key.is_volatile(),
                    ..NewKey::default()
                };
                let above = open.last().copied().unwrap_or(parent);
                let made = editor
                    .create_key(above, if counts.keys == 0 { name } else { &own }, new, now)?
                    .id();
                editor.set_flags(made, key.flags(), key.user_flags(), key.layer_flags(), now)?;
                walk.values(&key, |value, data| {
                    let name: Vec<u16> = value.name().units().collect();
                    counts.values += 1;
                    editor.set_value(made, &name, value.data_type(), &data.to_cow(), now)
                })?;
                counts.keys += 1;
                times.push((made, key.last_written()));
                open.push(made);
            }
            // Last, as making a subkey touches its parent.
            times
                .into_iter()
                .try_for_each(|(key, time)| editor.set_last_written(key, time))?;
            Ok(counts)
        })
    }
}
