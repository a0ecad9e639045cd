// SPDX-License-Identifier: GPL-3.0-or-later
//! Handles, object queries, directories and symbolic links.

use std::sync::Arc;

use super::call::{Call, ServiceResult};
use super::strings::{ObjectAttributes, counted_string, read_string, utf16_bytes};
use crate::object::{Body, Object, upcase};
use crate::status::Status;
use crate::vdk::MemoryExt;

pub(super) fn close(call: &mut Call<'_>) -> ServiceResult {
    if call.arg(0).cast_signed() == -1 || call.arg(0).cast_signed() == -2 {
        return Ok(Status::SUCCESS);
    }
    drop(call.process.handles.close(call.arg(0))?);
    Ok(Status::SUCCESS)
}

pub(super) fn duplicate_object(call: &mut Call<'_>) -> ServiceResult {
    const CLOSE_SOURCE: u32 = 1;
    const SAME_ACCESS: u32 = 2;
    const SAME_ATTRIBUTES: u32 = 4;
    let options = call.u32(6);
    let own = |handle| -> Result<(), Status> {
        let process = call.process.object(call.thread, handle)?;
        if Arc::ptr_eq(&process, &call.process.object) {
            Ok(())
        } else {
            Err(Status::NOT_SUPPORTED)
        }
    };
    own(call.arg(0))?;
    let source = call.arg(1);
    let object = call.object(1)?;
    let before = call.process.handles.entry(source).ok();
    if call.arg(2) != 0 && call.arg(3) != 0 {
        own(call.arg(2))?;
        let all = 0x1f_ffff;
        let access = if options & SAME_ACCESS != 0 {
            before.as_ref().map_or(all, |entry| entry.access)
        } else {
            call.u32(4)
        };
        let inherit = if options & SAME_ATTRIBUTES != 0 {
            before.as_ref().is_some_and(|entry| entry.inherit)
        } else {
            call.u32(5) & ObjectAttributes::INHERIT != 0
        };
        call.give_handle(3, object, access, inherit)?;
    }
    if options & CLOSE_SOURCE != 0 && before.is_some() {
        drop(call.process.handles.close(source)?);
    }
    Ok(Status::SUCCESS)
}

/// The full name of an object, as `NtQueryObject` gives it.
fn name_of(object: &Object) -> String {
    match &object.body {
        Body::File(file) => super::file::device_path(&file.path),
        Body::Key(key) => upcase_root(&key.path),
        _ => object.name().unwrap_or("").to_owned(),
    }
}

/// `\Registry\Machine` is written in capitals in a key's own name.
fn upcase_root(path: &str) -> String {
    let mut parts = path.splitn(4, '\\');
    let (Some(_), Some(root), Some(top)) = (parts.next(), parts.next(), parts.next()) else {
        return path.to_owned();
    };
    let head = format!("\\{}\\{}", upcase(root), upcase(top));
    parts.next().map_or(head.clone(), |rest| format!("{head}\\{rest}"))
}

/// What `NtQueryObject` serves: basic, name, type and handle flags.
pub(super) const QUERY_CLASSES: &[u32] = &[0, 1, 2, 4];

pub(super) fn query_object(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let entry = call.process.handles.entry(call.arg(0)).ok();
    match call.u32(1) {
        0 => {
            // Attributes, access, handle count, pointer count, charges, name and type lengths, creation time.
            let access = entry.map_or(0x1f_ffff, |entry| entry.access);
            let mut answer = [0, access, 1, 2].map(u32::to_le_bytes).concat();
            answer.resize(56, 0);
            call.answer(2, Some(4), &answer)
        }
        1 => {
            let name = name_of(&object);
            let answer = if name.is_empty() {
                vec![0; 16]
            } else {
                counted_string(call.arg(2), &name)
            };
            call.answer(2, Some(4), &answer)
        }
        2 => {
            // OBJECT_TYPE_INFORMATION: the name, then counters that are not kept, then the text.
            let text = utf16_bytes(object.type_name());
            let length = u16::try_from(text.len()).unwrap_or(0);
            let mut answer = Vec::new();
            answer.extend([length, length + 2].map(u16::to_le_bytes).concat());
            answer.extend([0; 4]);
            answer.extend((call.arg(2) + 104).to_le_bytes());
            answer.resize(104, 0);
            answer.extend(text);
            answer.extend([0; 2]);
            call.answer(2, Some(4), &answer)
        }
        4 => {
            let flags = entry.map_or([0, 0], |entry| [u8::from(entry.inherit), u8::from(entry.protected)]);
            call.answer(2, Some(4), &flags)
        }
        class => Err(call.unserved_class(class)),
    }
}

pub(super) fn set_information_object(call: &mut Call<'_>) -> ServiceResult {
    match call.u32(1) {
        4 => {
            if call.u32(3) < 2 {
                return Err(Status::INFO_LENGTH_MISMATCH);
            }
            let [inherit, protected]: [u8; 2] = call.memory().get(call.arg(2))?;
            call.process
                .handles
                .set_flags(call.arg(0), inherit != 0, protected != 0)?;
            Ok(Status::SUCCESS)
        }
        class => Err(call.unserved_class(class)),
    }
}

