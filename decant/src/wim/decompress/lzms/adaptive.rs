// SPDX-License-Identifier: GPL-3.0-or-later
//! Huffman codes that are made anew from what was decoded, every so many symbols.
//!
//! The code must be the very one that the compressor made from the same counts, so the order in which equal counts are
//! merged and the way in which long codewords are cut are part of the format.

use super::backward::BackwardBits;
use crate::wim::decompress::huffman::DecodeTable;

/// Longest codeword.
const MAX_BITS: usize = 15;

/// An adaptive code of at most `SYMBOLS` symbols.
#[derive(Debug)]
pub struct AdaptiveCode<const SYMBOLS: usize, const TABLE_BITS: u32, const N: usize> {
    table: DecodeTable<TABLE_BITS, N>,
    /// How often each symbol came, old ones counted less.
    counts: [u32; SYMBOLS],
    used: usize,
    interval: u32,
    until_rebuild: u32,
}

impl<const SYMBOLS: usize, const TABLE_BITS: u32, const N: usize> Default for AdaptiveCode<SYMBOLS, TABLE_BITS, N> {
    fn default() -> Self {
        Self {
            table: DecodeTable::default(),
            counts: [0; SYMBOLS],
            used: 0,
            interval: 0,
            until_rebuild: 0,
        }
    }
}

impl<const SYMBOLS: usize, const TABLE_BITS: u32, const N: usize> AdaptiveCode<SYMBOLS, TABLE_BITS, N> {
    /// Begins with `used` symbols, each as likely as the others, and a rebuild every `interval` symbols.
    pub fn start(&mut self, used: usize, interval: u32) {
        self.used = used.min(SYMBOLS);
        self.counts.fill(1);
        self.interval = interval;
        self.build();
    }

    /// The next symbol. At least 15 bits must be available.
    #[inline(always)]
    pub fn symbol(&mut self, bits: &mut BackwardBits<'_>) -> u32 {
        let entry = self.table.lookup(bits.peek());
        bits.consume(entry & 0x1f);
        let symbol = entry >> 8;
        if let Some(count) = self.counts.get_mut(symbol as usize) {
            *count += 1;
        }
        self.until_rebuild -= 1;
        if self.until_rebuild == 0 {
            self.rebuild();
        }
        symbol
    }

    #[cold]
    #[inline(never)]
    fn rebuild(&mut self) {
        self.build();
        for count in &mut self.counts[..self.used] {
            *count = (*count >> 1) + 1;
        }
    }

    fn build(&mut self) {
        self.until_rebuild = self.interval;
        let mut lengths = [0u8; SYMBOLS];
        let lengths = &mut lengths[..self.used];
        codeword_lengths::<SYMBOLS>(&self.counts[..self.used], lengths);
        // The lengths are of a complete code by construction, or of none for less than two symbols; there, symbol 0 has
        // an empty codeword, and whatever it leads to is checked.
        let _ = self.table.build(lengths, |symbol| symbol);
    }
}

/// The lengths of the Huffman code for these counts, none of which is 0: the rarest symbols have the longest codewords,
/// of equally rare ones the lower symbol; none is longer than [`MAX_BITS`].
fn codeword_lengths<const SYMBOLS: usize>(counts: &[u32], lengths: &mut [u8]) {
    if counts.len() < 2 {
        return;
    }
    let mut sorted = [0u16; SYMBOLS];
    let sorted = &mut sorted[..counts.len()];
    sort_by_count::<SYMBOLS>(counts, sorted);

    let length_counts = length_counts::<SYMBOLS>(counts, sorted);
    let mut rarest_first = sorted.iter();
    for (length, &count) in length_counts.iter().enumerate().rev() {
        for &symbol in rarest_first.by_ref().take(count as usize) {
            lengths[usize::from(symbol)] = length as u8;
        }
    }
}

