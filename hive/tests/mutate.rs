// SPDX-License-Identifier: GPL-3.0-or-later
//! Hostile input: mutated hives, logs and texts never panic, hang or take much memory. The mutator is
//! seeded; `VODKA_MUTATIONS` is the number (100,000 in a full run), `VODKA_SEED` the seed,
//! `VODKA_FIRST` the one to begin with.
#![allow(clippy::print_stdout)] // A full run says how many there were.

mod common;

use std::time::Duration;

use hive::format::{BIG_DATA_MINOR_VERSION, data_type};
use hive::log::recover;
use hive::reg_export::{ExportOptions, TextForm, export};
use hive::{
    DiffOptions, Editor, Error, Hive, NameBuf, NewKey, Node, Strictness, WriteOptions, count, diff, rebuild, verify,
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap() % limit.max(1)
    }
}

fn specimen() -> Node {
    let mut root = Node::new("ROOT");
    for nr in 0..40_u8 {
        let node = root.key(&format!("Key{nr}\\Sub{nr}"));
        node.set_dword("n", nr.into()).set_sz("", "text").set_class("class");
        node.set(
            format!("b{nr}").as_str(),
            data_type::BINARY,
            vec![1; usize::from(nr) * 7],
        );
        if nr % 9 == 0 {
            node.security = Some(vec![nr; 30]);
        }
    }
    root.key("Big").set("big", data_type::BINARY, vec![7; 17_000]);
    root.key("Link").link_to("\\Registry\\Machine");
    for nr in 0..600 {
        root.key("Many").subkeys.push(Node::new(format!("k{nr}").as_str()));
    }
    root.key("Odd")
        .subkey_named(NameBuf::from_units(&[0xd800, 0]))
        .set_sz("\u{416}", "x");
    root
}

/// A hive with its logs; most are small, so that many can be tried.
struct Seed {
    hive: Vec<u8>,
    logs: Vec<Vec<u8>>,
}

fn seeds() -> Vec<Seed> {
    let options = WriteOptions::default();
    let mut seeds = vec![Seed {
        hive: specimen().to_hive(&options).unwrap(),
        logs: vec![],
    }];
    let mut small = Node::new("ROOT");
    small.key("A\\B\\C").set_sz("x", "y").set_class("z");
    small.key("A\\D").set("big", 3, vec![1; 17_000]);
    seeds.push(Seed {
        hive: small.to_hive(&options).unwrap(),
        logs: vec![],
    });
    for name in [
        "hivex/special",
        "hivex/rlenvalue_test_hive",
        "yarp/OffHive",
        "hivex/minimal",
    ] {
        seeds.extend(common::corpus(&format!("hive/{name}")).map(|hive| Seed { hive, logs: vec![] }));
    }
    // Cut behind their bins, with their logs.
    let cut = |bytes: Vec<u8>| {
        let bins = u32::from_le_bytes(bytes[40..44].try_into().unwrap()) as usize;
        bytes[..(4096 + bins).min(bytes.len())].to_vec()
    };
    for name in [
        "UnicodeHive",
        "BigDataHive",
        "TwoOwnersHive",
        "StringValuesHive",
        "NewFlagsHive",
        "BadListHive",
    ] {
        seeds.extend(common::corpus(&format!("hive/yarp/{name}")).map(|hive| Seed {
            hive: cut(hive),
            logs: vec![],
        }));
    }
    let new = "hive/yarp/NewDirtyHive1/NewDirtyHive";
    if let (Some(hive), Some(log1), Some(log2)) = (
        common::corpus(new),
        common::corpus(&format!("{new}.LOG1")),
        common::corpus(&format!("{new}.LOG2")),
    ) {
        for _ in 0..3 {
            seeds.push(Seed {
                hive: cut(hive.clone()),
                logs: vec![log1.clone(), log2.clone()],
            });
        }
    }
    let old = "hive/yarp/OldDirtyHive/OldDirtyHive";
    if let (Some(hive), Some(log)) = (common::corpus(old), common::corpus(&format!("{old}.LOG1"))) {
        seeds.push(Seed {
            hive: cut(hive),
            logs: vec![log],
        });
    }
    seeds
}

