// SPDX-License-Identifier: GPL-3.0-or-later
//! How fast one core decompresses a WIM's chunks, all in memory.
//!
//! `decompress FILE.wim [--dump CHUNKS]` prints the median processor time of some runs, without and with SHA-1. The dump holds for each
//! compressed chunk its stored length, unpacked length, compression (1 XPRESS, 2 LZX, 3 LZMS), chunk size, all 32 bits,
//! and its bytes, so that another decompressor can be timed on the very same chunks.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sha1::Digest as _;
use vodka_decant::wim::{Chunk, ChunkDecoder, Compression, ResourceLayout, Wim};

const RUNS: usize = 5;

struct Resource {
    layout: ResourceLayout,
    chunks: Vec<(Chunk, Vec<u8>)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: decompress FILE.wim [--dump CHUNKS]")?;
    let wim = Wim::open(Arc::new(std::fs::read(&path)?))?;
    let blobs = wim.blobs()?;
    let mut resources = Vec::new();
    for read in wim.read_order(blobs.iter().map(|(id, _)| id))? {
        let layout = wim.layout(read.resource)?;
        let mut chunks = Vec::new();
        for chunk in (0..layout.chunk_count()).map(|index| layout.chunk(index)) {
            let mut stored = Vec::new();
            wim.read_stored(&layout, &chunk, &mut stored)?;
            chunks.push((chunk, stored));
        }
        resources.push(Resource { layout, chunks });
    }
    if arguments.next().as_deref() == Some("--dump") {
        dump(&resources, &arguments.next().ok_or("--dump needs a file")?)?;
    }
    let only_compressed = resources
        .iter()
        .flat_map(|resource| &resource.chunks)
        .filter(|(chunk, _)| chunk.compressed);
    let (count, unpacked, stored) =
        only_compressed.fold((0u64, 0u64, 0u64), |(count, unpacked, stored), (chunk, bytes)| {
            (
                count + 1,
                unpacked + u64::from(chunk.size_bytes),
                stored + bytes.len() as u64,
            )
        });
    println!("{path}: {count} compressed chunks, {stored} -> {unpacked} bytes");
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| decompress(&resources, false))
        .collect::<Result<_, _>>()?;
    report("decompressed", unpacked, &mut times);
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| decompress(&resources, true))
        .collect::<Result<_, _>>()?;
    report("decompressed and hashed", unpacked, &mut times);
    Ok(())
}

fn decompress(resources: &[Resource], hash: bool) -> Result<Duration, Box<dyn Error>> {
    let mut decoder = ChunkDecoder::new();
    let mut output = Vec::new();
    let mut hasher = sha1::Sha1::new();
    let start = processor_time()?;
    for Resource { layout, chunks } in resources {
        for (chunk, stored) in chunks.iter().filter(|(chunk, _)| chunk.compressed) {
            output.resize(chunk.size_bytes as usize, 0);
            decoder.decode(layout, chunk, stored, &mut output)?;
            if hash {
                hasher.update(&output);
            }
        }
    }
    Ok(processor_time()? - start)
}

/// Time on a processor, which other programs disturb less than the time on the wall.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let schedule = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(Duration::from_nanos(
        schedule
            .split_whitespace()
            .next()
            .ok_or("an empty schedstat")?
            .parse()?,
    ))
}

fn report(what: &str, bytes: u64, times: &mut [Duration]) {
    times.sort();
    let median = times[times.len() / 2];
    let megabytes_per_second = bytes as f64 / 1e6 / median.as_secs_f64();
    println!(
        "{what}: median {median:?}, {megabytes_per_second:.0} MB/s, best {:?}",
        times[0]
    );
}

fn dump(resources: &[Resource], path: &str) -> Result<(), Box<dyn Error>> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for Resource { layout, chunks } in resources {
        let compression = match layout.compression() {
            Compression::None => 0u32,
            Compression::Xpress => 1,
            Compression::Lzx => 2,
            Compression::Lzms => 3,
        };
        for (chunk, stored) in chunks.iter().filter(|(chunk, _)| chunk.compressed) {
            for field in [
                chunk.stored_bytes,
                chunk.size_bytes,
                compression,
                layout.chunk_size_bytes(),
            ] {
                file.write_all(&field.to_le_bytes())?;
            }
            file.write_all(stored)?;
        }
    }
    Ok(file.flush()?)
}
