// SPDX-License-Identifier: GPL-3.0-or-later
//! WIMs that wimlib-imagex wrote are read as wimlib-imagex reads them.

mod wim_support;

use wim_support::{Random, files_below, files_of, has_wimlib, open, random_tree, text, wimlib};

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

#[test]
fn an_lzms_capture_is_read_back() {
    for (seed, chunk_size) in (40..).zip(["32768", "131072", "1048576", "16777216"]) {
        captured_tree_is_read_back(&["--compress=lzms", "--chunk-size", chunk_size], seed, 60, 600_000);
    }
    captured_tree_is_read_back(&["--compress=lzms:100"], 50, 60, 300_000);
}

#[test]
fn a_solid_capture_is_read_back() {
    let solid = |compression: &'static str, chunk_size: &'static str| {
        [
            "--solid",
            "--solid-compress",
            compression,
            "--solid-chunk-size",
            chunk_size,
        ]
    };
    for (seed, options) in (60..).zip([
        solid("lzms", "32768"),
        solid("lzms", "1048576"),
        solid("lzms", "67108864"),
        solid("lzx", "32768"),
        solid("lzx", "2097152"),
        solid("xpress", "65536"),
    ]) {
        captured_tree_is_read_back(&options, seed, 60, 600_000);
    }
}

/// Bytes in which nearly everything looks like an instruction with a relative operand, with every ModRM byte, and
/// with few targets, so that LZMS believes that they are code.
fn like_x86(seed: u64, length: usize) -> Vec<u8> {
    const OPENINGS: [&[u8]; 10] = [
        &[0x48, 0x8b],
        &[0x48, 0x8d],
        &[0x4c, 0x8b],
        &[0x4c, 0x8d],
        &[0xe8],
        &[0xe9],
        &[0xf0, 0x83],
        &[0xff, 0x15],
        &[0xff, 0x25],
        &[0x90],
    ];
    let mut random = Random(seed);
    let mut data = Vec::new();
    while data.len() < length {
        let opening = OPENINGS[random.below(OPENINGS.len())];
        data.extend_from_slice(opening);
        let modrm = if random.below(2) == 0 { [0x05, 0x0d, 0x15, 0x9d][random.below(4)] } else { random.next() as u8 };
        if opening.len() == 2 && opening[0] != 0xff {
            data.push(modrm);
        }
        let target = 0x1000 + 16 * random.below(64);
        let operand = (target as u32).wrapping_sub(data.len() as u32);
        data.extend_from_slice(&operand.to_le_bytes());
        data.extend(std::iter::repeat_n(0x41, random.below(4)));
    }
    data
}

#[test]
fn lzms_takes_the_same_bytes_for_code_as_wimlib() {
    if !has_wimlib() {
        return;
    }
    for (seed, options) in [(90, ["--compress=lzms", "--chunk-size=1048576"]), (91, ["--solid", "--compress=lzms"])] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (tree, image) = (directory.path().join("tree"), directory.path().join("image.wim"));
        std::fs::create_dir(&tree).expect("a directory");
        for file in 0..4 {
            std::fs::write(tree.join(format!("code{file}")), like_x86(seed + 10 * file, 300_000)).expect("a file");
        }
        wimlib(&[&["capture", text(&tree), text(&image), "name"], options.as_slice()].concat());
        assert_eq!(files_of(&open(&image), 1), files_below(&tree));
    }
}
