// SPDX-License-Identifier: GPL-3.0-or-later
//! The headers of an image, checked.

use zerocopy::FromBytes;

use super::format::{DataDirectory, FileHeader, OptionalHeader, SectionHeader};
use super::{ImageError, MAX_IMAGE_BYTES, MAX_SECTIONS, ReadAt};

pub(super) const MACHINE_AMD64: u16 = 0x8664;
const MAGIC_PE32_PLUS: u16 = 0x20b;
/// Headers beyond this offset are refused.
const MAX_HEADER_OFFSET: u64 = 0x10_0000;

/// Which data directory (`IMAGE_DIRECTORY_ENTRY_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the directory of its name")]
pub enum Directory {
    Export = 0,
    Import = 1,
    Resource = 2,
    Relocation = 5,
}

/// Bits of a section's characteristics.
#[derive(Debug, Clone, Copy)]
pub struct SectionFlags;

impl SectionFlags {
    /// `IMAGE_SCN_MEM_EXECUTE`.
    pub const EXECUTE: u32 = 0x2000_0000;
    /// `IMAGE_SCN_MEM_WRITE`.
    pub const WRITE: u32 = 0x8000_0000;
}

/// One section: where it lies in the file and in memory. `rva + memory_bytes` never exceeds the image.
#[derive(Debug, Clone)]
pub struct Section {
    /// Up to eight bytes, zero padded.
    pub name: [u8; 8],
    /// Its offset from the image's base, a multiple of 4096.
    pub rva: u32,
    /// Its size in memory.
    pub memory_bytes: u32,
    /// Its offset in the file.
    pub file_offset: u32,
    /// How many bytes of it the file holds (never more than fit in memory, rounded up to a page).
    pub file_bytes: u32,
    /// `IMAGE_SCN_*`.
    pub characteristics: u32,
}

/// What the headers of a 64-bit image say.
#[derive(Debug, Clone)]
#[allow(
    missing_docs,
    reason = "the fields carry the names and meanings of the PE header's own"
)]
pub struct ImageHeaders {
    pub pe_offset: u32,
    pub machine: u16,
    pub characteristics: u16,
    pub dll_characteristics: u16,
    pub image_base: u64,
    pub image_bytes: u32,
    pub headers_bytes: u32,
    pub entry_point: u32,
    pub subsystem: u16,
    pub subsystem_version: (u16, u16),
    pub os_version: (u16, u16),
    pub stack_reserve: u64,
    pub stack_commit: u64,
    pub loader_flags: u32,
    pub checksum: u32,
    pub code_bytes: u32,
    pub directories: Vec<(u32, u32)>,
    pub sections: Vec<Section>,
}

fn read<T: FromBytes, R: ReadAt + ?Sized>(file: &R, offset: u64, what: &'static str) -> Result<T, ImageError> {
    let mut bytes = vec![0; size_of::<T>()];
    if file.read_at(&mut bytes, offset)? < bytes.len() {
        return Err(ImageError::Truncated { what, offset });
    }
    T::read_from_bytes(&bytes).map_err(|_| ImageError::Truncated { what, offset })
}

impl ImageHeaders {
    /// Reads and checks the headers.
    ///
    /// # Errors
    /// Every [`ImageError`] but `Map`.
    pub fn parse<R: ReadAt + ?Sized>(file: &R) -> Result<Self, ImageError> {
        let mut dos = [0u8; 64];
        if file.read_at(&mut dos, 0)? < 64 || &dos[..2] != b"MZ" {
            return Err(ImageError::NotMz);
        }
        let pe_offset = u32::from_le_bytes([dos[60], dos[61], dos[62], dos[63]]);
        let at = u64::from(pe_offset);
        let mut mark = [0u8; 4];
        if at > MAX_HEADER_OFFSET || file.read_at(&mut mark, at)? < 4 || &mark != b"PE\0\0" {
            return Err(ImageError::NotPe { offset: at });
        }
        let header: FileHeader = read(file, at + 4, "the file header")?;
        if header.machine != MACHINE_AMD64 {
            return Err(ImageError::WrongMachine {
                found: header.machine.get(),
            });
        }
        let optional_at = at + 24;
        let optional: OptionalHeader = read(file, optional_at, "the optional header")?;
        let bad = |what, found: u64, offset, expected| ImageError::Bad {
            what,
            found,
            offset,
            expected,
        };
        if optional.magic != MAGIC_PE32_PLUS {
            return Err(bad(
                "the optional header's magic",
                optional.magic.get().into(),
                optional_at,
                "0x20b (PE32+)",
            ));
        }
        let image_bytes = optional.image_bytes.get();
        if image_bytes == 0 || image_bytes > MAX_IMAGE_BYTES {
            return Err(bad(
                "SizeOfImage",
                image_bytes.into(),
                optional_at + 56,
                "1 byte to 1 GiB",
            ));
        }
        let headers_bytes = optional.headers_bytes.get();
        if headers_bytes == 0 || headers_bytes > image_bytes {
            return Err(bad(
                "SizeOfHeaders",
                headers_bytes.into(),
                optional_at + 60,
                "not more than SizeOfImage",
            ));
        }
        if !optional.image_base.get().is_multiple_of(0x1_0000) {
            return Err(bad(
                "ImageBase",
                optional.image_base.get(),
                optional_at + 24,
                "a multiple of 64 KiB",
            ));
        }
        if optional.entry_point.get() >= image_bytes {
            return Err(bad(
                "AddressOfEntryPoint",
                optional.entry_point.get().into(),
                optional_at + 16,
                "within the image",
            ));
        }
        let count = header.section_count.get();
        if count > MAX_SECTIONS {
            return Err(bad("NumberOfSections", count.into(), at + 6, "at most 96"));
        }
        let mut directories = Vec::new();
        for index in 0..u64::from(optional.directory_count.get().min(16)) {
            let offset = optional_at + size_of::<OptionalHeader>() as u64 + 8 * index;
            let entry: DataDirectory = read(file, offset, "a data directory")?;
            directories.push((entry.rva.get(), entry.bytes.get()));
        }
        let table = optional_at + u64::from(header.optional_header_bytes.get());
        let mut sections = Vec::new();
        for index in 0..u64::from(count) {
            let offset = table + 40 * index;
            sections.extend(section(&read(file, offset, "a section header")?, offset, image_bytes)?);
        }
        Ok(Self {
            pe_offset,
            machine: header.machine.get(),
            characteristics: header.characteristics.get(),
            dll_characteristics: optional.dll_characteristics.get(),
            image_base: optional.image_base.get(),
            image_bytes,
            headers_bytes,
            entry_point: optional.entry_point.get(),
            subsystem: optional.subsystem.get(),
            subsystem_version: (optional.subsystem_major.get(), optional.subsystem_minor.get()),
            os_version: (optional.os_major.get(), optional.os_minor.get()),
            stack_reserve: optional.stack_reserve.get(),
            stack_commit: optional.stack_commit.get(),
            loader_flags: optional.loader_flags.get(),
            checksum: optional.checksum.get(),
            code_bytes: optional.code_bytes.get(),
            directories,
            sections,
        })
    }

