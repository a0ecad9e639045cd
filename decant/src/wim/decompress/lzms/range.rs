// SPDX-License-Identifier: GPL-3.0-or-later
//! The range coder: decisions whose probability is learned from their last 64 outcomes.

/// Reads decisions from the chunk's front, in 16-bit little-endian words. Behind the input's end come zeros.
#[derive(Debug)]
pub struct RangeDecoder<'i> {
    rest: &'i [u8],
    range: u32,
    code: u32,
}

/// A kind of decision: the chance in each of `N` (a power of two) states, which are the last outcomes.
///
/// The state itself is kept apart by the caller, so that it can stay in a register.
#[derive(Debug)]
pub struct Chances<const N: usize>([Chance; N]);

/// The last 64 outcomes, and how many of them were 0.
#[derive(Clone, Copy, Debug)]
struct Chance {
    outcomes: u64,
    zeros: u32,
    /// As `zeros`, but neither outcome is ever impossible. Kept, for the next decision waits for it.
    bounded_zeros: u32,
}

impl<const N: usize> Default for Chances<N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self(
            [Chance {
                outcomes: 0x5555_5555,
                zeros: 48,
                bounded_zeros: 48,
            }; N],
        )
    }
}

impl<'i> RangeDecoder<'i> {
    pub fn new(input: &'i [u8]) -> Self {
        let mut decoder = Self {
            rest: input,
            range: u32::MAX,
            code: 0,
        };
        decoder.code = decoder.word() << 16 | decoder.word();
        decoder
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<2>() else {
            return 0;
        };
        self.rest = rest;
        u16::from_le_bytes(*bytes).into()
    }

    /// The next decision of this kind, in this state, which it changes.
    #[inline(always)]
    pub fn bit<const N: usize>(&mut self, chances: &mut Chances<N>, state: &mut usize) -> bool {
        if self.range <= 0xffff {
            self.range <<= 16;
            self.code = self.code << 16 | self.word();
        }
        let chance = &mut chances.0[*state & (N - 1)];
        let bound = (self.range >> 6) * chance.bounded_zeros;
        let oldest = (chance.outcomes >> 63) as u32;
        let outcome = self.code >= bound;
        if outcome {
            self.range -= bound;
            self.code -= bound;
            chance.zeros = chance.zeros.wrapping_add(oldest).wrapping_sub(1);
        } else {
            self.range = bound;
            chance.zeros = chance.zeros.wrapping_add(oldest);
        }
        chance.bounded_zeros = chance.zeros.clamp(1, 63);
        chance.outcomes = chance.outcomes << 1 | u64::from(outcome);
        *state = *state << 1 | usize::from(outcome);
        outcome
    }
}
