// SPDX-License-Identifier: GPL-3.0-or-later
//! Directories: file identifiers one behind the other (ECMA-167 4/14.4, UDF 2.3.4).

use zerocopy::FromBytes;

use super::allocation::{self, Content};
use super::blocks::Mismatch;
use super::cs0::decode;
use super::format::{FileIdentifier, characteristics, tag_id};
use super::icb::{Icb, IcbAddress};
use super::partition::Partitions;
use super::tag;
use crate::medium::limits::{MAX_DIRECTORY_BYTES, MAX_DIRECTORY_ENTRIES};
use crate::medium::{Extent, MediumError};

/// A name in a directory and the ICB behind it.
#[derive(Debug)]
pub(super) struct Identifier {
    pub name: String,
    pub icb: IcbAddress,
}

/// Reads the names of a directory: no deleted ones, not the parent. `path` is the directory's path on the medium.
pub(super) fn read(partitions: &Partitions, directory: &Icb, path: &str) -> Result<Vec<Identifier>, MediumError> {
    let subject = format!("the directory /{path}");
    let content = allocation::read(partitions, directory, &subject)?;
    let (bytes, extents): (Vec<u8>, Vec<Extent>) = match content {
        Content::Inline(bytes) => (bytes, Vec::new()),
        Content::Extents(list) => {
            let extents = list.extents().to_vec();
            let bytes = Content::Extents(list).into_bytes(&partitions.blocks, &subject, MAX_DIRECTORY_BYTES)?;
            (bytes, extents)
        }
    };
    let mut names = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let (identifier, next) = next(rest).map_err(|mismatch| {
            let offset = Content::medium_offset(&extents, at as u64);
            let offset = offset.unwrap_or_else(|| partitions.blocks.offset(directory.place));
            let structure = format!("the file identifier at byte {at} of {subject}");
            partitions.blocks.damaged_at(offset, structure, mismatch)
        })?;
        names.extend(identifier);
        if names.len() > MAX_DIRECTORY_ENTRIES {
            return Err(partitions.blocks.limit(subject, MAX_DIRECTORY_ENTRIES, "entries"));
        }
        rest = next;
    }
    Ok(names)
}

/// The first identifier of `bytes`, `None` for one that is no entry, and what follows it.
fn next(bytes: &[u8]) -> Result<(Option<Identifier>, &[u8]), Mismatch> {
    tag::require(bytes, &[tag_id::FILE_IDENTIFIER], None)?;
    let Ok((header, rest)) = FileIdentifier::read_from_prefix(bytes) else {
        let expected = format!("at least {} bytes", size_of::<FileIdentifier>());
        return Err(Mismatch::new(expected, bytes.len().to_string()));
    };
    let skipped = usize::from(header.implementation_use_length.get());
    let name_bytes = usize::from(header.identifier_length);
    let Some(name) = rest.get(skipped..).and_then(|rest| rest.get(..name_bytes)) else {
        let found = format!("{skipped} of implementation use and {name_bytes} of name");
        return Err(Mismatch::new(format!("at most {} bytes", rest.len()), found));
    };
    // Each identifier is padded to 4 bytes; the last one's padding may be cut off.
    let whole = (size_of::<FileIdentifier>() + skipped + name_bytes).next_multiple_of(4);
    let behind = bytes.get(whole..).unwrap_or_default();
    if header.characteristics & (characteristics::DELETED | characteristics::PARENT) != 0 {
        return Ok((None, behind));
    }
    let Some(decoded) = decode(name) else {
        let found = format!(
            "compression {} over {} bytes",
            name.first().copied().unwrap_or(0),
            name.len()
        );
        return Err(Mismatch::new("a name in OSTA compressed Unicode (8 or 16)", found));
    };
    Ok((
        Some(Identifier {
            name: decoded,
            icb: IcbAddress::of(&header.icb),
        }),
        behind,
    ))
}

/// A symbolic link's target from its path components (4/14.16). Empty where they make no sense.
pub(super) fn link_target(mut components: &[u8]) -> String {
    let mut target = String::new();
    while let [kind, length, _, _, rest @ ..] = components {
        let Some((name, behind)) = rest.split_at_checked(usize::from(*length)) else {
            return String::new();
        };
        let name = match kind {
            1 | 2 => {
                "/".clone_into(&mut target);
                None
            }
            3 => Some("..".to_owned()),
            4 => Some(".".to_owned()),
            5 => decode(name),
            _ => return String::new(),
        };
        if let Some(name) = name {
            if !target.is_empty() && !target.ends_with('/') {
                target.push('/');
            }
            target.push_str(&name);
        }
        components = behind;
    }
    target
}
