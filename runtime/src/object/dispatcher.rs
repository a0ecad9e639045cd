// SPDX-License-Identifier: GPL-3.0-or-later
//! Waiting: events, semaphores, mutants, timers, and whatever else can be signalled.
//!
//! As in NT there is one dispatcher lock, and a signal is handed over: whoever signals an object consumes it on behalf of
//! the first waiter that it satisfies, so wait-all is exact and no wake-up is lost. A waiter sleeps on a condition of its
//! own, so nobody wakes for nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ports::Packet;
use crate::status::Status;
use crate::vdk::Clock;

/// The wait state of an object.
#[derive(Debug, Clone)]
pub enum Sync {
    /// An event; also a thread, a process or a file (manual, signalled when over).
    Event {
        /// A notification event: stays set.
        manual: bool,
        /// Set.
        signalled: bool,
    },
    /// A semaphore.
    Semaphore {
        /// How many waits it will still satisfy.
        count: i32,
        /// The most it may hold.
        limit: i32,
    },
    /// A mutant.
    Mutant {
        /// The owning thread and how often it owns it.
        owner: Option<(u32, u32)>,
        /// The last owner ended without releasing it.
        abandoned: bool,
    },
    /// A timer.
    Timer {
        /// Stays set.
        manual: bool,
        /// Set.
        signalled: bool,
        /// When it fires next, on the monotonic clock.
        due: Option<u64>,
        /// How long after that again, in 100 ns; 0 for never.
        period: u64,
    },
    /// An I/O completion port.
    Port {
        /// What waits to be removed.
        packets: VecDeque<Packet>,
    },
    /// A keyed event.
    Keyed,
}

/// A wait state's name: a slot, and which of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncId {
    slot: u32,
    generation: u32,
}

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Poll,
    /// Until the monotonic clock shows this.
    Until(u64),
    /// As long as it takes.
    Forever,
}

/// A user APC: the routine of ntdll that takes it, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apc {
    /// What `KiUserApcDispatcher` calls.
    pub routine: u64,
    /// Its three arguments.
    pub arguments: [u64; 3],
}

struct Slot {
    generation: u32,
    state: Option<Sync>,
    /// Waits registered here, oldest first.
    waiters: VecDeque<u64>,
}

struct Wait {
    thread: u32,
    ids: Vec<SyncId>,
    all: bool,
    result: Option<Status>,
    /// For keyed events: the key, and whether this side releases.
    key: Option<(u64, bool)>,
    woken: Arc<Condvar>,
}

#[derive(Default)]
pub(super) struct ThreadState {
    pub(super) apcs: VecDeque<Apc>,
    pub(super) alerted: bool,
    pub(super) alerted_by_id: bool,
    /// The wait that an APC or alert may end.
    alertable_wait: Option<u64>,
    pub(super) woken: Option<Arc<Condvar>>,
}

#[derive(Default)]
pub(super) struct Inner {
    slots: Vec<Slot>,
    free: Vec<u32>,
    waits: HashMap<u64, Wait>,
    next_wait: u64,
    pub(super) threads: HashMap<u32, ThreadState>,
}

/// The dispatcher of a process.
#[derive(Default)]
pub struct Dispatcher {
    inner: Mutex<Inner>,
}

impl Inner {
    pub(super) fn state(&mut self, id: SyncId) -> Result<&mut Sync, Status> {
        let slot = self
            .slots
            .get_mut(id.slot as usize)
            .filter(|slot| slot.generation == id.generation);
        slot.and_then(|slot| slot.state.as_mut()).ok_or(Status::INVALID_HANDLE)
    }

    /// Whether `thread` could take the object now.
    fn ready(&self, id: SyncId, thread: u32) -> bool {
        let Some(slot) = self
            .slots
            .get(id.slot as usize)
            .filter(|slot| slot.generation == id.generation)
        else {
            return false;
        };
        match &slot.state {
            Some(Sync::Event { signalled, .. } | Sync::Timer { signalled, .. }) => *signalled,
            Some(Sync::Semaphore { count, .. }) => *count > 0,
            Some(Sync::Mutant { owner, .. }) => owner.is_none_or(|(tid, _)| tid == thread),
            Some(Sync::Port { packets }) => !packets.is_empty(),
            Some(Sync::Keyed) | None => false,
        }
    }

