// SPDX-License-Identifier: GPL-3.0-or-later
//! Every file of `corpus/hive` gives what its row of the manifest says.

mod common;

use hive::format::data_type;
use hive::log::{LogFormat, recover};
use hive::{Counts, Data, Error, Hive, Key, LayerSemantics, Strictness, Walk, count};

fn names(key: &Key<'_>) -> Vec<String> {
    key.subkeys()
        .unwrap()
        .map(|key| key.unwrap().name().to_string())
        .collect()
}

fn text(data: &Data<'_>) -> String {
    let units: Vec<u16> = data
        .to_vec()
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    String::from_utf16(&units).unwrap()
}

fn strict_counts(bytes: &[u8]) -> Counts {
    count(Hive::open(bytes).unwrap().root().unwrap(), Strictness::Strict)
        .unwrap()
        .0
}

/// The first fault of a strict count, and the number of faults of one that walks on.
fn faults(bytes: &[u8]) -> (Error, u64) {
    let (hive, _) = Hive::open_damaged(bytes).unwrap();
    let strict = count(hive.root().unwrap(), Strictness::Strict).unwrap_err();
    (
        strict,
        count(hive.root().unwrap(), Strictness::WalkOn).unwrap().1.nr_found,
    )
}

#[test]
fn empty_hive() {
    let bytes = corpus_or_skip!("hive/yarp/EmptyHive");
    let hive = Hive::open(&bytes).unwrap();
    assert_eq!(hive.root().unwrap().nr_subkeys(), 0);
    // 2017-03-04 16:37:31 UTC.
    let seconds = hive.base_block().last_written.get() / 10_000_000 - 11_644_473_600;
    assert_eq!(seconds, 1_488_645_451);
}

#[test]
fn big_data_hive() {
    let bytes = corpus_or_skip!("hive/yarp/BigDataHive");
    let key = Hive::open(&bytes)
        .unwrap()
        .open_path("key_with_bigdata")
        .unwrap()
        .unwrap();
    let first = key.value("").unwrap().unwrap().data().unwrap();
    let second = key.value("V").unwrap().unwrap().data().unwrap();
    assert!(matches!((first, second), (Data::Big(_), Data::Big(_))));
    assert_eq!(first.to_vec(), vec![b'1'; 16_345]);
    assert_eq!(second.to_vec(), vec![b'2'; 81_725]);
}

#[test]
fn many_subkeys_hive() {
    let bytes = corpus_or_skip!("hive/yarp/ManySubkeysHive");
    let hive = Hive::open(&bytes).unwrap();
    let key = hive.open_path("key_with_many_subkeys").unwrap().unwrap();
    let mut numbers: Vec<u32> = names(&key).iter().map(|name| name.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=5000).collect::<Vec<_>>());
    assert!(
        hive.open_path("KEY_with_many_subkeys\\2119\\FIND_ME")
            .unwrap()
            .is_some()
    );
}

#[test]
fn duplicate_subkeys_hive() {
    let bytes = corpus_or_skip!("hive/yarp/DuplicateSubkeysHive");
    let (error, nr) = faults(&bytes);
    assert!(nr > 0);
    let Error::InKey { source, .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(*source, Error::DuplicateName { .. }), "{source}");
}

#[test]
fn garbage_hive() {
    let bytes = corpus_or_skip!("hive/yarp/GarbageHive");
    // Its makers wrote "INVL" for a checksum: that, and nothing else, is wrong with it.
    let (hive, damage) = Hive::open_damaged(&bytes).unwrap();
    assert!(matches!(
        damage.errors[..],
        [Error::WrongChecksum {
            actual: 0x4c56_4e49,
            ..
        }]
    ));
    assert_eq!(
        (bytes.len(), hive.bins_bytes(), hive.bins().count()),
        (262_151, 4096, 1)
    );
    count(hive.root().unwrap(), Strictness::Strict).unwrap();
}

