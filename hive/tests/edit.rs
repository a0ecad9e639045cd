// SPDX-License-Identifier: GPL-3.0-or-later
//! Changing a hive in place: whatever is done, the hive stays sound, and holds what a simple model holds.

mod common;

use std::sync::{Arc, Mutex};

use hive::edit::Change;
use hive::format::data_type;
use hive::{Created, Editor, Error, Hive, NewKey, Node, Strictness, WriteOptions, verify};
use proptest::prelude::*;

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

fn editor() -> Editor {
    Editor::open(Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap()).unwrap()
}

#[track_caller]
fn assert_clean(editor: &Editor) {
    let report = verify(editor.bytes()).unwrap();
    let shown: Vec<String> = report.findings.iter().take(5).map(ToString::to_string).collect();
    assert!(report.is_clean(), "{shown:#?}");
}

#[test]
fn children_added_one_by_one_are_found_in_order_and_cost_no_more_than_twice_their_size() {
    for step in [1_u32, 7, 3999] {
        let mut editor = editor();
        let root = editor.root().unwrap();
        let before = editor.bytes().len();
        let mut payload = 0;
        for nr in 0..4000_u32 {
            // In order, and in two scattered orders.
            let name = format!("Child{:05}", (nr * step) % 4000);
            editor.create_key(root, &units(&name), NewKey::default(), 5).unwrap();
            payload += (4 + 76 + name.len()).next_multiple_of(8) + 8;
        }
        let grown = editor.bytes().len() - before;
        assert!(grown <= payload * 2, "step {step}: {grown} bytes for {payload}");
        let names: Vec<String> = editor
            .key(root)
            .unwrap()
            .subkeys()
            .unwrap()
            .map(|key| key.unwrap().name().to_string())
            .collect();
        assert_eq!(names, (0..4000).map(|nr| format!("Child{nr:05}")).collect::<Vec<_>>());
        assert_clean(&editor);
        nt_hive::Hive::new(editor.bytes()).unwrap().validate().unwrap();
    }
}

#[test]
fn a_failed_transaction_leaves_every_byte_as_it_was() {
    let mut editor = editor();
    let key = editor.create_path("A\\B", 1).unwrap();
    editor
        .set_value(key, &units("v"), data_type::BINARY, &[9; 20_000], 2)
        .unwrap();
    let before = editor.bytes().to_vec();
    let result: Result<(), Error> = editor.transact(|editor| {
        for nr in 0..600 {
            let key = editor.create_path(&format!("A\\New{nr}"), 3)?;
            editor.set_value(key, &units("x"), data_type::BINARY, &vec![1; nr * 50], 3)?;
        }
        editor.delete_value(key, &units("v"), 3)?;
        editor.set_security(key, &[1; 100], 3)?;
        editor.delete_key(editor.root()?, 3)
    });
    assert!(matches!(result, Err(Error::NotDeletable { .. })));
    assert_eq!(editor.bytes(), before);
    // And goes on working.
    editor
        .set_value(key, &units("v"), data_type::DWORD, &[1, 2, 3, 4], 4)
        .unwrap();
    assert_clean(&editor);
}

#[test]
fn volatile_keys_go_at_a_restart_and_have_only_volatile_subkeys() {
    let mut editor = editor();
    let root = editor.root().unwrap();
    let new = NewKey {
        volatile: true,
        ..NewKey::default()
    };
    let volatile = editor.create_key(root, &units("HARDWARE"), new, 1).unwrap().id();
    editor.create_key(volatile, &units("x"), new, 1).unwrap();
    let error = editor
        .create_key(volatile, &units("y"), NewKey::default(), 1)
        .unwrap_err();
    assert!(matches!(error, Error::ChildMustBeVolatile { .. }));
    editor.create_path("Stable", 1).unwrap();
    assert_eq!(editor.discard_volatile(2).unwrap(), 1);
    assert!(editor.find("HARDWARE").unwrap().is_none());
    assert!(editor.find("Stable").unwrap().is_some());
    assert_clean(&editor);
}

