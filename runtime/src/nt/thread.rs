// SPDX-License-Identifier: GPL-3.0-or-later
//! Threads: each is one host thread. Services that create, end, stop and ask about them, APCs, exceptions and contexts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::call::{Call, ServiceResult, sync_of, thread_of};
use super::memory::{Kind, Place, protect};
use super::process_state::Process;
use super::strings::ObjectAttributes;
use crate::arch::{Context, ContextFlags, ExceptionFrame, ExceptionRecord, Outcome, THREAD_BLOCK_BYTES};
use crate::object::{Apc, Object};
use crate::status::Status;
use crate::vdk::MemoryExt;

pub(crate) const TEB_STACK_BASE: u64 = 0x08;
pub(crate) const TEB_STACK_LIMIT: u64 = 0x10;
pub(crate) const TEB_DEALLOCATION_STACK: u64 = 0x1478;
/// NT's exit status of a thread that has none yet.
pub const STILL_ACTIVE: u32 = 0x103;
/// The smallest stack: Wine's ntdll and large programs need it.
pub const MIN_STACK_BYTES: u64 = 0x10_0000;
/// The most address space that one stack may take.
const MAX_STACK_BYTES: u64 = 0x1_0000_0000;

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Its TEB.
    pub teb: u64,
    /// Its start address.
    pub entry: u64,
    exit_code: AtomicU32,
    suspended: AtomicU32,
    gate: Mutex<()>,
    resumed: Condvar,
}

impl Thread {
    /// A thread that has not run.
    #[must_use]
    pub fn new(id: u32, teb: u64, entry: u64, suspended: bool) -> Self {
        Self {
            id,
            teb,
            entry,
            exit_code: AtomicU32::new(STILL_ACTIVE),
            suspended: AtomicU32::new(u32::from(suspended)),
            gate: Mutex::new(()),
            resumed: Condvar::new(),
        }
    }

    pub(super) fn set_exit_code(&self, code: u32) {
        self.exit_code.store(code, Ordering::SeqCst);
    }

    /// Its exit status, or [`STILL_ACTIVE`].
    #[must_use]
    pub fn exit_code(&self) -> u32 {
        self.exit_code.load(Ordering::SeqCst)
    }