    /// Takes a ready object; whether it was an abandoned mutant.
    fn take(&mut self, id: SyncId, thread: u32) -> bool {
        match self.state(id) {
            Ok(Sync::Event { manual, signalled } | Sync::Timer { manual, signalled, .. }) => {
                *signalled = *manual;
                false
            }
            Ok(Sync::Semaphore { count, .. }) => {
                *count -= 1;
                false
            }
            Ok(Sync::Mutant { owner, abandoned }) => {
                *owner = Some((thread, owner.map_or(0, |(_, depth)| depth) + 1));
                std::mem::take(abandoned)
            }
            Ok(Sync::Port { .. } | Sync::Keyed) | Err(_) => false,
        }
    }

    /// Takes what the wait asks for, when it can be had.
    fn satisfy(&mut self, thread: u32, ids: &[SyncId], all: bool) -> Option<Status> {
        if all {
            if ids.is_empty() || !ids.iter().all(|id| self.ready(*id, thread)) {
                return None;
            }
            let mut abandoned = false;
            for id in ids {
                abandoned |= self.take(*id, thread);
            }
            return Some(if abandoned {
                Status::ABANDONED_WAIT_0
            } else {
                Status::SUCCESS
            });
        }
        let index = ids.iter().position(|id| self.ready(*id, thread))?;
        let base = if self.take(ids[index], thread) {
            Status::ABANDONED_WAIT_0.0
        } else {
            0
        };
        // At most 64 objects.
        Some(Status(base + u32::try_from(index).unwrap_or(0)))
    }

    /// Hands a signalled object over to those who wait for it.
    pub(super) fn pump(&mut self, id: SyncId) {
        let Some(slot) = self.slots.get(id.slot as usize) else {
            return;
        };
        for number in slot.waiters.clone() {
            let Some(wait) = self.waits.get(&number) else { continue };
            let (thread, ids, all) = (wait.thread, wait.ids.clone(), wait.all);
            if !self.ready(id, thread) {
                // A mutant may be ready for its owner only.
                continue;
            }
            if let Some(result) = self.satisfy(thread, &ids, all) {
                self.finish(number, result);
            }
        }
    }

    fn finish(&mut self, number: u64, result: Status) {
        if let Some(wait) = self.waits.get_mut(&number) {
            wait.result = Some(result);
            wait.woken.notify_one();
            let ids = std::mem::take(&mut wait.ids);
            self.leave(number, &ids);
        }
    }

    fn leave(&mut self, number: u64, ids: &[SyncId]) {
        for id in ids {
            if let Some(slot) = self.slots.get_mut(id.slot as usize) {
                slot.waiters.retain(|waiter| *waiter != number);
            }
        }
    }

    /// Fires the timers among `ids` that are due; when the next of them is.
    fn fire_timers(&mut self, ids: &[SyncId], now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        for id in ids {
            let mut fired = false;
            if let Ok(Sync::Timer {
                signalled, due, period, ..
            }) = self.state(*id)
            {
                if let Some(at) = *due
                    && at <= now
                {
                    *signalled = true;
                    fired = true;
                    *due = (*period > 0).then(|| now - (now - at) % *period + *period);
                }
                next = match (*due, next) {
                    (Some(due), Some(next)) => Some(due.min(next)),
                    (due, next) => due.or(next),
                };
            }
            if fired {
                self.pump(*id);
            }
        }
        next
    }

    fn interrupted(&mut self, thread: u32) -> Option<Status> {
        let state = self.threads.get_mut(&thread)?;
        if std::mem::take(&mut state.alerted) {
            return Some(Status::ALERTED);
        }
        (!state.apcs.is_empty()).then_some(Status::USER_APC)
    }
}

impl Dispatcher {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new wait state.
    #[must_use]
    pub fn create(&self, state: Sync) -> SyncId {
        let mut inner = self.lock();
        if let Some(slot) = inner.free.pop() {
            let entry = &mut inner.slots[slot as usize];
            entry.state = Some(state);
            return SyncId {
                slot,
                generation: entry.generation,
            };
        }
        let slot = u32::try_from(inner.slots.len()).unwrap_or(u32::MAX);
        inner.slots.push(Slot {
            generation: 0,
            state: Some(state),
            waiters: VecDeque::new(),
        });
        SyncId { slot, generation: 0 }
    }

    /// Ends a wait state whose last handle is gone.
    pub(super) fn free(&self, id: SyncId) {
        let mut inner = self.lock();
        if let Some(slot) = inner.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
        {
            slot.state = None;
            slot.waiters.clear();
            slot.generation = slot.generation.wrapping_add(1);
            inner.free.push(id.slot);
        }
    }

