// SPDX-License-Identifier: GPL-3.0-or-later
//! Copying a match within the output.

use super::DecompressError;

/// Bytes that a match may be copied beyond its end, where the output goes on so far.
pub const SLACK: usize = 32;

/// Copies `length` bytes from `offset` bytes before `position` to `position`, byte after byte in meaning: they may overlap.
/// What lies up to [`SLACK`] bytes behind the match may be overwritten, for it is written later anyway.
///
/// `position` must not be behind the output's end.
///
/// # Errors
/// [`DecompressError::InvalidOffset`] when the source begins before the output, [`DecompressError::InvalidLength`] when
/// the match ends behind it.
#[inline(always)]
pub fn copy_match(output: &mut [u8], position: usize, offset: usize, length: usize) -> Result<(), DecompressError> {
    // Offset 0 becomes usize::MAX: both faults are one comparison.
    if offset.wrapping_sub(1) >= position {
        return Err(DecompressError::InvalidOffset { position, offset });
    }
    let end = position + length;
    let from = position - offset;
    if output.len() - position < length + SLACK {
        return copy_at_end(output, position, offset, length);
    }
    if offset >= 16 {
        // Most matches are short: one copy of fixed length.
        copy_block::<16>(output, from, position);
        if length > 16 {
            let (mut source, mut target) = (from + 16, position + 16);
            while target < end {
                copy_block::<16>(output, source, target);
                source += 16;
                target += 16;
            }
        }
    } else if offset == 1 {
        let byte = output[from];
        let mut target = position;
        while target < end {
            if let Some(block) = output.get_mut(target..).and_then(<[u8]>::first_chunk_mut::<16>) {
                *block = [byte; 16];
            }
            target += 16;
        }
    } else {
        // Write the pattern until it is eight bytes long, then repeat it as a whole.
        let mut distance = offset;
        if offset < 8 {
            distance = offset * 8usize.div_ceil(offset);
            for at in position..position + 8 {
                output[at] = output[at - offset];
            }
        }
        let mut target = if offset < 8 { position + 8 } else { position };
        while target < end {
            copy_block::<8>(output, target - distance, target);
            target += 8;
        }
    }
    Ok(())
}

/// Copies a block of fixed length, which the caller has checked to lie in the output: one load and one store.
#[inline(always)]
fn copy_block<const N: usize>(output: &mut [u8], from: usize, to: usize) {
    let Some(&block) = output.get(from..).and_then(<[u8]>::first_chunk::<N>) else {
        return;
    };
    if let Some(target) = output.get_mut(to..).and_then(<[u8]>::first_chunk_mut::<N>) {
        *target = block;
    }
}

/// Copies the match and nothing behind it.
#[cold]
#[inline(never)]
fn copy_at_end(output: &mut [u8], position: usize, offset: usize, length: usize) -> Result<(), DecompressError> {
    if length > output.len() - position {
        return Err(DecompressError::InvalidLength { position, length });
    }
    for at in position..position + length {
        output[at] = output[at - offset];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_copied_as_if_byte_by_byte() {
        for offset in 1..70 {
            for length in 1..150 {
                for behind in [0, 1, SLACK - 1, SLACK, SLACK + 50] {
                    let mut output: Vec<u8> = (0..70u8).collect();
                    output.resize(70 + length + behind, 0xee);
                    let mut expected = output.clone();
                    for i in 70..70 + length {
                        expected[i] = expected[i - offset];
                    }
                    copy_match(&mut output, 70, offset, length).unwrap();
                    assert_eq!(
                        output[..70 + length],
                        expected[..70 + length],
                        "{offset} {length} {behind}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_match_outside_the_output_is_refused() {
        let mut output = [0; 100];
        let mut copy = |position, offset, length| copy_match(&mut output, position, offset, length);
        for (position, offset) in [(0, 1), (10, 11), (10, 0), (99, usize::MAX)] {
            assert_eq!(
                copy(position, offset, 1),
                Err(DecompressError::InvalidOffset { position, offset })
            );
        }
        for (position, length) in [(1, 100), (99, 2), (100, 1), (10, 1 << 30)] {
            assert_eq!(
                copy(position, 1, length),
                Err(DecompressError::InvalidLength { position, length })
            );
        }
        assert_eq!(copy(1, 1, 99), Ok(()));
        assert_eq!(copy(100, 100, 0), Ok(()));
    }
}
