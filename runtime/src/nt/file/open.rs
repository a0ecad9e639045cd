// SPDX-License-Identifier: GPL-3.0-or-later
//! Opening, creating and deleting files, and asking for attributes by name.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::information::{basic_information, network_open_information};
use super::path::{Target, full_path, resolve};
use super::volume::{Found, Volume};
use super::{Backing, FileObject};
use crate::nt::call::{Call, ServiceResult};
use crate::nt::strings::ObjectAttributes;
use crate::object::{Body, Object, Sync};
use crate::status::Status;
use crate::vdk::MemoryExt;

const DIRECTORY_FILE: u32 = 1;
const SYNCHRONOUS: u32 = 0x30;
const NON_DIRECTORY_FILE: u32 = 0x40;
const DELETE_ON_CLOSE: u32 = 0x1000;
const OPEN_BY_FILE_ID: u32 = 0x2000;

const WRITE_DATA: u32 = 2;
const APPEND_DATA: u32 = 4;
const MAXIMUM_ALLOWED: u32 = 0x200_0000;
const GENERIC_ALL: u32 = 0x1000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;

/// FILE_SUPERSEDE and the other dispositions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disposition {
    Supersede,
    Open,
    Create,
    OpenIf,
    Overwrite,
    OverwriteIf,
}

impl Disposition {
    fn of(value: u32) -> Result<Self, Status> {
        Ok(match value {
            0 => Self::Supersede,
            1 => Self::Open,
            2 => Self::Create,
            3 => Self::OpenIf,
            4 => Self::Overwrite,
            5 => Self::OverwriteIf,
            _ => return Err(Status::INVALID_PARAMETER),
        })
    }

    fn truncates(self) -> bool {
        matches!(self, Self::Supersede | Self::Overwrite | Self::OverwriteIf)
    }
}

/// FILE_SUPERSEDED and the other answers in IO_STATUS_BLOCK.Information.
const SUPERSEDED: u64 = 0;
const OPENED: u64 = 1;
const CREATED: u64 = 2;
const OVERWRITTEN: u64 = 3;

pub(in crate::nt) fn create_file(call: &mut Call<'_>) -> ServiceResult {
    let disposition = Disposition::of(call.u32(7))?;
    open(call, disposition, call.u32(8))
}

pub(in crate::nt) fn open_file(call: &mut Call<'_>) -> ServiceResult {
    open(call, Disposition::Open, call.u32(5))
}

fn open(call: &mut Call<'_>, disposition: Disposition, options: u32) -> ServiceResult {
    let access = call.u32(1);
    let attributes = ObjectAttributes::of(call, 2)?;
    if options & (DIRECTORY_FILE | NON_DIRECTORY_FILE) == DIRECTORY_FILE | NON_DIRECTORY_FILE {
        return Err(Status::INVALID_PARAMETER);
    }
    if options & OPEN_BY_FILE_ID != 0 {
        return Err(Status::NOT_IMPLEMENTED);
    }
    let path = full_path(call, &attributes)?;
    let synchronous = options & SYNCHRONOUS != 0;
    if let Some(connected) = super::pipe::connect(call, &path, options) {
        return give_file(call, connected?, access, OPENED, &attributes);
    }
    let (file, information) = match resolve(call, &path)? {
        Target::Null => (FileObject::new(Backing::Null, path, None, synchronous), OPENED),
        Target::Console(number) => {
            let host = if number == 0 {
                rustix::io::dup(std::io::stdin())?
            } else {
                rustix::io::dup(std::io::stdout())?
            };
            (
                FileObject::new(Backing::Stream(File::from(host)), path, None, synchronous),
                OPENED,
            )
        }
        Target::File { volume, found } => {
            let (backing, information) = open_on_volume(&volume, &found, access, disposition, options)?;
            let mut file = FileObject::new(backing, path, Some((volume, found.path)), synchronous);
            let writes = access & (WRITE_DATA | GENERIC_WRITE | GENERIC_ALL | MAXIMUM_ALLOWED) != 0;
            file.append = access & APPEND_DATA != 0 && !writes;
            file.delete_on_close = AtomicBool::new(options & DELETE_ON_CLOSE != 0);
            (file, information)
        }
    };
    give_file(call, file, access, information, &attributes)
}

fn give_file(
    call: &Call<'_>,
    file: FileObject,
    access: u32,
    information: u64,
    attributes: &ObjectAttributes,
) -> ServiceResult {
    // A file object is signalled while no operation is under way.
    let sync = Sync::Event {
        manual: true,
        signalled: true,
    };
    let object = Object::new(&call.process.dispatcher, Body::File(file), Some(sync));
    call.give_handle(0, object, access, attributes.inherit())?;
    put_io_status(call, call.arg(3), Status::SUCCESS, information)
}

