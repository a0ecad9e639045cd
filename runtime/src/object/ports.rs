// SPDX-License-Identifier: GPL-3.0-or-later
//! I/O completion ports.

use super::dispatcher::{Dispatcher, Sync, SyncId, Timeout};
use crate::status::Status;
use crate::vdk::Clock;

/// One completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The file's key.
    pub key: u64,
    /// The operation's own value.
    pub value: u64,
    /// Its result.
    pub status: Status,
    /// Its `Information`.
    pub information: u64,
}

impl Dispatcher {
    /// Adds a completion to a port.
    ///
    /// # Errors
    /// `OBJECT_TYPE_MISMATCH` when it is none.
    pub fn post(&self, port: SyncId, packet: Packet) -> Result<(), Status> {
        self.update(port, |state| match state {
            Sync::Port { packets } => {
                packets.push_back(packet);
                Ok(())
            }
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        })
    }

    /// Removes up to `most` completions from a port, waiting for the first.
    ///
    /// # Errors
    /// `TIMEOUT`, `USER_APC`, `ALERTED` or `OBJECT_TYPE_MISMATCH`, as the wait ended.
    pub fn remove(
        &self,
        thread: u32,
        port: SyncId,
        most: usize,
        timeout: Timeout,
        alertable: bool,
        clock: &dyn Clock,
    ) -> Result<Vec<Packet>, Status> {
        loop {
            {
                let mut inner = self.lock();
                let Sync::Port { packets } = inner.state(port)? else {
                    return Err(Status::OBJECT_TYPE_MISMATCH);
                };
                if !packets.is_empty() {
                    let count = packets.len().min(most.max(1));
                    return Ok(packets.drain(..count).collect());
                }
            }
            match self.wait(thread, &[port], false, timeout, alertable, clock) {
                // Somebody else may have been quicker: look again.
                Status::SUCCESS => {}
                other => return Err(other),
            }
        }
    }

    /// How many completions a port holds.
    ///
    /// # Errors
    /// `OBJECT_TYPE_MISMATCH` when it is none.
    pub fn depth(&self, port: SyncId) -> Result<u32, Status> {
        self.update(port, |state| match state {
            Sync::Port { packets } => Ok(u32::try_from(packets.len()).unwrap_or(u32::MAX)),
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        })
    }
}
