// SPDX-License-Identifier: GPL-3.0-or-later
//! NT's upcase table: how Windows compares the names of keys, values and files.
//!
//! The table has 65,536 UTF-16 units and is fixed here for good: it is not derived from Rust's Unicode
//! tables, so that a new compiler never changes the order of a registry or finds other files in a
//! world. Surrogates have no case, so neither has anything outside the BMP. Windows sorts and looks
//! up by the upcased units, compared as numbers: `ss`, `SS3`, `\u{df}2` is that order, whatever
//! Unicode says of the sharp s.
//!
//! Source: the `$UpCase` table of NTFS as Windows 7 and later format it (libyal, "New Technologies
//! File System", section "The case mapping metadata file"); tests compare it with what an NTFS
//! formatter writes.

use core::cmp::Ordering;

/// Runs of units with one distance to their upper case: first, last, step, distance.
#[rustfmt::skip]
const RUNS: [(u16, u16, u16, i32); 134] = [
    (0x0061, 0x007a, 1, -32), (0x00e0, 0x00f6, 1, -32), (0x00f8, 0x00fe, 1, -32),
    (0x00ff, 0x00ff, 1, 121), (0x0101, 0x012f, 2, -1), (0x0133, 0x0137, 2, -1),
    (0x013a, 0x0148, 2, -1), (0x014b, 0x0177, 2, -1), (0x017a, 0x017e, 2, -1),
    (0x0180, 0x0180, 1, 195), (0x0183, 0x0185, 2, -1), (0x0188, 0x0188, 1, -1),
    (0x018c, 0x018c, 1, -1), (0x0192, 0x0192, 1, -1), (0x0195, 0x0195, 1, 97),
    (0x0199, 0x0199, 1, -1), (0x019a, 0x019a, 1, 163), (0x019e, 0x019e, 1, 130),
    (0x01a1, 0x01a5, 2, -1), (0x01a8, 0x01a8, 1, -1), (0x01ad, 0x01ad, 1, -1),
    (0x01b0, 0x01b0, 1, -1), (0x01b4, 0x01b6, 2, -1), (0x01b9, 0x01b9, 1, -1),
    (0x01bd, 0x01bd, 1, -1), (0x01bf, 0x01bf, 1, 56), (0x01c6, 0x01c6, 1, -2),
    (0x01c9, 0x01c9, 1, -2), (0x01cc, 0x01cc, 1, -2), (0x01ce, 0x01dc, 2, -1),
    (0x01dd, 0x01dd, 1, -79), (0x01df, 0x01ef, 2, -1), (0x01f3, 0x01f3, 1, -2),
    (0x01f5, 0x01f5, 1, -1), (0x01f9, 0x021f, 2, -1), (0x0223, 0x0233, 2, -1),
    (0x023c, 0x023c, 1, -1), (0x0242, 0x0242, 1, -1), (0x0247, 0x024f, 2, -1),
    (0x0250, 0x0250, 1, 10783), (0x0251, 0x0251, 1, 10780), (0x0253, 0x0253, 1, -210),
    (0x0254, 0x0254, 1, -206), (0x0256, 0x0257, 1, -205), (0x0259, 0x0259, 1, -202),
    (0x025b, 0x025b, 1, -203), (0x0260, 0x0260, 1, -205), (0x0263, 0x0263, 1, -207),
    (0x0268, 0x0268, 1, -209), (0x0269, 0x0269, 1, -211), (0x026b, 0x026b, 1, 10743),
    (0x026f, 0x026f, 1, -211), (0x0271, 0x0271, 1, 10749), (0x0272, 0x0272, 1, -213),
    (0x0275, 0x0275, 1, -214), (0x027d, 0x027d, 1, 10727), (0x0280, 0x0280, 1, -218),
    (0x0283, 0x0283, 1, -218), (0x0288, 0x0288, 1, -218), (0x0289, 0x0289, 1, -69),
    (0x028a, 0x028b, 1, -217), (0x028c, 0x028c, 1, -71), (0x0292, 0x0292, 1, -219),
    (0x0371, 0x0373, 2, -1), (0x0377, 0x0377, 1, -1), (0x037b, 0x037d, 1, 130),
    (0x03ac, 0x03ac, 1, -38), (0x03ad, 0x03af, 1, -37), (0x03b1, 0x03c1, 1, -32),
    (0x03c3, 0x03cb, 1, -32), (0x03cc, 0x03cc, 1, -64), (0x03cd, 0x03ce, 1, -63),
    (0x03d7, 0x03d7, 1, -8), (0x03d9, 0x03ef, 2, -1), (0x03f2, 0x03f2, 1, 7),
    (0x03f8, 0x03f8, 1, -1), (0x03fb, 0x03fb, 1, -1), (0x0430, 0x044f, 1, -32),
    (0x0450, 0x045f, 1, -80), (0x0461, 0x0481, 2, -1), (0x048b, 0x04bf, 2, -1),
    (0x04c2, 0x04ce, 2, -1), (0x04cf, 0x04cf, 1, -15), (0x04d1, 0x0523, 2, -1),
    (0x0561, 0x0586, 1, -48), (0x1d79, 0x1d79, 1, 35332), (0x1d7d, 0x1d7d, 1, 3814),
    (0x1e01, 0x1e95, 2, -1), (0x1ea1, 0x1eff, 2, -1), (0x1f00, 0x1f07, 1, 8),
    (0x1f10, 0x1f15, 1, 8), (0x1f20, 0x1f27, 1, 8), (0x1f30, 0x1f37, 1, 8), (0x1f40, 0x1f45, 1, 8),
    (0x1f51, 0x1f57, 2, 8), (0x1f60, 0x1f67, 1, 8), (0x1f70, 0x1f71, 1, 74),
    (0x1f72, 0x1f75, 1, 86), (0x1f76, 0x1f77, 1, 100), (0x1f78, 0x1f79, 1, 128),
    (0x1f7a, 0x1f7b, 1, 112), (0x1f7c, 0x1f7d, 1, 126), (0x1f80, 0x1f87, 1, 8),
    (0x1f90, 0x1f97, 1, 8), (0x1fa0, 0x1fa7, 1, 8), (0x1fb0, 0x1fb1, 1, 8), (0x1fb3, 0x1fb3, 1, 9),
    (0x1fc3, 0x1fc3, 1, 9), (0x1fd0, 0x1fd1, 1, 8), (0x1fe0, 0x1fe1, 1, 8), (0x1fe5, 0x1fe5, 1, 7),
    (0x1ff3, 0x1ff3, 1, 9), (0x214e, 0x214e, 1, -28), (0x2170, 0x217f, 1, -16),
    (0x2184, 0x2184, 1, -1), (0x24d0, 0x24e9, 1, -26), (0x2c30, 0x2c5e, 1, -48),
    (0x2c61, 0x2c61, 1, -1), (0x2c65, 0x2c65, 1, -10795), (0x2c66, 0x2c66, 1, -10792),
    (0x2c68, 0x2c6c, 2, -1), (0x2c73, 0x2c73, 1, -1), (0x2c76, 0x2c76, 1, -1),
    (0x2c81, 0x2ce3, 2, -1), (0x2d00, 0x2d25, 1, -7264), (0xa641, 0xa65f, 2, -1),
    (0xa663, 0xa66d, 2, -1), (0xa681, 0xa697, 2, -1), (0xa723, 0xa72f, 2, -1),
    (0xa733, 0xa76f, 2, -1), (0xa77a, 0xa77c, 2, -1), (0xa77f, 0xa787, 2, -1),
    (0xa78c, 0xa78c, 1, -1), (0xff41, 0xff5a, 1, -32),
];

