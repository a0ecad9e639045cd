// SPDX-License-Identifier: GPL-3.0-or-later
//! Information classes of files ([MS-FSCC] section 2.4).

use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::open::put_io_status;
use super::path::{Target, resolve};
use super::transfer::{file_object, file_of};
use super::{Backing, FileObject};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::utf16_bytes;
use crate::status::Status;
use crate::vdk::{MemoryExt, UNIX_EPOCH_AS_NT_TIME};

const READONLY: u32 = 0x1;
const DIRECTORY: u32 = 0x10;
const ARCHIVE: u32 = 0x20;

/// A host time in NT's unit.
fn nt_time(seconds: i64, nanoseconds: i64) -> u64 {
    let time = i128::from(seconds) * 10_000_000 + i128::from(nanoseconds) / 100 + i128::from(UNIX_EPOCH_AS_NT_TIME);
    u64::try_from(time).unwrap_or(0)
}

/// Creation, access, write and change time. The host's creation time is not kept by plain directories: the write time
/// stands in for it.
fn times(metadata: &std::fs::Metadata) -> [u64; 4] {
    let written = nt_time(metadata.mtime(), metadata.mtime_nsec());
    [
        written,
        nt_time(metadata.atime(), metadata.atime_nsec()),
        written,
        nt_time(metadata.ctime(), metadata.ctime_nsec()),
    ]
}

pub(super) fn attributes(metadata: &std::fs::Metadata) -> u32 {
    let kind = if metadata.is_dir() { DIRECTORY } else { ARCHIVE };
    if metadata.mode() & 0o200 == 0 {
        kind | READONLY
    } else {
        kind
    }
}

fn sizes(metadata: &std::fs::Metadata) -> (u64, u64) {
    if metadata.is_dir() {
        (0, 0)
    } else {
        (metadata.len().next_multiple_of(4096), metadata.len())
    }
}

/// FILE_BASIC_INFORMATION.
pub(super) fn basic_information(metadata: &std::fs::Metadata) -> Vec<u8> {
    let mut answer = times(metadata).map(u64::to_le_bytes).concat();
    answer.extend(attributes(metadata).to_le_bytes());
    answer.extend([0; 4]);
    answer
}

/// FILE_NETWORK_OPEN_INFORMATION.
pub(super) fn network_open_information(metadata: &std::fs::Metadata) -> Vec<u8> {
    let (allocated, size) = sizes(metadata);
    let mut answer = times(metadata).map(u64::to_le_bytes).concat();
    answer.extend([allocated, size].map(u64::to_le_bytes).concat());
    answer.extend(attributes(metadata).to_le_bytes());
    answer.extend([0; 4]);
    answer
}

/// What every entry of a directory query begins with after its two numbers: times, sizes, attributes.
pub(super) fn directory_fields(metadata: &std::fs::Metadata) -> Vec<u8> {
    let (allocated, size) = sizes(metadata);
    let mut fields = times(metadata).map(u64::to_le_bytes).concat();
    fields.extend([size, allocated].map(u64::to_le_bytes).concat());
    fields.extend(attributes(metadata).to_le_bytes());
    fields
}

fn standard_information(file: &FileObject, metadata: &std::fs::Metadata) -> Vec<u8> {
    let (allocated, size) = sizes(metadata);
    let mut answer = [allocated, size].map(u64::to_le_bytes).concat();
    answer.extend(u32::try_from(metadata.nlink()).unwrap_or(u32::MAX).to_le_bytes());
    answer.extend([
        u8::from(file.delete_on_close.load(Ordering::SeqCst)),
        u8::from(metadata.is_dir()),
        0,
        0,
    ]);
    answer
}

/// What `NtQueryInformationFile` serves: basic, standard, internal, EA, access, name, position, mode, alignment, all,
/// network open, attribute tag, normalized name, standard link, id and stat information.
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[4, 5, 6, 7, 8, 9, 14, 16, 17, 18, 34, 35, 48, 54, 59, 68];

