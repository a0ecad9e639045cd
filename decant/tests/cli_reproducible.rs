// SPDX-License-Identifier: GPL-3.0-or-later
//! The same import gives the same world, byte for byte: in another directory, with other threads, on another day.

mod cli_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use cli_support::{Home, Said, have_tools, skipped};

/// Everything of a world that Linux can tell: bytes, modes, times, link groups, extended attributes.
fn state(world: &Path) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let mut first_names: BTreeMap<u64, String> = BTreeMap::new();
    let mut paths: Vec<_> = all(world);
    paths.sort();
    for path in paths {
        let relative = path
            .strip_prefix(world)
            .expect("below it")
            .to_string_lossy()
            .into_owned();
        let metadata = path.symlink_metadata().expect("there");
        let mut line = format!(
            "mode {:o} mtime {}.{}",
            metadata.mode(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        if metadata.is_file() {
            let first = first_names.entry(metadata.ino()).or_insert_with(|| relative.clone());
            line += &format!(" same as {first} sha1 {}", sha1(&fs::read(&path).expect("reads")));
        }
        for (name, value) in attributes(&path) {
            line += &format!(" {name}={value}");
        }
        state.insert(relative, line);
    }
    state
}

fn all(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("reads") {
            let entry = entry.expect("listed");
            if entry.file_type().expect("a type").is_dir() {
                directories.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

fn sha1(bytes: &[u8]) -> String {
    use sha1::Digest;
    sha1::Sha1::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The `user.` attributes of a file, sorted.
fn attributes(path: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).expect("attributes are listed");
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = std::ffi::OsStr::from_bytes(name);
        let mut value = vec![0; 65_536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("an attribute is read");
        found.insert(
            name.to_string_lossy().into_owned(),
            value[..length].iter().map(|byte| format!("{byte:02x}")).collect(),
        );
    }
    found
}

#[track_caller]
fn equal(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>, what: &str) {
    for (path, line) in one {
        assert_eq!(Some(line), other.get(path), "{what}: {path}");
    }
    assert_eq!(one.len(), other.len(), "{what}: one has other files");
}

/// Imports as the given world and returns its state and digest.
fn import(home: &Home, mut command: Command, world: &str) -> (BTreeMap<String, String>, String) {
    Said::from(command.output().expect("starts")).ended_with(0);
    (state(&home.world(world)), home.digest(world))
}

#[test]
fn directory_threads_and_day_leave_no_trace_in_a_world() {
    if !have_tools() {
        return;
    }
    for iso in [fixtures::windows_11_iso(), fixtures::metadata_iso()] {
        let iso = iso.expect("made");
        let (first_home, second_home) = (Home::new(), Home::new());
        let first = import(&first_home, first_home.import_command(&iso, "1", "world"), "world");
        let second = import(&second_home, second_home.import_command(&iso, "1", "world"), "world");
        equal(&first.0, &second.0, "another directory");
        assert_eq!(first.1, second.1);

        let threads = |count: &str, world: &str| {
            let mut command = second_home.import_command(&iso, "1", world);
            command.args(["--threads", count]);
            import(&second_home, command, world)
        };
        let (one, many) = (threads("1", "one-thread"), threads("7", "many-threads"));
        equal(&first.0, &one.0, "one thread");
        equal(&first.0, &many.0, "seven threads");
        assert_eq!((&first.1, &first.1), (&one.1, &many.1));
    }
}

#[test]
fn the_day_leaves_no_trace_in_a_world() {
    if !have_tools() {
        return;
    }
    let Some(faketime) = fixtures::tools::find("faketime") else {
        return skipped("faketime is not installed");
    };
    let iso = fixtures::windows_11_iso().expect("made");
    let home = Home::new();
    let on = |day: &str, world: &str| {
        let mut command = home.command(&faketime);
        command.args(["-f", day]).arg(env!("CARGO_BIN_EXE_vodka-decant"));
        command
            .args(["windows", "import", "--iso"])
            .arg(&iso)
            .args(["--edition", "1", "--world", world]);
        import(&home, command, world)
    };
    let (early, late) = (on("@2001-02-03 04:05:06", "early"), on("@2033-12-31 23:59:59", "late"));
    equal(&early.0, &late.0, "another day");
    assert_eq!(early.1, late.1);
}
