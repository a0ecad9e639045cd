// SPDX-License-Identifier: GPL-3.0-or-later
//! Saying what a file is that is no medium: the usual mix-ups, by their magic numbers.

use super::host_file::HostFile;
use super::{ReadAt, ReadAtError};

/// Magic numbers at fixed offsets, with what they mean to the person who gave the file.
const MAGICS: [(usize, &[u8], &str); 27] = [
    (0, b"PK\x03\x04", "a zip file; unpack it first"),
    (0, b"\x1f\x8b", "a gzip file; unpack it first"),
    (0, b"\xfd7zXZ\0", "an xz file; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"),
    (0, b"BZh", "a bzip2 file; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z file; unpack it first"),
    (0, b"Rar!\x1a\x07", "a RAR file; unpack it first"),
    (0, b"MSCF\0\0\0\0", "a cabinet file; unpack it first"),
    (257, b"ustar", "a tar file; unpack it first"),
    (0, b"QFI\xfb", "a qcow2 disk image"),
    (0, b"vhdxfile", "a VHDX disk image"),
    (0, b"conectix", "a VHD disk image"),
    (0, b"cxsparse", "a VHD disk image"),
    (0, b"KDMV", "a VMDK disk image"),
    (0, b"# Disk DescriptorFile", "a VMDK disk image's description"),
    (64, b"\x7f\x10\xda\xbe", "a VDI disk image"),
    (3, b"NTFS    ", "an NTFS file system; mount it and give its directory"),
    (3, b"EXFAT   ", "an exFAT file system; mount it and give its directory"),
    (54, b"FAT1", "a FAT file system; mount it and give its directory"),
    (82, b"FAT32   ", "a FAT32 file system; mount it and give its directory"),
    (0, b"hsqs", "a squashfs image, not a Windows medium"),
    (0, b"MZ", "a Windows program, not an image"),
    (0, b"\x7fELF", "a Linux program, not an image"),
    (
        0,
        b"<!DOCTYPE",
        "an HTML page: the download was not the file that was meant",
    ),
    (
        0,
        b"<html",
        "an HTML page: the download was not the file that was meant",
    ),
    (
        0,
        b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0",
        "a raw CD image (2352-byte sectors); convert it to an ISO first",
    ),
    (0, b"%PDF-", "a PDF document"),
];
/// Magic numbers at the file's last 512 bytes.
const TRAILERS: [(&[u8], &str); 2] = [(b"conectix", "a VHD disk image"), (b"koly", "a DMG disk image")];
const SECTOR_BYTES: u64 = 512;
const SHOWN_BYTES: usize = 8;

/// Says what a file is, for [`MediumError::NotAMedium`](super::MediumError::NotAMedium).
pub(super) fn describe(file: &HostFile) -> Result<String, ReadAtError> {
    let head = file.up_to(0, 1024)?;
    for (offset, magic, meaning) in MAGICS {
        if head.get(offset..).is_some_and(|rest| rest.starts_with(magic)) {
            return Ok(match offset {
                0 => format!("it begins with {}: {meaning}", shown(magic)),
                _ => format!("it has {} at offset {offset}: {meaning}", shown(magic)),
            });
        }
    }
    let tail = file.up_to(file.len_bytes().saturating_sub(SECTOR_BYTES), 512)?;
    for (magic, meaning) in TRAILERS {
        if tail.starts_with(magic) {
            return Ok(format!("it has {} in its last sector: {meaning}", shown(magic)));
        }
    }
    let partitioned = "a disk with partitions; mount the partition and give its directory";
    if head.get(512..520) == Some(b"EFI PART") {
        return Ok(format!(
            "it has {} at offset 512 (GPT): {partitioned}",
            shown(b"EFI PART")
        ));
    }
    if head.get(510..512) == Some(&[0x55, 0xaa]) {
        return Ok(format!("it has 55 aa at offset 510 (MBR): {partitioned}"));
    }
    if head.iter().all(|byte| *byte == 0) {
        return Ok(format!(
            "its first {} bytes are all zero: perhaps a download that did not finish",
            head.len()
        ));
    }
    Ok(format!(
        "it begins with {}",
        shown(head.get(..SHOWN_BYTES).unwrap_or(&head))
    ))
}

/// Bytes as text where all are printable, else in hexadecimal.
fn shown(bytes: &[u8]) -> String {
    let printable = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_graphic() || **byte == b' ')
        .count();
    match bytes.get(..printable) {
        Some(text) if printable >= 2 => format!("`{}`", String::from_utf8_lossy(text).trim_end()),
        _ => bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(" "),
    }
}
