// SPDX-License-Identifier: GPL-3.0-or-later
//! From a service number to its handler.

use std::cell::RefCell;
use std::sync::Arc;

use super::call::Call;
use super::memory::PageFault;
use super::process_state::Process;
use super::table::{self, Service};
use super::thread::{self, Thread};
use crate::arch::{Frame, Kernel, Outcome, ProgramException, UNIX_CALL_NUMBER};
use crate::image::LearnedService;
use crate::status::Status;
use crate::vdk::MemoryExt;

/// The largest service number that is taken: ntdll's are below 0x1000, win32u's below 0x2000.
const MAX_NUMBER: u32 = 0x2000;
/// Where win32u's numbers begin.
const WIN32U_NUMBERS: usize = 0x1000;

/// What each number of this process' ntdll means.
pub struct ServiceMap(Vec<Option<Numbered>>);

struct Numbered {
    name: String,
    service: &'static Service,
}

impl ServiceMap {
    /// Joins learned numbers with the table.
    #[must_use]
    pub fn new(learned: &[LearnedService]) -> Self {
        let mut map = Vec::new();
        for service in learned.iter().filter(|service| service.number < MAX_NUMBER) {
            let index = service.number as usize;
            if map.len() <= index {
                map.resize_with(index + 1, || None);
            }
            let known = table::find(&service.name).unwrap_or(&table::UNKNOWN);
            map[index] = Some(Numbered {
                name: service.name.clone(),
                service: known,
            });
        }
        Self(map)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Thread>>> = const { RefCell::new(None) };
}

/// Makes `thread` the one that this host thread runs.
pub(crate) fn set_current_thread(thread: Arc<Thread>) {
    CURRENT.set(Some(thread));
}

/// Serves one call.
pub fn serve_call(process: &Process, thread: &Arc<Thread>, frame: &Frame) -> Outcome {
    let number = usize::try_from(frame.number & 0xffff_ffff).unwrap_or(usize::MAX);
    if number >= WIN32U_NUMBERS {
        let map = process.win32u.get_or_init(|| crate::start::win32u_services(process));
        match map.0.get(number).and_then(Option::as_ref) {
            Some(numbered) => process.log.unserved(process, &numbered.name, frame),
            None => process.log.unknown_number(process, number, frame),
        }
        return Outcome::Return(Status::NOT_IMPLEMENTED.0.into());
    }
    let Some(numbered) = process.services.get().and_then(|map| map.0.get(number)?.as_ref()) else {
        process.log.unknown_number(process, number, frame);
        return Outcome::Return(Status::INVALID_SYSTEM_SERVICE.0.into());
    };
    let Some(handler) = numbered.service.handler else {
        process.log.unserved(process, &numbered.name, frame);
        return Outcome::Return(Status::NOT_IMPLEMENTED.0.into());
    };
    let mut call = match Call::new(process, thread, frame, numbered.service) {
        Ok(call) => call,
        Err(fault) => return Outcome::Return(Status::from(fault).0.into()),
    };
    let traced = process.log.traces(numbered.service.name);
    let line = traced.then(|| super::trace::describe_call(&call));
    let status = handler(&mut call).unwrap_or_else(|status| status);
    if let Some(line) = line {
        process.log.trace(thread.id, &line, status);
    }
    let outcome = call.next.take().unwrap_or(Outcome::Return(status.0.into()));
    thread.stop_if_suspended();
    outcome
}

impl Kernel for Process {
    fn serve(&self, _token: usize, frame: &Frame) -> Outcome {
        if frame.number == UNIX_CALL_NUMBER {
            return Outcome::Return(crate::flavor::unix_call(self, frame).0.into());
        }
        CURRENT.with_borrow(|thread| {
            let Some(thread) = thread else {
                return Outcome::Return(Status::INTERNAL_ERROR.0.into());
            };
            // A panic of ours is a bug; the program sees a failed service instead of losing the process.
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve_call(self, thread, frame)));
            served.unwrap_or(Outcome::Return(Status::INTERNAL_ERROR.0.into()))
        })
    }

    fn page_fault(&self, teb: u64, address: u64, _write: bool) -> crate::arch::FaultAnswer {
        let memory = &*self.host.memory;
        // The TEB is never a stack, so these reads do not come back here.
        let bottom = memory.get::<u64>(teb + thread::TEB_DEALLOCATION_STACK).unwrap_or(0);
        let limit = memory.get::<u64>(teb + thread::TEB_STACK_LIMIT).unwrap_or(0);
        let (fault, grown) = self.space.page_fault(address, (bottom, limit));
        if let Some(limit) = grown {
            let _ = memory.put(teb + thread::TEB_STACK_LIMIT, limit);
        }
        match fault {
            PageFault::Served => crate::arch::FaultAnswer::Served,
            PageFault::Guard => crate::arch::FaultAnswer::Guard,
            PageFault::Denied => crate::arch::FaultAnswer::Denied,
        }
    }

    fn exception_entry(&self) -> Option<u64> {
        self.entry_points
            .get()
            .map(|entry| entry.exception)
            .filter(|entry| *entry != 0)
    }

    fn died(&self, exception: &ProgramException) {
        self.log.died(self, exception);
    }
}
