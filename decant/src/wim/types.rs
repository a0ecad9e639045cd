// SPDX-License-Identifier: GPL-3.0-or-later
//! Small values that the whole module shares: hashes, times, compressions.

use std::fmt;

/// The SHA-1 of a blob's unpacked bytes: its name in a WIM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sha1Hash(pub [u8; 20]);

impl Sha1Hash {
    /// Whether this is twenty zero bytes, which stands for "no blob".
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 20]
    }

    /// The hash, or `None` where it stands for "no blob".
    #[must_use]
    pub fn non_zero(self) -> Option<Self> {
        (!self.is_zero()).then_some(self)
    }

    /// The SHA-1 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha1::Digest as _;
        Self(sha1::Sha1::digest(bytes).into())
    }
}

impl fmt::Display for Sha1Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha1Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 100-nanosecond intervals since 1601-01-01 UTC ([MS-DTYP] 2.3.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Filetime(pub u64);

impl Filetime {
    /// Seconds from 1601-01-01 to 1970-01-01.
    const EPOCH_DIFFERENCE_SECONDS: i64 = 11_644_473_600;
    const INTERVALS_PER_SECOND: u64 = 10_000_000;

    /// Seconds since 1970-01-01 UTC (negative before it) and nanoseconds within the second.
    #[must_use]
    pub fn unix_time(self) -> (i64, u32) {
        let seconds = (self.0 / Self::INTERVALS_PER_SECOND).cast_signed() - Self::EPOCH_DIFFERENCE_SECONDS;
        // Below 10^9, so it fits.
        #[allow(clippy::cast_possible_truncation)]
        let nanoseconds = (self.0 % Self::INTERVALS_PER_SECOND) as u32 * 100;
        (seconds, nanoseconds)
    }

    /// The time that lies `seconds` and `nanoseconds` after 1970-01-01 UTC, or `None` where a FILETIME cannot hold it.
    #[must_use]
    pub fn from_unix_time(seconds: i64, nanoseconds: u32) -> Option<Self> {
        let seconds = u64::try_from(seconds.checked_add(Self::EPOCH_DIFFERENCE_SECONDS)?).ok()?;
        let intervals = seconds
            .checked_mul(Self::INTERVALS_PER_SECOND)?
            .checked_add(u64::from(nanoseconds / 100))?;
        Some(Self(intervals))
    }
}

/// How chunks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ77 with Huffman codes, [MS-XCA] 2.1 and 2.2.
    Xpress,
    /// LZX as WIMs use it.
    Lzx,
    /// LZMS.
    Lzms,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Xpress => "XPRESS",
            Self::Lzx => "LZX",
            Self::Lzms => "LZMS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filetime_is_the_right_unix_time() {
        // 2016-11-21 09:42:26 UTC.
        assert_eq!(Filetime(131_241_877_460_000_000).unix_time(), (1_479_714_146, 0));
        assert_eq!(Filetime(0).unix_time(), (-11_644_473_600, 0));
        assert_eq!(Filetime(u64::MAX).unix_time().1, 955_161_500);
        assert_eq!(
            Filetime::from_unix_time(1_479_714_146, 799),
            Some(Filetime(131_241_877_460_000_007))
        );
        assert_eq!(Filetime::from_unix_time(i64::MIN, 0), None);
    }
}
