// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures the hive crate beside nt-hive, hivexml and reglookup on one big hive (257,843 keys, 407,686
//! values, about 113 MB) that it makes itself, and prints ratios. `cargo xtask bench hive` runs it.
#![allow(clippy::print_stdout)] // A program for people.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hive::format::data_type;
use hive::{Counts, Editor, Hive, HiveFile, Merge, NewKey, Node, Strictness, Walk, WriteOptions, count};

const NR_KEYS: usize = 257_843;
const NR_VALUES: usize = 407_686;

/// A small generator, so that the hive is the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % below
    }
}

/// A tree in the shape of a SOFTWARE hive: wide `Classes`, GUIDs, short and long values.
fn specimen() -> Node {
    let mut random = Random(1);
    let mut root = Node::new("ROOT");
    let (mut nr_keys, mut nr_values) = (1, 0);
    let mut area = 0;
    while nr_keys + 3 < NR_KEYS {
        let mut top = Node::new(format!("Area{area:04}").as_str());
        area += 1;
        nr_keys += 1;
        for _ in 0..random.next(900) {
            if nr_keys + 3 >= NR_KEYS {
                break;
            }
            let guid = format!(
                "{{{:08X}-1713-4E9A-ABC6-{:012X}}}",
                random.next(1 << 30),
                random.next(1 << 30)
            );
            let mut class = Node::new(guid.as_str());
            nr_keys += 1;
            for name in ["InprocServer32", "ProgID"] {
                let mut sub = Node::new(name);
                nr_keys += 1;
                add_values(&mut sub, &mut random, &mut nr_values);
                class.subkeys.push(sub);
            }
            add_values(&mut class, &mut random, &mut nr_values);
            top.subkeys.push(class);
        }
        dedup(&mut top);
        root.subkeys.push(top);
    }
    let mut rest = Node::new("ZRest");
    nr_values = nr_values_in(&root);
    while nr_values < NR_VALUES {
        rest.values.push(value(format!("v{nr_values}"), &mut random));
        nr_values += 1;
    }
    let missing = NR_KEYS - nr_keys_in(&root) - 1;
    rest.subkeys
        .extend((0..missing).map(|nr| Node::new(format!("k{nr}").as_str())));
    root.subkeys.push(rest);
    root
}

fn nr_values_in(node: &Node) -> usize {
    node.values.len() + node.subkeys.iter().map(nr_values_in).sum::<usize>()
}

fn nr_keys_in(node: &Node) -> usize {
    1 + node.subkeys.iter().map(nr_keys_in).sum::<usize>()
}

/// GUIDs that came twice go: their values with them, which `ZRest` makes up for.
fn dedup(node: &mut Node) {
    let key = |node: &Node| node.name.as_name().to_string();
    node.subkeys.sort_by_key(key);
    node.subkeys.dedup_by_key(|node| key(node));
}

fn add_values(node: &mut Node, random: &mut Random, nr_values: &mut usize) {
    for nr in 0..random.next(4) {
        if *nr_values >= NR_VALUES - 1000 {
            return;
        }
        let name = if nr == 0 {
            String::new()
        } else {
            format!("ThreadingModel{nr}")
        };
        node.values.push(value(name, random));
        *nr_values += 1;
    }
}

fn value(name: String, random: &mut Random) -> hive::NodeValue {
    let (data_type, data) = match random.next(100) {
        0..20 => (data_type::DWORD, vec![7; 4]),
        20..99 => (
            data_type::SZ,
            hive::tree::utf16_terminated(&"%SystemRoot%\\system32\\".repeat(1 + random.next(6))),
        ),
        _ if random.next(60) == 0 => (data_type::BINARY, vec![3; 20_000 + random.next(60_000)]),
        _ => (data_type::BINARY, vec![5; random.next(4000)]),
    };
    hive::NodeValue {
        name: name.as_str().into(),
        data_type,
        data,
        flags: 0,
    }
}

/// The best of several runs.
fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed()
    };
    (0..runs).map(once).min().unwrap_or_default()
}

/// Reads everything: each key's name, each value's name, type and data.
fn traverse(bytes: &[u8]) -> (Counts, usize) {
    let hive = Hive::open(bytes).expect("our own hive");
    let mut walk = Walk::new(hive.root().expect("root"), Strictness::Strict);
    let (mut counts, mut sum) = (Counts::default(), 0);
    while let Some(key) = walk.next_key().expect("sound") {
        counts.keys += 1;
        sum += key.name().len();
        walk.values(&key, |value, data| {
            counts.values += 1;
            sum += value.name().len() + value.data_type() as usize + data.len();
            Ok(())
        })
        .expect("sound");
    }
    (counts, sum)
}

/// The same with nt-hive, as its example program goes.
fn traverse_nt_hive(bytes: &[u8]) -> (Counts, usize) {
    type Node<'h, 'a> = nt_hive::KeyNode<'h, &'a [u8]>;
    fn visit(key: &Node<'_, '_>, counts: &mut Counts, sum: &mut usize) {
        counts.keys += 1;
        *sum += key.name().expect("name").len() / 2;
        if let Some(values) = key.values() {
            for value in values.expect("values") {
                let value = value.expect("value");
                counts.values += 1;
                let data = match value.data().expect("data") {
                    nt_hive::KeyValueData::Small(data) => data.len(),
                    nt_hive::KeyValueData::Big(slices) => slices.map(|slice| slice.expect("slice").len()).sum(),
                };
                let kind = value.data_type().map_or(0, |kind| kind as usize);
                *sum += value.name().expect("name").len() / 2 + kind + data;
            }
        }
        if let Some(subkeys) = key.subkeys() {
            for subkey in subkeys.expect("subkeys") {
                visit(&subkey.expect("subkey"), counts, sum);
            }
        }
    }
    let hive = nt_hive::Hive::new(bytes).expect("our hive is one for nt-hive");
    let (mut counts, mut sum) = (Counts::default(), 0);
    visit(&hive.root_key_node().expect("root"), &mut counts, &mut sum);
    (counts, sum)
}