#[test]
fn hooks_hear_of_what_was_committed_and_of_nothing_else() {
    let mut editor = editor();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    editor.on_change(Box::new(move |change| sink.lock().unwrap().push(change.clone())));
    let root = editor.root().unwrap();
    let key = editor.create_key(root, &units("a"), NewKey::default(), 1).unwrap().id();
    let failed: Result<(), Error> = editor.transact(|editor| {
        editor.set_value(key, &[], 1, &[], 1)?;
        Err(Error::RegistryText)
    });
    failed.unwrap_err();
    editor.set_value(key, &units("v"), 3, &[1], 1).unwrap();
    let long = editor.rename_key(key, &units(&"long".repeat(40)), 2).unwrap();
    assert_ne!(long, key);
    assert!(editor.is_within(long, root).unwrap());
    editor.set_security(long, &[7; 64], 3).unwrap();
    editor.set_class(long, Some(&units("class")), 3).unwrap();
    editor.delete_key(long, 4).unwrap();
    let expected = [
        Change::Created { parent: root, key },
        Change::Values { key },
        Change::Moved { from: key, to: long },
        Change::Renamed {
            parent: root,
            key: long,
        },
        Change::Security { key: long },
        Change::Attributes { key: long },
        Change::Deleted {
            parent: root,
            key: long,
        },
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_clean(&editor);
}

#[test]
fn many_values_of_one_key_are_found_set_and_deleted() {
    let mut editor = editor();
    let key = editor.create_path("k", 1).unwrap();
    editor
        .transact(|editor| {
            for nr in 0..20_000_u32 {
                editor.set_value(
                    key,
                    &units(&format!("Value{nr}")),
                    data_type::DWORD,
                    &nr.to_le_bytes(),
                    1,
                )?;
            }
            for nr in (0..20_000_u32).step_by(3) {
                editor.delete_value(key, &units(&format!("VALUE{nr}")), 1)?;
            }
            for nr in 0..20_000_u32 {
                editor.set_value(
                    key,
                    &units(&format!("vaLUE{nr}")),
                    data_type::DWORD,
                    &(nr * 2).to_le_bytes(),
                    1,
                )?;
            }
            Ok(())
        })
        .unwrap();
    let node = editor.key(key).unwrap();
    assert_eq!(node.nr_values(), 20_000);
    let spelled = node.value("value5").unwrap().unwrap();
    assert_eq!(spelled.name(), "Value5", "the first spelling stays");
    assert_eq!(spelled.data().unwrap().to_vec(), 10_u32.to_le_bytes());
    assert_eq!(node.value("value3").unwrap().unwrap().name(), "vaLUE3");
    assert_clean(&editor);
}

#[test]
fn a_grafted_tree_is_the_tree_of_the_other_hive() {
    let mut tree = Node::new("x");
    tree.key("A\\B")
        .set_sz("v", "text")
        .set_class("c")
        .set("big", data_type::BINARY, vec![1; 20_000]);
    tree.key("A").security = Some(vec![3; 30]);
    tree.key("A").last_written = Some(77);
    tree.key("Link").link_to("\\Registry\\Machine");
    let bytes = tree.to_hive(&WriteOptions::default()).unwrap();
    let source = Hive::open(&bytes).unwrap().root().unwrap();
    let mut editor = editor();
    let root = editor.root().unwrap();
    let counts = editor.graft(root, &units("Loaded"), source, 9).unwrap();
    assert_eq!(counts, hive::count(source, Strictness::Strict).unwrap().0);
    let again = editor.graft(root, &units("LOADED"), source, 9).unwrap_err();
    assert!(matches!(again, Error::AlreadyExists { .. }));
    let loaded = editor.hive().open_path("loaded").unwrap().unwrap();
    let mut found = Vec::new();
    let options = hive::DiffOptions {
        times: true,
        attributes: true,
    };
    hive::diff(source, loaded, options, &mut |difference| {
        found.push(difference);
        Ok(())
    })
    .unwrap();
    assert!(found.is_empty(), "{found:?}");
    assert_clean(&editor);
}

#[test]
fn a_renamed_key_keeps_its_content_and_its_place_in_the_order() {
    let mut editor = editor();
    for name in ["b", "d", "f"] {
        editor.create_path(&format!("{name}\\sub\\deep"), 1).unwrap();
    }
    let key = editor.find("d").unwrap().unwrap();
    editor.set_value(key, &units("v"), 4, &[1, 0, 0, 0], 1).unwrap();
    let root = editor.root().unwrap();
    assert!(matches!(
        editor.rename_key(key, &units("F"), 1),
        Err(Error::AlreadyExists { .. })
    ));
    let key = editor
        .rename_key(key, &units("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), 2)
        .unwrap();
    let key = editor.rename_key(key, &units("\u{41f}"), 3).unwrap();
    let key = editor.rename_key(key, &units("A"), 3).unwrap();
    let key = editor.rename_key(key, &units("a"), 3).unwrap();
    let names: Vec<String> = editor
        .key(root)
        .unwrap()
        .subkeys()
        .unwrap()
        .map(|key| key.unwrap().name().to_string())
        .collect();
    assert_eq!(names, ["a", "b", "f"]);
    assert!(editor.find("A\\sub\\deep").unwrap().is_some());
    assert!(editor.key(key).unwrap().value("V").unwrap().is_some());
    assert_clean(&editor);
}

#[test]
fn freed_room_is_used_again() {
    let mut editor = editor();
    let key = editor.create_path("k", 1).unwrap();
    for round in 0..200_usize {
        for nr in 0..5_usize {
            let data = vec![1; (round * 977 + nr * 5000) % 60_000];
            editor.set_value(key, &units(&format!("v{nr}")), 3, &data, 1).unwrap();
        }
    }
    assert!(editor.bytes().len() < 1_500_000, "{} bytes", editor.bytes().len());
    editor.delete_key(key, 1).unwrap();
    assert_clean(&editor);
    let report = verify(editor.bytes()).unwrap();
    assert_eq!(report.nr_lost_cells, 0);
}

#[test]
fn every_sound_hive_of_the_corpus_can_be_changed() {
    for name in [
        "yarp/BigDataHive",
        "yarp/ManySubkeysHive",
        "hivex/special",
        "nt-hive/testhive",
        "yarp/UpcaseHive",
    ] {
        let bytes = corpus_or_skip!(&format!("hive/{name}"));
        let mut editor = match Editor::open(bytes) {
            Ok(editor) => editor,
            Err(error) => panic!("{name}: {error}"),
        };
        let notes = verify(editor.bytes()).unwrap().nr_notes;
        let root = editor.root().unwrap();
        let children: Vec<_> = editor
            .key(root)
            .unwrap()
            .subkeys()
            .unwrap()
            .map(|key| key.unwrap().id())
            .collect();
        for nr in 0..600 {
            editor.create_path(&format!("new{nr}\\sub"), 1).unwrap();
        }
        for child in children {
            editor.delete_tree(child, 2).unwrap();
        }
        let report = verify(editor.bytes()).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.findings.first());
        assert!(report.nr_notes <= notes, "{name}: {:?}", report.findings);
    }
}

/// One random change.
#[derive(Clone, Debug)]
enum Op {
    Create(u8, u8),
    Delete(u8),
    Rename(u8, u8),
    Set(u8, u8, usize),
    DeleteValue(u8, u8),
    Security(u8, u8),
    Class(u8, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::Create(a, b)),
        1 => any::<u8>().prop_map(Op::Delete),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::Rename(a, b)),
        4 => (any::<u8>(), 0..6_u8, prop_oneof![0..40_usize, 16_300..16_400_usize, 0..70_000_usize])
            .prop_map(|(a, b, c)| Op::Set(a, b, c)),
        2 => (any::<u8>(), 0..6_u8).prop_map(|(a, b)| Op::DeleteValue(a, b)),
        1 => (any::<u8>(), 0..4_u8).prop_map(|(a, b)| Op::Security(a, b)),
        1 => (any::<u8>(), 0..9_u8).prop_map(|(a, b)| Op::Class(a, b)),
    ]
}

