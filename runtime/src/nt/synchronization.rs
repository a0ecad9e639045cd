// SPDX-License-Identifier: GPL-3.0-or-later
//! Events, semaphores, mutants, timers, keyed events, and the services that wait for them.

use std::sync::Arc;

use super::call::{Call, ServiceResult, sync_of};
use super::strings::ObjectAttributes;
use super::thread::deliver_apc;
use crate::object::{Body, Object, Sync, SyncId, Timeout};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// Creates an object where argument 0 points, named by argument 2, or opens the one that has the name.
pub(super) fn create(call: &mut Call<'_>, body: fn() -> Body, state: Sync) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let access = call.u32(1);
    let process = call.process;
    let make = || Ok(Object::new(&process.dispatcher, body(), Some(state)));
    let (object, new) = match attributes.full_name(process, call.thread)? {
        None => (make()?, true),
        Some(name) => {
            let (object, new) = process.names.find_or_insert(&name, make)?;
            if std::mem::discriminant(&object.body) != std::mem::discriminant(&body()) {
                return Err(Status::OBJECT_TYPE_MISMATCH);
            }
            if !new && attributes.flags & ObjectAttributes::OPENIF == 0 {
                return Err(Status::OBJECT_NAME_COLLISION);
            }
            (object, new)
        }
    };
    call.give_handle(0, object, access, attributes.inherit())?;
    Ok(if new {
        Status::SUCCESS
    } else {
        Status::OBJECT_NAME_EXISTS
    })
}

/// Opens the named object of this kind.
fn open(call: &mut Call<'_>, body: &Body) -> ServiceResult {
    let attributes = ObjectAttributes::of(call, 2)?;
    let name = attributes
        .full_name(call.process, call.thread)?
        .ok_or(Status::OBJECT_PATH_SYNTAX_BAD)?;
    let object = call.process.names.find(&name).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    if std::mem::discriminant(&object.body) != std::mem::discriminant(body) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    call.give_handle(0, object, call.u32(1), attributes.inherit())?;
    Ok(Status::SUCCESS)
}

