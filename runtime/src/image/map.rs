// SPDX-License-Identifier: GPL-3.0-or-later
//! Mapping an image: the file's pages privately where alignment allows, copied bytes elsewhere, relocated when its own
//! base is taken.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::{Directory, ImageError, ImageHeaders, ReadAt, SectionFlags, StubKind};
use crate::nt::memory::{AddressSpace, Kind, PAGE, Place, protect};
use crate::status::Status;
use crate::vdk::{Memory, MemoryExt, Sharing};

/// An image in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedImage {
    /// Where it is.
    pub base: u64,
    /// Whether that is not where it wanted to be.
    pub relocated: bool,
}

/// The most relocations that are applied: more than any image of [`super::MAX_IMAGE_BYTES`] can need.
const MAX_RELOCATION_BYTES: u32 = 0x1000_0000;

/// Maps `file` as an image. `name` is what queries call it; `elsewhere` moves it off its own base (for tests).
///
/// # Errors
/// [`ImageError::Map`] when there is no room or it cannot be moved; [`ImageError::Bad`] for damaged relocations.
pub fn map_image(
    space: &AddressSpace,
    memory: &dyn Memory,
    file: &File,
    headers: &ImageHeaders,
    name: &Arc<str>,
    elsewhere: bool,
) -> Result<MappedImage, ImageError> {
    let reserve = |place| {
        space.reserve(
            place,
            headers.image_bytes.into(),
            Kind::Image,
            protect::EXECUTE_WRITECOPY,
            Some(Arc::clone(name)),
        )
    };
    let own = if elsewhere || headers.image_base == 0 {
        Err(Status::CONFLICTING_ADDRESSES)
    } else {
        reserve(Place::At(headers.image_base))
    };
    let base = match own {
        Ok(base) => base,
        Err(_) if headers.directory(Directory::Relocation).is_none() && headers.characteristics & 1 != 0 => {
            return Err(ImageError::Map(Status::CONFLICTING_ADDRESSES));
        }
        Err(_) => reserve(Place::High).map_err(ImageError::Map)?,
    };
    let mapped = MappedImage {
        base,
        relocated: base != headers.image_base,
    };
    match fill(space, memory, file, headers, mapped) {
        Ok(()) => Ok(mapped),
        Err(error) => {
            // The region is ours and whole.
            let _ = space.unmap(base);
            Err(error)
        }
    }
}

fn fill(
    space: &AddressSpace,
    memory: &dyn Memory,
    file: &File,
    headers: &ImageHeaders,
    mapped: MappedImage,
) -> Result<(), ImageError> {
    let base = mapped.base;
    let file_bytes = file.metadata()?.len();
    place(
        space,
        memory,
        file,
        file_bytes,
        base,
        (0, headers.headers_bytes, headers.headers_bytes),
    )?;
    for section in &headers.sections {
        let at = base + u64::from(section.rva);
        place(
            space,
            memory,
            file,
            file_bytes,
            at,
            (section.file_offset, section.file_bytes, section.memory_bytes),
        )?;
    }
    if mapped.relocated {
        relocate(memory, headers, base)?;
        // As NT does it: the header in memory shows the true base.
        let field = base + u64::from(headers.pe_offset) + 24 + 24;
        memory
            .put(field, base)
            .map_err(|_| ImageError::Map(Status::INVALID_IMAGE_FORMAT))?;
    }
    space
        .protect(base, headers.headers_bytes.into(), protect::READONLY)
        .map_err(ImageError::Map)?;
    for section in &headers.sections {
        let execute = section.characteristics & SectionFlags::EXECUTE != 0;
        let write = section.characteristics & SectionFlags::WRITE != 0;
        let protection = match (execute, write) {
            (true, true) => protect::EXECUTE_READWRITE,
            (true, false) => protect::EXECUTE_READ,
            (false, true) => protect::READWRITE,
            (false, false) => protect::READONLY,
        };
        space
            .protect(base + u64::from(section.rva), section.memory_bytes.into(), protection)
            .map_err(ImageError::Map)?;
    }
    Ok(())
}

