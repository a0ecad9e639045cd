// SPDX-License-Identifier: GPL-3.0-or-later
//! Text as a terminal may see it: sizes, durations, and names from strangers.

use std::fmt::Write;
use std::time::Duration;

/// A size in the largest binary unit that keeps it at or above 1, with one decimal: `20.7 GiB`, `512 B`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // A tenth of a unit is as exact as the text gets, so a double's 53 bits are enough.
    #[allow(clippy::cast_precision_loss)]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be rounded up to 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration as `4 s`, `2 min 05 s` or `1 h 02 min`.
#[must_use]
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Text in which nothing can move a cursor or hide: control and bidirectional-override characters become `\xNN` or
/// `\u{NNNN}`. Names on a medium are untrusted, so everything printed goes through here.
#[must_use]
pub fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let code = u32::from(character);
        // Writing to a String cannot fail.
        let _ = match code {
            0x0a => write!(escaped, "\\n"),
            0..0x20 | 0x7f..0xa0 => write!(escaped, "\\x{code:02x}"),
            0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x2069 | 0xfeff => write!(escaped, "\\u{{{code:04x}}}"),
            _ => write!(escaped, "{character}"),
        };
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (22_226_522_931, "20.7 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn durations_read_like_a_clock() {
        assert_eq!(duration(Duration::from_secs(59)), "59 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 05 s");
        assert_eq!(duration(Duration::from_secs(3720)), "1 h 02 min");
    }

    #[test]
    fn a_name_cannot_drive_the_terminal() {
        assert_eq!(
            escape_controls("a\u{1b}[31mb\r\u{202e}c\u{9b}"),
            "a\\x1b[31mb\\x0d\\u{202e}c\\x9b"
        );
        assert_eq!(escape_controls("Привет ß"), "Привет ß");
    }
}
