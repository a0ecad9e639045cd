// SPDX-License-Identifier: GPL-3.0-or-later
//! Decode tables for canonical Huffman codes, shared by all the compressions.

use super::DecompressError;

/// Longest codeword of any compression here.
pub const MAX_CODEWORD_BITS: usize = 16;
/// Most symbols of any code here.
pub const MAX_SYMBOLS: usize = 1024;

/// The highest bit of an entry, for the caller: the kind of symbol that is looked for first.
pub const FLAG: u32 = 0x8000_0000;
/// Set in an entry that leads to a second table.
const SUBTABLE: u32 = 0x80;
/// The bits of an entry that hold a codeword's length, or a second table's index width.
const LENGTH_MASK: u32 = 0x1f;

/// A decode table of `N` (a power of two) entries: first `1 << TABLE_BITS` that the next bits select, behind them second
/// tables for longer codewords.
///
/// An entry is `payload << 8 | length`: what the symbol means to the caller, and how many bits its codeword has.
#[derive(Debug)]
pub struct DecodeTable<const TABLE_BITS: u32, const N: usize> {
    entries: [u32; N],
}

impl<const TABLE_BITS: u32, const N: usize> Default for DecodeTable<TABLE_BITS, N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two() && N >= 1 << TABLE_BITS) };
        Self { entries: [0; N] }
    }
}

impl<const TABLE_BITS: u32, const N: usize> DecodeTable<TABLE_BITS, N> {
    /// The entry for the symbol whose codeword begins `bits`, left-aligned.
    #[inline(always)]
    pub fn lookup(&self, bits: u64) -> u32 {
        self.resolve(self.lookup_first(bits), bits)
    }

    /// The first table's entry, which may lead to a second table: then [`FLAG`] is not set in it.
    #[inline(always)]
    pub fn lookup_first(&self, bits: u64) -> u32 {
        self.entries[(bits >> (64 - TABLE_BITS)) as usize & (N - 1)]
    }

    /// The entry that `entry`, of the first table, is or leads to.
    #[inline(always)]
    pub fn resolve(&self, entry: u32, bits: u64) -> u32 {
        if entry & SUBTABLE == 0 {
            return entry;
        }
        let within = (bits << TABLE_BITS >> (64 - (entry & LENGTH_MASK))) as usize;
        self.entries[((entry >> 8) as usize + within) & (N - 1)]
    }

    /// Builds the table of the canonical code with these codeword lengths (0 for a symbol that is not in use): shorter
    /// codewords first, within a length by ascending symbol. `payload` gives what a symbol's entry holds, 24 bits.
    ///
    /// A code without any symbol is a table whose entries are all payload 0 and length 0.
    ///
    /// # Errors
    /// [`DecompressError::InvalidCode`] when the lengths are of no complete prefix code.
    pub fn build(&mut self, lengths: &[u8], payload: impl Fn(u32) -> u32) -> Result<(), DecompressError> {
        let mut sorted = [0u16; MAX_SYMBOLS];
        let (counts, used) = sort_by_length(lengths, &mut sorted)?;
        let entries = &mut self.entries[..];
        if used == 0 {
            entries.fill(0);
            return Ok(());
        }
        let mut symbols = sorted[..used].iter().map(|&symbol| u32::from(symbol));

        // Codewords ascend in this order, so each fills the entries right behind the one before.
        let mut next = 0usize;
        for (length, &count) in counts.iter().enumerate().take(TABLE_BITS as usize + 1).skip(1) {
            let width = 1usize << (TABLE_BITS as usize - length);
            let end = next + width * usize::from(count);
            let slots = entries.get_mut(next..end).ok_or(DecompressError::InvalidCode)?;
            next = end;
            let symbols = symbols.by_ref().take(count.into());
            fill_each(slots, width, symbols.map(|symbol| payload(symbol) << 8 | length as u32));
        }
        Self::build_second(entries, &counts, next, symbols, payload)
    }

    /// Builds the second tables, from the first prefix that has one.
    fn build_second(
        entries: &mut [u32],
        counts: &[u16; MAX_CODEWORD_BITS + 1],
        mut prefix: usize,
        mut symbols: impl Iterator<Item = u32>,
        payload: impl Fn(u32) -> u32,
    ) -> Result<(), DecompressError> {
        let table_bits = TABLE_BITS as usize;
        let mut next = 1usize << table_bits;
        let mut table_end = next;
        let mut table_width_bits = 0usize;
        for length in table_bits + 1..=MAX_CODEWORD_BITS {
            for position in 0..counts[length] {
                if next == table_end {
                    // As wide as the longest codeword with this prefix needs.
                    table_width_bits = length - table_bits;
                    let mut filled = usize::from(counts[length] - position);
                    while filled < 1 << table_width_bits && table_bits + table_width_bits < MAX_CODEWORD_BITS {
                        table_width_bits += 1;
                        filled = (filled << 1) + usize::from(counts[table_bits + table_width_bits]);
                    }
                    table_end = next + (1 << table_width_bits);
                    let slot = entries.get_mut(prefix).ok_or(DecompressError::InvalidCode)?;
                    *slot = (next as u32) << 8 | SUBTABLE | table_width_bits as u32;
                    prefix += 1;
                }
                let width = 1usize << (table_width_bits + table_bits - length);
                let symbol = symbols.next().ok_or(DecompressError::InvalidCode)?;
                let slots = entries
                    .get_mut(next..next + width)
                    .ok_or(DecompressError::InvalidCode)?;
                slots.fill(payload(symbol) << 8 | length as u32);
                next += width;
            }
        }
        Ok(())
    }
}

