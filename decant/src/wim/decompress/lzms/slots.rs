// SPDX-License-Identifier: GPL-3.0-or-later
//! Slots: ranges of offsets and lengths, each a symbol and some plain bits.

use super::backward::BackwardBits;

/// Slots of offsets.
pub const OFFSET_SLOTS: usize = 799;
/// Slots of lengths.
pub const LENGTH_SLOTS: usize = 54;

/// For each slot, its smallest value and how many bits tell the value in it.
#[derive(Debug)]
pub struct Slots<const N: usize> {
    slots: [(u32, u8); N],
}

/// The slots of offsets.
pub static OFFSETS: Slots<1024> = Slots::new(
    // How many slots have 1, 2, 4, … values.
    &[
        9, 0, 9, 7, 10, 15, 15, 20, 20, 30, 33, 40, 42, 45, 60, 73, 80, 85, 95, 105, 6,
    ],
    OFFSET_SLOTS,
    0x7fff_ffff,
);
/// The slots of lengths.
pub static LENGTHS: Slots<64> = Slots::new(
    &[27, 4, 6, 4, 5, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1],
    LENGTH_SLOTS,
    0x4001_08ab,
);

impl<const N: usize> Slots<N> {
    /// `runs[k]` slots begin `1 << k` behind the slot before; the last slot ends at `end`.
    const fn new(runs: &[usize], count: usize, end: u32) -> Self {
        let mut slots = [(0u32, 0u8); N];
        let (mut order, mut slot, mut base) = (0, 0, 0u32);
        while order < runs.len() {
            let mut left = runs[order];
            while left > 0 {
                base += 1 << order;
                slots[slot].0 = base;
                slot += 1;
                left -= 1;
            }
            order += 1;
        }
        assert!(slot == count);
        let mut slot = 0;
        while slot < count {
            let next = if slot + 1 < count { slots[slot + 1].0 } else { end };
            slots[slot].1 = (next - slots[slot].0).ilog2() as u8;
            slot += 1;
        }
        Self { slots }
    }

    /// The value in `slot` that the next bits tell; at most 30 bits.
    #[inline(always)]
    pub fn value(&self, slot: u32, bits: &mut BackwardBits<'_>) -> u32 {
        let (base, extra_bits) = self.slots[slot as usize & (N - 1)];
        base + bits.take(extra_bits.into())
    }
}

/// How many offset slots a chunk with `unpacked_bytes` bytes has.
pub fn offset_slot_count(unpacked_bytes: usize) -> usize {
    let largest_offset = unpacked_bytes.saturating_sub(1);
    OFFSETS.slots[..OFFSET_SLOTS].partition_point(|&(base, _)| base as usize <= largest_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_each_other_without_a_gap() {
        for pair in OFFSETS.slots[..OFFSET_SLOTS].windows(2) {
            assert_eq!(pair[0].0 + (1 << pair[0].1), pair[1].0);
        }
        for pair in LENGTHS.slots[..LENGTH_SLOTS].windows(2) {
            assert_eq!(pair[0].0 + (1 << pair[0].1), pair[1].0);
        }
        assert_eq!(LENGTHS.slots[LENGTH_SLOTS - 1], (0x108ab, 30));
        assert_eq!(
            (offset_slot_count(0), offset_slot_count(1), offset_slot_count(2)),
            (0, 0, 1)
        );
        assert_eq!(offset_slot_count(usize::MAX), OFFSET_SLOTS);
    }
}
