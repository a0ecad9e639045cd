// SPDX-License-Identifier: GPL-3.0-or-later
//! The PEB (offsets as in the phnt headers).

use crate::image::{ImageHeaders, ReadAt};
use crate::nt::Process;
use crate::nt::memory::{Kind, Place, protect};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// The largest API set map that is taken.
const MAX_API_SET_BYTES: u32 = 4 << 20;

/// Takes zeroed memory for the program.
pub(super) fn allocate(process: &Process, bytes: u64) -> Result<u64, Status> {
    let base = process
        .space
        .reserve(Place::Low, bytes, Kind::Private, protect::READWRITE, None)?;
    process.space.commit(base, bytes, protect::READWRITE)?;
    Ok(base)
}

/// Writes the PEB of an image at `base`; gives its address.
pub(super) fn write(process: &Process, base: u64, parameters: u64, headers: &ImageHeaders) -> Result<u64, Status> {
    let memory = &*process.host.memory;
    let peb = allocate(process, process.flavor.peb_bytes())?;
    let processors = process.host.processors;
    let quads: [(u64, u64); 11] = [
        (0x08, u64::MAX), // Mutant
        (0x10, base),
        (0x20, parameters),
        (0x68, api_set_map(process)?),
        (0xc0, (-25_920_000_000_000_i64).cast_unsigned()), // CriticalSectionTimeout: 30 days
        (0xc8, 0x10_0000),                                 // heap reserve, commit, decommit
        (0xd0, 0x2000),
        (0xd8, 0x1_0000),
        (0xe0, 0x1000),
        (0xf0, peb + 0x1000), // ProcessHeaps
        (0x138, u64::MAX >> (64 - processors.clamp(1, 64))),
    ];
    for (offset, value) in quads {
        memory.put(peb + offset, value)?;
    }
    let words: [(u64, u32); 9] = [
        (0xb8, processors),
        (0xec, 16), // MaximumNumberOfHeaps
        (0x118, 10),
        (0x120, super::shared_data::BUILD),
        (0x124, 2), // OSPlatformId
        (0x128, headers.subsystem.into()),
        (0x12c, headers.subsystem_version.0.into()),
        (0x130, headers.subsystem_version.1.into()),
        (0x2c0, 1), // SessionId
    ];
    for (offset, value) in words {
        memory.put(peb + offset, value)?;
    }
    Ok(peb)
}

/// The `.apiset` section of the world's apisetschema.dll in memory; 0 without one.
fn api_set_map(process: &Process) -> Result<u64, Status> {
    let volume = process.drives.get('C');
    let Some(file) = volume.and_then(|volume| volume.open_existing(&["Windows", "System32", "apisetschema.dll"]))
    else {
        return Ok(0);
    };
    let Ok(headers) = ImageHeaders::parse(&file) else {
        return Ok(0);
    };
    let section = headers
        .sections
        .iter()
        .find(|section| section.name.starts_with(b".apiset"));
    let Some(section) = section.filter(|section| section.file_bytes <= MAX_API_SET_BYTES) else {
        return Ok(0);
    };
    let mut bytes = vec![0; section.file_bytes as usize];
    let got = ReadAt::read_at(&file, &mut bytes, section.file_offset.into())?;
    let at = allocate(process, (got as u64).max(1))?;
    process.host.memory.write(at, &bytes[..got])?;
    process.space.protect(at, (got as u64).max(1), protect::READONLY)?;
    Ok(at)
}
