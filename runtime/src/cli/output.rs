// SPDX-License-Identifier: GPL-3.0-or-later
//! Standard output: lines for a person, or exactly one JSON document.

use std::io::Write;

use serde::Serialize;

use super::Failure;
use super::text::escape_controls;

/// Where a command's results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Lines for a person.
    Text,
    /// One JSON document, and nothing else.
    Json,
}

impl Output {
    /// [`Output::Json`] when the person asked for it.
    #[must_use]
    pub fn new(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Prints one line for a person, with control characters made visible; nothing in JSON.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn line(self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self == Self::Text {
            writeln!(std::io::stdout().lock(), "{}", escape_controls(text.as_ref()))?;
        }
        Ok(())
    }

    /// Prints the one JSON document; nothing in text.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn document(self, document: &impl Serialize) -> Result<(), Failure> {
        if self == Self::Json {
            let text = serde_json::to_string_pretty(document).map_err(std::io::Error::from)?;
            writeln!(std::io::stdout().lock(), "{text}")?;
        }
        Ok(())
    }
}
