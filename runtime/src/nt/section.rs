// SPDX-License-Identifier: GPL-3.0-or-later
//! Sections: memory backed by a file, by an image, or by nothing.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::call::{Call, ServiceResult};
use super::memory::{Kind, PAGE, Place, protect};
use super::strings::ObjectAttributes;
use crate::image::{ImageHeaders, map_image};
use crate::object::{Body, Object};
use crate::status::Status;
use crate::vdk::{MemoryExt, Sharing};

const SEC_IMAGE: u32 = 0x100_0000;
const SEC_RESERVE: u32 = 0x400_0000;
/// The largest section.
const MAX_SECTION_BYTES: u64 = 1 << 44;

/// A section object.
pub struct Section {
    file: File,
    image: Option<ImageHeaders>,
    size: u64,
    attributes: u32,
    /// The file's Windows path, for queries; empty without one.
    path: Arc<str>,
}

/// SECTION_IMAGE_INFORMATION of an image at `base`.
#[must_use]
pub fn image_information(headers: &ImageHeaders, base: u64, file_bytes: u64) -> Vec<u8> {
    let mut answer = vec![0u8; 64];
    let mut put = |at: usize, bytes: &[u8]| answer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x00, &(base + u64::from(headers.entry_point)).to_le_bytes());
    put(0x10, &headers.stack_reserve.to_le_bytes());
    put(0x18, &headers.stack_commit.to_le_bytes());
    put(0x20, &u32::from(headers.subsystem).to_le_bytes());
    put(0x24, &headers.subsystem_version.1.to_le_bytes());
    put(0x26, &headers.subsystem_version.0.to_le_bytes());
    put(0x28, &headers.os_version.0.to_le_bytes());
    put(0x2a, &headers.os_version.1.to_le_bytes());
    put(0x2c, &headers.characteristics.to_le_bytes());
    put(0x2e, &headers.dll_characteristics.to_le_bytes());
    put(0x30, &headers.machine.to_le_bytes());
    put(0x32, &[u8::from(headers.code_bytes != 0)]);
    put(0x34, &headers.loader_flags.to_le_bytes());
    put(0x38, &u32::try_from(file_bytes).unwrap_or(u32::MAX).to_le_bytes());
    put(0x3c, &headers.checksum.to_le_bytes());
    answer
}

