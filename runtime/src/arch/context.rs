// SPDX-License-Identifier: GPL-3.0-or-later
//! NT's `CONTEXT` and `EXCEPTION_RECORD` for x86-64 (winnt.h, documented on Microsoft Learn).

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Which parts of a [`Context`] are valid (`CONTEXT_*` in winnt.h).
#[derive(Debug, Clone, Copy)]
pub struct ContextFlags;

impl ContextFlags {
    /// The x86-64 mark that every value carries.
    pub const AMD64: u32 = 0x10_0000;
    /// Rip, Rsp, `EFlags`, `SegCs`, `SegSs`.
    pub const CONTROL: u32 = 1;
    /// The general registers but Rsp.
    pub const INTEGER: u32 = 2;
    /// The other segment registers.
    pub const SEGMENTS: u32 = 4;
    /// The x87 and SSE state.
    pub const FLOATING_POINT: u32 = 8;
    /// Everything but the debug registers.
    pub const ALL: u32 = 0x10_000f;
}

/// `CONTEXT`: a thread's registers.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(16))]
#[allow(missing_docs, reason = "each field is the register of its name")]
pub struct Context {
    pub parameter_home: [u64; 6],
    pub flags: u32,
    pub mxcsr: u32,
    pub cs: u16,
    pub ds: u16,
    pub es: u16,
    pub fs: u16,
    pub gs: u16,
    pub ss: u16,
    pub eflags: u32,
    pub debug: [u64; 6],
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rbx: u64,
    pub rsp: u64,
    pub rbp: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    /// The FXSAVE area.
    pub float_save: [u8; 512],
    pub vector: [u8; 416],
    pub vector_control: u64,
    pub debug_control: u64,
    pub last_branch: [u64; 2],
    pub last_exception: [u64; 2],
}

/// `sizeof(CONTEXT)`.
pub const CONTEXT_BYTES: usize = 0x4d0;
const _: () = assert!(size_of::<Context>() == CONTEXT_BYTES);
const _: () = assert!(std::mem::offset_of!(Context, rip) == 0xf8 && std::mem::offset_of!(Context, float_save) == 0x100);

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Context {{ rip {:#x}, rsp {:#x}, rax {:#x} }}",
            self.rip, self.rsp, self.rax
        )
    }
}

impl Context {
    /// Registers of a thread that has run nothing yet: user segments, default x87 and SSE control words.
    #[must_use]
    pub fn fresh() -> Self {
        let mut context = Self::new_zeroed();
        context.flags = ContextFlags::ALL;
        context.set_segments();
        context.eflags = 0x202;
        context.set_float_control(0x037f, 0x1f80);
        context
    }

    /// The segment registers of every Win64 thread.
    pub fn set_segments(&mut self) {
        (self.cs, self.ds, self.es, self.fs, self.gs, self.ss) = (0x33, 0x2b, 0x2b, 0x53, 0x2b, 0x2b);
    }

    /// Sets the x87 control word and MXCSR.
    pub fn set_float_control(&mut self, fcw: u16, mxcsr: u32) {
        self.mxcsr = mxcsr;
        self.float_save[..2].copy_from_slice(&fcw.to_le_bytes());
        self.float_save[24..28].copy_from_slice(&mxcsr.to_le_bytes());
    }

    /// MXCSR as the FXSAVE area has it.
    #[must_use]
    pub fn saved_mxcsr(&self) -> u32 {
        u32::from_le_bytes([
            self.float_save[24],
            self.float_save[25],
            self.float_save[26],
            self.float_save[27],
        ])
    }