#[test]
fn new_dirty_hive_is_replayed_as_windows_10_does() {
    let bytes = corpus_or_skip!("hive/yarp/NewDirtyHive1/NewDirtyHive");
    let log1 = corpus_or_skip!("hive/yarp/NewDirtyHive1/NewDirtyHive.LOG1");
    let log2 = corpus_or_skip!("hive/yarp/NewDirtyHive1/NewDirtyHive.LOG2");
    let expected = corpus_or_skip!("hive/yarp/NewDirtyHive1/RecoveredHive_Windows10");
    assert_eq!(
        Hive::open(&bytes).unwrap_err(),
        Error::Dirty {
            primary: 3,
            secondary: 2
        }
    );
    let (before, _) = Hive::open_damaged(&bytes).unwrap();
    for path in ["Key1", "Key2\\Key2_1", "Key2\\Key2_2"] {
        assert!(before.open_path(path).unwrap().is_some(), "{path}");
    }
    let value = before.open_path("Key1").unwrap().unwrap().value("").unwrap().unwrap();
    assert_eq!(text(&value.data().unwrap()).len(), 6001);

    let (after, recovery) = recover(&bytes, &[&log1, &log2]).unwrap();
    let recovery = recovery.unwrap();
    assert_eq!(
        (recovery.format, recovery.nr_entries, recovery.sequence),
        (LogFormat::New, 4, 6)
    );
    assert_eq!(after[4096..], expected[4096..], "byte for byte what Windows 10 made");
    let hive = Hive::open(&after).unwrap();
    for path in ["Key1", "Key2"] {
        assert!(
            hive.open_path(path).unwrap().is_none_or(|key| key.nr_subkeys() == 0),
            "{path}"
        );
    }
    for path in ["Key3", "Key3\\Key3_1", "Key3\\Key3_2", "Key3\\Key3_3"] {
        assert!(hive.open_path(path).unwrap().is_some(), "{path}");
    }
    let value = hive.open_path("Key3").unwrap().unwrap().value("").unwrap().unwrap();
    assert_eq!(text(&value.data().unwrap()).len(), 1441);
    strict_counts(&after);
    // The order in which the logs are given does not matter.
    assert_eq!(recover(&bytes, &[&log2, &log1]).unwrap().0, after);
}

#[test]
fn old_dirty_hive_is_replayed_as_windows_7_does() {
    let bytes = corpus_or_skip!("hive/yarp/OldDirtyHive/OldDirtyHive");
    let log1 = corpus_or_skip!("hive/yarp/OldDirtyHive/OldDirtyHive.LOG1");
    let log2 = corpus_or_skip!("hive/yarp/OldDirtyHive/OldDirtyHive.LOG2");
    let expected = corpus_or_skip!("hive/yarp/OldDirtyHive/RecoveredHive_Windows7");
    let (before, _) = Hive::open_damaged(&bytes).unwrap();
    fn there<'a>(hive: &Hive<'a>, path: &str) -> Option<Key<'a>> {
        hive.open_path(&format!("key_with_many_subkeys\\{path}")).unwrap()
    }
    assert!(there(&before, "1").is_some());
    assert!(there(&before, "5000\\find_me_in_log").is_none());
    let (after, recovery) = recover(&bytes, &[&log1, &log2]).unwrap();
    assert_eq!(recovery.unwrap().format, LogFormat::Old);
    let hive = Hive::open(&after).unwrap();
    assert!(there(&hive, "1").is_none());
    assert!(there(&hive, "5000\\find_me_in_log").is_some());
    let value = there(&hive, "4500").unwrap().value("v").unwrap().unwrap();
    assert_eq!(value.data_type(), data_type::MULTI_SZ);
    assert_eq!(text(&value.data().unwrap()), "a\0bb\0ccc\0\0");
    let (ours, _) = hive::Node::read(hive.root().unwrap(), Strictness::Strict).unwrap();
    let windows = Hive::open(&expected).unwrap();
    let (theirs, _) = hive::Node::read(windows.root().unwrap(), Strictness::Strict).unwrap();
    assert_eq!(ours, theirs, "the registry that Windows 7 made");
}