fn open_on_volume(
    volume: &Volume,
    found: &Found,
    access: u32,
    disposition: Disposition,
    options: u32,
) -> Result<(Backing, u64), Status> {
    let exists = found.metadata.is_some();
    match (exists, disposition) {
        (true, Disposition::Create) => return Err(Status::OBJECT_NAME_COLLISION),
        (false, Disposition::Open | Disposition::Overwrite) => return Err(Status::OBJECT_NAME_NOT_FOUND),
        _ => {}
    }
    if exists && found.is_directory() {
        if options & NON_DIRECTORY_FILE != 0 {
            return Err(Status::FILE_IS_A_DIRECTORY);
        }
        if disposition.truncates() {
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        return Ok((Backing::Directory(volume.open_directory(&found.path)?), OPENED));
    }
    if exists && options & DIRECTORY_FILE != 0 {
        return Err(Status::NOT_A_DIRECTORY);
    }
    if options & DIRECTORY_FILE != 0 {
        volume.create_directory(&found.path)?;
        return Ok((Backing::Directory(volume.open_directory(&found.path)?), CREATED));
    }
    let write = access & (WRITE_DATA | APPEND_DATA | GENERIC_WRITE | GENERIC_ALL) != 0;
    let opened = volume.open_file(
        &found.path,
        write || disposition.truncates(),
        !exists,
        exists && disposition.truncates(),
    );
    let file = match opened {
        // "Whatever is allowed" on a file that only may be read; a new file may always be read back.
        Err(_) if access & MAXIMUM_ALLOWED != 0 && !disposition.truncates() => {
            volume.open_file(&found.path, false, !exists, false)?
        }
        other => other?,
    };
    let information = match (exists, disposition) {
        (false, _) => CREATED,
        (true, Disposition::Supersede) => SUPERSEDED,
        (true, Disposition::Overwrite | Disposition::OverwriteIf) => OVERWRITTEN,
        (true, _) => OPENED,
    };
    Ok((Backing::Disk(file), information))
}

/// Fills the IO_STATUS_BLOCK at `address` and gives the status back.
pub(super) fn put_io_status(call: &Call<'_>, address: u64, status: Status, information: u64) -> ServiceResult {
    call.memory().put(address, [u64::from(status.0), information])?;
    Ok(status)
}

/// Opens an image by its NT path.
pub(in crate::nt) fn open_program(call: &Call<'_>, path: &str) -> Result<File, Status> {
    match resolve(call, path)? {
        Target::File { volume, found } if found.metadata.is_some() && !found.is_directory() => {
            volume.open_file(&found.path, false, false, false)
        }
        _ => Err(Status::OBJECT_NAME_NOT_FOUND),
    }
}

/// The existing file that argument 0's attributes name.
fn named(call: &Call<'_>) -> Result<(Arc<Volume>, Found), Status> {
    let attributes = ObjectAttributes::of(call, 0)?;
    match resolve(call, &full_path(call, &attributes)?)? {
        Target::File { volume, found } if found.metadata.is_some() => Ok((volume, found)),
        Target::File { .. } => Err(Status::OBJECT_NAME_NOT_FOUND),
        Target::Null | Target::Console(_) => Err(Status::INVALID_DEVICE_REQUEST),
    }
}

fn metadata(volume: &Volume, found: &Found) -> Result<std::fs::Metadata, Status> {
    let file = if found.is_directory() {
        volume.open_directory(&found.path)?
    } else {
        volume.open_file(&found.path, false, false, false)?
    };
    Ok(file.metadata()?)
}

pub(in crate::nt) fn query_attributes_file(call: &mut Call<'_>) -> ServiceResult {
    let (volume, found) = named(call)?;
    call.memory()
        .write(call.arg(1), &basic_information(&metadata(&volume, &found)?))?;
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn query_full_attributes_file(call: &mut Call<'_>) -> ServiceResult {
    let (volume, found) = named(call)?;
    call.memory()
        .write(call.arg(1), &network_open_information(&metadata(&volume, &found)?))?;
    Ok(Status::SUCCESS)
}

pub(in crate::nt) fn delete_file(call: &mut Call<'_>) -> ServiceResult {
    let (volume, found) = named(call)?;
    volume.remove(&found.path, found.is_directory())?;
    Ok(Status::SUCCESS)
}
