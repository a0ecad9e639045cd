// SPDX-License-Identifier: GPL-3.0-or-later
//! Every entry of a medium, in an order that is always the same, with an end even where the medium has none.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::vec;

use super::limits::{MAX_DEPTH, MAX_WALK_ENTRIES, MAX_WALK_FAULTS};
use super::{Entry, Medium, MediumError};

/// What [`Medium::walk`] gives.
///
/// A directory comes before its own entries; entries of one directory come sorted by name. At most
/// [`MAX_WALK_ENTRIES`] entries, [`MAX_WALK_FAULTS`] faults and [`MAX_DEPTH`] directories in depth are given; each
/// directory of the medium is entered once, a second way to it is a fault.
#[derive(Debug)]
pub struct Walk {
    medium: Medium,
    levels: Vec<vec::IntoIter<Entry>>,
    entered: HashMap<(u64, u64), String>,
    pending: Option<Entry>,
    entries_left: usize,
    faults_left: usize,
}

impl Walk {
    pub(super) fn new(medium: Medium) -> Self {
        let pending = Some(medium.root());
        Self {
            medium,
            levels: Vec::new(),
            entered: HashMap::new(),
            pending,
            entries_left: MAX_WALK_ENTRIES,
            faults_left: MAX_WALK_FAULTS,
        }
    }

    /// Reads a directory and goes on inside it.
    fn enter(&mut self, directory: &Entry) -> Result<(), MediumError> {
        if self.levels.len() > MAX_DEPTH {
            return Err(self.limit(directory, MAX_DEPTH, "directories below one another"));
        }
        if let Some(identity) = self.medium.files().identity(directory) {
            match self.entered.entry(identity) {
                MapEntry::Occupied(first) => {
                    return Err(MediumError::DirectoryMetTwice {
                        path: self.medium.path().to_owned(),
                        directory: directory.path.clone(),
                        first: first.get().clone(),
                    });
                }
                MapEntry::Vacant(place) => {
                    place.insert(directory.path.clone());
                }
            }
        }
        let entries = self.medium.read_entries(directory)?;
        self.levels.push(entries.into_iter());
        Ok(())
    }

    fn limit(&self, entry: &Entry, limit: usize, unit: &'static str) -> MediumError {
        MediumError::Limit {
            path: self.medium.path().to_owned(),
            subject: format!("the directory /{}", entry.path),
            limit: limit as u64,
            unit,
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Entry, MediumError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(directory) = self.pending.take()
            && let Err(error) = self.enter(&directory)
        {
            if self.faults_left == 0 {
                self.levels.clear();
                return Some(Err(self.limit(&directory, MAX_WALK_FAULTS, "faults on a medium")));
            }
            self.faults_left -= 1;
            return Some(Err(error));
        }
        loop {
            match self.levels.last_mut()?.next() {
                None => {
                    self.levels.pop();
                }
                Some(entry) if self.entries_left == 0 => {
                    self.levels.clear();
                    return Some(Err(self.limit(&entry, MAX_WALK_ENTRIES, "entries on a medium")));
                }
                Some(entry) => {
                    self.entries_left -= 1;
                    if entry.is_directory() {
                        self.pending = Some(entry.clone());
                    }
                    return Some(Ok(entry));
                }
            }
        }
    }
}
