// SPDX-License-Identifier: GPL-3.0-or-later
//! World names: what a person types, a directory on Linux, and safe on any system.

use std::fmt;
use std::str::FromStr;

use crate::name::NameError;

/// The most bytes of a world's name.
pub const MAX_BYTES: usize = 100;

/// Names that Windows keeps for devices, with or without an extension.
const DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// A world's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldName(Box<str>);

impl WorldName {
    /// Takes a name as typed.
    ///
    /// # Errors
    /// [`NameError::WorldName`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let refused = |reason| {
            Err(NameError::WorldName {
                name: name.escape_debug().to_string(),
                reason,
            })
        };
        let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        if name.is_empty() {
            refused("it is empty")
        } else if name.len() > MAX_BYTES {
            refused("it has more than 100 bytes")
        } else if name.starts_with(['.', '-', ' ']) {
            refused("it begins with a dot, a dash or a space")
        } else if name.ends_with(['.', ' ']) {
            refused("it ends with a dot or a space")
        } else if name.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|']) {
            refused("it has one of the characters / \\ : * ? \" < > |")
        } else if name
            .chars()
            .any(|c| c.is_control() || (c.is_whitespace() && c != ' ') || is_invisible(c))
        {
            refused("it has a character that does not print")
        } else if DEVICES.contains(&&*stem) {
            refused("Windows keeps it for a device")
        } else {
            Ok(Self(name.into()))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that hide or reorder others.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl fmt::Display for WorldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WorldName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_person_types_are_taken_and_dangerous_ones_refused() {
        for good in [
            "win11",
            "Windows 11 Pro",
            "ci-2026.11",
            "日本",
            "a",
            &"x".repeat(100),
            "console",
        ] {
            assert!(WorldName::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(101);
        for bad in [
            "",
            ".",
            "..",
            ".locks",
            "-x",
            " x",
            "x ",
            "x.",
            "a/b",
            "a\\b",
            "a:b",
            "a\nb",
            "a\u{202e}b",
            "con",
            "NUL.txt",
            "a\0",
            &long,
        ] {
            assert!(
                matches!(WorldName::new(bad), Err(NameError::WorldName { .. })),
                "{bad:?}"
            );
        }
    }
}
