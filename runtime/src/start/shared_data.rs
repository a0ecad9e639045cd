// SPDX-License-Identifier: GPL-3.0-or-later
//! KUSER_SHARED_DATA, the page at 0x7ffe0000 that programs read without a service. Its clocks are kept live.

use std::time::Duration;

use crate::arch;
use crate::nt::Process;
use crate::nt::memory::{Kind, Place, protect};
use crate::status::Status;
use crate::vdk::MemoryExt;

const BASE: u64 = 0x7ffe_0000;
/// The page behind it holds the dispatcher's address at its start: Wine's stubs call through it.
const BYTES: u64 = 0x2000;
const DISPATCHER: u64 = 0x7ffe_1000;
/// How often the clocks move: Windows' own tick.
const TICK: Duration = Duration::from_micros(15_600);
/// The build that the runtime shows until a world's registry says otherwise.
pub(super) const BUILD: u32 = 19045;

pub(super) fn map(process: &'static Process, system_call: u8) -> Result<(), Status> {
    let memory = &*process.host.memory;
    let space = &process.space;
    space.reserve(Place::At(BASE), BYTES, Kind::Private, protect::READONLY, None)?;
    space.commit(BASE, BYTES, protect::READWRITE)?;
    let put32 = |offset: u64, value: u32| memory.put(BASE + offset, value);
    put32(0x04, 0x0fa0_0000)?; // TickCountMultiplier
    put32(0x2c, 0x8664_8664)?; // image numbers
    memory.write(
        BASE + 0x30,
        &"C:\\windows"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>(),
    )?;
    put32(0x260, BUILD)?;
    put32(0x264, 1)?; // a workstation
    memory.put(BASE + 0x268, 1u8)?;
    memory.put(BASE + 0x26a, 9u16)?; // AMD64
    put32(0x26c, 10)?;
    for feature in features() {
        memory.put(BASE + 0x274 + feature, 1u8)?;
    }
    put32(0x2e8, 0x20_0000)?; // physical pages
    memory.put(BASE + 0x300, crate::nt::PERFORMANCE_FREQUENCY)?;
    memory.put(BASE + 0x308, system_call)?;
    put32(0x3c0, process.host.processors)?;
    memory.put(BASE + 0x3c4, 1u8)?;
    memory.put(BASE + 0x3d8, 3u64)?; // XState: x87 and SSE
    memory.put(BASE + 0x3e0, 3u64)?;
    put32(0x3e8, 576)?;
    memory.put(DISPATCHER, arch::dispatcher_address())?;
    tick(process)?;
    let work = move || {
        while tick(process).is_ok() {
            std::thread::sleep(TICK);
        }
    };
    arch::start_helper_thread("clock", work).map_err(Status::from)
}

/// Indexes of ProcessorFeatures that every x86-64 processor has, and those that this one has (`PF_*` in winnt.h).
fn features() -> Vec<u64> {
    // cmpxchg8b, MMX, SSE, RDTSC, PAE, SSE2, NX, SSE3, cmpxchg16b, XSAVE, fast fail.
    let mut features = vec![2, 3, 6, 8, 9, 10, 12, 13, 14, 17, 23];
    for (has, index) in [
        (std::is_x86_feature_detected!("rdrand"), 28),
        (std::is_x86_feature_detected!("ssse3"), 36),
        (std::is_x86_feature_detected!("sse4.1"), 37),
        (std::is_x86_feature_detected!("sse4.2"), 38),
    ] {
        if has {
            features.push(index);
        }
    }
    features
}

/// Writes the three clocks; a reader takes the high part twice around the low one, so that goes out first.
fn tick(process: &Process) -> Result<(), Status> {
    let memory = &*process.host.memory;
    let (now, up) = (process.host.clock.system_time(), process.host.clock.monotonic_time());
    let ticks = up / 10_000;
    for (offset, value) in [(0x08, up), (0x14, now), (0x320, ticks)] {
        let high = (value >> 32).to_le_bytes();
        memory.write(BASE + offset + 8, &high[..4])?;
        memory.write(BASE + offset, &value.to_le_bytes())?;
    }
    Ok(())
}