    /// Waits here while the thread is suspended: before it runs, and at the end of each service.
    pub fn stop_if_suspended(&self) {
        if self.suspended.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.suspended.load(Ordering::SeqCst) > 0 {
            gate = self.resumed.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How often it was suspended.
    #[must_use]
    pub fn suspend_count(&self) -> u32 {
        self.suspended.load(Ordering::SeqCst)
    }

    fn suspend(&self) -> Result<u32, Status> {
        const MAXIMUM_SUSPEND_COUNT: u32 = 127;
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.suspended.load(Ordering::SeqCst);
        if before >= MAXIMUM_SUSPEND_COUNT {
            return Err(Status::SUSPEND_COUNT_EXCEEDED);
        }
        self.suspended.store(before + 1, Ordering::SeqCst);
        Ok(before)
    }

    fn resume(&self) -> u32 {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.suspended.load(Ordering::SeqCst);
        self.suspended.store(before.saturating_sub(1), Ordering::SeqCst);
        self.resumed.notify_all();
        before
    }
}

/// Makes a thread's stack and TEB.
///
/// # Errors
/// `NO_MEMORY`, `INVALID_PARAMETER` for a stack beyond 4 GiB.
pub fn create_thread(
    process: &Process,
    entry: u64,
    stack_bytes: u64,
    suspended: bool,
    peb: u64,
) -> Result<Arc<Object>, Status> {
    let memory = &*process.host.memory;
    let space = &process.space;
    let stack_bytes = stack_bytes.max(MIN_STACK_BYTES);
    if stack_bytes > MAX_STACK_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    let stack_bytes = stack_bytes.next_multiple_of(super::memory::GRANULARITY);
    let block_bytes = THREAD_BLOCK_BYTES + process.flavor.teb_bytes();
    let block = space.reserve(Place::Low, block_bytes, Kind::Private, protect::READWRITE, None)?;
    let made = (|| {
        space.commit(block, block_bytes, protect::READWRITE)?;
        let stack = space.reserve(Place::High, stack_bytes, Kind::Private, protect::READWRITE, None)?;
        let top = stack + stack_bytes;
        let limit = top - 0x1_0000;
        space.commit(limit, 0x1_0000, protect::READWRITE)?;
        space.commit(limit - 0x1000, 0x1000, protect::READWRITE | protect::GUARD)?;
        Ok::<_, Status>((stack, top, limit))
    })();
    let (stack, top, limit) = match made {
        Ok(made) => made,
        Err(status) => {
            let _ = space.release(block, 0);
            return Err(status);
        }
    };
    let (teb, id) = (block + THREAD_BLOCK_BYTES, process.new_thread_id());
    let fields: [(u64, u64); 15] = [
        (0x00, u64::MAX), // ExceptionList: none in 64-bit code
        (TEB_STACK_BASE, top),
        (TEB_STACK_LIMIT, limit),
        (0x30, teb), // Self
        (0x40, process.id.into()),
        (0x48, id.into()),
        (0x60, peb),
        (TEB_DEALLOCATION_STACK, stack),
        (0x2c8, teb + 0x290), // ActivationContextStackPointer: an empty stack inside the TEB
        (0x298, teb + 0x298),
        (0x2a0, teb + 0x298),
        (0x7d8, process.id.into()), // RealClientId
        (0x7e0, id.into()),
        (0x1258, 0x020a_0000), // StaticUnicodeString: empty, MaximumLength 522
        (0x1260, teb + 0x1268),
    ];
    for (offset, value) in fields {
        memory.put(teb + offset, value)?;
    }
    Ok(process.add_thread(Arc::new(Thread::new(id, teb, entry, suspended))))
}

/// The registers with which a thread begins: in ntdll's loader with a context that goes on at `RtlUserThreadStart`, or
/// right at `entry` where there is no ntdll. The context is written on the thread's stack.
///
/// # Errors
/// `ACCESS_VIOLATION` when the stack is gone.
pub fn initial_context(process: &Process, thread: &Thread, argument: u64) -> Result<Context, Status> {
    let memory = &*process.host.memory;
    let top: u64 = memory.get(thread.teb + TEB_STACK_BASE)?;
    let mut start = Context::fresh();
    // As after a call: 8 bytes below a 16-byte border, with the callee's home space above.
    start.rsp = top - 0x28;
    (start.rcx, start.rdx) = (thread.entry, argument);
    let Some(entry) = process.entry_points.get().filter(|entry| entry.loader != 0) else {
        start.rip = thread.entry;
        start.rcx = argument;
        // The home space of the callee is its caller's to provide; a return ends in a fault at 0.
        memory.put(start.rsp, 0u64)?;
        return Ok(start);
    };
    start.rip = entry.thread_start;
    let at = (top - 0x28 - size_of::<Context>() as u64 - 0x30) & !15;
    memory.put(at, start.clone())?;
    let mut begin = Context::fresh();
    (begin.rip, begin.rsp, begin.rcx, begin.rdx) = (entry.loader, at - 8, at, entry.ntdll);
    Ok(begin)
}

pub(super) fn create_thread_ex(call: &mut Call<'_>) -> ServiceResult {
    const CREATE_SUSPENDED: u32 = 1;
    let (entry, argument, flags) = (call.arg(4), call.arg(5), call.u32(6));
    let attributes = ObjectAttributes::of(call, 2)?;
    let target = call.object(3)?;
    if !Arc::ptr_eq(&target, &call.process.object) {
        return Err(Status::NOT_SUPPORTED);
    }
    let process = crate::start::running().ok_or(Status::NOT_SUPPORTED)?;
    let image = process.image.get().ok_or(Status::NOT_SUPPORTED)?;
    let (commit, reserve) = (call.arg(8), call.arg(9));
    let stack = if reserve == 0 {
        image.stack_bytes.max(commit)
    } else {
        reserve.max(commit)
    };
    let object = create_thread(process, entry, stack, flags & CREATE_SUSPENDED != 0, image.peb)?;
    let thread = Arc::clone(thread_of(&object)?);
    let started = (|| {
        put_client_attributes(call, call.arg(10), &thread)?;
        call.give_handle(0, Arc::clone(&object), call.u32(1), attributes.inherit())?;
        crate::start::start_thread(process, Arc::clone(&thread), argument).map_err(Status::from)
    })();
    if let Err(status) = started {
        process.thread_ended(&thread, status.0);
        return Err(status);
    }
    Ok(Status::SUCCESS)
}

/// Answers PS_ATTRIBUTE_LIST's questions for the new thread's ids and TEB.
fn put_client_attributes(call: &Call<'_>, list: u64, thread: &Thread) -> Result<(), Status> {
    const CLIENT_ID: u64 = 3;
    const TEB_ADDRESS: u64 = 4;
    /// No known list has more than this many entries.
    const MAX_ENTRIES: u64 = 32;
    if list == 0 {
        return Ok(());
    }
    let memory = call.memory();
    let bytes: u64 = memory.get(list)?;
    for index in 0..(bytes.saturating_sub(8) / 32).min(MAX_ENTRIES) {
        let entry = list + 8 + 32 * index;
        let (attribute, size): (u64, u64) = (memory.get(entry)?, memory.get(entry + 8)?);
        let (value, returned) = (memory.get_pointer(entry + 16)?, memory.get_pointer(entry + 24)?);
        match attribute & 0xffff {
            CLIENT_ID => {
                memory.put(value, u64::from(call.process.id))?;
                memory.put(value + 8, u64::from(thread.id))?;
            }
            TEB_ADDRESS => memory.put(value, thread.teb)?,
            _ => continue,
        }
        memory.put_optional(returned, size)?;
    }
    Ok(())
}

pub(super) fn terminate_thread(call: &mut Call<'_>) -> ServiceResult {
    let code = call.u32(1);
    if call.arg(0) != 0 {
        let object = call.object(0)?;
        let thread = thread_of(&object)?;
        if thread.id != call.thread.id {
            // A thread cannot be stopped inside host code; that needs the suspension that is not served yet.
            return Err(Status::NOT_IMPLEMENTED);
        }
    }
    call.next = Some(Outcome::ExitThread(code));
    Ok(Status::SUCCESS)
}

pub(super) fn suspend_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let thread = thread_of(&object)?;
    let running = thread.suspended.load(Ordering::SeqCst) == 0;
    if running && thread.id != call.thread.id {
        return Err(Status::NOT_IMPLEMENTED);
    }
    let before = thread.suspend()?;
    call.memory().put_optional(call.arg(1), before)?;
    Ok(Status::SUCCESS)
}

pub(super) fn resume_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let before = match &object.body {
        crate::object::Body::ChildThread(child) => child.resume(),
        _ => thread_of(&object)?.resume(),
    };
    call.memory().put_optional(call.arg(1), before)?;
    Ok(Status::SUCCESS)
}

