// SPDX-License-Identifier: GPL-3.0-or-later
//! The volume descriptors of one session: which trees there are and how they are called (ECMA-119 6.7, 8; Joliet 1995).

use std::sync::Arc;

use zerocopy::FromBytes;

use super::format::{Both16, Both32, Record, STANDARD_ID, VolumeDescriptor, descriptor_type};
use super::names::{ascii_label, joliet_name};
use crate::medium::host_file::HostFile;
use crate::medium::limits::{MAX_ISO_DESCRIPTORS, MAX_SESSION_GAP_BLOCKS};
use crate::medium::{MediumError, ReadAt, ReadAtError};

/// Volume descriptors lie in sectors of this size, whatever the logical block size (ECMA-119 6.1.2, 6.2).
pub(super) const SECTOR_BYTES: u64 = 2048;
/// The first sector of a session with a volume descriptor (6.7.1).
const FIRST_DESCRIPTOR: u64 = 16;
/// The escape sequences of the three Joliet levels.
const JOLIET_ESCAPES: [(&[u8; 3], u8); 3] = [(b"%/@", 1), (b"%/C", 2), (b"%/E", 3)];
/// Sectors that are read at once when the next session is looked for.
const SCAN_SECTORS: u64 = 512;

/// An image and its logical block size: where errors get their LBA from.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub disc: Arc<HostFile>,
    pub block_bytes: u32,
}

