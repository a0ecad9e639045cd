// SPDX-License-Identifier: GPL-3.0-or-later
//! NT's upcase rule, with the signatures of `hive::upcase`, which takes this module's place.
//!
//! Two names are one name to NT when they are equal unit by unit after upcasing. If this is wrong, a lookup misses a
//! file that is there, or two files fight for one name.

use std::cmp::Ordering;

/// The upper-case form of one UTF-16 unit; a surrogate is itself.
pub fn upcase_unit(unit: u16) -> u16 {
    match unit {
        0..=0x60 => unit,
        0x61..=0x7a => unit - 0x20,
        _ => {
            let Some(c) = char::from_u32(u32::from(unit)) else { return unit };
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(u), None) => u16::try_from(u32::from(u)).unwrap_or(unit),
                _ => unit,
            }
        }
    }
}

/// The order of two names after upcasing, unit by unit.
pub fn cmp_names(a: &[u16], b: &[u16]) -> Ordering {
    a.iter().map(|&u| upcase_unit(u)).cmp(b.iter().map(|&u| upcase_unit(u)))
}

/// Whether two names are one name to NT.
pub fn eq_names(a: &[u16], b: &[u16]) -> bool {
    a.len() == b.len() && cmp_names(a, b) == Ordering::Equal
}