pub(super) fn create_section(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let (protection, kind, file) = (protect::check(call.u32(4))?, call.u32(5), call.arg(6));
    let asked: u64 = if call.arg(3) == 0 {
        0
    } else {
        call.memory().get(call.arg(3))?
    };
    if asked > MAX_SECTION_BYTES {
        return Err(Status::SECTION_TOO_BIG);
    }
    let make = || -> Result<Arc<Object>, Status> {
        let section = if file == 0 {
            anonymous(asked, kind)?
        } else {
            of_file(call, asked, protection, kind)?
        };
        Ok(Object::new(&call.process.dispatcher, Body::Section(section), None))
    };
    let (object, new) = match attributes.full_name(call.process, call.thread)? {
        None => (make()?, true),
        Some(name) => call.process.names.find_or_insert(&name, make)?,
    };
    if !new && (attributes.flags & ObjectAttributes::OPENIF == 0 || !matches!(object.body, Body::Section(_))) {
        return Err(Status::OBJECT_NAME_COLLISION);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(if new {
        Status::SUCCESS
    } else {
        Status::OBJECT_NAME_EXISTS
    })
}

fn anonymous(size: u64, attributes: u32) -> Result<Section, Status> {
    if size == 0 || attributes & SEC_IMAGE != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let file = File::from(rustix::fs::memfd_create(
        "vodka-section",
        rustix::fs::MemfdFlags::CLOEXEC,
    )?);
    file.set_len(size.next_multiple_of(PAGE))?;
    Ok(Section {
        file,
        image: None,
        size: size.next_multiple_of(PAGE),
        attributes,
        path: Arc::from(""),
    })
}

fn of_file(call: &Call<'_>, asked: u64, protection: u32, attributes: u32) -> Result<Section, Status> {
    const INVALID_FILE_FOR_SECTION: Status = Status(0xc000_0020);
    let object = call.object(6)?;
    let Body::File(of) = &object.body else {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    };
    let file = of.host_file().ok_or(INVALID_FILE_FOR_SECTION)?.try_clone()?;
    let path = Arc::from(of.path.strip_prefix("\\??\\").unwrap_or(&of.path));
    let length = file.metadata()?.len();
    if attributes & SEC_IMAGE != 0 {
        let headers = ImageHeaders::parse(&file).map_err(|error| Status::from(&error))?;
        let size = headers.image_bytes.into();
        return Ok(Section {
            file,
            image: Some(headers),
            size,
            attributes,
            path,
        });
    }
    if length == 0 && asked == 0 {
        return Err(Status::MAPPED_FILE_SIZE_ZERO);
    }
    if asked > length {
        if protection & (protect::READWRITE | protect::EXECUTE_READWRITE) == 0 {
            return Err(Status::SECTION_TOO_BIG);
        }
        file.set_len(asked)?;
    }
    let size = if asked == 0 { length } else { asked };
    Ok(Section {
        file,
        image: None,
        size,
        attributes,
        path,
    })
}

pub(super) fn open_section(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let name = attributes
        .full_name(call.process, call.thread)?
        .ok_or(Status::OBJECT_NAME_INVALID)?;
    let object = call.process.names.find(&name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    if !matches!(object.body, Body::Section(_)) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

struct View {
    base: u64,
    offset: u64,
    size: u64,
    protection: u32,
    place: Place,
}

/// Maps a view; gives its base, its size and the status.
fn map(call: &Call<'_>, section: &Section, view: &View) -> Result<(u64, u64, Status), Status> {
    let process = call.process;
    if let Some(headers) = &section.image {
        let mapped = map_image(
            &process.space,
            call.memory(),
            &section.file,
            headers,
            &section.path,
            process.host.move_images,
        )
        .map_err(|error| Status::from(&error))?;
        let status = if mapped.relocated {
            Status::IMAGE_NOT_AT_BASE
        } else {
            Status::SUCCESS
        };
        return Ok((mapped.base, headers.image_bytes.into(), status));
    }
    if !view.offset.is_multiple_of(super::memory::GRANULARITY) {
        return Err(Status::MAPPED_ALIGNMENT);
    }
    let left = section.size.checked_sub(view.offset).ok_or(Status::INVALID_PARAMETER)?;
    let wanted = if view.size == 0 { left } else { view.size };
    // A view may end in the section's last page, not behind it.
    if wanted == 0 || wanted > left.next_multiple_of(PAGE) {
        return Err(Status::INVALID_PARAMETER);
    }
    let size = wanted.next_multiple_of(PAGE);
    let base = process.space.reserve(
        view.place,
        size,
        Kind::Mapped,
        view.protection,
        Some(Arc::clone(&section.path)),
    )?;
    let copies = view.protection & (protect::WRITECOPY | protect::EXECUTE_WRITECOPY) != 0;
    let sharing = if copies { Sharing::Private } else { Sharing::Shared };
    if let Err(status) = process
        .space
        .map_file(base, size, section.file.as_fd(), view.offset, view.protection, sharing)
    {
        // The region is ours and whole.
        let _ = process.space.unmap(base);
        return Err(status);
    }
    Ok((base, size, Status::SUCCESS))
}

fn map_section(call: &mut Call<'_>, base_at: usize, offset_at: usize, size_at: usize, view: View) -> ServiceResult {
    let object = call.object(0)?;
    let Body::Section(section) = &object.body else {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    };
    if !Arc::ptr_eq(&call.object(1)?, &call.process.object) {
        return Err(Status::NOT_SUPPORTED);
    }
    let place = if view.base == 0 {
        view.place
    } else {
        Place::At(view.base & !(super::memory::GRANULARITY - 1))
    };
    let protection = protect::check(view.protection)?;
    let (base, size, status) = map(
        call,
        section,
        &View {
            place,
            protection,
            ..view
        },
    )?;
    let memory = call.memory();
    memory.put(call.arg(base_at), base)?;
    memory.put_optional(call.arg(offset_at), view.offset)?;
    memory.put(call.arg(size_at), size)?;
    Ok(status)
}

fn view_arguments(
    call: &Call<'_>,
    base_at: usize,
    offset_at: usize,
    size_at: usize,
) -> Result<(u64, u64, u64), Status> {
    let memory = call.memory();
    let offset = if call.arg(offset_at) == 0 {
        0
    } else {
        memory.get(call.arg(offset_at))?
    };
    Ok((memory.get(call.arg(base_at))?, offset, memory.get(call.arg(size_at))?))
}

pub(super) fn map_view_of_section(call: &mut Call<'_>) -> ServiceResult {
    let (base, offset, size) = view_arguments(call, 2, 5, 6)?;
    let place = if call.arg(3) == 0 { Place::High } else { Place::Low };
    map_section(
        call,
        2,
        5,
        6,
        View {
            base,
            offset,
            size,
            protection: call.u32(9),
            place,
        },
    )
}

pub(super) fn map_view_of_section_ex(call: &mut Call<'_>) -> ServiceResult {
    let (base, offset, size) = view_arguments(call, 2, 3, 4)?;
    let place = super::memory::services::extended_place(call, call.arg(7), call.u32(8))?;
    map_section(
        call,
        2,
        3,
        4,
        View {
            base,
            offset,
            size,
            protection: call.u32(6),
            place,
        },
    )
}

pub(super) fn unmap_view_of_section(call: &mut Call<'_>) -> ServiceResult {
    if !Arc::ptr_eq(&call.object(0)?, &call.process.object) {
        return Err(Status::NOT_SUPPORTED);
    }
    call.process.space.unmap(call.arg(1))?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_section(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let Body::Section(section) = &object.body else {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    };
    match (call.u32(1), &section.image) {
        (0, _) => {
            // BaseAddress, AllocationAttributes, MaximumSize.
            let answer = [0, u64::from(section.attributes & !SEC_RESERVE), section.size]
                .map(u64::to_le_bytes)
                .concat();
            call.answer(2, Some(4), &answer)
        }
        (1, Some(headers)) => {
            let bytes = section.file.metadata()?.len();
            call.answer(2, Some(4), &image_information(headers, headers.image_base, bytes))
        }
        (1, None) => Err(Status::SECTION_NOT_IMAGE),
        (class, _) => Err(call.unserved_class(class)),
    }
}

pub(super) fn extend_section(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let Body::Section(section) = &object.body else {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    };
    let asked: u64 = call.memory().get(call.arg(1))?;
    if asked <= section.size {
        call.memory().put(call.arg(1), section.size)?;
        return Ok(Status::SUCCESS);
    }
    Err(Status::NOT_IMPLEMENTED)
}

pub(super) fn are_mapped_files_the_same(call: &mut Call<'_>) -> ServiceResult {
    const INVALID_ADDRESS: Status = Status(0xc000_0141);
    let name = |address| {
        call.process
            .space
            .name_at(address)
            .map(|(_, name)| name)
            .ok_or(INVALID_ADDRESS)
    };
    let (one, other) = (name(call.arg(0))?, name(call.arg(1))?);
    let same = !one.is_empty() && crate::object::upcase(&one) == crate::object::upcase(&other);
    if same {
        Ok(Status::SUCCESS)
    } else {
        Err(Status::NOT_SAME_DEVICE)
    }
}
