// SPDX-License-Identifier: GPL-3.0-or-later
//! Walking a tree of keys without ever going round in a circle, and counting what is in it. Damage is
//! reported with its key path and file offset; a strict walk stops at the first, the other goes on.

use crate::error::{Error, Result};
use crate::format::CELL_ALIGN_BYTES;
use crate::key::Key;
use crate::name::Name;
use crate::reader::{Cells, MAX_DEPTH, file_offset};
use crate::subkeys::Subkeys;
use crate::value::{Data, Value};

/// What happens at damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strictness {
    /// The first fault ends the work with an error.
    #[default]
    Strict,
    /// Each fault is reported; what cannot be read is left out, all else goes on.
    WalkOn,
}

/// How many faults are kept in full; all are counted.
pub const MAX_DAMAGE_KEPT: usize = 1000;

/// Faults that were walked over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageReport {
    /// The first [`MAX_DAMAGE_KEPT`], each an [`Error::InKey`].
    pub found: Vec<Error>,
    /// How many there were.
    pub nr_found: u64,
}

impl DamageReport {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.nr_found == 0
    }

    pub(crate) fn push(&mut self, error: Error) {
        self.nr_found += 1;
        if self.found.len() < MAX_DAMAGE_KEPT {
            self.found.push(error);
        }
    }
}

/// One bit for each place where a cell can begin.
pub(crate) struct CellSet(Vec<u64>);

impl CellSet {
    pub(crate) fn of(cells: Cells<'_>) -> Self {
        Self(vec![0; cells.bins.len().div_ceil(CELL_ALIGN_BYTES * 64)])
    }

    /// Adds a cell offset; whether it is new. One outside the bins is never in.
    #[inline]
    pub(crate) fn insert(&mut self, offset: u32) -> bool {
        let bit = offset as usize / CELL_ALIGN_BYTES;
        let Some(word) = self.0.get_mut(bit / 64) else {
            return true;
        };
        let mask = 1 << (bit % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    pub(crate) fn contains(&self, offset: u32) -> bool {
        let bit = offset as usize / CELL_ALIGN_BYTES;
        self.0.get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }
}

/// The order in which a walk visits the subkeys of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As the lists have them.
    #[default]
    Stored,
    /// NT's order, whatever the lists say. Two subkeys of one name are damage.
    Canonical,
}

enum Children<'a> {
    /// With the name that came last.
    Stored(Subkeys<'a>, Option<Name<'a>>),
    Sorted(std::vec::IntoIter<Key<'a>>),
}

/// A depth-first walk, parents first. It does not allocate for a key of a sound hive; its memory is one
/// bit for each 8 bytes of the hive and one frame a level, of at most [`MAX_DEPTH`]. No key, list, value
/// or big data record is entered twice, so that its time is bounded by the size of the hive.
pub struct Walk<'a> {
    start: Option<Key<'a>>,
    frames: Vec<(Key<'a>, Children<'a>)>,
    seen: CellSet,
    order: Order,
    strictness: Strictness,
    damage: DamageReport,
}

impl<'a> Walk<'a> {
    /// A walk of `start` and everything below it, in stored order.
    #[must_use]
    pub fn new(start: Key<'a>, strictness: Strictness) -> Self {
        Self::ordered(start, strictness, Order::Stored)
    }

    /// A walk in the order that is asked for.
    #[must_use]
    pub fn ordered(start: Key<'a>, strictness: Strictness, order: Order) -> Self {
        Self {
            start: Some(start),
            frames: Vec::new(),
            seen: CellSet::of(start.cells),
            order,
            strictness,
            damage: DamageReport::default(),
        }
    }

