// SPDX-License-Identifier: GPL-3.0-or-later
//! Descriptor tags: what makes a block of UDF believable (ECMA-167 3/7.2).

use crc::{CRC_16_XMODEM, Crc, Table};
use zerocopy::FromBytes;

use super::blocks::Mismatch;
use super::format::{Tag, tag_id};

/// The CRC of ECMA-167 3/7.2.6: polynomial 0x1021, start 0, not reflected.
const CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);
const TAG_BYTES: usize = size_of::<Tag>();

/// What a descriptor is called in messages.
pub(super) fn descriptor_name(identifier: u16) -> &'static str {
    match identifier {
        tag_id::SPARING_TABLE => "sparing table",
        tag_id::PRIMARY_VOLUME => "primary volume descriptor",
        tag_id::ANCHOR => "anchor volume descriptor pointer",
        tag_id::VOLUME_POINTER => "volume descriptor pointer",
        tag_id::PARTITION => "partition descriptor",
        tag_id::LOGICAL_VOLUME => "logical volume descriptor",
        tag_id::TERMINATING => "terminating descriptor",
        tag_id::INTEGRITY => "logical volume integrity descriptor",
        tag_id::FILE_SET => "file set descriptor",
        tag_id::FILE_IDENTIFIER => "file identifier descriptor",
        tag_id::ALLOCATION_EXTENT => "allocation extent descriptor",
        tag_id::INDIRECT_ENTRY => "indirect entry",
        tag_id::TERMINAL_ENTRY => "terminal entry",
        tag_id::FILE_ENTRY => "file entry",
        tag_id::EXTENDED_FILE_ENTRY => "extended file entry",
        _ => "descriptor of another kind",
    }
}

/// Checks a descriptor's version, checksum and CRC, and its location where `location` gives the right one.
pub(super) fn check(bytes: &[u8], location: Option<u32>) -> Result<Tag, Mismatch> {
    let Ok((tag, body)) = Tag::read_from_prefix(bytes) else {
        return Err(Mismatch::new(
            format!("a tag of {TAG_BYTES} bytes"),
            format!("{} bytes", bytes.len()),
        ));
    };
    let sum = bytes
        .iter()
        .take(TAG_BYTES)
        .fold(0_u8, |sum, byte| sum.wrapping_add(*byte))
        .wrapping_sub(tag.checksum);
    if sum != tag.checksum {
        return Err(Mismatch::new(
            format!("tag checksum {sum:#04x}"),
            format!("{:#04x}", tag.checksum),
        ));
    }
    if !matches!(tag.version.get(), 2 | 3) {
        return Err(Mismatch::new(
            "descriptor version 2 or 3",
            tag.version.get().to_string(),
        ));
    }
    let length = usize::from(tag.crc_length.get());
    let Some(covered) = body.get(..length) else {
        return Err(Mismatch::new(
            format!("a CRC over at most {} bytes", body.len()),
            format!("over {length}"),
        ));
    };
    let crc = CRC.checksum(covered);
    if crc != tag.crc.get() {
        return Err(Mismatch::new(
            format!("CRC {crc:#06x} over {length} bytes"),
            format!("{:#06x}", tag.crc.get()),
        ));
    }
    match location {
        Some(right) if right != tag.location.get() => Err(Mismatch::new(
            format!("tag location {right}"),
            tag.location.get().to_string(),
        )),
        _ => Ok(tag),
    }
}

/// Checks a tag and that it is one of the identifiers.
pub(super) fn require(bytes: &[u8], identifiers: &[u16], location: Option<u32>) -> Result<Tag, Mismatch> {
    let tag = check(bytes, location)?;
    if identifiers.contains(&tag.identifier.get()) {
        return Ok(tag);
    }
    let expected: Vec<String> = identifiers
        .iter()
        .map(|identifier| format!("a {} (tag {identifier})", descriptor_name(*identifier)))
        .collect();
    let identifier = tag.identifier.get();
    Err(Mismatch::new(
        expected.join(" or "),
        format!("a {} (tag {identifier})", descriptor_name(identifier)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Vec<u8> {
        let mut bytes = vec![0_u8; 32];
        bytes[0] = 2;
        bytes[2] = 3;
        bytes[12] = 77;
        bytes[16..20].copy_from_slice(b"abcd");
        bytes[8..10].copy_from_slice(&CRC.checksum(b"abcd").to_le_bytes());
        bytes[10] = 4;
        bytes[4] = bytes[..16].iter().fold(0, |sum, byte| sum.wrapping_add(*byte));
        bytes
    }

    #[test]
    fn the_crc_is_that_of_the_standard() {
        // The example of ECMA-167 1/7.2.6: 0x70 0x6a 0x77 gives 0x3299.
        assert_eq!(CRC.checksum(&[0x70, 0x6a, 0x77]), 0x3299);
    }

    #[test]
    fn a_good_tag_is_taken_and_each_fault_is_named() {
        let good = descriptor();
        assert_eq!(require(&good, &[tag_id::ANCHOR], Some(77)).unwrap().identifier.get(), 2);
        let fault = |mut bytes: Vec<u8>, at: usize, location| {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0x10;
            }
            check(&bytes, Some(location)).unwrap_err().expected
        };
        assert!(fault(good.clone(), 12, 77).starts_with("tag checksum"));
        assert!(fault(good.clone(), 17, 77).starts_with("CRC"));
        assert!(fault(good.clone(), 99, 78).starts_with("tag location 78"));
        assert!(
            require(&good, &[tag_id::FILE_SET], Some(77))
                .unwrap_err()
                .expected
                .contains("file set descriptor")
        );
        assert!(check(&good[..10], None).is_err());
    }
}