/// Pages of 256 units in which at least one unit changes.
const NR_PAGES: usize = 16;

struct Table {
    /// 0: nothing changes in this page; else one more than the page's place in `pages`.
    index: [u8; 256],
    pages: [[u16; 256]; NR_PAGES],
}

static TABLE: Table = expand();

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // const fn: `try_from` is not const; all values fit.
const fn expand() -> Table {
    let mut table = Table {
        index: [0; 256],
        pages: [[0; 256]; NR_PAGES],
    };
    let mut nr_used = 0;
    let mut run = 0;
    while run < RUNS.len() {
        let (first, last, step, distance) = RUNS[run];
        let mut unit = first as u32;
        while unit <= last as u32 {
            let page = (unit >> 8) as usize;
            if table.index[page] == 0 {
                let mut low = 0;
                while low < 256 {
                    table.pages[nr_used][low] = ((page << 8) | low) as u16;
                    low += 1;
                }
                nr_used += 1;
                table.index[page] = nr_used as u8;
            }
            let place = table.index[page] as usize - 1;
            table.pages[place][(unit & 0xff) as usize] = (unit as i32 + distance) as u16;
            unit += step as u32;
        }
        run += 1;
    }
    table
}

/// The upper case of one UTF-16 unit, as NT compares names.
#[inline]
#[must_use]
pub fn upcase_unit(unit: u16) -> u16 {
    if unit < 0x80 {
        // The usual case, without a memory access.
        return if unit.wrapping_sub(0x61) < 26 {
            unit - 0x20
        } else {
            unit
        };
    }
    match TABLE.index[usize::from(unit >> 8)] {
        0 => unit,
        place => TABLE.pages[usize::from(place) - 1][usize::from(unit & 0xff)],
    }
}

