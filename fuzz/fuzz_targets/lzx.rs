// SPDX-License-Identifier: GPL-3.0-or-later
//! LZX chunks. The first two bytes are the length that the chunk is to have; the rest is the chunk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vodka_decant::wim::decompress::LzxDecompressor;

fuzz_target!(|bytes: &[u8]| {
    let [low, high, input @ ..] = bytes else { return };
    let mut output = vec![0; usize::from(u16::from_le_bytes([*low, *high])).min(32_768)];
    if let Some(mut decompressor) = LzxDecompressor::new(32_768) {
        let _ = decompressor.decompress(input, &mut output);
        // Twice: what one chunk leaves behind must not matter to the next.
        let _ = decompressor.decompress(input, &mut output);
    }
});
