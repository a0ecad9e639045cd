// SPDX-License-Identifier: GPL-3.0-or-later
//! The System Use Sharing Protocol: entries behind a record's name, continued elsewhere (IEEE P1281, version 1.12).

use std::collections::HashSet;

use zerocopy::FromBytes;

use super::format::{Continuation, SystemUse};
use super::volume::Image;
use crate::medium::MediumError;
use crate::medium::limits::MAX_CONTINUATIONS;

/// The signature that opens the protocol in the root's own record, and its check bytes (SUSP 5.3).
const START: &[u8; 6] = b"SP\x07\x01\xbe\xef";
/// CD-ROM XA puts 14 bytes of its own first.
const XA_BYTES: usize = 14;

/// How many bytes to skip in each record's system use area; `None` where the disc does not use the protocol.
/// `area` is that of the root's own record.
pub(super) fn start(area: &[u8]) -> Option<usize> {
    [0, XA_BYTES].into_iter().find_map(|at| {
        let entry = area.get(at..)?;
        entry
            .starts_with(START)
            .then(|| entry.get(6).map(|skip| usize::from(*skip)))?
    })
}

/// Gives each entry of a system use area (signature and body), through its continuations. `offset` is where the area
/// is on the medium, `subject` what messages call it.
pub(super) fn entries(
    image: &Image,
    area: &[u8],
    offset: u64,
    subject: &str,
    mut give: impl FnMut([u8; 2], &[u8]),
) -> Result<(), MediumError> {
    let mut visited = HashSet::new();
    let mut area = area.to_vec();
    let mut offset = offset;
    loop {
        let Some(next) = take_area(&area, &mut give) else {
            return Ok(());
        };
        let (block, start, length) = (
            image.both32(next.block, offset, subject)?,
            image.both32(next.offset, offset, subject)?,
            image.both32(next.length, offset, subject)?,
        );
        if !visited.insert((block, start)) {
            return Err(image.damaged(
                offset,
                subject,
                "continuation areas with an end",
                format!("one that leads back to block {block}, byte {start}"),
            ));
        }
        if visited.len() > MAX_CONTINUATIONS {
            return Err(MediumError::Limit {
                path: image.disc.path().to_owned(),
                subject: subject.to_owned(),
                limit: MAX_CONTINUATIONS as u64,
                unit: "continuation areas",
            });
        }
        if length > image.block_bytes || start > image.block_bytes {
            let expected = format!("a continuation area within a block of {} bytes", image.block_bytes);
            return Err(image.damaged(offset, subject, expected, format!("{length} bytes at {start}")));
        }
        offset = u64::from(block) * u64::from(image.block_bytes) + u64::from(start);
        area = image.read(offset, length as usize)?;
    }
}

/// Gives the entries of one area; returns the continuation that it names.
fn take_area(mut area: &[u8], give: &mut impl FnMut([u8; 2], &[u8])) -> Option<Continuation> {
    let mut continuation = None;
    while let Ok((header, _)) = SystemUse::read_from_prefix(area) {
        let length = usize::from(header.length);
        // An area ends with ST, or with fewer bytes than an entry has (SUSP 4); zeros are padding.
        if header.signature == *b"ST" || length < size_of::<SystemUse>() {
            break;
        }
        let Some((entry, rest)) = area.split_at_checked(length) else {
            break;
        };
        let body = entry.get(size_of::<SystemUse>()..).unwrap_or_default();
        if header.signature == *b"CE" {
            continuation = Continuation::read_from_prefix(body)
                .ok()
                .map(|(found, _)| found)
                .or(continuation);
        } else {
            give(header.signature, body);
        }
        area = rest;
    }
    continuation
}
