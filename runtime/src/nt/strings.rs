// SPDX-License-Identifier: GPL-3.0-or-later
//! UNICODE_STRING and OBJECT_ATTRIBUTES as programs lay them out.

use super::call::Call;
use super::process_state::Process;
use super::thread::Thread;
use crate::object::{Body, Handle};
use crate::status::Status;
use crate::vdk::{Memory, MemoryExt};

/// Reads the UNICODE_STRING at `address`; an unpaired surrogate becomes U+FFFD.
pub(super) fn read_string(memory: &dyn Memory, address: u64) -> Result<String, Status> {
    let length: u16 = memory.get(address)?;
    let buffer = memory.get_pointer(address + 8)?;
    if !length.is_multiple_of(2) {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    Ok(String::from_utf16_lossy(
        &memory.read_units(buffer, usize::from(length) / 2)?,
    ))
}

/// Little-endian UTF-16.
pub(super) fn utf16_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A UNICODE_STRING at `address` followed by its text, as several queries give it.
pub(super) fn counted_string(address: u64, text: &str) -> Vec<u8> {
    let text = utf16_bytes(text);
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX - 3);
    let mut bytes = Vec::with_capacity(18 + text.len());
    bytes.extend(length.to_le_bytes());
    bytes.extend((length + 2).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((address + 16).to_le_bytes());
    bytes.extend(&text[..usize::from(length)]);
    bytes.extend([0; 2]);
    bytes
}

/// OBJECT_ATTRIBUTES.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectAttributes {
    pub(super) root: Handle,
    pub(super) name: Option<String>,
    pub(super) flags: u32,
}

impl ObjectAttributes {
    pub(super) const INHERIT: u32 = 2;
    pub(super) const OPENIF: u32 = 0x80;

    /// Reads them; a null address gives none.
    pub(super) fn read(memory: &dyn Memory, address: u64) -> Result<Self, Status> {
        if address == 0 {
            return Ok(Self::default());
        }
        let length: u32 = memory.get(address)?;
        if length != 48 {
            return Err(Status::INVALID_PARAMETER);
        }
        let root = memory.get(address + 8)?;
        let name = memory.get_pointer(address + 16)?;
        let flags = memory.get(address + 24)?;
        let name = if name == 0 {
            None
        } else {
            Some(read_string(memory, name)?)
        };
        Ok(Self { root, name, flags })
    }

    pub(super) fn of(call: &Call<'_>, index: usize) -> Result<Self, Status> {
        Self::read(call.memory(), call.arg(index))
    }

    pub(super) fn inherit(&self) -> bool {
        self.flags & Self::INHERIT != 0
    }

    /// The full name in the object namespace, or nothing for an unnamed object.
    pub(super) fn full_name(&self, process: &Process, thread: &Thread) -> Result<Option<String>, Status> {
        let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        if self.root == 0 {
            return if name.starts_with('\\') {
                Ok(Some(name.to_owned()))
            } else {
                Err(Status::OBJECT_PATH_SYNTAX_BAD)
            };
        }
        let root = process.object(thread, self.root)?;
        match (&root.body, root.name()) {
            (Body::Directory, Some(root)) => Ok(Some(format!("{root}\\{name}"))),
            _ => Err(Status::OBJECT_TYPE_MISMATCH),
        }
    }
}
