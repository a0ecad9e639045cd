// SPDX-License-Identifier: GPL-3.0-or-later
//! Signals: a raw `syscall` of the program becomes a service call, a fault becomes an NT exception.
//!
//! A handler runs on the thread's own signal stack. It interrupted either the program, or the one copy instruction of
//! [`uaccess`](crate::uaccess); in both cases this thread holds no lock of ours, so the handler may take locks. A fault
//! anywhere else in the runtime is our own bug and ends the process through the default action.

use std::{io, ptr};

use super::context::{Context, ContextFlags, ExceptionFrame, ExceptionRecord};
use super::thread::{self, ThreadBlock};
use super::{FaultAnswer, Kernel, entry};
use crate::uaccess::{self, ProcessMemory};
use crate::vdk::{Memory, MemoryExt};
use zerocopy::{FromZeros, IntoBytes};

/// What killed a program that could not be told about it.
#[derive(Debug, Clone)]
pub struct ProgramException {
    /// The NTSTATUS.
    pub code: u32,
    /// Where.
    pub rip: u64,
    /// The stack pointer there.
    pub rsp: u64,
    /// The address that could not be reached, for an access violation.
    pub address: u64,
}

unsafe extern "C" {
    static __ehdr_start: u8;
    static _end: u8;
}

/// The command's own range: its first byte and its length.
pub(super) fn host_range() -> (usize, usize) {
    let start = (&raw const __ehdr_start) as usize;
    (start, (&raw const _end) as usize - start)
}

/// The kernel's own `struct sigaction`: glibc's cannot name a restorer, and ours must lie in the exempt range.
#[repr(C)]
struct KernelSigaction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;

fn install(signal: libc::c_int, handler: usize) -> io::Result<()> {
    let action = KernelSigaction {
        handler,
        #[allow(clippy::cast_sign_loss, reason = "flag bits")]
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | SA_RESTORER,
        restorer: entry::sigreturn() as usize,
        mask: 0,
    };
    let none = ptr::null_mut::<KernelSigaction>();
    // SAFETY: the structure has the kernel's layout for x86-64 and the handler the signature that SA_SIGINFO asks for.
    let done = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, 8usize) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Installs the handlers for the whole process, with `kernel` above them.
///
/// # Errors
/// The host's error when it refuses a handler.
pub fn install_signals(kernel: &'static dyn Kernel) -> io::Result<()> {
    thread::set_kernel(kernel);
    install(libc::SIGSYS, on_syscall as *const () as usize)?;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
        install(signal, on_fault as *const () as usize)?;
    }
    Ok(())
}

/// Opens the selector while a handler of ours works.
struct Selector(*mut ThreadBlock, u8);

impl Selector {
    /// # Safety
    /// `block` is this thread's block.
    unsafe fn open(block: *mut ThreadBlock) -> Self {
        // SAFETY: by the caller's promise; only this thread and the kernel use the byte.
        let was = unsafe { ptr::read_volatile(&raw const (*block).selector) };
        // SAFETY: as above.
        unsafe { ptr::write_volatile(&raw mut (*block).selector, 0) };
        Self(block, was)
    }
}

impl Drop for Selector {
    fn drop(&mut self) {
        // SAFETY: the block outlives the handler.
        unsafe { ptr::write_volatile(&raw mut (*self.0).selector, self.1) };
    }
}

#[allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "libc types the registers as signed"
)]
mod registers {
    pub(super) fn get(context: &libc::ucontext_t, register: libc::c_int) -> u64 {
        context.uc_mcontext.gregs[register as usize] as u64
    }
    pub(super) fn set(context: &mut libc::ucontext_t, register: libc::c_int, value: u64) {
        context.uc_mcontext.gregs[register as usize] = value as i64;
    }
}
use registers::{get, set};

extern "C" fn on_syscall(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let Some((block, _)) = thread::current() else { return };
    // SAFETY: `block` is this thread's.
    let _selector = unsafe { Selector::open(block) };
    // SAFETY: the kernel gave this context to the handler.
    let context = unsafe { &mut *context };
    // As if the instruction had been `call dispatcher`. On a stack that cannot be written, the program sees the fault
    // when the dispatcher returns to it.
    let rsp = get(context, libc::REG_RSP).wrapping_sub(8);
    let _ = ProcessMemory.put(rsp, get(context, libc::REG_RIP));
    set(context, libc::REG_RSP, rsp);
    set(context, libc::REG_RIP, entry::dispatcher() as u64);
}

