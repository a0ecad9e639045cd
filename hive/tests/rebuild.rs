// SPDX-License-Identifier: GPL-3.0-or-later
//! Hives that this crate writes are read the same by readers that nobody here wrote, and nothing is lost
//! on the way through a merge.

mod common;

use hive::format::{data_type, key_flag};
use hive::{Counts, Error, Hive, Merge, Node, Order, Strictness, Walk, WriteOptions, count, rebuild};

/// A tree with every kind of thing in it.
fn specimen() -> Node {
    let mut root = Node::new("ROOT");
    root.key("Setup")
        .set_sz("", "default")
        .set_dword("SetupType", 2)
        .set_class("cl\u{e4}ss");
    root.key("Setup").last_written = Some(132_000_000_000_000_000);
    root.key("Setup").security = Some(vec![1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    root.key("Links\\CurrentControlSet")
        .link_to("\\Registry\\Machine\\System\\ControlSet001");
    let big = root.key("Big");
    for len in [0, 1, 4, 5, 16_343, 16_344, 16_345, 32_688, 32_689, 100_000_usize] {
        let data: Vec<u8> = (0..len).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
        big.set(format!("{len}").as_str(), data_type::BINARY, data);
    }
    root.key("Types")
        .set("odd", 0xffff_0011, [1, 2, 3])
        .set("none", data_type::NONE, []);
    root.key("Unicode\\Привет").set_sz("Ключ", "значение");
    root.key("Unicode")
        .subkey_named(hive::NameBuf::from_units(&[0xd800, 0, 1, 0xdc00]))
        .set_dword("\u{0}x", 1);
    for nr in 0..1500 {
        root.key("Many").subkeys.push(Node::new(format!("key{nr}").as_str()));
    }
    root
}

/// Everything that makes a registry, in canonical order, as text to compare.
fn describe(hive: &Hive<'_>) -> Vec<String> {
    let mut walk = Walk::ordered(hive.root().unwrap(), Strictness::Strict, Order::Canonical);
    let mut lines = Vec::new();
    while let Some(key) = walk.next_key().unwrap() {
        lines.push(format!(
            "{} {:x?} flags {:x} {} {} class {:?} sd {:?} written {}",
            walk.path(),
            key.name().units().collect::<Vec<_>>(),
            key.flags() & !(key_flag::HIVE_ENTRY | key_flag::NO_DELETE),
            key.user_flags(),
            key.layer_flags(),
            key.class().unwrap(),
            key.security().unwrap(),
            key.last_written()
        ));
        walk.values(&key, |value, data| {
            let name: Vec<u16> = value.name().units().collect();
            lines.push(format!("  {name:x?} {} {:?}", value.data_type(), data.to_vec()));
            Ok(())
        })
        .unwrap();
    }
    lines
}

#[test]
fn a_tree_comes_back_as_it_was_written() {
    let tree = specimen();
    let bytes = tree
        .to_hive(&WriteOptions {
            timestamp: 7,
            ..WriteOptions::default()
        })
        .unwrap();
    let hive = Hive::open(&bytes).unwrap();
    let (read, damage) = Node::read(hive.root().unwrap(), Strictness::Strict).unwrap();
    assert!(damage.is_clean());
    let again = read
        .to_hive(&WriteOptions {
            timestamp: 7,
            ..WriteOptions::default()
        })
        .unwrap();
    assert_eq!(describe(&hive), describe(&Hive::open(&again).unwrap()));
    assert_eq!(bytes, again, "the same registry gives the same bytes");
}

#[test]
fn the_order_of_making_does_not_change_the_bytes() {
    let mut forwards = Node::new("ROOT");
    let mut backwards = Node::new("ROOT");
    for nr in 0..700 {
        forwards.key(&format!("k{nr}"));
        backwards.key(&format!("k{}", 699 - nr));
    }
    let options = WriteOptions::default();
    assert_eq!(
        forwards.to_hive(&options).unwrap(),
        backwards.to_hive(&options).unwrap()
    );
}

#[test]
fn nt_hive_reads_what_we_write() {
    let bytes = specimen().to_hive(&WriteOptions::default()).unwrap();
    let theirs = nt_hive::Hive::new(bytes.as_ref()).unwrap();
    theirs.validate().unwrap();
    let root = theirs.root_key_node().unwrap();
    let big = root.subpath("Big").unwrap().unwrap();
    for len in [0, 1, 4, 5, 16_343, 16_344, 16_345, 32_688, 32_689, 100_000_usize] {
        let value = big.value(&len.to_string()).unwrap().unwrap();
        let data = value.data().unwrap().into_vec().unwrap();
        assert!(data.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
        assert_eq!(data.len(), len);
    }
    let many = root.subpath("Many").unwrap().unwrap();
    assert_eq!(many.subkeys().unwrap().unwrap().count(), 1500);
    assert!(
        (0..1500).all(|nr| many.subkey(&format!("KEY{nr}")).is_some()),
        "their lookup relies on our order"
    );
    let setup = root.subpath("setup").unwrap().unwrap();
    assert_eq!(setup.class_name().unwrap().unwrap().to_string_lossy(), "cl\u{e4}ss");
    assert_eq!(setup.value("setuptype").unwrap().unwrap().dword_data().unwrap(), 2);
}

#[test]
fn a_merge_is_whole_and_counted() {
    let options = WriteOptions {
        timestamp: 132_000_000_000_000_000,
        ..WriteOptions::default()
    };
    let system = specimen().to_hive(&options).unwrap();
    let default = Node::new("r").to_hive(&options).unwrap();
    let (system, default) = (Hive::open(&system).unwrap(), Hive::open(&default).unwrap());
    let mut merge = Merge::new(options.clone());
    merge.mount("Windows\\Machine\\SYSTEM", system).unwrap();
    merge.mount("Windows\\User\\.DEFAULT", default).unwrap();
    assert!(matches!(
        merge.mount("windows\\machine", default),
        Err(Error::AlreadyExists { .. })
    ));
    assert!(matches!(
        merge.mount("Windows\\User\\.default\\x", default),
        Err(Error::AlreadyExists { .. })
    ));
    let merged = merge.build().unwrap();
    let hive = Hive::open(&merged.bytes).unwrap();
    let source = count(system.root().unwrap(), Strictness::Strict).unwrap().0;
    assert_eq!(merged.sources[0].counts, source);
    let back = hive.open_path("windows\\machine\\system").unwrap().unwrap();
    assert_eq!(count(back, Strictness::Strict).unwrap().0, source);
    assert_eq!(merged.sources[1].counts, Counts { keys: 1, values: 0 });
    let total = count(hive.root().unwrap(), Strictness::Strict).unwrap().0;
    // The root, Windows, Machine and User are new.
    assert_eq!(
        total,
        Counts {
            keys: source.keys + 1 + 4,
            values: source.values
        }
    );
    assert_eq!(merged.total, total);
    let link = back.open_path("Links\\CurrentControlSet").unwrap().unwrap();
    assert!(link.is_symbolic_link());
    let target = link.link_target().unwrap().unwrap();
    let expected: Vec<u8> = "\\Registry\\Machine\\System\\ControlSet001"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(target, expected);
    nt_hive::Hive::new(merged.bytes.as_ref()).unwrap().validate().unwrap();
}

#[test]
fn every_whole_hive_of_the_corpus_is_rebuilt_equal() {
    let Some(dir) = common::corpus_dir() else { return };
    let mut nr = 0;
    for entry in walk_files(&dir.join("hive")) {
        let bytes = std::fs::read(&entry).unwrap();
        let Ok(hive) = Hive::open(&bytes) else { continue };
        if hive.root().and_then(|root| count(root, Strictness::Strict)).is_err() {
            continue;
        }
        let (rebuilt, report) = rebuild(&hive, &WriteOptions::default()).unwrap();
        assert!(report.damage.is_clean());
        let again = Hive::open(&rebuilt).unwrap();
        assert_eq!(describe(&hive), describe(&again), "{}", entry.display());
        assert_eq!(
            rebuild(&again, &WriteOptions::default()).unwrap().0,
            rebuilt,
            "{}",
            entry.display()
        );
        nt_hive::Hive::new(rebuilt.as_ref()).unwrap().validate().unwrap();
        nr += 1;
    }
    assert!(nr >= 15, "{nr} hives");
}

fn walk_files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk_files(&path))
        } else {
            files.push(path)
        }
    }
    files.sort();
    files
}

