// SPDX-License-Identifier: GPL-3.0-or-later
//! Copies to and from a program's memory that fail instead of faulting. This module uses `unsafe`.
//!
//! The copy is one `rep movsb` at a known address. When it faults, the signal handler in [`arch`](crate::arch) first
//! lets the address space grow a stack and retries, and otherwise sends the copy to its error exit. Nothing is
//! unwound, so nothing leaks; what would break it is a copy made under a lock that the fault path takes.
//!
//! This is no security boundary: a program shares its address space with the runtime and can write anywhere by itself.
//! Rust's own memory is never reached by an honest program, because the address space hands out only ranges that the
//! host had free.
#![allow(unsafe_code)]

use std::arch::global_asm;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::vdk::{Fault, Memory};

global_asm!(
    ".globl vodka_copy_user",
    ".globl vodka_copy_user_movs",
    ".globl vodka_copy_user_fault",
    // rdi = to, rsi = from, rdx = bytes; gives the number of bytes not copied.
    "vodka_copy_user:",
    "    mov rcx, rdx",
    "vodka_copy_user_movs:",
    "    rep movsb",
    "vodka_copy_user_fault:",
    "    mov rax, rcx",
    "    ret",
);

unsafe extern "C" {
    fn vodka_copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    static vodka_copy_user_movs: u8;
    static vodka_copy_user_fault: u8;
}

/// Where a fault at `rip` shall go on, when it is the copy's: its error exit.
#[must_use]
pub fn fixup(rip: u64) -> Option<u64> {
    let movs = (&raw const vodka_copy_user_movs) as u64;
    let exit = (&raw const vodka_copy_user_fault) as u64;
    if rip == movs { Some(exit) } else { None }
}

/// The memory of the process that we are in.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessMemory;

impl Memory for ProcessMemory {
    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: `to` is ours for its whole length; a fault on the source ends at the copy's error exit. The source may
        // be changed by another thread meanwhile: bytes copied by `rep movsb` in assembly carry no Rust aliasing promise.
        let left = unsafe { vodka_copy_user(to.as_mut_ptr(), address as *const u8, to.len()) };
        if left == 0 {
            Ok(())
        } else {
            Err(Fault {
                address: address + (to.len() - left) as u64,
                write: false,
            })
        }
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        // SAFETY: `from` is ours for its whole length; a fault on the destination ends at the copy's error exit. The
        // destination is the program's: the address space gives it only ranges in which nothing of Rust lives.
        let left = unsafe { vodka_copy_user(address as *mut u8, from.as_ptr(), from.len()) };
        if left == 0 {
            Ok(())
        } else {
            Err(Fault {
                address: address + (from.len() - left) as u64,
                write: true,
            })
        }
    }

    fn read_from_file(
        &self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        address: u64,
        length: usize,
    ) -> io::Result<usize> {
        let result = transfer(offset, |offset| {
            // SAFETY: the kernel checks the destination itself and answers EFAULT; it is the program's memory, as above.
            unsafe {
                match offset {
                    Some(offset) => libc::pread(file.as_raw_fd(), address as *mut libc::c_void, length, offset),
                    None => libc::read(file.as_raw_fd(), address as *mut libc::c_void, length),
                }
            }
        });
        // A stack that has not grown yet is writable for a program but not for the host's kernel: touch it and go again.
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) && length > 0 && self.touch(address, length) => {
                transfer(offset, |offset| {
                    // SAFETY: as above.
                    unsafe {
                        match offset {
                            Some(offset) => libc::pread(file.as_raw_fd(), address as *mut libc::c_void, length, offset),
                            None => libc::read(file.as_raw_fd(), address as *mut libc::c_void, length),
                        }
                    }
                })
            }
            other => other,
        }
    }

    fn write_to_file(
        &self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        address: u64,
        length: usize,
    ) -> io::Result<usize> {
        transfer(offset, |offset| {
            // SAFETY: the kernel checks the source itself and answers EFAULT.
            unsafe {
                match offset {
                    Some(offset) => libc::pwrite(file.as_raw_fd(), address as *const libc::c_void, length, offset),
                    None => libc::write(file.as_raw_fd(), address as *const libc::c_void, length),
                }
            }
        })
    }
}

impl ProcessMemory {
    /// Writes one byte of each page back to itself, so that a stack grows; false when the range cannot be written.
    fn touch(self, address: u64, length: usize) -> bool {
        let end = address.saturating_add(length as u64);
        let mut at = address;
        while at < end {
            let mut byte = [0];
            if self.read(at, &mut byte).and_then(|()| self.write(at, &byte)).is_err() {
                return false;
            }
            at = (at & !0xfff).saturating_add(0x1000);
        }
        true
    }
}

fn transfer(offset: Option<u64>, call: impl Fn(Option<i64>) -> isize) -> io::Result<usize> {
    let offset = match offset {
        None => None,
        Some(offset) => Some(i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?),
    };
    loop {
        let done = call(offset);
        if let Ok(done) = usize::try_from(done) {
            return Ok(done);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
