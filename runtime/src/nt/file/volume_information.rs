// SPDX-License-Identifier: GPL-3.0-or-later
//! Volume queries ([MS-FSCC] section 2.5).

use std::os::unix::fs::FileTypeExt;
use std::sync::PoisonError;

use super::Backing;
use super::open::put_io_status;
use super::transfer::{file_object, file_of};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::utf16_bytes;
use crate::status::Status;

/// What is served: volume, size, device, attribute and full-size information.
pub(in crate::nt) const QUERY_CLASSES: &[u32] = &[1, 3, 4, 5, 7];

/// FILE_DEVICE_*.
const DEVICE_DISK: u32 = 7;
const DEVICE_NAMED_PIPE: u32 = 0x11;
const DEVICE_NULL: u32 = 0x15;
const DEVICE_CONSOLE: u32 = 0x50;

pub(in crate::nt) fn query_volume_information_file(call: &mut Call<'_>) -> ServiceResult {
    let class = call.u32(4);
    if !QUERY_CLASSES.contains(&class) {
        return Err(call.unserved_class(class));
    }
    let object = file_object(call)?;
    let file = file_of(&object)?;
    let place = file.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let volume = || {
        place
            .as_ref()
            .map(|(volume, _)| volume)
            .ok_or(Status::INVALID_DEVICE_REQUEST)
    };
    let answer = match class {
        1 => {
            let serial = volume()?.serial();
            // Creation time, serial number, label length, supports objects, padding; no label.
            let mut answer = vec![0; 8];
            answer.extend(serial.to_le_bytes());
            answer.extend([0; 6]);
            answer
        }
        3 | 7 => {
            let (free, total, block) = volume()?.space()?;
            // Windows counts clusters of sectors of 512 bytes.
            let sectors = u32::try_from(block / 512).unwrap_or(8).max(1);
            let mut answer = [total, free].map(u64::to_le_bytes).concat();
            if class == 7 {
                answer.extend(free.to_le_bytes());
            }
            answer.extend([sectors, 512].map(u32::to_le_bytes).concat());
            answer
        }
        4 => {
            let device = match &file.backing {
                Backing::Null => DEVICE_NULL,
                Backing::Stream(host) => {
                    let kind = host.metadata()?.file_type();
                    if rustix::termios::isatty(host) {
                        DEVICE_CONSOLE
                    } else if kind.is_file() || kind.is_dir() {
                        DEVICE_DISK
                    } else if kind.is_char_device() {
                        DEVICE_NULL
                    } else {
                        DEVICE_NAMED_PIPE
                    }
                }
                Backing::Disk(_) | Backing::Directory(_) => DEVICE_DISK,
            };
            [device, 0x2_0000].map(u32::to_le_bytes).concat()
        }
        _ => {
            volume()?;
            // Case-preserving, Unicode, persistent ACLs, hard links, and names of up to 255 units.
            let name = utf16_bytes("NTFS");
            let mut answer = [0x0040_000e_u32, 255, 8].map(u32::to_le_bytes).concat();
            answer.extend(name);
            answer
        }
    };
    let room = call.u32(3) as usize;
    let length = answer.len().min(room);
    let minimum = if class == 5 { 12 } else { answer.len() };
    if room < minimum {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    call.memory().write(call.arg(2), &answer[..length])?;
    let status = if length < answer.len() {
        Status::BUFFER_OVERFLOW
    } else {
        Status::SUCCESS
    };
    put_io_status(call, call.arg(1), status, length as u64)
}
