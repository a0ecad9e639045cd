// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of an answer file: UTF-8 or UTF-16, told by its byte-order mark.

use super::{AnswersError, MAX_ANSWERS_BYTES};

/// Decodes `bytes` of the file `name`.
pub(super) fn decode(bytes: &[u8], name: &str) -> Result<String, AnswersError> {
    if bytes.len() as u64 > MAX_ANSWERS_BYTES {
        return Err(AnswersError::TooLarge {
            name: name.to_owned(),
            found_bytes: bytes.len() as u64,
            most_bytes: MAX_ANSWERS_BYTES,
        });
    }
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes, name),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes, name),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest, name),
        _ => utf8(bytes, name),
    }
}

fn utf8(bytes: &[u8], name: &str) -> Result<String, AnswersError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let line = 1 + bytes
                .iter()
                .take(error.valid_up_to())
                .filter(|byte| **byte == b'\n')
                .count();
            Err(AnswersError::NotText {
                name: name.to_owned(),
                line,
                encoding: "UTF-8",
            })
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, name: &str) -> Result<String, AnswersError> {
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut lines = 1;
    let refused = |line| AnswersError::NotText {
        name: name.to_owned(),
        line,
        encoding: "UTF-16",
    };
    let (pairs, rest) = bytes.as_chunks::<2>();
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        let character = character.map_err(|_| refused(lines))?;
        lines += usize::from(character == '\n');
        text.push(character);
    }
    if rest.is_empty() { Ok(text) } else { Err(refused(lines)) }
}
