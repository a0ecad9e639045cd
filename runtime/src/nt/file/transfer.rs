// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading and writing.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, PoisonError};

use super::open::put_io_status;
use super::{Backing, FileObject};
use crate::nt::Process;
use crate::nt::call::{Call, ServiceResult, sync_of};
use crate::object::{Body, Object, Packet};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// The file of argument 0.
pub(super) fn file_object(call: &Call<'_>) -> Result<Arc<Object>, Status> {
    let object = call.object(0)?;
    if matches!(object.body, Body::File(_)) {
        Ok(object)
    } else {
        Err(Status::OBJECT_TYPE_MISMATCH)
    }
}

/// The file inside an object that [`file_object`] gave.
pub(super) fn file_of(object: &Object) -> Result<&FileObject, Status> {
    match &object.body {
        Body::File(file) => Ok(file),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(in crate::nt) fn read_file(call: &mut Call<'_>) -> ServiceResult {
    transfer(call, false)
}

pub(in crate::nt) fn write_file(call: &mut Call<'_>) -> ServiceResult {
    transfer(call, true)
}

fn transfer(call: &mut Call<'_>, write: bool) -> ServiceResult {
    let object = file_object(call)?;
    let file = file_of(&object)?;
    let length = call.u32(6) as usize;
    let done = match &file.backing {
        Backing::Directory(_) => return Err(Status::INVALID_DEVICE_REQUEST),
        Backing::Null => Ok(if write { length } else { 0 }),
        Backing::Stream(host) if !write && !file.synchronous => return read_later(call, &object, file, host, length),
        Backing::Stream(host) => stream(call, host, length, write),
        Backing::Disk(host) => return disk(call, file, host, length, write),
    };
    let done = done?;
    let status = if !write && done == 0 && length > 0 {
        if matches!(file.backing, Backing::Null) {
            Status::END_OF_FILE
        } else {
            Status::PIPE_BROKEN
        }
    } else {
        Status::SUCCESS
    };
    finish(call, file, status, done as u64)
}

/// One read, or writes until everything is gone.
fn stream(call: &Call<'_>, host: &File, length: usize, write: bool) -> Result<usize, Status> {
    let buffer = call.arg(5);
    if !write {
        return Ok(call.memory().read_from_file(host.as_fd(), None, buffer, length)?);
    }
    let mut done = 0;
    while done < length {
        match call
            .memory()
            .write_to_file(host.as_fd(), None, buffer + done as u64, length - done)
        {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut poll = [rustix::event::PollFd::new(host, rustix::event::PollFlags::OUT)];
                rustix::event::poll(&mut poll, None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn disk(call: &Call<'_>, file: &FileObject, host: &File, length: usize, write: bool) -> ServiceResult {
    const AT_END: i64 = -1;
    const AT_POSITION: i64 = -2;
    let buffer = call.arg(5);
    let asked: Option<i64> = if call.arg(7) == 0 {
        None
    } else {
        Some(call.memory().get(call.arg(7))?)
    };
    let mut position = file.position.lock().unwrap_or_else(PoisonError::into_inner);
    let start = match asked {
        _ if write && file.append => host.metadata()?.len(),
        Some(AT_END) if write => host.metadata()?.len(),
        Some(AT_POSITION) | None if file.synchronous => *position,
        None => return Err(Status::INVALID_PARAMETER),
        Some(offset) => u64::try_from(offset).map_err(|_| Status::INVALID_PARAMETER)?,
    };
    // The position belongs to the object; the copy itself may grow the caller's stack and must not hold its lock.
    drop(position);
    let mut done = 0;
    while done < length {
        let (at, address) = (start + done as u64, buffer + done as u64);
        let step = if write {
            call.memory()
                .write_to_file(host.as_fd(), Some(at), address, length - done)
        } else {
            call.memory()
                .read_from_file(host.as_fd(), Some(at), address, length - done)
        };
        match step {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(_) if done > 0 => break,
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Err(Status::ACCESS_DENIED),
            Err(error) => return Err(error.into()),
        }
    }
    if file.synchronous {
        position = file.position.lock().unwrap_or_else(PoisonError::into_inner);
        *position = start + done as u64;
        drop(position);
    }
    let status = if !write && done == 0 && length > 0 {
        Status::END_OF_FILE
    } else {
        Status::SUCCESS
    };
    finish(call, file, status, done as u64)
}

/// What is told when an operation ends after its service returned.
pub(super) struct Completion {
    status_block: u64,
    event: Option<Arc<Object>>,
    context: u64,
}

impl Completion {
    /// For the operation of this call: its event is cleared, its status block shows that it is pending.
    pub(super) fn of(call: &Call<'_>, file: &FileObject) -> Result<Self, Status> {
        if call.arg(2) != 0 {
            // An APC at the end of a pending operation.
            return Err(Status::NOT_IMPLEMENTED);
        }
        let event = match call.arg(1) {
            0 => None,
            handle => Some(call.process.object(call.thread, handle)?),
        };
        if let Some(event) = &event {
            call.process.dispatcher.reset_event(sync_of(event)?)?;
        }
        debug_assert!(
            !file.synchronous,
            "a synchronous operation is over when its service returns"
        );
        put_io_status(call, call.arg(4), Status::PENDING, 0)?;
        Ok(Self {
            status_block: call.arg(4),
            event,
            context: call.arg(3),
        })
    }

    /// Ends it.
    pub(super) fn complete(self, process: &Process, file: &FileObject, status: Status, information: u64) {
        // A program that gave its status block away meanwhile is told by its event all the same.
        let _ = process
            .host
            .memory
            .put(self.status_block, [u64::from(status.0), information]);
        if let Some(sync) = self.event.as_ref().and_then(|event| event.sync) {
            let _ = process.dispatcher.set_event(sync);
        }
        let completion = file.completion.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((port, key)) = completion
            && let (true, Some(port)) = (self.context != 0, port.sync)
        {
            let _ = process.dispatcher.post(
                port,
                Packet {
                    key,
                    value: self.context,
                    status,
                    information,
                },
            );
        }
    }
}

/// A read of a stream that was opened for asynchronous operations: what is there is taken at once, else a thread of ours
/// waits for it.
fn read_later(call: &Call<'_>, object: &Arc<Object>, file: &FileObject, host: &File, length: usize) -> ServiceResult {
    let completion = Completion::of(call, file)?;
    let process = crate::start::running().ok_or(Status::NOT_SUPPORTED)?;
    let (object, host, buffer) = (Arc::clone(object), host.try_clone()?, call.arg(5));
    crate::arch::start_helper_thread("pipe-read", move || {
        let read = process.host.memory.read_from_file(host.as_fd(), None, buffer, length);
        let (status, done) = match read {
            Ok(0) if length > 0 => (Status::PIPE_BROKEN, 0),
            Ok(done) => (Status::SUCCESS, done as u64),
            Err(error) => (Status::from(error), 0),
        };
        if let Ok(file) = file_of(&object) {
            completion.complete(process, file, status, done);
        }
    })?;
    Ok(Status::PENDING)
}

/// Ends an operation that is over when the service returns: status block, event, completion port, APC.
fn finish(call: &Call<'_>, file: &FileObject, status: Status, information: u64) -> ServiceResult {
    let (event, routine, context) = (call.arg(1), call.arg(2), call.arg(3));
    put_io_status(call, call.arg(4), status, information)?;
    if event != 0 {
        let event = call.process.object(call.thread, event)?;
        call.process.dispatcher.set_event(sync_of(&event)?)?;
    }
    if routine != 0 {
        let apc = crate::object::Apc {
            routine,
            arguments: [context, call.arg(4), 0],
        };
        call.process.dispatcher.queue_apc(call.thread.id, apc);
    } else if context != 0 && !file.synchronous && !status.is_error() {
        let completion = file.completion.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((port, key)) = completion {
            call.process.dispatcher.post(
                sync_of(&port)?,
                Packet {
                    key,
                    value: context,
                    status,
                    information,
                },
            )?;
        }
    }
    Ok(status)
}

pub(in crate::nt) fn flush_buffers(call: &mut Call<'_>) -> ServiceResult {
    let object = file_object(call)?;
    if let Backing::Disk(host) = &file_of(&object)?.backing {
        host.sync_data()?;
    }
    put_io_status(call, call.arg(1), Status::SUCCESS, 0)
}

/// A lock is granted at once: no other process can hold one yet, and locks of other handles of this process are not
/// looked at.
pub(in crate::nt) fn lock_file(call: &mut Call<'_>) -> ServiceResult {
    file_object(call)?;
    put_io_status(call, call.arg(4), Status::SUCCESS, 0)
}

pub(in crate::nt) fn unlock_file(call: &mut Call<'_>) -> ServiceResult {
    file_object(call)?;
    put_io_status(call, call.arg(1), Status::SUCCESS, 0)
}

/// Operations on files are over when their service returns; a pending read of a pipe cannot be ended early yet.
pub(in crate::nt) fn cancel_io(call: &mut Call<'_>) -> ServiceResult {
    file_object(call)?;
    Err(Status::NOT_FOUND)
}

/// The codes that `NtFsControlFile` serves: FSCTL_GET_OBJECT_ID, FSCTL_PIPE_LISTEN.
pub(in crate::nt) const FS_CONTROL_CODES: &[u32] = &[GET_OBJECT_ID, PIPE_LISTEN];
const PIPE_LISTEN: u32 = 0x11_0008;
const GET_OBJECT_ID: u32 = 0x9_009c;

pub(in crate::nt) fn fs_control(call: &mut Call<'_>) -> ServiceResult {
    let object = file_object(call)?;
    let file = file_of(&object)?;
    match (call.u32(5), &file.backing) {
        (PIPE_LISTEN, Backing::Stream(_)) => super::pipe::listen(call, file),
        (GET_OBJECT_ID, Backing::Disk(host) | Backing::Directory(host)) => {
            // FILE_OBJECTID_BUFFER: the id, then where it was born: the same file gives the same id, another another.
            let metadata = host.metadata()?;
            let mut answer = [metadata.dev(), metadata.ino()].map(u64::to_le_bytes).concat();
            answer.resize(64, 0);
            if (call.u32(9) as usize) < answer.len() {
                return Err(Status::INVALID_PARAMETER);
            }
            call.memory().write(call.arg(8), &answer)?;
            put_io_status(call, call.arg(4), Status::SUCCESS, 64)
        }
        (code, _) => {
            let _ = call.unserved_class(code);
            Err(Status::INVALID_DEVICE_REQUEST)
        }
    }
}

pub(in crate::nt) fn device_io_control(call: &mut Call<'_>) -> ServiceResult {
    const DEVICE_CONSOLE: u32 = 0x50;
    let object = file_object(call)?;
    let code = call.u32(5);
    let terminal = matches!(&file_of(&object)?.backing, Backing::Stream(host) if rustix::termios::isatty(host));
    // Programs find out with a console's codes that a pipe or a file is none: refusing them is the right answer.
    if code >> 16 != DEVICE_CONSOLE || terminal {
        let _ = call.unserved_class(code);
    }
    Err(Status::INVALID_DEVICE_REQUEST)
}
