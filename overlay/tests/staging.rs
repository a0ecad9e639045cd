// SPDX-License-Identifier: GPL-3.0-or-later
//! Worlds that are being made: killed, resumed, held by somebody else.

#![allow(clippy::print_stdout, reason = "a test says what it skipped and counted")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Order, conf, fill, finish, meta, path, picture, roots, small_world, stored, world_name};
use overlay::{Error, ExitClass, SealOptions, Worlds};

const CHILD: &str = "OVERLAY_TEST_STAGING";
const MODE: &str = "OVERLAY_TEST_MODE";

/// Not a test by itself: what other tests run as a process of its own, to kill it.
#[test]
fn child() {
    let Some(root) = std::env::var_os(CHILD) else { return };
    let worlds = Worlds::open(Path::new(&root)).unwrap();
    match std::env::var(MODE).as_deref() {
        Ok("hold") => {
            let _staging = worlds.begin(&world_name("w"), "").unwrap();
            std::fs::write(worlds.root().join("ready"), b"").unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        Ok("share") => {
            let world = worlds.world(&world_name("w")).unwrap();
            let _held = world.lock_shared().unwrap();
            std::fs::write(worlds.root().join("ready"), b"").unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        Ok("once") => {
            small_world(&worlds, "w", Order::Threads, true);
            worlds.remove(&world_name("w")).unwrap();
        }
        Ok("loop") => loop {
            small_world(&worlds, "w", Order::Threads, true);
            worlds.remove(&world_name("w")).unwrap();
        },
        Ok("no-xattrs") => no_xattrs(&worlds),
        Ok("full") => full(&worlds),
        mode => panic!("{mode:?}"),
    }
}

fn start(root: &Path, mode: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env(CHILD, root)
        .env(MODE, mode)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_ready(root: &Path) {
    let begun = Instant::now();
    while !root.join("ready").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the child has not begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(root.join("ready")).unwrap();
}

#[test]
fn a_second_import_of_the_same_world_says_who_has_it_and_a_kill_gives_it_up() {
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        let mut child = start(root.path(), "hold");
        wait_ready(root.path());
        match worlds.begin(&world_name("w"), "") {
            Err(Error::WorldInUse { name, by }) => {
                assert_eq!(name, "w");
                assert_eq!(by, format!("an import (process {})", child.id()));
            }
            other => panic!("{other:?}"),
        }
        drop(worlds.begin(&world_name("other"), "").unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(worlds.begin(&world_name("w"), "").unwrap());
    }
}

#[test]
fn a_world_in_which_a_program_runs_is_not_removed_and_a_kill_gives_it_up() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let world = small_world(&worlds, "w", Order::Forward, true);
    let mut child = start(root.path(), "share");
    wait_ready(root.path());
    let _another = world.lock_shared().unwrap();
    match worlds.remove(&world_name("w")) {
        Err(Error::WorldInUse { by, .. }) => assert!(by.starts_with("a running program"), "{by}"),
        other => panic!("{other:?}"),
    }
    drop(_another);
    child.kill().unwrap();
    child.wait().unwrap();
    worlds.remove(&world_name("w")).unwrap();
}

/// 50 kills: whatever the moment, the name has a whole world or nothing, and the next run succeeds.
#[test]
fn a_kill_at_any_moment_leaves_a_whole_world_or_none() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let worlds = Worlds::open(root.path()).unwrap();
    let expected = picture(small_world(&worlds, "right", Order::Forward, true).path());
    // How long a process lives until it has made a world and removed it, at its first time.
    let begun = Instant::now();
    let mut child = start(root.path(), "once");
    child.wait().unwrap();
    let life = begun.elapsed();
    let (mut whole, mut none, mut half_made) = (0, 0, 0);
    for round in 0..50u64 {
        let mut child = start(root.path(), "loop");
        // Moments spread evenly over two lives.
        std::thread::sleep(life * u32::try_from(round).unwrap() / 25);
        child.kill().unwrap();
        child.wait().unwrap();
        half_made += usize::from(root.path().join(".w.import").exists());
        match worlds.world(&world_name("w")) {
            Ok(world) => {
                whole += 1;
                assert_eq!(picture(world.path()), expected, "round {round}");
                worlds.remove(&world_name("w")).unwrap();
            }
            Err(Error::WorldMissing { .. }) => {
                none += 1;
                assert!(
                    !root.path().join("w").exists(),
                    "round {round}: half a world under the name"
                );
            }
            Err(error) => panic!("round {round}: {error}"),
        }
        let again = small_world(&worlds, "w", Order::Threads, true);
        assert_eq!(picture(again.path()), expected, "round {round}");
        worlds.remove(&world_name("w")).unwrap();
    }
    println!("life {life:?}; whole {whole}, none {none}, half made beside {half_made}");
    assert!(none > 0 && half_made > 0, "the kills came too late to show anything");
    worlds.sweep().unwrap();
    let mut left: Vec<_> = std::fs::read_dir(root.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, [".locks", "right"]);
}

#[test]
fn an_interrupted_import_goes_on_at_its_last_whole_stage_and_only_with_the_same_fingerprint() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let expected = picture(small_world(&worlds, "right", Order::Forward, true).path());

    let staging = worlds.begin(&world_name("w"), "medium\nA").unwrap();
    assert_eq!(staging.last_stage(), None);
    let dir = staging
        .tree()
        .create_dir(&staging.tree().root(), &stored("half"), meta(0x10, 0))
        .unwrap();
    drop((dir, staging));

    let mut staging = worlds.begin(&world_name("w"), "medium\nA").unwrap();
    assert_eq!(staging.last_stage(), None);
    assert!(
        !staging.files_path().join("half").exists(),
        "without a whole stage all begins again"
    );
    fill(staging.tree(), Order::Forward, true);
    staging.stage_done("lay down").unwrap();
    std::fs::write(staging.scratch_path().join("note"), b"x").unwrap();
    drop(staging);

    let mut staging = worlds.begin(&world_name("w"), "medium\nA").unwrap();
    assert_eq!(staging.last_stage(), Some("lay down"));
    assert!(staging.scratch_path().join("note").exists());
    staging.clear_files().unwrap();
    assert_eq!(std::fs::read_dir(staging.files_path()).unwrap().count(), 0);
    fill(staging.tree(), Order::Backward, true);
    staging.stage_done("lay down").unwrap();
    drop(staging);

    let staging = worlds.begin(&world_name("w"), "medium\nA").unwrap();
    staging
        .place_file(
            &path("Windows\\Panther\\unattend.xml"),
            b"<unattend/>",
            &meta(0x20, 100),
        )
        .unwrap();
    let world = finish(staging);
    assert_eq!(picture(world.path()), expected, "the detours do not show");
    assert!(!root.path().join(".w.import").exists());
    worlds.remove(&world_name("w")).unwrap();

    let mut staging = worlds.begin(&world_name("w"), "medium A").unwrap();
    staging.stage_done("lay down").unwrap();
    drop(staging);
    let staging = worlds.begin(&world_name("w"), "medium B").unwrap();
    assert_eq!(staging.last_stage(), None, "another medium goes on with nothing");
    staging.abandon().unwrap();
    assert!(!root.path().join(".w.import").exists());
}

