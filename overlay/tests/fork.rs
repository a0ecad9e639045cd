// SPDX-License-Identifier: GPL-3.0-or-later
//! Forks: what they show, what they change, what can be made of them. The parent is the small world with one of
//! everything.
#![allow(clippy::print_stdout, reason = "a test says what it skipped and counted")]

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{Order, meta, path, picture, roots, small_world, units, world_name};
use overlay::layers::Replace;
use overlay::{Access, Error, Layers, SealOptions, ShortName, StreamName, World, Worlds, attributes};

fn read(layers: &Layers, at: &str) -> String {
    std::io::read_to_string(layers.open_file(&path(at)).unwrap()).unwrap()
}

fn names(layers: &Layers, at: &str) -> Vec<String> {
    layers
        .read_dir(&path(at))
        .unwrap()
        .iter()
        .map(|entry| entry.name().to_string())
        .collect()
}

fn fork_of(worlds: &Worlds, base: &World, name: &str) -> (World, Layers) {
    let fork = worlds.fork(&world_name(name), base).unwrap();
    let layers = Layers::open(&fork, Access::Write).unwrap();
    (fork, layers)
}

fn differences(base: &World, other: &World) -> Vec<String> {
    base.diff(other)
        .unwrap()
        .files
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_fork_shows_its_parent_and_has_only_the_registry() {
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        let base = small_world(&worlds, "base", Order::Forward, true);
        let (fork, layers) = fork_of(&worlds, &base, "fork");
        assert_eq!(layers.nr_layers(), 2);
        let sizes = fork.sizes().unwrap();
        assert_eq!((sizes.files, sizes.directories, sizes.registry_bytes), (0, 1, 14));
        assert_eq!(fork.conf().parent.as_ref().unwrap().digest, base.conf().digest.unwrap());
        assert_eq!(differences(&base, &fork), [""; 0]);
        assert_eq!(names(&layers, "\\").len(), 7);
        assert_eq!(read(&layers, "WINDOWS\\system32\\IT.DLL"), "MZ linked");
    }
}

#[test]
fn a_first_change_brings_bytes_metadata_streams_and_all_names_along() {
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        let base = small_world(&worlds, "base", Order::Forward, true);
        let before = picture(base.path());
        let (fork, layers) = fork_of(&worlds, &base, "fork");

        // A file with two names, each of which shows the change.
        layers
            .open_file_to_write(&path("Windows\\System32\\it.dll"))
            .unwrap()
            .write_all(b"ZM")
            .unwrap();
        assert_eq!(read(&layers, "Windows\\WinSxS\\long name of it.dll"), "ZM linked");
        let own = fork.layer().unwrap();
        let one = own.metadata(&path("Windows\\System32\\it.dll")).unwrap().unwrap();
        let two = own.metadata(&path("Windows\\WinSxS\\LONGNA~1.DLL")).unwrap().unwrap();
        assert_eq!((one.ino, one.links), (two.ino, 2));
        assert_eq!(two.meta.short_name.unwrap().units(), units("LONGNA~1.DLL"));
        assert_eq!(
            own.security(one.meta.security.unwrap()).as_deref(),
            Some(&b"\x01\0\x04\x80trusted"[..])
        );

        // Streams and reparse data.
        let streams = path("Windows\\System32\\streams.txt");
        let zone = StreamName::new(&units("zone.IDENTIFIER")).unwrap();
        layers
            .create_stream(&streams, &zone)
            .unwrap()
            .write_all(b"other")
            .unwrap();
        let mut text = String::new();
        layers
            .open_stream(&streams, &zone)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!((text.as_str(), layers.streams(&streams).unwrap().len()), ("other", 3));
        layers
            .set_metadata(&path("Program Files\\junction"), &{
                let mut changed = layers.metadata(&path("Program Files\\junction")).unwrap().unwrap().meta;
                changed.attributes |= attributes::HIDDEN;
                changed
            })
            .unwrap();
        assert_eq!(
            layers.reparse_data(&path("Program Files\\junction")).unwrap().unwrap(),
            b"/\0etc"
        );

        // Case twins come together: the group is one layer's.
        layers
            .open_file_to_write(&path("ReadMe"))
            .unwrap()
            .write_all(b"TEXT")
            .unwrap();
        assert_eq!(
            (read(&layers, "ReadMe"), read(&layers, "README")),
            ("TEXT 2".into(), "text 1".into())
        );
        assert_eq!(names(&layers, "\\").len(), 7);

        // Of all this, nothing but what was changed is different, directories' times included.
        drop(layers);
        let found = differences(&base, &fork);
        let starts = [
            "changed: Program Files\\junction: attributes is 00000412, expected 00000410",
            "changed: ReadMe: written is ",
            "changed: Windows\\System32\\it.dll: written is ",
            "changed: stream Windows\\System32\\streams.txt::Zone.Identifier: size is 5, expected 14",
            "changed: Windows\\WinSxS\\long name of it.dll: written is ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found:?} is not {start:?}");
        }
        assert!(
            found[2].ends_with("content is otherwise from there, expected as it was up to byte 0"),
            "{}",
            found[2]
        );
        assert_eq!(picture(base.path()), before, "the parent has changed");
    }
}

