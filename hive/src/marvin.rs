// SPDX-License-Identifier: GPL-3.0-or-later
//! The Marvin32 hash, which guards the entries of new-format logs.

/// The Marvin32 hash (N. Ferguson's checksum, as .NET documents it for strings).
#[must_use]
pub fn marvin32(seed: u64, bytes: &[u8]) -> u64 {
    fn mix(state: (u32, u32), word: u32) -> (u32, u32) {
        let (mut low, mut high) = state;
        low = low.wrapping_add(word);
        high ^= low;
        low = low.rotate_left(20).wrapping_add(high);
        high = high.rotate_left(9) ^ low;
        low = low.rotate_left(27).wrapping_add(high);
        (low, high.rotate_left(19))
    }
    #[allow(clippy::cast_possible_truncation)] // The two halves of the seed.
    let mut state = (seed as u32, (seed >> 32) as u32);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        state = mix(state, u32::from_le_bytes(*word));
    }
    let mut last = [0, 0, 0, 0];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    state = mix(mix(state, u32::from_le_bytes(last)), 0);
    u64::from(state.1) << 32 | u64::from(state.0)
}
