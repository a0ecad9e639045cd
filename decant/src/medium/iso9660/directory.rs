// SPDX-License-Identifier: GPL-3.0-or-later
//! Directory records, and how several of them make one file (ECMA-119 6.8, 9.1).

use zerocopy::FromBytes;

use super::IsoExtent;
use super::format::{Record, file_flags};
use super::volume::Image;
use crate::medium::MediumError;
use crate::medium::limits::{MAX_DIRECTORY_ENTRIES, MAX_EXTENTS};

/// Records do not cross the borders of logical sectors (6.8.1.1).
const SECTOR_BYTES: usize = 2048;

/// A file of a directory: one record, or several for a file in several extents.
#[derive(Debug)]
pub(super) struct Records {
    /// The identifier, as stored.
    pub identifier: Vec<u8>,
    pub extents: Vec<IsoExtent>,
    pub flags: u8,
    pub modified_ns: Option<i64>,
    /// File unit size and gap size, where the file is interleaved.
    pub interleaved: Option<(u8, u8)>,
    /// The system use area of the last record, and where it is on the medium.
    pub system_use: Vec<u8>,
    pub system_use_offset: u64,
}

/// One record, checked.
#[derive(Debug)]
pub(super) struct OneRecord<'a> {
    pub header: Record,
    pub identifier: &'a [u8],
    pub system_use: &'a [u8],
    pub system_use_at: usize,
}

/// Cuts the first record off `bytes`, which must not reach into the next sector.
pub(super) fn split_record(bytes: &[u8]) -> Result<OneRecord<'_>, (&'static str, String)> {
    let Ok((header, _)) = Record::read_from_prefix(bytes) else {
        return Err(("a record of at least 34 bytes", format!("{} bytes", bytes.len())));
    };
    let Some(record) = bytes.get(..usize::from(header.length)) else {
        return Err(("a record within its sector", format!("{} bytes", header.length)));
    };
    let from = size_of::<Record>();
    let name_end = from + usize::from(header.name_length);
    let Some(identifier) = record.get(from..name_end).filter(|name| !name.is_empty()) else {
        return Err((
            "a name within its record",
            format!("{} bytes of {}", header.name_length, header.length),
        ));
    };
    // A name of even length is padded (9.1.12).
    let system_use_at = (name_end + usize::from(header.name_length.is_multiple_of(2))).min(record.len());
    let system_use = record.get(system_use_at..).unwrap_or_default();
    Ok(OneRecord {
        header,
        identifier,
        system_use,
        system_use_at,
    })
}

/// Where a record's content is.
pub(super) fn extent(image: &Image, record: &Record, offset: u64, subject: &str) -> Result<IsoExtent, MediumError> {
    let block = image.both32(record.block, offset, subject)?;
    let bytes = image.both32(record.size, offset, subject)?;
    Ok(IsoExtent {
        block: u64::from(block) + u64::from(record.attribute_blocks),
        bytes,
    })
}

/// Reads all records of a directory but those of itself and its parent, and of associated files. `offset_of` gives
/// the place on the medium of a byte of `bytes`, `path` is the directory's.
pub(super) fn read(
    image: &Image,
    bytes: &[u8],
    offset_of: impl Fn(usize) -> u64,
    path: &str,
) -> Result<Vec<Records>, MediumError> {
    let mut files: Vec<Records> = Vec::new();
    let mut open = false;
    let subject = |at: usize| format!("the record at byte {at} of the directory /{path}");
    for (sector_index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        let mut rest = sector;
        // A length of 0 ends a sector (6.8.1.1).
        while rest.first().is_some_and(|length| *length != 0) {
            let at = sector_index * SECTOR_BYTES + (sector.len() - rest.len());
            let offset = offset_of(at);
            let record =
                split_record(rest).map_err(|(expected, found)| image.damaged(offset, subject(at), expected, found))?;
            rest = rest.get(usize::from(record.header.length)..).unwrap_or_default();
            if matches!(record.identifier, [0 | 1]) || record.header.flags & file_flags::ASSOCIATED != 0 {
                continue;
            }
            let extent = extent(image, &record.header, offset, &subject(at))?;
            let more = record.header.flags & file_flags::MULTI_EXTENT != 0;
            match files.last_mut() {
                Some(file) if open && file.identifier == record.identifier => {
                    if file.extents.len() >= MAX_EXTENTS {
                        return Err(limit(image, path, MAX_EXTENTS, "extents of one file"));
                    }
                    file.extents.push(extent);
                    file.add(&record, offset);
                }
                _ if open => {
                    let expected = "another record of the file whose last record says that there are more";
                    return Err(image.damaged(offset, subject(at), expected, "another file"));
                }
                _ => {
                    if files.len() >= MAX_DIRECTORY_ENTRIES {
                        return Err(limit(image, path, MAX_DIRECTORY_ENTRIES, "entries"));
                    }
                    files.push(Records {
                        identifier: record.identifier.to_vec(),
                        extents: vec![extent],
                        flags: 0,
                        modified_ns: record.header.recorded.unix_ns(),
                        interleaved: None,
                        system_use: Vec::new(),
                        system_use_offset: 0,
                    });
                    if let Some(file) = files.last_mut() {
                        file.add(&record, offset);
                    }
                }
            }
            open = more;
        }
    }
    if open {
        let at = bytes.len();
        let offset = offset_of(at.saturating_sub(1));
        return Err(image.damaged(
            offset,
            subject(at),
            "another record of the last file",
            "the directory's end",
        ));
    }
    Ok(files)
}

impl Records {
    fn add(&mut self, record: &OneRecord<'_>, offset: u64) {
        let header = &record.header;
        self.flags |= header.flags;
        if header.unit_size != 0 || header.gap_size != 0 {
            self.interleaved = Some((header.unit_size, header.gap_size));
        }
        self.system_use = record.system_use.to_vec();
        self.system_use_offset = offset + record.system_use_at as u64;
    }
}

fn limit(image: &Image, path: &str, limit: usize, unit: &'static str) -> MediumError {
    MediumError::Limit {
        path: image.disc.path().to_owned(),
        subject: format!("the directory /{path}"),
        limit: limit as u64,
        unit,
    }
}
