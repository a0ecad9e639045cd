// SPDX-License-Identifier: GPL-3.0-or-later
//! The dispatcher, and the ways into and out of the program.

use std::arch::global_asm;
use std::mem::offset_of;

use super::context::Context;
use super::thread::{self, ThreadBlock};
use super::{Outcome, THREAD_BLOCK_BYTES};

/// The program's registers at a service call, as the dispatcher pushed them on the host stack.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is the register of its name")]
pub struct Frame {
    pub xmm6_to_15: [u128; 10],
    pub mxcsr: u32,
    pub fcw: u32,
    pub padding: u64,
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdx: u64,
    pub r10: u64,
    /// The service number, from `eax`.
    pub number: u64,
    /// Points at the return address into the stub.
    pub rsp: u64,
}

const _: () = assert!(offset_of!(Frame, r15) == 0xb0 && size_of::<Frame>() == 0xb0 + 14 * 8);

impl Frame {
    /// A frame with nothing in it but these arguments: for tests of services.
    #[must_use]
    pub fn with_registers(number: u64, arguments: [u64; 4], rsp: u64) -> Self {
        Self {
            xmm6_to_15: [0; 10],
            mxcsr: 0x1f80,
            fcw: 0x37f,
            padding: 0,
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rdi: 0,
            rsi: 0,
            rbp: 0,
            rbx: 0,
            r9: arguments[3],
            r8: arguments[2],
            rdx: arguments[1],
            r10: arguments[0],
            number,
            rsp,
        }
    }

    /// Where the fifth and later arguments begin: behind two return addresses and the callers' home space.
    #[must_use]
    pub fn stack_arguments(&self) -> u64 {
        self.rsp.wrapping_add(0x30)
    }

    /// The registers as the caller will find them when the call returns with `rax`; `rip` is the return address, which
    /// lies in the program's memory.
    #[must_use]
    pub fn context(&self, rip: u64, rax: u64) -> Context {
        let mut context = Context::fresh();
        context.rip = rip;
        context.rsp = self.rsp.wrapping_add(8);
        context.eflags = 0x246;
        (context.rax, context.rdx, context.rbx, context.rbp) = (rax, self.rdx, self.rbx, self.rbp);
        (context.rsi, context.rdi, context.r8, context.r9, context.r10) =
            (self.rsi, self.rdi, self.r8, self.r9, self.r10);
        (context.r12, context.r13, context.r14, context.r15) = (self.r12, self.r13, self.r14, self.r15);
        #[allow(clippy::cast_possible_truncation, reason = "the control word has 16 bits")]
        context.set_float_control(self.fcw as u16, self.mxcsr);
        for (index, value) in self.xmm6_to_15.iter().enumerate() {
            let at = 0xa0 + 16 * (index + 6);
            context.float_save[at..at + 16].copy_from_slice(&value.to_le_bytes());
        }
        context
    }
}