    /// The next key: the start first, at last `None`.
    ///
    /// # Errors
    /// In a strict walk the first fault, as an [`Error::InKey`].
    #[inline]
    pub fn next_key(&mut self) -> Result<Option<Key<'a>>> {
        loop {
            if let Some(start) = self.start.take() {
                self.enter(start)?;
                return Ok(Some(start));
            }
            let Some((parent, children)) = self.frames.last_mut() else {
                return Ok(None);
            };
            let parent_offset = parent.offset;
            let next = match children {
                Children::Stored(subkeys, last) => {
                    let next = subkeys.next_with(|leaf| self.seen.insert(leaf));
                    if let Some(Ok(key)) = next {
                        let name = key.name();
                        let same = last.is_some_and(|last| last.len() == name.len() && last.cmp_upcase(name).is_eq());
                        *last = Some(name);
                        if same && !self.seen.contains(key.offset) {
                            self.report(Error::DuplicateName { name: name.to_string() })?;
                            continue;
                        }
                    }
                    next
                }
                Children::Sorted(keys) => keys.next().map(Ok),
            };
            match next {
                None => {
                    self.frames.pop();
                }
                Some(Err(error)) => self.report(error)?,
                Some(Ok(key)) if self.seen.contains(key.offset) => {
                    self.report(Error::KeyReachedTwice {
                        offset: key.file_offset(),
                    })?;
                }
                Some(Ok(key)) if self.frames.len() >= MAX_DEPTH => {
                    self.report(Error::TooDeep {
                        offset: key.file_offset(),
                        limit: MAX_DEPTH,
                    })?;
                }
                Some(Ok(key)) => {
                    self.enter(key)?;
                    if key.parent_offset() != parent_offset {
                        self.report(wrong_parent(&key, parent_offset))?;
                    }
                    return Ok(Some(key));
                }
            }
        }
    }

    fn enter(&mut self, key: Key<'a>) -> Result<()> {
        self.seen.insert(key.offset);
        self.frames
            .push((key, Children::Stored(Subkeys::none(key.cells), None)));
        let list = key.node.subkeys.get();
        if key.nr_subkeys() != 0 && !self.seen.insert(list) {
            return self.report(Error::ListReachedTwice {
                offset: file_offset(list),
            });
        }
        let children = match key.subkeys() {
            Ok(subkeys) => match self.order {
                Order::Canonical if !is_sorted(&subkeys, &self.seen) => self.sorted(subkeys)?,
                _ => Children::Stored(subkeys, None),
            },
            Err(error) => return self.report(error),
        };
        if let Some((_, place)) = self.frames.last_mut() {
            *place = children;
        }
        Ok(())
    }

    #[cold]
    fn sorted(&mut self, mut subkeys: Subkeys<'a>) -> Result<Children<'a>> {
        let mut keys = Vec::new();
        while let Some(key) = subkeys.next_with(|leaf| self.seen.insert(leaf)) {
            match key {
                Ok(key) => keys.push(key),
                Err(error) => self.report(error)?,
            }
        }
        // Which of two equal names stays must not depend on their order in the list; the bytes decide.
        keys.sort_by(|a, b| {
            let by_name = a.name().cmp_upcase(b.name());
            by_name
                .then_with(|| a.name().as_bytes().cmp(b.name().as_bytes()))
                .then(a.offset.cmp(&b.offset))
        });
        let mut unique: Vec<Key<'a>> = Vec::with_capacity(keys.len());
        for key in keys {
            match unique.last() {
                Some(last) if last.offset == key.offset => {
                    self.report(Error::KeyReachedTwice {
                        offset: key.file_offset(),
                    })?;
                }
                Some(last) if last.name().cmp_upcase(key.name()).is_eq() => {
                    self.report(Error::DuplicateName {
                        name: key.name().to_string(),
                    })?;
                }
                _ => unique.push(key),
            }
        }
        Ok(Children::Sorted(unique.into_iter()))
    }

    /// Calls `each` for every value of `key` that can be read, with its data, in stored order; reports
    /// the others.
    ///
    /// # Errors
    /// What `each` returns; in a strict walk, the first fault.
    #[inline]
    pub fn values(&mut self, key: &Key<'a>, mut each: impl FnMut(Value<'a>, Data<'a>) -> Result<()>) -> Result<()> {
        if key.nr_values() == 0 {
            return Ok(());
        }
        let list = key.node.values.get();
        if !self.seen.insert(list) {
            return self.report(Error::ListReachedTwice {
                offset: file_offset(list),
            });
        }
        let values = match key.values() {
            Ok(values) => values,
            Err(error) => return self.report(error),
        };
        for value in values {
            let value = match value {
                Ok(value) if self.seen.insert(value.offset) => value,
                Ok(value) => {
                    self.report(Error::ListReachedTwice {
                        offset: value.file_offset(),
                    })?;
                    continue;
                }
                Err(error) => {
                    self.report(error)?;
                    continue;
                }
            };
            if value.is_in_segments() && !self.seen.insert(value.data_cell()) {
                self.report(Error::ListReachedTwice {
                    offset: file_offset(value.data_cell()),
                })?;
                continue;
            }
            match value.data() {
                Ok(data) => each(value, data)?,
                Err(error) => self.report(error)?,
            }
        }
        Ok(())
    }

    /// Takes a fault found in the current key: for what a caller reads of it, such as its values.
    ///
    /// # Errors
    /// In a strict walk, that fault.
    pub fn report(&mut self, error: Error) -> Result<()> {
        let error = error.in_key(|| self.path());
        if self.strictness == Strictness::Strict {
            return Err(error);
        }
        self.damage.push(error);
        Ok(())
    }

    /// The path of the current key from the start, which itself is the empty path.
    #[must_use]
    pub fn path(&self) -> String {
        let names = self.frames.iter().skip(1).map(|(key, _)| key.name().to_string());
        names.collect::<Vec<_>>().join("\\")
    }

    /// How deep the current key is below the start.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.frames.len().saturating_sub(1)
    }

    /// What was walked over, at the end.
    #[must_use]
    pub fn into_damage(self) -> DamageReport {
        self.damage
    }
}

