// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of the three trees (ECMA-119 7.5, Joliet, Rock Ridge `NM`), and times.

use zerocopy::FromBytes;

use super::format::RecordTime;
use crate::medium::calendar::unix_ns;

/// Bytes that are UTF-8 where they can be, else Latin-1.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// A volume identifier without its padding.
pub(super) fn ascii_label(field: &[u8]) -> String {
    text(field).trim_end_matches([' ', '\0']).to_owned()
}

/// Joliet's big-endian UCS-2, version not yet split off.
pub(super) fn joliet_name(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte)))
        .collect();
    String::from_utf16_lossy(&units)
}

/// Splits the version (`;1`) off a name; 1 where there is none. What is no number is no version.
pub(super) fn split_version(name: &str) -> (&str, u32) {
    match name.rsplit_once(';') {
        Some((stem, "")) if !stem.is_empty() => (stem, 1),
        Some((stem, version)) if !stem.is_empty() => version.parse().map_or((name, 1), |version| (stem, version)),
        _ => (name, 1),
    }
}

/// A plain ISO 9660 name as people see it: the dot that stands before an empty extension goes.
pub(super) fn without_empty_extension(name: &str) -> &str {
    match name.strip_suffix('.') {
        Some(stem) if !stem.is_empty() && !stem.ends_with('.') => stem,
        _ => name,
    }
}

impl RecordTime {
    /// Nanoseconds since 1970-01-01 UTC; `None` where it is not given (all zero) or no date.
    pub(super) fn unix_ns(self) -> Option<i64> {
        let fields = [self.month, self.day, self.hour, self.minute, self.second];
        unix_ns(1900 + i32::from(self.year), fields, i32::from(self.zone) * 15)
    }
}

/// The time of a long form stamp: 16 digits and a zone (ECMA-119 8.4.26.1).
pub(super) fn long_time(bytes: &[u8; 17]) -> Option<i64> {
    let number = |from: usize, to: usize| std::str::from_utf8(bytes.get(from..to)?).ok()?.parse::<u16>().ok();
    let field = |from: usize| u8::try_from(number(from, from + 2)?).ok();
    let fields = [field(4)?, field(6)?, field(8)?, field(10)?, field(12)?];
    let zone = i32::from(bytes[16].cast_signed()) * 15;
    let whole = unix_ns(i32::from(number(0, 4)?), fields, zone)?;
    whole.checked_add(i64::from(field(14)?) * 10_000_000)
}

/// The time of a short form stamp, which is that of a directory record.
pub(super) fn short_time(bytes: &[u8]) -> Option<i64> {
    RecordTime::read_from_prefix(bytes).ok()?.0.unix_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_empty_extensions_are_taken_off() {
        assert_eq!(split_version("INSTALL.WIM;1"), ("INSTALL.WIM", 1));
        assert_eq!(split_version("A.;12"), ("A.", 12));
        assert_eq!(split_version("A;"), ("A", 1));
        assert_eq!(split_version(";1"), (";1", 1));
        assert_eq!(split_version("a;b"), ("a;b", 1));
        assert_eq!(without_empty_extension("README."), "README");
        assert_eq!(without_empty_extension("..."), "...");
        assert_eq!(without_empty_extension("."), ".");
    }

    #[test]
    fn both_forms_of_time_agree() {
        let short = [109, 9, 22, 12, 52, 23, 8];
        assert_eq!(short_time(&short), Some(1_253_616_743 * 1_000_000_000));
        let mut long = *b"2009092212522350\0";
        long[16] = 8;
        assert_eq!(long_time(&long), Some(1_253_616_743_500_000_000));
        assert_eq!(short_time(&[0; 7]), None);
        assert_eq!(long_time(&[b'x'; 17]), None);
    }
}
