// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutated WIMs, chunks and XML: no panic, no hang, and never a blob whose SHA-1 is wrong reported as good.
//!
//! Seeded and counted: `VODKA_MUTATIONS` says how many of each kind (300 when unset), `VODKA_MUTATION_SEED` where to begin.
#![allow(clippy::print_stderr, reason = "the counts are the result")]

mod wim_support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fixtures::wim_writer::{Image, Node, WimWriter, encode_xml};
use vodka_decant::wim::decompress::{LzmsDecompressor, LzxDecompressor, XpressDecompressor};
use vodka_decant::wim::{BlobReader, Compression, ResourceId, Sha1Hash, Wim};
use wim_support::{Random, corpus, has_wimlib, random_tree, text, wimlib};

/// Nothing here takes longer; a hang would.
const LIMIT: Duration = Duration::from_secs(5);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

fn mutations() -> u64 {
    setting("VODKA_MUTATIONS", 300)
}

fn random(kind: u64, number: u64) -> Random {
    Random(setting("VODKA_MUTATION_SEED", 0) << 40 ^ kind << 32 ^ number)
}

/// Changes some bytes: bits, whole fields, swaps of pieces, cuts.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let Some(last) = bytes.len().checked_sub(1) else { return };
        // Half of the changes are in structures at the beginning or the end.
        let at = match random.below(4) {
            0 => random.below(208.min(last + 1)),
            1 => last - random.below(2000.min(last + 1)),
            _ => random.below(last + 1),
        };
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => {
                let value = [
                    0u64,
                    1,
                    8,
                    u64::MAX,
                    1 << 31,
                    1 << 32,
                    i64::MAX.cast_unsigned(),
                    random.next(),
                ][random.below(8)];
                let width = [2, 4, 8][random.below(3)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            3 => {
                let length = random.below(64).min(bytes.len() - at);
                let from = random.below(bytes.len() - length + 1);
                bytes.copy_within(from..from + length, at);
            }
            4 if random.below(8) == 0 => bytes.truncate(at),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

/// Reads everything that can be read. Blobs that are reported as good are good.
fn read_all(bytes: Vec<u8>) -> (u64, u64) {
    let (mut good, mut bad) = (0, 0);
    let Ok(wim) = Wim::open(Arc::new(bytes)) else {
        return (0, 1);
    };
    let indexes: Vec<u32> = match wim.info() {
        Ok(info) => info.images.iter().map(|image| image.index).collect(),
        Err(_) => return (0, 1),
    };
    for index in indexes {
        match wim.metadata(index) {
            Ok(metadata) => {
                for id in metadata.walk() {
                    let dentry = metadata.get(id);
                    assert!(dentry.parent.is_none() || vodka_decant::wim::check_name(dentry.name).is_ok());
                    let _ = (
                        metadata.path(id),
                        dentry.named_streams().count(),
                        dentry.tagged_items().count(),
                    );
                }
                let _ = (metadata.case_duplicates(), metadata.lookup("a/b"));
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    let Ok(blobs) = wim.blobs() else { return (good, bad + 1) };
    let mut reader = BlobReader::new(&wim);
    for (id, blob) in blobs.iter().take(200) {
        let mut content = Vec::new();
        let result = reader.read(id, &mut |block| {
            if content.len() + block.len() > 64 << 20 {
                return Err(std::io::ErrorKind::OutOfMemory.into());
            }
            content.extend_from_slice(block);
            Ok(())
        });
        match result {
            Ok(()) => {
                assert_eq!(Sha1Hash::of(&content), blob.sha1, "reported as good");
                good += 1;
            }
            Err(error) => {
                let _ = wim_support::chain(&error);
                bad += 1;
            }
        }
    }
    (good, bad)
}

fn mutate_wims(kind: u64, name: &str, seeds: &[Vec<u8>]) {
    let (mut good, mut bad) = (0, 0);
    let mut slowest = Duration::ZERO;
    for number in 0..mutations() {
        let mut random = random(kind, number);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        let start = Instant::now();
        let (more_good, more_bad) = read_all(bytes);
        slowest = slowest.max(start.elapsed());
        assert!(slowest < LIMIT, "mutation {number} took {slowest:?}");
        (good, bad) = (good + more_good, bad + more_bad);
    }
    eprintln!(
        "{name}: {} mutations, {good} parts good, {bad} refused, slowest {slowest:?}",
        mutations()
    );
    assert!(
        good > 0 && bad > 0,
        "mutations that change nothing, or everything, test nothing"
    );
}

#[test]
fn mutated_wims_with_every_metadata_kind_do_no_harm() {
    let mut seeds = Vec::new();
    let mut image = Image::new(
        "seed",
        vec![
            Node::directory(
                "dir",
                vec![
                    Node::file("f", "x").with_hard_link_group(3),
                    Node::file("g", "x").with_hard_link_group(3),
                ],
            ),
            Node::file("s", "main").with_stream("a", "b").with_short_name("S~1"),
            Node::junction("j", "C:\\x"),
            Node::file("o", "p").with_tagged_item(1, [1; 64]),
        ],
    );
    image.security_descriptors = vec![vec![1; 40], vec![2; 30]];
    seeds.push(WimWriter::new(vec![image.clone(), image]).build());
    if let Some(directory) = corpus("wim") {
        for name in [
            "cyclic.wim",
            "dotdot.wim",
            "duplicate_names.wim",
            "empty_dacl.wim",
            "corrupted_file_1.wim",
        ] {
            seeds.push(std::fs::read(directory.join(name)).expect("the corpus"));
        }
    }
    mutate_wims(1, "uncompressed WIMs", &seeds);
}

/// The metadata resource mutated with its hash made right again, so that the parser sees it.
#[test]
fn mutated_metadata_with_a_right_hash_do_no_harm() {
    thread_local! {
        static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    let edit: fn(&mut Vec<u8>) = |bytes| mutate(bytes, &mut random(2, NUMBER.get()));
    let (mut good, mut bad) = (0, 0);
    for number in 0..mutations() {
        NUMBER.set(number);
        let nodes = vec![
            Node::directory(
                "d",
                vec![Node::directory("e", vec![Node::file("f", "x").with_stream("s", "t")])],
            ),
            Node::symlink("l", "x", true),
            Node::file("g", "y").with_short_name("G~1").with_tagged_item(7, [7; 20]),
        ];
        let writer = WimWriter {
            edit_metadata: Some(edit),
            ..WimWriter::new(vec![Image::new("m", nodes)])
        };
        let (more_good, more_bad) = read_all(writer.build());
        (good, bad) = (good + more_good, bad + more_bad);
    }
    eprintln!("metadata: {} mutations, {good} parts good, {bad} refused", mutations());
    assert!(good > 0 && bad > 0);
}

#[test]
fn mutated_compressed_wims_do_no_harm() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tree = directory.path().join("tree");
    random_tree(&tree, 5, 25, 50_000);
    let options: [&[&str]; 6] = [
        &["--compress=xpress"],
        &["--compress=lzx"],
        &["--compress=lzms"],
        &["--solid", "--solid-chunk-size=65536"],
        &["--solid", "--solid-compress=lzx"],
        &["--compress=none"],
    ];
    let seeds: Vec<Vec<u8>> = options
        .iter()
        .map(|options| {
            let image = directory.path().join("image.wim");
            wimlib(&[&["capture", text(&tree), text(&image), "name"], *options].concat());
            let bytes = std::fs::read(&image).expect("written");
            std::fs::remove_file(image).expect("removed");
            bytes
        })
        .collect();
    mutate_wims(3, "compressed WIMs", &seeds);
}

#[test]
fn mutated_chunks_do_no_harm() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tree = directory.path().join("tree");
    random_tree(&tree, 6, 30, 100_000);
    let mut seeds: Vec<(Compression, u32, Vec<u8>, u32)> = Vec::new();
    for (compression, chunk_size) in [("xpress", 32768), ("lzx", 32768), ("lzx", 131_072), ("lzms", 32768)] {
        let image = directory.path().join("image.wim");
        let options = [
            format!("--compress={compression}"),
            format!("--chunk-size={chunk_size}"),
        ];
        wimlib(&["capture", text(&tree), text(&image), "name", &options[0], &options[1]]);
        let wim = wim_support::open(&image);
        for (id, _) in wim.blobs().expect("blobs").iter() {
            let layout = wim.layout(ResourceId::Blob(id)).expect("a layout");
            for chunk in (0..layout.chunk_count())
                .map(|index| layout.chunk(index))
                .filter(|chunk| chunk.compressed)
            {
                let mut stored = Vec::new();
                wim.read_stored(&layout, &chunk, &mut stored).expect("read");
                seeds.push((layout.compression(), chunk_size, stored, chunk.size_bytes));
            }
        }
        std::fs::remove_file(image).expect("removed");
    }
    let (mut xpress, mut lzms) = (XpressDecompressor::default(), LzmsDecompressor::default());
    let mut lzx_32k = LzxDecompressor::new(32768).expect("a window");
    let mut lzx_128k = LzxDecompressor::new(131_072).expect("a window");
    let (mut decoded, mut refused) = (0u64, 0u64);
    let mut output = vec![0u8; 131_072];
    for number in 0..mutations() * 10 {
        let mut random = random(4, number);
        let (compression, chunk_size, stored, size_bytes) = &seeds[random.below(seeds.len())];
        let mut stored = stored.clone();
        mutate(&mut stored, &mut random);
        let size = if random.below(10) == 0 {
            random.below(131_072)
        } else {
            *size_bytes as usize
        };
        let output = &mut output[..size.min(*chunk_size as usize)];
        let start = Instant::now();
        let result = match compression {
            Compression::Xpress => xpress.decompress(&stored, output),
            Compression::Lzx if *chunk_size == 32768 => lzx_32k.decompress(&stored, output),
            Compression::Lzx => lzx_128k.decompress(&stored, output),
            _ => lzms.decompress(&stored, output),
        };
        assert!(start.elapsed() < LIMIT, "mutation {number} of {compression}");
        *if result.is_ok() { &mut decoded } else { &mut refused } += 1;
    }
    eprintln!(
        "chunks: {} mutations of {} chunks, {decoded} decoded, {refused} refused",
        mutations() * 10,
        seeds.len()
    );
    assert!(refused > 0);
}

#[test]
fn mutated_xml_does_no_harm() {
    let xml = "<WIM><TOTALBYTES>1</TOTALBYTES><IMAGE INDEX=\"1\"><NAME>N &amp; &#65; <![CDATA[c]]></NAME><!-- c --><DIRCOUNT>3</DIRCOUNT>\
        <CREATIONTIME><HIGHPART>0x01D5C03A</HIGHPART><LOWPART>0x8BC20000</LOWPART></CREATIONTIME><WINDOWS><ARCH>9</ARCH>\
        <LANGUAGES><LANGUAGE>en-US</LANGUAGE><FALLBACK LANGUAGE=\"de\">en</FALLBACK></LANGUAGES><VERSION><BUILD>26100</BUILD></VERSION>\
        <EDITIONS><EDITION ID=\"x\"/></EDITIONS></WINDOWS></IMAGE><IMAGE INDEX=\"2\"><NAME/></IMAGE></WIM>";
    let (mut parsed, mut refused) = (0u64, 0u64);
    for number in 0..mutations() * 4 {
        let mut random = random(5, number);
        let mut bytes = encode_xml(xml);
        mutate(&mut bytes, &mut random);
        let writer = WimWriter {
            raw_xml: Some(bytes),
            ..WimWriter::new(vec![])
        };
        let wim = wim_support::open_bytes(writer.build());
        match wim.info() {
            Ok(info) => {
                for image in &info.images {
                    let _ = (image.shown_name(), image.kind(), image.room_bytes());
                }
                parsed += 1;
            }
            Err(_) => refused += 1,
        }
    }
    eprintln!("XML: {} mutations, {parsed} parsed, {refused} refused", mutations() * 4);
    assert!(parsed > 0 && refused > 0);
}