    /// Takes over the parts of `from` that its flags name.
    pub fn merge(&mut self, from: &Self) {
        if from.flags & ContextFlags::CONTROL != 0 {
            (self.rip, self.rsp, self.eflags) = (from.rip, from.rsp, from.eflags);
        }
        if from.flags & ContextFlags::INTEGER != 0 {
            (self.rax, self.rcx, self.rdx, self.rbx) = (from.rax, from.rcx, from.rdx, from.rbx);
            (self.rbp, self.rsi, self.rdi) = (from.rbp, from.rsi, from.rdi);
            (self.r8, self.r9, self.r10, self.r11) = (from.r8, from.r9, from.r10, from.r11);
            (self.r12, self.r13, self.r14, self.r15) = (from.r12, from.r13, from.r14, from.r15);
        }
        if from.flags & ContextFlags::FLOATING_POINT != 0 {
            self.float_save = from.float_save;
            self.mxcsr = from.mxcsr;
        }
    }

    /// Makes the state loadable whatever a program put in it: only flags that user code may set, no reserved MXCSR bit.
    pub fn sanitize(&mut self) {
        self.eflags = self.eflags & 0x003f_4dd5 | 0x202;
        let mxcsr = if self.saved_mxcsr() == 0 {
            0x1f80
        } else {
            self.saved_mxcsr() & 0xffff
        };
        self.float_save[24..28].copy_from_slice(&mxcsr.to_le_bytes());
    }
}

/// `EXCEPTION_RECORD` for 64-bit.
#[derive(Debug, Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ExceptionRecord {
    /// The NTSTATUS.
    pub code: u32,
    /// `EXCEPTION_NONCONTINUABLE` and others.
    pub flags: u32,
    /// The next record.
    pub next: u64,
    /// Where it happened.
    pub address: u64,
    /// How many of the parameters count.
    pub parameter_count: u32,
    /// Padding.
    pub unused: u32,
    /// The parameters.
    pub parameters: [u64; 15],
}

/// What `KiUserExceptionDispatcher` finds at its stack pointer: the context, `CONTEXT_EX` at 0x4d0, the record at 0x4f0.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(16))]
pub struct ExceptionFrame {
    /// The registers at the exception.
    pub context: Context,
    /// `CONTEXT_EX`: offset and length of all, of the legacy part, of the XSTATE part.
    pub context_ex: [i32; 6],
    unused: u64,
    /// What happened.
    pub record: ExceptionRecord,
    tail: u64,
}

/// What the frame takes below the interrupted stack pointer: itself, and NT's machine frame behind it.
pub const EXCEPTION_STACK_BYTES: u64 = 0x5c0;
const _: () = assert!(size_of::<ExceptionFrame>() <= 0x5c0);
const _: () = assert!(std::mem::offset_of!(ExceptionFrame, record) == 0x4f0);

impl ExceptionFrame {
    /// A frame for `record` at `context`.
    #[must_use]
    pub fn new(context: Context, record: ExceptionRecord) -> Self {
        Self {
            context,
            context_ex: [-0x4d0, 0x4e8, -0x4d0, 0x4d0, 25, 0],
            unused: 0,
            record,
            tail: 0,
        }
    }

    /// Where the frame goes on a stack whose pointer is `rsp`.
    #[must_use]
    pub fn address_below(rsp: u64) -> u64 {
        (rsp & !15).wrapping_sub(EXCEPTION_STACK_BYTES + 0x20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_takes_over_only_what_its_flags_name() {
        let mut to = Context::fresh();
        let mut from = Context::new_zeroed();
        (from.rip, from.rax, from.flags) = (7, 9, ContextFlags::AMD64 | ContextFlags::CONTROL);
        to.merge(&from);
        assert_eq!((to.rip, to.rax), (7, 0));
        assert_eq!(to.saved_mxcsr(), 0x1f80);
    }

    #[test]
    fn no_flag_that_would_fault_the_return_survives() {
        let mut context = Context::new_zeroed();
        context.eflags = u32::MAX;
        context.float_save[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        context.sanitize();
        assert_eq!(context.eflags & 0x3000, 0, "no I/O privilege");
        assert_eq!(context.saved_mxcsr(), 0xffff);
    }
}
