// SPDX-License-Identifier: GPL-3.0-or-later
//! Pipes within a process: each instance is a socket pair of the host, whose one end waits under its name for a client.
//! A pipe's end may be a child's standard stream; names are not seen by other processes yet.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::open::put_io_status;
use super::path::full_path;
use super::transfer::{Completion, file_of};
use super::{Backing, FileObject};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::ObjectAttributes;
use crate::object::{Body, Object, Sync, upcase};
use crate::status::Status;

/// What a server waits for with FSCTL_PIPE_LISTEN.
#[derive(Default)]
pub(super) struct Listening {
    /// A client has come.
    connected: bool,
    /// The operation that ends when one comes.
    pending: Option<Completion>,
}

/// The instances that wait for a client: upper-case name → client end and server.
#[derive(Default)]
pub struct Pipes(Mutex<HashMap<String, Vec<Instance>>>);

/// The client's end, and the server that it leads to.
type Instance = (UnixStream, Weak<Object>);

/// The name behind the pipe device, upper case.
fn pipe_name(path: &str) -> Option<String> {
    let upper = upcase(path);
    ["\\??\\PIPE\\", "\\DEVICE\\NAMEDPIPE\\", "\\DOSDEVICES\\PIPE\\"]
        .iter()
        .find_map(|prefix| upper.strip_prefix(prefix).map(str::to_owned))
}

fn end(stream: UnixStream) -> Backing {
    Backing::Stream(File::from(OwnedFd::from(stream)))
}

fn synchronous(options: u32) -> bool {
    options & 0x30 != 0
}

pub(in crate::nt) fn create_named_pipe_file(call: &mut Call<'_>) -> ServiceResult {
    const CREATED: u64 = 2;
    let attributes = ObjectAttributes::of(call, 2)?;
    let path = full_path(call, &attributes)?;
    let name = pipe_name(&path).ok_or(Status::OBJECT_NAME_INVALID)?;
    let (server, client) = UnixStream::pair()?;
    let mut file = FileObject::new(end(server), path, None, synchronous(call.u32(6)));
    file.listening = Some(Mutex::default());
    let sync = Sync::Event {
        manual: true,
        signalled: true,
    };
    let object = Object::new(&call.process.dispatcher, Body::File(file), Some(sync));
    let mut pipes = call.process.pipes.0.lock().unwrap_or_else(PoisonError::into_inner);
    let instances = pipes.entry(name).or_default();
    instances.retain(|(_, server)| server.strong_count() > 0);
    instances.push((client, Arc::downgrade(&object)));
    drop(pipes);
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    put_io_status(call, call.arg(3), Status::SUCCESS, CREATED)
}

/// Connects to a waiting instance, when the path is a pipe's.
pub(super) fn connect(call: &Call<'_>, path: &str, options: u32) -> Option<Result<FileObject, Status>> {
    let name = pipe_name(path)?;
    let mut pipes = call.process.pipes.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waiting = pipes.get_mut(&name).and_then(|instances| {
        instances.retain(|(_, server)| server.strong_count() > 0);
        if instances.is_empty() {
            None
        } else {
            Some(instances.remove(0))
        }
    });
    if pipes.get(&name).is_some_and(Vec::is_empty) {
        pipes.remove(&name);
    }
    drop(pipes);
    let Some((client, server)) = waiting else {
        return Some(Err(Status::OBJECT_NAME_NOT_FOUND));
    };
    if let Some(server) = server.upgrade()
        && let Ok(file) = file_of(&server)
        && let Some(listening) = &file.listening
    {
        let pending = {
            let mut listening = listening.lock().unwrap_or_else(PoisonError::into_inner);
            listening.connected = true;
            listening.pending.take()
        };
        if let Some(pending) = pending {
            pending.complete(call.process, file, Status::SUCCESS, 0);
        }
    }
    Some(Ok(FileObject::new(
        end(client),
        path.to_owned(),
        None,
        synchronous(options),
    )))
}

/// FSCTL_PIPE_LISTEN.
pub(super) fn listen(call: &Call<'_>, file: &FileObject) -> ServiceResult {
    const PIPE_CONNECTED: Status = Status(0xc000_00b2);
    let listening = file.listening.as_ref().ok_or(Status::INVALID_DEVICE_REQUEST)?;
    let mut listening = listening.lock().unwrap_or_else(PoisonError::into_inner);
    if listening.connected {
        return Err(PIPE_CONNECTED);
    }
    if file.synchronous {
        // Clients of the same process alone can come: a thread that waits for one here would need another to open it.
        return Err(Status::NOT_IMPLEMENTED);
    }
    let completion = Completion::of(call, file)?;
    listening.pending = Some(completion);
    Ok(Status::PENDING)
}