/// Symbols by ascending count, then by number.
fn sort_by_count<const SYMBOLS: usize>(counts: &[u32], sorted: &mut [u16]) {
    /// Counts from here on are few and are sorted by comparing.
    const BUCKETS: usize = 64;
    // Most symbols of a large code did not come at all and have count 1: they are picked out without a branch.
    let mut others = [0u16; SYMBOLS];
    let (mut rare_count, mut other_count) = (0, 0);
    for (symbol, &count) in (0u16..).zip(counts) {
        sorted[rare_count] = symbol;
        others[other_count] = symbol;
        rare_count += usize::from(count <= 1);
        other_count += usize::from(count > 1);
    }
    let (others, sorted) = (&others[..other_count], &mut sorted[rare_count..]);

    let bucket = |symbol: u16| (counts[usize::from(symbol)] as usize).min(BUCKETS - 1);
    let mut starts = [0usize; BUCKETS + 1];
    for &symbol in others {
        starts[bucket(symbol) + 1] += 1;
    }
    for at in 1..=BUCKETS {
        starts[at] += starts[at - 1];
    }
    let large = starts[BUCKETS - 1];
    for &symbol in others {
        let start = &mut starts[bucket(symbol)];
        sorted[*start] = symbol;
        *start += 1;
    }
    sorted[large..].sort_unstable_by_key(|&symbol| (counts[usize::from(symbol)], symbol));
}

/// How many codewords have each length.
fn length_counts<const SYMBOLS: usize>(counts: &[u32], sorted: &[u16]) -> [u32; MAX_BITS + 1] {
    // Merge the two rarest of leaves and inner nodes, a leaf before an inner node that is as rare. Inner nodes come out
    // by ascending weight, so both are queues; what is not there yet weighs most.
    const ABSENT: u32 = u32::MAX;
    let inner_nodes = sorted.len() - 1;
    let mut leaves = [ABSENT; SYMBOLS];
    for (leaf, &symbol) in leaves.iter_mut().zip(sorted) {
        *leaf = counts[usize::from(symbol)];
    }
    let mut weights = [ABSENT; SYMBOLS];
    let mut parents = [0u16; SYMBOLS];
    let (mut leaf, mut inner) = (0usize, 0usize);
    for node in 0..inner_nodes {
        let at = |queue: &[u32; SYMBOLS], position: usize| queue.get(position).copied().unwrap_or(ABSENT);
        let (first_leaf, second_leaf) = (at(&leaves, leaf), at(&leaves, leaf + 1));
        let (first_inner, second_inner) = (at(&weights, inner), at(&weights, inner + 1));
        // One decision for both: two leaves, two inner nodes, or one of each.
        let weight = if second_leaf <= first_inner && second_leaf != ABSENT {
            leaf += 2;
            first_leaf + second_leaf
        } else if second_inner < first_leaf {
            parents[inner] = node as u16;
            parents[inner + 1] = node as u16;
            inner += 2;
            first_inner + second_inner
        } else {
            parents[inner] = node as u16;
            leaf += 1;
            inner += 1;
            first_leaf.wrapping_add(first_inner)
        };
        weights[node] = weight;
    }

    // From the root down, each inner node turns a codeword into two that are longer by one bit. One that would get too
    // long is replaced by the longest that can still grow.
    let mut depths = [0u8; SYMBOLS];
    let mut length_counts = [0u32; MAX_BITS + 1];
    length_counts[1] = 2;
    for node in (0..inner_nodes - 1).rev() {
        let depth = depths[usize::from(parents[node])].saturating_add(1);
        depths[node] = depth;
        let mut length = usize::from(depth);
        if length >= MAX_BITS {
            length = MAX_BITS - 1;
            while length_counts[length] == 0 {
                length -= 1;
            }
        }
        length_counts[length] -= 1;
        length_counts[length + 1] += 2;
    }
    length_counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths_of(counts: &[u32]) -> Vec<u8> {
        let mut lengths = vec![0; counts.len()];
        codeword_lengths::<799>(counts, &mut lengths);
        lengths
    }

    #[test]
    fn rare_symbols_have_long_codewords() {
        assert_eq!(lengths_of(&[1, 1]), [1, 1]);
        assert_eq!(lengths_of(&[1, 1, 2, 4]), [3, 3, 2, 1]);
        assert_eq!(lengths_of(&[1; 8]), [3; 8]);
        // Five alike: of the lower symbols two get longer codewords.
        assert_eq!(lengths_of(&[1; 5]), [3, 3, 2, 2, 2]);
    }

    #[test]
    fn no_codeword_is_too_long_and_every_code_is_complete() {
        let fibonacci: Vec<u32> = std::iter::successors(Some((1u32, 1u32)), |&(a, b)| Some((b, a + b)))
            .map(|(a, _)| a)
            .take(40)
            .collect();
        for counts in [fibonacci, (1..=799).collect(), vec![7; 799]] {
            let lengths = lengths_of(&counts);
            let space: u32 = lengths
                .iter()
                .map(|&length| 1 << (MAX_BITS - usize::from(length)))
                .sum();
            assert_eq!(space, 1 << MAX_BITS);
        }
    }
}
