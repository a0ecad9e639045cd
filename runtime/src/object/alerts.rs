// SPDX-License-Identifier: GPL-3.0-or-later
//! What can end a thread's wait besides an object: alerts, alerts by thread id, and user APCs.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::dispatcher::{Apc, Dispatcher, Timeout};
use crate::status::Status;
use crate::vdk::Clock;

impl Dispatcher {
    /// Sleeps until [`Dispatcher::alert_by_id`] is called for `thread`, or was since the last time.
    pub fn wait_for_alert(&self, thread: u32, timeout: Timeout, clock: &dyn Clock) -> Status {
        let mut inner = self.lock();
        loop {
            let state = inner.threads.entry(thread).or_default();
            if std::mem::take(&mut state.alerted_by_id) {
                return Status::ALERTED;
            }
            let woken = Arc::clone(state.woken.get_or_insert_with(Arc::default));
            inner = match timeout {
                Timeout::Poll => return Status::TIMEOUT,
                Timeout::Forever => woken.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Timeout::Until(at) => {
                    let left = at.saturating_sub(clock.monotonic_time());
                    if left == 0 {
                        return Status::TIMEOUT;
                    }
                    let left = Duration::from_nanos(left.saturating_mul(100));
                    woken
                        .wait_timeout(inner, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Ends the `NtWaitForAlertByThreadId` of a thread, now or the next one.
    pub fn alert_by_id(&self, thread: u32) {
        let mut inner = self.lock();
        let state = inner.threads.entry(thread).or_default();
        state.alerted_by_id = true;
        if let Some(woken) = &state.woken {
            woken.notify_one();
        }
    }

    /// Ends an alertable wait of `thread`, now or the next one.
    pub fn alert(&self, thread: u32) {
        let mut inner = self.lock();
        inner.threads.entry(thread).or_default().alerted = true;
        inner.wake_alertable(thread);
    }

    /// Takes an alert that has come, without waiting.
    #[must_use]
    pub fn test_alert(&self, thread: u32) -> bool {
        let mut inner = self.lock();
        inner
            .threads
            .get_mut(&thread)
            .is_some_and(|state| std::mem::take(&mut state.alerted))
    }

    /// Queues an APC to `thread`.
    pub fn queue_apc(&self, thread: u32, apc: Apc) {
        let mut inner = self.lock();
        inner.threads.entry(thread).or_default().apcs.push_back(apc);
        inner.wake_alertable(thread);
    }

    /// The next APC of `thread`.
    #[must_use]
    pub fn next_apc(&self, thread: u32) -> Option<Apc> {
        self.lock().threads.get_mut(&thread)?.apcs.pop_front()
    }
}
