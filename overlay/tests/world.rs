// SPDX-License-Identifier: GPL-3.0-or-later
//! A world through its whole life: made, read back, verified, removed.

mod common;

use std::io::Read;

use common::{Order, conf, fill, meta, name, path, roots, small_world, stored, units, world_name};
use overlay::layer::Kind;
use overlay::{Error, ExitClass, FileTime, SealOptions, StreamName, Worlds, attributes};

#[test]
fn all_metadata_is_read_back_as_it_was_written() {
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        worlds.probe().unwrap();
        let world = small_world(&worlds, "w", Order::Forward, true);
        let layer = world.layer().unwrap();

        let linked = layer.metadata(&path("windows\\SYSTEM32\\IT.DLL")).unwrap().unwrap();
        assert_eq!(
            linked.name(),
            &name("it.dll"),
            "found without regard to case, named as it is"
        );
        assert_eq!((linked.links, linked.size_bytes, linked.kind), (2, 9, Kind::File));
        assert_eq!(linked.meta.attributes, attributes::ARCHIVE | attributes::READONLY);
        assert_eq!(linked.meta.created, common::time(60));
        assert_eq!(linked.meta.accessed, common::time(61));
        assert_eq!(linked.meta.written, common::time(62));
        assert_eq!(linked.meta.short_name, None, "the short name belongs to the other name");
        assert_eq!(
            layer.security(linked.meta.security.unwrap()).as_deref(),
            Some(&b"\x01\0\x04\x80trusted"[..])
        );
        let twin = layer.metadata(&path("Windows\\WinSxS\\LONGNA~1.DLL")).unwrap().unwrap();
        assert_eq!((twin.ino, twin.name()), (linked.ino, &name("long name of it.dll")));
        assert_eq!(twin.meta.short_name.unwrap().units(), units("LONGNA~1.DLL"));
        assert!(
            layer
                .metadata(&path("Windows\\System32\\LONGNA~1.DLL"))
                .unwrap()
                .is_none()
        );
        assert!(layer.metadata(&path("progra~1\\junction")).unwrap().is_some());

        let far = layer.metadata(&path("Program Files\\:d800A")).unwrap().unwrap();
        assert_eq!(
            (far.meta.created, far.meta.written),
            (FileTime(0), FileTime(u64::MAX / 2))
        );
        let old = layer
            .metadata(&path("Program Files").join(&name(&"文".repeat(200))))
            .unwrap()
            .unwrap();
        assert_eq!((old.meta.written, old.meta.changed), (FileTime(9), Some(FileTime(10))));

        let streams = layer.streams(&path("Windows\\System32\\streams.txt")).unwrap();
        let sizes: Vec<_> = streams.iter().map(|s| (s.name.to_string(), s.size_bytes)).collect();
        assert_eq!(
            sizes,
            [
                (":002e.".into(), 4),
                ("empty".into(), 0),
                ("Zone.Identifier".to_owned(), 14)
            ]
        );
        let zone = StreamName::new(&units("ZONE.identifier")).unwrap();
        let mut text = String::new();
        layer
            .open_stream(&path("Windows\\System32\\streams.txt"), &zone)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "[ZoneTransfer]");

        let junction = layer.metadata(&path("Program Files\\Junction")).unwrap().unwrap();
        assert_eq!(
            (junction.kind, junction.meta.reparse_tag),
            (Kind::Directory, Some(0xa000_0003))
        );
        assert_eq!(
            layer.reparse_data(&path("Program Files\\junction")).unwrap().unwrap(),
            b"/\0etc"
        );
        assert!(
            layer.read_dir(&path("Program Files\\junction")).unwrap().is_empty(),
            "nothing is followed"
        );

        let root_meta = layer.metadata(&path("\\")).unwrap().unwrap().meta;
        assert_eq!((root_meta.attributes, root_meta.written), (0x12, common::time(12)));
        let windows = layer.metadata(&path("Windows")).unwrap().unwrap().meta;
        assert_eq!(
            windows.written,
            common::time(32),
            "placing a file left the directory's time"
        );
    }
}