/// Whether subkeys come in strictly ascending order, with nothing unreadable among them.
fn is_sorted(subkeys: &Subkeys<'_>, seen: &CellSet) -> bool {
    let mut last: Option<Key<'_>> = None;
    let mut subkeys = subkeys.clone();
    while let Some(key) = subkeys.next_with(|leaf| !seen.contains(leaf)) {
        let Ok(key) = key else { return false };
        if last.is_some_and(|last| last.name().cmp_upcase(key.name()).is_ge()) {
            return false;
        }
        last = Some(key);
    }
    true
}

/// The fault of a key that names another parent than the one that lists it.
pub(crate) fn wrong_parent(key: &Key<'_>, expected: u32) -> Error {
    Error::Mismatch {
        what: "the parent's cell offset in the key node",
        offset: key.file_offset(),
        expected: u64::from(expected),
        actual: u64::from(key.parent_offset()),
    }
}

/// How much is in a tree of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys, the start of the tree included.
    pub keys: u64,
    /// Values whose node and data can be read.
    pub values: u64,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.values += other.values;
    }
}

/// Counts a tree of keys, `start` included, and checks on the way that all of it can be read: names,
/// classes, security descriptors, values and their data.
///
/// # Errors
/// When strict, the first fault.
pub fn count(start: Key<'_>, strictness: Strictness) -> Result<(Counts, DamageReport)> {
    let mut walk = Walk::new(start, strictness);
    let mut counts = Counts::default();
    let mut last_security = None;
    while let Some(key) = walk.next_key()? {
        counts.keys += 1;
        if let Err(error) = key.class() {
            walk.report(error)?;
        }
        // Most keys have their neighbour's descriptor.
        if last_security != Some(key.node.security.get()) {
            match key.security() {
                Ok(_) => last_security = Some(key.node.security.get()),
                Err(error) => walk.report(error)?,
            }
        }
        walk.values(&key, |_, _| {
            counts.values += 1;
            Ok(())
        })?;
    }
    Ok((counts, walk.into_damage()))
}