#[test]
fn a_name_that_is_taken_is_refused_before_and_after_the_work() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    std::fs::write(staging.registry_path(), b"").unwrap();
    std::fs::create_dir(root.path().join("w")).unwrap();
    std::fs::write(root.path().join("w/mine"), b"").unwrap();
    assert!(matches!(
        staging.commit(conf(), &SealOptions::default()),
        Err(Error::WorldExists { .. })
    ));
    assert!(root.path().join("w/mine").exists());
    assert!(matches!(
        worlds.begin(&world_name("w"), ""),
        Err(Error::WorldExists { .. })
    ));
}

#[test]
fn a_damaged_state_means_to_begin_again() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let mut staging = worlds.begin(&world_name("w"), "f").unwrap();
    staging.stage_done("lay down").unwrap();
    drop(staging);
    let state = root.path().join(".w.import/state");
    let text = std::fs::read(&state).unwrap();
    for at in 0..text.len() {
        let mut bad = text.clone();
        bad[at] ^= 0x11;
        std::fs::write(&state, &bad).unwrap();
        let staging = worlds.begin(&world_name("w"), "f").unwrap();
        if let Some(stage) = staging.last_stage() {
            // A flip inside the stage's own name is another name, which the importer does not know.
            assert_ne!(stage, "lay down", "byte {at}");
        }
    }
}