    /// A data directory's RVA and size, when the image has one.
    #[must_use]
    pub fn directory(&self, which: Directory) -> Option<(u32, u32)> {
        self.directories
            .get(which as usize)
            .copied()
            .filter(|(rva, bytes)| *rva != 0 && *bytes != 0)
    }

    /// Whether the image imports from any DLL: linkers also leave an import directory with nothing but its end.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn imports_anything<R: ReadAt + ?Sized>(&self, file: &R) -> Result<bool, ImageError> {
        let Some((rva, _)) = self.directory(Directory::Import) else {
            return Ok(false);
        };
        // IMAGE_IMPORT_DESCRIPTOR: 20 bytes, the DLL's name at offset 12; a zero name ends the list.
        let first = self.read_rva(file, rva, 20)?;
        Ok(first.get(12..16).is_some_and(|name| name != [0; 4]))
    }

    /// Reads up to `length` bytes at `rva` as they are in the file: shorter where the file has less.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn read_rva<R: ReadAt + ?Sized>(&self, file: &R, rva: u32, length: usize) -> Result<Vec<u8>, ImageError> {
        let (start, available) = if rva < self.headers_bytes {
            (u64::from(rva), u64::from(self.headers_bytes - rva))
        } else {
            let found = self.sections.iter().find_map(|section| {
                let into = rva.checked_sub(section.rva)?;
                let left = section.file_bytes.checked_sub(into).filter(|left| *left > 0)?;
                Some((u64::from(section.file_offset) + u64::from(into), u64::from(left)))
            });
            match found {
                Some(found) => found,
                None => return Ok(Vec::new()),
            }
        };
        let length = length.min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        let got = file.read_at(&mut bytes, start)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// One section, or nothing when it takes no memory.
fn section(header: &SectionHeader, offset: u64, image_bytes: u32) -> Result<Option<Section>, ImageError> {
    let bad = |what, found: u32, at: u64, expected| ImageError::Bad {
        what,
        found: found.into(),
        offset: offset + at,
        expected,
    };
    let (rva, raw) = (header.rva.get(), header.raw_bytes.get());
    let memory_bytes = if header.virtual_bytes == 0 {
        raw
    } else {
        header.virtual_bytes.get()
    };
    if memory_bytes == 0 {
        return Ok(None);
    }
    if rva % 0x1000 != 0 || rva == 0 {
        return Err(bad(
            "a section's VirtualAddress",
            rva,
            12,
            "a multiple of 4096 behind the headers",
        ));
    }
    // The last section may be larger than SizeOfImage says by less than a page.
    let end = rva
        .checked_add(memory_bytes)
        .filter(|end| *end <= image_bytes.next_multiple_of(0x1000));
    if end.is_none() {
        return Err(bad(
            "a section's VirtualSize",
            memory_bytes,
            8,
            "an end within the image",
        ));
    }
    let file_offset = header.raw_offset.get();
    let file_bytes = if file_offset == 0 {
        0
    } else {
        raw.min(memory_bytes.next_multiple_of(0x1000))
    };
    if u64::from(file_offset) + u64::from(file_bytes) > u64::from(u32::MAX) {
        return Err(bad(
            "a section's PointerToRawData",
            file_offset,
            20,
            "an end below 4 GiB",
        ));
    }
    Ok(Some(Section {
        name: header.name,
        rva,
        memory_bytes,
        file_offset,
        file_bytes,
        characteristics: header.characteristics.get(),
    }))
}
