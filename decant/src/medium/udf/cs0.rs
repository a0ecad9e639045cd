// SPDX-License-Identifier: GPL-3.0-or-later
//! OSTA compressed Unicode, the only character set of UDF (UDF 2.1.1, 2.1.3).

use std::borrow::Cow;

/// Decodes d-characters: the first byte is the compression identifier (8 and 16; 254 and 255 for the same two forms
/// in deleted entries), the rest 8-bit or big-endian 16-bit code units. `None` for another identifier and for an odd
/// number of 16-bit bytes; an empty field is an empty name.
pub(super) fn decode(field: &[u8]) -> Option<String> {
    match field.split_first() {
        None => Some(String::new()),
        Some((8 | 254, bytes)) => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        Some((16 | 255, bytes)) if bytes.len().is_multiple_of(2) => {
            let units: Vec<u16> = bytes
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte)))
                .collect();
            Some(String::from_utf16_lossy(&units))
        }
        Some(_) => None,
    }
}

/// Decodes a dstring: a fixed field whose last byte is the length used (UDF 2.1.3). A label is worth no refusal: a field
/// that breaks the rules is an empty label.
pub(super) fn decode_dstring(field: &[u8]) -> String {
    let used = field
        .split_last()
        .and_then(|(length, bytes)| bytes.get(..usize::from(*length)));
    let label = used.and_then(decode).unwrap_or_default();
    label.trim_end_matches('\0').to_owned()
}

/// An entity identifier's text without the padding, for comparison and messages.
pub(super) fn entity_text(identifier: &[u8]) -> Cow<'_, str> {
    let length = identifier
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(identifier.len());
    String::from_utf8_lossy(identifier.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_and_sixteen_bit_names_decode() {
        assert_eq!(decode(b"\x08caf\xe9").as_deref(), Some("caf\u{e9}"));
        assert_eq!(
            decode(b"\x10\x04\x1f\x04\x40\xd8\x3d\xde\x00").as_deref(),
            Some("\u{41f}\u{440}\u{1f600}")
        );
        assert_eq!(decode(b"\xfeold").as_deref(), Some("old"));
        assert_eq!(decode(b"\xff\0o").as_deref(), Some("o"));
    }

    #[test]
    fn another_compression_and_half_a_character_are_refused() {
        assert_eq!(decode(b"\x07abc"), None);
        assert_eq!(decode(b"\x10\0a\0"), None);
    }

    #[test]
    fn a_label_uses_only_its_own_length() {
        let mut field = [0x20; 32];
        field[..5].copy_from_slice(b"\x08DISC");
        field[31] = 5;
        assert_eq!(decode_dstring(&field), "DISC");
        field[31] = 200;
        assert_eq!(decode_dstring(&field), "");
    }
}