#[test]
fn one_of_several_case_twins_can_go_and_the_others_stay() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let before = picture(base.path());
    let (fork, layers) = fork_of(&worlds, &base, "fork");
    layers.remove(&path("ReadMe")).unwrap();
    assert_eq!(read(&layers, "README"), "text 1");
    assert_eq!(read(&layers, "readme"), "text 0");
    assert_eq!(read(&layers, "ReadMe"), "text 1", "the first of those that are left");
    layers
        .rename(&path("readme"), &path("Windows\\moved"), Replace::No)
        .unwrap();
    assert_eq!(
        names(&layers, "\\")
            .iter()
            .filter(|name| name.eq_ignore_ascii_case("readme"))
            .count(),
        1
    );
    layers.remove(&path("README")).unwrap();
    assert!(layers.metadata(&path("readme")).unwrap().is_none());
    assert_eq!(read(&layers, "Windows\\moved"), "text 0");
    drop(layers);
    let layers = Layers::open(&fork, Access::Read).unwrap();
    assert!(layers.metadata(&path("readme")).unwrap().is_none());
    assert_eq!(picture(base.path()), before);
}

#[test]
fn a_mark_hides_one_path_and_a_directory_made_again_is_opaque() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let (fork, layers) = fork_of(&worlds, &base, "fork");
    for below in ["it.dll", "streams.txt"] {
        layers.remove(&path(&format!("Windows\\System32\\{below}"))).unwrap();
    }
    assert!(matches!(layers.remove(&path("Windows")), Err(Error::NotEmpty { .. })));
    layers.remove(&path("windows\\SYSTEM32")).unwrap();
    assert_eq!(
        read(&layers, "Windows\\WinSxS\\long name of it.dll"),
        "MZ linked",
        "the other name stays"
    );
    assert_eq!(
        std::fs::read_to_string(fork.path().join("removed")).unwrap(),
        "Windows\\System32\n"
    );
    layers
        .create_dir(&path("Windows\\system32"), &meta(attributes::DIRECTORY, 0))
        .unwrap();
    assert_eq!(names(&layers, "Windows\\System32"), [""; 0]);
    layers
        .rename(&path("Windows\\WinSxS"), &path("Windows\\System32\\moved"), Replace::No)
        .unwrap();
    assert_eq!(
        names(&layers, "Windows\\System32\\MOVED"),
        ["large.bin", "long name of it.dll"]
    );
    assert!(layers.metadata(&path("Windows\\WinSxS")).unwrap().is_none());
    assert!(matches!(
        layers.rename(&path("Windows"), &path("Windows\\System32\\x"), Replace::No),
        Err(Error::WrongKind { .. })
    ));
    // A world that is sealed with marks verifies, and nothing writes to it any more.
    drop(layers);
    let mut fork = fork;
    fork.seal(&SealOptions::default()).unwrap();
    assert_eq!(fork.verify(&SealOptions::default()).unwrap(), []);
    assert!(
        fork.stored_manifest()
            .unwrap()
            .text()
            .contains("\nr\tWindows\\System32\n")
    );
    assert!(matches!(Layers::open(&fork, Access::Write), Err(Error::Sealed { .. })));
    let layers = Layers::open(&fork, Access::Read).unwrap();
    assert!(matches!(layers.remove(&path("readme")), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_short_name_is_found_through_the_layers_and_no_hidden_one() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let (_fork, layers) = fork_of(&worlds, &base, "fork");
    assert_eq!(layers.spelled(&path("progra~1")).unwrap(), Some(path("Program Files")));
    let mut with = meta(attributes::ARCHIVE, 0);
    with.short_name = ShortName::new(&units("OWN~1.TXT")).ok();
    layers.create_file(&path("progra~1\\own name.text"), &with).unwrap();
    assert_eq!(
        layers.spelled(&path("PROGRA~1\\own~1.txt")).unwrap(),
        Some(path("Program Files\\own name.text"))
    );
    layers
        .rename(&path("progra~1"), &path("Programs"), Replace::No)
        .unwrap();
    assert!(layers.spelled(&path("Program Files")).unwrap().is_none());
    assert_eq!(
        layers.spelled(&path("progra~1")).unwrap(),
        Some(path("Programs")),
        "our rename keeps the short name"
    );
}

#[test]
fn another_parent_than_the_one_it_was_forked_from_is_refused() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let fork = worlds.fork(&world_name("fork"), &base).unwrap();
    assert!(matches!(
        worlds.fork(&world_name("x"), &fork),
        Err(Error::NotSealed { .. })
    ));
    assert!(matches!(
        worlds.fork(&world_name("base"), &base),
        Err(Error::WorldExists { .. })
    ));
    let held = Layers::open(&fork, Access::Read).unwrap();
    assert!(matches!(
        worlds.remove(&world_name("base")),
        Err(Error::WorldInUse { .. })
    ));
    drop(held);
    let conf = base.path().join("world.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let digest = base.conf().digest.unwrap().to_string();
    let mut other = digest.clone();
    other.replace_range(7..8, if &digest[7..8] == "0" { "1" } else { "0" });
    std::fs::write(&conf, text.replace(&digest, &other)).unwrap();
    assert!(matches!(
        Layers::open(&fork, Access::Read),
        Err(Error::ParentChanged { .. })
    ));
}

#[test]
fn a_chain_of_parents_that_is_a_cycle_ends() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let conf = base.path().join("world.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let parent = format!(
        "\n[parent]\nname = \"base\"\ndigest = \"{}\"\n",
        base.conf().digest.unwrap()
    );
    std::fs::write(&conf, text + &parent).unwrap();
    let base = worlds.world(&world_name("base")).unwrap();
    assert!(matches!(
        Layers::open(&base, Access::Read),
        Err(Error::TooManyLayers { .. })
    ));
}