pub(in crate::nt) fn query_information_file(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(4);
    if !QUERY_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    let entry = call.process.handles.entry(call.arg(0));
    let object = file_object(call)?;
    let file = file_of(&object)?;
    let metadata = match &file.backing {
        Backing::Disk(host) | Backing::Directory(host) | Backing::Stream(host) => host.metadata()?,
        Backing::Null => return Err(Status::INVALID_DEVICE_REQUEST),
    };
    let access = entry.map_or(0x1f_01ff, |entry| entry.access);
    let mode: u32 = if file.synchronous { 0x20 } else { 0 };
    let position = *file.position.lock().unwrap_or_else(PoisonError::into_inner);
    let name = || {
        let text = utf16_bytes(file.path_on_volume());
        let mut bytes = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        bytes.extend(text);
        bytes
    };
    let (answer, minimum) = match class {
        4 => (basic_information(&metadata), 40),
        5 => (standard_information(file, &metadata), 24),
        6 => (metadata.ino().to_le_bytes().to_vec(), 8),
        7 | 17 => (vec![0; 4], 4),
        8 => (access.to_le_bytes().to_vec(), 4),
        9 | 48 => (name(), 8),
        14 => (position.to_le_bytes().to_vec(), 8),
        16 => (mode.to_le_bytes().to_vec(), 4),
        18 => {
            let mut all = basic_information(&metadata);
            all.extend(standard_information(file, &metadata));
            all.extend(metadata.ino().to_le_bytes());
            all.extend([0, access].map(u32::to_le_bytes).concat());
            all.extend(position.to_le_bytes());
            all.extend([mode, 0].map(u32::to_le_bytes).concat());
            all.extend(name());
            (all, 104)
        }
        34 => (network_open_information(&metadata), 56),
        35 => ([attributes(&metadata), 0].map(u32::to_le_bytes).concat(), 8),
        54 => {
            let links = u32::try_from(metadata.nlink()).unwrap_or(u32::MAX).to_le_bytes();
            let mut answer = [links, links].concat();
            answer.extend([0, u8::from(metadata.is_dir()), 0, 0]);
            (answer, 12)
        }
        68 => {
            let (allocated, size) = sizes(&metadata);
            let mut answer = metadata.ino().to_le_bytes().to_vec();
            answer.extend(times(&metadata).map(u64::to_le_bytes).concat());
            answer.extend([allocated, size].map(u64::to_le_bytes).concat());
            let links = u32::try_from(metadata.nlink()).unwrap_or(u32::MAX);
            answer.extend([attributes(&metadata), 0, links, access].map(u32::to_le_bytes).concat());
            (answer, 72)
        }
        _ => {
            let mut answer = [metadata.dev(), metadata.ino()].map(u64::to_le_bytes).concat();
            answer.extend([0; 8]);
            (answer, 24)
        }
    };
    let room = call.u32(3) as usize;
    if room < minimum {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    let length = answer.len().min(room);
    call.memory().write(call.arg(2), &answer[..length])?;
    let status = if length < answer.len() {
        Status::BUFFER_OVERFLOW
    } else {
        Status::SUCCESS
    };
    put_io_status(call, call.arg(1), status, length as u64)
}

/// What `NtSetInformationFile` serves: basic (taken, times are set), rename, link, disposition, position, mode, allocation,
/// end of file, completion, I/O completion notification, disposition-ex, rename-ex and link-ex.
pub(in crate::nt) const SET_CLASSES: &[u32] = &[4, 10, 11, 13, 14, 16, 19, 20, 30, 41, 61, 64, 65, 72];

pub(in crate::nt) fn set_information_file(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(4);
    if !SET_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    let object = file_object(call)?;
    let file = file_of(&object)?;
    let memory = call.memory();
    let (buffer, length) = (call.arg(2), call.u32(3));
    let minimum = match class {
        4 => 40,
        13 => 1,
        16 | 41 | 64 => 4,
        30 | 61 => 16,
        10 | 11 | 65 | 72 => 22,
        _ => 8,
    };
    if length < minimum {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    match class {
        4 => set_basic(call, file)?,
        10 | 11 | 65 | 72 => set_name(call, file, class)?,
        13 => set_disposition(file, memory.get::<u8>(buffer)? != 0)?,
        64 => set_disposition(file, memory.get::<u32>(buffer)? & 1 != 0)?,
        14 => *file.position.lock().unwrap_or_else(PoisonError::into_inner) = memory.get(buffer)?,
        19 => {
            // Room is allocated when it is written; a smaller allocation cuts the file.
            let size: u64 = memory.get(buffer)?;
            let host = file.host_file().ok_or(Status::INVALID_DEVICE_REQUEST)?;
            if host.metadata()?.len() > size {
                host.set_len(size)?;
            }
        }
        20 => {
            let size: i64 = memory.get(buffer)?;
            let size = u64::try_from(size).map_err(|_| Status::INVALID_PARAMETER)?;
            file.host_file().ok_or(Status::INVALID_DEVICE_REQUEST)?.set_len(size)?;
        }
        30 | 61 => {
            let port: u64 = memory.get(buffer)?;
            let key: u64 = memory.get(buffer + 8)?;
            let port = if port == 0 {
                None
            } else {
                Some((call.process.object(call.thread, port)?, key))
            };
            *file.completion.lock().unwrap_or_else(PoisonError::into_inner) = port;
        }
        // Mode, and "signal no event" for completion ports: no operation here outlives its service, so both hold already.
        _ => {}
    }
    put_io_status(call, call.arg(1), Status::SUCCESS, 0)
}

fn set_basic(call: &Call<'_>, file: &FileObject) -> Result<(), Status> {
    if let Some((volume, _)) = &*file.place.lock().unwrap_or_else(PoisonError::into_inner) {
        volume.check_writing()?;
    }
    let memory = call.memory();
    let (accessed, written): (i64, i64) = (memory.get(call.arg(2) + 8)?, memory.get(call.arg(2) + 16)?);
    let wanted: u32 = memory.get(call.arg(2) + 32)?;
    let (Backing::Disk(host) | Backing::Directory(host)) = &file.backing else {
        return Err(Status::INVALID_DEVICE_REQUEST);
    };
    let time = |value: i64| {
        // 0 and −1: leave it.
        let value = u64::try_from(value).ok().filter(|value| *value > 0)?;
        let since = value.checked_sub(UNIX_EPOCH_AS_NT_TIME)?;
        Some(std::time::UNIX_EPOCH + std::time::Duration::from_nanos(since.checked_mul(100)?))
    };
    let mut times = std::fs::FileTimes::new();
    times = time(accessed).map_or(times, |at| times.set_accessed(at));
    times = time(written).map_or(times, |at| times.set_modified(at));
    host.set_times(times)?;
    if wanted != 0 && !host.metadata()?.is_dir() {
        let mut permissions = host.metadata()?.permissions();
        let read_only = wanted & READONLY != 0;
        if permissions.readonly() != read_only {
            use std::os::unix::fs::PermissionsExt;
            let mode = permissions.mode();
            permissions.set_mode(if read_only { mode & !0o222 } else { mode | 0o200 });
            host.set_permissions(permissions)?;
        }
    }
    Ok(())
}

fn set_disposition(file: &FileObject, delete: bool) -> Result<(), Status> {
    if delete && let Backing::Directory(_) = &file.backing {
        let place = file.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (volume, path) = place.ok_or(Status::CANNOT_DELETE)?;
        if path.as_os_str().is_empty() {
            return Err(Status::CANNOT_DELETE);
        }
        if !volume.read_directory(&path)?.is_empty() {
            return Err(Status::DIRECTORY_NOT_EMPTY);
        }
    }
    file.delete_on_close.store(delete, Ordering::SeqCst);
    Ok(())
}

/// Renames the file (10, 65) or gives it another name (11, 72).
fn set_name(call: &Call<'_>, file: &FileObject, class: u32) -> Result<(), Status> {
    let memory = call.memory();
    let buffer = call.arg(2);
    let flags: u32 = memory.get(buffer)?;
    let replace = if class == 10 || class == 11 {
        flags & 0xff != 0
    } else {
        flags & 1 != 0
    };
    let (root, bytes): (u64, u32) = (memory.get(buffer + 8)?, memory.get(buffer + 16)?);
    if u64::from(bytes) + 20 > u64::from(call.u32(3)) || bytes % 2 != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let name = String::from_utf16_lossy(&memory.read_units(buffer + 20, bytes as usize / 2)?);
    let target = match (root, name.starts_with('\\')) {
        (0, true) => name,
        (0, false) => {
            // In the same directory.
            let parent = file.path.rsplit_once('\\').map_or("", |(parent, _)| parent);
            format!("{parent}\\{name}")
        }
        (root, _) => {
            let root = call.process.object(call.thread, root)?;
            format!("{}\\{name}", file_of(&root)?.path.trim_end_matches('\\'))
        }
    };
    let Target::File { volume, found } = resolve(call, &target)? else {
        return Err(Status::OBJECT_NAME_INVALID);
    };
    let mut place = file.place.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((own, path)) = place.as_mut() else {
        return Err(Status::INVALID_DEVICE_REQUEST);
    };
    if !std::sync::Arc::ptr_eq(own, &volume) {
        return Err(Status::NOT_SAME_DEVICE);
    }
    let same = found.path == *path
        || found.metadata.is_some()
            && crate::object::upcase(&found.path.to_string_lossy()) == crate::object::upcase(&path.to_string_lossy());
    if found.metadata.is_some() && !same {
        if !replace {
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        if found.is_directory() {
            return Err(Status::ACCESS_DENIED);
        }
    }
    // A lookup finds the old spelling of a name that only changes its case; the new one is what was asked for.
    let spelling = target.rsplit('\\').next().unwrap_or("");
    let to = found.path.with_file_name(spelling);
    if class == 11 || class == 72 {
        if found.metadata.is_some() {
            volume.remove(&found.path, false)?;
        }
        return volume.link(path, &to);
    }
    if found.metadata.is_some() && !same && found.path != to {
        volume.remove(&found.path, false)?;
    }
    volume.rename(path, &to, replace || same)?;
    *path = to;
    Ok(())
}
