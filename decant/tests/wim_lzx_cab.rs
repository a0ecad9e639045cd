// SPDX-License-Identifier: GPL-3.0-or-later
//! The corpus's CAB files with LZX edge cases, through the LZX core of WIMs.
//!
//! A CAB's LZX stream differs from a WIM chunk: a bit (and 32 more) in front for the translation of calls, block lengths
//! always of 24 bits, a window that goes on over frames. Each file here is one frame of one block, so its stream can be
//! rewritten as a chunk, block header by block header; the trees and symbols, which are what is odd about these files,
//! stay bit for bit. Where 7z can read the file, it says what comes out.

mod wim_support;

use std::process::{Command, Stdio};

use vodka_decant::wim::decompress::{DecompressError, LzxDecompressor};
use wim_support::{corpus, text};

/// The only frame of a CAB's only folder.
struct Frame {
    window_bytes: u32,
    compressed: Vec<u8>,
    unpacked_bytes: usize,
}

fn frame(cab: &[u8]) -> Frame {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([cab[at], cab[at + 1]]));
    assert_eq!((&cab[..4], u16_at(26)), (b"MSCF".as_slice(), 1), "one folder");
    let data_at = u16_at(36);
    let (kind, window_order) = (cab[42] & 0xf, cab[43]);
    assert_eq!(kind, 3, "LZX");
    // One file's data are cut off.
    let end = (data_at + 8 + u16_at(data_at + 4)).min(cab.len());
    Frame {
        window_bytes: 1 << window_order,
        compressed: cab[data_at + 8..end].to_vec(),
        unpacked_bytes: u16_at(data_at + 6),
    }
}

struct Bits(Vec<bool>);

impl Bits {
    fn of(bytes: &[u8]) -> Self {
        let words = bytes
            .chunks(2)
            .map(|pair| u16::from(pair[0]) | u16::from(*pair.get(1).unwrap_or(&0)) << 8);
        Self(
            words
                .flat_map(|word| (0..16).rev().map(move |bit| word >> bit & 1 == 1))
                .collect(),
        )
    }

    fn number(&self, at: usize, count: usize) -> u32 {
        self.0[at..at + count]
            .iter()
            .fold(0, |number, &bit| number << 1 | u32::from(bit))
    }

    fn push(&mut self, number: u32, count: usize) {
        self.0.extend((0..count).rev().map(|bit| number >> bit & 1 == 1));
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(16), false);
        let words = self
            .0
            .chunks(16)
            .map(|word| word.iter().fold(0u16, |word, &bit| word << 1 | u16::from(bit)));
        words.flat_map(u16::to_le_bytes).collect()
    }
}

/// The stream as a WIM chunk.
fn as_chunk(frame: &Frame) -> Vec<u8> {
    let stream = Bits::of(&frame.compressed);
    let mut at = 1;
    if stream.0[0] {
        assert_eq!(
            stream.number(at, 32),
            12_000_000,
            "the file size for which WIMs translate calls"
        );
        at += 32;
    }
    let (kind, length) = (stream.number(at, 3), stream.number(at + 3, 24));
    at += 27;
    let mut chunk = Bits(Vec::new());
    chunk.push(kind, 3);
    chunk.push(0, 1);
    chunk.push(length, if frame.window_bytes > 1 << 15 { 24 } else { 16 });
    if kind == 3 {
        let start = (at / 16 + 1) * 2;
        let mut chunk = chunk.bytes();
        chunk.extend(&frame.compressed[start..]);
        return chunk;
    }
    chunk.0.extend(&stream.0[at..]);
    chunk.bytes()
}

fn decompress(name: &str) -> Option<Result<Vec<u8>, DecompressError>> {
    let path = corpus(&format!("lzx/{name}"))?;
    let frame = frame(&std::fs::read(path).expect("the corpus"));
    let mut output = vec![0; frame.unpacked_bytes];
    let mut lzx = LzxDecompressor::new(frame.window_bytes).expect("a window of WIMs");
    Some(lzx.decompress(&as_chunk(&frame), &mut output).map(|()| output))
}

/// What 7z makes of the file, if it is there and reads it.
fn seven_zip(name: &str) -> Option<Vec<u8>> {
    let path = corpus(&format!("lzx/{name}"))?;
    let output = Command::new("7z")
        .args(["x", "-so", text(&path)])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

#[test]
fn codewords_of_16_bits_are_read() {
    let Some(result) = decompress("lzx_16bit.cab") else {
        return;
    };
    let output = result.expect("valid");
    assert_eq!(output.len(), 16);
    if let Some(expected) = seven_zip("lzx_16bit.cab") {
        assert_eq!(output, expected);
    }
}

/// Calls with the largest and smallest operands, and in the last ten bytes.
#[test]
fn calls_are_translated_as_in_a_cab() {
    let Some(result) = decompress("lzx_e8.cab") else { return };
    let output = result.expect("valid");
    assert_eq!(output.len(), 30);
    // The fourth call has an absolute target of 270, at byte 15.
    assert_eq!(output[15..20], [0xe8, 0xff, 0, 0, 0]);
    // The last ten bytes stay.
    assert_eq!(
        output[20..],
        [0xe8, 0x12, 0x34, 0x56, 0x78, 0xe8, 0x87, 0x65, 0x43, 0x21]
    );
    if let Some(expected) = seven_zip("lzx_e8.cab") {
        assert_eq!(output, expected);
    }
}

/// Two files that differ in one bit: two literals, and a literal with a match that begins before the data.
#[test]
fn a_match_that_begins_before_the_data_is_refused() {
    let Some(control) = decompress("lzx_literal_control.cab") else {
        return;
    };
    let output = control.expect("valid");
    if let Some(expected) = seven_zip("lzx_literal_control.cab") {
        assert_eq!(output, expected);
    }
    let result = decompress("lzx_invalid_history.cab").expect("the corpus");
    assert!(
        matches!(
            result,
            Err(DecompressError::InvalidOffset { .. } | DecompressError::InvalidLength { .. })
        ),
        "{result:?}"
    );
}

/// A fuzzer's file, cut off in its only frame: it cannot be whole, and must only do no harm.
#[test]
fn a_fuzzers_file_is_refused() {
    let Some(result) = decompress("lzx_oob.cab") else {
        return;
    };
    assert!(result.is_err());
}
