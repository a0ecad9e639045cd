// SPDX-License-Identifier: GPL-3.0-or-later
//! Clocks and random bytes.

use rustix::time::{ClockId, clock_gettime};

use crate::vdk::{Clock, Random, UNIX_EPOCH_AS_NT_TIME};

/// The host's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxClock;

fn hundred_ns(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 10_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 100
}

impl Clock for LinuxClock {
    fn system_time(&self) -> u64 {
        hundred_ns(ClockId::Realtime) + UNIX_EPOCH_AS_NT_TIME
    }

    fn monotonic_time(&self) -> u64 {
        hundred_ns(ClockId::Monotonic)
    }
}

/// The host's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinuxRandom;

impl Random for LinuxRandom {
    fn fill(&self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            // Fails only when interrupted; the pool is ready long before a program runs.
            if let Ok(done) = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
                bytes = &mut bytes[done..];
            }
        }
    }
}
