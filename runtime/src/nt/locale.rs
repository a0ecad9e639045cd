// SPDX-License-Identifier: GPL-3.0-or-later
//! Locales and NLS files.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::call::{Call, ServiceResult};
use super::memory::{Kind, Place, protect};
use crate::status::Status;
use crate::vdk::{MemoryExt, Sharing};

/// English (United States), until a world says otherwise.
const LCID: u32 = 0x409;

pub(super) fn query_default_locale(call: &mut Call<'_>) -> ServiceResult {
    call.memory().put(call.arg(1), LCID)?;
    Ok(Status::SUCCESS)
}

pub(super) fn query_ui_language(call: &mut Call<'_>) -> ServiceResult {
    call.memory().put(call.arg(0), 0x409u16)?;
    Ok(Status::SUCCESS)
}

/// The file of a section: 9 sorting, 10 case mapping, 11 a code page, 12 a normalization form.
fn file_name(section: u32, id: u32) -> Option<String> {
    Some(match (section, id) {
        (9, _) => "sortdefault.nls".to_owned(),
        (10, _) => "l_intl.nls".to_owned(),
        (11, page) => format!("c_{page:03}.nls"),
        (12, 1) => "normnfc.nls".to_owned(),
        (12, 2) => "normnfd.nls".to_owned(),
        (12, 5) => "normnfkc.nls".to_owned(),
        (12, 6) => "normnfkd.nls".to_owned(),
        (12, 13) => "normidna.nls".to_owned(),
        _ => return None,
    })
}

/// Maps an NLS file of the world read-only; gives its address and size.
fn map_nls(call: &Call<'_>, name: &str) -> Result<(u64, u64), Status> {
    let volume = call.process.drives.get('C').ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    // Sorting tables have a directory of their own.
    let places: [&[&str]; 2] = [
        &["Windows", "System32", name],
        &["Windows", "Globalization", "Sorting", name],
    ];
    let file = places.iter().find_map(|place| volume.open_existing(place));
    let file = file.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let size = file.metadata()?.len();
    if size == 0 {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    let space = &call.process.space;
    let base = space.reserve(Place::Low, size, Kind::Mapped, protect::READONLY, Some(Arc::from(name)))?;
    let mapped = space.map_file(base, size, file.as_fd(), 0, protect::READONLY, Sharing::Private);
    if let Err(status) = mapped {
        let _ = space.unmap(base);
        return Err(status);
    }
    Ok((base, size))
}

pub(super) fn get_nls_section_ptr(call: &mut Call<'_>) -> ServiceResult {
    let name = file_name(call.u32(0), call.u32(1)).ok_or(Status::INVALID_PARAMETER_1)?;
    let (base, size) = map_nls(call, &name)?;
    call.memory().put(call.arg(3), base)?;
    call.memory().put_optional(call.arg(4), size)?;
    Ok(Status::SUCCESS)
}

pub(super) fn initialize_nls_files(call: &mut Call<'_>) -> ServiceResult {
    let (base, _) = map_nls(call, "locale.nls")?;
    call.memory().put(call.arg(0), base)?;
    call.memory().put(call.arg(1), LCID)?;
    Ok(Status::SUCCESS)
}
