// SPDX-License-Identifier: GPL-3.0-or-later
//! What the media tests share: the corpus, independent readers, and a small UDF writer.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

pub mod udf_image;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vodka_decant::medium::{EntryKind, Medium};

/// The corpus directory, or `None` with a printed message.
pub fn corpus(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VODKA_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    // The second place is for a git worktree, one directory deeper.
    let path = [
        root.clone(),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    ]
    .into_iter()
    .map(|root| root.join(part))
    .find(|path| path.exists());
    if path.is_none() {
        eprintln!(
            "skipped: no corpus at {} (VODKA_CORPUS names another place)",
            root.join(part).display()
        );
    }
    path
}

/// Whether all programs are installed; says which one is not.
pub fn have(programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    programs.iter().all(|program| {
        let found = path
            .split(':')
            .any(|directory| Path::new(directory).join(program).exists());
        if !found {
            eprintln!("skipped: {program} is not installed");
        }
        found
    })
}

/// Runs a program and gives its output; `None` if it fails.
pub fn try_run(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success().then_some(output.stdout)
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    try_run(program, arguments).unwrap_or_else(|| panic!("{program} {arguments:?} failed"))
}

/// A path as the argument of a program.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every entry as `path` → size, with a `/` behind directories. Panics on a fault.
pub fn listing(medium: &Medium) -> BTreeMap<String, u64> {
    medium
        .walk()
        .map(|entry| {
            let entry = entry.unwrap();
            let slash = if entry.is_directory() { "/" } else { "" };
            (entry.path().to_owned() + slash, entry.size_bytes())
        })
        .collect()
}

/// The content of every plain file, read in two halves. Panics on a fault.
pub fn contents(medium: &Medium) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in medium.walk() {
        let entry = entry.unwrap();
        if *entry.kind() == EntryKind::File {
            all.insert(entry.path().to_owned(), read(medium, entry.path()));
        }
    }
    all
}

/// The content of one file, read in two halves.
pub fn read(medium: &Medium, path: &str) -> Vec<u8> {
    let file = medium.open_path(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len_bytes()).unwrap()];
    let half = bytes.len() / 2;
    let (front, back) = bytes.split_at_mut(half);
    file.read_exact_at(back, half as u64).unwrap();
    file.read_exact_at(front, 0).unwrap();
    bytes
}

/// What 7z lists (`path` → size, with a `/` behind directories); `None` where it cannot read the image.
pub fn listing_of_7z(image: &Path) -> Option<BTreeMap<String, u64>> {
    let output = String::from_utf8(try_run("7z", &["l", "-slt", "-sccUTF-8", arg(image)])?).unwrap();
    let entries = output.split_once("\n----------\n").map(|(_, entries)| entries)?;
    let field = |entry: &str, name: &str| {
        entry
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ").map(str::to_owned))
    };
    let list = entries.split("\n\n").filter_map(|entry| {
        let path = field(entry, "Path")?;
        let slash = if field(entry, "Folder").as_deref() == Some("+") {
            "/"
        } else {
            ""
        };
        Some((
            path + slash,
            field(entry, "Size").and_then(|size| size.parse().ok()).unwrap_or(0),
        ))
    });
    Some(list.collect())
}

/// What 7z extracts; `None` where it cannot read the image.
pub fn contents_of_7z(image: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let directory = tempfile::tempdir().unwrap();
    try_run(
        "7z",
        &["x", "-y", "-snld", &format!("-o{}", arg(directory.path())), arg(image)],
    )?;
    Some(tree(directory.path()))
}

/// The plain files below a directory.
pub fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                all.insert(path, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    all
}

/// Bytes that are different at every place.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