/// Compares two sequences of units by their upper case, a shorter one first where it is a prefix.
pub fn cmp_units(a: impl IntoIterator<Item = u16>, b: impl IntoIterator<Item = u16>) -> Ordering {
    let mut b = b.into_iter();
    for x in a {
        let Some(y) = b.next() else { return Ordering::Greater };
        if x != y {
            let order = upcase_unit(x).cmp(&upcase_unit(y));
            if order != Ordering::Equal {
                return order;
            }
        }
    }
    if b.next().is_some() {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

/// Compares two UTF-16 names as NT does: unit by unit, upcased. The order of subkey lists.
#[must_use]
pub fn cmp_names(a: &[u16], b: &[u16]) -> Ordering {
    cmp_units(a.iter().copied(), b.iter().copied())
}

/// Whether two UTF-16 names are one name to NT.
#[must_use]
pub fn eq_names(a: &[u16], b: &[u16]) -> bool {
    a.len() == b.len() && cmp_names(a, b) == Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_never_changes() {
        // FNV-1a of the 131,072 bytes that an NTFS formatter writes as $UpCase.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for unit in 0..=0xffff_u16 {
            for byte in upcase_unit(unit).to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!(hash, 0x48ed4531e9399927);
    }

    #[test]
    fn sharp_s_and_surrogates_have_no_case() {
        assert_eq!(upcase_unit(0xdf), 0xdf);
        assert_eq!(upcase_unit(0xff), 0x178);
        assert_eq!(upcase_unit(0xff41), 0xff21);
        for unit in 0xd800..=0xdfff {
            assert_eq!(upcase_unit(unit), unit);
        }
    }

    #[test]
    fn order_is_by_upcased_units_and_a_prefix_comes_first() {
        let units = |s: &str| s.encode_utf16().collect::<Vec<_>>();
        assert_eq!(cmp_names(&units("ss1"), &units("SS3")), Ordering::Less);
        assert_eq!(cmp_names(&units("SS3"), &units("\u{df}2")), Ordering::Less);
        assert_eq!(cmp_names(&units("abc"), &units("ABCD")), Ordering::Less);
        assert_eq!(cmp_names(&units("_"), &units("a")), Ordering::Greater);
        assert!(eq_names(
            &units("\u{41f}\u{440}\u{438}"),
            &units("\u{43f}\u{420}\u{418}")
        ));
        assert!(!eq_names(&units("\u{10410}"), &units("\u{10438}")));
    }

    #[test]
    fn upcasing_twice_is_upcasing_once() {
        for unit in 0..=0xffff_u16 {
            let upper = upcase_unit(unit);
            assert_eq!(upcase_unit(upper), upper, "{unit:#06x}");
        }
    }
}
