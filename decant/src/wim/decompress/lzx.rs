// SPDX-License-Identifier: GPL-3.0-or-later
//! LZX as WIMs use it.
//!
//! Sources: Microsoft's "LZX" document of the Cabinet SDK and [MS-PATCH] (LZX DELTA) for blocks, trees, position slots
//! and the translation of x86 calls; wimlib's documentation for how a WIM's chunks differ: the window is the chunk, each
//! chunk stands alone, there is no header bit (the translation is always on, for a file size of 12,000,000), and a
//! block's size is one bit for 32768, else 16 bits (24 where the window is larger than 32 KiB).

use super::DecompressError;
use super::bits::BitReader;
use super::copy::copy_match;
use super::huffman::{DecodeTable, FLAG};

const LITERALS: usize = 256;
const LENGTH_HEADERS: usize = 8;
/// Of a window of 2 MiB.
const MAX_OFFSET_SLOTS: usize = 50;
const MAX_MAIN_SYMBOLS: usize = LITERALS + MAX_OFFSET_SLOTS * LENGTH_HEADERS;
const LENGTH_SYMBOLS: usize = 249;
const ALIGNED_SYMBOLS: usize = 8;
const PRETREE_SYMBOLS: usize = 20;
const MIN_MATCH: usize = 2;
/// Slots below this one repeat one of the last offsets.
const REPEAT_OFFSETS: usize = 3;
/// The length header that says "and a symbol of the length tree".
const LONG_LENGTH: u32 = 7;
const DEFAULT_BLOCK_BYTES: u32 = 32768;
/// In a payload: the symbol is a literal.
const LITERAL: u32 = FLAG >> 8;

/// For each slot, the smallest offset plus 2 and how many more bits tell the offset. 64, so that 6 bits always index it.
const OFFSET_SLOTS: [(u32, u32); 64] = {
    let mut slots = [(0, 0); 64];
    let mut base = 0;
    let mut slot = 0;
    while slot < MAX_OFFSET_SLOTS {
        let extra_bits = if slot < 4 {
            0
        } else if slot < 36 {
            slot as u32 / 2 - 1
        } else {
            17
        };
        slots[slot] = (base, extra_bits);
        base += 1 << extra_bits;
        slot += 1;
    }
    slots
};

/// Decompresses LZX chunks of one chunk size.
#[derive(Debug)]
pub struct LzxDecompressor {
    window_bytes: u32,
    main_symbols: usize,
    main_lengths: [u8; MAX_MAIN_SYMBOLS],
    length_lengths: [u8; LENGTH_SYMBOLS],
    /// 2,726 entries at most.
    main: DecodeTable<11, 4096>,
    /// 1,326 entries at most.
    length: DecodeTable<10, 2048>,
    aligned: DecodeTable<7, 128>,
    /// 582 entries at most.
    pretree: DecodeTable<6, 1024>,
}

/// The three offsets used last.
type RecentOffsets = [u32; REPEAT_OFFSETS];

impl LzxDecompressor {
    /// A decompressor for chunks of `window_bytes`: a power of two from 32 KiB to 2 MiB, else `None`.
    #[must_use]
    pub fn new(window_bytes: u32) -> Option<Self> {
        if !window_bytes.is_power_of_two() || !(1 << 15..=1 << 21).contains(&window_bytes) {
            return None;
        }
        // The slots that reach offsets up to the window's length.
        let slots = OFFSET_SLOTS
            .iter()
            .take(MAX_OFFSET_SLOTS)
            .take_while(|&&(base, _)| base < window_bytes)
            .count();
        Some(Self {
            window_bytes,
            main_symbols: LITERALS + slots * LENGTH_HEADERS,
            main_lengths: [0; MAX_MAIN_SYMBOLS],
            length_lengths: [0; LENGTH_SYMBOLS],
            main: DecodeTable::default(),
            length: DecodeTable::default(),
            aligned: DecodeTable::default(),
            pretree: DecodeTable::default(),
        })
    }

    /// The chunk size that it was made for.
    #[must_use]
    pub fn window_bytes(&self) -> u32 {
        self.window_bytes
    }