#[test]
fn a_bad_base_block_is_taken_from_the_log() {
    let bytes = corpus_or_skip!("hive/yarp/BadBaseBlockHive/BadBaseBlockHive");
    let log1 = corpus_or_skip!("hive/yarp/BadBaseBlockHive/BadBaseBlockHive.LOG1");
    assert!(matches!(Hive::open(&bytes), Err(Error::WrongChecksum { .. })));
    let (after, recovery) = recover(&bytes, &[&log1]).unwrap();
    let recovery = recovery.unwrap();
    assert!(recovery.base_block_from_log);
    assert_eq!(recovery.format, LogFormat::Old);
    let hive = Hive::open(&after).unwrap();
    assert_eq!(hive.minor_version(), 3);
    assert!(hive.open_path("key_with_many_subkeys").unwrap().is_some());
}

#[test]
fn a_bad_log_is_refused_and_named() {
    let bytes = corpus_or_skip!("hive/yarp/BadLogHive1/BadLogHive");
    let log1 = corpus_or_skip!("hive/yarp/BadLogHive1/BadLogHive.LOG1");
    let error = recover(&bytes, &[&log1]).unwrap_err();
    let Error::NoUsableLog { reasons } = &error else {
        panic!("{error}")
    };
    assert!(reasons.contains("log 1") && reasons.contains("checksum"), "{error}");
}

#[test]
fn truncated_hives_say_so() {
    let bytes = corpus_or_skip!("hive/yarp/TruncatedHive");
    let truncated = Error::Truncated {
        expected_bytes: 0x77000 + 4096,
        actual_bytes: 12_288,
    };
    assert_eq!(Hive::open(&bytes).unwrap_err(), truncated);
    let bytes = corpus_or_skip!("hive/yarp/TruncatedDirtyHive");
    let (_, damage) = Hive::open_damaged(&bytes).unwrap();
    assert!(damage.errors.contains(&truncated));
    assert!(damage.errors.iter().any(|error| matches!(error, Error::Dirty { .. })));
    assert!(matches!(recover(&bytes, &[]), Err(Error::NoUsableLog { .. })));
}

#[test]
fn bad_lists_and_subkeys_are_reported_with_path_and_offset() {
    for name in ["hive/yarp/BadListHive", "hive/yarp/BadSubkeyHive"] {
        let bytes = corpus_or_skip!(name);
        let (error, nr) = faults(&bytes);
        assert!(nr > 0, "{name}");
        assert!(error.to_string().contains("at offset 0x"), "{name}: {error}");
    }
}

#[test]
fn extended_ascii_hive() {
    let bytes = corpus_or_skip!("hive/yarp/ExtendedASCIIHive");
    let key = Hive::open(&bytes)
        .unwrap()
        .open_path("\u{cb}IGENAARDIG")
        .unwrap()
        .unwrap();
    assert!(matches!(key.name(), hive::Name::Latin1(_)));
    assert_eq!(key.name(), "\u{eb}igenaardig");
    let value = key.value("\u{eb}igenaardig").unwrap().unwrap();
    assert!(matches!(value.name(), hive::Name::Latin1(_)));
    assert_eq!(text(&value.data().unwrap()), "\u{eb}igenaardig\0");
}

#[test]
fn unicode_hive() {
    let bytes = corpus_or_skip!("hive/yarp/UnicodeHive");
    let hive = Hive::open(&bytes).unwrap();
    for path in ["Привет\\Ключ", "ПРИВЕТ\\КЛЮЧ", "привет\\ключ"] {
        assert!(hive.open_path(path).unwrap().is_some(), "{path}");
    }
}