pub(super) fn alert_resume_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let thread = thread_of(&object)?;
    call.process.dispatcher.alert(thread.id);
    let before = thread.resume();
    call.memory().put_optional(call.arg(1), before)?;
    Ok(Status::SUCCESS)
}

pub(super) fn queue_apc_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let thread = thread_of(&object)?;
    if sync_of(&object).is_ok() && thread.exit_code() != STILL_ACTIVE {
        return Err(Status::UNSUCCESSFUL);
    }
    let apc = Apc {
        routine: call.arg(1),
        arguments: [call.arg(2), call.arg(3), call.arg(4)],
    };
    call.process.dispatcher.queue_apc(thread.id, apc);
    Ok(Status::SUCCESS)
}

/// Ends an alertable service: when an APC waits, the program runs it first and finds `status` in `rax` afterwards.
pub(super) fn deliver_apc(call: &mut Call<'_>, status: Status) -> ServiceResult {
    let Some(apc) = call.process.dispatcher.next_apc(call.thread.id) else {
        return Ok(status);
    };
    let Some(entry) = call.process.entry_points.get().filter(|entry| entry.apc != 0) else {
        return Ok(status);
    };
    let rip: u64 = call.memory().get(call.frame.rsp)?;
    let after = call.frame.context(rip, status.0.into());
    let begin = call
        .process
        .flavor
        .apc_context(call.memory(), &apc, &after, call.frame, entry.apc)?;
    call.next = Some(Outcome::Resume(begin));
    Ok(status)
}

pub(super) fn test_alert(call: &mut Call<'_>) -> ServiceResult {
    let status = if call.process.dispatcher.test_alert(call.thread.id) {
        Status::ALERTED
    } else {
        Status::SUCCESS
    };
    deliver_apc(call, status)
}

/// The caller's registers with the parts of the program's context at `address` on top.
fn merged_context(call: &Call<'_>, address: u64) -> Result<Context, Status> {
    let wanted: Context = call.memory().get(address)?;
    let rip: u64 = call.memory().get(call.frame.rsp)?;
    let mut context = call.frame.context(rip, 0);
    context.merge(&wanted);
    Ok(context)
}

