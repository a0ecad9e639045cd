// SPDX-License-Identifier: GPL-3.0-or-later
//! Running commands: shown before they run, and an error that names them when they fail.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::Result;

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// Where cargo builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// A command that is about to run, in the workspace's root.
pub struct Shell {
    command: Command,
    words: Vec<OsString>,
    shown: Vec<String>,
}

/// The cargo that runs this program.
pub fn cargo() -> Shell {
    let mut shell = Shell::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    shell.words = vec!["cargo".into()];
    // `cargo run` leaves its own package's variables behind; inner cargos would rebuild because of them.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_PRIMARY_PACKAGE" {
            shell.command.env_remove(name);
        }
    }
    shell
}

impl Shell {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(&program);
        command.current_dir(workspace());
        Self {
            command,
            words: vec![program.as_ref().to_owned()],
            shown: Vec::new(),
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.words.push(arg.as_ref().to_owned());
        self.command.arg(arg);
        self
    }

    pub fn args<S: AsRef<OsStr>>(self, args: impl IntoIterator<Item = S>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable and shows it in front of the command.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown.push(format!("{name}={}", quote(value.as_ref())));
        self.command.env(name, value);
        self
    }

    /// Sets a variable without showing it.
    pub fn quiet_env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The command as a person would type it.
    pub fn line(&self) -> String {
        let words = self.words.iter().map(|word| quote(word));
        self.shown.iter().cloned().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it; its output goes where ours goes.
    pub fn run(mut self) -> Result<()> {
        use std::io::Write;
        std::io::stdout().flush()?;
        let status = self
            .command
            .status()
            .map_err(|error| format!("`{}`: {error}", self.line()))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`{}` ended with {status}", self.line()).into())
        }
    }

    /// Runs it and keeps what it prints, whatever its exit status.
    pub fn output(mut self) -> Result<Output> {
        self.command.stdin(Stdio::null());
        let line = self.line();
        self.command
            .output()
            .map_err(|error| format!("`{line}`: {error}").into())
    }

    /// Runs it and returns what it printed on standard output; fails when it does.
    pub fn read(self) -> Result<String> {
        let line = self.line();
        let output = self.output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!(
            "`{line}` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
        .into())
    }
}

/// A word as a shell needs it.
fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_typed_again() {
        let line = Shell::new("vodka")
            .env("A", "b c")
            .args(["--edition", "Windows 11 Pro", "it's", ""])
            .line();
        assert_eq!(line, r"A='b c' vodka --edition 'Windows 11 Pro' 'it'\''s' ''");
    }
}