    /// Looks at and changes a wait state under the lock, then hands it over to waiters.
    ///
    /// # Errors
    /// What `change` gives; `INVALID_HANDLE` for a state that is gone.
    pub fn update<R>(&self, id: SyncId, change: impl FnOnce(&mut Sync) -> Result<R, Status>) -> Result<R, Status> {
        let mut inner = self.lock();
        let result = change(inner.state(id)?)?;
        inner.pump(id);
        Ok(result)
    }

    /// Sets an event; gives whether it was set.
    ///
    /// # Errors
    /// `OBJECT_TYPE_MISMATCH` when it is none.
    pub fn set_event(&self, id: SyncId) -> Result<bool, Status> {
        self.update(id, |state| match state {
            Sync::Event { signalled, .. } => Ok(std::mem::replace(signalled, true)),
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        })
    }

    /// Clears an event; gives whether it was set.
    ///
    /// # Errors
    /// `OBJECT_TYPE_MISMATCH` when it is none.
    pub fn reset_event(&self, id: SyncId) -> Result<bool, Status> {
        self.update(id, |state| match state {
            Sync::Event { signalled, .. } => Ok(std::mem::replace(signalled, false)),
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        })
    }

    /// Sets an event for those who wait now, then clears it.
    ///
    /// # Errors
    /// `OBJECT_TYPE_MISMATCH` when it is none.
    pub fn pulse_event(&self, id: SyncId) -> Result<bool, Status> {
        let mut inner = self.lock();
        let Sync::Event { signalled, .. } = inner.state(id)? else {
            return Err(Status::OBJECT_TYPE_MISMATCH);
        };
        let before = std::mem::replace(signalled, true);
        inner.pump(id);
        if let Ok(Sync::Event { signalled, .. }) = inner.state(id) {
            *signalled = false;
        }
        Ok(before)
    }

    /// Releases a mutant that `thread` owns; gives NT's previous count (1 minus the depth).
    ///
    /// # Errors
    /// `MUTANT_NOT_OWNED`.
    pub fn release_mutant(&self, id: SyncId, thread: u32) -> Result<i32, Status> {
        self.update(id, |state| match state {
            Sync::Mutant {
                owner: owner @ Some(_), ..
            } => {
                let (tid, depth) = owner.unwrap_or_default();
                if tid != thread {
                    return Err(Status::MUTANT_NOT_OWNED);
                }
                *owner = (depth > 1).then_some((tid, depth - 1));
                Ok(1i32.wrapping_sub_unsigned(depth))
            }
            Sync::Mutant { .. } => Err(Status::MUTANT_NOT_OWNED),
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        })
    }

