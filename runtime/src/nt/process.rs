// SPDX-License-Identifier: GPL-3.0-or-later
//! Processes: ending them, opening them, and what is kept of a child.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
    child: Option<Arc<ChildProcess>>,
}

/// A process that this one started.
#[derive(Debug)]
pub struct ChildProcess {
    /// Its id.
    pub id: u32,
    host_id: u32,
    channel: UnixStream,
    resumed: Mutex<bool>,
    exit_code: OnceLock<u32>,
}

impl ChildProcess {
    /// A child that waits at the other end of `channel`.
    #[must_use]
    pub fn new(id: u32, host_id: u32, channel: UnixStream) -> Self {
        Self {
            id,
            host_id,
            channel,
            resumed: Mutex::new(false),
            exit_code: OnceLock::new(),
        }
    }

    /// Its exit status, once it ended.
    #[must_use]
    pub fn exit_code(&self) -> Option<u32> {
        self.exit_code.get().copied()
    }

    /// Lets it run; gives its suspend count before.
    pub(super) fn resume(&self) -> u32 {
        let mut resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        if *resumed {
            return 0;
        }
        *resumed = true;
        // A child that is gone needs no byte.
        let _ = (&self.channel).write_all(&[1]);
        1
    }

    fn terminate(&self, code: u32) {
        let _ = self.exit_code.set(code);
        let pid = i32::try_from(self.host_id)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself; it stays a zombie until it is watched, so the id is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// Waits for its end and keeps its status: the 32 bits that it left, or what Linux says.
    pub(super) fn watch(&self, mut host: std::process::Child) {
        let ended = host.wait();
        let mut left = [0; 4];
        let code = match (
            self.channel.set_nonblocking(true),
            (&self.channel).read_exact(&mut left),
        ) {
            (Ok(()), Ok(())) => u32::from_le_bytes(left),
            _ => match ended.as_ref().map(|status| (status.code(), status.signal())) {
                Ok((Some(code), _)) => code.cast_unsigned(),
                Ok((None, Some(libc::SIGSEGV | libc::SIGBUS))) => Status::ACCESS_VIOLATION.0,
                _ => 1,
            },
        };
        let _ = self.exit_code.set(code);
    }
}

impl ProcessObject {
    /// The process that the runtime is in.
    #[must_use]
    pub fn own(id: u32) -> Self {
        Self { id, child: None }
    }

    /// A child of it.
    #[must_use]
    pub fn child(id: u32, child: Arc<ChildProcess>) -> Self {
        Self { id, child: Some(child) }
    }

    /// The child, when it is one.
    #[must_use]
    pub fn as_child(&self) -> Option<&ChildProcess> {
        self.child.as_deref()
    }

    /// Whether it is the one that the runtime is in.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.child.is_none()
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
        Body::Process(process) => {
            match process.as_child() {
                Some(child) => child.terminate(call.u32(1)),
                None => end_process(call, call.u32(1)),
            }
            Ok(Status::SUCCESS)
        }
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
pub(super) const SET_CLASSES: &[u32] = &[
    1, 5, 12, 18, 21, 22, 33, 34, 39, 49, 53, 63, 71, 77, 85, 91, 93, 108, 112,
];

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
