// SPDX-License-Identifier: GPL-3.0-or-later
//! The virtual-memory services.

use super::space::{BasicInformation, GRANULARITY, Kind, PAGE, Place, USER_END};
use super::{AddressSpace, protect};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::counted_string;
use crate::status::Status;
use crate::vdk::MemoryExt;

const COMMIT: u32 = 0x1000;
const RESERVE: u32 = 0x2000;
const REPLACE_PLACEHOLDER: u32 = 0x4000;
const RESERVE_PLACEHOLDER: u32 = 0x4_0000;
const RESET: u32 = 0x8_0000;
const RESET_UNDO: u32 = 0x100_0000;
const DECOMMIT: u32 = 0x4000;
const RELEASE: u32 = 0x8000;
const COALESCE_PLACEHOLDERS: u32 = 1;
const PRESERVE_PLACEHOLDER: u32 = 2;

/// Only the own process's memory can be changed today.
fn own_process(call: &Call<'_>, index: usize) -> Result<(), Status> {
    let object = call.object(index)?;
    match &object.body {
        crate::object::Body::Process(process) if process.is_own() => Ok(()),
        crate::object::Body::Process(_) => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

/// `ZeroBits`: how many high bits must be clear, or, from 32 on, a mask of those that may be set.
fn place_for_zero_bits(zero_bits: u64) -> Result<Place, Status> {
    match zero_bits {
        0 => Ok(Place::High),
        1..=21 => Ok(Place::Low),
        22..=31 => Err(Status::INVALID_PARAMETER_3),
        mask => {
            let high = u64::MAX >> mask.leading_zeros();
            Ok(if high < 1 << 32 {
                Place::Low
            } else {
                Place::Within {
                    low: 0,
                    high: high.min(USER_END - 1),
                    alignment: GRANULARITY,
                }
            })
        }
    }
}

struct Request {
    base: u64,
    size: u64,
    kind: u32,
    protection: u32,
    place: Place,
}

fn allocate(space: &AddressSpace, request: &Request) -> Result<(u64, u64), Status> {
    let Request {
        base,
        size,
        kind,
        protection,
        place,
    } = *request;
    if size == 0 || size > USER_END || base >= USER_END {
        return Err(Status::INVALID_PARAMETER);
    }
    if kind & (RESET | RESET_UNDO) != 0 {
        // The content may be kept.
        return Ok((base & !(PAGE - 1), size.next_multiple_of(PAGE)));
    }
    if kind & (COMMIT | RESERVE) == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let protection = if kind & RESERVE_PLACEHOLDER != 0 {
        protect::NOACCESS
    } else {
        protect::check(protection)?
    };
    if protection & 0xff == protect::WRITECOPY || protection & 0xff == protect::EXECUTE_WRITECOPY {
        return Err(Status::INVALID_PAGE_PROTECTION);
    }
    let (at, length) = if kind & REPLACE_PLACEHOLDER != 0 {
        space.split(base, size)?;
        space.set_placeholder(base, false);
        (base, size.next_multiple_of(PAGE))
    } else if kind & RESERVE != 0 || base == 0 {
        let start = base & !(GRANULARITY - 1);
        let length = (base - start + size).next_multiple_of(PAGE);
        let place = if base == 0 { place } else { Place::At(start) };
        let at = space.reserve(place, length, Kind::Private, protection, None)?;
        space.set_placeholder(at, kind & RESERVE_PLACEHOLDER != 0);
        (at, length)
    } else {
        let start = base & !(PAGE - 1);
        (start, (base - start + size).next_multiple_of(PAGE))
    };
    if kind & COMMIT != 0
        && let Err(status) = space.commit(at, length, protection)
    {
        if kind & RESERVE != 0 {
            let _ = space.release(at, 0);
        }
        return Err(status);
    }
    Ok((at, length))
}

pub(in crate::nt) fn allocate_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    let memory = call.memory();
    let (base, size) = (memory.get(call.arg(1))?, memory.get(call.arg(3))?);
    let place = place_for_zero_bits(call.arg(2))?;
    let request = Request {
        base,
        size,
        kind: call.u32(4),
        protection: call.u32(5),
        place,
    };
    let (at, length) = allocate(&call.process.space, &request)?;
    memory.put(call.arg(1), at)?;
    memory.put(call.arg(3), length)?;
    Ok(Status::SUCCESS)
}

/// MEM_EXTENDED_PARAMETERs: the address requirements count; a NUMA node and attribute flags are taken without effect.
pub(in crate::nt) fn extended_place(call: &Call<'_>, list: u64, count: u32) -> Result<Place, Status> {
    const ADDRESS_REQUIREMENTS: u8 = 1;
    const MAX_PARAMETERS: u32 = 16;
    let memory = call.memory();
    if count > MAX_PARAMETERS {
        return Err(Status::INVALID_PARAMETER);
    }
    let mut place = Place::High;
    for index in 0..u64::from(count) {
        let kind: u8 = memory.get(list + 16 * index)?;
        if kind == ADDRESS_REQUIREMENTS {
            let at = memory.get_pointer(list + 16 * index + 8)?;
            let (low, high, alignment) = (memory.get(at)?, memory.get(at + 8)?, memory.get::<u64>(at + 16)?);
            if alignment != 0 && (!alignment.is_power_of_two() || alignment < GRANULARITY) {
                return Err(Status::INVALID_PARAMETER);
            }
            place = Place::Within {
                low,
                high,
                alignment: alignment.max(GRANULARITY),
            };
        }
    }
    Ok(place)
}

pub(in crate::nt) fn allocate_virtual_memory_ex(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    let memory = call.memory();
    let (base, size) = (memory.get(call.arg(1))?, memory.get(call.arg(2))?);
    let place = extended_place(call, call.arg(5), call.u32(6))?;
    let request = Request {
        base,
        size,
        kind: call.u32(3),
        protection: call.u32(4),
        place,
    };
    let (at, length) = allocate(&call.process.space, &request)?;
    memory.put(call.arg(1), at)?;
    memory.put(call.arg(2), length)?;
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn free_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    let memory = call.memory();
    let (base, size): (u64, u64) = (memory.get(call.arg(1))?, memory.get(call.arg(2))?);
    let kind = call.u32(3);
    let space = &call.process.space;
    let (at, length) = match kind {
        DECOMMIT => space.decommit(base, size)?,
        RELEASE => space.release(base, size)?,
        _ if kind == RELEASE | PRESERVE_PLACEHOLDER => {
            space.split(base, size)?;
            space.set_placeholder(base, true);
            space.decommit(base, size)?
        }
        _ if kind == RELEASE | COALESCE_PLACEHOLDERS => {
            space.coalesce(base, size)?;
            (base, size)
        }
        _ => return Err(Status::INVALID_PARAMETER),
    };
    memory.put(call.arg(1), at)?;
    memory.put(call.arg(2), length)?;
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn protect_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    let memory = call.memory();
    let (base, size): (u64, u64) = (memory.get(call.arg(1))?, memory.get(call.arg(2))?);
    let protection = protect::check(call.u32(3))?;
    if size == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let old = call.process.space.protect(base, size, protection)?;
    let start = base & !(PAGE - 1);
    memory.put(call.arg(1), start)?;
    memory.put(call.arg(2), (base - start + size).next_multiple_of(PAGE))?;
    memory.put(call.arg(4), old)?;
    Ok(Status::SUCCESS)
}

/// What `NtQueryVirtualMemory` serves: basic information, file name, region, and Wine's Unix library.
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[0, 2, 3, 6, 1000];

pub(in crate::nt) fn query_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    let (address, class) = (call.arg(1), call.u32(2));
    let space = &call.process.space;
    if address >= USER_END + 0x1_0000 {
        return Err(Status::INVALID_PARAMETER);
    }
    // The lengths of this service are of 64 bits.
    let put = |answer: &[u8], short: Status| -> ServiceResult {
        call.memory().put_optional(call.arg(5), answer.len() as u64)?;
        if call.arg(4) < answer.len() as u64 {
            return Err(short);
        }
        call.memory().write(call.arg(3), answer)?;
        Ok(Status::SUCCESS)
    };
    match class {
        0 => {
            let BasicInformation {
                base,
                allocation_base,
                allocation_protect,
                size,
                state,
                protect,
                kind,
            } = space.query(address);
            let mut answer = [base, allocation_base, allocation_protect.into(), size]
                .map(u64::to_le_bytes)
                .concat();
            answer.extend([state, protect, kind, 0].map(u32::to_le_bytes).concat());
            put(&answer, Status::INFO_LENGTH_MISMATCH)
        }
        2 => {
            const INVALID_ADDRESS: Status = Status(0xc000_0141);
            let (_, name) = space.name_at(address).ok_or(INVALID_ADDRESS)?;
            let path = crate::nt::file::device_path(&name);
            put(&counted_string(call.arg(3), &path), Status::BUFFER_OVERFLOW)
        }
        3 => {
            let basic = space.query(address);
            if basic.allocation_base == 0 {
                return Err(Status::INVALID_PARAMETER);
            }
            // MEMORY_REGION_INFORMATION: base, protection, flags (bit 0 private, 1 mapped file, 2 mapped image), size.
            let flags: u32 = match basic.kind {
                0x2_0000 => 1,
                0x4_0000 => 2,
                _ => 4,
            };
            let mut end = basic.base + basic.size;
            while space.query(end).allocation_base == basic.allocation_base {
                let next = space.query(end);
                end = next.base + next.size;
            }
            let mut answer = basic.allocation_base.to_le_bytes().to_vec();
            answer.extend([basic.allocation_protect, flags].map(u32::to_le_bytes).concat());
            answer.extend((end - basic.allocation_base).to_le_bytes());
            put(&answer, Status::INFO_LENGTH_MISMATCH)
        }
        6 => {
            let basic = space.query(address);
            if basic.kind != Kind::Image as u32 {
                return Err(Status::INVALID_PARAMETER);
            }
            // MEMORY_IMAGE_INFORMATION: base, size, flags.
            let header: u32 = call.memory().get(basic.allocation_base + 0x3c)?;
            let size: u32 = call.memory().get(basic.allocation_base + u64::from(header) + 24 + 56)?;
            let answer = [basic.allocation_base, size.into(), 0].map(u64::to_le_bytes).concat();
            put(&answer, Status::INFO_LENGTH_MISMATCH)
        }
        // Wine's DLLs ask for their Unix library: there is none, and a call through the handle fails by name.
        1000 if call.process.flavor.is_wine() => {
            let own = call
                .process
                .entry_points
                .get()
                .is_some_and(|entry| entry.ntdll == address);
            put(
                &(if own { crate::flavor::UNIXLIB_OF_NTDLL } else { address }).to_le_bytes(),
                Status::INFO_LENGTH_MISMATCH,
            )
        }
        class => Err(call.unserved_class(class)),
    }
}

