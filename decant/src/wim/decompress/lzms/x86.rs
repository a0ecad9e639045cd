// SPDX-License-Identifier: GPL-3.0-or-later
//! Targets of x86 instructions, which the compressor makes absolute where the data look like code.
//!
//! An instruction with a 32-bit relative operand is believed to be one when another with the same target (its low 16
//! bits) came within the last 65,535 bytes. Then, and for 1,023 bytes more, operands are translated; of a plain call for
//! half as many, for its one byte is met by chance more often.

/// An operand is translated up to so many bytes behind the last believed instruction.
const TRANSLATED_BYTES: i32 = 1023;
/// Two uses of a target make an instruction believed when they are this near.
const BELIEVED_WITHIN: u32 = 65_535;
/// No instruction that begins in the last bytes is translated.
const TAIL_BYTES: usize = 16;

/// For the low 16 bits of each target, where it was last used.
#[derive(Debug)]
pub struct TargetHistory {
    last_uses: Box<[u32; 1 << 16]>,
    /// What is added to a chunk's positions, so that all uses in earlier chunks are too far away to count: the table
    /// need not be cleared for each chunk.
    epoch: u32,
}

impl Default for TargetHistory {
    fn default() -> Self {
        Self {
            last_uses: Box::new([0; 1 << 16]),
            epoch: BELIEVED_WITHIN + 1,
        }
    }
}

/// What stands at a byte that may begin an instruction.
enum Instruction {
    /// No such instruction.
    None,
    /// A jump; its operand is never translated, and nothing in it is an instruction.
    Jump,
    /// An instruction with its operand behind so many bytes, translated up to so far behind a believed one.
    WithOperand { opcode_bytes: usize, translated_bytes: i32 },
}

impl TargetHistory {
    /// Makes the targets in a whole unpacked chunk relative again.
    pub fn restore(&mut self, data: &mut [u8]) {
        if data.len() <= TAIL_BYTES + 1 {
            return;
        }
        let epoch = self.next_epoch(data.len());
        let mut last_believed = -TRANSLATED_BYTES - 1;
        let end = data.len() - TAIL_BYTES;
        let mut at = 1;
        while at < end {
            let Some(next) = next_candidate(data, at, end) else {
                return;
            };
            at = next;
            match instruction(data, at) {
                Instruction::None => at += 1,
                Instruction::Jump => at += 5,
                Instruction::WithOperand {
                    opcode_bytes,
                    translated_bytes,
                } => {
                    let Some(operand) = data[at + opcode_bytes..].first_chunk_mut::<4>() else {
                        return;
                    };
                    // Chunks have at most 128 MiB.
                    #[allow(clippy::cast_possible_wrap)]
                    let position = at as i32;
                    if position - last_believed <= translated_bytes {
                        *operand = i32::from_le_bytes(*operand).wrapping_sub(position).to_le_bytes();
                    }
                    let target = (position as u16).wrapping_add(u16::from_le_bytes([operand[0], operand[1]]));
                    at += opcode_bytes + 4;
                    #[allow(clippy::cast_possible_wrap)]
                    let last_byte = at as i32 - 1;
                    let use_now = epoch + last_byte.cast_unsigned();
                    let last_use = &mut self.last_uses[usize::from(target)];
                    if use_now - *last_use <= BELIEVED_WITHIN {
                        last_believed = last_byte;
                    }
                    *last_use = use_now;
                }
            }
        }
    }
}

impl TargetHistory {
    /// What to add to the positions of a chunk of this length, which is at most 2 GiB.
    fn next_epoch(&mut self, length: usize) -> u32 {
        let needed = u32::try_from(length)
            .unwrap_or(u32::MAX / 2)
            .saturating_add(BELIEVED_WITHIN + 1);
        if self.epoch > u32::MAX - needed {
            self.last_uses.fill(0);
            self.epoch = BELIEVED_WITHIN + 1;
        }
        let epoch = self.epoch;
        self.epoch += needed;
        epoch
    }
}

/// How many bytes are looked at together.
const BLOCK: usize = 16;

/// The first byte from `at` up to `end` that may begin an instruction, judged by it and the one behind it.
#[inline(always)]
fn next_candidate(data: &[u8], mut at: usize, end: usize) -> Option<usize> {
    while at < end {
        // The tail is as long as a block, so there always is one, and a byte more.
        let bytes = data.get(at..)?.first_chunk::<{ BLOCK + 1 }>()?;
        let found = candidates(bytes);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8).filter(|&found| found < end);
        }
        at += BLOCK;
    }
    None
}

/// A byte that is not zero for each of the first bytes that may begin an instruction, the first byte lowest.
#[inline(always)]
fn candidates(bytes: &[u8; BLOCK + 1]) -> u128 {
    // Without a branch, so that it is done with vectors.
    let mut found = [0u8; BLOCK];
    for at in 0..BLOCK {
        let (first, second) = (bytes[at], bytes[at + 1]);
        let is_candidate = (first & 0xfb == 0x48) & ((second == 0x8d) | (second == 0x8b))
            | (first & 0xfe == 0xe8)
            | (first == 0xf0) & (second == 0x83)
            | (first == 0xff) & (second == 0x15);
        found[at] = u8::from(is_candidate);
    }
    u128::from_le_bytes(found)
}

/// The instruction at `at`, which is not in the tail.
#[inline(always)]
fn instruction(data: &[u8], at: usize) -> Instruction {
    let Some(&[first, second, third]) = data[at..].first_chunk::<3>() else {
        return Instruction::None;
    };
    // ModRM that means an operand relative to the next instruction.
    let is_relative = third & 7 == 5;
    let with_opcode = |opcode_bytes| Instruction::WithOperand {
        opcode_bytes,
        translated_bytes: TRANSLATED_BYTES,
    };
    match (first, second) {
        // lea of any register
        (0x48 | 0x4c, 0x8d) if is_relative => with_opcode(3),
        // mov to rax or rcx
        (0x48, 0x8b) if matches!(third, 0x05 | 0x0d) => with_opcode(3),
        // call
        (0xe8, _) => Instruction::WithOperand {
            opcode_bytes: 1,
            translated_bytes: TRANSLATED_BYTES / 2,
        },
        // jmp
        (0xe9, _) => Instruction::Jump,
        // lock add
        (0xf0, 0x83) if third == 5 => with_opcode(3),
        // call through a pointer
        (0xff, 0x15) => with_opcode(2),
        _ => Instruction::None,
    }
}