    /// A timer's state, after it fired if it was due.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn peek(&self, id: SyncId, clock: &dyn Clock) -> Result<Sync, Status> {
        let mut inner = self.lock();
        inner.fire_timers(&[id], clock.monotonic_time());
        inner.state(id).cloned()
    }

    /// Waits for one or all of `ids` on behalf of `thread`.
    pub fn wait(
        &self,
        thread: u32,
        ids: &[SyncId],
        all: bool,
        timeout: Timeout,
        alertable: bool,
        clock: &dyn Clock,
    ) -> Status {
        let mut inner = self.lock();
        let mut next_timer = inner.fire_timers(ids, clock.monotonic_time());
        if alertable && let Some(status) = inner.interrupted(thread) {
            return status;
        }
        if let Some(result) = inner.satisfy(thread, ids, all) {
            return result;
        }
        if timeout == Timeout::Poll {
            return Status::TIMEOUT;
        }
        let number = inner.register(thread, ids, all, None, alertable);
        loop {
            inner = Self::sleep(inner, number, timeout, next_timer, clock);
            if let Some(result) = inner.waits.get(&number).and_then(|wait| wait.result) {
                return inner.done(number, result);
            }
            if alertable && let Some(status) = inner.interrupted(thread) {
                return inner.done(number, status);
            }
            let now = clock.monotonic_time();
            next_timer = inner.fire_timers(ids, now);
            if let Some(result) = inner.waits.get(&number).and_then(|wait| wait.result) {
                return inner.done(number, result);
            }
            if matches!(timeout, Timeout::Until(deadline) if deadline <= now) {
                return inner.done(number, Status::TIMEOUT);
            }
        }
    }

    fn sleep<'a>(
        inner: MutexGuard<'a, Inner>,
        number: u64,
        timeout: Timeout,
        next_timer: Option<u64>,
        clock: &dyn Clock,
    ) -> MutexGuard<'a, Inner> {
        let Some(woken) = inner.waits.get(&number).map(|wait| Arc::clone(&wait.woken)) else {
            return inner;
        };
        let deadline = match (timeout, next_timer) {
            (Timeout::Until(a), Some(b)) => Some(a.min(b)),
            (Timeout::Until(at), None) | (Timeout::Forever | Timeout::Poll, Some(at)) => Some(at),
            (Timeout::Forever | Timeout::Poll, None) => None,
        };
        match deadline {
            None => woken.wait(inner).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let left = at.saturating_sub(clock.monotonic_time());
                let left = Duration::from_nanos(left.saturating_mul(100));
                woken
                    .wait_timeout(inner, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        }
    }

    /// Waits at or releases a keyed event: each side meets one of the other.
    #[allow(clippy::too_many_arguments, reason = "they are the service's own")]
    pub fn keyed(
        &self,
        thread: u32,
        id: SyncId,
        key: u64,
        release: bool,
        timeout: Timeout,
        alertable: bool,
        clock: &dyn Clock,
    ) -> Status {
        let mut inner = self.lock();
        let partner = inner.waits.iter().filter(|(_, wait)| {
            wait.result.is_none() && wait.key == Some((key, !release)) && wait.ids.first() == Some(&id)
        });
        if let Some(number) = partner.map(|(number, _)| *number).min() {
            inner.finish(number, Status::SUCCESS);
            return Status::SUCCESS;
        }
        if timeout == Timeout::Poll {
            return Status::TIMEOUT;
        }
        let number = inner.register(thread, &[id], false, Some((key, release)), alertable);
        loop {
            inner = Self::sleep(inner, number, timeout, None, clock);
            if let Some(result) = inner.waits.get(&number).and_then(|wait| wait.result) {
                return inner.done(number, result);
            }
            if alertable && let Some(status) = inner.interrupted(thread) {
                return inner.done(number, status);
            }
            if matches!(timeout, Timeout::Until(deadline) if deadline <= clock.monotonic_time()) {
                return inner.done(number, Status::TIMEOUT);
            }
        }
    }

    /// A thread ended: its mutants are abandoned, its APCs dropped.
    pub fn thread_ended(&self, thread: u32) {
        let mut inner = self.lock();
        inner.threads.remove(&thread);
        let mut abandoned_ids = Vec::new();
        for (index, slot) in inner.slots.iter_mut().enumerate() {
            if let Some(Sync::Mutant { owner, abandoned }) = &mut slot.state
                && owner.is_some_and(|(tid, _)| tid == thread)
            {
                (*owner, *abandoned) = (None, true);
                abandoned_ids.push(SyncId {
                    slot: u32::try_from(index).unwrap_or(u32::MAX),
                    generation: slot.generation,
                });
            }
        }
        for id in abandoned_ids {
            inner.pump(id);
        }
    }
}

impl Inner {
    fn register(&mut self, thread: u32, ids: &[SyncId], all: bool, key: Option<(u64, bool)>, alertable: bool) -> u64 {
        self.next_wait += 1;
        let number = self.next_wait;
        for id in ids {
            if let Some(slot) = self.slots.get_mut(id.slot as usize) {
                slot.waiters.push_back(number);
            }
        }
        self.waits.insert(
            number,
            Wait {
                thread,
                ids: ids.to_vec(),
                all,
                result: None,
                key,
                woken: Arc::default(),
            },
        );
        if alertable {
            self.threads.entry(thread).or_default().alertable_wait = Some(number);
        }
        number
    }

    fn done(&mut self, number: u64, result: Status) -> Status {
        if let Some(wait) = self.waits.remove(&number) {
            self.leave(number, &wait.ids);
            if let Some(state) = self.threads.get_mut(&wait.thread) {
                state.alertable_wait = None;
            }
        }
        result
    }

    pub(super) fn wake_alertable(&mut self, thread: u32) {
        let number = self.threads.get(&thread).and_then(|state| state.alertable_wait);
        if let Some(wait) = number.and_then(|number| self.waits.get(&number)) {
            wait.woken.notify_one();
        }
    }
}

impl Dispatcher {
    /// Lets everyone who waits for `id` look again (after a timer was set anew).
    pub fn wake_waiters(&self, id: SyncId) {
        let inner = self.lock();
        let Some(slot) = inner.slots.get(id.slot as usize) else {
            return;
        };
        for wait in slot.waiters.iter().filter_map(|number| inner.waits.get(number)) {
            wait.woken.notify_one();
        }
    }

    /// How many wait for `id` now.
    #[must_use]
    pub fn waiters(&self, id: SyncId) -> usize {
        self.lock()
            .slots
            .get(id.slot as usize)
            .map_or(0, |slot| slot.waiters.len())
    }
}