#[test]
fn upcase_hive() {
    let bytes = corpus_or_skip!("hive/yarp/UpcaseHive");
    let hive = Hive::open(&bytes).unwrap();
    let mut walk = Walk::new(hive.root().unwrap(), Strictness::Strict);
    let mut found = Vec::new();
    while let Some(key) = walk.next_key().unwrap() {
        found.push(key.name().to_string());
        let (mut ours, stored): (Vec<_>, Vec<_>) = key
            .subkeys()
            .unwrap()
            .map(|key| key.unwrap())
            .map(|key| (key.name(), key.name()))
            .unzip();
        ours.sort_by(|a, b| a.cmp_upcase(*b));
        assert_eq!(ours, stored, "the stored order is ours");
    }
    let place = |name: &str| found.iter().position(|other| other == name).unwrap();
    assert!(
        place("ss1") < place("SS3") && place("SS3") < place("\u{df}2"),
        "{found:?}"
    );
}

#[test]
fn new_flags_hive() {
    let bytes = corpus_or_skip!("hive/yarp/NewFlagsHive");
    let hive = Hive::open(&bytes).unwrap();
    assert_eq!(hive.open_path("1\\2").unwrap().unwrap().user_flags(), 1);
}

#[test]
fn system_delta() {
    let bytes = corpus_or_skip!("hive/yarp/System_Delta");
    let hive = Hive::open(&bytes).unwrap();
    assert_eq!(hive.minor_version(), 6);
    let services = hive.open_path("ControlSet001\\Services").unwrap().unwrap();
    let key = services.subkey("xboxgipsvc").unwrap().unwrap();
    assert!(key.class_is_inherited());
    assert_eq!(key.layer_semantics(), LayerSemantics::SupersedeTree);
    let mut walk = Walk::new(services, Strictness::Strict);
    let mut nr_tombstones = 0;
    while let Some(key) = walk.next_key().unwrap() {
        if key.name() == "XBOXGIP" && key.layer_semantics() == LayerSemantics::Tombstone {
            nr_tombstones += 1;
        }
    }
    let root_walk = hive.open_path("ControlSet001").unwrap().unwrap();
    let mut walk = Walk::new(root_walk, Strictness::Strict);
    while let Some(key) = walk.next_key().unwrap() {
        if key.name() == "XBOXGIP" && key.layer_semantics() == LayerSemantics::Tombstone {
            nr_tombstones += 1;
        }
    }
    assert!(nr_tombstones > 0);
    let key = services.subkey("XboxNetApiSvc").unwrap().unwrap();
    assert!(key.value("displayname").unwrap().unwrap().is_tombstone());
    assert!(!key.value("start").unwrap().unwrap().is_tombstone());
}

#[test]
fn offline_library_hive() {
    let bytes = corpus_or_skip!("hive/yarp/OffHive");
    assert_eq!(Hive::open(&bytes).unwrap().minor_version(), 5);
    assert!(strict_counts(&bytes).keys >= 1);
}

#[test]
fn multi_sz_and_string_values_are_byte_exact() {
    let bytes = corpus_or_skip!("hive/yarp/MultiSzHive");
    let key = Hive::open(&bytes).unwrap().open_path("key").unwrap().unwrap();
    assert_eq!(
        text(&key.value("1").unwrap().unwrap().data().unwrap()).trim_matches('\0'),
        ""
    );
    let second = text(&key.value("2").unwrap().unwrap().data().unwrap());
    assert_eq!(second, "привет\0как дела?\0\0");
    let bytes = corpus_or_skip!("hive/yarp/StringValuesHive");
    let key = Hive::open(&bytes).unwrap().open_path("key").unwrap().unwrap();
    assert_eq!(text(&key.value("").unwrap().unwrap().data().unwrap()), "test тест\0");
    let first = key.value("1").unwrap().unwrap();
    assert_eq!((first.data_type(), first.data().unwrap().len()), (data_type::BINARY, 4));
    let second = key.value("2").unwrap().unwrap();
    assert_eq!(
        (second.data_type(), text(&second.data().unwrap()).as_str()),
        (data_type::EXPAND_SZ, "test тест\0")
    );
    assert_eq!(text(&key.value("3").unwrap().unwrap().data().unwrap()), "test тест \0");
}

