// SPDX-License-Identifier: GPL-3.0-or-later
//! A host that exists only in a test: memory in a vector, page tables in a map, a clock that a test moves.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, Clock, Fault, Memory, PageError, Pages, Random, Sharing};

/// Memory at [`FakeMemory::BASE`], of a fixed size; everything else faults.
pub struct FakeMemory(Mutex<Vec<u8>>);

impl FakeMemory {
    /// The address of the first byte.
    pub const BASE: u64 = 0x10_0000;

    /// `size` zero bytes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self(Mutex::new(vec![0; size]))
    }

    fn range(bytes: &[u8], address: u64, length: usize, write: bool) -> Result<std::ops::Range<usize>, Fault> {
        let fault = Fault { address, write };
        let start = usize::try_from(address.checked_sub(Self::BASE).ok_or(fault)?).map_err(|_| fault)?;
        let end = start
            .checked_add(length)
            .filter(|end| *end <= bytes.len())
            .ok_or(fault)?;
        Ok(start..end)
    }
}

impl Memory for FakeMemory {
    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        let bytes = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        to.copy_from_slice(&bytes[Self::range(&bytes, address, to.len(), false)?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let range = Self::range(&bytes, address, from.len(), true)?;
        bytes[range].copy_from_slice(from);
        Ok(())
    }
}

/// Page tables that only remember: reserved pages and each page's access.
#[derive(Default)]
pub struct FakePages(Mutex<BTreeMap<u64, Access>>);

impl FakePages {
    /// The access to the page at `address`, if it is reserved.
    #[must_use]
    pub fn access(&self, address: u64) -> Option<Access> {
        self.lock().get(&(address & !0xfff)).copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Access>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set(&self, address: u64, size: u64, access: Access) -> Result<(), PageError> {
        let mut pages = self.lock();
        let all: Vec<u64> = (address..address + size).step_by(0x1000).collect();
        if !all.iter().all(|page| pages.contains_key(page)) {
            return Err(PageError::NotReserved);
        }
        for page in all {
            pages.insert(page, access);
        }
        Ok(())
    }
}

impl Pages for FakePages {
    fn reserve(&self, address: u64, size: u64) -> Result<(), PageError> {
        let mut pages = self.lock();
        if pages.range(address..address + size).next().is_some() {
            return Err(PageError::InUse);
        }
        pages.extend(
            (address..address + size)
                .step_by(0x1000)
                .map(|page| (page, Access::None)),
        );
        Ok(())
    }

    fn release(&self, address: u64, size: u64) -> Result<(), PageError> {
        self.set(address, size, Access::None)?;
        self.lock().retain(|page, _| !(address..address + size).contains(page));
        Ok(())
    }

    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), PageError> {
        self.set(address, size, access)
    }

    fn decommit(&self, address: u64, size: u64) -> Result<(), PageError> {
        self.set(address, size, Access::None)
    }

    fn map_file(
        &self,
        address: u64,
        size: u64,
        _file: BorrowedFd<'_>,
        _offset: u64,
        access: Access,
        _sharing: Sharing,
    ) -> Result<(), PageError> {
        self.set(address, size, access)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Default)]
pub struct FakeClock(AtomicU64);

impl FakeClock {
    /// A clock at `time`, in 100 ns.
    #[must_use]
    pub fn at(time: u64) -> Self {
        Self(AtomicU64::new(time))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn system_time(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic_time(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A generator with a seed: the same bytes each time. It also serves `--deterministic`.
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64 (Steele, Lea, Flood 2014).
            let mut z = self
                .0
                .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
                .wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}
