// SPDX-License-Identifier: GPL-3.0-or-later
//! What each thread of the program has on the host's side.

use std::cell::Cell;
use std::sync::OnceLock;
use std::{io, ptr};

use super::context::Context;
use super::{Kernel, THREAD_BLOCK_BYTES, entry, signals};

/// The page below a thread's TEB: what the dispatcher needs before it has a stack.
#[repr(C)]
#[derive(Debug)]
pub(super) struct ThreadBlock {
    /// The host's stack pointer while the program runs.
    pub host_rsp: u64,
    /// Syscall User Dispatch's selector: 0 lets system calls pass (we run), 1 turns them into SIGSYS (the program runs).
    pub selector: u8,
    /// What the runtime above knows this thread by.
    pub token: usize,
    /// The TEB.
    pub teb: u64,
}

thread_local! {
    static BLOCK: Cell<*mut ThreadBlock> = const { Cell::new(ptr::null_mut()) };
}

static KERNEL: OnceLock<&'static dyn Kernel> = OnceLock::new();

pub(super) fn set_kernel(kernel: &'static dyn Kernel) {
    // A process has one kernel; a second one can only be a test's, which then shares the first.
    let _ = KERNEL.set(kernel);
}

/// This thread's block, when it runs the program.
pub(super) fn current() -> Option<(*mut ThreadBlock, &'static dyn Kernel)> {
    let block = BLOCK.get();
    if block.is_null() {
        None
    } else {
        Some((block, *KERNEL.get()?))
    }
}

const ARCH_SET_GS: libc::c_int = 0x1001;
const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
const SIGNAL_STACK_BYTES: usize = 0x1_0000;

/// Runs the program on this host thread from `context` until the thread ends; gives the thread's exit status.
/// `teb` is the thread's TEB, with a writable page of ours below it; `token` is handed to [`Kernel::serve`].
///
/// # Errors
/// The host's error when the thread cannot be prepared.
pub fn run_thread(teb: u64, token: usize, context: &Context) -> io::Result<u32> {
    let block = (teb - THREAD_BLOCK_BYTES) as *mut ThreadBlock;
    let stack = vec![0u8; SIGNAL_STACK_BYTES];
    let alternate = libc::stack_t {
        ss_sp: stack.as_ptr().cast_mut().cast(),
        ss_flags: 0,
        ss_size: SIGNAL_STACK_BYTES,
    };
    // SAFETY: an all-zero stack_t is a valid value to be filled in.
    let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
    let (start, bytes) = signals::host_range();
    // SAFETY: the page at `block` is ours by the caller's contract (the process set-up allocates it with the TEB) and only
    // this thread uses it; the signal stack outlives its use, as the old one is set again below; GS is unused by Rust and
    // glibc; the selector lives in the block, which outlives the thread's stay here.
    let status = unsafe {
        block.write(ThreadBlock {
            host_rsp: 0,
            selector: 0,
            token,
            teb,
        });
        if libc::sigaltstack(&raw const alternate, &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, teb) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::prctl(
            PR_SET_SYSCALL_USER_DISPATCH,
            1,
            start,
            bytes,
            &raw const (*block).selector,
        ) != 0
        {
            return Err(io::Error::last_os_error());
        }
        BLOCK.set(block);
        let status = entry::enter(block, context);
        (*block).selector = 0;
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
        BLOCK.set(ptr::null_mut());
        libc::sigaltstack(&raw const before, ptr::null_mut());
        status
    };
    drop(stack);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the dispatcher passes a 32-bit code through a register"
    )]
    Ok(status as u32)
}

/// Starts a thread of our own that never runs the program.
///
/// # Errors
/// The host's error when it has no room for one.
pub fn start_helper_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(0x4_0000)
        .spawn(work)
        .map(drop)
}