/// Pages cannot be pinned for a program without privileges on the host; nothing that a program can see depends on it.
pub(in crate::nt) fn lock_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    Ok(Status::SUCCESS)
}

/// x86-64 keeps its instruction cache in step by itself.
pub(in crate::nt) fn flush_instruction_cache(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    Ok(Status::SUCCESS)
}

fn transfer(call: &mut Call<'_>, read: bool) -> ServiceResult {
    const PARTIAL_COPY: Status = Status(0x8000_000d);
    own_process(call, 0)?;
    let memory = call.memory();
    let (from, to) = if read {
        (call.arg(1), call.arg(2))
    } else {
        (call.arg(2), call.arg(1))
    };
    let total = call.arg(3);
    let mut done = 0;
    while done < total {
        let step = (total - done).min(0x1_0000);
        let Ok(bytes) = memory.read_bytes(from.wrapping_add(done), usize::try_from(step).unwrap_or(0)) else {
            break;
        };
        if memory.write(to.wrapping_add(done), &bytes).is_err() {
            break;
        }
        done += step;
    }
    memory.put_optional(call.arg(4), done)?;
    Ok(if done == total { Status::SUCCESS } else { PARTIAL_COPY })
}

pub(in crate::nt) fn read_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    transfer(call, true)
}

pub(in crate::nt) fn write_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    transfer(call, false)
}

pub(in crate::nt) fn flush_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    // Shared views are the file's own pages: every reader sees a store at once.
    Ok(Status::SUCCESS)
}

/// Prefetching is a hint; the other classes are not served.
pub(in crate::nt) fn set_information_virtual_memory(call: &mut Call<'_>) -> ServiceResult {
    own_process(call, 0)?;
    match call.u32(1) {
        0 => Ok(Status::SUCCESS),
        class => {
            let _ = call.unserved_class(class);
            Err(Status::NOT_SUPPORTED)
        }
    }
}
