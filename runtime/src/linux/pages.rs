// SPDX-License-Identifier: GPL-3.0-or-later
//! Address ranges for the program. Every range is taken with `MAP_FIXED_NOREPLACE` and remembered, and nothing outside
//! the remembered ranges is ever changed: that is what keeps this interface safe.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::vdk::{Access, PageError, Pages, Sharing};

/// The ranges of this process that belong to the program: start → end.
#[derive(Debug, Default)]
pub struct LinuxPages(Mutex<BTreeMap<u64, u64>>);

fn protection(access: Access) -> libc::c_int {
    match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        Access::Execute => libc::PROT_READ | libc::PROT_EXEC,
        Access::WriteExecute => libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
    }
}

fn last_error() -> PageError {
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EEXIST) => PageError::InUse,
        Some(libc::EACCES | libc::EPERM) => PageError::Denied,
        _ => PageError::NoMemory,
    }
}

impl LinuxPages {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(ranges: &BTreeMap<u64, u64>, address: u64, size: u64) -> Result<(u64, u64), PageError> {
        let end = address.checked_add(size).ok_or(PageError::NotReserved)?;
        let (start, stop) = ranges.range(..=address).next_back().ok_or(PageError::NotReserved)?;
        if size > 0 && end <= *stop && address.is_multiple_of(0x1000) && size.is_multiple_of(0x1000) {
            Ok((*start, *stop))
        } else {
            Err(PageError::NotReserved)
        }
    }

    /// Maps over a part of a reserved range.
    fn replace(
        &self,
        address: u64,
        size: u64,
        access: Access,
        flags: libc::c_int,
        file: Option<(BorrowedFd<'_>, i64)>,
    ) -> Result<(), PageError> {
        let ranges = self.lock();
        Self::holds(&ranges, address, size)?;
        let length = usize::try_from(size).map_err(|_| PageError::NoMemory)?;
        let (fd, offset) = file.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        // SAFETY: the whole range was reserved through this object and the lock is held, so `MAP_FIXED` replaces only
        // pages of the program; no Rust reference points there.
        let got = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                length,
                protection(access),
                flags | libc::MAP_FIXED,
                fd,
                offset,
            )
        };
        if got == libc::MAP_FAILED {
            Err(last_error())
        } else {
            Ok(())
        }
    }
}

impl Pages for LinuxPages {
    fn reserve(&self, address: u64, size: u64) -> Result<(), PageError> {
        if address == 0 || size == 0 || !address.is_multiple_of(0x1000) || !size.is_multiple_of(0x1000) {
            return Err(PageError::InUse);
        }
        let end = address.checked_add(size).ok_or(PageError::InUse)?;
        let length = usize::try_from(size).map_err(|_| PageError::NoMemory)?;
        let mut ranges = self.lock();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: `MAP_FIXED_NOREPLACE` takes only free address space, so nothing of Rust can be there.
        let got = unsafe { libc::mmap(address as *mut libc::c_void, length, libc::PROT_NONE, flags, -1, 0) };
        if got == libc::MAP_FAILED {
            return Err(last_error());
        }
        if got as u64 != address {
            // A kernel before 4.17 takes the address as a mere hint.
            // SAFETY: this very mapping was just made and is used by nobody.
            unsafe { libc::munmap(got, length) };
            return Err(PageError::InUse);
        }
        ranges.insert(address, end);
        Ok(())
    }

    fn release(&self, address: u64, size: u64) -> Result<(), PageError> {
        let mut ranges = self.lock();
        let (start, stop) = Self::holds(&ranges, address, size)?;
        let length = usize::try_from(size).map_err(|_| PageError::NoMemory)?;
        // SAFETY: the whole range was reserved through this object; the lock is held, and it is forgotten below.
        if unsafe { libc::munmap(address as *mut libc::c_void, length) } != 0 {
            return Err(last_error());
        }
        ranges.remove(&start);
        if start < address {
            ranges.insert(start, address);
        }
        if address + size < stop {
            ranges.insert(address + size, stop);
        }
        Ok(())
    }

    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), PageError> {
        let ranges = self.lock();
        Self::holds(&ranges, address, size)?;
        let length = usize::try_from(size).map_err(|_| PageError::NoMemory)?;
        // SAFETY: the whole range was reserved through this object and the lock is held.
        if unsafe { libc::mprotect(address as *mut libc::c_void, length, protection(access)) } == 0 {
            Ok(())
        } else {
            Err(last_error())
        }
    }

    fn decommit(&self, address: u64, size: u64) -> Result<(), PageError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.replace(address, size, Access::None, flags, None)
    }

    fn map_file(
        &self,
        address: u64,
        size: u64,
        file: BorrowedFd<'_>,
        offset: u64,
        access: Access,
        sharing: Sharing,
    ) -> Result<(), PageError> {
        let flags = if sharing == Sharing::Shared {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        };
        let offset = i64::try_from(offset).map_err(|_| PageError::Denied)?;
        self.replace(address, size, access, flags, Some((file, offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_a_reserved_range_is_touched() {
        let pages = LinuxPages::default();
        let here = &raw const pages as u64 & !0xfff;
        assert_eq!(pages.protect(here, 0x1000, Access::None), Err(PageError::NotReserved));
        assert_eq!(pages.release(here, 0x1000), Err(PageError::NotReserved));
        assert_eq!(pages.reserve(here, 0x1000), Err(PageError::InUse));
    }

    #[test]
    fn a_range_can_be_given_back_in_parts() {
        let pages = LinuxPages::default();
        let base = 0x5a00_0000_0000;
        pages.reserve(base, 0x4000).expect("free address space");
        pages.release(base + 0x1000, 0x1000).expect("ours");
        assert_eq!(pages.protect(base, 0x2000, Access::Read), Err(PageError::NotReserved));
        pages.protect(base + 0x2000, 0x2000, Access::Write).expect("still ours");
        pages.release(base, 0x1000).expect("ours");
        pages.release(base + 0x2000, 0x2000).expect("ours");
    }
}
