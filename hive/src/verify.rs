// SPDX-License-Identifier: GPL-3.0-or-later
//! Checking a hive as a whole: that cells fill their bins, that each is owned exactly once, that lists
//! are in order with right hashes, that descriptors are counted and in a ring. What passes here may be
//! changed in place.

use std::collections::BTreeMap;
use std::fmt;

use crate::edit::{each_cell, fast_leaf_hint, ring};
use crate::error::{Error, Result};
use crate::format::{BigData, NO_CELL};
use crate::key::{Key, MAX_KEY_NAME_UNITS, security_at};
use crate::reader::{Cells, Hive, file_offset};
use crate::subkeys::{List, element_at};
use crate::value::{Data, Value};
use crate::walk::{CellSet, Counts, MAX_DAMAGE_KEPT, Strictness, Walk};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Harmless: a lost cell, a maximum that is too low, a hint that only slows a lookup down.
    Note,
    /// Something cannot be read, or would be found wrongly, or a change would destroy something.
    Damage,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What and where it is.
    pub error: Error,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Damage => "damage",
        };
        write!(f, "{severity}: {}", self.error)
    }
}

/// What the verifier says of a hive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// What could be read.
    pub counts: Counts,
    /// The first 1,000 findings, in the order they were made.
    pub findings: Vec<Finding>,
    /// How many findings are damage.
    pub nr_damage: u64,
    /// How many findings are notes.
    pub nr_notes: u64,
    /// Cells in use that nothing refers to.
    pub nr_lost_cells: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Bytes in free cells.
    pub free_bytes: u64,
    /// How many security descriptors there are.
    pub nr_security: u64,
}

impl VerifyReport {
    /// Whether there is no damage.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.nr_damage == 0
    }

    /// Whether there is nothing to say at all.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_sound() && self.nr_notes == 0
    }

    /// The first damage.
    #[must_use]
    pub fn into_first_error(self) -> Option<Error> {
        self.findings
            .into_iter()
            .find(|finding| finding.severity == Severity::Damage)
            .map(|finding| finding.error)
    }

    fn push(&mut self, severity: Severity, error: Error) {
        match severity {
            Severity::Note => self.nr_notes += 1,
            Severity::Damage => self.nr_damage += 1,
        }
        if self.findings.len() < MAX_DAMAGE_KEPT {
            self.findings.push(Finding { severity, error });
        }
    }
}

/// Verifies a file: its base block and bins, then everything in it.
///
/// # Errors
/// Where it is no hive at all; everything else is in the report.
pub fn verify(bytes: &[u8]) -> Result<VerifyReport> {
    let (hive, damage) = Hive::open_damaged(bytes)?;
    let mut report = VerifyReport::default();
    damage
        .errors
        .into_iter()
        .for_each(|error| report.push(Severity::Damage, error));
    verify_into(&hive, report)
}

/// Verifies the cells of an open hive.
#[must_use]
pub fn verify_hive(hive: &Hive<'_>) -> VerifyReport {
    let fallback = |error| {
        let mut report = VerifyReport::default();
        report.push(Severity::Damage, error);
        report
    };
    verify_into(hive, VerifyReport::default()).unwrap_or_else(fallback)
}

struct Verifier<'a> {
    cells: Cells<'a>,
    in_use: CellSet,
    owned: CellSet,
    security: BTreeMap<u32, u32>,
    report: VerifyReport,
}

fn verify_into(hive: &Hive<'_>, report: VerifyReport) -> Result<VerifyReport> {
    let cells = hive.cells;
    let mut verifier = Verifier {
        cells,
        in_use: CellSet::of(cells),
        owned: CellSet::of(cells),
        security: BTreeMap::new(),
        report,
    };
    let in_use = &mut verifier.in_use;
    let mut free_bytes = 0;
    let tiled = each_cell(cells, |offset, size| {
        if size < 0 {
            in_use.insert(offset);
        } else {
            free_bytes += u64::from(size.unsigned_abs());
        }
    });
    verifier.report.free_bytes = free_bytes;
    let whole = tiled.is_ok();
    if let Err(error) = tiled {
        verifier.report.push(Severity::Damage, error);
    }
    let mut walk = Walk::new(hive.root()?, Strictness::WalkOn);
    while let Some(key) = walk.next_key()? {
        verifier.report.counts.keys += 1;
        let mut found = Vec::new();
        verifier.key(&key, &mut found);
        let mut values = Vec::new();
        walk.values(&key, |value, data| {
            values.push((value, data));
            Ok(())
        })?;
        verifier.report.counts.values += values.len() as u64;
        for (value, data) in &values {
            verifier.value(&key, value, data, &mut found);
        }
        for (severity, error) in found {
            verifier.report.push(severity, error.in_key(|| walk.path()));
        }
    }
    let damage = walk.into_damage();
    verifier.report.nr_damage += damage.nr_found - damage.found.len() as u64;
    damage
        .found
        .into_iter()
        .for_each(|error| verifier.report.push(Severity::Damage, error));
    verifier.security(hive)?;
    if whole {
        verifier.lost_cells()?;
    }
    Ok(verifier.report)
}