#[test]
fn what_follows_the_declared_size_is_ignored() {
    let bytes = corpus_or_skip!("hive/yarp/EffectiveSizeHive");
    let (hive, damage) = Hive::open_damaged(&bytes).unwrap();
    assert!(matches!(damage.errors[..], [Error::WrongChecksum { .. }]));
    assert!(hive.bins_bytes() + 4096 < bytes.len());
    let cut = &bytes[..hive.bins_bytes() + 4096];
    let (all, less) = (
        Hive::open_damaged(&bytes).unwrap().0,
        Hive::open_damaged(cut).unwrap().0,
    );
    let of = |hive: Hive<'_>| count(hive.root().unwrap(), Strictness::WalkOn).unwrap();
    assert_eq!(of(all), of(less));
}

#[test]
fn a_wrong_parent_is_reported_and_the_key_still_read() {
    let bytes = corpus_or_skip!("hive/yarp/InvalidParentHive");
    let (error, nr) = faults(&bytes);
    assert!(nr > 0);
    assert!(error.to_string().contains("the parent's cell offset"), "{error}");
    let hive = Hive::open(&bytes).unwrap();
    let (counts, _) = count(hive.root().unwrap(), Strictness::WalkOn).unwrap();
    assert!(counts.keys > 1);
}

#[test]
fn two_owners_hive() {
    let bytes = corpus_or_skip!("hive/yarp/TwoOwnersHive");
    let hive = Hive::open(&bytes).unwrap();
    let mut walk = Walk::new(hive.root().unwrap(), Strictness::Strict);
    let mut owners = std::collections::BTreeSet::new();
    while let Some(key) = walk.next_key().unwrap() {
        let sd = key.security().unwrap().unwrap();
        let at = u32::from_le_bytes(sd[4..8].try_into().unwrap()) as usize;
        owners.insert(sd[at..at + 8 + 4 * usize::from(sd[at + 1])].to_vec());
    }
    assert_eq!(owners.len(), 2);
}

