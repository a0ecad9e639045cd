// SPDX-License-Identifier: GPL-3.0-or-later
//! A process's handle table.

use std::sync::{Arc, PoisonError, RwLock};

use super::Object;
use crate::status::Status;

/// A handle as a program holds it: a multiple of four. The two low bits are the program's to use.
pub type Handle = u64;

/// What a handle refers to.
#[derive(Clone)]
pub struct HandleEntry {
    /// The object.
    pub object: Arc<Object>,
    /// The access that was granted.
    pub access: u32,
    /// Whether a child process may inherit it.
    pub inherit: bool,
    /// Whether `NtClose` refuses it.
    pub protected: bool,
}

/// The most handles of a process (NT's own limit).
const MAX_HANDLES: usize = 1 << 24;

#[derive(Default)]
struct Table {
    entries: Vec<Option<HandleEntry>>,
    free: Vec<usize>,
}

/// The handles of a process.
#[derive(Default)]
pub struct HandleTable(RwLock<Table>);

fn index(handle: Handle) -> Option<usize> {
    // NT looks at 32 bits only and ignores the two lowest.
    usize::try_from((handle & 0xffff_fffc) / 4).ok()?.checked_sub(1)
}

impl HandleTable {
    /// Adds a handle to `object`.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` when the table is full.
    pub fn insert(&self, object: Arc<Object>, access: u32, inherit: bool) -> Result<Handle, Status> {
        let entry = HandleEntry {
            object,
            access,
            inherit,
            protected: false,
        };
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = match table.free.pop() {
            Some(index) => {
                table.entries[index] = Some(entry);
                index
            }
            None if table.entries.len() < MAX_HANDLES => {
                table.entries.push(Some(entry));
                table.entries.len() - 1
            }
            None => return Err(Status::INSUFFICIENT_RESOURCES),
        };
        Ok((index as u64 + 1) * 4)
    }

    /// What `handle` refers to.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn entry(&self, handle: Handle) -> Result<HandleEntry, Status> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = index(handle).and_then(|index| table.entries.get(index)?.clone());
        entry.ok_or(Status::INVALID_HANDLE)
    }

    /// The object of `handle`.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn object(&self, handle: Handle) -> Result<Arc<Object>, Status> {
        Ok(self.entry(handle)?.object)
    }

    /// Closes `handle`; gives its object, whose last reference the caller may drop outside every lock.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; NT's `HANDLE_NOT_CLOSABLE` for a protected one.
    pub fn close(&self, handle: Handle) -> Result<Arc<Object>, Status> {
        const HANDLE_NOT_CLOSABLE: Status = Status(0xc000_0235);
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = index(handle).ok_or(Status::INVALID_HANDLE)?;
        let entry = table.entries.get_mut(index).ok_or(Status::INVALID_HANDLE)?;
        if entry.as_ref().is_some_and(|entry| entry.protected) {
            return Err(HANDLE_NOT_CLOSABLE);
        }
        let closed = entry.take().ok_or(Status::INVALID_HANDLE)?;
        table.free.push(index);
        Ok(closed.object)
    }

    /// Sets whether a handle is inherited and whether it may be closed.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn set_flags(&self, handle: Handle, inherit: bool, protected: bool) -> Result<(), Status> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let entry = index(handle).and_then(|index| table.entries.get_mut(index)?.as_mut());
        let entry = entry.ok_or(Status::INVALID_HANDLE)?;
        (entry.inherit, entry.protected) = (inherit, protected);
        Ok(())
    }

    /// How many handles are open.
    #[must_use]
    pub fn count(&self) -> usize {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.entries.len() - table.free.len()
    }

    /// Every open handle with its entry.
    #[must_use]
    pub fn all(&self) -> Vec<(Handle, HandleEntry)> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entries = table.entries.iter().enumerate();
        entries
            .filter_map(|(index, entry)| Some(((index as u64 + 1) * 4, entry.clone()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Dispatcher};
    use super::*;

    #[test]
    fn a_closed_handle_is_invalid_and_a_protected_one_stays() {
        let dispatcher = Arc::new(Dispatcher::default());
        let table = HandleTable::default();
        let handle = table
            .insert(Object::new(&dispatcher, Body::Directory, None), 1, false)
            .expect("room");
        assert_eq!(handle % 4, 0);
        assert!(table.entry(handle | 3).is_ok(), "the two low bits are the program's");
        table.set_flags(handle, true, true).expect("open");
        assert_eq!(table.close(handle).err(), Some(Status(0xc000_0235)));
        table.set_flags(handle, false, false).expect("open");
        assert!(table.close(handle).is_ok());
        assert_eq!(table.close(handle).err(), Some(Status::INVALID_HANDLE));
        assert_eq!(table.entry(0).err(), Some(Status::INVALID_HANDLE));
        assert_eq!(table.count(), 0);
    }
}