/// Fills `width` slots with each entry.
fn fill_each(slots: &mut [u32], width: usize, entries: impl Iterator<Item = u32>) {
    // Most codewords are long, so most widths are small: a width that the compiler knows costs no loop.
    match width {
        1 => slots.iter_mut().zip(entries).for_each(|(slot, entry)| *slot = entry),
        2 => slots
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(entries)
            .for_each(|(pair, entry)| *pair = [entry; 2]),
        4 => slots
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(entries)
            .for_each(|(four, entry)| *four = [entry; 4]),
        8 => slots
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(entries)
            .for_each(|(eight, entry)| *eight = [entry; 8]),
        _ => slots
            .chunks_exact_mut(width)
            .zip(entries)
            .for_each(|(many, entry)| many.fill(entry)),
    }
}

/// How many codewords have each length.
type LengthCounts = [u16; MAX_CODEWORD_BITS + 1];

/// Counts the lengths, checks that they are of a complete code, and sorts the symbols in use by length, then by number.
fn sort_by_length(lengths: &[u8], sorted: &mut [u16; MAX_SYMBOLS]) -> Result<(LengthCounts, usize), DecompressError> {
    // Neighbours often have one length. Counted apart, they do not wait for each other.
    let mut counts_apart = [[0u16; 32]; 4];
    for lengths in lengths.chunks(4) {
        for (counts, &length) in counts_apart.iter_mut().zip(lengths) {
            counts[usize::from(length) & 31] += 1;
        }
    }
    let all_counts: [u16; 32] = std::array::from_fn(|length| counts_apart.iter().map(|counts| counts[length]).sum());
    let (counts, too_long) = all_counts
        .split_first_chunk::<{ MAX_CODEWORD_BITS + 1 }>()
        .ok_or(DecompressError::InvalidCode)?;
    if too_long.iter().any(|&count| count != 0) || lengths.iter().any(|&length| length >= 32) {
        return Err(DecompressError::InvalidCode);
    }
    let mut starts = [0usize; MAX_CODEWORD_BITS + 2];
    let mut space = 0u32;
    for length in 1..=MAX_CODEWORD_BITS {
        starts[length + 1] = starts[length] + usize::from(counts[length]);
        space += u32::from(counts[length]) << (MAX_CODEWORD_BITS - length);
    }
    let used = starts[MAX_CODEWORD_BITS + 1];
    if used > 0 && space != 1 << MAX_CODEWORD_BITS {
        return Err(DecompressError::InvalidCode);
    }
    for (symbol, &length) in (0u16..).zip(lengths) {
        if length != 0 {
            let start = &mut starts[usize::from(length)];
            *sorted.get_mut(*start).ok_or(DecompressError::InvalidCode)? = symbol;
            *start += 1;
        }
    }
    Ok((*counts, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes every codeword of a code through the table and compares with the canonical assignment.
    fn check_all(lengths: &[u8]) {
        let mut table = DecodeTable::<6, 2048>::default();
        table.build(lengths, |symbol| symbol).unwrap();
        let mut code = 0u64;
        for length in 1..=16u8 {
            code <<= 1;
            for (symbol, _) in lengths.iter().enumerate().filter(|&(_, &l)| l == length) {
                // Whatever follows the codeword must not matter.
                for noise in [0, u64::MAX] {
                    let bits = code << (64 - length) | noise >> length;
                    assert_eq!(
                        table.lookup(bits),
                        (symbol as u32) << 8 | u32::from(length),
                        "{lengths:?}"
                    );
                }
                code += 1;
            }
        }
    }

    #[test]
    fn every_codeword_of_a_code_is_found() {
        check_all(&[1, 1]);
        check_all(&[2, 2, 2, 2]);
        check_all(&[0, 3, 1, 0, 3, 2]);
        // A chain to the longest codeword.
        check_all(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16]);
        // Second tables of several widths.
        check_all(&[2, 2, 2, 3, 4, 5, 6, 8, 8, 9, 9, 8, 0, 0]);
        let mut many = vec![8u8; 255];
        many.extend([9, 9]);
        check_all(&many);
    }

    #[test]
    fn an_incomplete_or_oversubscribed_code_is_refused() {
        let mut table = DecodeTable::<6, 2048>::default();
        for lengths in [&[1u8][..], &[1, 2], &[1, 1, 1], &[17], &[2, 2, 2, 2, 16]] {
            assert!(
                matches!(table.build(lengths, |_| 0), Err(DecompressError::InvalidCode)),
                "{lengths:?}"
            );
        }
        table.build(&[0; 10], |_| 1).unwrap();
        assert_eq!(table.lookup(u64::MAX), 0);
    }
}
