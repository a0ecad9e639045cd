// SPDX-License-Identifier: GPL-3.0-or-later
//! Copying a match within the output.

/// Bytes that a match may be copied beyond its end, where the output goes on so far.
pub const SLACK: usize = 32;

/// Copies `length` bytes from `offset` bytes before `position` to `position`, byte after byte in meaning: they may overlap.
///
/// The caller has checked `1 <= offset <= position` and `position + length <= output.len()`. What lies up to [`SLACK`]
/// bytes behind the match may be overwritten, for it is written later anyway.
#[inline(always)]
pub fn copy_match(output: &mut [u8], position: usize, offset: usize, length: usize) {
    let end = position + length;
    let from = position - offset;
    if output.len() - position < length + SLACK {
        copy_at_end(output, position, offset, length);
    } else if offset >= 16 {
        // Most matches are short: one copy of fixed length.
        output.copy_within(from..from + 16, position);
        if length > 16 {
            let (mut source, mut target) = (from + 16, position + 16);
            while target < end {
                output.copy_within(source..source + 16, target);
                source += 16;
                target += 16;
            }
        }
    } else if offset == 1 {
        let byte = output[from];
        let mut target = position;
        while target < end {
            output[target..target + 16].fill(byte);
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
            output.copy_within(target - distance..target - distance + 8, target);
            target += 8;
        }
    }
}

/// Copies the match and nothing behind it.
#[cold]
#[inline(never)]
fn copy_at_end(output: &mut [u8], position: usize, offset: usize, length: usize) {
    for at in position..position + length {
        output[at] = output[at - offset];
    }
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
                    copy_match(&mut output, 70, offset, length);
                    assert_eq!(
                        output[..70 + length],
                        expected[..70 + length],
                        "{offset} {length} {behind}"
                    );
                }
            }
        }
    }
}
