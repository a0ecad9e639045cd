// SPDX-License-Identifier: GPL-3.0-or-later
//! `NtQuerySystemInformation`.

use super::block;
use crate::nt::call::{Call, ServiceResult};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// What is served: basic, processor, performance, time of day, processor times, handles-free boot data, page file, kernel
/// debugger, native basic and processor, time adjustment, time zone, logical processors, boot environment and others.
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[
    0, 1, 2, 3, 8, 21, 23, 28, 35, 44, 50, 55, 62, 63, 73, 90, 102, 103, 114, 123, 149, 1000,
];

fn basic(processors: u32) -> Vec<u8> {
    let mask = u64::MAX >> (64 - processors.clamp(1, 64));
    block(
        64,
        &[
            (4, &156_250u32.to_le_bytes()),
            (8, &4096u32.to_le_bytes()),
            (12, &0x40_0000u32.to_le_bytes()),
            (16, &1u32.to_le_bytes()),
            (20, &0x3f_ffffu32.to_le_bytes()),
            (24, &0x1_0000u32.to_le_bytes()),
            (32, &0x1_0000u64.to_le_bytes()),
            (40, &0x7fff_fffe_ffffu64.to_le_bytes()),
            (48, &mask.to_le_bytes()),
            (56, &[u8::try_from(processors).unwrap_or(64)]),
        ],
    )
}

pub(in crate::nt) fn query_system_information(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(0);
    if !QUERY_CLASSES.contains(&class) || class == 1000 && !call.process.flavor.is_wine() {
        return Err(call.unserved_class(class));
    }
    let host = &call.process.host;
    let processors = host.processors as usize;
    let answer = match class {
        0 | 62 | 114 => {
            // Longer buffers are refused by Windows as well.
            if call.u32(2) != 64 {
                call.memory().put_optional(call.arg(3), 64u32)?;
                return Err(Status::INFO_LENGTH_MISMATCH);
            }
            basic(host.processors)
        }
        // Architecture AMD64, level, revision, maximum processors, feature bits.
        1 | 63 => block(
            12,
            &[
                (0, &9u16.to_le_bytes()),
                (2, &6u16.to_le_bytes()),
                (6, &64u16.to_le_bytes()),
            ],
        ),
        2 => vec![0; 0x158.min(call.u32(2) as usize).max(0x138)],
        3 => {
            let (now, up) = (host.clock.system_time(), host.clock.monotonic_time());
            block(
                48,
                &[(0, &now.saturating_sub(up).to_le_bytes()), (8, &now.to_le_bytes())],
            )
        }
        8 => vec![0; 48 * processors],
        21 => vec![0; 36],
        23 => {
            let mut bytes = vec![0; 24 * processors];
            host.random.fill(&mut bytes);
            bytes
        }
        28 => block(
            12,
            &[
                (0, &156_250u32.to_le_bytes()),
                (4, &156_250u32.to_le_bytes()),
                (8, &[1]),
            ],
        ),
        // No kernel debugger.
        35 => vec![0, 1],
        149 => vec![0; 3],
        // UTC.
        44 => vec![0; 172],
        102 => vec![0; 432],
        50 => 0xffff_8000_0000_0000u64.to_le_bytes().to_vec(),
        55 => numa(host.processors, call.u32(2)),
        73 => (0..processors)
            .flat_map(|number| block(32, &[(0, &(1u64 << number).to_le_bytes())]))
            .collect(),
        // Firmware: UEFI, a fixed identifier.
        90 => block(32, &[(16, &2u32.to_le_bytes())]),
        103 => [8u32, 1].map(u32::to_le_bytes).concat(),
        1000 => call.process.flavor.wine_version().to_vec(),
        _ => vec![0; 32],
    };
    call.answer(1, Some(3), &answer)
}

/// SYSTEM_NUMA_INFORMATION: highest node 0, then one affinity of 16 bytes for each node that the caller has room for.
fn numa(processors: u32, room: u32) -> Vec<u8> {
    let mask = u64::MAX >> (64 - processors.clamp(1, 64));
    let mut answer = vec![0; 8];
    if room >= 24 {
        answer.extend(mask.to_le_bytes());
        answer.extend([0; 8]);
    } else if room == 4 {
        answer.truncate(4);
    }
    answer
}

/// What the extended query serves: logical processors in both forms, and the machine types that run.
pub(in crate::nt) const EX_CLASSES: &[u32] = &[107, 181];

pub(in crate::nt) fn query_system_information_ex(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(0);
    match class {
        107 => {
            const RELATION_GROUP: u32 = 4;
            const RELATION_ALL: u32 = 0xffff;
            let relation: u32 = call.memory().get(call.arg(1))?;
            let processors = call.process.host.processors;
            let mut answer = Vec::new();
            if relation == 0 || relation == RELATION_ALL {
                for number in 0..processors {
                    answer.extend(core(number));
                }
            }
            if relation == 1 || relation == RELATION_ALL {
                answer.extend(node(processors));
            }
            if relation == RELATION_GROUP || relation == RELATION_ALL {
                answer.extend(group(processors));
            }
            call.answer_or(3, Some(5), &answer, Status::INFO_LENGTH_MISMATCH)
        }
        181 => {
            // The machine, in kernel, user and natively; then a 32-bit one that runs nowhere; then the end.
            let answer = [0x0007_8664u32, 0].map(u32::to_le_bytes).concat();
            call.answer_or(3, Some(5), &answer, Status::BUFFER_TOO_SMALL)
        }
        class => Err(call.unserved_class(class)),
    }
}

/// SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX for one core.
fn core(number: u32) -> Vec<u8> {
    let mask = 1u64 << number;
    block(
        48,
        &[
            (0, &0u32.to_le_bytes()),
            (4, &48u32.to_le_bytes()),
            (30, &1u16.to_le_bytes()),
            (32, &mask.to_le_bytes()),
        ],
    )
}

/// The same for the one NUMA node.
fn node(processors: u32) -> Vec<u8> {
    let mask = u64::MAX >> (64 - processors.clamp(1, 64));
    block(
        48,
        &[
            (0, &1u32.to_le_bytes()),
            (4, &48u32.to_le_bytes()),
            (32, &mask.to_le_bytes()),
        ],
    )
}

/// The same for the one processor group.
fn group(processors: u32) -> Vec<u8> {
    let mask = u64::MAX >> (64 - processors.clamp(1, 64));
    let count = [u8::try_from(processors).unwrap_or(64); 2];
    block(
        80,
        &[
            (0, &4u32.to_le_bytes()),
            (4, &80u32.to_le_bytes()),
            (8, &[1, 0, 1, 0]),
            (32, &count),
            (72, &mask.to_le_bytes()),
        ],
    )
}