/// Numbers that parsers stumble over.
const NASTY: [u32; 14] = [
    0,
    1,
    4,
    7,
    8,
    0x20,
    0xfff,
    0x1000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff8,
    0xffff_fff0,
    0xffff_ffff,
    0xffff_0000,
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random, structured: bool) {
    for _ in 0..=random.below(6) {
        let len = bytes.len();
        if len < 64 {
            return;
        }
        // Most of what matters is in the first bins.
        let at = if random.below(3) == 0 {
            random.below(len - 8)
        } else {
            random.below((len - 8).min(0x3000))
        };
        let word = at & !3;
        match random.below(if structured { 9 } else { 5 }) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next().to_le_bytes()[0],
            2 => bytes[word..word + 4].copy_from_slice(&NASTY[random.below(NASTY.len())].to_le_bytes()),
            3 => {
                let from = random.below(len - 8);
                bytes.copy_within(from..from + 8, at);
            }
            4 if random.below(6) == 0 => bytes.truncate(random.below(len)),
            // One cell's reference or size into another place.
            5 | 6 => {
                let from = (4096 + random.below(len.saturating_sub(4096))) & !3;
                if let Some(word_there) = bytes.get(from..from + 4).map(<[u8]>::to_vec) {
                    bytes[word..word + 4].copy_from_slice(&word_there);
                }
            }
            // A reference to any aligned place.
            7 => {
                let target = u32::try_from(random.below(len) & !7).unwrap();
                bytes[word..word + 4].copy_from_slice(&target.to_le_bytes());
            }
            _ => {
                for signature in [b"nk", b"vk", b"lh", b"ri", b"li", b"lf", b"db", b"sk"] {
                    if random.below(12) == 0 {
                        bytes[at..at + 2].copy_from_slice(signature);
                    }
                }
            }
        }
    }
}

fn fix_checksum(bytes: &mut [u8]) {
    if bytes.len() >= 512 {
        let sum = hive::format::checksum(bytes);
        bytes[508..512].copy_from_slice(&sum.to_le_bytes());
    }
}

/// How long this thread has run, waiting left out: a busy machine must not fail the test.
fn time_on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Everything that the library does with a file, in both modes.
fn exercise(bytes: &[u8], logs: &[Vec<u8>]) -> (bool, bool) {
    let logs: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    let mut recovered = false;
    if let Ok((replayed, recovery)) = recover(bytes, &logs) {
        assert!(Hive::open(&replayed).is_ok(), "what recovery gives is a clean hive");
        recovered = recovery.is_some();
    }
    let Ok((hive, _)) = Hive::open_damaged(bytes) else {
        return (false, recovered);
    };
    let Ok(root) = hive.root() else {
        return (false, recovered);
    };
    let strict = count(root, Strictness::Strict);
    let (counts, damage) = count(root, Strictness::WalkOn).unwrap();
    assert_eq!(strict.is_ok(), damage.is_clean());
    let report = verify(bytes).unwrap();
    for path in ["Key7\\SUB7", "Many\\k500", "Привет\\ключ", "A\\B\\C"] {
        if let Ok(Some(key)) = hive.open_path(path) {
            let _ = (key.value("n"), key.class(), key.security(), key.link_target());
        }
    }
    let options = WriteOptions {
        strictness: Strictness::WalkOn,
        ..WriteOptions::default()
    };
    let (rebuilt, written) = rebuild(&hive, &options).unwrap();
    assert!(written.counts.keys <= counts.keys && written.counts.values <= counts.values);
    let again = verify(&rebuilt).unwrap();
    assert!(
        again.is_sound(),
        "a rebuilt hive is sound: {:?}",
        again.findings.first()
    );
    assert_eq!(again.counts, written.counts);
    let text = ExportOptions {
        strictness: Strictness::WalkOn,
        whole: true,
        ..ExportOptions::default()
    };
    let (text, _) = export(root, &text).unwrap();
    let _ = hive::reg_import::parse(&text).unwrap();
    let _ = diff(
        root,
        Hive::open(&rebuilt).unwrap().root().unwrap(),
        DiffOptions::default(),
        &mut |_| Ok(()),
    );
    if let Ok(mut editor) = Editor::open(bytes.to_vec()) {
        assert!(report.is_sound());
        let _ = editor.transact(|editor| {
            let key = editor.create_path("New\\Key", 1)?;
            editor.set_value(key, &[0x61], 3, &[1; 17_000], 1)?;
            let root = editor.root()?;
            let first = editor.key(root)?.subkeys()?.next().transpose()?.map(|key| key.id());
            if let Some(first) = first.filter(|&first| first != key) {
                editor.set_security(first, &[1; 24], 1)?;
                editor.delete_tree(first, 1)?;
            }
            editor.create_key(root, &[0x7a], NewKey::default(), 1)
        });
        let after = verify(editor.bytes()).unwrap();
        assert!(
            after.is_sound(),
            "a change leaves a sound hive sound: {:?}",
            after.findings.first()
        );
    }
    (true, recovered)
}