/// Runs [`child`] in a mount namespace with a new file system on `root`; `false` when this machine allows none.
fn run_on(root: &Path, kind: &str, mode: &str) -> bool {
    let mount = format!("mount -t {kind} none \"${CHILD}\" && touch \"$1\" && exec \"$0\" --exact child");
    let exe = std::env::current_exe().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let marker = scratch.path().join("mounted");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .args([&exe, &marker])
        .env(CHILD, root)
        .env(MODE, mode)
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no unshare");
        return false;
    };
    if !marker.exists() {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return false;
    }
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    true
}

#[test]
fn a_file_system_without_user_xattrs_is_refused_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    run_on(root.path(), "ramfs", "no-xattrs");
}

fn no_xattrs(worlds: &Worlds) {
    match worlds.probe() {
        Err(error @ Error::NoUserXattrs { .. }) => {
            assert!(error.to_string().contains("put worlds on ext4"), "{error}");
            assert_eq!(error.exit_class(), ExitClass::NoRoom);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read_dir(worlds.root()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_told_as_such_and_nothing_is_under_the_name() {
    let root = tempfile::tempdir().unwrap();
    run_on(root.path(), "tmpfs -o size=3m", "full");
}

fn full(worlds: &Worlds) {
    let room = worlds.probe().unwrap();
    assert_eq!(room.kind, "tmpfs");
    assert!(room.free_bytes <= 3 << 20 && room.free_inodes.is_some());
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    let root = staging.tree().root();
    // A large file finds out at once, and gives back what it got.
    let error = staging
        .tree()
        .create_file(&root, &stored("large"), 8 << 20)
        .unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
    assert_eq!(error.exit_class(), ExitClass::NoRoom);
    assert!(!staging.files_path().join("large").exists());
    assert!(worlds.probe().unwrap().free_bytes > 2 << 20);
    // Small ones while they are written.
    let error = (0..8)
        .find_map(|at| {
            let file = staging
                .tree()
                .create_file(&root, &stored(&format!("small {at}")), 1000)
                .unwrap();
            file.write_all_at(&[1; 1 << 19], 0).err()
        })
        .unwrap();
    assert!(error.is_no_space(), "{error:?}");
    drop(staging);
    assert!(worlds.list().unwrap().is_empty());
    // With room again, the next run succeeds.
    small_world_without_the_large_file(worlds);
}

fn small_world_without_the_large_file(worlds: &Worlds) {
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    common::file(
        staging.tree(),
        &staging.tree().root(),
        &stored("a"),
        b"a",
        &meta(0x20, 0),
        true,
    );
    finish(staging);
}

/// Whatever moment of a placing a kill meets: doing it again gives the world that an undisturbed one gives.
#[test]
fn a_placing_that_was_killed_leaves_no_trace() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let begin = |name: &str| {
        let mut staging = worlds.begin(&world_name(name), "medium").unwrap();
        if staging.last_stage().is_none() {
            let tree = staging.tree();
            tree.set_root_metadata(meta(0x10, 1));
            tree.create_dir(&tree.root(), &stored("Windows"), meta(0x10, 2))
                .unwrap();
            staging.stage_done("lay down").unwrap();
        }
        staging
    };
    let place = |staging: &overlay::Staging| {
        let path = overlay::NtPath::parse("Windows/Panther/unattend.xml").unwrap();
        staging.place_file(&path, b"answers", &meta(0x20, 9)).unwrap();
        std::fs::write(staging.registry_path(), b"").unwrap();
    };
    let staging = begin("right");
    place(&staging);
    let expected = picture(
        staging
            .commit(overlay::WorldConf::default(), &SealOptions::default())
            .unwrap()
            .path(),
    );

    for (moment, name) in ["journal", "directory", "file"].into_iter().enumerate() {
        let staging = begin(name);
        let windows = staging.files_path().join("Windows");
        let modified = windows.metadata().unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        let journal = format!("{} {} Windows\n", since.as_secs(), since.subsec_nanos());
        std::fs::write(staging.scratch_path().join("placing"), journal).unwrap();
        if moment >= 1 {
            std::fs::create_dir(windows.join("Panther")).unwrap();
            assert_ne!(
                windows.metadata().unwrap().modified().unwrap(),
                modified,
                "nothing to undo"
            );
        }
        if moment >= 2 {
            std::fs::write(windows.join("Panther/unattend.xml"), b"ans").unwrap();
        }
        drop(staging);
        let staging = begin(name);
        place(&staging);
        let world = staging
            .commit(overlay::WorldConf::default(), &SealOptions::default())
            .unwrap();
        assert_eq!(picture(world.path()), expected, "killed with the {name} made");
    }
}