/// Names that fold, that are not Latin-1, that are long.
fn name(number: u8) -> Vec<u16> {
    match number % 8 {
        0 => units(&format!("Key{}", number / 8)),
        1 => units(&format!("kEY{}", number / 8)),
        2 => units(&format!("Ключ{}", number / 8)),
        3 => vec![0xd800 + u16::from(number), 0, 1],
        4 => units(&"long".repeat(usize::from(number / 8)))
            .into_iter()
            .chain([0x61])
            .collect(),
        5 => units(&format!("\u{df}{}", number / 8)),
        _ => units(&format!("x{number}")),
    }
}

/// The path (as node indices) of the `number`-th key of the model, counted depth-first.
fn nth(node: &mut Node, number: &mut usize) -> Option<*const Node> {
    if *number == 0 {
        return Some(std::ptr::from_ref(node));
    }
    *number -= 1;
    node.subkeys.iter_mut().find_map(|subkey| nth(subkey, number))
}

fn nr_nodes(node: &Node) -> usize {
    1 + node.subkeys.iter().map(nr_nodes).sum::<usize>()
}

/// The way to a node, as names.
fn way(node: &Node, target: *const Node, names: &mut Vec<hive::NameBuf>) -> bool {
    if std::ptr::eq(node, target) {
        return true;
    }
    for subkey in &node.subkeys {
        names.push(subkey.name.clone());
        if way(subkey, target, names) {
            return true;
        }
        names.pop();
    }
    false
}

fn at<'n>(mut node: &'n mut Node, names: &[hive::NameBuf]) -> &'n mut Node {
    for name in names {
        let index = node.subkeys.iter().position(|subkey| subkey.name == *name).unwrap();
        node = &mut node.subkeys[index];
    }
    node
}

fn same_name(a: &hive::NameBuf, b: &hive::NameBuf) -> bool {
    a.as_name().cmp_upcase(b.as_name()).is_eq()
}

