// SPDX-License-Identifier: GPL-3.0-or-later
//! XPRESS with Huffman codes: [MS-XCA] 2.1 (compression) and 2.2 (decompression), "LZ77+Huffman".
//!
//! A chunk of a WIM is one block: 512 codeword lengths of 4 bits, then symbols. Below 256 they are literals; above, they
//! are matches: 4 bits for the offset's width, 4 for the length, longer lengths in bytes between the bit stream's words.

use super::DecompressError;
use super::bits::BitReader;
use super::copy::copy_match;
use super::huffman::{DecodeTable, FLAG};

const SYMBOLS: usize = 512;
const LITERALS: u32 = 256;
const TABLE_BITS: u32 = 11;
/// 2,566 entries are needed at most for 512 symbols, 11 bits and codewords of 15.
const TABLE_ENTRIES: usize = 4096;
const MIN_MATCH: usize = 3;
/// A length field that says "in a byte behind the words".
const LENGTH_IN_BYTE: u32 = 0xf;
/// In a payload: the symbol is a literal.
const LITERAL: u32 = FLAG >> 8;

/// Decompresses XPRESS (Huffman) chunks.
#[derive(Debug, Default)]
pub struct XpressDecompressor {
    table: DecodeTable<TABLE_BITS, TABLE_ENTRIES>,
}

impl XpressDecompressor {
    /// Decompresses one chunk; `output` has its unpacked length.
    ///
    /// # Errors
    /// [`DecompressError`] when the input is damaged.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let (header, stream) = input
            .split_first_chunk::<{ SYMBOLS / 2 }>()
            .ok_or(DecompressError::Truncated)?;
        let mut lengths = [0u8; SYMBOLS];
        for (pair, &byte) in lengths.as_chunks_mut::<2>().0.iter_mut().zip(header) {
            *pair = [byte & 0xf, byte >> 4];
        }
        self.table.build(&lengths, |symbol| {
            symbol.checked_sub(LITERALS).unwrap_or(LITERAL | symbol)
        })?;
        self.decode(stream, output)
    }

    fn decode(&self, stream: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let mut bits = BitReader::new(stream);
        let mut position = 0;
        while position < output.len() {
            bits.refill();
            // Two literals of the first table take 22 bits at most, so there are bits for a third symbol.
            let mut entry = self.table.lookup_first(bits.peek());
            if entry & FLAG != 0 {
                put_literal(&mut bits, output, &mut position, entry);
                if position >= output.len() {
                    break;
                }
                entry = self.table.lookup_first(bits.peek());
                if entry & FLAG != 0 {
                    put_literal(&mut bits, output, &mut position, entry);
                    if position >= output.len() {
                        break;
                    }
                    entry = self.table.lookup_first(bits.peek());
                }
            }
            entry = self.table.resolve(entry, bits.peek());
            if entry & FLAG != 0 {
                put_literal(&mut bits, output, &mut position, entry);
                continue;
            }
            bits.consume(entry & 0x1f);
            let payload = entry >> 8;
            if bits.available() < 16 {
                bits.refill();
            }
            let mut length = payload & 0xf;
            if length == LENGTH_IN_BYTE {
                length = long_length(&mut bits)?;
            }
            let length = length as usize + MIN_MATCH;
            let offset_bits = payload >> 4 & 0xf;
            let offset = (1 << offset_bits | bits.take(offset_bits)) as usize;
            copy_match(output, position, offset, length)?;
            position += length;
        }
        end(&bits)
    }
}

/// Takes the literal of an entry and puts it at `position`, which is in `output`.
#[inline(always)]
fn put_literal(bits: &mut BitReader<'_>, output: &mut [u8], position: &mut usize, entry: u32) {
    bits.consume(entry & 0x1f);
    output[*position] = (entry >> 8) as u8;
    *position += 1;
}

/// A length of 15 or more, in one, three or seven bytes behind the words that a reader has which holds 16 bits or more.
#[inline]
fn long_length(bits: &mut BitReader<'_>) -> Result<u32, DecompressError> {
    bits.give_back(16);
    let [byte] = bits.take_bytes::<1>().ok_or(DecompressError::Truncated)?;
    if byte != u8::MAX {
        return Ok(LENGTH_IN_BYTE + u32::from(byte));
    }
    let word = u16::from_le_bytes(bits.take_bytes::<2>().ok_or(DecompressError::Truncated)?);
    if word != 0 {
        return Ok(word.into());
    }
    Ok(u32::from_le_bytes(
        bits.take_bytes::<4>().ok_or(DecompressError::Truncated)?,
    ))
}

fn end(bits: &BitReader<'_>) -> Result<(), DecompressError> {
    if bits.is_overrun() {
        Err(DecompressError::Truncated)
    } else {
        Ok(())
    }
}
