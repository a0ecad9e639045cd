// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged and hostile discs, many of them: whatever is changed in a disc's structures, opening it, walking it and reading
//! its files ends soon, in bounded memory, without a panic.
//!
//! `VODKA_MUTATIONS` sets how many discs are tried (400 without it), `VODKA_SEED` another series.
#![allow(clippy::print_stderr, reason = "counts are part of the result")]

mod medium_support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use medium_support::udf_image::{Form, Layout, Options, crc, put, reseal, tree, write_with_structures};
use medium_support::{arg, have, pattern, run};
use vodka_decant::medium::Medium;

/// No disc may take longer than this, however the machine is loaded.
const LONGEST: Duration = Duration::from_secs(5);
/// The peak of the whole test process, which holds the base images as well.
const MOST_MEMORY_KIB: u64 = 512 * 1024;

/// A disc that is right, and where its structures are.
struct Base {
    name: String,
    bytes: Vec<u8>,
    block_bytes: usize,
    structures: Vec<usize>,
    has_tags: bool,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

fn udf_bases() -> Vec<Base> {
    let files = [
        ("sources/install.wim", pattern(1, 30_000)),
        ("sources/boot.wim", pattern(2, 600)),
        ("a/b/\u{41f}.txt", pattern(3, 5000)),
        ("readme", pattern(4, 10)),
    ];
    let mut bases = Vec::new();
    for form in [
        Form::Plain,
        Form::Sparable,
        Form::Virtual150,
        Form::Virtual200,
        Form::Metadata,
    ] {
        for (layout, strategy, block_bytes) in [
            (Layout::Scattered, 4, 2048),
            (Layout::Inline, 4, 512),
            (Layout::Holes, 4096, 2048),
            (Layout::Extended, 4, 2048),
        ] {
            let options = Options {
                form,
                layout,
                strategy,
                block_bytes,
                inline_directories: layout == Layout::Inline,
                extended_entries: layout == Layout::Holes,
                ..Options::default()
            };
            let (bytes, structures) = write_with_structures(&options, &tree(&files));
            let name = format!("{form:?} {layout:?} {strategy} {block_bytes}");
            bases.push(Base {
                name,
                bytes,
                block_bytes,
                structures,
                has_tags: true,
            });
        }
    }
    bases
}

fn iso_bases() -> Vec<Base> {
    if !have(&["genisoimage", "xorriso"]) {
        return Vec::new();
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    let deep = source.join("1/2/3/4/5/6/7/8/9/10");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir_all(source.join("sources")).unwrap();
    std::fs::write(source.join("sources/install.wim"), pattern(5, 9000)).unwrap();
    std::fs::write(source.join("n".repeat(200)), b"long name").unwrap();
    std::fs::write(deep.join("deep"), b"deep").unwrap();
    std::os::unix::fs::symlink("sources/install.wim", source.join("link")).unwrap();
    let target = directory.path().join("image.iso");
    let mut bases = Vec::new();
    let forms: [(&str, &[&str]); 4] = [
        ("genisoimage", &["-quiet", "-no-pad", "-R", "-J", "-joliet-long"]),
        ("genisoimage", &["-quiet", "-no-pad", "-J", "-joliet-long", "-D", "-U"]),
        ("genisoimage", &["-quiet", "-no-pad", "-iso-level", "4"]),
        ("xorriso", &["-as", "mkisofs", "-quiet", "-no-pad", "-R"]),
    ];
    for (program, arguments) in forms {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", arg(&target), arg(&source)]);
        run(program, &arguments);
        let bytes = std::fs::read(&target).unwrap();
        // Everything but the content of files.
        let structures = (16..bytes.len() / 2048).map(|sector| sector * 2048).filter(|at| {
            let sector = &bytes[*at..at + 2048];
            let is_directory = sector[32] == 1 && sector[33] == 0 && sector[0] >= 34;
            let is_continuation = sector.windows(2).any(|pair| pair == b"NM" || pair == b"ER");
            &sector[1..6] == b"CD001" || is_directory || is_continuation
        });
        let structures = structures.collect();
        bases.push(Base {
            name: format!("{program} {arguments:?}"),
            bytes,
            block_bytes: 2048,
            structures,
            has_tags: false,
        });
    }
    bases
}

/// Changes 1 to 4 places; gives the image and what is changed in it.
fn mutate(base: &Base, random: &mut Random) -> Vec<(usize, Vec<u8>)> {
    let mut changes = Vec::new();
    for _ in 0..=random.below(4) {
        let at = base.structures[random.below(base.structures.len())];
        let mut block = base.bytes[at..(at + base.block_bytes).min(base.bytes.len())].to_vec();
        // Most of a descriptor's meaning is in its first bytes.
        let reach = [64, 256, block.len()][random.below(3)].min(block.len());
        for _ in 0..=random.below(3) {
            let place = random.below(reach);
            match random.below(6) {
                0 => block[place] ^= 1 << random.below(8),
                1 => block[place] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                2 if place + 4 <= block.len() => {
                    let blocks = u32::try_from(base.bytes.len() / base.block_bytes).unwrap();
                    let own = u32::try_from(at / base.block_bytes).unwrap();
                    let values = [
                        0,
                        1,
                        u32::MAX,
                        0x3fff_ffff,
                        0x4000_0000,
                        0xc000_0800,
                        blocks,
                        blocks - 1,
                        own,
                        own.wrapping_sub(320),
                    ];
                    put(&mut block, place, &values[random.below(values.len())].to_le_bytes());
                }
                3 if place + 2 <= block.len() => {
                    let values = [0_u16, 4, 4096, 0xffff, 257, 258, 259, 261, 266];
                    put(&mut block, place, &values[random.below(values.len())].to_le_bytes());
                }
                4 => {
                    // A number that counts something becomes a little greater or smaller.
                    block[place] = block[place]
                        .wrapping_add(u8::try_from(random.below(5)).unwrap())
                        .wrapping_sub(2);
                }
                _ => {
                    let other = base.structures[random.below(base.structures.len())];
                    let length = random.below(64).min(block.len() - place);
                    if let Some(bytes) = base.bytes.get(other + place..other + place + length) {
                        let bytes = bytes.to_vec();
                        put(&mut block, place, &bytes);
                    }
                }
            }
        }
        // Half of the time the checksums are right: only then is what lies behind them reached.
        if base.has_tags && random.below(2) == 0 {
            let length = usize::from(u16::from_le_bytes([block[10], block[11]])).min(block.len() - 16);
            let sum = crc(&block[16..16 + length]);
            put(&mut block, 8, &sum.to_le_bytes());
            reseal(&mut block);
        }
        changes.push((at, block));
    }
    changes
}

/// Opens, walks and reads; gives how many files could be read whole, `None` where the disc is refused.
fn read_everything(path: &Path) -> Option<usize> {
    let medium = Medium::open(path).ok()?;
    let _ = medium.windows_sources();
    let mut whole = 0;
    for entry in medium.walk() {
        let Ok(entry) = entry else { continue };
        let Ok(file) = medium.open_file(&entry) else { continue };
        assert_eq!(file.len_bytes(), entry.size_bytes(), "{}", entry.path());
        let length = usize::try_from(file.len_bytes().min(1 << 20)).unwrap();
        let mut buffer = vec![0; length];
        let front = file.read_exact_at(&mut buffer, 0);
        let back = file.read_exact_at(&mut buffer, file.len_bytes() - length as u64);
        whole += usize::from(front.is_ok() && back.is_ok());
    }
    Some(whole)
}

#[test]
fn no_mutated_disc_hangs_panics_or_takes_much_memory() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let cases: u64 = number("VODKA_MUTATIONS", 400);
    let seed = number("VODKA_SEED", 0x00c0_ffee);
    let mut bases = udf_bases();
    bases.extend(iso_bases());
    let directory = tempfile::tempdir().unwrap();
    let mut images = Vec::new();
    for (index, base) in bases.iter().enumerate() {
        let path = directory.path().join(format!("{index}.iso"));
        std::fs::write(&path, &base.bytes).unwrap();
        assert!(
            read_everything(&path).is_some_and(|whole| whole >= 3),
            "{} is wrong before anything is changed",
            base.name
        );
        images.push((std::fs::OpenOptions::new().write(true).open(&path).unwrap(), path));
    }
    let (mut refused, mut read, mut slowest) = (0, 0, Duration::ZERO);
    for case in 0..cases {
        let mut random = Random((seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        random.next();
        let index = random.below(bases.len());
        let (base, (file, path)) = (&bases[index], &images[index]);
        let changes = mutate(base, &mut random);
        for (at, block) in &changes {
            file.write_all_at(block, *at as u64).unwrap();
        }
        let start = Instant::now();
        let result = std::panic::catch_unwind(|| read_everything(path));
        let took = start.elapsed();
        let places: Vec<usize> = changes.iter().map(|(at, _)| *at).collect();
        assert!(
            took < LONGEST,
            "case {case} of seed {seed:#x} ({}, {places:?}) took {took:?}",
            base.name
        );
        match result {
            Ok(None) => refused += 1,
            Ok(Some(_)) => read += 1,
            Err(_) => panic!("case {case} of seed {seed:#x} ({}, {places:?}) panicked", base.name),
        }
        slowest = slowest.max(took);
        for (at, block) in &changes {
            file.write_all_at(&base.bytes[*at..at + block.len()], *at as u64)
                .unwrap();
        }
    }
    let peak = peak_memory_kib();
    eprintln!("{cases} mutated discs: {refused} refused, {read} opened; slowest {slowest:?}, peak memory {peak} KiB");
    // If nearly all went one way the mutations would prove little.
    assert!(
        cases < 100 || (refused > cases / 20 && read > cases / 20),
        "{refused} refused, {read} opened"
    );
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
