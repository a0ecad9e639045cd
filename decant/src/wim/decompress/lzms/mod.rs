// SPDX-License-Identifier: GPL-3.0-or-later
//! LZMS, the compression of solid WIMs (ESDs).
//!
//! There is no document of Microsoft's; the format's public description is wimlib's documentation and the behaviour of
//! its compressor. A chunk is read from both ends: from the front a range coder's bits, which say what comes next; from
//! the back Huffman codewords and plain bits, which say literals, lengths and offsets. All models start anew with each
//! chunk and adapt as they go. Beside plain matches there are delta matches, which repeat the difference to what is a
//! few bytes before. At last, targets of x86 instructions are made relative again.

mod adaptive;
mod backward;
mod range;
mod slots;
mod x86;

use self::adaptive::AdaptiveCode;
use self::backward::BackwardBits;
use self::range::{Chances, RangeDecoder};
use self::slots::{LENGTH_SLOTS, LENGTHS, OFFSET_SLOTS, OFFSETS, offset_slot_count};
use super::DecompressError;
use super::copy::copy_match;

const LITERALS: usize = 256;
const DELTA_POWERS: usize = 8;
/// How many last sources a match can repeat, and one more, for a source is not there for the very next item.
const KEPT_SOURCES: usize = 4;

/// Decompresses LZMS chunks of any size.
#[derive(Debug, Default)]
pub struct LzmsDecompressor {
    models: Models,
    x86: x86::TargetHistory,
}

/// Everything that adapts.
#[derive(Debug, Default)]
struct Models {
    literal: AdaptiveCode<LITERALS, 10, 2048>,
    offset: AdaptiveCode<OFFSET_SLOTS, 11, 4096>,
    length: AdaptiveCode<LENGTH_SLOTS, 9, 1024>,
    delta_offset: AdaptiveCode<OFFSET_SLOTS, 11, 4096>,
    delta_power: AdaptiveCode<DELTA_POWERS, 7, 128>,
}

/// The chances of each kind of decision.
#[derive(Debug, Default)]
struct Decisions {
    is_match: Chances<16>,
    is_delta: Chances<32>,
    is_lz_repeat: Chances<64>,
    lz_repeat: [Chances<64>; 2],
    is_delta_repeat: Chances<64>,
    delta_repeat: [Chances<64>; 2],
}

/// The state of each kind of decision.
#[derive(Debug, Default)]
struct States {
    is_match: usize,
    is_delta: usize,
    is_lz_repeat: usize,
    lz_repeat: [usize; 2],
    is_delta_repeat: usize,
    delta_repeat: [usize; 2],
}

/// What came before: a source that was used by the very last item counts only from the item after next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Literal,
    Lz,
    Delta,
}

/// The source of a delta match.
#[derive(Clone, Copy)]
struct DeltaSource {
    power: u32,
    raw_offset: u32,
}

impl LzmsDecompressor {
    /// Decompresses one chunk; `output` has its unpacked length.
    ///
    /// # Errors
    /// [`DecompressError`] when the input is damaged.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        if input.len() < 4 || !input.len().is_multiple_of(2) {
            return Err(DecompressError::Truncated);
        }
        self.models.start(offset_slot_count(output.len()));
        self.models.decode(input, output)?;
        self.x86.restore(output);
        Ok(())
    }
}