#[test]
fn a_directory_is_listed_in_nts_order_with_its_case_twins_and_without_ours() {
    let root = &roots()[0];
    let world = small_world(&Worlds::open(root.path()).unwrap(), "w", Order::Forward, true);
    let layer = world.layer().unwrap();
    let names: Vec<_> = layer
        .read_dir(&path("\\"))
        .unwrap()
        .iter()
        .map(|e| e.name().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "a:003ab",
            "line:000abreak",
            "Program Files",
            "README",
            "ReadMe",
            "readme",
            "Windows"
        ]
    );
    let read = |text: &str| std::io::read_to_string(layer.open_file(&path(text)).unwrap()).unwrap();
    assert_eq!(read("readme"), "text 0", "the exact spelling wins");
    assert_eq!(read("ReadMe"), "text 2");
    assert_eq!(read("rEADME"), "text 1", "else the first of them");
    assert!(
        layer.metadata(&path(":003ant\\security")).unwrap().is_none(),
        "no NT path leads into :nt"
    );
    assert!(matches!(
        layer.open_file(&path("Windows")),
        Err(Error::WrongKind { .. })
    ));
    assert!(matches!(layer.read_dir(&path("readme")), Err(Error::WrongKind { .. })));
    assert!(layer.metadata(&path("readme\\x")).unwrap().is_none());
}

#[test]
fn a_world_has_four_entries_and_is_listed_verified_and_removed() {
    for root in roots() {
        let worlds = Worlds::open(root.path().join("deep/worlds")).unwrap();
        let world = small_world(&worlds, "win 11", Order::Threads, true);
        let mut entries: Vec<_> = std::fs::read_dir(world.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        entries.sort();
        assert_eq!(entries, ["files", "registry.hiv", "removed", "world.conf"]);
        let listed = worlds.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].conf.as_ref().unwrap(), world.conf());
        assert_eq!(world.verify(&SealOptions::default()).unwrap(), []);
        let sizes = world.sizes().unwrap();
        assert_eq!((sizes.files, sizes.directories, sizes.links), (11, 7, 1));
        assert_eq!(sizes.registry_bytes, 14);
        assert!(sizes.apparent_bytes > 3 << 20 && sizes.allocated_bytes > 3 << 20);

        let held = world.lock_shared().unwrap();
        assert!(matches!(
            worlds.remove(&world_name("win 11")),
            Err(Error::WorldInUse { .. })
        ));
        drop(held);
        worlds.remove(&world_name("win 11")).unwrap();
        assert!(matches!(
            worlds.world(&world_name("win 11")),
            Err(Error::WorldMissing { .. })
        ));
        assert!(matches!(
            worlds.remove(&world_name("win 11")),
            Err(Error::WorldMissing { .. })
        ));
        assert_eq!(worlds.list().unwrap().len(), 0);
        let left: Vec<_> = std::fs::read_dir(worlds.root())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, [".locks"]);
        assert_eq!(std::fs::read_dir(worlds.root().join(".locks")).unwrap().count(), 0);
    }
}

#[test]
fn a_parent_is_not_removed_and_its_children_are_named() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let staging = worlds.begin(&world_name("child"), "").unwrap();
    std::fs::write(staging.registry_path(), b"").unwrap();
    let parent = overlay::conf::Parent {
        name: "base".into(),
        digest: base.conf().digest.unwrap(),
    };
    let child_conf = overlay::WorldConf {
        parent: Some(parent),
        ..Default::default()
    };
    staging.commit(child_conf, &SealOptions::default()).unwrap();
    match worlds.remove(&world_name("base")) {
        Err(error @ Error::WorldHasChildren { .. }) => {
            assert!(error.to_string().contains("child"));
            assert_eq!(error.exit_class(), ExitClass::World);
        }
        other => panic!("{other:?}"),
    }
    worlds.remove(&world_name("child")).unwrap();
    worlds.remove(&world_name("base")).unwrap();
}