pub(super) fn create_event(call: &mut Call<'_>) -> ServiceResult {
    let manual = match call.u32(3) {
        0 => true,
        1 => false,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let state = Sync::Event {
        manual,
        signalled: call.bool(4),
    };
    create(call, || Body::Event, state)
}

pub(super) fn open_event(call: &mut Call<'_>) -> ServiceResult {
    open(call, &Body::Event)
}

fn event(call: &Call<'_>) -> Result<(Arc<Object>, SyncId), Status> {
    let object = call.object(0)?;
    match (&object.body, object.sync) {
        (Body::Event, Some(sync)) => Ok((object, sync)),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

fn give_before(call: &Call<'_>, before: bool) -> ServiceResult {
    call.memory().put_optional(call.arg(1), u32::from(before))?;
    Ok(Status::SUCCESS)
}

pub(super) fn set_event(call: &mut Call<'_>) -> ServiceResult {
    let (_object, sync) = event(call)?;
    give_before(call, call.process.dispatcher.set_event(sync)?)
}

pub(super) fn reset_event(call: &mut Call<'_>) -> ServiceResult {
    let (_object, sync) = event(call)?;
    give_before(call, call.process.dispatcher.reset_event(sync)?)
}

pub(super) fn clear_event(call: &mut Call<'_>) -> ServiceResult {
    let (_object, sync) = event(call)?;
    call.process.dispatcher.reset_event(sync)?;
    Ok(Status::SUCCESS)
}

pub(super) fn pulse_event(call: &mut Call<'_>) -> ServiceResult {
    let (_object, sync) = event(call)?;
    give_before(call, call.process.dispatcher.pulse_event(sync)?)
}

pub(super) fn query_event(call: &mut Call<'_>) -> ServiceResult {
    let (_object, sync) = event(call)?;
    if call.u32(1) != 0 {
        return Err(Status::INVALID_INFO_CLASS);
    }
    if call.u32(3) != 8 {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    match call.process.dispatcher.peek(sync, &*call.process.host.clock)? {
        Sync::Event { manual, signalled } => {
            let answer = [u32::from(!manual), u32::from(signalled)]
                .map(u32::to_le_bytes)
                .concat();
            call.answer(2, Some(4), &answer)
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(super) fn create_semaphore(call: &mut Call<'_>) -> ServiceResult {
    let (count, limit) = (call.i32(3), call.i32(4));
    if limit <= 0 || count < 0 || count > limit {
        return Err(Status::INVALID_PARAMETER);
    }
    create(call, || Body::Semaphore, Sync::Semaphore { count, limit })
}

pub(super) fn open_semaphore(call: &mut Call<'_>) -> ServiceResult {
    open(call, &Body::Semaphore)
}

pub(super) fn release_semaphore(call: &mut Call<'_>) -> ServiceResult {
    let by = call.i32(1);
    let object = call.object(0)?;
    if by <= 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let before = call.process.dispatcher.update(sync_of(&object)?, |state| match state {
        Sync::Semaphore { count, limit } => {
            let after = count
                .checked_add(by)
                .filter(|after| after <= limit)
                .ok_or(Status::SEMAPHORE_LIMIT_EXCEEDED)?;
            Ok(std::mem::replace(count, after))
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })?;
    call.memory().put_optional(call.arg(2), before)?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_semaphore(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    if call.u32(1) != 0 {
        return Err(Status::INVALID_INFO_CLASS);
    }
    if call.u32(3) != 8 {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    match call
        .process
        .dispatcher
        .peek(sync_of(&object)?, &*call.process.host.clock)?
    {
        Sync::Semaphore { count, limit } => call.answer(2, Some(4), &[count, limit].map(i32::to_le_bytes).concat()),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(super) fn create_mutant(call: &mut Call<'_>) -> ServiceResult {
    let owner = call.bool(3).then_some((call.thread.id, 1));
    create(
        call,
        || Body::Mutant,
        Sync::Mutant {
            owner,
            abandoned: false,
        },
    )
}

pub(super) fn open_mutant(call: &mut Call<'_>) -> ServiceResult {
    open(call, &Body::Mutant)
}

pub(super) fn release_mutant(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let before = call
        .process
        .dispatcher
        .release_mutant(sync_of(&object)?, call.thread.id)?;
    call.memory().put_optional(call.arg(1), before)?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_mutant(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    if call.u32(1) != 0 {
        return Err(call.unserved_class(call.u32(1)));
    }
    match call
        .process
        .dispatcher
        .peek(sync_of(&object)?, &*call.process.host.clock)?
    {
        Sync::Mutant { owner, abandoned } => {
            let count = 1i32.wrapping_sub_unsigned(owner.map_or(0, |(_, depth)| depth));
            let mine = owner.is_some_and(|(thread, _)| thread == call.thread.id);
            let mut answer = count.to_le_bytes().to_vec();
            answer.extend([u8::from(mine), u8::from(abandoned), 0, 0]);
            call.answer(2, Some(4), &answer)
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(super) fn create_timer(call: &mut Call<'_>) -> ServiceResult {
    let manual = match call.u32(3) {
        0 => true,
        1 => false,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    create(
        call,
        || Body::Timer,
        Sync::Timer {
            manual,
            signalled: false,
            due: None,
            period: 0,
        },
    )
}

pub(super) fn open_timer(call: &mut Call<'_>) -> ServiceResult {
    open(call, &Body::Timer)
}

pub(super) fn set_timer(call: &mut Call<'_>) -> ServiceResult {
    if call.arg(2) != 0 {
        // A timer with an APC routine.
        return Err(Status::NOT_IMPLEMENTED);
    }
    let now = call.process.host.clock.monotonic_time();
    let at = match call.timeout(call.arg(1))? {
        Timeout::Poll => Some(now),
        Timeout::Until(at) => Some(at),
        Timeout::Forever => None,
    };
    let every = u64::try_from(call.i32(5)).map_err(|_| Status::INVALID_PARAMETER)? * 10_000;
    let object = call.object(0)?;
    let before = call.process.dispatcher.update(sync_of(&object)?, |state| match state {
        Sync::Timer {
            signalled, due, period, ..
        } => {
            let before = *signalled;
            (*signalled, *due, *period) = (false, at, every);
            Ok(before)
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })?;
    call.memory().put_optional(call.arg(6), u8::from(before))?;
    // Those who wait already sleep until their own time: let them look at the new one.
    call.process.dispatcher.wake_waiters(sync_of(&object)?);
    Ok(Status::SUCCESS)
}

pub(super) fn cancel_timer(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let before = call.process.dispatcher.update(sync_of(&object)?, |state| match state {
        Sync::Timer { signalled, due, .. } => {
            *due = None;
            Ok(*signalled)
        }
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    })?;
    call.memory().put_optional(call.arg(1), u8::from(before))?;
    Ok(Status::SUCCESS)
}

pub(super) fn create_keyed_event(call: &mut Call<'_>) -> ServiceResult {
    create(call, || Body::KeyedEvent, Sync::Keyed)
}

pub(super) fn open_keyed_event(call: &mut Call<'_>) -> ServiceResult {
    open(call, &Body::KeyedEvent)
}

fn keyed(call: &mut Call<'_>, release: bool) -> ServiceResult {
    let key = call.arg(1);
    if key & 1 != 0 {
        return Err(Status::INVALID_PARAMETER_1);
    }
    let timeout = call.timeout(call.arg(3))?;
    // A null handle means the system's own keyed event; each process has one of its own here.
    let object = if call.arg(0) == 0 {
        call.process.system_keyed_event()?
    } else {
        call.object(0)?
    };
    if !matches!(object.body, Body::KeyedEvent) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    let (thread, alertable, clock) = (call.thread.id, call.bool(2), &*call.process.host.clock);
    let status = call
        .process
        .dispatcher
        .keyed(thread, sync_of(&object)?, key, release, timeout, alertable, clock);
    if status == Status::USER_APC {
        deliver_apc(call, status)
    } else {
        Ok(status)
    }
}

pub(super) fn wait_for_keyed_event(call: &mut Call<'_>) -> ServiceResult {
    keyed(call, false)
}

pub(super) fn release_keyed_event(call: &mut Call<'_>) -> ServiceResult {
    keyed(call, true)
}

/// What a wait for `object` waits for. A file that has no wait state is always ready.
fn wait(call: &mut Call<'_>, objects: &[Arc<Object>], all: bool, timeout: Timeout, alertable: bool) -> ServiceResult {
    let mut ids = Vec::with_capacity(objects.len());
    for object in objects {
        match object.sync {
            Some(sync) if !matches!(object.body, Body::KeyedEvent) => ids.push(sync),
            _ => return Err(Status::OBJECT_TYPE_MISMATCH),
        }
    }
    let status = call
        .process
        .dispatcher
        .wait(call.thread.id, &ids, all, timeout, alertable, &*call.process.host.clock);
    if status == Status::USER_APC {
        deliver_apc(call, status)
    } else {
        Ok(status)
    }
}

pub(super) fn wait_for_single_object(call: &mut Call<'_>) -> ServiceResult {
    let timeout = call.timeout(call.arg(2))?;
    let object = call.object(0)?;
    let alertable = call.bool(1);
    wait(call, &[object], false, timeout, alertable)
}

pub(super) fn wait_for_multiple_objects(call: &mut Call<'_>) -> ServiceResult {
    const MAXIMUM_WAIT_OBJECTS: u32 = 64;
    let count = call.u32(0);
    if count == 0 || count > MAXIMUM_WAIT_OBJECTS {
        return Err(Status::INVALID_PARAMETER_1);
    }
    let all = match call.u32(2) {
        0 => true,
        1 => false,
        _ => return Err(Status::INVALID_PARAMETER_3),
    };
    let mut objects = Vec::with_capacity(count as usize);
    for index in 0..u64::from(count) {
        let handle: u64 = call.memory().get(call.arg(1) + 8 * index)?;
        objects.push(call.process.object(call.thread, handle)?);
    }
    let timeout = call.timeout(call.arg(4))?;
    let alertable = call.bool(3);
    wait(call, &objects, all, timeout, alertable)
}

pub(super) fn signal_and_wait(call: &mut Call<'_>) -> ServiceResult {
    let (signal, object) = (call.object(0)?, call.object(1)?);
    let timeout = call.timeout(call.arg(3))?;
    let sync = sync_of(&signal)?;
    let (dispatcher, thread) = (&call.process.dispatcher, call.thread.id);
    match signal.body {
        Body::Event => drop(dispatcher.set_event(sync)?),
        Body::Mutant => drop(dispatcher.release_mutant(sync, thread)?),
        Body::Semaphore => dispatcher.update(sync, |state| match state {
            Sync::Semaphore { count, limit } if *count < *limit => {
                *count += 1;
                Ok(())
            }
            _ => Err(Status::SEMAPHORE_LIMIT_EXCEEDED),
        })?,
        _ => return Err(Status::OBJECT_TYPE_MISMATCH),
    }
    let alertable = call.bool(2);
    wait(call, &[object], false, timeout, alertable)
}

pub(super) fn delay_execution(call: &mut Call<'_>) -> ServiceResult {
    let timeout = call.timeout(call.arg(1))?;
    let alertable = call.bool(0);
    if timeout == Timeout::Poll && !alertable {
        std::thread::yield_now();
        return Ok(Status::SUCCESS);
    }
    let status = call.process.dispatcher.wait(
        call.thread.id,
        &[],
        false,
        timeout,
        alertable,
        &*call.process.host.clock,
    );
    match status {
        Status::USER_APC => deliver_apc(call, status),
        Status::TIMEOUT => Ok(Status::SUCCESS),
        other => Ok(other),
    }
}

pub(super) fn yield_execution(_call: &mut Call<'_>) -> ServiceResult {
    std::thread::yield_now();
    Ok(Status::SUCCESS)
}

pub(super) fn wait_for_alert_by_thread_id(call: &mut Call<'_>) -> ServiceResult {
    let timeout = call.timeout(call.arg(1))?;
    Ok(call
        .process
        .dispatcher
        .wait_for_alert(call.thread.id, timeout, &*call.process.host.clock))
}

pub(super) fn alert_thread_by_thread_id(call: &mut Call<'_>) -> ServiceResult {
    let id = call.u32(0);
    call.process.thread_object(id).ok_or(Status::INVALID_CID)?;
    call.process.dispatcher.alert_by_id(id);
    Ok(Status::SUCCESS)
}

pub(super) fn alert_thread(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    call.process.dispatcher.alert(super::call::thread_of(&object)?.id);
    Ok(Status::SUCCESS)
}
