// SPDX-License-Identifier: GPL-3.0-or-later
//! The primitives of [`vdk`](crate::vdk) on Linux. This module uses `unsafe`, for the system calls that have no safe
//! form: mapping memory at given addresses, and preparing a thread for the program.

mod clock;
mod pages;

pub use clock::{LinuxClock, LinuxRandom};
pub use pages::LinuxPages;

/// Ends the process at once with the low 8 bits of `code`: the other threads are inside the program and cannot be asked.
#[allow(unsafe_code)]
pub fn exit_now(code: u32) -> ! {
    // SAFETY: `_exit` takes any number; nothing runs after it.
    unsafe { libc::_exit((code & 0xff).cast_signed()) }
}

/// Takes over a descriptor that this process inherited for one purpose; only `start::child` may call it, once.
#[allow(unsafe_code)]
pub(crate) fn adopt_descriptor(number: std::os::fd::RawFd) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: the parent made this descriptor for us alone and named it in our environment; nothing else owns it.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(number) }
}

/// Writes to a descriptor that stays open as long as the process lives.
#[derive(Debug)]
pub(crate) struct DescriptorWriter(pub(crate) std::os::fd::RawFd);

impl std::io::Write for DescriptorWriter {
    #[allow(unsafe_code)]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // SAFETY: the kernel reads `bytes` only, and checks the descriptor itself.
        let done = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(done).map_err(|_| std::io::Error::last_os_error())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