/// Puts `file_part` bytes of the file at `address`, zeros behind them up to `memory_bytes`.
fn place(
    space: &AddressSpace,
    memory: &dyn Memory,
    file: &File,
    file_bytes: u64,
    address: u64,
    (offset, file_part, memory_bytes): (u32, u32, u32),
) -> Result<(), ImageError> {
    let memory_end = u64::from(memory_bytes).next_multiple_of(PAGE);
    let offset = u64::from(offset);
    // Pages behind the end of a file would be SIGBUS: only what the file has is mapped.
    let present = u64::from(file_part)
        .min(file_bytes.saturating_sub(offset))
        .min(memory_end);
    let denied = |_| ImageError::Map(Status::INVALID_IMAGE_FORMAT);
    if offset % PAGE == 0 && present > 0 {
        let end = present.next_multiple_of(PAGE);
        space
            .map_file(address, end, file.as_fd(), offset, protect::READWRITE, Sharing::Private)
            .map_err(ImageError::Map)?;
        if present < end {
            let zeros = vec![0; usize::try_from(end - present).unwrap_or(0)];
            memory.write(address + present, &zeros).map_err(denied)?;
        }
        if end < memory_end {
            space
                .commit(address + end, memory_end - end, protect::READWRITE)
                .map_err(ImageError::Map)?;
        }
        return Ok(());
    }
    space
        .commit(address, memory_end, protect::READWRITE)
        .map_err(ImageError::Map)?;
    let mut done = 0;
    let mut chunk = vec![0; 0x1_0000];
    while done < present {
        let want = usize::try_from(present - done).unwrap_or(usize::MAX).min(chunk.len());
        let got = ReadAt::read_at(file, &mut chunk[..want], offset + done)?;
        if got == 0 {
            break;
        }
        memory.write(address + done, &chunk[..got]).map_err(denied)?;
        done += got as u64;
    }
    Ok(())
}

fn relocate(memory: &dyn Memory, headers: &ImageHeaders, base: u64) -> Result<(), ImageError> {
    const DIR64: u16 = 10;
    const HIGHLOW: u16 = 3;
    let Some((rva, bytes)) = headers.directory(Directory::Relocation) else {
        return Ok(());
    };
    let bad = |what, found: u64, at: u64| ImageError::Bad {
        what,
        found,
        offset: at,
        expected: "a place within the image",
    };
    if bytes > MAX_RELOCATION_BYTES || u64::from(rva) + u64::from(bytes) > u64::from(headers.image_bytes) {
        return Err(bad("the size of the relocations", bytes.into(), rva.into()));
    }
    let delta = base.wrapping_sub(headers.image_base);
    let unreadable = |_| bad("the relocation directory", rva.into(), rva.into());
    let table = memory
        .read_bytes(base + u64::from(rva), bytes as usize)
        .map_err(unreadable)?;
    let mut rest = table.as_slice();
    // A page, and the 7 bytes by which its last relocation may reach into the next.
    let mut page = vec![0u8; 0x1008];
    while let Some((head, _)) = rest.split_first_chunk::<8>() {
        let page_rva = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let block_bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if block_bytes < 8 {
            break;
        }
        let block = rest
            .get(..block_bytes)
            .ok_or_else(|| bad("a relocation block's size", block_bytes as u64, page_rva.into()))?;
        if page_rva >= headers.image_bytes {
            return Err(bad("a relocation block's page", page_rva.into(), page_rva.into()));
        }
        let room = u64::from(headers.image_bytes).next_multiple_of(PAGE) - u64::from(page_rva);
        let length = usize::try_from(room).unwrap_or(usize::MAX).min(page.len());
        let address = base + u64::from(page_rva);
        let outside = |_| bad("a relocation block's page", page_rva.into(), page_rva.into());
        // The tail may lie in a gap between sections; then no relocation may reach into it.
        let length = if memory.read(address, &mut page[..length]).is_ok() {
            length
        } else {
            length.min(0x1000)
        };
        memory.read(address, &mut page[..length]).map_err(outside)?;
        for entry in block[8..].chunks_exact(2) {
            let entry = u16::from_le_bytes([entry[0], entry[1]]);
            let at = usize::from(entry & 0xfff);
            let width = match entry >> 12 {
                DIR64 => 8,
                HIGHLOW => 4,
                _ => continue,
            };
            let field = page[..length]
                .get_mut(at..at + width)
                .ok_or_else(|| bad("a relocation", at as u64, page_rva.into()))?;
            let mut value = [0; 8];
            value[..width].copy_from_slice(field);
            let value = u64::from_le_bytes(value).wrapping_add(delta).to_le_bytes();
            field.copy_from_slice(&value[..width]);
        }
        memory.write(address, &page[..length]).map_err(outside)?;
        rest = &rest[block_bytes..];
    }
    Ok(())
}

/// Turns a stub in memory into a call through `[0x7ffe1000]`; the file is never touched. The page must be writable.
///
/// # Errors
/// `ACCESS_VIOLATION` when it is not.
pub fn rewrite_stub(memory: &dyn Memory, stub: u64, kind: StubKind) -> Result<(), Status> {
    // call [0x7ffe1000]; ret. A plain stub has room for it too: its slot is 16 bytes and the code needs 8 of them.
    const CALL: [u8; 8] = [0xff, 0x14, 0x25, 0x00, 0x10, 0xfe, 0x7f, 0xc3];
    match kind {
        StubKind::Tested | StubKind::Plain => Ok(memory.write(stub + 8, &CALL)?),
    }
}
