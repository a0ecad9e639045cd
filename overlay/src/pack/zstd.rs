// SPDX-License-Identifier: GPL-3.0-or-later
//! zstd (RFC 8878) as a row of independent frames, so that all cores compress. Where one ends depends only on the bytes
//! before it, never on the number of threads: the same bytes give the same frames.

use std::io::{self, BufRead, Read, Write};

use rayon::prelude::*;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The bytes that one frame holds.
const FRAME_BYTES: usize = 4 << 20;
/// How many frames are compressed together, and so the memory: some 16 × 4 MiB.
const BATCH: usize = 16;

/// Compresses what is written.
pub(crate) struct Writer<W: Write> {
    out: W,
    full: Vec<Vec<u8>>,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            full: Vec::new(),
            frame: Vec::with_capacity(FRAME_BYTES),
        }
    }

    fn compress(&mut self) -> io::Result<()> {
        let frames: Vec<Vec<u8>> = self
            .full
            .par_iter()
            .map(|bytes| compress_to_vec(&**bytes, CompressionLevel::Fastest))
            .collect();
        self.full.clear();
        frames.iter().try_for_each(|frame| self.out.write_all(frame))
    }

    /// Compresses what is left and gives back what is written to.
    pub fn finish(mut self) -> io::Result<W> {
        let last = std::mem::take(&mut self.frame);
        if !last.is_empty() {
            self.full.push(last);
        }
        self.compress()?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = FRAME_BYTES - self.frame.len();
        let taken = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        self.frame.extend_from_slice(taken);
        if self.frame.len() == FRAME_BYTES {
            self.full
                .push(std::mem::replace(&mut self.frame, Vec::with_capacity(FRAME_BYTES)));
            if self.full.len() == BATCH {
                self.compress()?;
            }
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decompresses all frames of what is read.
pub(crate) struct Reader<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    Between(R),
    Frame(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    End,
}

impl<R: BufRead> Reader<R> {
    pub fn new(from: R) -> Self {
        Self {
            state: State::Between(from),
        }
    }
}

impl<R: BufRead> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            self.state = match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(0),
                State::Between(mut from) => {
                    if from.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(from).map_err(|error| io::Error::other(error.to_string()))?;
                    State::Frame(Box::new(decoder))
                }
                State::Frame(mut decoder) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        self.state = State::Frame(decoder);
                        return Ok(read);
                    }
                    State::Between(decoder.into_inner())
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        (0..length)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Half of it compresses.
                if at % 8192 < 4096 { 0x20 } else { (state >> 56) as u8 }
            })
            .collect()
    }

    #[test]
    fn frames_come_back_and_do_not_depend_on_how_they_were_written() {
        for length in [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES * 2 + 77] {
            let bytes = noise(length);
            let mut one = Writer::new(Vec::new());
            one.write_all(&bytes).unwrap();
            let packed = one.finish().unwrap();
            let mut pieces = Writer::new(Vec::new());
            bytes.chunks(100_003).for_each(|piece| pieces.write_all(piece).unwrap());
            assert_eq!(pieces.finish().unwrap(), packed);
            let mut back = Vec::new();
            Reader::new(&*packed).read_to_end(&mut back).unwrap();
            assert!(back == bytes, "{length}");
        }
    }

    #[test]
    fn damaged_frames_are_refused_or_give_other_bytes_and_never_more() {
        let bytes = noise(100_000);
        let mut writer = Writer::new(Vec::new());
        writer.write_all(&bytes).unwrap();
        let packed = writer.finish().unwrap();
        for at in (0..packed.len()).step_by(97) {
            let mut bad = packed.clone();
            bad[at] ^= 0x5a;
            let mut back = Vec::new();
            let _ = Reader::new(&*bad).take(1 << 22).read_to_end(&mut back);
            let _ = Reader::new(&bad[..at]).take(1 << 22).read_to_end(&mut back);
        }
    }
}