    /// Decompresses one chunk; `output` has its unpacked length, at most the chunk size.
    ///
    /// # Errors
    /// [`DecompressError`] when the input is damaged.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let may_have_calls = self.decompress_untranslated(input, output)?;
        if may_have_calls {
            restore_calls(output);
        }
        Ok(())
    }

    /// Everything but the x86 calls. Tells whether the output may hold a byte that looks like one.
    fn decompress_untranslated(&mut self, input: &[u8], output: &mut [u8]) -> Result<bool, DecompressError> {
        self.main_lengths.fill(0);
        self.length_lengths.fill(0);
        let mut bits = BitReader::new(input);
        let mut recent = [1; REPEAT_OFFSETS];
        let mut position = 0;
        let mut may_have_calls = false;
        while position < output.len() {
            bits.refill();
            let block_type = bits.take(3);
            let length = self.block_length(&mut bits);
            let end = position
                .checked_add(length)
                .filter(|&end| end <= output.len() && length > 0);
            let end = end.ok_or(DecompressError::InvalidLength { position, length })?;
            match block_type {
                1 | 2 => {
                    self.read_trees(&mut bits, block_type == 2)?;
                    may_have_calls |= self.main_lengths[0xe8] != 0;
                    let block = &mut output[..end];
                    if block_type == 2 {
                        self.block::<true>(&mut bits, block, position, &mut recent)?;
                    } else {
                        self.block::<false>(&mut bits, block, position, &mut recent)?;
                    }
                }
                3 => {
                    uncompressed_block(&mut bits, &mut output[position..end], &mut recent)?;
                    may_have_calls = true;
                }
                found => return Err(DecompressError::InvalidBlockType { position, found }),
            }
            position = end;
        }
        if bits.is_overrun() {
            Err(DecompressError::Truncated)
        } else {
            Ok(may_have_calls)
        }
    }

    fn block_length(&self, bits: &mut BitReader<'_>) -> usize {
        let length = if bits.take(1) == 1 {
            DEFAULT_BLOCK_BYTES
        } else if self.window_bytes > 1 << 15 {
            bits.take(24)
        } else {
            bits.take(16)
        };
        length as usize
    }

    fn read_trees(&mut self, bits: &mut BitReader<'_>, is_aligned: bool) -> Result<(), DecompressError> {
        if is_aligned {
            let mut lengths = [0; ALIGNED_SYMBOLS];
            for length in &mut lengths {
                *length = bits.read(3) as u8;
            }
            self.aligned.build(&lengths, |symbol| symbol)?;
        }
        let (literals, matches) = self.main_lengths[..self.main_symbols].split_at_mut(LITERALS);
        read_lengths(&mut self.pretree, bits, literals)?;
        read_lengths(&mut self.pretree, bits, matches)?;
        read_lengths(&mut self.pretree, bits, &mut self.length_lengths)?;
        self.main.build(&self.main_lengths[..self.main_symbols], |symbol| {
            // A match's payload is its slot above its length header, which is how symbols are numbered.
            match symbol.checked_sub(LITERALS as u32) {
                None => LITERAL | symbol,
                Some(slot_and_length) => slot_and_length,
            }
        })?;
        self.length.build(&self.length_lengths, |symbol| symbol)
    }

    /// Decodes one block, which ends where `output` does.
    fn block<const ALIGNED: bool>(
        &self,
        bits: &mut BitReader<'_>,
        output: &mut [u8],
        mut position: usize,
        recent: &mut RecentOffsets,
    ) -> Result<(), DecompressError> {
        while position < output.len() {
            bits.refill();
            // Two literals of the first table take 22 bits at most, so there are bits for a third symbol.
            let mut entry = self.main.lookup_first(bits.peek());
            if entry & FLAG != 0 {
                put_literal(bits, output, &mut position, entry);
                if position >= output.len() {
                    break;
                }
                entry = self.main.lookup_first(bits.peek());
                if entry & FLAG != 0 {
                    put_literal(bits, output, &mut position, entry);
                    if position >= output.len() {
                        break;
                    }
                    entry = self.main.lookup_first(bits.peek());
                }
            }
            entry = self.main.resolve(entry, bits.peek());
            if entry & FLAG != 0 {
                put_literal(bits, output, &mut position, entry);
                continue;
            }
            bits.consume(entry & 0x1f);
            let payload = entry >> 8;
            let mut length = payload & 7;
            if length == LONG_LENGTH {
                if bits.available() < 16 {
                    bits.refill();
                }
                let entry = self.length.lookup(bits.peek());
                bits.consume(entry & 0x1f);
                length += entry >> 8;
            }
            // An offset has 14 plain bits and 7 of a codeword, or 17 plain bits.
            if bits.available() < 21 {
                bits.refill();
            }
            let length = length as usize + MIN_MATCH;
            let slot = (payload >> 3) as usize & 63;
            let offset = if slot < REPEAT_OFFSETS {
                recent.swap(0, slot);
                recent[0]
            } else {
                let offset = self.explicit_offset::<ALIGNED>(bits, slot);
                *recent = [offset, recent[0], recent[1]];
                offset
            } as usize;
            copy_match(output, position, offset, length)?;
            position += length;
        }
        Ok(())
    }

    #[inline(always)]
    fn explicit_offset<const ALIGNED: bool>(&self, bits: &mut BitReader<'_>, slot: usize) -> u32 {
        let (base, extra_bits) = OFFSET_SLOTS[slot];
        let raw = if ALIGNED && extra_bits >= 3 {
            let high = bits.take(extra_bits - 3) << 3;
            let entry = self.aligned.lookup(bits.peek());
            bits.consume(entry & 0x1f);
            high + (entry >> 8)
        } else {
            bits.take(extra_bits)
        };
        // Bases count from 2, for offsets are stored plus 2; slot 3 has the smallest base, 3.
        (base + raw).wrapping_sub(2)
    }
}