impl Models {
    fn start(&mut self, offset_slots: usize) {
        self.literal.start(LITERALS, 1024);
        self.offset.start(offset_slots, 1024);
        self.length.start(LENGTH_SLOTS, 512);
        self.delta_offset.start(offset_slots, 1024);
        self.delta_power.start(DELTA_POWERS, 512);
    }

    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressError> {
        let mut range = RangeDecoder::new(input);
        let mut bits = BackwardBits::new(input);
        let mut decisions = Decisions::default();
        let mut states = States::default();
        let mut offsets: [u32; KEPT_SOURCES] = [1, 2, 3, 4];
        let mut deltas = [1, 2, 3, 4].map(|raw_offset| DeltaSource { power: 0, raw_offset });
        let mut last = Last::Literal;
        let mut position = 0;
        while position < output.len() {
            bits.refill();
            if !range.bit(&mut decisions.is_match, &mut states.is_match) {
                output[position] = self.literal.symbol(&mut bits) as u8;
                position += 1;
                last = Last::Literal;
            } else if !range.bit(&mut decisions.is_delta, &mut states.is_delta) {
                let delay = usize::from(last == Last::Lz);
                let offset = if range.bit(&mut decisions.is_lz_repeat, &mut states.is_lz_repeat) {
                    take_repeated(
                        &mut offsets,
                        repeat_index(&mut range, &mut decisions.lz_repeat, &mut states.lz_repeat) + delay,
                        delay,
                    )
                } else {
                    let slot = self.offset.symbol(&mut bits);
                    push_front(&mut offsets);
                    OFFSETS.value(slot, &mut bits)
                };
                offsets[0] = offset;
                last = Last::Lz;
                let length = self.length(&mut bits);
                let offset = offset as usize;
                copy_match(output, position, offset, length)?;
                position += length;
            } else {
                let delay = usize::from(last == Last::Delta);
                let source = if range.bit(&mut decisions.is_delta_repeat, &mut states.is_delta_repeat) {
                    take_repeated(
                        &mut deltas,
                        repeat_index(&mut range, &mut decisions.delta_repeat, &mut states.delta_repeat) + delay,
                        delay,
                    )
                } else {
                    let power = self.delta_power.symbol(&mut bits);
                    let slot = self.delta_offset.symbol(&mut bits);
                    push_front(&mut deltas);
                    bits.refill();
                    DeltaSource {
                        power,
                        raw_offset: OFFSETS.value(slot, &mut bits),
                    }
                };
                deltas[0] = source;
                last = Last::Delta;
                let length = self.length(&mut bits);
                copy_delta(output, position, source, length)?;
                position += length;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn length(&mut self, bits: &mut BackwardBits<'_>) -> usize {
        bits.refill();
        let slot = self.length.symbol(bits);
        LENGTHS.value(slot, bits) as usize
    }
}

/// Which of the last sources: 0, 1 or 2.
#[inline(always)]
fn repeat_index(range: &mut RangeDecoder<'_>, decisions: &mut [Chances<64>; 2], states: &mut [usize; 2]) -> usize {
    let ([first, second], [first_state, second_state]) = (decisions, states);
    if !range.bit(first, first_state) {
        0
    } else if !range.bit(second, second_state) {
        1
    } else {
        2
    }
}

/// Takes a source out of the queue; those from `delay` before it move back by one. The caller puts it in front.
#[inline(always)]
fn take_repeated<T: Copy>(queue: &mut [T; KEPT_SOURCES], index: usize, delay: usize) -> T {
    let taken = queue[index & (KEPT_SOURCES - 1)];
    for at in (delay + 1..=index).rev() {
        queue[at & (KEPT_SOURCES - 1)] = queue[(at - 1) & (KEPT_SOURCES - 1)];
    }
    // Of the very last item's source, which is still in front.
    queue[delay & (KEPT_SOURCES - 1)] = queue[0];
    taken
}

/// Moves every source back by one.
#[inline(always)]
fn push_front<T: Copy>(queue: &mut [T; KEPT_SOURCES]) {
    queue.copy_within(0..KEPT_SOURCES - 1, 1);
}

/// Copies a delta match: each byte is the one `span` before it plus the difference that the source has there.
#[inline(never)]
fn copy_delta(output: &mut [u8], position: usize, source: DeltaSource, length: usize) -> Result<(), DecompressError> {
    let span = 1usize << source.power;
    let offset = (source.raw_offset as usize) << source.power;
    // `span` more bytes are read before the source.
    if offset == 0 || offset + span > position {
        return Err(DecompressError::InvalidOffset {
            position,
            offset: offset + span,
        });
    }
    if length > output.len() - position {
        return Err(DecompressError::InvalidLength { position, length });
    }
    for at in position..position + length {
        let difference = output[at - offset].wrapping_sub(output[at - offset - span]);
        output[at] = output[at - span].wrapping_add(difference);
    }
    Ok(())
}