#[test]
fn a_name_that_is_not_possible_is_refused() {
    for name in ["", "a\\b", &"x".repeat(256)] {
        let mut root = Node::new("r");
        root.subkeys.push(Node::new(name));
        let error = root.to_hive(&WriteOptions::default()).unwrap_err();
        assert!(matches!(error, Error::InKey { .. }), "{name:?}: {error}");
    }
    let mut root = Node::new("r");
    root.class = Some(vec![0; 70_000]);
    assert!(matches!(
        root.to_hive(&WriteOptions::default()),
        Err(Error::InvalidName { .. })
    ));
    let mut root = Node::new("r");
    root.subkeys = vec![Node::new("Same"), Node::new("sAME")];
    let error = root.to_hive(&WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("two subkeys"), "{error}");
}

#[test]
fn the_default_security_descriptor_is_well_formed() {
    let descriptor = hive::DEFAULT_SECURITY;
    let number = |at: usize| u32::from_le_bytes(descriptor[at..at + 4].try_into().unwrap()) as usize;
    let sid_bytes = |at: usize| 8 + 4 * usize::from(descriptor[at + 1]);
    // Revision 1, self-relative, with a DACL.
    assert_eq!(descriptor[..4], [1, 0, 0x04, 0x80]);
    let (owner, group, sacl, dacl) = (number(4), number(8), number(12), number(16));
    assert_eq!((sacl, dacl), (0, 20));
    assert_eq!(owner + sid_bytes(owner), group);
    assert_eq!(group + sid_bytes(group), descriptor.len());
    let acl_bytes = usize::from(u16::from_le_bytes([descriptor[dacl + 2], descriptor[dacl + 3]]));
    assert_eq!(dacl + acl_bytes, owner);
    let (mut at, mut nr) = (dacl + 8, 0);
    while at < dacl + acl_bytes {
        let bytes = usize::from(u16::from_le_bytes([descriptor[at + 2], descriptor[at + 3]]));
        assert_eq!(bytes, 8 + sid_bytes(at + 8));
        at += bytes;
        nr += 1;
    }
    assert_eq!((at, nr), (owner, usize::from(descriptor[dacl + 4])));
}
