// SPDX-License-Identifier: GPL-3.0-or-later
//! The program's address space as NT describes it: regions allocated at 64 KiB borders, pages reserved or committed,
//! each with a protection. What would break if this were wrong: a program's memory, so each change is made on the host
//! first and noted only when the host agreed.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::protect;
use super::runs::Runs;
use crate::status::Status;
use crate::vdk::{Pages, Sharing};

/// `MEM_PRIVATE`, `MEM_MAPPED` and `MEM_IMAGE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Memory of the process alone.
    Private = 0x2_0000,
    /// A view of a section.
    Mapped = 0x4_0000,
    /// A view of an image.
    Image = 0x100_0000,
}

/// The page size.
pub const PAGE: u64 = 0x1000;
/// Allocations begin at multiples of this.
pub const GRANULARITY: u64 = 0x1_0000;
/// The first address above a program's.
pub const USER_END: u64 = 0x7fff_fffe_0000;
const LOW_START: u64 = 0x1_0000;
const LOW_END: u64 = 0x7f00_0000;
const HIGH_START: u64 = 0x100_0000_0000;

/// Where a new region may lie.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// Exactly here (rounded down to 64 KiB by the caller).
    At(u64),
    /// Anywhere.
    High,
    /// Below 2 GiB.
    Low,
    /// Between these addresses (the last one included), at this alignment.
    Within {
        /// The lowest address.
        low: u64,
        /// The last byte, or 0 for no limit.
        high: u64,
        /// A power of two of at least 64 KiB.
        alignment: u64,
    },
}

#[derive(Debug, Clone)]
struct Region {
    size: u64,
    kind: Kind,
    allocation_protect: u32,
    /// 0 for a reserved page, else its protection.
    pages: Runs,
    name: Option<Arc<str>>,
    /// Reserved with `MEM_RESERVE_PLACEHOLDER`.
    placeholder: bool,
}

/// `MEMORY_BASIC_INFORMATION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasicInformation {
    /// The page asked about.
    pub base: u64,
    /// Its region.
    pub allocation_base: u64,
    /// The region's first protection.
    pub allocation_protect: u32,
    /// How far pages of the same state go on from `base`.
    pub size: u64,
    /// `MEM_COMMIT`, `MEM_RESERVE` or `MEM_FREE`.
    pub state: u32,
    /// The protection, 0 when reserved.
    pub protect: u32,
    /// The [`Kind`], 0 when free.
    pub kind: u32,
}

/// What a fault at an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFault {
    /// The page is there now.
    Served,
    /// It was a guard page, and is an ordinary page from now on.
    Guard,
    /// The access is not allowed.
    Denied,
}

/// The regions of a process.
pub struct AddressSpace {
    pages: Box<dyn Pages>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    regions: BTreeMap<u64, Region>,
    next_high: u64,
}

impl State {
    fn find(&mut self, address: u64) -> Option<(u64, &mut Region)> {
        let (base, region) = self.regions.range_mut(..=address).next_back()?;
        (address < base + region.size).then_some((*base, region))
    }
}

fn page_range(address: u64, size: u64) -> Result<(u64, u64), Status> {
    let end = address
        .checked_add(size)
        .filter(|end| *end <= USER_END)
        .ok_or(Status::INVALID_PARAMETER)?;
    Ok((address & !(PAGE - 1), end.next_multiple_of(PAGE)))
}

