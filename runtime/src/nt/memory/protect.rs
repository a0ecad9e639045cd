// SPDX-License-Identifier: GPL-3.0-or-later
//! NT's page protections (`PAGE_*` in winnt.h).

use crate::status::Status;
use crate::vdk::Access;

pub(crate) const NOACCESS: u32 = 0x01;
pub(crate) const READONLY: u32 = 0x02;
pub(crate) const READWRITE: u32 = 0x04;
pub(crate) const WRITECOPY: u32 = 0x08;
pub(crate) const EXECUTE: u32 = 0x10;
pub(crate) const EXECUTE_READ: u32 = 0x20;
pub(crate) const EXECUTE_READWRITE: u32 = 0x40;
pub(crate) const EXECUTE_WRITECOPY: u32 = 0x80;
pub(crate) const GUARD: u32 = 0x100;
/// `PAGE_NOCACHE`, `PAGE_WRITECOMBINE`: accepted, without effect.
const CACHE_BITS: u32 = 0x600;
/// `PAGE_TARGETS_INVALID`: accepted, as there is no control-flow guard.
const TARGETS_INVALID: u32 = 0x4000_0000;

/// Checks a protection and drops the bits without effect.
pub(crate) fn check(protection: u32) -> Result<u32, Status> {
    let plain = protection & !(CACHE_BITS | TARGETS_INVALID);
    let base = plain & 0xff;
    if base.is_power_of_two() && plain & !(0xff | GUARD) == 0 && (base != NOACCESS || plain & GUARD == 0) {
        Ok(plain)
    } else {
        Err(Status::INVALID_PAGE_PROTECTION)
    }
}

/// What the host must allow for a committed page.
pub(crate) fn access(protection: u32) -> Access {
    if protection & GUARD != 0 {
        return Access::None;
    }
    match protection & 0xff {
        READONLY => Access::Read,
        READWRITE | WRITECOPY => Access::Write,
        EXECUTE | EXECUTE_READ => Access::Execute,
        EXECUTE_READWRITE | EXECUTE_WRITECOPY => Access::WriteExecute,
        _ => Access::None,
    }
}