#[test]
fn verify_names_each_difference() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let world = small_world(&worlds, "w", Order::Forward, true);
    let files = world.path().join("files");
    let keep_time = |file: &std::path::Path, change: &dyn Fn()| {
        let time = std::fs::metadata(file).unwrap().modified().unwrap();
        change();
        let open = std::fs::File::open(file).unwrap();
        open.set_times(std::fs::FileTimes::new().set_modified(time)).unwrap();
    };
    let large = files.join("Windows/WinSxS/large.bin");
    keep_time(&large, &|| {
        let mut bytes = std::fs::read(&large).unwrap();
        bytes[2_000_000] ^= 1;
        std::fs::write(&large, bytes).unwrap();
    });
    let windows = files.join("Windows");
    keep_time(&windows, &|| std::fs::write(windows.join("added.txt"), b"new").unwrap());
    let system32 = files.join("Windows/System32");
    keep_time(&system32, &|| {
        std::fs::remove_file(system32.join("streams.txt")).unwrap()
    });
    let readme = files.join("README");
    let mut record = [0u8; 256];
    let length = rustix::fs::getxattr(&readme, "user.vodka.nt", &mut record[..]).unwrap();
    record[4] ^= 1;
    rustix::fs::setxattr(
        &readme,
        "user.vodka.nt",
        &record[..length],
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    std::fs::write(world.registry_path(), b"regf of a tesT").unwrap();

    let texts: Vec<_> = world
        .verify(&SealOptions::default())
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "changed: README: attributes is 00000021, expected 00000020",
        "missing: Windows\\System32\\streams.txt",
        "changed: Windows\\WinSxS\\large.bin: blake3 is ",
        "added: Windows\\added.txt",
        "missing: stream Windows\\System32\\streams.txt:::002e.",
        "missing: stream Windows\\System32\\streams.txt::Zone.Identifier",
        "missing: stream Windows\\System32\\streams.txt::empty",
        "changed: registry registry.hiv: blake3 is ",
        "added: entry of :nt, a2bb3031c0142365",
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.starts_with(expected), "{text:?} is not {expected:?}");
    }
}

#[test]
fn a_changed_manifest_is_not_believed() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let world = small_world(&worlds, "w", Order::Forward, true);
    let manifest = world.path().join("files/:nt/manifest");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("Panther", "Panthes")).unwrap();
    assert!(matches!(
        world.verify(&SealOptions::default()),
        Err(Error::ManifestDigest { .. })
    ));
}

#[test]
fn something_that_is_no_file_and_no_directory_is_refused_and_named() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let world = small_world(&worlds, "w", Order::Forward, true);
    let files = world.path().join("files");
    std::os::unix::fs::symlink("/etc", files.join("Windows/link")).unwrap();
    match world.verify(&SealOptions::default()) {
        Err(Error::ForeignEntry {
            path,
            found: "a symbolic link",
        }) => assert!(path.ends_with("Windows/link")),
        other => panic!("{other:?}"),
    }
    assert!(
        world
            .layer()
            .unwrap()
            .open_file(&path("Windows\\link\\passwd"))
            .is_err()
    );
    std::fs::remove_file(files.join("Windows/link")).unwrap();
    std::fs::write(files.join("Windows/:0041"), b"").unwrap();
    assert!(matches!(world.verify(&SealOptions::default()), Err(Error::Name { .. })));
    std::fs::remove_file(files.join("Windows/:0041")).unwrap();
    rustix::fs::setxattr(
        files.join("Windows"),
        "user.vodka.nt",
        b"\x02",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    assert!(matches!(
        world.verify(&SealOptions::default()),
        Err(Error::Record { .. })
    ));
}

