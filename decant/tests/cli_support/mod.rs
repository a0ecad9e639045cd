// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tests of the commands share: a home of their own for each test, and the two programs.
// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Whether the tools that make fixtures are there; says so when they are not.
pub fn have_tools() -> bool {
    match fixtures::tools::require(&["wimlib-imagex", "hivexsh", "hivexml", "7z", "genisoimage", "xorriso"]) {
        Ok(()) => true,
        Err(error) => {
            skipped(&error.to_string());
            false
        }
    }
}

/// Says why a test does nothing.
#[allow(clippy::print_stderr)]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A home directory with no worlds in it.
pub struct Home {
    pub directory: TempDir,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// Fails the test unless the command ended with `code`.
    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Fails the test unless standard error has all of these in it.
    #[track_caller]
    pub fn complains_of(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("vodka-test-")
            .tempdir()
            .expect("a temporary directory");
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where a world lies.
    pub fn world(&self, name: &str) -> PathBuf {
        self.worlds().join(name)
    }

    /// Where all worlds lie.
    pub fn worlds(&self) -> PathBuf {
        self.path().join("data/vodka/worlds")
    }

    /// Prepares a program to run at home here, with no terminal and nothing of the caller's settings.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.path())
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// Prepares `vodka-decant` with these words.
    pub fn decant_command<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_vodka-decant")));
        command.args(words);
        command
    }

    /// Runs `vodka-decant` with these words.
    pub fn decant<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Said {
        self.decant_command(words).output().expect("vodka-decant starts").into()
    }

    /// Runs `vodka-decant windows list --iso MEDIUM` and more words.
    pub fn list(&self, medium: &Path, more: &[&str]) -> Said {
        self.decant(words(&["windows", "list", "--iso"], medium, more))
    }

    /// Runs `vodka-decant windows import --iso MEDIUM` and more words.
    pub fn import(&self, medium: &Path, more: &[&str]) -> Said {
        self.decant(words(&["windows", "import", "--iso"], medium, more))
    }

    /// Prepares an import of edition 1 as a world.
    pub fn import_command(&self, medium: &Path, edition: &str, world: &str) -> Command {
        self.decant_command(words(
            &["windows", "import", "--iso"],
            medium,
            &["--edition", edition, "--world", world],
        ))
    }

    /// Runs `vodka` with these words.
    pub fn vodka(&self, words: &[&str]) -> Said {
        self.command(vodka()).args(words).output().expect("vodka starts").into()
    }

    /// The digest in a world's `world.conf`.
    #[track_caller]
    pub fn digest(&self, world: &str) -> String {
        let text = std::fs::read_to_string(self.world(world).join("world.conf")).expect("world.conf is there");
        let conf: toml::Table = text.parse().expect("world.conf is TOML");
        conf.get("digest")
            .and_then(|value| value.as_str())
            .expect("world.conf has a digest")
            .to_owned()
    }

    /// What lies beside the worlds of these names: nothing, when all is well. Names that begin with a dot are an
    /// import's own business (and are never taken for a world).
    pub fn other_worlds(&self, expected: &[&str]) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.worlds()) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.') && !expected.contains(&name.as_str()))
            .collect()
    }
}

fn words<'a>(before: &[&'a str], medium: &'a Path, after: &[&'a str]) -> Vec<&'a std::ffi::OsStr> {
    let os = |words: &[&'a str]| words.iter().map(|word| std::ffi::OsStr::new(*word)).collect::<Vec<_>>();
    [os(before), vec![medium.as_os_str()], os(after)].concat()
}

/// The `vodka` program. It belongs to another package, so cargo does not promise that it is built: build it once.
fn vodka() -> &'static Path {
    static VODKA: OnceLock<PathBuf> = OnceLock::new();
    VODKA.get_or_init(|| {
        let decant = Path::new(env!("CARGO_BIN_EXE_vodka-decant"));
        let directory = decant.parent().expect("the program lies in a directory");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "runtime"]);
        if directory.ends_with("release") {
            build.arg("--release");
        }
        // Who may run the tests but not cargo (another user, say) takes the one that is there.
        match build.current_dir(env!("CARGO_MANIFEST_DIR")).status() {
            Ok(status) => assert!(status.success(), "vodka can't be built"),
            Err(error) => assert!(directory.join("vodka").is_file(), "cargo can't be started: {error}"),
        }
        directory.join("vodka")
    })
}
