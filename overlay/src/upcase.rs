// SPDX-License-Identifier: GPL-3.0-or-later
//! NT's upcase rule, which files share with the registry.
//!
//! Two names are one name to NT when they are equal unit by unit after upcasing. If this is wrong, a lookup misses a
//! file that is there, or two files fight for one name.

pub(crate) use hive::upcase::{cmp_names, eq_names, upcase_unit};
