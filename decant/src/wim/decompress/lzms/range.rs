// SPDX-License-Identifier: GPL-3.0-or-later
//! The range coder: decisions whose probability is learned from their last 64 outcomes.

/// Reads decisions from the chunk's front, in 16-bit little-endian words. Behind the input's end come zeros.
#[derive(Debug)]
pub struct RangeDecoder<'i> {
    input: &'i [u8],
    position: usize,
    range: u32,
    code: u32,
}

/// A kind of decision: the chance of each of `N` (a power of two) states, and the state, which is the last outcomes.
#[derive(Debug)]
pub struct Probabilities<const N: usize> {
    state: usize,
    chances: [Chance; N],
}

/// The last 64 outcomes, and how many of them were 0.
#[derive(Clone, Copy, Debug)]
struct Chance {
    outcomes: u64,
    zeros: u32,
}

impl<const N: usize> Default for Probabilities<N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self {
            state: 0,
            chances: [Chance {
                outcomes: 0x5555_5555,
                zeros: 48,
            }; N],
        }
    }
}

impl<'i> RangeDecoder<'i> {
    pub fn new(input: &'i [u8]) -> Self {
        let mut decoder = Self {
            input,
            position: 0,
            range: u32::MAX,
            code: 0,
        };
        decoder.code = decoder.word() << 16 | decoder.word();
        decoder
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        let bytes = self.input.get(self.position..).and_then(<[u8]>::first_chunk::<2>);
        self.position += 2;
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes).into())
    }

    /// The next decision of this kind.
    #[inline(always)]
    pub fn bit<const N: usize>(&mut self, kind: &mut Probabilities<N>) -> bool {
        if self.range <= 0xffff {
            self.range <<= 16;
            self.code = self.code << 16 | self.word();
        }
        let chance = &mut kind.chances[kind.state & (N - 1)];
        // Neither outcome is ever impossible.
        let bound = (self.range >> 6) * chance.zeros.clamp(1, 63);
        let outcome = self.code >= bound;
        if outcome {
            self.range -= bound;
            self.code -= bound;
        } else {
            self.range = bound;
        }
        let oldest = (chance.outcomes >> 63) as u32;
        chance.zeros = chance.zeros.wrapping_add(oldest).wrapping_sub(u32::from(outcome));
        chance.outcomes = chance.outcomes << 1 | u64::from(outcome);
        kind.state = kind.state << 1 | usize::from(outcome);
        outcome
    }
}