pub(super) fn make_temporary_object(call: &mut Call<'_>) -> ServiceResult {
    // Every object is temporary here already.
    call.object(0)?;
    Ok(Status::SUCCESS)
}

/// The directories that exist without being created.
const DIRECTORIES: &[&str] = &[
    "\\",
    "\\??",
    "\\BASENAMEDOBJECTS",
    "\\DEVICE",
    "\\DOSDEVICES",
    "\\GLOBAL??",
    "\\KNOWNDLLS",
    "\\NLS",
    "\\RPC CONTROL",
    "\\SESSIONS",
    "\\SESSIONS\\1",
    "\\SESSIONS\\1\\BASENAMEDOBJECTS",
    "\\SESSIONS\\BNOLINKS",
    "\\WINDOWS",
];

pub(super) fn create_directory_object(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let process = call.process;
    let make = || Ok(Object::new(&process.dispatcher, Body::Directory, None));
    let (object, new) = match attributes.full_name(process, call.thread)? {
        None => (make()?, true),
        Some(name) => process.names.find_or_insert(&name, make)?,
    };
    if !new && attributes.flags & ObjectAttributes::OPENIF == 0 {
        return Err(Status::OBJECT_NAME_COLLISION);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(if new {
        Status::SUCCESS
    } else {
        Status::OBJECT_NAME_EXISTS
    })
}

pub(super) fn open_directory_object(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let name = attributes
        .full_name(call.process, call.thread)?
        .ok_or(Status::OBJECT_NAME_INVALID)?;
    let process = call.process;
    let object = if DIRECTORIES.contains(&upcase(&name).as_str()) {
        process
            .names
            .find_or_insert(&name, || Ok(Object::new(&process.dispatcher, Body::Directory, None)))?
            .0
    } else {
        process.names.find(&name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?
    };
    if !matches!(object.body, Body::Directory) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

/// The link that a name is without having been created: drive letters, and where known DLLs lie.
fn builtin_link(call: &Call<'_>, name: &str) -> Option<String> {
    let upper = upcase(name);
    if upper == "\\KNOWNDLLS\\KNOWNDLLPATH" {
        return Some("C:\\windows\\system32".to_owned());
    }
    let drive = ["\\??\\", "\\DOSDEVICES\\", "\\GLOBAL??\\"]
        .iter()
        .find_map(|prefix| upper.strip_prefix(prefix))?;
    match drive.as_bytes() {
        [letter, b':'] if call.process.drives.get(char::from(*letter)).is_some() => {
            Some(super::file::device_path(drive))
        }
        _ => None,
    }
}

pub(super) fn create_symbolic_link_object(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let target = read_string(call.memory(), call.arg(3))?;
    let name = attributes
        .full_name(call.process, call.thread)?
        .ok_or(Status::OBJECT_NAME_INVALID)?;
    let process = call.process;
    let make = || Ok(Object::new(&process.dispatcher, Body::SymbolicLink(target), None));
    let (object, new) = process.names.find_or_insert(&name, make)?;
    if !new {
        return Err(Status::OBJECT_NAME_COLLISION);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

pub(super) fn open_symbolic_link_object(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let name = attributes
        .full_name(call.process, call.thread)?
        .ok_or(Status::OBJECT_NAME_INVALID)?;
    let object = match (call.process.names.find(&name), builtin_link(call, &name)) {
        (Some(object), _) => object,
        (None, Some(target)) => Object::new(&call.process.dispatcher, Body::SymbolicLink(target), None),
        (None, None) => return Err(Status::OBJECT_NAME_NOT_FOUND),
    };
    if !matches!(object.body, Body::SymbolicLink(_)) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_symbolic_link_object(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let Body::SymbolicLink(target) = &object.body else {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    };
    let memory = call.memory();
    let text = utf16_bytes(target);
    let room: u16 = memory.get(call.arg(1) + 2)?;
    let buffer = memory.get_pointer(call.arg(1) + 8)?;
    memory.put_optional(call.arg(2), u32::try_from(text.len() + 2).unwrap_or(u32::MAX))?;
    if usize::from(room) < text.len() {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    memory.write(buffer, &text)?;
    if usize::from(room) >= text.len() + 2 {
        memory.put(buffer + text.len() as u64, 0u16)?;
    }
    memory.put(call.arg(1), u16::try_from(text.len()).unwrap_or(0))?;
    Ok(Status::SUCCESS)
}

pub(super) fn compare_objects(call: &mut Call<'_>) -> ServiceResult {
    const NOT_SAME_OBJECT: Status = Status(0xc000_01ac);
    if Arc::ptr_eq(&call.object(0)?, &call.object(1)?) {
        Ok(Status::SUCCESS)
    } else {
        Err(NOT_SAME_OBJECT)
    }
}
