// SPDX-License-Identifier: GPL-3.0-or-later
//! The escape: UTF-16 units to text that any Linux file system, line or tab-separated list can hold, and back.
//!
//! `:` can never be part of an NT component, so it is the sigil: `:xxxx` (four lower-case hex digits) is one UTF-16
//! unit. Escaped are lone surrogates, `:`, `/`, `\`, the control characters (U+0000–U+001F, U+007F–U+009F), and the
//! first dot of `.` and `..`. Everything else is itself, in UTF-8. Exactly one text stands for a name: [`unescape`]
//! refuses every other spelling, so that comparing texts compares names.

use std::fmt::Write;

/// Whether the character must be written as `:xxxx`.
fn must_escape(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | ':' | '/' | '\\')
}

fn push_unit(out: &mut String, unit: u16) {
    // Writing to a String cannot fail.
    let _ = write!(out, ":{unit:04x}");
}

/// The text of a name.
pub fn escape(units: &[u16]) -> String {
    let mut out = String::with_capacity(units.len() + 8);
    let dots = matches!(units, [0x2e] | [0x2e, 0x2e]);
    for (at, decoded) in char::decode_utf16(units.iter().copied()).enumerate() {
        match decoded {
            Ok(c) if must_escape(c) || (dots && at == 0) => {
                let mut buffer = [0; 2];
                for &mut unit in c.encode_utf16(&mut buffer) {
                    push_unit(&mut out, unit);
                }
            }
            Ok(c) => out.push(c),
            Err(lone) => push_unit(&mut out, lone.unpaired_surrogate()),
        }
    }
    out
}

/// The name that a text stands for; `None` when the text is not what [`escape`] writes.
pub fn unescape(text: &str) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon);
        units.extend(before.encode_utf16());
        let digits = after.get(1..5)?;
        if !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return None;
        }
        units.push(u16::from_str_radix(digits, 16).ok()?);
        rest = after.get(5..)?;
    }
    units.extend(rest.encode_utf16());
    // One spelling for each name: this also refuses needless escapes and split pairs.
    (escape(&units) == text).then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn ordinary_names_are_kept_verbatim() {
        for name in [
            "notepad.exe",
            "Program Files (x86)",
            "ünïcode 文件 🦀",
            "a.b.",
            "...",
            " x ",
            "*?<>|\"",
        ] {
            assert_eq!(escape(&units(name)), name);
            assert_eq!(unescape(name), Some(units(name)));
        }
    }

    #[test]
    fn what_linux_or_a_list_cannot_hold_is_escaped() {
        assert_eq!(escape(&units("a:b")), "a:003ab");
        assert_eq!(escape(&units(".")), ":002e");
        assert_eq!(escape(&units("..")), ":002e.");
        assert_eq!(escape(&units("a/b\\c\n\t\0")), "a:002fb:005cc:000a:0009:0000");
        assert_eq!(escape(&[0xd83d, 0x41, 0xde00]), ":d83dA:de00");
    }

    #[test]
    fn only_one_spelling_is_taken() {
        for text in [
            ":0041",
            ":003A",
            ":d83d:de00",
            "a:",
            "a:00",
            ":~1",
            ":#",
            ".",
            "..",
            "a/b",
            "a\nb",
            ":00é",
        ] {
            assert_eq!(unescape(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in proptest::collection::vec(any::<u16>(), 0..60)) {
            let text = escape(&name);
            prop_assert!(text != "." && text != "..");
            prop_assert!(!text.bytes().any(|b| b == 0 || b == b'/' || b == b'\\' || b == b'\n' || b == b'\t'));
            prop_assert_eq!(unescape(&text), Some(name));
        }

        #[test]
        fn any_text_is_either_refused_or_comes_back(text in "[a-f0-9:.~#é/]{0,12}") {
            if let Some(units) = unescape(&text) {
                prop_assert_eq!(escape(&units), text);
            }
        }
    }
}
