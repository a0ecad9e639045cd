// SPDX-License-Identifier: GPL-3.0-or-later
//! UDF timestamps as nanoseconds since 1970 (ECMA-167 1/7.3, UDF 2.1.4).

use super::format::Timestamp;
use crate::medium::calendar::unix_ns;

/// The zone field's "not specified".
const NO_ZONE: i32 = -2047;

impl Timestamp {
    /// Nanoseconds since 1970-01-01 UTC; `None` where the fields are no date. A time without a zone is taken as UTC,
    /// so that a medium reads the same everywhere.
    pub(super) fn unix_ns(&self) -> Option<i64> {
        let raw = self.type_and_zone.get() & 0x0fff;
        let zone = i32::from(raw) - if raw >= 0x800 { 0x1000 } else { 0 };
        let zone_minutes = if zone == NO_ZONE || self.type_and_zone.get() >> 12 != 1 {
            0
        } else {
            zone
        };
        let micros = i64::from(self.centiseconds) * 10_000
            + i64::from(self.hundreds_of_microseconds) * 100
            + i64::from(self.microseconds);
        let year = i32::from(self.year.get().cast_signed());
        let whole = unix_ns(
            year,
            [self.month, self.day, self.hour, self.minute, self.second],
            zone_minutes,
        )?;
        whole.checked_add(micros.checked_mul(1000)?)
    }
}
