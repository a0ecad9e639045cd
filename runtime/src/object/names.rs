// SPDX-License-Identifier: GPL-3.0-or-later
//! The object namespace: full names, compared without case.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Object;
use crate::status::Status;

/// A name as it is compared: upper case by NT's own table, so never changing in length.
#[must_use]
pub fn upcase(name: &str) -> String {
    let units: Vec<u16> = name.encode_utf16().map(hive::upcase::upcase_unit).collect();
    // The table keeps surrogates as they are, so pairs stay pairs.
    String::from_utf16_lossy(&units)
}

/// Names of objects. An object leaves the namespace with its last handle.
#[derive(Default)]
pub struct Namespace(Mutex<HashMap<String, Weak<Object>>>);

impl Namespace {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Object>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Object>> {
        self.lock().get(&upcase(name))?.upgrade()
    }

    /// Gives `name` to what `make` makes, or gives the object that has it already: the flag says which (true: new).
    ///
    /// # Errors
    /// What `make` gives.
    pub fn find_or_insert(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Arc<Object>, Status>,
    ) -> Result<(Arc<Object>, bool), Status> {
        let key = upcase(name);
        let mut names = self.lock();
        if let Some(object) = names.get(&key).and_then(Weak::upgrade) {
            return Ok((object, false));
        }
        let object = make()?;
        // A new object has no name yet.
        let _ = object.name.set(name.to_owned());
        names.insert(key, Arc::downgrade(&object));
        if names.len().is_multiple_of(256) {
            names.retain(|_, object| object.strong_count() > 0);
        }
        Ok((object, true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Dispatcher};
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_and_goes_with_the_object() {
        let dispatcher = Arc::new(Dispatcher::default());
        let names = Namespace::default();
        let make = || Ok(Object::new(&dispatcher, Body::Directory, None));
        let (object, new) = names.find_or_insert("\\BaseNamedObjects\\Straße", make).expect("made");
        assert!(new);
        let (same, new) = names.find_or_insert("\\basenamedobjects\\STRAßE", make).expect("found");
        assert!(!new && Arc::ptr_eq(&object, &same));
        drop((object, same));
        assert!(names.find("\\BaseNamedObjects\\Straße").is_none());
    }
}
