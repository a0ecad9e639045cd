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
    if offset >= 16 && output.len() - position >= length + SLACK {
        // Most matches are short: one or two copies of fixed length.
        output.copy_within(from..from + 16, position);
        if length > 16 {
            output.copy_within(from + 16..from + 32, position + 16);
            let (mut source, mut target) = (from + 32, position + 32);
            while target < end {
                output.copy_within(source..source + 16, target);
                source += 16;
                target += 16;
            }
        }
    } else {
        copy_overlapping(output, position, offset, length);
    }
}

fn copy_overlapping(output: &mut [u8], position: usize, offset: usize, length: usize) {
    let from = position - offset;
    if offset >= length {
        output.copy_within(from..from + length, position);
    } else if offset == 1 {
        let byte = output[from];
        output[position..position + length].fill(byte);
    } else {
        // Each copy doubles how much of the pattern is there.
        let mut done = 0;
        while done < length {
            let step = (offset + done).min(length - done);
            output.copy_within(from..from + step, position + done);
            done += step;
        }
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
                    assert_eq!(output[..70 + length], expected[..70 + length], "{offset} {length} {behind}");
                }
            }
        }
    }
}
