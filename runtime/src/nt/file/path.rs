// SPDX-License-Identifier: GPL-3.0-or-later
//! From NT paths to drives.

use std::sync::Arc;

use super::volume::{Found, Volume};
use crate::nt::call::Call;
use crate::nt::strings::ObjectAttributes;
use crate::object::{Body, upcase};
use crate::status::Status;

/// What an NT path names.
pub(super) enum Target {
    /// A file of a drive, which may not exist.
    File { volume: Arc<Volume>, found: Found },
    /// `\Device\Null`.
    Null,
    /// The terminal: 0 to read from, 1 to write to.
    Console(i32),
}

/// The device under which a drive's path is known: `C:\x` → `\Device\HarddiskVolume3\x`.
#[must_use]
pub fn device_path(path: &str) -> String {
    let path = path.strip_prefix("\\??\\").unwrap_or(path);
    match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => {
            let number = letter.to_ascii_uppercase() - b'A' + 1;
            format!("\\Device\\HarddiskVolume{number}{}", &path[2..])
        }
        _ => path.to_owned(),
    }
}

/// The NT path that object attributes name; relative ones are joined to their root's path.
pub(super) fn full_path(call: &Call<'_>, attributes: &ObjectAttributes) -> Result<String, Status> {
    let name = attributes.name.as_deref().unwrap_or("");
    if attributes.root == 0 {
        return Ok(name.to_owned());
    }
    let root = call.process.object(call.thread, attributes.root)?;
    match &root.body {
        Body::File(file) if name.is_empty() => Ok(file.path.clone()),
        Body::File(_) if name.starts_with('\\') => Err(Status::INVALID_PARAMETER),
        Body::File(file) => Ok(format!("{}\\{name}", file.path.trim_end_matches('\\'))),
        Body::Directory => Ok(format!("{}\\{name}", root.name().unwrap_or("").trim_end_matches('\\'))),
        _ => Err(Status::OBJECT_TYPE_MISMATCH),
    }
}

/// Finds what an NT path names.
pub(super) fn resolve(call: &Call<'_>, path: &str) -> Result<Target, Status> {
    let upper = upcase(path);
    let below = |prefix: &str| upper.strip_prefix(prefix).map(|rest| &path[path.len() - rest.len()..]);
    if let Some(rest) = below("\\??\\")
        .or_else(|| below("\\DOSDEVICES\\"))
        .or_else(|| below("\\GLOBAL??\\"))
    {
        return dos_device(call, rest);
    }
    if let Some(rest) = below("\\SYSTEMROOT\\") {
        return dos_device(call, &format!("C:\\Windows\\{rest}"));
    }
    if let Some(rest) = below("\\DEVICE\\HARDDISKVOLUME") {
        let digits = rest.find('\\').unwrap_or(rest.len());
        let number: u8 = rest[..digits].parse().map_err(|_| Status::OBJECT_NAME_NOT_FOUND)?;
        if (1..=26).contains(&number) {
            return dos_device(call, &format!("{}:{}", char::from(b'A' + number - 1), &rest[digits..]));
        }
    }
    match upper.as_str() {
        "\\DEVICE\\NULL" => Ok(Target::Null),
        _ if path.starts_with('\\') => Err(Status::OBJECT_PATH_NOT_FOUND),
        _ => Err(Status::OBJECT_PATH_SYNTAX_BAD),
    }
}

fn dos_device(call: &Call<'_>, rest: &str) -> Result<Target, Status> {
    let mut characters = rest.chars();
    if let (Some(letter), Some(':')) = (characters.next(), characters.next()) {
        let volume = call.process.drives.get(letter).ok_or(Status::OBJECT_PATH_NOT_FOUND)?;
        let below = characters.as_str();
        if below.contains(['*', '?', '<', '>', '"', '|', '/']) || below.contains(|c: char| (c as u32) < 0x20) {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let components: Vec<&str> = below
            .split('\\')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        let found = match components.split_last() {
            // A named stream.
            Some((last, _)) if last.contains(':') => return Err(Status::OBJECT_NAME_INVALID),
            _ => volume.lookup(&components)?,
        };
        if below.ends_with('\\') && found.metadata.is_some() && !found.is_directory() {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        return Ok(Target::File {
            volume: Arc::clone(volume),
            found,
        });
    }
    match upcase(rest).as_str() {
        "NUL" => Ok(Target::Null),
        "CON" | "CONOUT$" => Ok(Target::Console(1)),
        "CONIN$" => Ok(Target::Console(0)),
        _ => Err(Status::OBJECT_NAME_NOT_FOUND),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_drive_path_becomes_its_volumes() {
        assert_eq!(super::device_path("C:\\Windows"), "\\Device\\HarddiskVolume3\\Windows");
        assert_eq!(super::device_path("\\??\\z:\\x"), "\\Device\\HarddiskVolume26\\x");
        assert_eq!(super::device_path("\\Device\\Null"), "\\Device\\Null");
    }
}
