// SPDX-License-Identifier: GPL-3.0-or-later
//! XPRESS chunks. The first two bytes are the length that the chunk is to have; the rest is the chunk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vodka_decant::wim::decompress::XpressDecompressor;

fuzz_target!(|bytes: &[u8]| {
    let [low, high, input @ ..] = bytes else { return };
    let mut output = vec![0; usize::from(u16::from_le_bytes([*low, *high]))];
    let _ = XpressDecompressor::default().decompress(input, &mut output);
});
