// SPDX-License-Identifier: GPL-3.0-or-later
//! A program's memory as a service sees it: every access may fail, none may end the process.

use std::io;
use std::os::fd::BorrowedFd;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// A program's address could not be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the program's memory at {address:#x} cannot be {}", if *.write { "written" } else { "read" })]
pub struct Fault {
    /// The first byte of the access that failed.
    pub address: u64,
    /// Whether it was a write.
    pub write: bool,
}

/// Copies to and from a program's memory.
///
/// Never call this while holding a lock that the page-fault path takes (the address space's): a copy may grow a stack.
pub trait Memory: Send + Sync {
    /// Fills `to` from `address`.
    ///
    /// # Errors
    /// [`Fault`] when any byte cannot be read; `to` may then be partly filled.
    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Fault>;

    /// Stores `from` at `address`.
    ///
    /// # Errors
    /// [`Fault`] when any byte cannot be written; the bytes before it may be written then.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;

    /// Reads from `file` (at `offset`, or at the file's own position) into the program's memory: how many bytes.
    ///
    /// # Errors
    /// The host's error; `EFAULT` when the memory cannot be written.
    fn read_from_file(
        &self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        address: u64,
        length: usize,
    ) -> io::Result<usize> {
        let mut bytes = vec![0; length.min(BOUNCE_BYTES)];
        let done = match offset {
            Some(offset) => rustix::io::pread(file, &mut bytes, offset)?,
            None => rustix::io::read(file, &mut bytes)?,
        };
        self.write(address, &bytes[..done])
            .map_err(|_| io::Error::from(rustix::io::Errno::FAULT))?;
        Ok(done)
    }

    /// Writes the program's memory to `file` (at `offset`, or at the file's own position): how many bytes.
    ///
    /// # Errors
    /// The host's error; `EFAULT` when the memory cannot be read.
    fn write_to_file(
        &self,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        address: u64,
        length: usize,
    ) -> io::Result<usize> {
        let mut bytes = vec![0; length.min(BOUNCE_BYTES)];
        self.read(address, &mut bytes)
            .map_err(|_| io::Error::from(rustix::io::Errno::FAULT))?;
        Ok(match offset {
            Some(offset) => rustix::io::pwrite(file, &bytes, offset)?,
            None => rustix::io::write(file, &bytes)?,
        })
    }
}

/// How much one call carries through a buffer of ours at most; a caller that wants more calls again.
pub const BOUNCE_BYTES: usize = 1 << 20;

/// The longest byte string that [`MemoryExt::read_bytes`] takes at once: no service needs more, and a program's length
/// must not decide how much memory we take.
pub const MAX_READ_BYTES: usize = 64 << 20;

/// The last page of a 47-bit address space: never mapped, so an access faults, and far enough from the end of the numbers
/// that a field's offset can be added.
pub const UNREACHABLE: u64 = 0x7fff_ffff_f000;

/// A program's pointer as it may be used: one beyond the program's part of the address space becomes [`UNREACHABLE`].
#[must_use]
pub fn probe(pointer: u64) -> u64 {
    pointer.min(UNREACHABLE)
}

/// Typed access on top of [`Memory`].
pub trait MemoryExt: Memory {
    /// Reads one plain value.
    ///
    /// # Errors
    /// [`Fault`], as [`Memory::read`].
    fn get<T: FromBytes + IntoBytes + FromZeros>(&self, address: u64) -> Result<T, Fault> {
        let mut value = T::new_zeroed();
        self.read(address, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Reads a pointer, probed.
    ///
    /// # Errors
    /// [`Fault`], as [`Memory::read`].
    fn get_pointer(&self, address: u64) -> Result<u64, Fault> {
        Ok(probe(self.get(address)?))
    }

    /// Stores one plain value.
    ///
    /// # Errors
    /// [`Fault`], as [`Memory::write`].
    fn put<T: IntoBytes + Immutable>(&self, address: u64, value: T) -> Result<(), Fault> {
        self.write(address, value.as_bytes())
    }

    /// Stores a value where a null address means that the caller does not want it.
    ///
    /// # Errors
    /// [`Fault`], as [`Memory::write`].
    fn put_optional<T: IntoBytes + Immutable>(&self, address: u64, value: T) -> Result<(), Fault> {
        if address == 0 { Ok(()) } else { self.put(address, value) }
    }

    /// Reads `length` bytes.
    ///
    /// # Errors
    /// [`Fault`]; also for a length above `MAX_READ_BYTES`.
    fn read_bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Fault> {
        if length > MAX_READ_BYTES {
            return Err(Fault { address, write: false });
        }
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `units` UTF-16 code units.
    ///
    /// # Errors
    /// [`Fault`], as [`MemoryExt::read_bytes`].
    fn read_units(&self, address: u64, units: usize) -> Result<Vec<u16>, Fault> {
        let bytes = self.read_bytes(address, units.saturating_mul(2))?;
        Ok(bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect())
    }
}

impl<M: Memory + ?Sized> MemoryExt for M {}
