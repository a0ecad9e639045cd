// SPDX-License-Identifier: GPL-3.0-or-later
//! The bit stream that is read from a chunk's end towards its front.

/// Reads bits from 16-bit little-endian words, the last word first, the most significant bit first. Before the input's
/// beginning stand zeros.
///
/// `buffer` holds the next bits left-aligned, `count` of which are accounted for; below them may stand more of the same.
#[derive(Debug)]
pub struct BackwardBits<'i> {
    /// What has not been read yet.
    rest: &'i [u8],
    buffer: u64,
    count: u32,
}

impl<'i> BackwardBits<'i> {
    pub fn new(input: &'i [u8]) -> Self {
        Self {
            rest: input,
            buffer: 0,
            count: 0,
        }
    }

    /// Makes at least 48 bits available.
    #[inline(always)]
    pub fn refill(&mut self) {
        if let Some(bytes) = self.rest.last_chunk::<8>() {
            // The last word is already on top.
            self.buffer |= u64::from_le_bytes(*bytes) >> self.count;
            // Never more than 3, which the mask says to the compiler.
            let words = ((63 - self.count) / 16) & 3;
            self.rest = &self.rest[..self.rest.len() - words as usize * 2];
            self.count += words * 16;
        } else {
            self.refill_at_end();
        }
    }

    #[cold]
    fn refill_at_end(&mut self) {
        while self.count < 48 {
            let word = match self.rest.split_last_chunk::<2>() {
                Some((rest, word)) => {
                    self.rest = rest;
                    u16::from_le_bytes(*word)
                }
                None => 0,
            };
            self.buffer |= u64::from(word) << (48 - self.count);
            self.count += 16;
        }
    }

    /// The next bits, left-aligned.
    #[inline(always)]
    pub fn peek(&self) -> u64 {
        self.buffer
    }

    /// Takes `bits` bits, which must be available.
    #[inline(always)]
    pub fn consume(&mut self, bits: u32) {
        debug_assert!(bits <= self.count);
        self.buffer <<= bits & 63;
        self.count = self.count.wrapping_sub(bits);
    }

    /// Takes and gives `bits` bits, at most 32, which must be available.
    #[inline(always)]
    pub fn take(&mut self, bits: u32) -> u32 {
        let value = (self.buffer >> 1 >> (63 - bits)) as u32;
        self.consume(bits);
        value
    }
}