type Found = Vec<(Severity, Error)>;

impl Verifier<'_> {
    /// Makes a key or value the owner of a cell.
    fn own(&mut self, offset: u32, what: &'static str, found: &mut Found) {
        if !self.in_use.contains(offset) {
            // A reference into the middle of a cell, or to a free one.
            let size = self
                .cells
                .bins
                .get(offset as usize..)
                .and_then(<[u8]>::first_chunk::<4>);
            let size = size.map_or(0, |bytes| i32::from_le_bytes(*bytes));
            found.push((
                Severity::Damage,
                Error::CellNotInUse {
                    what,
                    offset: file_offset(offset),
                    size,
                },
            ));
        } else if !self.owned.insert(offset) {
            found.push((
                Severity::Damage,
                Error::ListReachedTwice {
                    offset: file_offset(offset),
                },
            ));
        }
    }

    fn key(&mut self, key: &Key<'_>, found: &mut Found) {
        self.own(key.offset, "key node", found);
        let name = key.name();
        let is_root = key.flags() & crate::format::key_flag::HIVE_ENTRY != 0;
        if !is_root && (name.is_empty() || name.len() > MAX_KEY_NAME_UNITS || name.units().any(|u| u == 0x5c)) {
            let error = Error::InvalidName {
                what: "a key's name",
                actual: name.len(),
                limit: MAX_KEY_NAME_UNITS,
            };
            found.push((Severity::Note, error));
        }
        match key.class() {
            Ok(Some(_)) => self.own(key.node.class.get(), "class name", found),
            Ok(None) => {}
            Err(error) => found.push((Severity::Damage, error)),
        }
        let security = key.node.security.get();
        if security != NO_CELL {
            match key.security() {
                Ok(_) => *self.security.entry(security).or_default() += 1,
                Err(error) => found.push((Severity::Damage, error)),
            }
        }
        if key.nr_values() != 0 {
            self.own(key.node.values.get(), "value list", found);
        }
        if key.nr_subkeys() != 0 {
            self.subkeys(key, found);
        }
    }

    fn subkeys(&mut self, key: &Key<'_>, found: &mut Found) {
        let list = key.node.subkeys.get();
        // What cannot be read here, the walk reports.
        match List::at(self.cells, list) {
            Ok(List::Root(leaves)) => {
                self.own(list, "subkey list", found);
                let mut last = None;
                let mut element = 0;
                for leaf in leaves.chunks_exact(4).map(element_at) {
                    // A leaf that was entered before would make this quadratic.
                    if self.owned.contains(leaf) {
                        return found.push((
                            Severity::Damage,
                            Error::ListReachedTwice {
                                offset: file_offset(leaf),
                            },
                        ));
                    }
                    self.leaf(key, leaf, &mut last, &mut element, found);
                }
            }
            Ok(List::Leaf { .. }) if self.owned.contains(list) => {
                found.push((
                    Severity::Damage,
                    Error::ListReachedTwice {
                        offset: file_offset(list),
                    },
                ));
            }
            _ => self.leaf(key, list, &mut None, &mut 0, found),
        }
    }

    fn leaf<'a>(
        &mut self,
        owner: &Key<'a>,
        leaf: u32,
        last: &mut Option<Key<'a>>,
        element: &mut u64,
        found: &mut Found,
    ) {
        self.own(leaf, "subkey list", found);
        let Ok(List::Leaf {
            elements,
            stride,
            hashed,
        }) = List::at(owner.cells, leaf)
        else {
            return;
        };
        for bytes in elements.chunks_exact(stride) {
            let Ok(key) = Key::at(owner.cells, element_at(bytes)) else {
                continue;
            };
            let name = key.name();
            if last.is_some_and(|last| last.name().cmp_upcase(name).is_gt()) {
                let error = Error::NotInOrder {
                    offset: owner.file_offset(),
                    element: *element,
                };
                found.push((Severity::Damage, error));
            }
            let hint = bytes.get(4..8).and_then(<[u8]>::first_chunk::<4>).copied();
            let (expected, severity) = match hint {
                Some(_) if hashed => (name.hash().to_le_bytes(), Severity::Damage),
                // Only the first letters, and some writers keep another case or none.
                Some(hint) => {
                    let right = fast_leaf_hint(name);
                    (
                        if hint.eq_ignore_ascii_case(&right) { hint } else { right },
                        Severity::Note,
                    )
                }
                None => ([0; 4], Severity::Note),
            };
            if let Some(hint) = hint.filter(|hint| *hint != expected) {
                let error = Error::Mismatch {
                    what: "the hash or hint of a subkey in the list",
                    offset: file_offset(leaf),
                    expected: u64::from(u32::from_le_bytes(expected)),
                    actual: u64::from(u32::from_le_bytes(hint)),
                };
                found.push((severity, error));
            }
            let most = owner.node.max_subkey_name_bytes.get();
            if name.len() * 2 > usize::from(most) {
                found.push((
                    Severity::Note,
                    too_low("the longest subkey name", owner, name.len() * 2, most.into()),
                ));
            }
            *element += 1;
            *last = Some(key);
        }
    }

    fn value(&mut self, key: &Key<'_>, value: &Value<'_>, data: &Data<'_>, found: &mut Found) {
        self.own(value.offset, "value", found);
        let (name, max_name) = (value.name().len() * 2, key.node.max_value_name_bytes.get());
        if name > max_name as usize {
            found.push((Severity::Note, too_low("the longest value name", key, name, max_name)));
        }
        let max_data = key.node.max_value_data_bytes.get();
        if data.len() > max_data as usize {
            found.push((
                Severity::Note,
                too_low("the longest value data", key, data.len(), max_data),
            ));
        }
        match data {
            Data::Plain(bytes) if bytes.is_empty() || value.is_inline() => {}
            Data::Plain(_) => self.own(value.data_cell(), "value data", found),
            Data::Big(_) => {
                self.own(value.data_cell(), "big data", found);
                let Ok((node, _)) = self
                    .cells
                    .record::<BigData>(value.data_cell(), "big data", *b"db", "\"db\"")
                else {
                    return;
                };
                let (nr, list) = (usize::from(node.nr_segments.get()), node.segments.get());
                self.own(list, "list of big data segments", found);
                let segments = self.cells.cell(list, "list of big data segments").unwrap_or_default();
                for segment in segments.chunks_exact(4).take(nr) {
                    self.own(element_at(segment), "big data segment", found);
                }
            }
        }
    }

    fn security(&mut self, hive: &Hive<'_>) -> Result<()> {
        let mut found = Vec::new();
        let used = std::mem::take(&mut self.security);
        for (&cell, &nr) in &used {
            self.own(cell, "security descriptor", &mut found);
            let (node, _) = security_at(self.cells, cell)?;
            if node.nr_references.get() != nr {
                let error = Error::Mismatch {
                    what: "the number of references of the security descriptor",
                    offset: file_offset(cell),
                    expected: u64::from(nr),
                    actual: u64::from(node.nr_references.get()),
                };
                found.push((Severity::Damage, error));
            }
        }
        let first = hive.root()?.node.security.get();
        if first != NO_CELL {
            match ring(self.cells, first) {
                Ok(cells) => {
                    self.report.nr_security = cells.len() as u64;
                    for cell in &cells {
                        if !used.contains_key(cell) {
                            // In the ring, but no key has it.
                            self.own(*cell, "security descriptor", &mut found);
                            let what = "the number of keys that have the security descriptor in the ring";
                            let error = Error::Mismatch {
                                what,
                                offset: file_offset(*cell),
                                expected: 1,
                                actual: 0,
                            };
                            found.push((Severity::Note, error));
                        }
                    }
                    let ring: std::collections::HashSet<u32> = cells.into_iter().collect();
                    for cell in used.keys().filter(|cell| !ring.contains(cell)) {
                        let what = "the number of rings that the security descriptor is in";
                        let error = Error::Mismatch {
                            what,
                            offset: file_offset(*cell),
                            expected: 1,
                            actual: 0,
                        };
                        found.push((Severity::Damage, error));
                    }
                }
                Err(error) => found.push((Severity::Damage, error)),
            }
        }
        found
            .into_iter()
            .for_each(|(severity, error)| self.report.push(severity, error));
        Ok(())
    }

    fn lost_cells(&mut self) -> Result<()> {
        let mut lost = Vec::new();
        let (mut nr, mut bytes) = (0, 0);
        let owned = &self.owned;
        each_cell(self.cells, |offset, size| {
            if size < 0 && !owned.contains(offset) {
                nr += 1;
                bytes += u64::from(size.unsigned_abs());
                if lost.len() < MAX_DAMAGE_KEPT {
                    lost.push(offset);
                }
            }
        })?;
        (self.report.nr_lost_cells, self.report.lost_bytes) = (nr, bytes);
        for offset in lost {
            self.report.push(
                Severity::Note,
                Error::LostCell {
                    offset: file_offset(offset),
                },
            );
        }
        Ok(())
    }
}

fn too_low(what: &'static str, key: &Key<'_>, expected: usize, actual: u32) -> Error {
    Error::Mismatch {
        what,
        offset: key.file_offset(),
        expected: expected as u64,
        actual: u64::from(actual),
    }
}
