// SPDX-License-Identifier: GPL-3.0-or-later
//! Small services that belong to no family.

use std::sync::atomic::{AtomicU64, Ordering};

use super::call::{Call, ServiceResult};
use super::strings::read_string;
use crate::status::Status;
use crate::vdk::MemoryExt;

/// Text for the person, not for the program's output.
pub(super) fn display_string(call: &mut Call<'_>) -> ServiceResult {
    let text = read_string(call.memory(), call.arg(0))?;
    call.process.log.raw(text.as_bytes());
    Ok(Status::SUCCESS)
}

pub(super) fn allocate_locally_unique_id(call: &mut Call<'_>) -> ServiceResult {
    static NEXT: AtomicU64 = AtomicU64::new(0x1_0000);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    call.memory().put(call.arg(0), id)?;
    Ok(Status::SUCCESS)
}

/// RFC 4122 version 4.
pub(super) fn allocate_uuids(call: &mut Call<'_>) -> ServiceResult {
    let mut seed = [0u8; 6];
    call.process.host.random.fill(&mut seed);
    // Time, range, sequence, seed.
    call.memory().put(call.arg(0), call.process.host.clock.system_time())?;
    call.memory().put(call.arg(1), 1u32)?;
    call.memory().put(call.arg(2), 1u32)?;
    call.memory().write(call.arg(3), &seed)?;
    Ok(Status::SUCCESS)
}

/// The result is the number itself.
pub(super) fn get_current_processor_number(_call: &mut Call<'_>) -> ServiceResult {
    Ok(Status(u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0)))
}

/// No debugger listens: nothing is filtered in.
pub(super) fn query_debug_filter_state(_call: &mut Call<'_>) -> ServiceResult {
    Ok(Status(0))
}

/// Every store of another thread is in order on x86-64 once it passed a system call.
pub(super) fn flush_process_write_buffers(_call: &mut Call<'_>) -> ServiceResult {
    std::sync::atomic::fence(Ordering::SeqCst);
    Ok(Status::SUCCESS)
}

/// There is no power state to keep.
pub(super) fn set_thread_execution_state(call: &mut Call<'_>) -> ServiceResult {
    const CONTINUOUS: u32 = 0x8000_0000;
    call.memory().put(call.arg(1), CONTINUOUS)?;
    Ok(Status::SUCCESS)
}

/// Documented answers for what a consumer Windows refuses or lacks as well.
pub(super) fn not_supported(_call: &mut Call<'_>) -> ServiceResult {
    Err(Status::NOT_SUPPORTED)
}

/// No license value is stored.
pub(super) fn query_license_value(_call: &mut Call<'_>) -> ServiceResult {
    Err(Status::OBJECT_NAME_NOT_FOUND)
}
