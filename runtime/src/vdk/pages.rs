// SPDX-License-Identifier: GPL-3.0-or-later
//! The host's page tables as the NT address space uses them.

use std::os::fd::BorrowedFd;

/// What a program may do with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Read and run.
    Execute,
    /// Read, write and run.
    WriteExecute,
}

/// Whether stores to a file's pages reach the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// They do, and every mapping sees them.
    Shared,
    /// They stay in this mapping.
    Private,
}

/// The host refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Something is there already.
    #[error("the address range is in use")]
    InUse,
    /// The range was not reserved through the same object.
    #[error("the address range is not ours")]
    NotReserved,
    /// The host has no memory or no address space left.
    #[error("the host has no memory left")]
    NoMemory,
    /// The host forbids this access to the file.
    #[error("the host forbids this access to the file")]
    Denied,
}

/// Reserving and changing address ranges. Addresses and sizes are multiples of 4096 bytes.
///
/// An implementation touches nothing but what was reserved through it.
pub trait Pages: Send + Sync {
    /// Takes exactly this range, without access.
    ///
    /// # Errors
    /// [`PageError::InUse`] when any page of it is in use; [`PageError::NoMemory`].
    fn reserve(&self, address: u64, size: u64) -> Result<(), PageError>;

    /// Gives a reserved range back.
    ///
    /// # Errors
    /// [`PageError::NotReserved`] when it is not wholly reserved.
    fn release(&self, address: u64, size: u64) -> Result<(), PageError>;

    /// Sets the access to a part of a reserved range.
    ///
    /// # Errors
    /// [`PageError::NotReserved`], [`PageError::NoMemory`], [`PageError::Denied`].
    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), PageError>;

    /// Forgets the content of a part of a reserved range: zero bytes and no access from now on.
    ///
    /// # Errors
    /// [`PageError::NotReserved`], [`PageError::NoMemory`].
    fn decommit(&self, address: u64, size: u64) -> Result<(), PageError>;

    /// Shows a file in a part of a reserved range.
    ///
    /// # Errors
    /// [`PageError::NotReserved`], [`PageError::NoMemory`], [`PageError::Denied`].
    fn map_file(
        &self,
        address: u64,
        size: u64,
        file: BorrowedFd<'_>,
        offset: u64,
        access: Access,
        sharing: Sharing,
    ) -> Result<(), PageError>;
}
