// SPDX-License-Identifier: GPL-3.0-or-later
//! `NtCreateUserProcess`: another host process that runs another program of the same world.
//!
//! The child is this command again; it gets everything through one socket ([`start::child`](crate::start::child)), waits
//! there for its first thread to be resumed, and leaves its 32-bit exit status there. Objects are not shared with it yet:
//! what it inherits are the three standard handles.

use std::fs::File;
use std::process::Stdio;
use std::sync::Arc;

use super::call::{Call, ServiceResult};
use super::process::{ChildProcess, ProcessObject};
use super::section::image_information;
use super::strings::ObjectAttributes;
use crate::image::ImageHeaders;
use crate::object::{Body, Object, Sync};
use crate::start::child::{Payload, spawn};
use crate::status::Status;
use crate::vdk::{Memory, MemoryExt};

/// The largest environment block, in UTF-16 units.
const MAX_ENVIRONMENT_UNITS: usize = 0x10_0000;

/// RTL_USER_PROCESS_PARAMETERS of the new process, in the caller's memory.
struct Parameters<'a> {
    memory: &'a dyn Memory,
    address: u64,
    /// Added to its pointers when they are offsets still.
    base: u64,
}

impl Parameters<'_> {
    fn string(&self, offset: u64) -> Result<String, Status> {
        let length: u16 = self.memory.get(self.address + offset)?;
        let buffer: u64 = self.memory.get(self.address + offset + 8)?;
        if buffer == 0 {
            return Ok(String::new());
        }
        Ok(String::from_utf16_lossy(
            &self
                .memory
                .read_units(buffer.wrapping_add(self.base), usize::from(length) / 2)?,
        ))
    }

    fn environment(&self) -> Result<Vec<(String, String)>, Status> {
        let start: u64 = self.memory.get(self.address + 0x80)?;
        if start == 0 {
            return Ok(Vec::new());
        }
        let mut at = start.wrapping_add(self.base);
        let mut variables = Vec::new();
        let mut entry = Vec::new();
        for _ in 0..MAX_ENVIRONMENT_UNITS {
            let unit: u16 = self.memory.get(at)?;
            at = at.wrapping_add(2);
            if unit != 0 {
                entry.push(unit);
                continue;
            }
            if entry.is_empty() {
                return Ok(variables);
            }
            let text = String::from_utf16_lossy(&entry);
            entry.clear();
            // Names like `=C:` begin with an equals sign.
            if let Some(split) = text.char_indices().skip(1).find(|(_, c)| *c == '=').map(|(at, _)| at) {
                variables.push((text[..split].to_owned(), text[split + 1..].to_owned()));
            }
        }
        Err(Status::INVALID_PARAMETER)
    }
}

/// What PS_ATTRIBUTE_LIST asks for.
#[derive(Default)]
struct Attributes {
    image: String,
    client_id: u64,
    image_information: u64,
}

fn read_attributes(memory: &dyn Memory, list: u64) -> Result<Attributes, Status> {
    const CLIENT_ID: u64 = 3;
    const IMAGE_NAME: u64 = 5;
    const IMAGE_INFO: u64 = 6;
    const MAX_ENTRIES: u64 = 32;
    const MAX_PATH_BYTES: u64 = 0x1_0000;
    let mut attributes = Attributes::default();
    let bytes: u64 = memory.get(list)?;
    for index in 0..(bytes.saturating_sub(8) / 32).min(MAX_ENTRIES) {
        let entry = list + 8 + 32 * index;
        let (kind, size): (u64, u64) = (memory.get(entry)?, memory.get(entry + 8)?);
        let value = memory.get_pointer(entry + 16)?;
        match kind & 0xffff {
            CLIENT_ID => attributes.client_id = value,
            IMAGE_NAME => {
                let units = usize::try_from(size.min(MAX_PATH_BYTES) / 2).unwrap_or(0);
                attributes.image = String::from_utf16_lossy(&memory.read_units(value, units)?);
            }
            IMAGE_INFO => attributes.image_information = value,
            _ => {}
        }
    }
    Ok(attributes)
}

/// One of the standard streams for the child.
fn stream(call: &Call<'_>, handle: u64) -> Result<Stdio, Status> {
    let Ok(object) = call.process.object(call.thread, handle) else {
        return Ok(Stdio::null());
    };
    match &object.body {
        Body::File(file) => Ok(file.for_child()?.map_or_else(Stdio::null, Stdio::from)),
        _ => Ok(Stdio::null()),
    }
}

pub(super) fn create_user_process(call: &mut Call<'_>) -> ServiceResult {
    const NORMALIZED: u32 = 1;
    let memory = call.memory();
    let process_attributes = ObjectAttributes::of(call, 4)?;
    let thread_attributes = ObjectAttributes::of(call, 5)?;
    let attributes = read_attributes(memory, call.arg(10))?;
    let address = call.arg(8);
    let flags: u32 = memory.get(address + 8)?;
    let parameters = Parameters {
        memory,
        address,
        base: if flags & NORMALIZED == 0 { address } else { 0 },
    };
    let program = attributes
        .image
        .strip_prefix("\\??\\")
        .unwrap_or(&attributes.image)
        .to_owned();
    let file = super::file::open_program(call, &attributes.image)?;
    let headers = ImageHeaders::parse(&file).map_err(|error| Status::from(&error))?;
    let payload = Payload {
        program,
        image_path: parameters.string(0x60)?,
        command_line: parameters.string(0x70)?,
        current_directory: parameters.string(0x38)?,
        environment: parameters.environment()?,
        launch: crate::start::shared_launch().ok_or(Status::NOT_SUPPORTED)?,
    };
    let mut streams = Vec::new();
    for offset in [0x20, 0x28, 0x30] {
        streams.push(stream(call, memory.get(address + offset)?)?);
    }
    let Ok(streams) = <[Stdio; 3]>::try_from(streams) else {
        return Err(Status::INTERNAL_ERROR);
    };
    let process = crate::start::running().ok_or(Status::NOT_SUPPORTED)?;
    let (host, channel) = spawn(&payload, streams)?;
    let id = host.id().wrapping_mul(4);
    let child = Arc::new(ChildProcess::new(id, host.id(), channel));
    let over = || {
        Some(Sync::Event {
            manual: true,
            signalled: false,
        })
    };
    let object = Object::new(
        &process.dispatcher,
        Body::Process(ProcessObject::child(id, Arc::clone(&child))),
        over(),
    );
    let thread = Object::new(&process.dispatcher, Body::ChildThread(Arc::clone(&child)), over());
    let (watched, its_thread) = (Arc::clone(&object), Arc::clone(&thread));
    crate::arch::start_helper_thread("child", move || {
        child.watch(host);
        for object in [&its_thread, &watched] {
            if let Some(sync) = object.sync {
                // The objects are alive here.
                let _ = process.dispatcher.set_event(sync);
            }
        }
    })?;
    if attributes.client_id != 0 {
        memory.put(attributes.client_id, [u64::from(id), u64::from(id) + 4])?;
    }
    if attributes.image_information != 0 {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        memory.write(
            attributes.image_information,
            &image_information(&headers, headers.image_base, bytes),
        )?;
    }
    call.give_handle(0, object, call.u32(2), process_attributes.inherit())?;
    call.give_handle(1, thread, call.u32(3), thread_attributes.inherit())?;
    Ok(Status::SUCCESS)
}

/// A copy of a file for a child.
pub(super) fn copy_for_child(file: &File) -> Result<File, Status> {
    Ok(file.try_clone()?)
}
