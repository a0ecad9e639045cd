// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys and values in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::object::upcase;
use crate::status::Status;

/// The deepest path (NT's own limit).
const MAX_DEPTH: usize = 512;
/// The longest key name, in UTF-16 units.
const MAX_NAME_UNITS: usize = 255;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Its name as it was set; empty for the default value.
    pub name: String,
    /// `REG_*`.
    pub kind: u32,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A key.
#[derive(Debug, Default)]
pub struct KeyNode {
    /// Its name as it was created.
    pub name: String,
    /// Its class.
    pub class: String,
    written: AtomicU64,
    deleted: AtomicBool,
    subkeys: Mutex<BTreeMap<String, Arc<KeyNode>>>,
    values: Mutex<BTreeMap<String, Value>>,
}

impl KeyNode {
    fn named(name: &str, class: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            class: class.to_owned(),
            ..Self::default()
        })
    }

    fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
        of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails when the key was deleted.
    pub(super) fn alive(&self) -> Result<(), Status> {
        if self.deleted.load(Ordering::SeqCst) {
            Err(Status::KEY_DELETED)
        } else {
            Ok(())
        }
    }

    /// When it was last changed, in NT time.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    pub(super) fn touch(&self, now: u64) {
        self.written.store(now, Ordering::SeqCst);
    }

    /// The value of this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value> {
        Self::lock(&self.values).get(&upcase(name)).cloned()
    }

    /// Sets a value; the name keeps the spelling of the first time.
    pub fn set_value(&self, value: Value) {
        let mut values = Self::lock(&self.values);
        let entry = values.entry(upcase(&value.name)).or_insert_with(|| Value {
            data: Vec::new(),
            ..value.clone()
        });
        (entry.kind, entry.data) = (value.kind, value.data);
    }

    /// Removes a value; whether it was there.
    pub fn remove_value(&self, name: &str) -> bool {
        Self::lock(&self.values).remove(&upcase(name)).is_some()
    }

    /// The values in order of their names.
    #[must_use]
    pub fn values(&self) -> Vec<Value> {
        Self::lock(&self.values).values().cloned().collect()
    }

    /// The subkeys in order of their names.
    #[must_use]
    pub fn subkeys(&self) -> Vec<Arc<Self>> {
        Self::lock(&self.subkeys).values().cloned().collect()
    }

    fn subkey(&self, name: &str) -> Option<Arc<Self>> {
        Self::lock(&self.subkeys).get(&upcase(name)).cloned()
    }
}

/// The registry: `\Registry` and everything below.
#[derive(Debug, Default)]
pub struct Registry {
    root: Arc<KeyNode>,
}

