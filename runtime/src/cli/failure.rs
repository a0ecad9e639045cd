// SPDX-License-Identifier: GPL-3.0-or-later
//! The one place where an error becomes words and an exit code.

use std::error::Error;
use std::io::Write;

use super::ExitCode;
use super::text::escape_controls;

/// A command that failed: what to say, what to do next, and how to exit.
#[derive(Debug)]
pub struct Failure {
    /// The number that the process ends with.
    pub exit_code: ExitCode,
    /// What went wrong; its sources are printed beneath it.
    pub error: Box<dyn Error + Send + Sync>,
    /// What the person can do next, in a sentence each.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure with `exit_code`, to which hints may be added.
    pub fn new(exit_code: ExitCode, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit_code,
            error: error.into(),
            hints: Vec::new(),
        }
    }

    /// The same failure with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Whether standard output was closed by its reader: no failure, just the end.
    fn is_broken_pipe(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(self.error.as_ref());
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<std::io::Error>()
                && error.kind() == std::io::ErrorKind::BrokenPipe
            {
                return true;
            }
            next = error.source();
        }
        false
    }

    /// Writes the error, its chain and its hints on standard error and gives the exit code.
    ///
    /// A closed standard output says nothing and counts as done: `vodka-decant windows list … | head` is no error.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        if self.is_broken_pipe() {
            return ExitCode::Done;
        }
        // Whoever closed standard error cannot be told anything.
        let _ = self.write(&mut std::io::stderr().lock());
        self.exit_code
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        writeln!(to, "error: {}", escape_controls(&self.error.to_string()))?;
        let mut said = self.error.to_string();
        let mut next = self.error.source();
        while let Some(error) = next {
            let text = error.to_string();
            // A wrapper that only repeats its source adds nothing.
            if !said.contains(&text) {
                writeln!(to, "  because: {}", escape_controls(&text))?;
            }
            said = text;
            next = error.source();
        }
        for hint in &self.hints {
            writeln!(to, "  hint: {}", escape_controls(hint))?;
        }
        Ok(())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(ExitCode::Unexpected, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the medium\u{1b}[2J")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_chain_and_the_hints_are_said_and_control_characters_are_not_sent() {
        let failure = Failure::new(ExitCode::Medium, Outer(std::io::ErrorKind::NotFound.into())).hint("look elsewhere");
        let mut text = Vec::new();
        failure.write(&mut text).expect("a vector takes everything");
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "error: cannot open the medium\\x1b[2J\n  because: entity not found\n  hint: look elsewhere\n"
        );
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(failure.report(), ExitCode::Done);
    }
}