#[test]
fn the_order_of_values_is_kept() {
    let bytes = corpus_or_skip!("hive/yarp/ValuesOrderHive");
    let hive = Hive::open(&bytes).unwrap();
    let (rebuilt, _) = hive::rebuild(&hive, &hive::WriteOptions::default()).unwrap();
    let again = Hive::open(&rebuilt).unwrap();
    let (mut a, mut b) = (
        Walk::new(hive.root().unwrap(), Strictness::Strict),
        Walk::new(again.root().unwrap(), Strictness::Strict),
    );
    let mut longest = 0;
    while let Some(key) = a.next_key().unwrap() {
        let other = b.next_key().unwrap().unwrap();
        let list = |key: &Key<'_>| {
            key.values()
                .unwrap()
                .map(|v| v.unwrap().name().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(list(&key), list(&other));
        longest = longest.max(list(&key).len());
    }
    assert!(longest > 1);
}

#[test]
fn hivex_images() {
    let bytes = corpus_or_skip!("hive/hivex/minimal");
    assert_eq!(strict_counts(&bytes), Counts { keys: 1, values: 0 });
    let bytes = corpus_or_skip!("hive/hivex/special");
    let hive = Hive::open(&bytes).unwrap();
    let key = hive.open_path("zero\0key").unwrap().unwrap();
    let value = key.value("zero\0val").unwrap().unwrap();
    assert_eq!((value.data_type(), value.data_bytes()), (data_type::DWORD, 4));
    assert!(hive.open_path("abcd_äöüß").unwrap().is_some());
    let weird = hive.open_path("weird™").unwrap().unwrap();
    assert!(weird.value("symbols $£₤₧€").unwrap().is_some());
    strict_counts(&bytes);
    let bytes = corpus_or_skip!("hive/hivex/rlenvalue_test_hive");
    let hive = Hive::open(&bytes).unwrap();
    let value = hive
        .open_path("ModerateValueParent")
        .unwrap()
        .unwrap()
        .value("33Bytes")
        .unwrap()
        .unwrap();
    assert_eq!(value.data().unwrap().len(), 33);
    let at = bytes
        .windows(33)
        .position(|window| window == value.data().unwrap().to_vec())
        .unwrap();
    assert_eq!(at - 4, 8712, "the cell begins there");
    assert_eq!(bytes[8712..8716], (-40_i32).to_le_bytes());
}

#[test]
fn nt_hive_testhive() {
    let bytes = corpus_or_skip!("hive/nt-hive/testhive");
    let hive = Hive::open(&bytes).unwrap();
    let big = hive.open_path("big-data-test").unwrap().unwrap();
    for (name, len, segmented) in [("A", 16_343, false), ("B", 16_344, false), ("C", 16_345, true)] {
        let data = big.value(name).unwrap().unwrap().data().unwrap();
        assert_eq!((data.len(), matches!(data, Data::Big(_))), (len, segmented), "{name}");
    }
    let encodings = hive.open_path("character-encoding-test").unwrap().unwrap();
    let found = names(&encodings);
    assert!(found.iter().any(|name| name == "äöü"), "{found:?}");
    assert!(encodings.subkey("\u{ff21}").unwrap().is_some());
    assert_eq!(
        encodings.subkey("\u{ff21}").unwrap().map(|k| k.cell_offset()),
        encodings.subkey("\u{ff41}").unwrap().map(|k| k.cell_offset())
    );
    let (deseret, small) = (
        encodings.subkey("\u{10410}").unwrap(),
        encodings.subkey("\u{10438}").unwrap(),
    );
    assert_ne!(deseret.unwrap().cell_offset(), small.unwrap().cell_offset(), "two keys");
    let many = hive.open_path("subkey-test").unwrap().unwrap();
    assert_eq!(many.nr_subkeys(), 512);
    assert!((0..512).all(|nr| many.subkey(&format!("KEY{nr}")).unwrap().is_some()));
    let types = hive.open_path("data-test").unwrap().unwrap();
    assert!(matches!(
        types.value("reg-multi-sz-big").unwrap().unwrap().data().unwrap(),
        Data::Big(_)
    ));
    strict_counts(&bytes);
}

/// Puts a record into the cell at 0x200 of a hive of one bin; every reference in the records is 0.
fn with_record(record: &[u8]) -> Vec<u8> {
    let mut bytes = hive::Node::new("r").to_hive(&hive::WriteOptions::default()).unwrap();
    let at = 4096 + 0x200;
    let size = i32::try_from((record.len() + 4).next_multiple_of(8)).unwrap();
    bytes[at..at + 4].copy_from_slice(&(-size).to_le_bytes());
    bytes[at + 4..at + 4 + record.len()].copy_from_slice(record);
    bytes
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Where the root's node begins, behind its cell's size.
const ROOT: usize = 4096 + 0x20 + 4;

#[test]
fn a_key_node_alone_is_read_with_its_slack_left_out() {
    let mut bytes = with_record(&corpus_or_skip!("hive/yarp/records/dummy_nk"));
    put(&mut bytes, 36, 0x200);
    let key = Hive::open_damaged(&bytes).unwrap().0.root().unwrap();
    assert_eq!(key.name(), "OpenWithList");
    assert_eq!(
        (key.last_written(), key.nr_subkeys(), key.nr_values(), key.flags()),
        (0, 0, 0, 0x20)
    );
}

#[test]
fn lists_alone_are_read_with_their_slack_left_out() {
    // Three elements each; all lead to offset 0, which is no cell: three faults for a leaf of keys.
    for (name, nr_faults) in [("lf", 3), ("lh", 3), ("li", 3), ("ri", 3)] {
        let mut bytes = with_record(&corpus_or_skip!(&format!("hive/yarp/records/dummy_{name}")));
        put(&mut bytes, ROOT + 20, 3);
        put(&mut bytes, ROOT + 28, 0x200);
        let root = Hive::open(&bytes).unwrap().root().unwrap();
        let faults: Vec<Error> = root.subkeys().unwrap().filter_map(Result::err).collect();
        let elements = faults
            .iter()
            .filter(|error| !matches!(error, Error::Mismatch { .. }))
            .count();
        assert_eq!(elements, nr_faults, "{name}: {faults:?}");
    }
    let mut bytes = with_record(&corpus_or_skip!("hive/yarp/records/dummy_list"));
    put(&mut bytes, ROOT + 36, 3);
    put(&mut bytes, ROOT + 40, 0x200);
    let root = Hive::open(&bytes).unwrap().root().unwrap();
    assert_eq!(root.values().unwrap().filter(Result::is_err).count(), 3);
}

#[test]
fn a_value_alone_is_read_with_its_slack_left_out() {
    let mut bytes = with_record(&corpus_or_skip!("hive/yarp/records/dummy_vk"));
    put(&mut bytes, 4096 + 0x300, (-16_i32).cast_unsigned());
    put(&mut bytes, 4096 + 0x304, 0x200);
    put(&mut bytes, ROOT + 36, 1);
    put(&mut bytes, ROOT + 40, 0x300);
    let root = Hive::open(&bytes).unwrap().root().unwrap();
    // Three bytes of name, and no flag that says Latin-1: that is no UTF-16.
    let error = root.values().unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::OddLength { actual_bytes: 3, .. }), "{error}");
    bytes[4096 + 0x204 + 16] = 1;
    let root = Hive::open(&bytes).unwrap().root().unwrap();
    let value = root.values().unwrap().next().unwrap().unwrap();
    assert_eq!(
        (value.name() == "123", value.data_type(), value.data_bytes()),
        (true, 0, 0)
    );
}

