// SPDX-License-Identifier: GPL-3.0-or-later
//! Which names an image may hold, how they are compared and how they are shown.

use std::fmt;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFault {
    /// It has no character.
    Empty,
    /// It is `.`.
    Dot,
    /// It is `..`.
    DotDot,
    /// It has `/` or `\` in it.
    Separator,
    /// It has NUL in it.
    Nul,
    /// A stream's name has `:` in it.
    Colon,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a name is empty",
            Self::Dot => "a file is called `.`",
            Self::DotDot => "a file is called `..`",
            Self::Separator => "a name has a path separator in it",
            Self::Nul => "a name has NUL in it",
            Self::Colon => "a stream's name has `:` in it",
        })
    }
}

/// The one place that decides whether a file of an image may have this name. Names that Linux or Windows tools find
/// hard, but that lead nowhere, are allowed; whoever writes them escapes them.
///
/// # Errors
/// [`NameFault`] says why not.
pub fn check_name(name: &[u16]) -> Result<(), NameFault> {
    const DOT: u16 = b'.' as u16;
    match name {
        [] => Err(NameFault::Empty),
        [DOT] => Err(NameFault::Dot),
        [DOT, DOT] => Err(NameFault::DotDot),
        _ => check_characters(name),
    }
}

/// As [`check_name`], for the name of a named stream.
pub(super) fn check_stream_name(name: &[u16]) -> Result<(), NameFault> {
    if name.contains(&u16::from(b':')) {
        return Err(NameFault::Colon);
    }
    check_characters(name)
}

fn check_characters(name: &[u16]) -> Result<(), NameFault> {
    if name.contains(&0) {
        return Err(NameFault::Nul);
    }
    if name
        .iter()
        .any(|&unit| unit == u16::from(b'/') || unit == u16::from(b'\\'))
    {
        return Err(NameFault::Separator);
    }
    Ok(())
}

/// Whether two names are one to NT.
#[must_use]
pub fn names_equal_ignore_case(a: &[u16], b: &[u16]) -> bool {
    hive::upcase::eq_names(a, b)
}

/// NT's upper case of one UTF-16 unit.
pub(super) fn upcase(unit: u16) -> u16 {
    hive::upcase::upcase_unit(unit)
}

/// A name for a message: control characters, lone surrogates and what would mislead a reader are escaped.
#[must_use]
pub fn escape_name(name: &[u16]) -> String {
    let mut shown = String::with_capacity(name.len());
    for unit in char::decode_utf16(name.iter().copied()) {
        match unit {
            Ok(character) if character.is_control() || is_formatting(character) => {
                shown.extend(character.escape_unicode());
            }
            Ok(character) => shown.push(character),
            Err(lone) => shown.push_str(&format!("\\u{{{:x}}}", lone.unpaired_surrogate())),
        }
    }
    shown
}

/// Characters that change how the text around them is shown.
fn is_formatting(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused_and_odd_ones_are_not() {
        for (name, fault) in [
            ("", NameFault::Empty),
            (".", NameFault::Dot),
            ("..", NameFault::DotDot),
            ("a/b", NameFault::Separator),
            ("a\\b", NameFault::Separator),
            ("a\0", NameFault::Nul),
        ] {
            assert_eq!(check_name(&utf16(name)), Err(fault), "{name:?}");
        }
        for name in ["...", ".a", "a.", "a ", "NUL", "a:b", "\u{1}", "CON.txt"] {
            assert_eq!(check_name(&utf16(name)), Ok(()), "{name:?}");
        }
        assert_eq!(check_name(&[0xd800]), Ok(()), "a lone surrogate");
    }

    #[test]
    fn names_compare_without_case() {
        assert!(names_equal_ignore_case(&utf16("System32"), &utf16("SYSTEM32")));
        assert!(names_equal_ignore_case(
            &utf16("\u{e4}\u{3b1}"),
            &utf16("\u{c4}\u{391}")
        ));
        assert!(!names_equal_ignore_case(&utf16("a"), &utf16("b")));
        // One unit may not become two.
        assert!(!names_equal_ignore_case(&utf16("\u{df}"), &utf16("SS")));
    }

    #[test]
    fn a_shown_name_has_no_control_character() {
        let shown = escape_name(&[0x61, 0x1b, 0x0a, 0x202e, 0xdc00, 0xe4]);
        assert_eq!(shown, "a\\u{1b}\\u{a}\\u{202e}\\u{dc00}\u{e4}");
    }
}
