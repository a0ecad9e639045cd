// SPDX-License-Identifier: GPL-3.0-or-later
//! One service call, as its handler sees it.

use std::sync::Arc;

use super::process_state::Process;
use super::table::{Argument, Service};
use super::thread::Thread;
use crate::arch::{Frame, Outcome};
use crate::object::{Body, Handle, Object, Timeout};
use crate::status::Status;
use crate::vdk::{Fault, Memory, MemoryExt, probe};

/// How a handler ends: `Ok` also for warnings and `PENDING`; `Err` so that `?` works.
pub type ServiceResult = Result<Status, Status>;

/// A service's code.
pub type Handler = fn(&mut Call<'_>) -> ServiceResult;

/// The most arguments a service has (`NtCreateNamedPipeFile` has 14).
pub const MAX_ARGUMENTS: usize = 18;

/// One call.
pub struct Call<'a> {
    /// The process.
    pub process: &'a Process,
    /// The calling thread.
    pub thread: &'a Arc<Thread>,
    /// The caller's registers.
    pub frame: &'a Frame,
    /// The service.
    pub service: &'static Service,
    /// What happens instead of a return to the caller.
    pub next: Option<Outcome>,
    arguments: [u64; MAX_ARGUMENTS],
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a 32-bit argument's upper half is undefined in the calling convention"
)]
mod narrow {
    pub(super) fn to_u32(value: u64) -> u32 {
        value as u32
    }
    pub(super) fn to_u8(value: u64) -> u8 {
        value as u8
    }
}

impl<'a> Call<'a> {
    /// Takes the call apart: four arguments are in registers, the others on the caller's stack.
    ///
    /// # Errors
    /// [`Fault`] when the stack cannot be read.
    pub fn new(
        process: &'a Process,
        thread: &'a Arc<Thread>,
        frame: &'a Frame,
        service: &'static Service,
    ) -> Result<Self, Fault> {
        let mut arguments = [0; MAX_ARGUMENTS];
        arguments[..4].copy_from_slice(&[frame.r10, frame.rdx, frame.r8, frame.r9]);
        let count = service.arguments.len().min(MAX_ARGUMENTS);
        if count > 4 {
            let mut bytes = [0u8; (MAX_ARGUMENTS - 4) * 8];
            let bytes = &mut bytes[..(count - 4) * 8];
            process.host.memory.read(frame.stack_arguments(), bytes)?;
            for (argument, value) in arguments[4..].iter_mut().zip(bytes.chunks_exact(8)) {
                *argument = u64::from_le_bytes([
                    value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7],
                ]);
            }
        }
        for (argument, kind) in arguments.iter_mut().zip(service.arguments) {
            if matches!(
                kind,
                Argument::Pointer | Argument::Value | Argument::Text | Argument::Attributes
            ) {
                *argument = probe(*argument);
            }
        }
        Ok(Self {
            process,
            thread,
            frame,
            service,
            next: None,
            arguments,
        })
    }

    /// Argument `index`, whole; a pointer is probed.
    #[must_use]
    pub fn arg(&self, index: usize) -> u64 {
        self.arguments[index]
    }

    /// Argument `index` as a 32-bit number.
    #[must_use]
    pub fn u32(&self, index: usize) -> u32 {
        narrow::to_u32(self.arguments[index])
    }

    /// Argument `index` as a signed 32-bit number.
    #[must_use]
    pub fn i32(&self, index: usize) -> i32 {
        self.u32(index).cast_signed()
    }

    /// Argument `index` as a BOOLEAN.
    #[must_use]
    pub fn bool(&self, index: usize) -> bool {
        narrow::to_u8(self.arguments[index]) != 0
    }

    /// The program's memory.
    #[must_use]
    pub fn memory(&self) -> &'a dyn Memory {
        &*self.process.host.memory
    }

    /// The object of the handle in argument `index`.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn object(&self, index: usize) -> Result<Arc<Object>, Status> {
        self.process.object(self.thread, self.arg(index))
    }

    /// Puts a new handle to `object` where argument `index` points.
    ///
    /// # Errors
    /// `ACCESS_VIOLATION` (no handle is left behind then), `INSUFFICIENT_RESOURCES`.
    pub fn give_handle(&self, index: usize, object: Arc<Object>, access: u32, inherit: bool) -> Result<Handle, Status> {
        let handle = self.process.handles.insert(object, access, inherit)?;
        if let Err(fault) = self.memory().put(self.arg(index), handle) {
            drop(self.process.handles.close(handle));
            return Err(fault.into());
        }
        Ok(handle)
    }

    /// Answers a query: `answer` at the buffer in argument `buffer` of the length in the next argument, and its length
    /// where argument `returned` points (when it does).
    ///
    /// # Errors
    /// `INFO_LENGTH_MISMATCH` when the buffer is shorter; the needed length is given even then.
    pub fn answer(&self, buffer: usize, returned: Option<usize>, answer: &[u8]) -> ServiceResult {
        self.answer_or(buffer, returned, answer, Status::INFO_LENGTH_MISMATCH)
    }

    /// As [`Call::answer`], with another status for a short buffer.
    ///
    /// # Errors
    /// `short`, `ACCESS_VIOLATION`.
    pub fn answer_or(&self, buffer: usize, returned: Option<usize>, answer: &[u8], short: Status) -> ServiceResult {
        if let Some(returned) = returned {
            let length = u32::try_from(answer.len()).unwrap_or(u32::MAX);
            self.memory().put_optional(self.arg(returned), length)?;
        }
        if (self.u32(buffer + 1) as usize) < answer.len() {
            return Err(short);
        }
        self.memory().write(self.arg(buffer), answer)?;
        Ok(Status::SUCCESS)
    }

    /// Says once that an information class is not served.
    #[must_use]
    pub fn unserved_class(&self, class: u32) -> Status {
        self.process
            .log
            .unserved_class(self.process, self.service.name, class, self.frame);
        Status::INVALID_INFO_CLASS
    }

    /// The timeout that the LARGE_INTEGER at `address` asks for: null is forever, negative is relative.
    ///
    /// # Errors
    /// `ACCESS_VIOLATION`.
    pub fn timeout(&self, address: u64) -> Result<Timeout, Status> {
        if address == 0 {
            return Ok(Timeout::Forever);
        }
        let value: i64 = self.memory().get(address)?;
        let clock = &*self.process.host.clock;
        Ok(match value {
            0 => Timeout::Poll,
            i64::MIN | i64::MAX => Timeout::Forever,
            relative if relative < 0 => Timeout::Until(clock.monotonic_time().saturating_add(relative.unsigned_abs())),
            absolute => {
                let left = absolute.unsigned_abs().saturating_sub(clock.system_time());
                if left == 0 {
                    Timeout::Poll
                } else {
                    Timeout::Until(clock.monotonic_time().saturating_add(left))
                }
            }
        })
    }
}

/// The wait state of an object that has one.
///
/// # Errors
/// `OBJECT_TYPE_MISMATCH`.
pub fn sync_of(object: &Object) -> Result<crate::object::SyncId, Status> {
    object.sync.ok_or(Status::OBJECT_TYPE_MISMATCH)
}

/// The thread of a thread object.
///
/// # Errors
/// `OBJECT_TYPE_MISMATCH`.
pub fn thread_of(object: &Object) -> Result<&Arc<Thread>, Status> {
    match &object.body {
        Body::Thread(thread) => Ok(thread),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}
