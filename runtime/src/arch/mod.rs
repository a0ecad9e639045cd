// SPDX-License-Identifier: GPL-3.0-or-later
//! x86-64: how a program's thread enters the runtime and leaves it. This module uses `unsafe`, and it is the only one
//! with assembly besides the copy in [`uaccess`](crate::uaccess).
//!
//! Three ways lead in, and all end in the same dispatcher, on the host thread's own stack:
//! - a *direct* call through `[0x7ffe1000]`, which Wine's stubs make by themselves and a genuine ntdll's after its stubs
//!   were rewritten in memory;
//! - a `syscall` instruction, which Syscall User Dispatch turns into `SIGSYS`;
//! - a fault, which becomes an NT exception in the program.
//!
//! Win64 code uses only GS, Rust and glibc only FS, so GS is set once for each thread and nothing is swapped. The
//! thread's `ThreadBlock` sits in the page below its TEB, at `gs:[-0x1000]`.
#![allow(unsafe_code)]

mod context;
mod entry;
mod signals;
mod thread;

pub use context::{Context, ContextFlags, ExceptionFrame, ExceptionRecord};
pub use entry::Frame;
pub use signals::{ProgramException, install_signals};
pub use thread::{run_thread, start_helper_thread};

/// How far below the TEB the `ThreadBlock` lies.
pub const THREAD_BLOCK_BYTES: u64 = 0x1000;

/// The address of the dispatcher, for `[0x7ffe1000]`.
#[must_use]
pub fn dispatcher_address() -> u64 {
    entry::dispatcher() as u64
}

/// The address of the entry that Wine's `__wine_unix_call_dispatcher` points to.
#[must_use]
pub fn unix_call_dispatcher_address() -> u64 {
    entry::unix_dispatcher() as u64
}

/// The service number under which a call through [`unix_call_dispatcher_address`] arrives.
pub const UNIX_CALL_NUMBER: u64 = 0xfffe;

/// What a service call ends in.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a context is made once and moved to the same stack; a box would leak there"
)]
pub enum Outcome {
    /// Go back to the caller with this in `rax`.
    Return(u64),
    /// Go on with these registers instead.
    Resume(Context),
    /// End this thread: [`run_thread`] gives the code back.
    ExitThread(u32),
}

/// What a page fault means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAnswer {
    /// The page is there now: go on.
    Served,
    /// It was a guard page; the program is told.
    Guard,
    /// The access is not allowed; the program is told.
    Denied,
}

/// The runtime above this module, as the entry code sees it.
pub trait Kernel: Send + Sync {
    /// Serves one call of the current thread. `thread` is what was given to [`run_thread`].
    fn serve(&self, thread: usize, frame: &Frame) -> Outcome;

    /// A page fault of the program, or of a copy to or from it.
    fn page_fault(&self, teb: u64, address: u64, write: bool) -> FaultAnswer;

    /// A program's exception: where `KiUserExceptionDispatcher` is, or nothing when nobody can take it.
    fn exception_entry(&self) -> Option<u64>;

    /// An exception that the program cannot be told about (its stack is gone, or there is no ntdll): say what died.
    /// The process ends after it.
    fn died(&self, exception: &ProgramException);
}