impl AddressSpace {
    /// An empty address space on `pages`.
    #[must_use]
    pub fn new(pages: Box<dyn Pages>) -> Self {
        Self {
            pages,
            state: Mutex::new(State {
                regions: BTreeMap::new(),
                next_high: HIGH_START,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes address space.
    ///
    /// # Errors
    /// `CONFLICTING_ADDRESSES` when the place is taken, `NO_MEMORY` when there is none.
    pub fn reserve(
        &self,
        place: Place,
        size: u64,
        kind: Kind,
        protection: u32,
        name: Option<Arc<str>>,
    ) -> Result<u64, Status> {
        let size = size
            .checked_next_multiple_of(PAGE)
            .filter(|size| *size > 0 && *size < USER_END)
            .ok_or(Status::NO_MEMORY)?;
        let mut state = self.lock();
        let base = self.place(&mut state, place, size)?;
        let pages = Runs::new(base, base + size, 0);
        state.regions.insert(
            base,
            Region {
                size,
                kind,
                allocation_protect: protection,
                pages,
                name,
                placeholder: false,
            },
        );
        Ok(base)
    }

    fn place(&self, state: &mut State, place: Place, size: u64) -> Result<u64, Status> {
        let (low, high, alignment) = match place {
            Place::At(address) => {
                if address < LOW_START || address.checked_add(size).is_none_or(|end| end > USER_END) {
                    return Err(Status::CONFLICTING_ADDRESSES);
                }
                self.pages.reserve(address, size)?;
                return Ok(address);
            }
            Place::High => (state.next_high, USER_END, GRANULARITY),
            Place::Low => (LOW_START, LOW_END, GRANULARITY),
            Place::Within { low, high, alignment } => {
                let high = if high == 0 {
                    USER_END
                } else {
                    high.saturating_add(1).min(USER_END)
                };
                // Without a reason to go low, leave the low 4 GiB to those who must be there.
                let low = if low == 0 && high == USER_END {
                    HIGH_START
                } else {
                    low.max(LOW_START)
                };
                (low, high, alignment.max(GRANULARITY))
            }
        };
        let mut at = low.checked_next_multiple_of(alignment).ok_or(Status::NO_MEMORY)?;
        // Each turn passes one region of ours or one step of the host's; the host has no more mappings than this.
        for _ in 0..200_000 {
            let end = at
                .checked_add(size)
                .filter(|end| *end <= high)
                .ok_or(Status::NO_MEMORY)?;
            if let Some((base, region)) = state.regions.range(..end).next_back()
                && base + region.size > at
            {
                at = (base + region.size).next_multiple_of(alignment);
                continue;
            }
            match self.pages.reserve(at, size) {
                Ok(()) => {
                    if matches!(place, Place::High) {
                        state.next_high = end.next_multiple_of(GRANULARITY);
                    }
                    return Ok(at);
                }
                Err(crate::vdk::PageError::InUse) => {
                    at = at.checked_add(alignment.max(0x10_0000)).ok_or(Status::NO_MEMORY)?
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Status::NO_MEMORY)
    }

    /// Commits pages of one region, or changes committed ones to `protection`.
    ///
    /// # Errors
    /// `CONFLICTING_ADDRESSES` when the range is not in one region.
    pub fn commit(&self, address: u64, size: u64, protection: u32) -> Result<(), Status> {
        self.change(address, size, protection, true).map(drop)
    }

    /// Changes the protection of committed pages; gives the first page's old one.
    ///
    /// # Errors
    /// `CONFLICTING_ADDRESSES` when the range is not in one region, `NOT_COMMITTED` when a page is only reserved.
    pub fn protect(&self, address: u64, size: u64, protection: u32) -> Result<u32, Status> {
        self.change(address, size, protection, false)
    }

    fn change(&self, address: u64, size: u64, protection: u32, commit: bool) -> Result<u32, Status> {
        let (start, end) = page_range(address, size)?;
        let mut state = self.lock();
        let (base, region) = state.find(start).ok_or(Status::CONFLICTING_ADDRESSES)?;
        if end > base + region.size {
            return Err(Status::CONFLICTING_ADDRESSES);
        }
        if !commit && !region.pages.all(start, end, |state| state != 0) {
            return Err(Status::NOT_COMMITTED);
        }
        self.pages.protect(start, end - start, protect::access(protection))?;
        let (old, _) = region.pages.at(start);
        region.pages.set(start, end, protection);
        Ok(old)
    }

    /// Gives pages back but keeps their addresses; `size` 0 means the whole region, from its base.
    ///
    /// # Errors
    /// `MEMORY_NOT_ALLOCATED`, `UNABLE_TO_FREE_VM`.
    pub fn decommit(&self, address: u64, size: u64) -> Result<(u64, u64), Status> {
        let mut state = self.lock();
        let (base, region) = state.find(address).ok_or(Status::MEMORY_NOT_ALLOCATED)?;
        let (start, end) = match size {
            0 if address == base => (base, base + region.size),
            0 => return Err(Status::UNABLE_TO_FREE_VM),
            _ => page_range(address, size)?,
        };
        if end > base + region.size || region.kind != Kind::Private {
            return Err(Status::UNABLE_TO_FREE_VM);
        }
        self.pages.decommit(start, end - start)?;
        region.pages.set(start, end, 0);
        Ok((start, end - start))
    }

    /// Gives a private region back, or a part of it; `size` 0 means the whole. Gives the range.
    ///
    /// # Errors
    /// `MEMORY_NOT_ALLOCATED`, `UNABLE_TO_FREE_VM`.
    pub fn release(&self, address: u64, size: u64) -> Result<(u64, u64), Status> {
        let mut state = self.lock();
        let (base, region) = state.find(address).ok_or(Status::MEMORY_NOT_ALLOCATED)?;
        if region.kind != Kind::Private {
            return Err(Status::UNABLE_TO_FREE_VM);
        }
        let (start, end) = match size {
            0 if address == base => (base, base + region.size),
            0 => return Err(Status::UNABLE_TO_FREE_VM),
            _ => page_range(address, size)?,
        };
        if end > base + region.size {
            return Err(Status::UNABLE_TO_FREE_VM);
        }
        self.pages.release(start, end - start)?;
        let region = state.regions.remove(&base).ok_or(Status::MEMORY_NOT_ALLOCATED)?;
        for (from, to) in [(base, start), (end, base + region.size)] {
            if from < to {
                let pages = region.pages.part(from, to);
                state.regions.insert(
                    from,
                    Region {
                        size: to - from,
                        pages,
                        ..region.clone()
                    },
                );
            }
        }
        Ok((start, end - start))
    }

    /// Takes away the view or image that holds `address`; gives its base.
    ///
    /// # Errors
    /// `NOT_MAPPED_VIEW`.
    pub fn unmap(&self, address: u64) -> Result<u64, Status> {
        let mut state = self.lock();
        let (base, region) = state.find(address).ok_or(Status::NOT_MAPPED_VIEW)?;
        if region.kind == Kind::Private {
            return Err(Status::NOT_MAPPED_VIEW);
        }
        let size = region.size;
        self.pages.release(base, size)?;
        state.regions.remove(&base);
        Ok(base)
    }

    /// Turns a part of a placeholder into a placeholder of its own, as the first step of replacing it.
    ///
    /// # Errors
    /// `CONFLICTING_ADDRESSES`.
    pub fn split(&self, address: u64, size: u64) -> Result<(), Status> {
        let (start, end) = page_range(address, size)?;
        let mut state = self.lock();
        let (base, region) = state.find(start).ok_or(Status::CONFLICTING_ADDRESSES)?;
        let region = region.clone();
        if end > base + region.size || region.kind != Kind::Private {
            return Err(Status::CONFLICTING_ADDRESSES);
        }
        for (from, to) in [(base, start), (start, end), (end, base + region.size)] {
            if from < to {
                let pages = region.pages.part(from, to);
                state.regions.insert(
                    from,
                    Region {
                        size: to - from,
                        pages,
                        ..region.clone()
                    },
                );
            }
        }
        Ok(())
    }

    /// Joins the adjacent private regions that make up exactly this range.
    ///
    /// # Errors
    /// `CONFLICTING_ADDRESSES`.
    pub fn coalesce(&self, address: u64, size: u64) -> Result<(), Status> {
        let (start, end) = page_range(address, size)?;
        let mut state = self.lock();
        let mut at = start;
        let mut joined: Option<Region> = None;
        while at < end {
            let region = state
                .regions
                .get(&at)
                .filter(|region| region.kind == Kind::Private && at + region.size <= end);
            let region = region.ok_or(Status::CONFLICTING_ADDRESSES)?.clone();
            let next = at + region.size;
            let all = joined.get_or_insert_with(|| Region {
                size: end - start,
                pages: Runs::new(start, end, 0),
                ..region.clone()
            });
            let mut page = at;
            while page < next {
                let (state, run_end) = region.pages.at(page);
                all.pages.set(page, run_end, state);
                page = run_end;
            }
            at = next;
        }
        state.regions.retain(|base, _| !(start..end).contains(base));
        state.regions.extend(joined.map(|region| (start, region)));
        Ok(())
    }

    /// Marks a region as a placeholder (`MEM_RESERVE_PLACEHOLDER`).
    pub fn set_placeholder(&self, base: u64, placeholder: bool) {
        if let Some((_, region)) = self.lock().find(base) {
            region.placeholder = placeholder;
        }
    }

    /// Shows `file` in committed pages at `address`, inside one region.
    ///
    /// # Errors
    /// The host's refusal.
    pub fn map_file(
        &self,
        address: u64,
        size: u64,
        file: BorrowedFd<'_>,
        offset: u64,
        protection: u32,
        sharing: Sharing,
    ) -> Result<(), Status> {
        let (start, end) = page_range(address, size)?;
        let mut state = self.lock();
        let (base, region) = state.find(start).ok_or(Status::CONFLICTING_ADDRESSES)?;
        if end > base + region.size {
            return Err(Status::CONFLICTING_ADDRESSES);
        }
        self.pages
            .map_file(start, end - start, file, offset, protect::access(protection), sharing)?;
        region.pages.set(start, end, protection);
        Ok(())
    }

    /// What is at `address`.
    #[must_use]
    pub fn query(&self, address: u64) -> BasicInformation {
        let page = address & !(PAGE - 1);
        let mut state = self.lock();
        if let Some((base, region)) = state.find(page) {
            let (protect, end) = region.pages.at(page);
            return BasicInformation {
                base: page,
                allocation_base: base,
                allocation_protect: region.allocation_protect,
                size: end - page,
                state: if protect == 0 { 0x2000 } else { 0x1000 },
                protect,
                kind: region.kind as u32,
            };
        }
        let next = state.regions.range(page..).next().map_or(USER_END, |(base, _)| *base);
        let size = next.saturating_sub(page);
        BasicInformation {
            base: page,
            allocation_base: 0,
            allocation_protect: 0,
            size,
            state: 0x1_0000,
            protect: protect::NOACCESS,
            kind: 0,
        }
    }

    /// The base and the file name of the view or image at `address`.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<(u64, Arc<str>)> {
        let mut state = self.lock();
        let (base, region) = state.find(address)?;
        Some((base, region.name.clone()?))
    }

    /// A fault at `address`. `stack` is the faulting thread's: its allocation base and its limit. Gives also the new limit
    /// when the stack grew.
    pub fn page_fault(&self, address: u64, stack: (u64, u64)) -> (PageFault, Option<u64>) {
        let page = address & !(PAGE - 1);
        let (bottom, limit) = stack;
        let mut state = self.lock();
        let Some((base, region)) = state.find(page) else {
            return (PageFault::Denied, None);
        };
        // The lowest three pages of a stack stay out of reach: room to tell the program that it overflowed. Wine's ntdll
        // may jump far below the guard page, so any touch of the reserved part grows the stack.
        if base == bottom && page >= bottom + 3 * PAGE && page < limit {
            let grown = self
                .pages
                .protect(page, limit - page, protect::access(protect::READWRITE));
            if grown.is_err() {
                return (PageFault::Denied, None);
            }
            region.pages.set(page, limit, protect::READWRITE);
            if self
                .pages
                .protect(page - PAGE, PAGE, protect::access(protect::GUARD))
                .is_ok()
            {
                region.pages.set(page - PAGE, page, protect::READWRITE | protect::GUARD);
            }
            return (PageFault::Served, Some(page));
        }
        let (protection, _) = region.pages.at(page);
        if protection & protect::GUARD != 0 {
            let plain = protection & !protect::GUARD;
            if self.pages.protect(page, PAGE, protect::access(plain)).is_ok() {
                region.pages.set(page, page + PAGE, plain);
                return (PageFault::Guard, None);
            }
        }
        (PageFault::Denied, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdk::fake::FakePages;

    fn space() -> AddressSpace {
        AddressSpace::new(Box::new(FakePages::default()))
    }

    #[test]
    fn reserved_pages_cannot_be_protected_and_committed_ones_give_their_old_protection() {
        let space = space();
        let base = space
            .reserve(Place::High, 0x5000, Kind::Private, protect::READWRITE, None)
            .expect("room");
        assert_eq!(base % GRANULARITY, 0);
        assert_eq!(space.protect(base, 1, protect::READONLY), Err(Status::NOT_COMMITTED));
        space
            .commit(base + 0x1000, 0x2000, protect::READWRITE)
            .expect("reserved");
        assert_eq!(
            space.protect(base + 0x1fff, 2, protect::READONLY),
            Ok(protect::READWRITE)
        );
        let page = space.query(base + 0x1234);
        assert_eq!(
            (page.base, page.size, page.state, page.protect),
            (base + 0x1000, 0x2000, 0x1000, protect::READONLY)
        );
        assert_eq!(
            space.commit(base + 0x4000, 0x2000, protect::READWRITE),
            Err(Status::CONFLICTING_ADDRESSES)
        );
    }

    #[test]
    fn a_released_middle_leaves_two_regions() {
        let space = space();
        let base = space
            .reserve(Place::At(0x50_0000), 0x3_0000, Kind::Private, protect::READWRITE, None)
            .expect("free");
        space.release(base + 0x1_0000, 0x1_0000).expect("ours");
        assert_eq!(space.query(base + 0x1_0000).state, 0x1_0000);
        assert_eq!(space.query(base + 0x2_0000).allocation_base, base + 0x2_0000);
        assert_eq!(space.release(base + 0x1_0000, 0), Err(Status::MEMORY_NOT_ALLOCATED));
        assert_eq!(
            space.reserve(Place::At(base), 0x1000, Kind::Private, 4, None),
            Err(Status::CONFLICTING_ADDRESSES)
        );
    }

    #[test]
    fn a_stack_grows_down_to_its_last_three_pages_and_not_further() {
        let space = space();
        let base = space
            .reserve(Place::High, 0x1_0000, Kind::Private, protect::READWRITE, None)
            .expect("room");
        space
            .commit(base + 0xf000, 0x1000, protect::READWRITE)
            .expect("reserved");
        let limit = base + 0xf000;
        let (fault, grown) = space.page_fault(base + 0xa123, (base, limit));
        assert_eq!((fault, grown), (PageFault::Served, Some(base + 0xa000)));
        assert_eq!(space.query(base + 0x9000).protect, protect::READWRITE | protect::GUARD);
        assert_eq!(
            space.page_fault(base + 0x2fff, (base, base + 0xa000)).0,
            PageFault::Denied
        );
    }

    #[test]
    fn a_guard_page_is_told_once() {
        let space = space();
        let base = space
            .reserve(Place::High, 0x1000, Kind::Private, protect::READWRITE, None)
            .expect("room");
        space
            .commit(base, 0x1000, protect::READWRITE | protect::GUARD)
            .expect("reserved");
        assert_eq!(space.page_fault(base, (0, 0)).0, PageFault::Guard);
        assert_eq!(space.page_fault(base, (0, 0)).0, PageFault::Denied);
        assert_eq!(space.query(base).protect, protect::READWRITE);
    }

    #[test]
    fn split_placeholders_join_again() {
        let space = space();
        let base = space
            .reserve(Place::High, 0x4_0000, Kind::Private, protect::NOACCESS, None)
            .expect("room");
        space.split(base + 0x1_0000, 0x1_0000).expect("inside");
        assert_eq!(space.query(base + 0x1_0000).size, 0x1_0000);
        assert_eq!(space.coalesce(base, 0x1_8000), Err(Status::CONFLICTING_ADDRESSES));
        space.coalesce(base, 0x4_0000).expect("all of them");
        assert_eq!(space.query(base).size, 0x4_0000);
    }
}
