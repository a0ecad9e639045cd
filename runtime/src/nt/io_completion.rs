// SPDX-License-Identifier: GPL-3.0-or-later
//! I/O completion ports.

use std::collections::VecDeque;

use super::call::{Call, ServiceResult, sync_of};
use super::thread::deliver_apc;
use crate::object::{Body, Packet, Sync};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// The most packets that one call removes.
const MAX_PACKETS: u32 = 0x1_0000;

pub(super) fn create_io_completion(call: &mut Call<'_>) -> ServiceResult {
    super::synchronization::create(
        call,
        || Body::IoCompletion,
        Sync::Port {
            packets: VecDeque::new(),
        },
    )
}

pub(super) fn set_io_completion(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let packet = Packet {
        key: call.arg(1),
        value: call.arg(2),
        status: Status(call.u32(3)),
        information: call.arg(4),
    };
    call.process.dispatcher.post(sync_of(&object)?, packet)?;
    Ok(Status::SUCCESS)
}

pub(super) fn remove_io_completion(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let timeout = call.timeout(call.arg(4))?;
    let (thread, clock) = (call.thread.id, &*call.process.host.clock);
    let packets = call
        .process
        .dispatcher
        .remove(thread, sync_of(&object)?, 1, timeout, false, clock);
    match packets {
        Ok(packets) => {
            let packet = packets.first().ok_or(Status::INTERNAL_ERROR)?;
            let memory = call.memory();
            memory.put(call.arg(1), packet.key)?;
            memory.put(call.arg(2), packet.value)?;
            memory.put(call.arg(3), [u64::from(packet.status.0), packet.information])?;
            Ok(Status::SUCCESS)
        }
        Err(status) => Ok(status),
    }
}

pub(super) fn remove_io_completion_ex(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    let most = call.u32(2);
    if most == 0 || most > MAX_PACKETS {
        return Err(Status::INVALID_PARAMETER);
    }
    let timeout = call.timeout(call.arg(4))?;
    let (thread, alertable, clock) = (call.thread.id, call.bool(5), &*call.process.host.clock);
    let packets = call
        .process
        .dispatcher
        .remove(thread, sync_of(&object)?, most as usize, timeout, alertable, clock);
    let memory = call.memory();
    match packets {
        Ok(packets) => {
            for (packet, at) in packets.iter().zip(0u64..) {
                let entry = [packet.key, packet.value, packet.status.0.into(), packet.information];
                memory.put(call.arg(1) + 32 * at, entry)?;
            }
            memory.put(call.arg(3), u32::try_from(packets.len()).unwrap_or(0))?;
            Ok(Status::SUCCESS)
        }
        Err(status) => {
            memory.put(call.arg(3), 0u32)?;
            if status == Status::USER_APC {
                deliver_apc(call, status)
            } else {
                Ok(status)
            }
        }
    }
}

pub(super) fn query_io_completion(call: &mut Call<'_>) -> ServiceResult {
    let object = call.object(0)?;
    if call.u32(1) != 0 {
        return Err(Status::INVALID_INFO_CLASS);
    }
    let depth = call.process.dispatcher.depth(sync_of(&object)?)?;
    call.answer(2, Some(4), &depth.to_le_bytes())
}
