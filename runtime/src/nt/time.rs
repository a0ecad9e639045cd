// SPDX-License-Identifier: GPL-3.0-or-later
//! Clocks.

use super::call::{Call, ServiceResult};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// Ticks of the performance counter in a second: it counts 100 ns steps, as Windows' does on common machines.
pub const PERFORMANCE_FREQUENCY: u64 = 10_000_000;
/// The timer's resolution and its bounds, in 100 ns.
const RESOLUTION: [u32; 3] = [156_250, 5_000, 10_000];

pub(super) fn query_performance_counter(call: &mut Call<'_>) -> ServiceResult {
    call.memory()
        .put(call.arg(0), call.process.host.clock.monotonic_time())?;
    call.memory().put_optional(call.arg(1), PERFORMANCE_FREQUENCY)?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_system_time(call: &mut Call<'_>) -> ServiceResult {
    call.memory().put(call.arg(0), call.process.host.clock.system_time())?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_timer_resolution(call: &mut Call<'_>) -> ServiceResult {
    for (index, value) in RESOLUTION.into_iter().enumerate() {
        call.memory().put(call.arg(index), value)?;
    }
    Ok(Status::SUCCESS)
}

/// The host's timers are finer than any resolution that can be asked for.
pub(super) fn set_timer_resolution(call: &mut Call<'_>) -> ServiceResult {
    call.memory().put(call.arg(2), RESOLUTION[2])?;
    Ok(Status::SUCCESS)
}

pub(super) fn get_tick_count(call: &mut Call<'_>) -> ServiceResult {
    // The result is the count itself; it wraps after 49.7 days, as documented.
    let milliseconds = call.process.host.clock.monotonic_time() / 10_000;
    Ok(Status(u32::try_from(milliseconds & 0xffff_ffff).unwrap_or(0)))
}