/// A fork with some changes of each kind.
fn changed_fork(worlds: &Worlds, base: &World, name: &str) -> World {
    let (fork, layers) = fork_of(worlds, base, name);
    layers.remove(&path("Windows\\Panther\\unattend.xml")).unwrap();
    layers
        .open_file_to_write(&path("Windows\\System32\\it.dll"))
        .unwrap()
        .write_all(b"ZM")
        .unwrap();
    layers
        .rename(&path("a:003ab"), &path("Windows\\renamed"), Replace::No)
        .unwrap();
    layers
        .create_dir(&path("new"), &meta(attributes::DIRECTORY, 1))
        .unwrap();
    layers
        .create_file(&path("new\\file"), &meta(attributes::ARCHIVE, 2))
        .unwrap()
        .write_all(b"new")
        .unwrap();
    layers.link(&path("new\\file"), &path("new\\second name")).unwrap();
    drop(layers);
    fork
}

#[test]
fn what_is_flattened_or_committed_shows_what_the_fork_showed() {
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        let base = small_world(&worlds, "base", Order::Forward, true);
        let before = picture(base.path());
        let mut fork = changed_fork(&worlds, &base, "fork");
        let committed = fork
            .commit_to(&world_name("committed"), &SealOptions::default())
            .unwrap();
        assert_eq!(committed.conf().parent, None);
        assert_eq!(committed.conf().source, base.conf().source);
        assert_eq!(differences(&fork, &committed), [""; 0]);
        assert_eq!(committed.verify(&SealOptions::default()).unwrap(), []);
        let again = fork.commit_to(&world_name("again"), &SealOptions::default()).unwrap();
        assert_eq!(again.conf().digest, committed.conf().digest);
        assert_eq!(picture(again.path()), picture(committed.path()));
        fork.flatten(&SealOptions::default()).unwrap();
        assert_eq!(picture(fork.path()), picture(committed.path()));
        assert_eq!(worlds.world(&world_name("fork")).unwrap().conf(), committed.conf());
        assert_eq!(picture(base.path()), before);
        worlds.remove(&world_name("base")).unwrap();
        assert_eq!(fork.verify(&SealOptions::default()).unwrap(), []);
        assert!(!root.path().join(".fork.flatten").exists());
    }
}

#[test]
fn a_flat_copy_of_a_base_has_the_digest_of_the_base() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let copy = base.commit_to(&world_name("copy"), &SealOptions::default()).unwrap();
    let names: Vec<_> = base
        .stored_manifest()
        .unwrap()
        .compare(&copy.stored_manifest().unwrap());
    assert_eq!(names, []);
    assert_eq!(copy.conf().digest, base.conf().digest);
}

#[test]
fn differences_of_files_and_registries_are_named() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let fork = changed_fork(&worlds, &base, "fork");
    let found = differences(&base, &fork);
    for expected in [
        "missing: a:003ab",
        "added: new",
        "added: new\\file",
        "added: new\\second name",
        "missing: Windows\\Panther\\unattend.xml",
        "added: Windows\\renamed",
    ] {
        assert!(
            found.iter().any(|found| found == expected),
            "{expected} is not in {found:#?}"
        );
    }
    std::fs::write(fork.registry_path(), b"no hive").unwrap();
    assert!(matches!(base.diff(&fork), Err(Error::Registry { .. })));
}

const CHILD: &str = "OVERLAY_TEST_FORK";