/// Gives the signal its default action, which comes when the handler returns to the faulting instruction.
fn die_by(signal: libc::c_int) {
    // SAFETY: SIG_DFL is always valid.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel gave both to the handler.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let rip = get(context, libc::REG_RIP);
    let is_memory = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    let address = if is_memory {
        // SAFETY: for these two signals the field is the address.
        unsafe { info.si_addr() as u64 }
    } else {
        rip
    };
    let error = get(context, libc::REG_ERR);
    let page_fault = signal == libc::SIGSEGV && get(context, libc::REG_TRAPNO) == 14;
    let current = thread::current();

    if let Some(exit) = uaccess::fixup(rip) {
        let served = match current {
            // SAFETY: the block is this thread's.
            Some((block, kernel)) if page_fault => kernel.page_fault(unsafe { (*block).teb }, address, error & 2 != 0),
            _ => FaultAnswer::Denied,
        };
        if served != FaultAnswer::Served {
            set(context, libc::REG_RIP, exit);
        }
        return;
    }
    let Some((block, kernel)) = current else {
        return die_by(signal);
    };
    // SAFETY: the block is this thread's.
    if unsafe { ptr::read_volatile(&raw const (*block).selector) } == 0 {
        // The runtime itself faulted.
        return die_by(signal);
    }
    // SAFETY: the block is this thread's.
    let (_selector, teb) = unsafe { (Selector::open(block), (*block).teb) };
    let answer = if page_fault {
        kernel.page_fault(teb, address, error & 2 != 0)
    } else {
        FaultAnswer::Denied
    };
    if answer == FaultAnswer::Served {
        return;
    }
    let (mut record, resume_rip) = describe(signal, info, context, address, error);
    if answer == FaultAnswer::Guard {
        record.code = status::GUARD_PAGE_VIOLATION;
    }
    set(context, libc::REG_RIP, resume_rip);
    let code = record.code;
    let registers = save(context);
    let rsp = ExceptionFrame::address_below(registers.rsp);
    let frame = ExceptionFrame::new(registers, record);
    match kernel.exception_entry() {
        Some(entry) if ProcessMemory.write(rsp, frame.as_bytes()).is_ok() => {
            set(context, libc::REG_RSP, rsp);
            set(context, libc::REG_RIP, entry);
            // Trap, direction and alignment-check flags are off in the dispatcher.
            set(context, libc::REG_EFL, get(context, libc::REG_EFL) & !0x4_0500);
        }
        _ => {
            kernel.died(&ProgramException {
                code,
                rip,
                rsp: frame.context.rsp,
                address,
            });
            die_by(signal);
        }
    }
}

/// The record of a fault, and where the saved context shall point.
fn describe(
    signal: libc::c_int,
    info: &libc::siginfo_t,
    context: &libc::ucontext_t,
    address: u64,
    error: u64,
) -> (ExceptionRecord, u64) {
    let rip = get(context, libc::REG_RIP);
    let trap = get(context, libc::REG_TRAPNO);
    let mut parameters = [0u64; 15];
    let mut count = 0;
    let mut resume = rip;
    let code = match signal {
        libc::SIGSEGV | libc::SIGBUS if trap == 13 => {
            // A general protection fault has no address: the instruction tells what it was.
            let mut opcode = [0u8; 2];
            let _ = ProcessMemory.read(rip, &mut opcode);
            match opcode {
                [0xcd, 0x29] => {
                    (parameters[0], count) = (get(context, libc::REG_RCX), 1);
                    status::STACK_BUFFER_OVERRUN
                }
                [0xcd, 0x2d] => {
                    // The instruction is followed by one byte that is skipped.
                    (parameters[0], count, resume) = (get(context, libc::REG_RAX), 1, rip + 3);
                    status::BREAKPOINT
                }
                [0xf4 | 0xfa | 0xfb, _] => status::PRIVILEGED_INSTRUCTION,
                _ => {
                    (parameters[0], parameters[1], count) = (0, u64::MAX, 2);
                    status::ACCESS_VIOLATION
                }
            }
        }
        libc::SIGSEGV | libc::SIGBUS => {
            let kind = if error & 0x10 != 0 { 8 } else { (error >> 1) & 1 };
            (parameters[0], parameters[1], count) = (kind, address, 2);
            status::ACCESS_VIOLATION
        }
        libc::SIGILL => status::ILLEGAL_INSTRUCTION,
        libc::SIGFPE => match info.si_code {
            1 => status::INTEGER_DIVIDE_BY_ZERO,
            _ if trap == 19 => status::FLOAT_MULTIPLE_FAULTS,
            3 => status::FLOAT_DIVIDE_BY_ZERO,
            4 => status::FLOAT_OVERFLOW,
            5 => status::FLOAT_UNDERFLOW,
            6 => status::FLOAT_INEXACT_RESULT,
            _ => status::FLOAT_INVALID_OPERATION,
        },
        libc::SIGTRAP if trap == 3 => {
            (count, resume) = (1, rip.wrapping_sub(1));
            status::BREAKPOINT
        }
        _ => status::SINGLE_STEP,
    };
    let record = ExceptionRecord {
        code,
        flags: 0,
        next: 0,
        address: resume,
        parameter_count: count,
        unused: 0,
        parameters,
    };
    (record, resume)
}

