// SPDX-License-Identifier: GPL-3.0-or-later
//! WIMs that wimlib-imagex wrote are read as wimlib-imagex reads them.

mod wim_support;

use wim_support::{files_below, files_of, has_wimlib, open, random_tree, text, wimlib};

fn captured_tree_is_read_back(options: &[&str], seed: u64, files: usize, largest: usize) {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (tree, image) = (directory.path().join("tree"), directory.path().join("image.wim"));
    random_tree(&tree, seed, files, largest);
    wimlib(&[&["capture", text(&tree), text(&image), "name"], options].concat());
    let wim = open(&image);
    let (found, expected) = (files_of(&wim, 1), files_below(&tree));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, content) in &expected {
        assert!(found[path] == *content, "{path} differs");
    }
}

#[test]
fn an_uncompressed_capture_is_read_back() {
    captured_tree_is_read_back(&["--compress=none"], 1, 120, 3_000_000);
}

#[test]
fn an_xpress_capture_is_read_back() {
    for (seed, chunk_size) in [(2, "4096"), (3, "8192"), (4, "32768"), (5, "65536")] {
        captured_tree_is_read_back(&["--compress=xpress", "--chunk-size", chunk_size], seed, 100, 300_000);
    }
    captured_tree_is_read_back(&["--compress=xpress:100"], 12, 100, 300_000);
}

#[test]
fn an_lzx_capture_is_read_back() {
    let sizes = ["32768", "65536", "131072", "262144", "524288", "1048576", "2097152"];
    for (seed, chunk_size) in (20..).zip(sizes) {
        captured_tree_is_read_back(&["--compress=lzx", "--chunk-size", chunk_size], seed, 60, 600_000);
    }
    captured_tree_is_read_back(&["--compress=lzx:100"], 30, 60, 300_000);
    captured_tree_is_read_back(&["--compress=lzx:10"], 31, 60, 300_000);
}