fn program(name: &str, args: &[&str]) -> Option<Duration> {
    let start = Instant::now();
    let status = Command::new(name)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    status.success().then(|| start.elapsed())
}

fn line(what: &str, took: Duration, limit: Option<(f64, &str)>) {
    let seconds = took.as_secs_f64();
    match limit {
        Some((limit, unit)) => {
            let verdict = if seconds <= limit { "holds" } else { "MISSED" };
            println!(
                "{what:<44} {:>9.1} ms   wanted ≤ {limit} {unit}: {verdict}",
                seconds * 1e3
            );
        }
        None => println!("{what:<44} {:>9.1} ms", seconds * 1e3),
    }
}

/// Children added one by one to one key: growth against payload, and time against n log n.
fn one_by_one() {
    let grow = |nr: u32| {
        let mut editor =
            Editor::open(Node::new("ROOT").to_hive(&WriteOptions::default()).expect("writes")).expect("ours");
        let root = editor.root().expect("root");
        let start = Instant::now();
        let mut payload = 0;
        for child in 0..nr {
            let name: Vec<u16> = format!("Child{:06}", child.wrapping_mul(7919) % nr)
                .encode_utf16()
                .collect();
            editor.create_key(root, &name, NewKey::default(), 1).expect("room");
            payload += (4 + 76 + name.len()).next_multiple_of(8) + 8;
        }
        (start.elapsed(), editor.bytes().len(), payload)
    };
    let (took, bytes, payload) = grow(4000);
    line("4,000 children one by one", took, None);
    let ratio = bytes as f64 / payload as f64;
    println!(
        "{:<44} {ratio:>9.2} ×    wanted ≤ 2: {}",
        "  file to payload",
        if ratio <= 2.0 { "holds" } else { "MISSED" }
    );
    let (more, ..) = grow(64_000);
    let (few, many) = (4000_f64, 64_000_f64);
    let expected = many * many.log2() / (few * few.log2());
    let ratio = more.as_secs_f64() / took.as_secs_f64() / expected;
    println!(
        "{:<44} {ratio:>9.2} ×    of what n log n would be",
        "  16 times as many"
    );
}

/// Changes on disk, each journalled.
fn changes_on_disk() {
    let dir = std::env::temp_dir().join(format!("hive-bench-file-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let bytes = Node::new("ROOT").to_hive(&WriteOptions::default()).expect("writes");
    let mut file = HiveFile::create(&dir.join("x.hiv"), &bytes).expect("room in the temporary directory");
    let key = file.change(|editor| editor.create_path("A\\B", 1)).expect("room");
    let start = Instant::now();
    for nr in 0..2000_u32 {
        file.change(|editor| editor.set_value(key, &[0x76], 4, &nr.to_le_bytes(), 1))
            .expect("room");
    }
    println!(
        "{:<44} {:>9.1} µs",
        "one change on disk, journalled",
        start.elapsed().as_secs_f64() * 1e6 / 2000.0
    );
    std::fs::remove_dir_all(&dir).ok();
}

fn main() {
    let options = WriteOptions {
        timestamp: 133_000_000_000_000_000,
        ..WriteOptions::default()
    };
    let tree = specimen();
    let bytes = tree.to_hive(&options).expect("writes");
    let hive = Hive::open(&bytes).expect("opens");
    let counts = count(hive.root().expect("root"), Strictness::Strict).expect("sound").0;
    println!(
        "{} keys, {} values, {:.1} MB",
        counts.keys,
        counts.values,
        bytes.len() as f64 / 1e6
    );

    line(
        "bulk write from a tree",
        best(5, || tree.to_hive(&options)),
        Some((0.6, "s")),
    );
    let merge = || {
        let mut merge = Merge::new(options.clone());
        merge.mount("Windows\\Machine\\SOFTWARE", hive).expect("free");
        merge.build().expect("sound")
    };
    line("merge into a world", best(5, merge), Some((1.0, "s")));

    one_by_one();
    changes_on_disk();

    line("verify", best(3, || hive::verify(&bytes)), None);
    let (ours, theirs) = (traverse(&bytes), traverse_nt_hive(&bytes));
    assert_eq!(ours.0, theirs.0, "both readers see the same");
    let (ours, theirs) = (best(7, || traverse(&bytes)), best(7, || traverse_nt_hive(&bytes)));
    line("traversal", ours, None);
    line("traversal, nt-hive", theirs, None);
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!(
        "{:<44} {ratio:>9.2} ×    wanted ≤ 1.2: {}",
        "  ratio",
        if ratio <= 1.2 { "holds" } else { "MISSED" }
    );

    let dir = std::env::temp_dir().join(format!("hive-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let path = dir.join("big.hiv");
    std::fs::write(&path, &bytes).expect("room in the temporary directory");
    let path = path.to_string_lossy().into_owned();
    for (name, args) in [("hivexml", vec![path.as_str()]), ("reglookup", vec![path.as_str()])] {
        match program(name, &args) {
            Some(took) => {
                line(&format!("whole dump, {name}"), took, None);
                println!(
                    "{:<44} {:>9.4} ×",
                    "  our traversal to it",
                    ours.as_secs_f64() / took.as_secs_f64()
                );
            }
            None => println!("whole dump, {name}: not installed, or it failed"),
        }
    }
    std::fs::remove_dir_all(&dir).ok();
}
