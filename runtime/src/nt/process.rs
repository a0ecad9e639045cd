// SPDX-License-Identifier: GPL-3.0-or-later
//! Processes: ending this one, and opening it. Starting others is not served yet.

use std::sync::Arc;

use super::call::{Call, ServiceResult};
use crate::arch::Outcome;
use crate::object::Body;
use crate::status::Status;
use crate::vdk::MemoryExt;

/// A process object.
#[derive(Debug)]
pub struct ProcessObject {
    /// The process id.
    pub id: u32,
    own: bool,
}

impl ProcessObject {
    /// The process that the runtime is in.
    #[must_use]
    pub fn own(id: u32) -> Self {
        Self { id, own: true }
    }

    /// Whether it is the one that the runtime is in.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// A process that was created suspended goes on: gives its old suspend count.
    pub(super) fn resume(&self) -> u32 {
        0
    }
}

/// Ends the process from within a service.
pub(super) fn end_process(call: &mut Call<'_>, code: u32) {
    call.process.set_exit_code(code);
    call.next = Some(Outcome::ExitThread(code));
    crate::start::end_process(code);
}

pub(super) fn terminate_process(call: &mut Call<'_>) -> ServiceResult {
    if call.arg(0) == 0 {
        // "End the other threads": the caller goes on to detach its DLLs and then ends the process. Threads that are still
        // in the program are ended with the process.
        return Ok(Status::SUCCESS);
    }
    let object = call.object(0)?;
    match &object.body {
        Body::Process(process) if process.own => {
            end_process(call, call.u32(1));
            Ok(Status::SUCCESS)
        }
        Body::Process(_) => Err(Status::NOT_IMPLEMENTED),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(super) fn open_process(call: &mut Call<'_>) -> ServiceResult {
    let id: u64 = call.memory().get(call.arg(3))?;
    if id != u64::from(call.process.id) {
        return Err(Status::INVALID_CID);
    }
    let attributes = super::strings::ObjectAttributes::of(call, 2)?;
    call.give_handle(0, Arc::clone(&call.process.object), call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

/// The classes that `NtSetInformationProcess` takes without effect on the host: error mode, priority, boost, affinity,
/// handle tracing, execute flags, I/O and page priority, mitigation and others that no program can read back here.
pub(super) const SET_CLASSES: &[u32] = &[1, 5, 12, 18, 21, 22, 33, 34, 39, 49, 53, 63, 71, 77, 85, 91, 93, 108, 112];

pub(super) fn set_information_process(call: &mut Call<'_>) -> ServiceResult {
    match call.u32(1) {
        class if SET_CLASSES.contains(&class) => {
            call.object(0)?;
            Ok(Status::SUCCESS)
        }
        class => Err(call.unserved_class(class)),
    }
}

pub(super) fn raise_hard_error(call: &mut Call<'_>) -> ServiceResult {
    const SERVICE_NOTIFICATION: u32 = 0x4000_0000;
    const ABORT: u32 = 2;
    let code = call.u32(0);
    call.process.log.line(&format!("hard error {}", Status(code)));
    call.memory().put(call.arg(5), ABORT)?;
    if code & SERVICE_NOTIFICATION == 0 && Status(code).is_error() && call.u32(4) == 6 {
        // OptionShutdownSystem: the session ends; here it is the process.
        end_process(call, code);
    }
    Ok(Status::SUCCESS)
}
