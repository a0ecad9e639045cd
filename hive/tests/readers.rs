// SPDX-License-Identifier: GPL-3.0-or-later
//! Hives that this crate writes, bulk or in place, key by key as three readers see them that nobody here
//! wrote: nt-hive, regf's strict reader, and hivex (through hivexml, where it is installed).
#![allow(clippy::print_stderr)] // Tests say what they skip.

mod common;

use std::process::Command;

use hive::format::data_type;
use hive::{Editor, Hive, Name, NameBuf, NewKey, Node, Strictness, Walk, WriteOptions};
use proptest::prelude::*;

/// A registry as lines: keys by path, values by path, name, type and data.
type Lines = Vec<(String, Option<(String, u32, Vec<u8>)>)>;

fn ours(bytes: &[u8]) -> Lines {
    let mut walk = Walk::new(Hive::open(bytes).unwrap().root().unwrap(), Strictness::Strict);
    let mut lines = Vec::new();
    while let Some(key) = walk.next_key().unwrap() {
        lines.push((walk.path(), None));
        let path = walk.path();
        walk.values(&key, |value, data| {
            lines.push((
                path.clone(),
                Some((value.name().to_string(), value.data_type(), data.to_vec())),
            ));
            Ok(())
        })
        .unwrap();
    }
    lines
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}\\{name}")
    }
}

fn nt_hive_lines(bytes: &[u8]) -> Lines {
    fn visit(key: &nt_hive::KeyNode<'_, &[u8]>, path: &str, lines: &mut Lines) {
        lines.push((path.to_owned(), None));
        for value in key.values().into_iter().flat_map(|values| values.unwrap()) {
            let value = value.unwrap();
            let name = value.name().unwrap().to_string_lossy();
            let kind = value.data_type().unwrap() as u32;
            lines.push((
                path.to_owned(),
                Some((name, kind, value.data().unwrap().into_vec().unwrap())),
            ));
        }
        for subkey in key.subkeys().into_iter().flat_map(|subkeys| subkeys.unwrap()) {
            let subkey = subkey.unwrap();
            visit(&subkey, &join(path, &subkey.name().unwrap().to_string_lossy()), lines);
        }
    }
    let hive = nt_hive::Hive::new(bytes).unwrap();
    hive.validate().unwrap();
    let mut lines = Vec::new();
    visit(&hive.root_key_node().unwrap(), "", &mut lines);
    lines
}

fn regf_lines(bytes: &[u8]) -> Lines {
    fn visit(key: &regf::hive::RegistryKey<'_>, path: &str, lines: &mut Lines) {
        lines.push((path.to_owned(), None));
        for value in key.values().unwrap() {
            let data = value.raw_data().unwrap();
            lines.push((path.to_owned(), Some((value.name(), value.raw_data_type(), data))));
        }
        for subkey in key.subkeys().unwrap() {
            visit(&subkey, &join(path, &subkey.name()), lines);
        }
    }
    let hive = regf::RegistryHive::from_bytes(bytes.to_vec()).unwrap();
    let mut lines = Vec::new();
    visit(&hive.root_key().unwrap(), "", &mut lines);
    lines
}

/// The same in hivexml's words: the type and the data are one text.
type Words = Vec<(String, Option<(String, String)>)>;

