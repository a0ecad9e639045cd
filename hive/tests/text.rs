// SPDX-License-Identifier: GPL-3.0-or-later
//! Registry text both ways, and the comparison of two hives.

mod common;

use hive::format::data_type;
use hive::reg_export::{ExportOptions, TextForm, export};
use hive::{DiffOptions, Error, Hive, NameBuf, Node, Strictness, WriteOptions, diff, paths, reg_import};
use proptest::prelude::*;

const ROOT: &str = "HKEY_LOCAL_MACHINE\\SOFTWARE\\Test";

fn exported(bytes: &[u8], form: TextForm, whole: bool) -> Vec<u8> {
    let options = ExportOptions {
        form,
        path: ROOT.to_owned(),
        whole,
        strictness: Strictness::Strict,
    };
    export(Hive::open(bytes).unwrap().root().unwrap(), &options).unwrap().0
}

fn imported(text: &[u8]) -> Result<Vec<u8>, Error> {
    let changes = reg_import::parse(text)?;
    reg_import::to_hive(&changes, &WriteOptions::default(), |path| paths::in_hive(path, ROOT))
}

fn differences(a: &[u8], b: &[u8], options: DiffOptions) -> Vec<String> {
    let mut found = Vec::new();
    let (a, b) = (
        Hive::open(a).unwrap().root().unwrap(),
        Hive::open(b).unwrap().root().unwrap(),
    );
    diff(a, b, options, &mut |difference| {
        found.push(difference.to_string());
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn the_text_is_what_regedit_writes() {
    let mut root = Node::new("r");
    root.key("A").set_sz("", "de\"fault\\").set_dword("n", 0x1a).set(
        "b",
        data_type::BINARY,
        (0..40).collect::<Vec<u8>>(),
    );
    root.key("A")
        .set("e", data_type::EXPAND_SZ, [0x25, 0, 0, 0])
        .set("q", data_type::QWORD, [1; 8]);
    root.key("A")
        .set("none", data_type::NONE, [])
        .set("odd", 0xffff_0011, [7]);
    let bytes = root.to_hive(&WriteOptions::default()).unwrap();
    let text = String::from_utf8(exported(&bytes, TextForm::Version5Utf8, false)).unwrap();
    let expected = "Windows Registry Editor Version 5.00\r\n\r\n\
        [HKEY_LOCAL_MACHINE\\SOFTWARE\\Test]\r\n\r\n\
        [HKEY_LOCAL_MACHINE\\SOFTWARE\\Test\\A]\r\n\
        @=\"de\\\"fault\\\\\"\r\n\
        \"n\"=dword:0000001a\r\n\
        \"b\"=hex:00,01,02,03,04,05,06,07,08,09,0a,0b,0c,0d,0e,0f,10,11,12,13,14,15,16,\\\r\n  \
        17,18,19,1a,1b,1c,1d,1e,1f,20,21,22,23,24,25,26,27\r\n\
        \"e\"=hex(2):25,00,00,00\r\n\
        \"q\"=hex(b):01,01,01,01,01,01,01,01\r\n\
        \"none\"=hex(0):\r\n\
        \"odd\"=hex(ffff0011):07\r\n\r\n";
    assert_eq!(text, expected);
    let wide = exported(&bytes, TextForm::Version5, false);
    assert_eq!(wide[..4], [0xff, 0xfe, b'W', 0]);
}

#[test]
fn a_text_of_windows_is_imported_with_its_deletions_and_continuations() {
    let text = "REGEDIT4\r\n; a comment\r\n\r\n[HKLM\\SOFTWARE\\Test\\Old]\r\n\"v\"=\"1\"\r\n\"w\"=dword:5\r\n\
        \r\n[-HKEY_LOCAL_MACHINE\\SOFTWARE\\TEST\\Old]\r\n[HKEY_LOCAL_MACHINE\\SOFTWARE\\Test\\New]\r\n\
        \"Multi\"=hex(7):61,00,\\\r\n  62,63,00,\\\r\n  00\r\n  @ = \"caf\u{e9} \\\"x\\\"\"\r\n\"gone\"=dword:1\r\n\"gone\"=-\r\n\
        \"two\"=\"a\r\nb\"\r\n";
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let bytes = imported(&latin).unwrap();
    let hive = Hive::open(&bytes).unwrap();
    assert!(hive.open_path("Old").unwrap().is_none());
    let key = hive.open_path("New").unwrap().unwrap();
    let data = |name: &str| key.value(name).unwrap().unwrap().data().unwrap().to_vec();
    assert_eq!(
        data("Multi"),
        [b'a', 0, 0, 0, b'b', 0, b'c', 0, 0, 0, 0, 0],
        "code page 1252 became UTF-16"
    );
    assert_eq!(data(""), hive::tree::utf16_terminated("caf\u{e9} \"x\""));
    assert_eq!(data("two"), hive::tree::utf16_terminated("a\r\nb"));
    assert!(key.value("gone").unwrap().is_none());
}

#[test]
fn a_wrong_text_is_refused_by_its_line() {
    let head = "Windows Registry Editor Version 5.00\n\n[HKLM\\SOFTWARE\\Test]\n";
    for (text, line) in [
        ("nonsense".to_owned(), 1),
        (String::new(), 1),
        (format!("{head}\"x\"=dword:xyz\n"), 4),
        (format!("{head}\"x\"=hex:01,\\\n  zz\n"), 5),
        (format!("{head}\"x\"=\"never ended\n"), 4),
        (format!("{head}what\n"), 4),
        (format!("{head}\"x\"\n"), 4),
        (format!("{head}[HKLM\\SYSTEM\\Elsewhere]\n"), 4),
        ("REGEDIT4\n\"x\"=\"y\"\n".to_owned(), 2),
    ] {
        match imported(text.as_bytes()) {
            Err(Error::InvalidRegText { line: found, .. }) => assert_eq!(found, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_text_offered_as_a_hive_is_said_to_be_one() {
    let bytes = Node::new("r").to_hive(&WriteOptions::default()).unwrap();
    for form in [TextForm::Version5, TextForm::Version5Utf8, TextForm::Regedit4] {
        let mut root = Node::new("r");
        for nr in 0..200 {
            root.key(&format!("key{nr}"));
        }
        let big = root.to_hive(&WriteOptions::default()).unwrap();
        assert_eq!(
            Hive::open(&exported(&big, form, false)).unwrap_err(),
            Error::RegistryText,
            "{form:?}"
        );
        assert_eq!(
            Hive::open(&exported(&bytes, form, false)).unwrap_err(),
            Error::RegistryText,
            "{form:?}"
        );
    }
}

#[test]
fn a_difference_names_exactly_what_changed() {
    let mut before = Node::new("r");
    before.key("Same\\Deep").set_dword("n", 1);
    before.key("Gone\\Sub").set_sz("x", "y");
    before
        .key("Changed")
        .set_dword("n", 1)
        .set_sz("kept", "k")
        .set_sz("old", "o");
    let mut after = before.clone();
    after.subkeys.retain(|node| node.name != NameBuf::from("Gone"));
    after.key("New");
    after
        .key("Changed")
        .set_dword("n", 2)
        .set_sz("fresh", "f")
        .set_class("c");
    after
        .key("Changed")
        .values
        .retain(|value| value.name != NameBuf::from("old"));
    after.key("Same").last_written = Some(9);
    let options = WriteOptions::default();
    let (before, after) = (before.to_hive(&options).unwrap(), after.to_hive(&options).unwrap());
    let expected = [
        "+ [Changed] \"fresh\"=\"f\"",
        "~ [Changed] \"n\": dword:00000001 -> dword:00000002",
        "- [Changed] \"old\"=\"o\"",
        "- [Gone]",
        "- [Gone\\Sub]",
        "- [Gone\\Sub] \"x\"=\"y\"",
        "+ [New]",
    ];
    assert_eq!(differences(&before, &after, DiffOptions::default()), expected);
    let all = differences(
        &before,
        &after,
        DiffOptions {
            times: true,
            attributes: true,
        },
    );
    assert!(all.contains(&"~ [Changed] class".to_owned()) && all.contains(&"~ [Same] last write".to_owned()));
    assert_eq!(all.len(), expected.len() + 2);
    assert!(
        differences(
            &before,
            &before,
            DiffOptions {
                times: true,
                attributes: true
            }
        )
        .is_empty()
    );
}

#[test]
fn every_whole_hive_of_the_corpus_survives_export_and_import() {
    for name in [
        "hivex/minimal",
        "hivex/special",
        "hivex/rlenvalue_test_hive",
        "nt-hive/testhive",
        "yarp/BigDataHive",
        "yarp/StringValuesHive",
        "yarp/MultiSzHive",
        "yarp/UnicodeHive",
        "yarp/ExtendedASCIIHive",
        "yarp/TwoOwnersHive",
        "yarp/ValuesOrderHive",
        "yarp/UpcaseHive",
        "yarp/ManySubkeysHive",
    ] {
        let bytes = corpus_or_skip!(&format!("hive/{name}"));
        let rebuilt = hive::rebuild(&Hive::open(&bytes).unwrap(), &WriteOptions::default())
            .unwrap()
            .0;
        for form in [TextForm::Version5, TextForm::Version5Utf8, TextForm::Regedit4] {
            let again = imported(&exported(&bytes, form, true)).unwrap();
            let found = differences(
                &bytes,
                &again,
                DiffOptions {
                    times: true,
                    attributes: true,
                },
            );
            assert!(found.is_empty(), "{name} {form:?}: {found:#?}");
            if name != "hivex/special" {
                // Everything but the root's own name, which has no meaning.
                let root = |bytes: &[u8]| {
                    let (mut node, _) =
                        Node::read(Hive::open(bytes).unwrap().root().unwrap(), Strictness::Strict).unwrap();
                    node.name = NameBuf::from("");
                    node
                };
                assert!(root(&again) == root(&rebuilt), "{name} {form:?}");
            }
        }
    }
}

/// Any unit, the troublesome ones often.
fn any_unit() -> impl Strategy<Value = u16> {
    prop_oneof![
        6 => 0x20..0x7f_u16,
        2 => any::<u16>(),
        1 => Just(0), 1 => Just(0x0d), 1 => Just(0x0a), 1 => Just(0xd800), 1 => Just(0xdc00), 1 => Just(0x22),
        1 => Just(0x5d), 1 => Just(0x5b), 1 => Just(0x80), 1 => Just(0x20ac), 1 => Just(0xfeff), 1 => Just(0x2d),
        1 => Just(0x20), 1 => Just(0x3b), 1 => Just(0x40),
    ]
}

fn any_name(least: usize) -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any_unit().prop_filter("no backslash", |unit| *unit != 0x5c), least..9)
}

fn any_value() -> impl Strategy<Value = (Vec<u16>, u32, Vec<u8>)> {
    let text = prop::collection::vec(prop_oneof![8 => any_unit(), 1 => Just(0x5c)], 0..40).prop_map(|units| {
        units
            .iter()
            .chain(&[0])
            .flat_map(|unit| unit.to_le_bytes())
            .collect::<Vec<u8>>()
    });
    let data = prop_oneof![
        text,
        prop::collection::vec(any::<u8>(), 0..60),
        prop::collection::vec(any::<u8>(), 4)
    ];
    let name = prop::collection::vec(prop_oneof![8 => any_unit(), 1 => Just(0x5c)], 0..9);
    (name, prop_oneof![0..12_u32, any::<u32>()], data)
}

fn any_node() -> impl Strategy<Value = Node> {
    let leaf = (
        any_name(1),
        prop::collection::vec(any_value(), 0..5),
        any::<u64>(),
        prop::option::of(any_name(1)),
    )
        .prop_map(|(name, values, time, class)| {
            let mut node = Node::new(NameBuf::from_units(&name));
            for (name, kind, data) in values {
                node.set(NameBuf::from_units(&name), kind, data);
            }
            node.last_written = Some(time);
            node.class = class.map(|class| class.iter().flat_map(|unit| unit.to_le_bytes()).collect());
            node
        });
    leaf.prop_recursive(4, 40, 6, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..6)).prop_map(|(mut node, subkeys)| {
            for subkey in subkeys {
                let place = node.subkey_named(subkey.name.clone());
                let name = place.name.clone();
                *place = Node { name, ..subkey };
            }
            node
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn export_and_import_give_an_equal_hive(node in any_node()) {
        let mut root = Node::new("ROOT");
        root.last_written = Some(1);
        root.subkeys.push(node);
        let bytes = root.to_hive(&WriteOptions::default()).unwrap();
        for form in [TextForm::Version5, TextForm::Version5Utf8, TextForm::Regedit4] {
            let again = imported(&exported(&bytes, form, true)).unwrap();
            let found = differences(&bytes, &again, DiffOptions { times: true, attributes: true });
            prop_assert!(found.is_empty(), "{:?}: {:?}", form, found);
            prop_assert!(again == bytes, "{:?}", form);
            // Without marks of the whole, keys and values are equal.
            let again = imported(&exported(&bytes, form, false)).unwrap();
            let found = differences(&bytes, &again, DiffOptions::default());
            prop_assert!(found.is_empty(), "{:?}: {:?}", form, found);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), v5 in any::<bool>()) {
        let head = if v5 { "Windows Registry Editor Version 5.00\n[HKLM\\SOFTWARE\\Test\\a]\n" } else { "REGEDIT4\n" };
        let text = [head.as_bytes(), &bytes].concat();
        let _ = imported(&text);
    }
}