global_asm!(
    ".globl vodka_dispatch",
    "vodka_dispatch:",
    "    mov byte ptr gs:[{selector}], 0",
    "    mov r11, gs:[{host_rsp}]",
    "    xchg rsp, r11",
    "    push r11",
    "    push rax",
    "    push r10",
    "    push rdx",
    "    push r8",
    "    push r9",
    "    push rbx",
    "    push rbp",
    "    push rsi",
    "    push rdi",
    "    push r12",
    "    push r13",
    "    push r14",
    "    push r15",
    "    sub rsp, 0xb0",
    "    movaps [rsp+0x00], xmm6",
    "    movaps [rsp+0x10], xmm7",
    "    movaps [rsp+0x20], xmm8",
    "    movaps [rsp+0x30], xmm9",
    "    movaps [rsp+0x40], xmm10",
    "    movaps [rsp+0x50], xmm11",
    "    movaps [rsp+0x60], xmm12",
    "    movaps [rsp+0x70], xmm13",
    "    movaps [rsp+0x80], xmm14",
    "    movaps [rsp+0x90], xmm15",
    "    stmxcsr [rsp+0xa0]",
    "    fnstcw [rsp+0xa4]",
    "    cld",
    "    mov rdi, rsp",
    "    call {serve}",
    "    movaps xmm6, [rsp+0x00]",
    "    movaps xmm7, [rsp+0x10]",
    "    movaps xmm8, [rsp+0x20]",
    "    movaps xmm9, [rsp+0x30]",
    "    movaps xmm10, [rsp+0x40]",
    "    movaps xmm11, [rsp+0x50]",
    "    movaps xmm12, [rsp+0x60]",
    "    movaps xmm13, [rsp+0x70]",
    "    movaps xmm14, [rsp+0x80]",
    "    movaps xmm15, [rsp+0x90]",
    "    add rsp, 0xb0",
    "    pop r15",
    "    pop r14",
    "    pop r13",
    "    pop r12",
    "    pop rdi",
    "    pop rsi",
    "    pop rbp",
    "    pop rbx",
    "    pop r9",
    "    pop r8",
    "    pop rdx",
    "    pop r10",
    "    add rsp, 8",
    "    mov byte ptr gs:[{selector}], 1",
    "    pop rsp",
    "    ret",
    // Wine: __wine_unix_call_dispatcher(rcx = handle, edx = code, r8 = arguments). One more return address makes its
    // stack look like a stub's.
    ".globl vodka_unix_dispatch",
    "vodka_unix_dispatch:",
    "    mov r10, rcx",
    "    mov eax, 0xfffe",
    "    call vodka_dispatch",
    "    ret",
    // rdi = ThreadBlock, rsi = Context: runs the program until vodka_leave_user, which makes this return.
    ".globl vodka_enter_user",
    "vodka_enter_user:",
    "    push rbx",
    "    push rbp",
    "    push r12",
    "    push r13",
    "    push r14",
    "    push r15",
    "    sub rsp, 8",
    "    mov [rdi], rsp",
    "    mov rdi, rsi",
    // rdi = Context.
    ".globl vodka_resume_user",
    "vodka_resume_user:",
    "    fxrstor64 [rdi+0x100]",
    "    movzx eax, word ptr [rdi+0x42]",
    "    push rax",
    "    push [rdi+0x98]",
    "    mov eax, [rdi+0x44]",
    "    push rax",
    "    movzx eax, word ptr [rdi+0x38]",
    "    push rax",
    "    push [rdi+0xf8]",
    "    mov rax, [rdi+0x78]",
    "    mov rcx, [rdi+0x80]",
    "    mov rdx, [rdi+0x88]",
    "    mov rbx, [rdi+0x90]",
    "    mov rbp, [rdi+0xa0]",
    "    mov rsi, [rdi+0xa8]",
    "    mov r8,  [rdi+0xb8]",
    "    mov r9,  [rdi+0xc0]",
    "    mov r10, [rdi+0xc8]",
    "    mov r11, [rdi+0xd0]",
    "    mov r12, [rdi+0xd8]",
    "    mov r13, [rdi+0xe0]",
    "    mov r14, [rdi+0xe8]",
    "    mov r15, [rdi+0xf0]",
    "    mov rdi, [rdi+0xb0]",
    "    mov byte ptr gs:[{selector}], 1",
    "    iretq",
    // rdi = ThreadBlock, rsi = what vodka_enter_user gives back.
    ".globl vodka_leave_user",
    "vodka_leave_user:",
    "    mov rsp, [rdi]",
    "    mov rax, rsi",
    "    add rsp, 8",
    "    pop r15",
    "    pop r14",
    "    pop r13",
    "    pop r12",
    "    pop rbp",
    "    pop rbx",
    "    ret",
    ".globl vodka_sigreturn",
    "vodka_sigreturn:",
    "    mov eax, 15",
    "    syscall",
    selector = const offset_of!(ThreadBlock, selector) as i64 - THREAD_BLOCK_BYTES as i64,
    host_rsp = const offset_of!(ThreadBlock, host_rsp) as i64 - THREAD_BLOCK_BYTES as i64,
    serve = sym serve,
);

// The assembly reads these by number.
const _: () = assert!(offset_of!(ThreadBlock, host_rsp) == 0);

unsafe extern "C" {
    fn vodka_dispatch();
    fn vodka_unix_dispatch();
    fn vodka_enter_user(block: *mut ThreadBlock, context: *const Context) -> u64;
    fn vodka_resume_user(context: *const Context) -> !;
    fn vodka_leave_user(block: *mut ThreadBlock, value: u64) -> !;
    fn vodka_sigreturn();
}

pub(super) fn dispatcher() -> *const () {
    vodka_dispatch as *const ()
}

pub(super) fn unix_dispatcher() -> *const () {
    vodka_unix_dispatch as *const ()
}

/// The signal return of our own: it lies in the range that Syscall User Dispatch exempts.
pub(super) fn sigreturn() -> *const () {
    vodka_sigreturn as *const ()
}

/// Runs the program from `context` until its thread ends.
///
/// # Safety
/// `block` is this thread's, and GS points at the TEB above it.
pub(super) unsafe fn enter(block: *mut ThreadBlock, context: &Context) -> u64 {
    // SAFETY: by the caller's promise; the context is valid for the call, and the assembly reads it before it leaves.
    unsafe { vodka_enter_user(block, context) }
}

/// Called by the dispatcher, on the host stack, with the selector already open.
extern "C" fn serve(frame: &Frame) -> u64 {
    let Some((block, kernel)) = thread::current() else {
        // Only a thread that ran `enter` gets here.
        std::process::abort();
    };
    // SAFETY: the block belongs to this thread and lives until it ends.
    let token = unsafe { (*block).token };
    match kernel.serve(token, frame) {
        Outcome::Return(value) => value,
        Outcome::Resume(mut context) => {
            context.sanitize();
            // The program's segments are always the same; others would only fault the return.
            context.set_segments();
            // SAFETY: the context lies on this stack, above what the assembly pushes; nothing here needs a drop.
            unsafe { vodka_resume_user(&raw const context) }
        }
        Outcome::ExitThread(code) => {
            // SAFETY: `host_rsp` was saved by `enter` on this thread's stack below; no frame between needs a drop.
            unsafe { vodka_leave_user(block, u64::from(code)) }
        }
    }
}
