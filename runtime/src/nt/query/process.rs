// SPDX-License-Identifier: GPL-3.0-or-later
//! `NtQueryInformationProcess`.

use super::block;
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::counted_string;
use crate::object::Body;
use crate::status::Status;
use crate::vdk::MemoryExt;

/// What is served: basic, I/O counters, VM counters, times, debug port, error mode, hard error, handle count, session,
/// affinity, WoW64, image names, debug object and flags, execute flags, cookie, image information, and group data.
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[
    0, 1, 2, 3, 4, 7, 12, 18, 20, 21, 23, 24, 26, 27, 29, 30, 31, 33, 34, 36, 37, 39, 43, 47, 64,
];

pub(in crate::nt) fn query_information_process(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(1);
    if !QUERY_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    let process = call.process;
    let object = call.object(0)?;
    match &object.body {
        Body::Process(of) => {
            if let Some(child) = of.as_child() {
                // Basic information, and whether it is a 32-bit process; nothing else is known of a child yet.
                let code = child.exit_code().unwrap_or(super::super::thread::STILL_ACTIVE);
                let answer = match class {
                    0 => [u64::from(code), 0, 1, 8, child.id.into(), process.id.into()]
                        .map(u64::to_le_bytes)
                        .concat(),
                    26 => vec![0; 8],
                    _ => return Err(Status::NOT_SUPPORTED),
                };
                return call.answer(2, Some(4), &answer);
            }
        }
        _ => return Err(Status::OBJECT_TYPE_MISMATCH),
    }
    let image = process.image.get();
    let number = |value: u32| value.to_le_bytes().to_vec();
    let mask = u64::MAX >> (64 - process.host.processors.clamp(1, 64));
    let answer = match class {
        0 => {
            // Exit status, PEB, affinity, base priority, id, parent's id.
            let peb = image.map_or(0, |image| image.peb);
            [
                u64::from(super::super::thread::STILL_ACTIVE),
                peb,
                mask,
                8,
                process.id.into(),
                4,
            ]
            .map(u64::to_le_bytes)
            .concat()
        }
        1 => vec![0; 32],
        2 => vec![0; 48],
        3 => vec![0; 88.max((call.u32(3) as usize).min(96))],
        // Creation, exit, kernel and user time. The creation time is the host's answer to "now" minus nothing better.
        4 => block(32, &[(0, &process.host.clock.system_time().to_le_bytes())]),
        7 | 26 => vec![0; 8],
        12 => number(1),
        18 => vec![0, 2],
        20 => number(u32::try_from(process.handles.count()).unwrap_or(u32::MAX)),
        21 => block(8, &[(0, &mask.to_le_bytes())]),
        23 => vec![0; 36],
        24 => number(1),
        29 => number(0),
        // Not being debugged.
        30 => return Err(Status::PORT_NOT_SET),
        31 => number(1),
        33 => number(2),
        34 => number(0x4d),
        36 => number(0x7ff3_c5a1 ^ process.id),
        37 => image
            .map(|image| image.information.clone())
            .ok_or(Status::NOT_SUPPORTED)?,
        39 => number(5),
        47 => {
            call.memory().put_optional(call.arg(4), 2u32)?;
            vec![0; 2]
        }
        64 => number(0),
        _ => {
            let path = image.map_or("", |image| image.path.as_str());
            let path = if class == 27 {
                crate::nt::file::device_path(path)
            } else {
                path.to_owned()
            };
            counted_string(call.arg(2), &path)
        }
    };
    call.answer(2, Some(4), &answer)
}
