// SPDX-License-Identifier: GPL-3.0-or-later
//! What the integration tests share: mingw, libwine, and the runtime as a process of its own.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// No test program runs longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Says why a test is skipped.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Builds a program of `tests/programs` at `to`; false (and said) without mingw.
pub fn build(source: &str, to: &Path, arguments: &[&str]) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    match Command::new(COMPILER)
        .arg("-O1")
        .arg("-o")
        .arg(to)
        .arg(source)
        .args(arguments)
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => {
            skip("no x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64)");
            false
        }
    }
}

/// A directory as C:, with what Debian's libwine has in it; nothing (and said) without one.
///
/// `VODKA_LIBWINE` names an unpacked package (the directory that holds `usr`); without it, the installed one is taken.
pub fn free_drive() -> Option<tempfile::TempDir> {
    let root = std::env::var_os("VODKA_LIBWINE").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let images = root.join("usr/lib/x86_64-linux-gnu/wine/x86_64-windows");
    let tables = root.join("usr/share/wine/nls");
    if !images.join("ntdll.dll").is_file() || !tables.is_dir() {
        skip("no libwine (install it, or name an unpacked one in VODKA_LIBWINE)");
        return None;
    }
    let drive = tempfile::tempdir().expect("a directory");
    let system = drive.path().join("Windows/System32");
    for directory in [
        "Windows/System32",
        "Windows/Globalization/Sorting",
        "temp",
        "users/vodka",
    ] {
        std::fs::create_dir_all(drive.path().join(directory)).expect("made");
    }
    let names = [
        "ntdll",
        "kernel32",
        "kernelbase",
        "msvcrt",
        "ucrtbase",
        "advapi32",
        "sechost",
        "apisetschema",
        "cryptbase",
        "rpcrt4",
    ];
    for name in names {
        let from = images.join(format!("{name}.dll"));
        if from.is_file() {
            std::fs::copy(&from, system.join(format!("{name}.dll"))).expect("copied");
        }
    }
    for table in std::fs::read_dir(tables).expect("listed").flatten() {
        std::fs::copy(table.path(), system.join(table.file_name())).expect("copied");
    }
    Some(drive)
}

/// Runs a program with C: at `drive`; kills it, and fails, when it does not end in time.
pub fn run(drive: &Path, options: &[&str], program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vodka"));
    command
        .arg("--files")
        .arg(drive)
        .args(options)
        .arg(program)
        .args(arguments);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut streams = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let error = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        streams.1.read_to_end(&mut bytes).map(|_| bytes)
    });
    let output = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        streams.0.read_to_end(&mut bytes).map(|_| bytes)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited") {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("killed");
            panic!("{program} did not end in {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stdout = output.join().expect("read").expect("read");
    let stderr = error.join().expect("read").expect("read");
    Output { status, stdout, stderr }
}

/// Standard output as text without carriage returns.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}