#[test]
fn a_security_descriptor_alone_is_read_with_its_slack_left_out() {
    let mut bytes = with_record(&corpus_or_skip!("hive/yarp/records/dummy_sk"));
    put(&mut bytes, ROOT + 44, 0x200);
    let root = Hive::open(&bytes).unwrap().root().unwrap();
    assert_eq!(root.security().unwrap(), Some(&[0xaa; 0x104][..]));
}

#[test]
fn big_data_alone_is_read_by_its_number_of_segments() {
    let mut bytes = with_record(&corpus_or_skip!("hive/yarp/records/dummy_db"));
    // Room for the data in a second bin, so that their length is possible.
    let mut bin = vec![0; 0x10000];
    bin[..4].copy_from_slice(b"hbin");
    put(&mut bin, 4, 0x1000);
    put(&mut bin, 8, 0x10000);
    put(&mut bin, 32, 0x10000 - 32);
    bytes.extend(bin);
    put(&mut bytes, 40, 0x11000);
    let sum = hive::format::checksum(&bytes);
    put(&mut bytes, 508, sum);
    // A value of two segments; their list at offset 0 is no cell.
    put(&mut bytes, 4096 + 0x300, (-16_i32).cast_unsigned());
    put(&mut bytes, 4096 + 0x304, 0x320);
    put(&mut bytes, 4096 + 0x320, (-32_i32).cast_unsigned());
    bytes[4096 + 0x324..4096 + 0x326].copy_from_slice(b"vk");
    put(&mut bytes, 4096 + 0x324 + 4, 20_000);
    put(&mut bytes, 4096 + 0x324 + 8, 0x200);
    put(&mut bytes, ROOT + 36, 1);
    put(&mut bytes, ROOT + 40, 0x300);
    let value = Hive::open(&bytes)
        .unwrap()
        .root()
        .unwrap()
        .values()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let error = value.data().unwrap_err();
    assert!(
        error.to_string().contains("list of big data segments"),
        "two segments are right: {error}"
    );
    put(&mut bytes, 4096 + 0x324 + 4, 40_000);
    let value = Hive::open(&bytes)
        .unwrap()
        .root()
        .unwrap()
        .values()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert!(matches!(
        value.data(),
        Err(Error::Mismatch {
            expected: 3,
            actual: 2,
            ..
        })
    ));
}
