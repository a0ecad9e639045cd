// SPDX-License-Identifier: GPL-3.0-or-later
//! What the WIM tests share: the corpus, wimlib-imagex as writer and independent reader, random trees.
#![allow(
    dead_code,
    clippy::print_stderr,
    reason = "each test uses a part of it; a skipped test says so"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use vodka_decant::wim::Wim;

/// The test corpus, or `None` (said on stderr) where it is not there.
pub fn corpus(below: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // A worktree may lie one level deeper than the workspace itself.
    let candidates = match std::env::var_os("VODKA_CORPUS") {
        Some(root) => vec![PathBuf::from(root).join(below)],
        None => ["../shared/corpus", "../../shared/corpus"]
            .map(|root| workspace.join(root).join(below))
            .to_vec(),
    };
    let found = candidates.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {below} of the corpus is not there");
    }
    found
}

/// Whether wimlib-imagex can be run; says so where not.
pub fn has_wimlib() -> bool {
    let found = Command::new("wimlib-imagex")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        eprintln!("skipped: wimlib-imagex is not installed");
    }
    found
}

/// Runs wimlib-imagex; gives its standard output.
pub fn wimlib(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("wimlib-imagex")
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .output();
    let output = output.expect("wimlib-imagex runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "wimlib-imagex {arguments:?}: {errors}");
    output.stdout
}

/// Opens a WIM from bytes.
pub fn open_bytes(bytes: Vec<u8>) -> Wim {
    Wim::open(Arc::new(bytes)).expect("the WIM opens")
}

/// Opens a WIM file.
pub fn open(path: &Path) -> Wim {
    open_bytes(std::fs::read(path).expect("the WIM is there"))
}

/// Path as `&str`; test paths are UTF-8.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// A small deterministic generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("a small number")
    }

    /// Bytes that a compressor finds interesting: runs, text, x86-like calls, noise, far repeats.
    pub fn data(&mut self, length: usize) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::with_capacity(length + 300);
        while out.len() < length {
            match self.below(7) {
                0 => {
                    let byte = self.next().to_le_bytes()[0];
                    out.extend(std::iter::repeat_n(byte, self.below(400) + 1));
                }
                1 => out.extend((0..self.below(200)).map(|_| self.next().to_le_bytes()[0])),
                2 => out.extend(format!("line {} of the text\r\n", self.below(1000)).bytes()),
                3 => {
                    out.push(0xe8);
                    let target = i32::try_from(self.below(60_000)).expect("small") - 20_000;
                    out.extend(target.to_le_bytes());
                }
                4 => {
                    let counter = u32::try_from(out.len()).expect("small");
                    let end = counter + u32::try_from(self.below(40)).expect("small") * 7;
                    for value in (counter..end).step_by(7) {
                        out.extend(value.to_le_bytes());
                    }
                }
                _ if !out.is_empty() => {
                    let back = self.below(out.len().min(1 << 20)) + 1;
                    let start = out.len() - back;
                    for at in start..start + self.below(300) {
                        out.push(out[at]);
                    }
                }
                _ => {}
            }
        }
        out.truncate(length);
        out
    }
}

/// Makes a random tree of files under `root`; gives nothing, for the tree is read back from the disk.
pub fn random_tree(root: &Path, seed: u64, files: usize, largest: usize) {
    let mut random = Random(seed);
    let mut directories = vec![root.to_path_buf()];
    std::fs::create_dir_all(root).expect("a directory");
    let names = [
        "a",
        "B b",
        "\u{e4}\u{f6}",
        "\u{65e5}\u{672c}",
        "x.txt",
        "l\u{1f600}",
        "CON",
        "trailing.",
        "A~1",
    ];
    for number in 0..files {
        let parent = directories[random.below(directories.len())].clone();
        let name = format!("{}{number}", names[random.below(names.len())]);
        let path = parent.join(name);
        match random.below(10) {
            0 => {
                std::fs::create_dir(&path).expect("a directory");
                directories.push(path);
            }
            1 => std::fs::write(&path, b"").expect("an empty file"),
            2 => {
                let long = parent.join(format!("{}{number}", "n".repeat(200)));
                std::fs::write(long, b"long name").expect("a file");
            }
            _ => {
                let length = match random.below(4) {
                    0 => random.below(100) + 1,
                    1 => random.below(40_000),
                    _ => random.below(largest) + 1,
                };
                std::fs::write(&path, random.data(length)).expect("a file");
                if random.below(5) == 0 {
                    std::fs::hard_link(&path, parent.join(format!("link{number}"))).expect("a hard link");
                }
            }
        }
    }
}

/// Every file below `root`: path with `/` and content.
pub fn files_below(root: &Path) -> std::collections::BTreeMap<String, Option<Vec<u8>>> {
    fn visit(root: &Path, at: &Path, files: &mut std::collections::BTreeMap<String, Option<Vec<u8>>>) {
        for entry in std::fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = format!("/{}", text(path.strip_prefix(root).expect("below the root")));
            if path.is_dir() {
                files.insert(name, None);
                visit(root, &path, files);
            } else {
                files.insert(name, Some(std::fs::read(&path).expect("a file")));
            }
        }
    }
    let mut files = std::collections::BTreeMap::new();
    visit(root, root, &mut files);
    files
}

/// Every file of an image as [`files_below`] gives them, each blob checked against its SHA-1.
pub fn files_of(wim: &Wim, index: u32) -> std::collections::BTreeMap<String, Option<Vec<u8>>> {
    let metadata = wim.metadata(index).expect("metadata");
    let mut files = std::collections::BTreeMap::new();
    for id in metadata.walk().skip(1) {
        let dentry = metadata.get(id);
        let path = String::from_utf16_lossy(&metadata.path_utf16(id)).replace('\\', "/");
        let content = (!dentry.is_directory()).then(|| {
            dentry.data.map_or_else(Vec::new, |sha1| {
                let blob = wim.find_blob(&sha1).expect("the blob is there");
                wim.read_blob(blob, 1 << 30)
                    .unwrap_or_else(|error| panic!("{path}: {}", chain(&error)))
            })
        });
        files.insert(path, content);
    }
    files
}

/// An error with what caused it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut shown = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        shown = format!("{shown}: {error}");
        source = error.source();
    }
    shown
}
