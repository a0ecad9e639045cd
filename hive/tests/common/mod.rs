// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tests of this crate share.
#![allow(dead_code, clippy::print_stderr)] // Each test program uses its part; tests say what they skip.

use std::path::PathBuf;

/// The folder of the corpus: `VODKA_CORPUS`, or beside the workspace.
pub fn corpus_dir() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let near = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let dir = std::env::var_os("VODKA_CORPUS").map(PathBuf::from);
    let found = dir
        .into_iter()
        .chain([near(), beside()])
        .find(|dir| dir.join("hive").is_dir());
    if found.is_none() {
        eprintln!("skipped: no corpus at ../shared/corpus (VODKA_CORPUS names another place)");
    }
    found
}

/// A file of the corpus, by its name in the manifest.
pub fn corpus(name: &str) -> Option<Vec<u8>> {
    let path = corpus_dir()?.join(name);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Takes a file of the corpus or ends the test.
#[macro_export]
macro_rules! corpus_or_skip {
    ($name:expr) => {
        match $crate::common::corpus($name) {
            Some(bytes) => bytes,
            None => return,
        }
    };
}
