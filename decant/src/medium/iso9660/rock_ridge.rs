// SPDX-License-Identifier: GPL-3.0-or-later
//! Rock Ridge: POSIX names, modes, links and moved directories (IEEE P1282, version 1.12).

use zerocopy::FromBytes;

use super::format::Both32;
use super::names::{long_time, short_time, text};
use super::susp;
use super::volume::Image;
use crate::medium::MediumError;
use crate::medium::limits::{MAX_NAME_BYTES, MAX_SYMLINK_BYTES};

const CONTINUE: u8 = 1 << 0;
const CURRENT: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;

/// File types in a mode (P1282 4.1.1, as in POSIX).
pub(super) mod mode {
    pub const TYPE_MASK: u32 = 0o170_000;
    pub const SYMLINK: u32 = 0o120_000;
    pub const REGULAR: u32 = 0o100_000;
    pub const DIRECTORY: u32 = 0o040_000;
}

/// What a record's entries say.
#[derive(Debug, Default)]
pub(super) struct RockRidge {
    /// Whether any entry of Rock Ridge was seen.
    pub present: bool,
    pub name: Option<String>,
    pub mode: Option<u32>,
    pub modified_ns: Option<i64>,
    pub link_target: Option<String>,
    /// `CL`: the block of the directory that this record stands for.
    pub child_block: Option<Both32>,
    /// `RE`: the directory was moved here only to keep the tree flat.
    pub relocated: bool,
    /// `ZF`: the content is compressed.
    pub compressed: bool,
    /// `SF`: the content is a sparse file's table.
    pub sparse: bool,
}

/// Reads a record's entries. `area` is its system use area at `offset`, after the bytes to skip.
pub(super) fn read(image: &Image, area: &[u8], offset: u64, subject: &str) -> Result<RockRidge, MediumError> {
    let mut found = RockRidge::default();
    let mut name = Vec::new();
    let mut target = Target::default();
    let mut has_name = false;
    let mut too_long = false;
    susp::entries(image, area, offset, subject, |signature, body| match &signature {
        b"NM" => {
            found.present = true;
            // The names of `.` and `..` are flags, not text.
            if let Some((flags, bytes)) = body.split_first()
                && flags & (CURRENT | PARENT) == 0
            {
                has_name = true;
                too_long |= name.len() + bytes.len() > MAX_NAME_BYTES;
                if !too_long {
                    name.extend_from_slice(bytes);
                }
            }
        }
        b"PX" => {
            found.present = true;
            found.mode = Both32::read_from_prefix(body).ok().map(|(mode, _)| mode.little.get());
        }
        b"TF" => {
            found.present = true;
            found.modified_ns = modified(body).or(found.modified_ns);
        }
        b"SL" => {
            found.present = true;
            target.add(body);
        }
        b"CL" => found.child_block = Both32::read_from_prefix(body).ok().map(|(block, _)| block),
        b"RE" => found.relocated = true,
        b"RR" | b"ER" => found.present = true,
        b"ZF" => found.compressed = true,
        b"SF" => found.sparse = true,
        _ => {}
    })?;
    if too_long {
        return Err(MediumError::Limit {
            path: image.disc.path().to_owned(),
            subject: format!("the name in {subject}"),
            limit: MAX_NAME_BYTES as u64,
            unit: "bytes",
        });
    }
    found.name = has_name.then(|| text(&name));
    found.link_target = target.finish();
    Ok(found)
}

/// The modification time of a `TF` entry (P1282 4.1.6): the stamps that are there come in the order of the flags.
fn modified(body: &[u8]) -> Option<i64> {
    const CREATION: u8 = 1 << 0;
    const MODIFY: u8 = 1 << 1;
    const LONG_FORM: u8 = 1 << 7;
    let (flags, stamps) = body.split_first()?;
    if flags & MODIFY == 0 {
        return None;
    }
    let index = usize::from(flags & CREATION);
    if flags & LONG_FORM != 0 {
        long_time(stamps.chunks(17).nth(index)?.try_into().ok()?)
    } else {
        short_time(stamps.chunks(7).nth(index)?)
    }
}

/// A symbolic link's target, put together from its components (P1282 4.1.3).
#[derive(Default)]
struct Target {
    seen: bool,
    text: Vec<u8>,
    /// Whether the next component goes on with the last one.
    open: bool,
}

impl Target {
    fn add(&mut self, body: &[u8]) {
        self.seen = true;
        let mut components = body.get(1..).unwrap_or_default();
        while let [flags, length, rest @ ..] = components {
            let Some((name, behind)) = rest.split_at_checked(usize::from(*length)) else {
                return;
            };
            components = behind;
            if flags & ROOT != 0 {
                self.text = b"/".to_vec();
                continue;
            }
            let name = match flags & (CURRENT | PARENT) {
                CURRENT => b".".as_slice(),
                PARENT => b"..".as_slice(),
                _ => name,
            };
            if !self.open && !self.text.is_empty() && !self.text.ends_with(b"/") {
                self.text.push(b'/');
            }
            if self.text.len() + name.len() <= MAX_SYMLINK_BYTES {
                self.text.extend_from_slice(name);
            }
            self.open = flags & CONTINUE != 0;
        }
    }

    fn finish(self) -> Option<String> {
        self.seen.then(|| text(&self.text))
    }
}
