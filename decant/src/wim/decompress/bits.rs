// SPDX-License-Identifier: GPL-3.0-or-later
//! The bit stream of XPRESS and LZX: 16-bit little-endian words, the most significant bit first.

/// Reads bits from 16-bit little-endian words, and bytes between them.
///
/// `buffer` holds the next bits left-aligned, `count` of which are accounted for. Below them may stand further bits of
/// the same stream (never other ones), so that a refill can simply be or-ed in. Behind the input's end come zeros.
#[derive(Debug)]
pub struct BitReader<'i> {
    input: &'i [u8],
    /// What is behind the words read so far.
    rest: &'i [u8],
    /// Zero bytes that were read behind the input's end.
    missing: usize,
    buffer: u64,
    count: u32,
}

/// Bits that are there after [`BitReader::refill`].
pub const REFILLED_BITS: u32 = 48;

impl<'i> BitReader<'i> {
    /// A reader at the start of `input`.
    pub fn new(input: &'i [u8]) -> Self {
        Self {
            input,
            rest: input,
            missing: 0,
            buffer: 0,
            count: 0,
        }
    }

    /// Makes at least [`REFILLED_BITS`] bits available.
    #[inline(always)]
    pub fn refill(&mut self) {
        if let Some(bytes) = self.rest.first_chunk::<8>() {
            self.buffer |= first_word_on_top(u64::from_le_bytes(*bytes)) >> self.count;
            // Never more than 3, which the mask says to the compiler.
            let words = ((63 - self.count) / 16) & 3;
            self.rest = &self.rest[words as usize * 2..];
            self.count += words * 16;
        } else {
            self.refill_at_end();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill_at_end(&mut self) {
        while self.count < REFILLED_BITS {
            let word = match self.rest {
                [low, high, rest @ ..] => {
                    self.rest = rest;
                    u16::from_le_bytes([*low, *high])
                }
                [low] => {
                    self.rest = &[];
                    self.missing += 1;
                    (*low).into()
                }
                [] => {
                    self.missing = self.missing.saturating_add(2);
                    0
                }
            };
            self.buffer |= u64::from(word) << (48 - self.count);
            self.count += 16;
        }
    }

    /// How many bytes were read, those behind the input's end counted.
    fn position(&self) -> usize {
        (self.input.len() - self.rest.len()).saturating_add(self.missing)
    }

    fn set_position(&mut self, position: usize) {
        self.rest = self.input.get(position..).unwrap_or(&[]);
        self.missing = position.saturating_sub(self.input.len());
    }

    /// Bits that are available without a refill.
    #[inline(always)]
    pub fn available(&self) -> u32 {
        self.count
    }

    /// The next bits, left-aligned; only [`Self::available`] of them are sure to be there.
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
        debug_assert!(bits <= 32);
        // Two shifts, for one by 64 is not defined; the result has `bits` bits.
        #[allow(clippy::cast_possible_truncation)]
        let value = (self.buffer >> 1 >> (63 - bits)) as u32;
        self.consume(bits);
        value
    }

    /// Refills and takes.
    #[inline]
    pub fn read(&mut self, bits: u32) -> u32 {
        self.refill();
        self.take(bits)
    }

    /// Gives back every whole word but the next `keep_bits` bits and what completes their word, so that bytes can be
    /// read from where a reader that holds `keep_bits` to `keep_bits + 15` bits would read them.
    #[inline]
    pub fn give_back(&mut self, keep_bits: u32) {
        let words = self.count.saturating_sub(keep_bits) / 16;
        self.set_position(self.position().saturating_sub(words as usize * 2));
        self.count -= words * 16;
        self.buffer = if self.count == 0 {
            0
        } else {
            self.buffer & (u64::MAX << (64 - self.count))
        };
    }

    /// Takes the next `N` bytes behind the words read so far; [`Self::give_back`] comes before.
    #[inline]
    pub fn take_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Takes the next `length` bytes; as [`Self::take_bytes`].
    pub fn take_slice(&mut self, length: usize) -> Option<&'i [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Drops the rest of the current word, or a whole word at a word's beginning, and what was read ahead.
    pub fn skip_to_next_word(&mut self) {
        let bits_consumed = self.position().saturating_mul(8).saturating_sub(self.count as usize);
        self.set_position((bits_consumed / 16 + 1) * 2);
        self.buffer = 0;
        self.count = 0;
    }

    /// Whether more was consumed than the input holds.
    pub fn is_overrun(&self) -> bool {
        self.position().saturating_sub((self.count / 8) as usize) > self.input.len().saturating_add(1)
    }
}

/// Reverses the order of the four 16-bit words.
#[inline(always)]
fn first_word_on_top(words: u64) -> u64 {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    let halves = words.rotate_left(32);
    (halves & EVEN) << 16 | halves >> 16 & EVEN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same stream, bit by bit.
    fn reference_bits(input: &[u8]) -> Vec<u32> {
        let words = input
            .chunks(2)
            .map(|pair| u16::from(pair[0]) | pair.get(1).map_or(0, |&high| u16::from(high) << 8));
        words
            .flat_map(|word| (0..16).rev().map(move |bit| u32::from(word >> bit & 1)))
            .collect()
    }

    #[test]
    fn every_bit_comes_in_order_whatever_the_widths() {
        let input: Vec<u8> = (0..200u32).map(|i| (i * 167 % 251) as u8).collect();
        let expected = reference_bits(&input);
        for width in 1..=32 {
            let mut reader = BitReader::new(&input);
            let mut got = Vec::new();
            while got.len() + width as usize <= expected.len() {
                let value = reader.read(width);
                got.extend((0..width).rev().map(|bit| value >> bit & 1));
            }
            assert_eq!(got, expected[..got.len()], "width {width}");
            assert!(!reader.is_overrun());
        }
    }

    #[test]
    fn behind_the_end_come_zeros_and_the_overrun_is_told() {
        let mut reader = BitReader::new(&[0xff, 0xff, 0xff]);
        assert_eq!(reader.read(16), 0xffff);
        assert_eq!(reader.read(16), 0x00ff);
        assert!(!reader.is_overrun());
        assert_eq!(reader.read(32), 0);
        assert!(reader.is_overrun());
    }

    #[test]
    fn bytes_stand_where_a_16_bit_reader_would_find_them() {
        let input: Vec<u8> = (0..32).collect();
        let mut reader = BitReader::new(&input);
        reader.refill();
        reader.consume(3);
        // 29 of the first 32 bits are kept, so the byte is the fifth.
        reader.give_back(16);
        assert_eq!(reader.take_bytes::<1>(), Some([4]));
        assert_eq!(reader.read(13), 0x0100);
        assert_eq!(reader.read(16), 0x0302);
        assert_eq!(reader.read(16), 0x0605);
    }
}
