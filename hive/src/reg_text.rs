// SPDX-License-Identifier: GPL-3.0-or-later
//! What both directions of registry text share: code page 1252, the spelling of data, and the marks
//! (`;!…`) that say what the format has no words for. Regedit takes the marks for comments.

use crate::format::data_type;

/// The header of version 5.
pub(crate) const HEADER_5: &str = "Windows Registry Editor Version 5.00";
/// The header of the old version.
pub(crate) const HEADER_4: &str = "REGEDIT4";

/// The mark of the exact name of the key that follows: its UTF-16 units.
pub(crate) const MARK_KEY: &str = ";!key=";
/// The mark of the exact name of the value that follows: its UTF-16 units.
pub(crate) const MARK_NAME: &str = ";!name=";
/// The mark of the exact data of the value that follows.
pub(crate) const MARK_DATA: &str = ";!data=";
/// The mark of the class name of the key before it.
pub(crate) const MARK_CLASS: &str = ";!class=";
/// The mark of the security descriptor of the key before it.
pub(crate) const MARK_SECURITY: &str = ";!security=";
/// The mark of the last write of the key before it: a FILETIME in hexadecimal.
pub(crate) const MARK_WRITTEN: &str = ";!written=";
/// The mark of the flags of the key before it, in hexadecimal: flags, user flags, layer flags.
pub(crate) const MARK_FLAGS: &str = ";!flags=";

/// Code page 1252, bytes 0x80 to 0x9f (Unicode Consortium, mapping table CP1252).
const CP1252: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d, 0x017d,
    0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,
    0x017e, 0x0178,
];

/// The unit of a byte in code page 1252.
pub(crate) fn from_ansi(byte: u8) -> u16 {
    match byte {
        0x80..=0x9f => CP1252[usize::from(byte - 0x80)],
        other => u16::from(other),
    }
}

/// The byte of a unit in code page 1252.
pub(crate) fn to_ansi(unit: u16) -> Option<u8> {
    match unit {
        0..=0x7f | 0xa0..=0xff => u8::try_from(unit).ok(),
        other => {
            let place = CP1252.iter().position(|&known| known == other)?;
            u8::try_from(place + 0x80).ok()
        }
    }
}

/// The units of UTF-16LE bytes; `None` for an odd number.
pub(crate) fn units_of(bytes: &[u8]) -> Option<Vec<u16>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect())
}

/// The text of a `REG_SZ` that can stand in quotes: terminated once, without control characters, lone
/// surrogates or byte order marks.
pub(crate) fn plain_text(bytes: &[u8]) -> Option<Vec<u16>> {
    let mut units = units_of(bytes)?;
    if units.pop() != Some(0) || !is_plain(&units) {
        return None;
    }
    Some(units)
}

/// Whether units can stand in a line of text and come back.
pub(crate) fn is_plain(units: &[u16]) -> bool {
    let visible = |c: Result<char, _>| {
        c.is_ok_and(|c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'))
    };
    char::decode_utf16(units.iter().copied()).all(visible)
}

/// The keyword of hexadecimal data of a type.
pub(crate) fn hex_keyword(kind: u32) -> String {
    if kind == data_type::BINARY {
        "hex:".to_owned()
    } else {
        format!("hex({kind:x}):")
    }
}

/// Bytes as `01,02`, without line breaks.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

/// Units as `0041,0042`.
pub(crate) fn hex_units(units: &[u16]) -> String {
    units
        .iter()
        .map(|unit| format!("{unit:04x}"))
        .collect::<Vec<_>>()
        .join(",")
}

/// One line that says what a value is, as registry text spells it; for people, not cut.
#[must_use]
pub fn value_text(kind: u32, data: &[u8]) -> String {
    if kind == data_type::SZ
        && let Some(units) = plain_text(data)
    {
        return quoted(&String::from_utf16_lossy(&units));
    }
    match (kind, <[u8; 4]>::try_from(data)) {
        (data_type::DWORD, Ok(number)) => format!("dword:{:08x}", u32::from_le_bytes(number)),
        _ => hex_keyword(kind) + &hex(data),
    }
}

/// Text in quotes, with `"` and `\` escaped.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}
