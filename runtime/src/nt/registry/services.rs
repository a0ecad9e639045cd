// SPDX-License-Identifier: GPL-3.0-or-later
//! The services on keys.

use std::sync::Arc;

use super::KeyObject;
use super::store::{KeyNode, Registry, Value};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::{ObjectAttributes, read_string, utf16_bytes};
use crate::object::{Body, Object};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// The most bytes of one value (NT's own limit is the hive's).
const MAX_VALUE_BYTES: u32 = 16 << 20;

fn key_object(call: &Call<'_>) -> Result<Arc<Object>, Status> {
    let object = call.object(0)?;
    if matches!(object.body, Body::Key(_)) {
        Ok(object)
    } else {
        Err(Status::OBJECT_TYPE_MISMATCH)
    }
}

fn key_of(object: &Object) -> Result<&KeyObject, Status> {
    match &object.body {
        Body::Key(key) => {
            key.node.alive()?;
            Ok(key)
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

/// Where attributes lead: the key to start from, the path below it, and the full path.
fn target(call: &Call<'_>, attributes: &ObjectAttributes) -> Result<(Arc<KeyNode>, String, String), Status> {
    let name = attributes.name.clone().unwrap_or_default();
    if attributes.root == 0 {
        let below = Registry::below_root(&name)
            .ok_or(Status::OBJECT_PATH_SYNTAX_BAD)?
            .to_owned();
        return Ok((Arc::clone(call.process.registry.root()), below, name));
    }
    let object = call.process.object(call.thread, attributes.root)?;
    let root = key_of(&object)?;
    if name.starts_with('\\') {
        return Err(Status::OBJECT_PATH_SYNTAX_BAD);
    }
    let full = if name.is_empty() {
        root.path.clone()
    } else {
        format!("{}\\{name}", root.path)
    };
    Ok((Arc::clone(&root.node), name, full))
}

fn give_key(call: &Call<'_>, node: Arc<KeyNode>, path: String, attributes: &ObjectAttributes) -> Result<(), Status> {
    let path = path.trim_end_matches('\\').to_owned();
    let object = Object::new(&call.process.dispatcher, Body::Key(KeyObject { path, node }), None);
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(())
}

pub(in crate::nt) fn open_key(call: &mut Call<'_>) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let (from, below, full) = target(call, &attributes)?;
    let node = call.process.registry.open(&from, &below)?;
    give_key(call, node, full, &attributes)?;
    Ok(Status::SUCCESS)
}

/// The options (backup intent, open link) change nothing: there are no links yet.
pub(in crate::nt) fn open_key_ex(call: &mut Call<'_>) -> ServiceResult {
    open_key(call)
}

pub(in crate::nt) fn create_key(call: &mut Call<'_>) -> ServiceResult {
    const CREATE_LINK: u32 = 2;
    const CREATED_NEW_KEY: u32 = 1;
    const OPENED_EXISTING_KEY: u32 = 2;
    if call.u32(5) & CREATE_LINK != 0 {
        return Err(Status::NOT_IMPLEMENTED);
    }
    let attributes = ObjectAttributes::of(call, 2)?;
    let (from, below, full) = target(call, &attributes)?;
    let class = if call.arg(4) == 0 {
        String::new()
    } else {
        read_string(call.memory(), call.arg(4))?
    };
    let now = call.process.host.clock.system_time();
    let (node, new) = call.process.registry.create(&from, &below, &class, now)?;
    give_key(call, node, full, &attributes)?;
    call.memory()
        .put_optional(call.arg(6), if new { CREATED_NEW_KEY } else { OPENED_EXISTING_KEY })?;
    Ok(Status::SUCCESS)
}

/// Answers with a fixed part and a tail that may be cut: `BUFFER_TOO_SMALL` without room for the first, `BUFFER_OVERFLOW`
/// for a cut tail.
fn answer_cut(call: &Call<'_>, buffer: usize, answer: &[u8], fixed: usize) -> ServiceResult {
    let length = u32::try_from(answer.len()).unwrap_or(u32::MAX);
    call.memory().put(call.arg(buffer + 2), length)?;
    let room = call.u32(buffer + 1) as usize;
    if room < fixed {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    call.memory()
        .write(call.arg(buffer), &answer[..answer.len().min(room)])?;
    Ok(if room < answer.len() {
        Status::BUFFER_OVERFLOW
    } else {
        Status::SUCCESS
    })
}

fn length_of(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// The value classes that are served: basic, full, partial, partial aligned.
pub(in crate::nt) const VALUE_CLASSES: &[u32] = &[0, 1, 2, 4];

fn answer_value(call: &Call<'_>, class: u32, buffer: usize, value: &Value) -> ServiceResult {
    let name = utf16_bytes(&value.name);
    let mut answer = vec![0; 4];
    answer.extend(value.kind.to_le_bytes());
    let fixed = match class {
        0 => {
            answer.extend(length_of(&name));
            answer.extend(&name);
            12
        }
        1 => {
            let offset = (20 + name.len()).next_multiple_of(4);
            answer.extend(u32::try_from(offset).unwrap_or(u32::MAX).to_le_bytes());
            answer.extend(length_of(&value.data));
            answer.extend(length_of(&name));
            answer.extend(&name);
            answer.resize(offset, 0);
            answer.extend(&value.data);
            20
        }
        2 => {
            answer.extend(length_of(&value.data));
            answer.extend(&value.data);
            12
        }
        4 => {
            // Without the title index.
            answer.drain(..4);
            answer.extend(length_of(&value.data));
            answer.extend(&value.data);
            8
        }
        class => return Err(call.unserved_class(class)),
    };
    answer_cut(call, buffer, &answer, fixed)
}

pub(in crate::nt) fn query_value_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let name = read_string(call.memory(), call.arg(1))?;
    let value = key_of(&object)?
        .node
        .value(&name)
        .ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    answer_value(call, call.u32(2), 3, &value)
}

pub(in crate::nt) fn enumerate_value_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let values = key_of(&object)?.node.values();
    let value = values.get(call.u32(1) as usize).ok_or(Status::NO_MORE_ENTRIES)?;
    answer_value(call, call.u32(2), 3, value)
}

pub(in crate::nt) fn query_multiple_value_key(call: &mut Call<'_>) -> ServiceResult {
    /// NT takes this many.
    const MAX_VALUES: u32 = 0x1_0000;
    let object = key_object(call)?;
    let node = &key_of(&object)?.node;
    let memory = call.memory();
    let (entries, count, buffer) = (call.arg(1), call.u32(2), call.arg(3));
    let room: u32 = memory.get(call.arg(4))?;
    if count > MAX_VALUES {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let mut answer = Vec::new();
    for index in 0..u64::from(count) {
        let entry = entries + 24 * index;
        let name = read_string(memory, memory.get_pointer(entry)?)?;
        let value = node.value(&name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        answer.resize(answer.len().next_multiple_of(4), 0);
        let offset = u32::try_from(answer.len()).map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        memory.write(entry + 8, &length_of(&value.data))?;
        memory.put(entry + 12, [offset, value.kind])?;
        answer.extend(&value.data);
    }
    memory.write(call.arg(4), &length_of(&answer))?;
    if call.arg(5) != 0 {
        memory.write(call.arg(5), &length_of(&answer))?;
    }
    if answer.len() > room as usize {
        return Err(Status::BUFFER_OVERFLOW);
    }
    memory.write(buffer, &answer)?;
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn set_value_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let name = read_string(call.memory(), call.arg(1))?;
    if call.u32(5) > MAX_VALUE_BYTES {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let data = call.memory().read_bytes(call.arg(4), call.u32(5) as usize)?;
    let node = &key_of(&object)?.node;
    node.set_value(Value {
        name,
        kind: call.u32(3),
        data,
    });
    node.touch(call.process.host.clock.system_time());
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn delete_value_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let name = read_string(call.memory(), call.arg(1))?;
    let node = &key_of(&object)?.node;
    if !node.remove_value(&name) {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    node.touch(call.process.host.clock.system_time());
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn delete_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let key = key_of(&object)?;
    let below = Registry::below_root(&key.path).ok_or(Status::CANNOT_DELETE)?;
    call.process.registry.delete(below, &key.node)?;
    Ok(Status::SUCCESS)
}

/// The key classes that are served: basic, node, full, name, cached.
pub(in crate::nt) const KEY_CLASSES: &[u32] = &[0, 1, 2, 3, 4];

fn answer_key(call: &Call<'_>, class: u32, buffer: usize, node: &KeyNode, path: &str) -> ServiceResult {
    let name = utf16_bytes(&node.name);
    let class_name = utf16_bytes(&node.class);
    let mut answer = node.written().to_le_bytes().to_vec();
    answer.extend([0; 4]);
    let widest =
        |lengths: &mut dyn Iterator<Item = usize>| u32::try_from(lengths.max().unwrap_or(0)).unwrap_or(u32::MAX);
    let counts = || {
        let (subkeys, values) = (node.subkeys(), node.values());
        let units = |text: &str| text.encode_utf16().count() * 2;
        (
            u32::try_from(subkeys.len()).unwrap_or(u32::MAX),
            widest(&mut subkeys.iter().map(|key| units(&key.name))),
            widest(&mut subkeys.iter().map(|key| units(&key.class))),
            u32::try_from(values.len()).unwrap_or(u32::MAX),
            widest(&mut values.iter().map(|value| units(&value.name))),
            widest(&mut values.iter().map(|value| value.data.len())),
        )
    };
    let fixed = match class {
        0 => {
            answer.extend(length_of(&name));
            answer.extend(&name);
            16
        }
        1 => {
            let offset = if class_name.is_empty() {
                u32::MAX
            } else {
                u32::try_from((24 + name.len()).next_multiple_of(4)).unwrap_or(u32::MAX)
            };
            answer.extend(offset.to_le_bytes());
            answer.extend(length_of(&class_name));
            answer.extend(length_of(&name));
            answer.extend(&name);
            if !class_name.is_empty() {
                answer.resize(offset as usize, 0);
                answer.extend(&class_name);
            }
            24
        }
        2 => {
            let (subkeys, name, class_bytes, values, value_name, data) = counts();
            let offset = if class_name.is_empty() { u32::MAX } else { 44 };
            answer.extend(offset.to_le_bytes());
            answer.extend(length_of(&class_name));
            answer.extend(
                [subkeys, name, class_bytes, values, value_name, data]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
            answer.extend(&class_name);
            44
        }
        3 => {
            answer = length_of(&utf16_bytes(path)).to_vec();
            answer.extend(utf16_bytes(path));
            4
        }
        4 => {
            let (subkeys, name_bytes, _, values, value_name, data) = counts();
            answer.extend(
                [subkeys, name_bytes, values, value_name, data]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
            answer.extend(length_of(&name));
            answer.extend([0; 4]);
            40
        }
        class => return Err(call.unserved_class(class)),
    };
    answer_cut(call, buffer, &answer, fixed)
}

pub(in crate::nt) fn query_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let key = key_of(&object)?;
    answer_key(call, call.u32(1), 2, &key.node, &key.path)
}

pub(in crate::nt) fn enumerate_key(call: &mut Call<'_>) -> ServiceResult {
    let object = key_object(call)?;
    let key = key_of(&object)?;
    let subkeys = key.node.subkeys();
    let node = subkeys.get(call.u32(1) as usize).ok_or(Status::NO_MORE_ENTRIES)?;
    answer_key(call, call.u32(2), 3, node, &format!("{}\\{}", key.path, node.name))
}

/// Nothing is kept on disk yet, so there is nothing to write.
pub(in crate::nt) fn flush_key(call: &mut Call<'_>) -> ServiceResult {
    key_of(&*key_object(call)?)?;
    Ok(Status::SUCCESS)
}

/// The notification never comes.
pub(in crate::nt) fn notify_change_key(call: &mut Call<'_>) -> ServiceResult {
    key_of(&*key_object(call)?)?;
    let asynchronous = call.bool(9);
    if asynchronous {
        Ok(Status::PENDING)
    } else {
        Err(Status::NOT_IMPLEMENTED)
    }
}