/// Takes the literal of an entry and puts it at `position`, which is in `output`.
#[inline(always)]
fn put_literal(bits: &mut BitReader<'_>, output: &mut [u8], position: &mut usize, entry: u32) {
    bits.consume(entry & 0x1f);
    output[*position] = (entry >> 8) as u8;
    *position += 1;
}

/// Reads the codeword lengths of a tree, each as the difference from what it was in the block before.
fn read_lengths(
    pretree: &mut DecodeTable<6, 1024>,
    bits: &mut BitReader<'_>,
    lengths: &mut [u8],
) -> Result<(), DecompressError> {
    let mut pretree_lengths = [0; PRETREE_SYMBOLS];
    for length in &mut pretree_lengths {
        *length = bits.read(4) as u8;
    }
    pretree.build(&pretree_lengths, |symbol| symbol)?;

    let symbol = |bits: &mut BitReader<'_>| {
        let entry = pretree.lookup(bits.peek());
        bits.consume(entry & 0x1f);
        entry >> 8
    };
    let difference = |old: u8, symbol: u32| {
        // Both are at most 17, so is the result.
        ((u32::from(old) + 17 - symbol.min(17)) % 17) as u8
    };
    let mut at = 0;
    while at < lengths.len() {
        bits.refill();
        let (run, length) = match symbol(bits) {
            17 => (4 + bits.take(4) as usize, 0),
            18 => (20 + bits.take(5) as usize, 0),
            19 => {
                let run = 4 + bits.take(1) as usize;
                let coded = symbol(bits);
                (run, difference(lengths[at], coded))
            }
            coded => (1, difference(lengths[at], coded)),
        };
        // A run that leads beyond the tree is cut, as other decompressors do.
        let end = (at + run).min(lengths.len());
        lengths[at..end].fill(length);
        at = end;
    }
    Ok(())
}

fn uncompressed_block(
    bits: &mut BitReader<'_>,
    output: &mut [u8],
    recent: &mut RecentOffsets,
) -> Result<(), DecompressError> {
    bits.skip_to_next_word();
    for offset in recent {
        *offset = u32::from_le_bytes(bits.take_bytes().ok_or(DecompressError::Truncated)?);
    }
    output.copy_from_slice(bits.take_slice(output.len()).ok_or(DecompressError::Truncated)?);
    if output.len() % 2 == 1 {
        // Padding; at the input's very end it may be missing.
        let _ = bits.take_bytes::<1>();
    }
    Ok(())
}

/// The file size for which a WIM's calls are translated.
const TRANSLATION_BYTES: i32 = 12_000_000;
/// No call that begins in a chunk's last bytes is translated.
const UNTRANSLATED_TAIL: usize = 10;

/// Turns the absolute targets of x86 calls (byte 0xe8) back into relative ones.
fn restore_calls(output: &mut [u8]) {
    let limit = output.len().saturating_sub(UNTRANSLATED_TAIL);
    let mut at = 0;
    while let Some(found) = find_call(&output[..limit], at) {
        let Some(operand) = output[found + 1..].first_chunk_mut::<4>() else {
            return;
        };
        // Chunks have at most 2 MiB.
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
        let position = found as i32;
        let absolute = i32::from_le_bytes(*operand);
        if (0..TRANSLATION_BYTES).contains(&absolute) {
            *operand = (absolute - position).to_le_bytes();
        } else if (-position..0).contains(&absolute) {
            *operand = (absolute + TRANSLATION_BYTES).to_le_bytes();
        }
        at = found + 5;
    }
}

/// The first byte 0xe8 from `at`.
#[inline]
fn find_call(bytes: &[u8], at: usize) -> Option<usize> {
    const BLOCK: usize = 32;
    let rest = bytes.get(at..)?;
    let (blocks, tail) = rest.as_chunks::<BLOCK>();
    for (block_index, block) in blocks.iter().enumerate() {
        // Without an early exit, so that it is done with vectors.
        if block.iter().fold(false, |any, &byte| any | (byte == 0xe8)) {
            let within = block.iter().position(|&byte| byte == 0xe8)?;
            return Some(at + block_index * BLOCK + within);
        }
    }
    let within = tail.iter().position(|&byte| byte == 0xe8)?;
    Some(at + blocks.len() * BLOCK + within)
}
