// SPDX-License-Identifier: GPL-3.0-or-later
//! `NtQueryInformationThread`.

use super::block;
use crate::nt::call::{Call, ServiceResult, thread_of};
use crate::nt::thread::STILL_ACTIVE;
use crate::status::Status;
use crate::vdk::MemoryExt;

/// What is served: basic, times, affinity, start address, "am I last", priority boost, break on termination, I/O pending,
/// terminated, hide from debugger, group affinity, suspend count and name (always empty).
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[0, 1, 4, 9, 12, 14, 16, 17, 18, 20, 30, 35, 38];

pub(in crate::nt) fn query_information_thread(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(1);
    if !QUERY_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    let object = call.object(0)?;
    let thread = thread_of(&object)?;
    let mask = u64::MAX >> (64 - call.process.host.processors.clamp(1, 64));
    let number = |value: u32| value.to_le_bytes().to_vec();
    let answer = match class {
        0 => {
            // Exit status, TEB, process and thread id, affinity, priority, base priority.
            let fields = [
                u64::from(thread.exit_code()),
                thread.teb,
                call.process.id.into(),
                thread.id.into(),
                mask,
                8,
            ];
            fields.map(u64::to_le_bytes).concat()
        }
        1 => block(32, &[(0, &call.process.host.clock.system_time().to_le_bytes())]),
        4 => mask.to_le_bytes().to_vec(),
        9 => thread.entry.to_le_bytes().to_vec(),
        12 => number(u32::from(call.process.thread_count() == 1)),
        17 => vec![0],
        20 => number(u32::from(thread.exit_code() != STILL_ACTIVE)),
        30 => block(16, &[(0, &mask.to_le_bytes())]),
        35 => number(thread.suspend_count()),
        38 => {
            call.memory().put_optional(call.arg(4), 16u32)?;
            return if call.u32(3) < 16 {
                Err(Status::BUFFER_TOO_SMALL)
            } else {
                call.answer(2, None, &[0; 16])
            };
        }
        _ => number(0),
    };
    call.answer(2, Some(4), &answer)
}
