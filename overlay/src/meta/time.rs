// SPDX-License-Identifier: GPL-3.0-or-later
//! NT times and how Linux holds them.
//!
//! A file's mtime is its NT last-write time. A file system may be unable to hold it (ext4: 1901 to 2446, XFS without
//! bigtime: to 2038), so a time outside 1901-12-13 to 2038-01-19 is kept in the xattr as well, by a rule that does
//! not ask the file system: the same world has the same bytes everywhere.

use std::fmt;

/// Seconds from 1601-01-01 to 1970-01-01.
const UNIX_EPOCH_SECS: i64 = 11_644_473_600;
const TICKS_PER_SEC: u64 = 10_000_000;
/// The first second that every file system holds: 1901-12-13.
const FIRST_HELD_SECS: i64 = -(1 << 31);
/// The last second that every file system holds: 2038-01-19.
const LAST_HELD_SECS: i64 = (1 << 31) - 1;
/// The last second that we ask a file system to hold: ext4's, 2446-05-10.
const LAST_ASKED_SECS: i64 = (1 << 34) - (1 << 31) - 1;

/// A time as NT counts it: units of 100 ns since 1601-01-01 UTC ([MS-DTYP] 2.3.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileTime(pub u64);

impl FileTime {
    /// The time of seconds and nanoseconds since 1970, cut to 100 ns; before 1601 it is 0.
    pub fn from_unix(secs: i64, nanos: u32) -> Self {
        let ticks = i128::from(secs) + i128::from(UNIX_EPOCH_SECS);
        let ticks = ticks * i128::from(TICKS_PER_SEC) + i128::from(nanos / 100);
        Self(u64::try_from(ticks.max(0)).unwrap_or(u64::MAX))
    }

    /// Seconds (floored) and nanoseconds since 1970.
    pub fn to_unix(self) -> (i64, u32) {
        // A u64 of ticks is at most 1.9e12 seconds.
        let secs = i64::try_from(self.0 / TICKS_PER_SEC).unwrap_or(i64::MAX) - UNIX_EPOCH_SECS;
        let nanos = u32::try_from(self.0 % TICKS_PER_SEC).unwrap_or(0) * 100;
        (secs, nanos)
    }

    /// What to ask of Linux for this time: itself where ext4 holds it, else the nearest end.
    pub(crate) fn asked(self) -> (i64, u32) {
        let (secs, nanos) = self.to_unix();
        match secs {
            ..FIRST_HELD_SECS => (FIRST_HELD_SECS, 0),
            FIRST_HELD_SECS..=LAST_ASKED_SECS => (secs, nanos),
            _ => (LAST_ASKED_SECS, 0),
        }
    }

    /// Whether the time must be in the xattr too, because some file system cannot hold it.
    pub(crate) fn needs_xattr(self) -> bool {
        !(FIRST_HELD_SECS..=LAST_HELD_SECS).contains(&self.to_unix().0)
    }

    /// The last-write time of a file whose mtime is `mtime` and whose xattr says `kept`: the kept one as long as
    /// mtime is what Linux made of it; a later write by a Linux program counts.
    pub(crate) fn from_mtime(mtime: (i64, u32), kept: Option<Self>) -> Self {
        match kept {
            // The second case: a file system that ends at 2038 has clamped what it was asked for.
            Some(kept)
                if mtime == kept.asked() || (mtime == (LAST_HELD_SECS, 0) && kept.asked().0 > LAST_HELD_SECS) =>
            {
                kept
            }
            _ => Self::from_unix(mtime.0, mtime.1),
        }
    }
}

impl fmt::Debug for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `2026-11-30T20:42:12.1234567Z`, in the proleptic Gregorian calendar.
impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0 / TICKS_PER_SEC;
        let (days, of_day) = (secs / 86_400, secs % 86_400);
        // Days in whole 400-year cycles from 1601, which begins one.
        let (cycles, mut left) = (days / 146_097, days % 146_097);
        let mut year = 1601 + cycles * 400;
        let centuries = (left / 36_524).min(3);
        left -= centuries * 36_524;
        let fours = left / 1461;
        left -= fours * 1461;
        let years = (left / 365).min(3);
        left -= years * 365;
        year += centuries * 100 + fours * 4 + years;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut month = 1;
        for length in [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if left < length {
                break;
            }
            left -= length;
            month += 1;
        }
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ticks = self.0 % TICKS_PER_SEC;
        write!(
            f,
            "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{ticks:07}Z",
            left + 1
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times_are_right() {
        assert_eq!(FileTime(0).to_string(), "1601-01-01T00:00:00.0000000Z");
        assert_eq!(FileTime(116_444_736_000_000_000).to_unix(), (0, 0));
        assert_eq!(
            FileTime(116_444_736_000_000_000).to_string(),
            "1970-01-01T00:00:00.0000000Z"
        );
        assert_eq!(FileTime(116_444_735_999_999_999).to_unix(), (-1, 999_999_900));
        assert_eq!(
            FileTime::from_unix(951_782_399, 123_456_789).to_string(),
            "2000-02-28T23:59:59.1234567Z"
        );
        assert_eq!(
            FileTime::from_unix(951_782_400, 0).to_string(),
            "2000-02-29T00:00:00.0000000Z"
        );
        assert_eq!(
            FileTime::from_unix(4_107_542_400, 0).to_string(),
            "2100-03-01T00:00:00.0000000Z"
        );
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(0));
    }

    #[test]
    fn a_time_that_linux_cannot_hold_is_kept_and_a_later_write_counts() {
        for time in [
            FileTime(0),
            FileTime(1),
            FileTime(u64::MAX),
            FileTime::from_unix(LAST_HELD_SECS + 1, 5_000),
        ] {
            assert!(time.needs_xattr());
            assert_eq!(FileTime::from_mtime(time.asked(), Some(time)), time);
            assert_eq!(FileTime::from_mtime((7, 300), Some(time)), FileTime::from_unix(7, 300));
        }
        let late = FileTime::from_unix(LAST_HELD_SECS + 50, 0);
        assert_eq!(
            FileTime::from_mtime((LAST_HELD_SECS, 0), Some(late)),
            late,
            "clamped by the file system"
        );
        assert!(!FileTime::from_unix(LAST_HELD_SECS, 999_999_900).needs_xattr());
    }

    proptest! {
        #[test]
        fn every_time_comes_back_from_unix(ticks in any::<u64>()) {
            let (secs, nanos) = FileTime(ticks).to_unix();
            prop_assert!(nanos < 1_000_000_000);
            prop_assert_eq!(FileTime::from_unix(secs, nanos), FileTime(ticks));
        }

        #[test]
        fn every_time_comes_back_from_mtime_and_xattr(ticks in any::<u64>()) {
            let time = FileTime(ticks);
            let kept = time.needs_xattr().then_some(time);
            prop_assert_eq!(FileTime::from_mtime(time.asked(), kept), time);
        }
    }
}