impl Image {
    /// The error for a structure at a byte offset.
    pub(super) fn damaged(
        &self,
        offset: u64,
        structure: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> MediumError {
        MediumError::Damaged {
            path: self.disc.path().to_owned(),
            structure: structure.into(),
            lba: offset / u64::from(self.block_bytes.max(1)),
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Reads bytes at an offset.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, MediumError> {
        let mut buffer = vec![0; length];
        match self.disc.read_exact_at(&mut buffer, offset) {
            Ok(()) => Ok(buffer),
            Err(error) => Err(ReadAtError {
                lba: Some(offset / u64::from(self.block_bytes.max(1))),
                ..error
            }
            .into()),
        }
    }

    /// A 32-bit number whose two byte orders must agree.
    pub(super) fn both32(&self, value: Both32, offset: u64, what: &str) -> Result<u32, MediumError> {
        let (little, big) = (value.little.get(), value.big.get());
        if little == big {
            return Ok(little);
        }
        Err(self.damaged(
            offset,
            what,
            format!("the same number in both byte orders ({little})"),
            big.to_string(),
        ))
    }

    fn both16(&self, value: Both16, offset: u64, what: &str) -> Result<u16, MediumError> {
        let (little, big) = (value.little.get(), value.big.get());
        if little == big {
            return Ok(little);
        }
        Err(self.damaged(
            offset,
            what,
            format!("the same number in both byte orders ({little})"),
            big.to_string(),
        ))
    }
}

/// A Joliet tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joliet {
    pub level: u8,
    pub root: Record,
    /// Where the root's record is.
    pub root_offset: u64,
    label: [u8; 32],
}

/// One session's volumes.
#[derive(Debug)]
pub(super) struct Session {
    pub image: Image,
    /// The sector where it begins.
    pub start: u64,
    pub root: Record,
    pub root_offset: u64,
    pub joliet: Option<Joliet>,
    space_blocks: u32,
    label: [u8; 32],
}

/// Whether a sector of a session's descriptors is there.
pub(super) fn is_present(disc: &HostFile, start: u64) -> Result<bool, MediumError> {
    Ok(disc.up_to((start + FIRST_DESCRIPTOR) * SECTOR_BYTES, 6)?.get(1..) == Some(STANDARD_ID.as_slice()))
}

impl Session {
    /// Reads the descriptors of the session that begins at a sector; `None` if there is no primary one.
    pub(super) fn read(disc: &Arc<HostFile>, start: u64) -> Result<Option<Self>, MediumError> {
        let mut session: Option<Self> = None;
        let mut joliet = None;
        for index in 0..u64::from(MAX_ISO_DESCRIPTORS) {
            let offset = (start + FIRST_DESCRIPTOR + index) * SECTOR_BYTES;
            let bytes = disc.up_to(offset, size_of::<VolumeDescriptor>())?;
            let Ok(descriptor) = VolumeDescriptor::read_from_bytes(&bytes) else {
                break;
            };
            if descriptor.id != *STANDARD_ID || descriptor.descriptor_type == descriptor_type::TERMINATOR {
                break;
            }
            match descriptor.descriptor_type {
                descriptor_type::PRIMARY if session.is_none() => {
                    session = Some(Self::primary(disc, start, offset, &descriptor)?);
                }
                descriptor_type::SUPPLEMENTARY if joliet.is_none() => {
                    joliet = JOLIET_ESCAPES
                        .iter()
                        .find(|(escape, _)| descriptor.escapes.starts_with(*escape))
                        .map(|(_, level)| Joliet {
                            level: *level,
                            root: descriptor.root,
                            root_offset: offset + root_offset(),
                            label: descriptor.volume_id,
                        });
                }
                _ => {}
            }
        }
        Ok(session.map(|session| Self { joliet, ..session }))
    }

    fn primary(
        disc: &Arc<HostFile>,
        start: u64,
        offset: u64,
        descriptor: &VolumeDescriptor,
    ) -> Result<Self, MediumError> {
        let mut image = Image {
            disc: Arc::clone(disc),
            block_bytes: 2048,
        };
        let what = "the primary volume descriptor";
        let block_bytes = image.both16(descriptor.block_bytes, offset, what)?;
        if !matches!(block_bytes, 512 | 1024 | 2048) {
            return Err(image.damaged(
                offset,
                what,
                "blocks of 512, 1024 or 2048 bytes",
                block_bytes.to_string(),
            ));
        }
        image.block_bytes = u32::from(block_bytes);
        Ok(Self {
            start,
            root: descriptor.root,
            root_offset: offset + root_offset(),
            joliet: None,
            space_blocks: image.both32(descriptor.space_size, offset, what)?,
            label: descriptor.volume_id,
            image,
        })
    }

    /// Where the volume ends at least. Later sessions of a disc count from their own start (genisoimage) or from the
    /// disc's (xorriso); what both agree on is that the volume does not end before either.
    fn end_bytes(&self) -> u64 {
        let block_bytes = u64::from(self.image.block_bytes);
        let size = u64::from(self.space_blocks).saturating_mul(block_bytes);
        let start = self.start.saturating_mul(SECTOR_BYTES);
        if size > start { size } else { start.saturating_add(size) }
    }

    /// Refuses an image that ends before the volume does.
    pub(super) fn check_size(&self) -> Result<(), MediumError> {
        let (declared_bytes, actual_bytes) = (self.end_bytes(), self.image.disc.len_bytes());
        if declared_bytes <= actual_bytes {
            return Ok(());
        }
        Err(MediumError::Truncated {
            path: self.image.disc.path().to_owned(),
            file_system: "ISO 9660",
            declared_bytes,
            actual_bytes,
        })
    }

    /// The sector where the session behind this one begins, if there is one within the bound.
    pub(super) fn next_start(&self) -> Result<Option<u64>, MediumError> {
        let disc = &self.image.disc;
        let first = self.end_bytes().div_ceil(SECTOR_BYTES).max(self.start + 1) + FIRST_DESCRIPTOR;
        let last = (first + MAX_SESSION_GAP_BLOCKS).min(disc.len_bytes() / SECTOR_BYTES);
        let mut sector = first;
        while sector < last {
            let count = SCAN_SECTORS.min(last - sector);
            let bytes = disc.up_to(
                sector * SECTOR_BYTES,
                usize::try_from(count * SECTOR_BYTES).unwrap_or(0),
            )?;
            let begins = |bytes: &[u8]| bytes.get(..6) == Some(b"\x01CD001".as_slice());
            let sectors = bytes.chunks(2048);
            if let Some((found, _)) = (sector..).zip(sectors).find(|(_, bytes)| begins(bytes)) {
                return Ok(Some(found - FIRST_DESCRIPTOR));
            }
            sector += count;
        }
        Ok(None)
    }

    /// The label: Joliet's, which may have more kinds of characters, filled up from the primary one where Joliet's 16
    /// characters cut it off; else the primary one.
    pub(super) fn label(&self) -> String {
        let plain = ascii_label(&self.label);
        let Some(joliet) = &self.joliet else { return plain };
        let wide = joliet_name(&joliet.label).trim_end_matches([' ', '\0']).to_owned();
        let cut = plain
            .char_indices()
            .nth(wide.chars().count())
            .map(|(at, _)| plain.split_at(at));
        match cut {
            _ if wide.is_empty() => plain,
            Some((front, rest)) if joliet.is_full() && alike(front, &wide) => wide + rest,
            _ => wide,
        }
    }
}

impl Joliet {
    fn is_full(&self) -> bool {
        self.label.last_chunk() != Some(&[0, b' ']) && self.label.last_chunk() != Some(&[0, 0])
    }
}

/// Whether a primary label may stand for the same text: without case, `_` for anything.
fn alike(plain: &str, wide: &str) -> bool {
    plain
        .chars()
        .zip(wide.chars())
        .all(|(plain, wide)| plain == '_' || plain.to_uppercase().eq(wide.to_uppercase()))
}

fn root_offset() -> u64 {
    std::mem::offset_of!(VolumeDescriptor, root) as u64
}
