// SPDX-License-Identifier: GPL-3.0-or-later
//! Dates of disc file systems as nanoseconds since 1970.

/// Nanoseconds since 1970-01-01 UTC of a civil time (`[month, day, hour, minute, second]`) that is `zone_minutes` east of
/// UTC. `None` where a field is out of range or the time does not fit.
pub(super) fn unix_ns(year: i32, fields: [u8; 5], zone_minutes: i32) -> Option<i64> {
    let [month, day, hour, minute, second] = fields.map(|field| i8::try_from(field).unwrap_or(-1));
    let date = jiff::civil::DateTime::new(i16::try_from(year).ok()?, month, day, hour, minute, second, 0).ok()?;
    let offset = jiff::tz::Offset::from_seconds(zone_minutes.checked_mul(60)?).ok()?;
    i64::try_from(offset.to_timestamp(date).ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::unix_ns;

    #[test]
    fn civil_times_become_nanoseconds() {
        assert_eq!(unix_ns(1970, [1, 1, 0, 0, 0], 0), Some(0));
        assert_eq!(
            unix_ns(2009, [9, 22, 12, 52, 23], 120),
            Some(1_253_616_743 * 1_000_000_000)
        );
    }

    #[test]
    fn a_time_that_is_none_is_none() {
        assert_eq!(unix_ns(2009, [13, 1, 0, 0, 0], 0), None);
        assert_eq!(unix_ns(2009, [2, 30, 0, 0, 0], 0), None);
        assert_eq!(unix_ns(2009, [2, 3, 0, 0, 200], 0), None);
        assert_eq!(unix_ns(9000, [1, 1, 0, 0, 0], 0), None);
    }
}