/// Keys and values as hivexml prints them; `None` where it is not installed. Types are its words.
fn hivex_lines(bytes: &[u8]) -> Option<Words> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.hiv");
    std::fs::write(&path, bytes).unwrap();
    let output = match Command::new("hivexml").arg(&path).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: hivexml: {error}");
            return None;
        }
    };
    assert!(
        output.status.success(),
        "hivexml: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    let (mut lines, mut names) = (Vec::new(), Vec::<String>::new());
    loop {
        use quick_xml::events::Event;
        match reader.read_event().unwrap() {
            Event::Start(tag) if matches!(tag.name().as_ref(), "node" | "value") => {
                let attribute = |name: &str| {
                    let found = tag.try_get_attribute(name).unwrap()?;
                    Some(
                        found
                            .normalized_value(quick_xml::XmlVersion::Explicit1_0)
                            .unwrap()
                            .into_owned(),
                    )
                };
                if tag.name().as_ref() == "node" {
                    names.push(attribute("name").unwrap());
                    lines.push((names[1..].join("\\"), None));
                } else {
                    let key = attribute("key").unwrap_or_default();
                    let (kind, mut text) = (attribute("type").unwrap(), attribute("value").unwrap_or_default());
                    // Long base64 comes in lines.
                    text.retain(|c| kind != "binary" || !c.is_whitespace());
                    let value = format!("{kind} {text}");
                    lines.push((names[1..].join("\\"), Some((key, value))));
                }
            }
            Event::End(tag) if tag.name().as_ref() == "node" => {
                names.pop();
            }
            Event::Eof => return Some(lines),
            _ => {}
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The same registry in hivexml's words. Its values come behind the subkeys of a key or before them:
/// both sides are sorted.
fn in_words_of_hivex(bytes: &[u8]) -> Words {
    let words = |(path, value): (String, Option<(String, u32, Vec<u8>)>)| {
        let value = value.map(|(name, kind, data)| {
            let text = match kind {
                data_type::DWORD => {
                    format!("int32 {}", i32::from_le_bytes(data.try_into().unwrap()))
                }
                data_type::SZ => {
                    let units: Vec<u16> = data
                        .as_chunks::<2>()
                        .0
                        .iter()
                        .map(|pair| u16::from_le_bytes(*pair))
                        .collect();
                    format!("string {}", String::from_utf16(&units).unwrap().trim_end_matches('\0'))
                }
                _ => format!("binary {}", base64(&data)),
            };
            (name, text)
        });
        (path, value)
    };
    ours(bytes).into_iter().map(words).collect()
}

/// A name that all readers can print: any letters, no NUL, no control characters, no lone surrogates.
fn printable() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 _.{}\u{e4}\u{df}\u{fe}\u{410}-\u{44f}\u{1e00}\u{ff21}\u{ff41}\u{10410}-\u{10450}-]{1,12}"
        .prop_map(|name| name.trim().to_owned())
        .prop_filter("not empty", |name| !name.is_empty())
}

fn printable_value() -> impl Strategy<Value = (String, u32, Vec<u8>)> {
    let data = prop_oneof![
        any::<u32>().prop_map(|number| (data_type::DWORD, number.to_le_bytes().to_vec())),
        "[a-zA-Z0-9 \u{e4}\u{410}-\u{44f}]{1,30}".prop_map(|text| (data_type::SZ, hive::tree::utf16_terminated(&text))),
        prop::collection::vec(any::<u8>(), 1..50).prop_map(|data| (data_type::BINARY, data)),
        (16_340..33_000_usize, any::<u8>()).prop_map(|(len, byte)| (data_type::BINARY, vec![byte; len])),
    ];
    (printable(), data).prop_map(|(name, (kind, data))| (name, kind, data))
}

fn printable_tree() -> impl Strategy<Value = Node> {
    let node = (printable(), prop::collection::vec(printable_value(), 0..4)).prop_map(|(name, values)| {
        let mut node = Node::new(name.as_str());
        for (name, kind, data) in values {
            node.set(name.as_str(), kind, data);
        }
        node
    });
    node.prop_recursive(4, 60, 8, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..8)).prop_map(|(mut node, subkeys)| {
            for subkey in subkeys {
                let place = node.subkey_named(subkey.name.clone());
                let name = place.name.clone();
                *place = Node { name, ..subkey };
            }
            node
        })
    })
}

/// The tree made key by key in place, in another order than the bulk writer's.
fn made_in_place(tree: &Node) -> Vec<u8> {
    fn fill(editor: &mut Editor, key: hive::KeyId, node: &Node) {
        for subkey in node.subkeys.iter().rev() {
            let name: Vec<u16> = subkey.name.as_name().units().collect();
            let made = editor.create_key(key, &name, NewKey::default(), 0).unwrap().id();
            fill(editor, made, subkey);
        }
        for value in &node.values {
            let name: Vec<u16> = value.name.as_name().units().collect();
            editor.set_value(key, &name, value.data_type, &value.data, 0).unwrap();
        }
    }
    let mut editor = Editor::open(Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap()).unwrap();
    let root = editor.root().unwrap();
    fill(&mut editor, root, tree);
    editor.into_buffer()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn three_other_readers_see_what_was_written(node in printable_tree()) {
        let mut root = Node::new("ROOT");
        root.subkeys.push(node);
        for bytes in [root.to_hive(&WriteOptions::default()).unwrap(), made_in_place(&root)] {
            let lines = ours(&bytes);
            prop_assert_eq!(&lines, &nt_hive_lines(&bytes));
            // regf takes Unicode's upper case for NT's in its check of hashes: of a sharp s it makes SS.
            let same_case = |name: &str| {
                name.to_uppercase().encode_utf16().eq(name.encode_utf16().map(hive::upcase::upcase_unit))
            };
            if lines.iter().all(|(path, _)| same_case(path)) {
                prop_assert_eq!(&lines, &regf_lines(&bytes));
            }
            if let Some(mut theirs) = hivex_lines(&bytes) {
                let mut words = in_words_of_hivex(&bytes);
                words.sort();
                theirs.sort();
                for (ours, theirs) in words.iter().zip(&theirs) {
                    prop_assert_eq!(ours, theirs);
                }
                prop_assert_eq!(words.len(), theirs.len());
            }
        }
    }

    #[test]
    fn a_hive_read_and_rebuilt_is_the_same_registry(node in printable_tree()) {
        let mut root = Node::new("ROOT");
        root.subkeys.push(node);
        let in_place = made_in_place(&root);
        let (rebuilt, _) = hive::rebuild(&Hive::open(&in_place).unwrap(), &WriteOptions::default()).unwrap();
        prop_assert_eq!(nt_hive_lines(&in_place), nt_hive_lines(&rebuilt));
        prop_assert!(rebuilt == root.to_hive(&WriteOptions::default()).unwrap());
    }
}

#[test]
fn names_of_every_kind_keep_their_encoding() {
    let utf16 = NameBuf::Utf16(b"a\0b\0".to_vec());
    let mut root = Node::new("ROOT");
    root.subkeys.push(Node::new(utf16.clone()));
    let bytes = root.to_hive(&WriteOptions::default()).unwrap();
    let key = Hive::open(&bytes).unwrap().open_path("AB").unwrap().unwrap();
    assert!(
        matches!(key.name(), Name::Utf16(_)),
        "a name that came as UTF-16 stays so"
    );
}