#[test]
fn a_link_that_is_planted_while_a_world_is_made_redirects_no_write() {
    for root in roots() {
        let outside = tempfile::tempdir().unwrap();
        let worlds = Worlds::open(root.path()).unwrap();
        let staging = worlds.begin(&world_name("w"), "").unwrap();
        let tree = staging.tree();
        let files = staging.files_path();
        let dir = tree.create_dir(&tree.root(), &stored("dir"), meta(0x10, 0)).unwrap();
        // A link where a directory was, one where a file will be, one where a directory will be.
        std::fs::remove_dir(files.join("dir")).unwrap();
        std::os::unix::fs::symlink(outside.path(), files.join("dir")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("x"), files.join("file")).unwrap();
        std::os::unix::fs::symlink(outside.path(), files.join(":nt")).unwrap();
        assert!(tree.create_file(&dir, &stored("f"), 1).is_err());
        assert!(tree.create_dir(&dir, &stored("d"), meta(0x10, 0)).is_err());
        assert!(tree.create_file(&tree.root(), &stored("file"), 1).is_err());
        assert!(tree.create_dir(&tree.root(), &stored("file"), meta(0x10, 0)).is_err());
        assert!(tree.set_reparse(overlay::ExtraKey([1; 8]), b"x").is_err());
        assert!(staging.place_file(&path("dir\\f"), b"x", &meta(0x20, 0)).is_err());
        assert!(staging.place_file(&path("file"), b"x", &meta(0x20, 0)).is_err());
        assert!(tree.finish().is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

#[test]
fn placing_a_file_replaces_one_and_leaves_its_other_names() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    fill(staging.tree(), Order::Forward, true);
    staging.tree().finish().unwrap();
    staging
        .place_file(&path("windows\\system32\\IT.DLL"), b"placed", &meta(0x20, 5))
        .unwrap();
    assert!(matches!(
        staging.place_file(&path("Windows"), b"", &meta(0x20, 5)),
        Err(Error::WrongKind { .. })
    ));
    assert!(matches!(
        staging.place_file(&path("readme\\x\\y"), b"", &meta(0x20, 5)),
        Err(Error::WrongKind { .. })
    ));
    let layer = overlay::Layer::open(staging.files_path()).unwrap();
    let read = |text: &str| std::io::read_to_string(layer.open_file(&path(text)).unwrap()).unwrap();
    assert_eq!(read("Windows\\System32\\it.dll"), "placed");
    assert_eq!(read("Windows\\WinSxS\\long name of it.dll"), "MZ linked");
    assert_eq!(
        layer
            .metadata(&path("Windows\\System32\\it.dll"))
            .unwrap()
            .unwrap()
            .name(),
        &name("it.dll")
    );
}

#[test]
fn a_world_without_registry_is_not_committed() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    let error = staging.commit(conf(), &SealOptions::default()).unwrap_err();
    assert!(error.to_string().contains("registry.hiv"), "{error}");
    assert!(worlds.list().unwrap().is_empty());
}

#[test]
fn verify_names_each_changed_key_and_value_of_the_registry() {
    use hive::{Node, WriteOptions};
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let mut keys = Node::new("root");
    keys.key("SOFTWARE\\One")
        .set_dword("number", 1)
        .set_sz("text", "a")
        .set_sz("gone", "x");
    keys.key("SOFTWARE\\Gone\\Below").set_dword("number", 1);
    keys.key("SYSTEM\\tab\there").set_dword("", 3);
    let hive = |keys: &Node| keys.to_hive(&WriteOptions::default()).unwrap();
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    std::fs::write(staging.registry_path(), hive(&keys)).unwrap();
    let world = staging.commit(conf(), &SealOptions::default()).unwrap();
    assert_eq!(world.verify(&SealOptions::default()).unwrap(), []);

    keys.key("SOFTWARE\\One")
        .set_dword("number", 2)
        .set_dword("added", 1)
        .values
        .retain(|v| v.name.as_name() != "gone");
    keys.key("SOFTWARE").subkeys.retain(|key| key.name.as_name() != "Gone");
    keys.key("SYSTEM\\new");
    keys.key("SYSTEM\\tab\there").set_class("other");
    std::fs::write(world.registry_path(), hive(&keys)).unwrap();
    let texts: Vec<_> = world
        .verify(&SealOptions::default())
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "changed: registry registry.hiv: ",
        "missing: registry key SOFTWARE\\Gone",
        "missing: registry key SOFTWARE\\Gone\\Below",
        "missing: registry value SOFTWARE\\One::gone",
        "changed: registry value SOFTWARE\\One::number: hash of type and data is ",
        "added: registry value SOFTWARE\\One::added",
        "added: registry key SYSTEM\\new",
        "changed: registry key SYSTEM\\tab:0009here: class, security or time is ",
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.starts_with(expected), "{text:?} is not {expected:?}");
    }
    // A damaged table, or a registry that is none any more, is told, too.
    std::fs::write(world.registry_path(), b"no hive").unwrap();
    assert_eq!(world.verify(&SealOptions::default()).unwrap().len(), 1);
    std::fs::write(world.path().join("files/:nt/registry"), b"no table").unwrap();
    std::fs::write(world.registry_path(), hive(&keys)).unwrap();
    assert!(world.verify(&SealOptions::default()).is_err());
}

#[test]
fn differences_of_two_registries_are_named() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let mut keys = hive::Node::new("root");
    keys.key("SOFTWARE\\One").set_dword("number", 1);
    let make = |name: &str, keys: &hive::Node| {
        let staging = worlds.begin(&world_name(name), "").unwrap();
        std::fs::write(
            staging.registry_path(),
            keys.to_hive(&hive::WriteOptions::default()).unwrap(),
        )
        .unwrap();
        staging.commit(conf(), &SealOptions::default()).unwrap()
    };
    let one = make("one", &keys);
    keys.key("SOFTWARE\\One").set_dword("number", 2);
    let two = make("two", &keys);
    let found = one.diff(&two).unwrap().registry;
    let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["~ [SOFTWARE\\One] \"number\": dword:00000001 -> dword:00000002"]
    );
}