/// Not a test by itself: what the next test runs as a process of its own, to kill it.
#[test]
fn child() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let worlds = Worlds::open(Path::new(&root)).unwrap();
    let base = worlds.world(&world_name("base")).unwrap();
    loop {
        let mut fork = changed_fork(&worlds, &base, "f");
        fork.commit_to(&world_name("c"), &SealOptions::default()).unwrap();
        fork.flatten(&SealOptions::default()).unwrap();
        worlds.remove(&world_name("c")).unwrap();
        worlds.remove(&world_name("f")).unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_leaves_each_world_whole_or_absent() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let worlds = Worlds::open(root.path()).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let before = picture(base.path());
    // How long one round takes.
    let begun = Instant::now();
    let mut fork = changed_fork(&worlds, &base, "f");
    let right = fork.commit_to(&world_name("right"), &SealOptions::default()).unwrap();
    fork.flatten(&SealOptions::default()).unwrap();
    worlds.remove(&world_name("f")).unwrap();
    let round_time = begun.elapsed() * 2;
    println!("a round takes {round_time:?}");
    let (mut flat, mut forks, mut committed) = (0, 0, 0);
    for round in 0..50u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child"])
            .env(CHILD, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        std::thread::sleep(round_time * round / 25);
        child.kill().unwrap();
        child.wait().unwrap();
        for listed in worlds.list().unwrap() {
            let world = worlds.world(&listed.name).unwrap();
            match world.name().as_str() {
                "c" => {
                    committed += 1;
                    assert_eq!(world.verify(&SealOptions::default()).unwrap(), [], "round {round}");
                }
                "f" if world.conf().digest.is_some() => {
                    flat += 1;
                    assert_eq!(world.verify(&SealOptions::default()).unwrap(), [], "round {round}");
                }
                "f" => {
                    forks += 1;
                    // It can be anywhere in its changes; it opens, lists and commits.
                    let layers = Layers::open(&world, Access::Read).unwrap();
                    assert!(names(&layers, "Windows").contains(&"System32".to_owned()));
                    drop(layers);
                    world.commit_to(&world_name("test"), &SealOptions::default()).unwrap();
                    worlds.remove(&world_name("test")).unwrap();
                }
                _ => {}
            }
        }
        for name in ["f", "c"] {
            match worlds.remove(&world_name(name)) {
                Ok(()) | Err(Error::WorldMissing { .. }) => {}
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        assert_eq!(picture(base.path()), before, "round {round}");
    }
    println!("after 50 kills: {forks} forks, {flat} flattened, {committed} committed worlds were there, each whole");
    worlds.sweep().unwrap();
    let mut left: Vec<_> = std::fs::read_dir(root.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, [".locks", "base", "right"]);
    assert_eq!(right.verify(&SealOptions::default()).unwrap(), []);
}

#[test]
fn directories_that_differ_only_in_case_stay_apart() {
    use overlay::stored_names;
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("base"), "").unwrap();
    let tree = staging.tree();
    tree.set_root_metadata(meta(attributes::DIRECTORY, 0));
    let twins = stored_names(&["Dir", "dir"].map(common::name)).unwrap();
    for twin in &twins {
        let dir = tree
            .create_dir(&tree.root(), twin, meta(attributes::DIRECTORY, 1))
            .unwrap();
        for file in ["x", "y"] {
            let text = format!("{} {file}", twin.name());
            common::file(
                tree,
                &dir,
                &common::stored(file),
                text.as_bytes(),
                &meta(attributes::ARCHIVE, 2),
                true,
            );
        }
    }
    let base = common::finish(staging);
    let before = picture(base.path());
    let (_fork, layers) = fork_of(&worlds, &base, "fork");
    assert_eq!(
        (read(&layers, "Dir\\x"), read(&layers, "dir\\x")),
        ("Dir x".into(), "dir x".into())
    );
    assert_eq!(read(&layers, "DIR\\x"), "Dir x");
    layers
        .open_file_to_write(&path("dir\\y"))
        .unwrap()
        .write_all(b"DIR")
        .unwrap();
    assert_eq!(
        (read(&layers, "Dir\\y"), read(&layers, "dir\\y")),
        ("Dir y".into(), "DIR y".into())
    );
    layers.remove(&path("Dir\\x")).unwrap();
    assert_eq!(names(&layers, "Dir"), ["y"]);
    assert_eq!(names(&layers, "dir"), ["x", "y"]);
    layers.remove(&path("dir\\x")).unwrap();
    layers.remove(&path("dir\\y")).unwrap();
    layers.remove(&path("dir")).unwrap();
    assert_eq!(names(&layers, "\\"), ["Dir"]);
    assert_eq!(read(&layers, "dir\\y"), "Dir y", "the one that is left");
    assert_eq!(picture(base.path()), before);
}
