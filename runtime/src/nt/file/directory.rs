// SPDX-License-Identifier: GPL-3.0-or-later
//! Directory queries: one listing for each handle, taken at the first query or at a restart.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;

use super::Backing;
use super::information::directory_fields;
use super::open::put_io_status;
use super::transfer::{file_object, file_of};
use super::volume::DirectoryEntry;
use super::wildcard;
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::{read_string, utf16_bytes};
use crate::status::Status;

/// The entries that a handle has not given yet.
#[derive(Debug)]
pub(super) struct Listing {
    pattern: String,
    left: VecDeque<DirectoryEntry>,
}

/// What a class puts between the name's length and the name ([MS-FSCC] section 2.4): the offset of the name.
fn name_offset(class: u32) -> Option<usize> {
    Some(match class {
        1 => 64,   // FileDirectoryInformation
        2 => 68,   // FileFullDirectoryInformation
        3 => 94,   // FileBothDirectoryInformation
        12 => 12,  // FileNamesInformation
        37 => 104, // FileIdBothDirectoryInformation
        38 => 80,  // FileIdFullDirectoryInformation
        _ => return None,
    })
}

/// The classes that directory queries serve.
pub(in crate::nt) const CLASSES: &[u32] = &[1, 2, 3, 12, 37, 38];

/// One entry without its link to the next.
fn entry(class: u32, offset: usize, entry: &DirectoryEntry) -> Vec<u8> {
    let name = utf16_bytes(&entry.name);
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = vec![0; 8];
    if class != 12 {
        bytes.extend(directory_fields(&entry.metadata));
    }
    bytes.extend(length);
    bytes.resize(offset, 0);
    // The 64-bit file id ends right before the name.
    if class == 37 || class == 38 {
        bytes[offset - 8..].copy_from_slice(&entry.metadata.ino().to_le_bytes());
    }
    bytes.extend(name);
    bytes
}

pub(in crate::nt) fn query_directory_file(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(7);
    let Some(offset) = name_offset(class) else {
        return Err(call.unserved_class(class));
    };
    let (single, mask, restart) = (call.bool(8), call.arg(9), call.bool(10));
    let mask = if mask == 0 {
        String::new()
    } else {
        read_string(call.memory(), mask)?
    };
    query(call, class, offset, single, mask, restart)
}

fn query(call: &Call<'_>, class: u32, offset: usize, single: bool, mask: String, restart: bool) -> ServiceResult {
    let object = file_object(call)?;
    let file = file_of(&object)?;
    let Backing::Directory(host) = &file.backing else {
        return Err(Status::INVALID_PARAMETER);
    };
    let place = file.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (volume, path) = place.ok_or(Status::INVALID_PARAMETER)?;
    let mut listing = file.listing.lock().unwrap_or_else(PoisonError::into_inner);
    let first = listing.is_none();
    if first || restart {
        // The first pattern counts for the whole handle, unless a restart brings another.
        let pattern = match (&*listing, mask.is_empty()) {
            (Some(before), true) => before.pattern.clone(),
            (None, true) => "*".to_owned(),
            (_, false) => mask,
        };
        let dots = [".", ".."].map(|name| {
            host.metadata().map(|metadata| DirectoryEntry {
                name: name.to_owned(),
                metadata,
            })
        });
        let mut left = VecDeque::new();
        for dot in dots {
            left.push_back(dot?);
        }
        left.extend(volume.read_directory(&path)?);
        left.retain(|entry| wildcard::fits(&pattern, &entry.name));
        if left.is_empty() && first {
            *listing = Some(Listing { pattern, left });
            return Err(Status::NO_SUCH_FILE);
        }
        *listing = Some(Listing { pattern, left });
    }
    let left = &mut listing.as_mut().ok_or(Status::INTERNAL_ERROR)?.left;
    if left.is_empty() {
        return Err(Status::NO_MORE_FILES);
    }
    let room = call.u32(6) as usize;
    let mut answer: Vec<u8> = Vec::new();
    let mut last = None;
    let mut taken = 0;
    for next in left.iter() {
        let bytes = entry(class, offset, next);
        let at = answer.len().next_multiple_of(8);
        if at + bytes.len() > room {
            break;
        }
        if let Some(last) = last {
            let link = u32::try_from(at - last).unwrap_or(0).to_le_bytes();
            answer[last..last + 4].copy_from_slice(&link);
        }
        answer.resize(at, 0);
        answer.extend(bytes);
        last = Some(at);
        taken += 1;
        if single {
            break;
        }
    }
    if taken == 0 {
        return Err(Status::BUFFER_OVERFLOW);
    }
    left.drain(..taken);
    // The copy may grow the caller's stack: not under the listing's lock.
    drop(listing);
    call.memory().write(call.arg(5), &answer)?;
    put_io_status(call, call.arg(4), Status::SUCCESS, answer.len() as u64)
}

/// As `NtQueryDirectoryFile`, with the flags in one argument.
pub(in crate::nt) fn query_directory_file_ex(call: &mut Call<'_>) -> ServiceResult {
    const RESTART_SCAN: u32 = 1;
    const RETURN_SINGLE_ENTRY: u32 = 2;
    let class = call.u32(7);
    let Some(offset) = name_offset(class) else {
        return Err(call.unserved_class(class));
    };
    let (flags, mask) = (call.u32(8), call.arg(9));
    let mask = if mask == 0 {
        String::new()
    } else {
        read_string(call.memory(), mask)?
    };
    query(
        call,
        class,
        offset,
        flags & RETURN_SINGLE_ENTRY != 0,
        mask,
        flags & RESTART_SCAN != 0,
    )
}
