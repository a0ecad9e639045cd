// SPDX-License-Identifier: GPL-3.0-or-later
//! What the NT services need from an operating system, as traits: [`linux`](crate::linux) and
//! [`uaccess`](crate::uaccess) serve them, and tests serve them with fakes, with no program in memory at all.
//!
//! A trait stands here only where a second implementation exists. Whatever a service may do to the host goes through
//! one of these, so a service's own code has no `unsafe`.

pub mod fake;
mod memory;
mod pages;

pub use memory::{Fault, Memory, MemoryExt, UNREACHABLE, probe};
pub use pages::{Access, PageError, Pages, Sharing};

/// The host's clocks, in NT's unit of 100 ns.
pub trait Clock: Send + Sync {
    /// The wall clock: 100 ns steps since 1601-01-01 UTC.
    fn system_time(&self) -> u64;
    /// A clock that never goes back: 100 ns steps since the machine started.
    fn monotonic_time(&self) -> u64;
}

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// 100 ns steps between 1601-01-01 and 1970-01-01.
pub const UNIX_EPOCH_AS_NT_TIME: u64 = 116_444_736_000_000_000;
