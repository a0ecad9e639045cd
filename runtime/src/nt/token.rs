// SPDX-License-Identifier: GPL-3.0-or-later
//! The process's token: one fixed user with an administrator's rights. Access checks are not made yet.

use super::call::{Call, ServiceResult};
use super::strings::ObjectAttributes;
use crate::object::{Body, Object};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// A SID's bytes.
fn sid(authority: u8, parts: &[u32]) -> Vec<u8> {
    // At most 15 parts exist in any SID; these have at most 5.
    let mut bytes = vec![1, u8::try_from(parts.len()).unwrap_or(15), 0, 0, 0, 0, 0, authority];
    for part in parts {
        bytes.extend(part.to_le_bytes());
    }
    bytes
}

fn user() -> Vec<u8> {
    sid(5, &[21, 0, 0, 0, 1000])
}

fn administrators() -> Vec<u8> {
    sid(5, &[32, 544])
}

/// A list of SID_AND_ATTRIBUTES at `address`, after `head` bytes of header.
fn sids(address: u64, head: &[u8], entries: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let table = head.len() + 16 * entries.len();
    let mut answer = head.to_vec();
    let mut at = address + table as u64;
    for (sid, attributes) in entries {
        answer.extend(at.to_le_bytes());
        answer.extend(u64::from(*attributes).to_le_bytes());
        at += sid.len() as u64;
    }
    for (sid, _) in entries {
        answer.extend(sid);
    }
    answer
}

/// A pointer to a SID that follows it.
fn pointed(address: u64, sid: &[u8]) -> Vec<u8> {
    let mut answer = (address + 8).to_le_bytes().to_vec();
    answer.extend(sid);
    answer
}

/// The privileges of the token: number, and whether it is on.
const PRIVILEGES: &[(u32, bool)] = &[
    (5, false),
    (8, false),
    (9, false),
    (12, false),
    (17, false),
    (18, false),
    (19, false),
    (20, false),
    (22, false),
    (23, true),
    (25, false),
    (29, true),
    (30, true),
    (33, false),
];

/// What `NtQueryInformationToken` serves.
pub(super) const QUERY_CLASSES: &[u32] = &[1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 15, 18, 20, 21, 23, 24, 25, 26, 27, 29];

pub(super) fn query_information_token(call: &mut Call<'_>) -> ServiceResult {
    const SE_GROUP_ENABLED: u32 = 7;
    const SE_GROUP_INTEGRITY: u32 = 0x60;
    let class = call.u32(1);
    if !QUERY_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    // −4, −5 and −6: the pseudo handles of the process's, the thread's and the effective token.
    if !matches!(call.arg(0).cast_signed(), -6..=-4) && !matches!(call.object(0)?.body, Body::Token) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    let buffer = call.arg(2);
    let number = |value: u32| value.to_le_bytes().to_vec();
    let answer = match class {
        1 => sids(buffer, &[], &[(user(), 0)]),
        2 => {
            let count = 3u64.to_le_bytes();
            let groups = [
                (sid(1, &[0]), SE_GROUP_ENABLED),
                (administrators(), SE_GROUP_ENABLED | 8),
                (sid(5, &[32, 545]), SE_GROUP_ENABLED),
            ];
            sids(buffer, &count, &groups)
        }
        3 => {
            let mut answer = number(u32::try_from(PRIVILEGES.len()).unwrap_or(0));
            for (privilege, on) in PRIVILEGES {
                answer.extend([*privilege, 0, if *on { 3 } else { 0 }].map(u32::to_le_bytes).concat());
            }
            answer
        }
        4 | 5 => pointed(buffer, &administrators()),
        7 => b"vodka\0\0\0".iter().copied().chain([0; 8]).collect(),
        // A primary token (8); impersonation level (9) is only for others.
        8 => number(1),
        9 => return Err(Status::INVALID_PARAMETER),
        10 => {
            // TOKEN_STATISTICS: ids, expiration, type, level, charges, counts, modified id.
            let mut answer = [1u64, 0x3e7, u64::MAX >> 1].map(u64::to_le_bytes).concat();
            answer.extend(
                [1u32, 0, 4096, 4096, 3, u32::try_from(PRIVILEGES.len()).unwrap_or(0)]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
            answer.extend(1u64.to_le_bytes());
            answer
        }
        // Session 1, elevation type default, elevated, no restrictions, no virtualization, UI access off, no AppContainer.
        12 | 18 | 20 => number(1),
        15 | 21 | 23 | 24 | 26 | 29 => number(0),
        25 => sids(buffer, &[], &[(sid(16, &[0x3000]), SE_GROUP_INTEGRITY)]),
        _ => number(1),
    };
    call.answer_or(2, Some(4), &answer, Status::BUFFER_TOO_SMALL)
}

fn give_token(call: &Call<'_>, out: usize, access: usize, inherit: bool) -> ServiceResult {
    let object = Object::new(&call.process.dispatcher, Body::Token, None);
    call.give_handle(out, object, call.u32(access), inherit)?;
    Ok(Status::SUCCESS)
}

fn check_process(call: &Call<'_>) -> Result<(), Status> {
    match &call.object(0)?.body {
        Body::Process(_) => Ok(()),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

pub(super) fn open_process_token(call: &mut Call<'_>) -> ServiceResult {
    check_process(call)?;
    give_token(call, 2, 1, false)
}

pub(super) fn open_process_token_ex(call: &mut Call<'_>) -> ServiceResult {
    check_process(call)?;
    let inherit = call.u32(2) & ObjectAttributes::INHERIT != 0;
    give_token(call, 3, 1, inherit)
}

/// No thread impersonates anybody.
pub(super) fn open_thread_token(call: &mut Call<'_>) -> ServiceResult {
    super::call::thread_of(&*call.object(0)?)?;
    Err(Status::NO_TOKEN)
}

pub(super) fn duplicate_token(call: &mut Call<'_>) -> ServiceResult {
    if !matches!(call.object(0)?.body, Body::Token) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    let attributes = ObjectAttributes::of(call, 2)?;
    give_token(call, 5, 1, attributes.inherit())
}

/// Every privilege that is asked for counts as granted already; no state is kept.
pub(super) fn adjust_privileges_token(call: &mut Call<'_>) -> ServiceResult {
    if !matches!(call.object(0)?.body, Body::Token) {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    if call.arg(5) != 0 {
        call.memory().put(call.arg(5), 4u32)?;
        if call.arg(4) != 0 && call.u32(3) >= 4 {
            call.memory().put(call.arg(4), 0u32)?;
        }
    }
    Ok(Status::SUCCESS)
}