/// Does the change to the editor and to the model.
fn apply(editor: &mut Editor, model: &mut Node, op: &Op) {
    let pick = |number: u8, model: &mut Node| {
        let mut left = usize::from(number) % nr_nodes(model);
        let target = nth(model, &mut left).unwrap();
        let mut names = Vec::new();
        way(model, target, &mut names);
        names
    };
    let id = |editor: &Editor, names: &[hive::NameBuf]| {
        let mut key = editor.hive().root().unwrap();
        for name in names {
            key = key.subkey_units(name.as_name().units()).unwrap().unwrap();
        }
        key.id()
    };
    match *op {
        Op::Create(parent, new) => {
            let names = pick(parent, model);
            if names.len() > 12 {
                return;
            }
            let created = editor
                .create_key(id(editor, &names), &name(new), NewKey::default(), 0)
                .unwrap();
            let node = at(model, &names);
            let new = hive::NameBuf::from_units(&name(new));
            let existing = node.subkeys.iter().any(|subkey| same_name(&subkey.name, &new));
            assert_eq!(matches!(created, Created::Existing(_)), existing);
            if !existing {
                let mut subkey = Node::new(new);
                subkey.security.clone_from(&node.security);
                node.subkeys.push(subkey);
            }
        }
        Op::Delete(number) => {
            let mut names = pick(number, model);
            if names.is_empty() {
                return;
            }
            editor.delete_tree(id(editor, &names), 0).unwrap();
            let last = names.pop().unwrap();
            at(model, &names).subkeys.retain(|subkey| subkey.name != last);
        }
        Op::Rename(number, new) => {
            let mut names = pick(number, model);
            if names.is_empty() {
                return;
            }
            let result = editor.rename_key(id(editor, &names), &name(new), 0);
            let last = names.pop().unwrap();
            let new = hive::NameBuf::from_units(&name(new));
            let parent = at(model, &names);
            let taken = parent
                .subkeys
                .iter()
                .any(|other| same_name(&other.name, &new) && other.name != last);
            assert_eq!(matches!(result, Err(Error::AlreadyExists { .. })), taken);
            if !taken {
                result.unwrap();
                parent
                    .subkeys
                    .iter_mut()
                    .find(|subkey| subkey.name == last)
                    .unwrap()
                    .name = new;
            }
        }
        Op::Set(number, value, len) => {
            let names = pick(number, model);
            let data = vec![value; len];
            editor
                .set_value(id(editor, &names), &name(value), u32::from(value), &data, 0)
                .unwrap();
            let node = at(model, &names);
            let new = hive::NameBuf::from_units(&name(value));
            match node.values.iter_mut().find(|value| same_name(&value.name, &new)) {
                Some(place) => (place.data_type, place.data) = (u32::from(value), data),
                None => {
                    node.set(new, u32::from(value), data);
                }
            }
        }
        Op::DeleteValue(number, value) => {
            let names = pick(number, model);
            let result = editor.delete_value(id(editor, &names), &name(value), 0);
            let node = at(model, &names);
            let gone = hive::NameBuf::from_units(&name(value));
            let there = node.values.iter().any(|value| same_name(&value.name, &gone));
            assert_eq!(result.is_ok(), there);
            node.values.retain(|value| !same_name(&value.name, &gone));
        }
        Op::Security(number, which) => {
            let names = pick(number, model);
            let descriptor = vec![which; 20 + usize::from(which) * 30];
            editor.set_security(id(editor, &names), &descriptor, 0).unwrap();
            at(model, &names).security = Some(descriptor);
        }
        Op::Class(number, len) => {
            let names = pick(number, model);
            let class = vec![0x63_u16; usize::from(len)];
            let class = (len > 0).then_some(class);
            editor.set_class(id(editor, &names), class.as_deref(), 0).unwrap();
            at(model, &names).class = class.map(|class| class.iter().flat_map(|unit| unit.to_le_bytes()).collect());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_changes_gives_what_the_model_has(ops in prop::collection::vec(op(), 1..160)) {
        let mut model = Node::new("ROOT");
        let mut editor = editor();
        for op in &ops {
            apply(&mut editor, &mut model, op);
        }
        let report = verify(editor.bytes()).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report.findings.first());
        // Written anew, both are the same bytes: keys, order of values, classes, descriptors, flags.
        let options = WriteOptions::default();
        let expected = model.to_hive(&options).unwrap();
        let (ours, _) = hive::rebuild(&editor.hive(), &options).unwrap();
        prop_assert_eq!(Node::read(Hive::open(&ours).unwrap().root().unwrap(), Strictness::Strict).unwrap().0,
            Node::read(Hive::open(&expected).unwrap().root().unwrap(), Strictness::Strict).unwrap().0);
        prop_assert!(ours == expected);
        nt_hive::Hive::new(editor.bytes()).unwrap().validate().unwrap();
    }
}