#[test]
fn mutated_hives_and_logs_never_panic_hang_or_take_much_memory() {
    let number = |name: &str, default: u64| -> u64 {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (nr_mutations, seed) = (number("VODKA_MUTATIONS", 600), number("VODKA_SEED", 1));
    let seeds = seeds();
    let mut slowest = Duration::ZERO;
    let (mut nr_opened, mut nr_recovered) = (0_u64, 0_u64);
    let first = number("VODKA_FIRST", 0);
    for nr in first..first + nr_mutations {
        let mut random = Random((seed << 32 | nr).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        let from = &seeds[random.below(seeds.len())];
        let (mut bytes, mut logs) = (from.hive.clone(), from.logs.clone());
        if logs.is_empty() || random.below(2) == 0 {
            mutate(&mut bytes, &mut random, true);
            if random.below(4) != 0 {
                fix_checksum(&mut bytes);
            }
        }
        for log in &mut logs {
            if random.below(2) == 0 {
                mutate(log, &mut random, false);
                fix_checksum(log);
            }
        }
        let start = time_on_cpu();
        let caught = std::panic::catch_unwind(|| exercise(&bytes, &logs));
        let took = time_on_cpu() - start;
        let (opened, recovered) = caught.unwrap_or_else(|_| panic!("mutation {nr} of seed {seed} panicked"));
        nr_opened += u64::from(opened);
        nr_recovered += u64::from(recovered);
        assert!(
            took < Duration::from_secs(5),
            "mutation {nr} of seed {seed} took {took:?}"
        );
        slowest = slowest.max(took);
    }
    assert!(
        nr_opened > nr_mutations / 3,
        "the mutator leaves enough to read: {nr_opened}"
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("0 kB")
        .trim()
        .to_owned();
    let peak_kib: u64 = peak.trim_end_matches(" kB").parse().unwrap_or(0);
    assert!(peak_kib < 512 * 1024, "{peak}");
    println!(
        "{nr_mutations} mutations, {nr_opened} opened, {nr_recovered} recovered, slowest {slowest:?}, peak {peak}"
    );
}

#[test]
fn mutated_texts_are_read_or_refused_and_never_hang() {
    let bytes = specimen().to_hive(&WriteOptions::default()).unwrap();
    let root = Hive::open(&bytes).unwrap().root().unwrap();
    let forms = [TextForm::Version5, TextForm::Version5Utf8, TextForm::Regedit4];
    let (mut nr_read, nr_texts) = (0, 400);
    for nr in 0..nr_texts {
        let mut random = Random((nr + 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let options = ExportOptions {
            form: forms[random.below(3)],
            whole: random.below(2) == 0,
            ..Default::default()
        };
        let mut text = export(root, &options).unwrap().0;
        if nr % 4 == 0 {
            mutate(&mut text, &mut random, false);
        }
        for _ in 0..random.below(4) {
            let at = random.below(text.len());
            text[at] = b"\"\\[]=-@;,:0fx\r\n\0"[random.below(16)];
        }
        let start = time_on_cpu();
        if let Ok(changes) = hive::reg_import::parse(&text) {
            nr_read += 1;
            let made = hive::reg_import::to_hive(&changes, &WriteOptions::default(), |path| Some(path.to_vec()));
            if let Ok(made) = made {
                assert!(verify(&made).unwrap().is_sound());
            }
        }
        assert!(time_on_cpu() - start < Duration::from_secs(5));
    }
    assert!(
        nr_read > 40 && nr_read < nr_texts,
        "{nr_read} of {nr_texts} could be read"
    );
}

/// nt-hive 0.3.0 computes the place of an error from the address of a local copy (`field_address >
/// base_address`) and may panic where a number's data have another length than its type has.
#[test]
fn a_number_of_the_wrong_length_is_a_value_and_no_panic() {
    for (kind, len) in [
        (data_type::DWORD, 2),
        (data_type::DWORD, 7),
        (data_type::QWORD, 3),
        (data_type::SZ, 1),
    ] {
        let mut root = Node::new("ROOT");
        root.set("v", kind, vec![1; len]);
        let bytes = root.to_hive(&WriteOptions::default()).unwrap();
        // In another thread the stack lies below the heap's maps.
        let read = std::thread::spawn(move || {
            let value = Hive::open(&bytes).unwrap().root().unwrap().value("v").unwrap().unwrap();
            (value.data_type(), value.data().unwrap().to_vec())
        });
        assert_eq!(read.join().unwrap(), (kind, vec![1; len]));
    }
}

/// nt-hive 0.3.0 subtracts with overflow here (its issue 7).
#[test]
fn a_cell_of_size_zero_is_an_error() {
    let mut bytes = Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap();
    bytes[4096 + 0x20..4096 + 0x24].fill(0);
    let hive = Hive::open(&bytes).unwrap();
    assert!(matches!(hive.root(), Err(Error::CellNotInUse { size: 0, .. })));
    assert!(verify(&bytes).is_err() || !verify(&bytes).unwrap().is_sound());
}

#[test]
fn a_cycle_is_refused_and_named() {
    let mut root = Node::new("ROOT");
    root.key("A\\B");
    let mut bytes = root.to_hive(&WriteOptions::default()).unwrap();
    let hive = Hive::open(&bytes).unwrap();
    let (a, b) = (
        hive.open_path("A").unwrap().unwrap(),
        hive.open_path("A\\B").unwrap().unwrap(),
    );
    let (a, b) = (a.cell_offset(), usize::try_from(b.file_offset()).unwrap());
    // B gets A's list of subkeys: B is its own child.
    let list = bytes[4096 + a as usize + 4 + 28..][..4].to_vec();
    bytes[b + 4 + 20..b + 4 + 24].copy_from_slice(&1_u32.to_le_bytes());
    bytes[b + 4 + 28..b + 4 + 32].copy_from_slice(&list);
    let hive = Hive::open(&bytes).unwrap();
    let error = count(hive.root().unwrap(), Strictness::Strict).unwrap_err();
    let Error::InKey { path, source } = &error else {
        panic!("{error}")
    };
    assert_eq!(path, "A\\B");
    assert!(
        matches!(**source, Error::ListReachedTwice { .. } | Error::KeyReachedTwice { .. }),
        "{error}"
    );
    let (counts, damage) = count(hive.root().unwrap(), Strictness::WalkOn).unwrap();
    assert_eq!((counts.keys, damage.nr_found), (3, 1));
}

#[test]
fn deep_trees_are_bounded() {
    let mut node = Node::new("deepest");
    for _ in 0..hive::MAX_DEPTH - 2 {
        let mut parent = Node::new("d");
        parent.subkeys.push(node);
        node = parent;
    }
    let bytes = node.to_hive(&WriteOptions::default()).unwrap();
    let hive = Hive::open(&bytes).unwrap();
    let (counts, _) = count(hive.root().unwrap(), Strictness::Strict).unwrap();
    assert_eq!(counts.keys, hive::MAX_DEPTH as u64 - 1);
    assert!(verify(&bytes).unwrap().is_clean());
    let mut nr = 0;
    let empty = Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap();
    let none = Hive::open(&empty).unwrap().root().unwrap();
    for (a, b) in [
        (hive.root().unwrap(), hive.root().unwrap()),
        (none, hive.root().unwrap()),
    ] {
        diff(a, b, DiffOptions::default(), &mut |_| {
            nr += 1;
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(nr, hive::MAX_DEPTH - 2);
    let mut deeper = node;
    for _ in 0..3 {
        let mut parent = Node::new("d");
        parent.subkeys.push(deeper);
        deeper = parent;
    }
    let error = deeper.to_hive(&WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

#[test]
fn big_data_that_lists_one_segment_many_times_is_refused() {
    let mut root = Node::new("ROOT");
    root.set("v", data_type::BINARY, vec![1; 40_000]);
    let mut bytes = root.to_hive(&WriteOptions::default()).unwrap();
    let hive = Hive::open(&bytes).unwrap();
    assert!(hive.minor_version() >= BIG_DATA_MINOR_VERSION);
    let value = hive.root().unwrap().value("v").unwrap().unwrap();
    let at = usize::try_from(value.file_offset()).unwrap() + 4;
    // A length that its own bins could never hold.
    bytes[at + 4..at + 8].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    let hive = Hive::open(&bytes).unwrap();
    let error = hive.root().unwrap().value("v").unwrap().unwrap().data().unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
}