fn components(path: &str) -> Result<Vec<&str>, Status> {
    let parts: Vec<&str> = path.split('\\').filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_DEPTH || parts.iter().any(|part| part.encode_utf16().count() > MAX_NAME_UNITS) {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    Ok(parts)
}

impl Registry {
    /// The part of a full path below `\Registry`.
    pub(super) fn below_root(path: &str) -> Option<&str> {
        const ROOT: &str = "\\REGISTRY";
        let head = path.get(..ROOT.len())?;
        let rest = &path[ROOT.len()..];
        (head.eq_ignore_ascii_case(ROOT) && (rest.is_empty() || rest.starts_with('\\'))).then_some(rest)
    }

    /// `\Registry` itself.
    #[must_use]
    pub fn root(&self) -> &Arc<KeyNode> {
        &self.root
    }

    /// The key at `path` below `from`.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND`, `KEY_DELETED`, `OBJECT_NAME_INVALID`.
    pub fn open(&self, from: &Arc<KeyNode>, path: &str) -> Result<Arc<KeyNode>, Status> {
        from.alive()?;
        let mut key = Arc::clone(from);
        for part in components(path)? {
            key = key.subkey(part).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        }
        Ok(key)
    }

    /// The key at `path` below `from`, made when only its last component is missing; the flag says whether it was.
    ///
    /// # Errors
    /// As [`Registry::open`], when a key on the way is missing.
    pub fn create(
        &self,
        from: &Arc<KeyNode>,
        path: &str,
        class: &str,
        now: u64,
    ) -> Result<(Arc<KeyNode>, bool), Status> {
        from.alive()?;
        let parts = components(path)?;
        let Some((last, way)) = parts.split_last() else {
            return Ok((Arc::clone(from), false));
        };
        let mut parent = Arc::clone(from);
        for part in way {
            parent = parent.subkey(part).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        }
        let mut subkeys = KeyNode::lock(&parent.subkeys);
        if let Some(key) = subkeys.get(&upcase(last)) {
            return Ok((Arc::clone(key), false));
        }
        let key = KeyNode::named(last, class);
        key.touch(now);
        parent.touch(now);
        subkeys.insert(upcase(last), Arc::clone(&key));
        Ok((key, true))
    }

    /// Makes a key with every key on its way, for what a world has from the start.
    ///
    /// # Errors
    /// `OBJECT_NAME_INVALID`.
    pub fn seed(&self, path: &str, values: &[(&str, u32, Vec<u8>)]) -> Result<(), Status> {
        let mut key = Arc::clone(&self.root);
        for part in components(path)? {
            key = self.create(&key, part, "", 0)?.0;
        }
        for (name, kind, data) in values {
            key.set_value(Value {
                name: (*name).to_owned(),
                kind: *kind,
                data: data.clone(),
            });
        }
        Ok(())
    }

    /// Deletes the key at `path` below the root.
    ///
    /// # Errors
    /// `CANNOT_DELETE` when it has subkeys or is a root key.
    pub fn delete(&self, path: &str, key: &Arc<KeyNode>) -> Result<(), Status> {
        key.alive()?;
        let parts = components(path)?;
        let Some((last, way)) = parts.split_last().filter(|(_, way)| !way.is_empty()) else {
            return Err(Status::CANNOT_DELETE);
        };
        let parent = self.open(&self.root, &way.join("\\"))?;
        if !KeyNode::lock(&key.subkeys).is_empty() {
            return Err(Status::CANNOT_DELETE);
        }
        let mut siblings = KeyNode::lock(&parent.subkeys);
        if siblings.get(&upcase(last)).is_some_and(|found| Arc::ptr_eq(found, key)) {
            siblings.remove(&upcase(last));
        }
        key.deleted.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// What every world needs before its own hives are read: version, session manager, code pages.
    ///
    /// # Errors
    /// None in practice: every name is valid.
    pub fn with_minimum() -> Result<Self, Status> {
        let text = |text: &str| {
            (
                1,
                text.encode_utf16()
                    .chain([0])
                    .flat_map(u16::to_le_bytes)
                    .collect::<Vec<u8>>(),
            )
        };
        let number = |number: u32| (4, number.to_le_bytes().to_vec());
        let registry = Self::default();
        let strings = |entries: &[(&'static str, &str)]| -> Vec<(&'static str, u32, Vec<u8>)> {
            entries
                .iter()
                .map(|(name, value)| (*name, text(value).0, text(value).1))
                .collect()
        };
        let mut version = strings(&[
            ("CurrentVersion", "6.3"),
            ("CurrentBuildNumber", "19045"),
            ("CurrentBuild", "19045"),
            ("ProductName", "vodka free world"),
            ("CSDVersion", ""),
            ("SystemRoot", "C:\\windows"),
        ]);
        version.push(("CurrentMajorVersionNumber", number(10).0, number(10).1));
        version.push(("CurrentMinorVersionNumber", number(0).0, number(0).1));
        registry.seed("Machine\\Software\\Microsoft\\Windows NT\\CurrentVersion", &version)?;
        let control = "Machine\\System\\CurrentControlSet\\Control";
        registry.seed(
            &format!("{control}\\Nls\\CodePage"),
            &strings(&[("ACP", "1252"), ("OEMCP", "437"), ("MACCP", "10000")]),
        )?;
        registry.seed(
            &format!("{control}\\Nls\\Language"),
            &strings(&[("Default", "0409"), ("InstallLanguage", "0409")]),
        )?;
        for path in [
            "Session Manager\\KnownDLLs",
            "Session Manager\\Environment",
            "ProductOptions",
            "TimeZoneInformation",
        ] {
            registry.seed(&format!("{control}\\{path}"), &[])?;
        }
        for path in [
            "Machine\\Software\\Classes",
            "Machine\\Hardware",
            "User\\.Default\\Software",
            "User\\S-1-5-18\\Software",
            "User\\S-1-5-21-0-0-0-1000\\Software",
            "User\\S-1-5-21-0-0-0-1000\\Control Panel\\International",
        ] {
            registry.seed(path, &[])?;
        }
        Ok(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_spelling_and_are_found_without_case() {
        let registry = Registry::with_minimum().expect("valid names");
        let key = registry
            .open(
                registry.root(),
                "machine\\SOFTWARE\\microsoft\\WINDOWS nt\\CURRENTversion",
            )
            .expect("seeded");
        assert_eq!(key.name, "CurrentVersion");
        assert_eq!(key.value("csdVERSION").expect("seeded").data, [0, 0]);
        let (new, made) = registry.create(&key, "Sub", "", 5).expect("room");
        assert!(made && new.written() == 5);
        assert_eq!(
            registry.create(&key, "No\\Such", "", 5).err(),
            Some(Status::OBJECT_NAME_NOT_FOUND)
        );
    }

    #[test]
    fn a_deleted_key_is_gone_and_one_with_subkeys_stays() {
        let registry = Registry::default();
        registry.seed("A\\B\\C", &[]).expect("valid names");
        let key = |path| registry.open(registry.root(), path);
        let b = key("A\\B").expect("there");
        assert_eq!(registry.delete("A\\B", &b), Err(Status::CANNOT_DELETE));
        let c = key("A\\B\\C").expect("there");
        registry.delete("A\\B\\C", &c).expect("no subkeys");
        assert_eq!(key("A\\B\\C").err(), Some(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(registry.open(&c, "").err(), Some(Status::KEY_DELETED));
    }
}