pub(super) fn continue_thread(call: &mut Call<'_>) -> ServiceResult {
    let context = merged_context(call, call.arg(0))?;
    // NtContinue(context, TRUE) takes an alert; with NtContinueEx, small numbers are that flag and others an argument block.
    let alert = call.arg(1) & 0xff;
    if call.arg(1) < 0x1_0000 && alert != 0 {
        let _ = call.process.dispatcher.test_alert(call.thread.id);
        if let Some(apc) = call.process.dispatcher.next_apc(call.thread.id)
            && let Some(entry) = call.process.entry_points.get().filter(|entry| entry.apc != 0)
        {
            let begin = call
                .process
                .flavor
                .apc_context(call.memory(), &apc, &context, call.frame, entry.apc)?;
            call.next = Some(Outcome::Resume(begin));
            return Ok(Status::SUCCESS);
        }
    }
    call.next = Some(Outcome::Resume(context));
    Ok(Status::SUCCESS)
}

pub(super) fn raise_exception(call: &mut Call<'_>) -> ServiceResult {
    let record: ExceptionRecord = call.memory().get(call.arg(0))?;
    let context: Context = call.memory().get(call.arg(1))?;
    let first_chance = call.bool(2);
    let entry = call
        .process
        .entry_points
        .get()
        .map(|entry| entry.exception)
        .filter(|entry| *entry != 0);
    let (true, Some(entry)) = (first_chance, entry) else {
        call.process.log.line(&format!(
            "unhandled exception {:#010x} at {}, parameters {:#x} {:#x}",
            record.code,
            call.process.describe_address(record.address),
            record.parameters[0],
            record.parameters[1]
        ));
        super::process::end_process(call, record.code);
        return Ok(Status::SUCCESS);
    };
    let rsp = ExceptionFrame::address_below(context.rsp);
    let mut begin = merged_context(call, call.arg(1))?;
    call.memory().put(rsp, ExceptionFrame::new(context, record))?;
    (begin.rsp, begin.rip) = (rsp, entry);
    call.next = Some(Outcome::Resume(begin));
    Ok(Status::SUCCESS)
}

pub(super) fn get_context_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    if thread_of(&object)?.id != call.thread.id {
        return Err(Status::NOT_IMPLEMENTED);
    }
    let at = call.arg(1);
    let flags: u32 = call.memory().get(at + 0x30)?;
    let rip: u64 = call.memory().get(call.frame.rsp)?;
    let mut own = call.frame.context(rip, 0);
    own.flags = flags & ContextFlags::ALL;
    let mut answer: Context = call.memory().get(at)?;
    answer.merge(&own);
    if flags & ContextFlags::SEGMENTS != 0 {
        answer.set_segments();
    }
    call.memory().put(at, answer)?;
    Ok(Status::SUCCESS)
}

pub(super) fn set_context_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    if thread_of(&object)?.id != call.thread.id {
        return Err(Status::NOT_IMPLEMENTED);
    }
    let context = merged_context(call, call.arg(1))?;
    call.next = Some(Outcome::Resume(context));
    Ok(Status::SUCCESS)
}

pub(super) fn set_information_thread(call: &mut Call<'_>) -> ServiceResult {
    match call.u32(1) {
        // Priority, base priority, affinity, zero TLS cell, hide from debugger, name, group affinity, ideal processor and
        // power throttling: taken, without effect on the host. (See SET_CLASSES.)
        class if SET_CLASSES.contains(&class) => {
            thread_of(&*call.object(0)?)?;
            Ok(Status::SUCCESS)
        }
        class => Err(call.unserved_class(class)),
    }
}

/// The classes that `NtSetInformationThread` takes.
pub(super) const SET_CLASSES: &[u32] = &[2, 3, 4, 10, 13, 17, 30, 33, 38, 49, 57];

pub(super) fn open_thread(call: &mut Call<'_>) -> ServiceResult {
    let id: u64 = call.memory().get(call.arg(3) + 8)?;
    let object = u32::try_from(id)
        .ok()
        .and_then(|id| call.process.thread_object(id))
        .ok_or(Status::INVALID_CID)?;
    call.give_handle(0, object, call.u32(1), false)?;
    Ok(Status::SUCCESS)
}

pub(super) fn get_next_thread(call: &mut Call<'_>) -> ServiceResult {
    let after = if call.arg(1) == 0 {
        0
    } else {
        thread_of(&*call.object(1)?)?.id
    };
    let next = call.process.thread_ids().into_iter().find(|id| *id > after);
    let object = next
        .and_then(|id| call.process.thread_object(id))
        .ok_or(Status::NO_MORE_ENTRIES)?;
    call.give_handle(5, object, call.u32(2), false)?;
    Ok(Status::SUCCESS)
}
