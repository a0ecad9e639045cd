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

/// x86 instructions at the edges of a chunk and of what is believed to be code: wimlib's compressor translates them, so
/// the wrong notion of where the translation begins or ends gives the wrong bytes.
#[test]
fn lzms_translates_instructions_at_every_edge_as_wimlib_does() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (tree, image) = (directory.path().join("tree"), directory.path().join("image.wim"));
    std::fs::create_dir(&tree).expect("a directory");
    let opcodes: [&[u8]; 9] = [
        &[0xe8],
        &[0xe9],
        &[0xff, 0x15],
        &[0xf0, 0x83, 0x05],
        &[0x48, 0x8b, 0x05],
        &[0x48, 0x8d, 0x0d],
        &[0x4c, 0x8d, 0x35],
        &[0x4c, 0x8b, 0x05],
        &[0x48, 0x8d, 0x06],
    ];
    let mut random = wim_support::Random(7);
    for number in 0..400 {
        let length = 100 + random.below(4000);
        let mut data = vec![0u8; length];
        let targets = [0x1000i32, 0x2345, 0x777];
        // The first begins at byte 0 or right behind it, others end in or near the tail.
        let mut at = random.below(3);
        while at < length {
            let opcode = opcodes[random.below(opcodes.len())];
            let target = targets[random.below(targets.len())];
            let operand = target.wrapping_sub(i32::try_from(at).expect("small")).to_le_bytes();
            for (slot, byte) in data[at..].iter_mut().zip(opcode.iter().chain(&operand)) {
                *slot = *byte;
            }
            at += [5, 7, 20, 500, 520, 1000, 1030, 1100][random.below(8)];
        }
        std::fs::write(tree.join(number.to_string()), data).expect("a file");
    }
    // Two calls of one target are believed; then one instruction of another target at every distance that matters from
    // them, and from the chunk's end.
    let believed = |length: usize, second: usize, at: usize, opcode: &[u8]| {
        let mut data = vec![0u8; length];
        for (at, opcode, target) in [
            (10, opcodes[0], 500i32),
            (second, opcodes[0], 500),
            (at, opcode, 0x1234),
        ] {
            let operand = target.wrapping_sub(i32::try_from(at).expect("small")).to_le_bytes();
            for (slot, byte) in data[at..].iter_mut().zip(opcode.iter().chain(&operand)) {
                *slot = *byte;
            }
        }
        data
    };
    for opcode in opcodes {
        let kind = opcode.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for distance in (505..520).chain(1017..1030) {
            std::fs::write(
                tree.join(format!("{kind} after {distance}")),
                believed(2000, 15, 19 + distance, opcode),
            )
            .expect("a file");
        }
        for left in 4..24 {
            std::fs::write(
                tree.join(format!("{kind} before {left}")),
                believed(200, 15, 200 - left, opcode),
            )
            .expect("a file");
        }
    }
    for second in 65_540..65_552 {
        let data = believed(66_000, second, second + 100, opcodes[2]);
        std::fs::write(tree.join(format!("second at {second}")), data).expect("a file");
    }
    std::fs::write(tree.join("lock add"), believed(500, 15, 100, &[0xf0, 0x83, 0x0d])).expect("a file");
    wimlib(&["capture", text(&tree), text(&image), "name", "--compress=lzms"]);
    let (found, expected) = (files_of(&open(&image), 1), files_below(&tree));
    assert!(found == expected);
}

/// Random trees with random settings; `VODKA_RANDOM_WIMS` says how many (8 when unset).
#[test]
fn random_wims_are_read_back() {
    let count = std::env::var("VODKA_RANDOM_WIMS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(8);
    for seed in 1000..1000 + count {
        let mut random = wim_support::Random(seed);
        let compression = ["none", "xpress", "lzx", "lzms", "lzx:20", "lzms:20"][random.below(6)];
        let kind = compression.split(':').next().unwrap_or(compression);
        let chunk_bits = match kind {
            "xpress" => 12 + random.below(5),
            "lzx" => 15 + random.below(7),
            _ => 15 + random.below(8),
        };
        let chunk_size = format!("--chunk-size={}", 1 << chunk_bits);
        let solid_chunk_size = format!("--solid-chunk-size={}", 1 << chunk_bits);
        let (compress, solid_compress) = (format!("--compress={compression}"), format!("--solid-compress={kind}"));
        let options: &[&str] = match (kind, random.below(3)) {
            ("none", _) => &[&compress],
            (_, 0) => &["--solid", &solid_compress, &solid_chunk_size],
            _ => &[&compress, &chunk_size],
        };
        captured_tree_is_read_back(options, seed, 1 + random.below(40), 1 + random.below(200_000));
    }
}