fn save(from: &libc::ucontext_t) -> Context {
    let mut context = Context::new_zeroed();
    context.flags = ContextFlags::ALL;
    context.set_segments();
    context.rip = get(from, libc::REG_RIP);
    context.rsp = get(from, libc::REG_RSP);
    context.rax = get(from, libc::REG_RAX);
    context.rcx = get(from, libc::REG_RCX);
    context.rdx = get(from, libc::REG_RDX);
    context.rbx = get(from, libc::REG_RBX);
    context.rbp = get(from, libc::REG_RBP);
    context.rsi = get(from, libc::REG_RSI);
    context.rdi = get(from, libc::REG_RDI);
    context.r8 = get(from, libc::REG_R8);
    context.r9 = get(from, libc::REG_R9);
    context.r10 = get(from, libc::REG_R10);
    context.r11 = get(from, libc::REG_R11);
    context.r12 = get(from, libc::REG_R12);
    context.r13 = get(from, libc::REG_R13);
    context.r14 = get(from, libc::REG_R14);
    context.r15 = get(from, libc::REG_R15);
    #[allow(clippy::cast_possible_truncation, reason = "the flags that exist fit in 32 bits")]
    let eflags = get(from, libc::REG_EFL) as u32;
    context.eflags = eflags;
    let float = from.uc_mcontext.fpregs.cast::<u8>();
    if !float.is_null() {
        // SAFETY: the kernel points it at an FXSAVE image of at least 512 bytes on the signal stack.
        unsafe { ptr::copy_nonoverlapping(float, context.float_save.as_mut_ptr(), 512) };
        context.mxcsr = context.saved_mxcsr();
    }
    context
}

/// The NTSTATUS of each processor exception.
mod status {
    pub(super) const GUARD_PAGE_VIOLATION: u32 = 0x8000_0001;
    pub(super) const BREAKPOINT: u32 = 0x8000_0003;
    pub(super) const SINGLE_STEP: u32 = 0x8000_0004;
    pub(super) const ACCESS_VIOLATION: u32 = 0xc000_0005;
    pub(super) const ILLEGAL_INSTRUCTION: u32 = 0xc000_001d;
    pub(super) const FLOAT_DIVIDE_BY_ZERO: u32 = 0xc000_008e;
    pub(super) const FLOAT_INEXACT_RESULT: u32 = 0xc000_008f;
    pub(super) const FLOAT_INVALID_OPERATION: u32 = 0xc000_0090;
    pub(super) const FLOAT_OVERFLOW: u32 = 0xc000_0091;
    pub(super) const FLOAT_UNDERFLOW: u32 = 0xc000_0093;
    pub(super) const INTEGER_DIVIDE_BY_ZERO: u32 = 0xc000_0094;
    pub(super) const PRIVILEGED_INSTRUCTION: u32 = 0xc000_0096;
    pub(super) const FLOAT_MULTIPLE_FAULTS: u32 = 0xc000_02b4;
    pub(super) const STACK_BUFFER_OVERRUN: u32 = 0xc000_0409;
}
