// SPDX-License-Identifier: GPL-3.0-or-later
//! Worlds that are being made: killed, resumed, held by somebody else.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Order, conf, fill, finish, meta, path, picture, roots, small_world, stored, world_name};
use overlay::{Error, SealOptions, Worlds};

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
        Ok("loop") => loop {
            small_world(&worlds, "w", Order::Threads, true);
            worlds.remove(&world_name("w")).unwrap();
        },
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
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let worlds = Worlds::open(root.path()).unwrap();
    let expected = picture(small_world(&worlds, "right", Order::Forward, true).path());
    let (mut whole, mut none, mut half_made) = (0, 0, 0);
    for round in 0..50u64 {
        let mut child = start(root.path(), "loop");
        // Moments spread by a fixed rule over several whole lives of a world.
        std::thread::sleep(Duration::from_millis(5) + Duration::from_micros(round * 7919 % 60_000));
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
                assert!(!root.path().join("w").exists(), "round {round}: half a world under the name");
            }
            Err(error) => panic!("round {round}: {error}"),
        }
        let again = small_world(&worlds, "w", Order::Threads, true);
        assert_eq!(picture(again.path()), expected, "round {round}");
        worlds.remove(&world_name("w")).unwrap();
    }
    println!("whole {whole}, none {none}, of which half made {half_made}");
    assert!(none > 0 && half_made > 0, "the kills came too late to show anything");
    worlds.sweep().unwrap();
    let mut left: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
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
    let dir = staging.tree().create_dir(&staging.tree().root(), &stored("half"), meta(0x10, 0)).unwrap();
    drop((dir, staging));

    let mut staging = worlds.begin(&world_name("w"), "medium\nA").unwrap();
    assert_eq!(staging.last_stage(), None);
    assert!(!staging.files_path().join("half").exists(), "without a whole stage all begins again");
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
    staging.place_file(&path("Windows\\Panther\\unattend.xml"), b"<unattend/>", &meta(0x20, 100)).unwrap();
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
    assert!(matches!(staging.commit(conf(), &SealOptions::default()), Err(Error::WorldExists { .. })));
    assert!(root.path().join("w/mine").exists());
    assert!(matches!(worlds.begin(&world_name("w"), ""), Err(Error::WorldExists { .. })));
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

#[test]
fn a_file_system_without_user_xattrs_is_refused_before_anything_is_written() {
    // ramfs and procfs need no privilege to be found; /proc refuses to make files at all.
    let Ok(worlds) = Worlds::open("/sys/kernel/debug/none").or_else(|_| Worlds::open("/proc/self")) else {
        println!("skipped: no file system without extended attributes is at hand");
        return;
    };
    assert!(worlds.probe().is_err());
}

#[test]
fn a_full_disk_is_told_as_such() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path()).unwrap();
    let staging = worlds.begin(&world_name("w"), "").unwrap();
    // More than any disk has: the room is asked for at once.
    let error = staging.tree().create_file(&staging.tree().root(), &stored("huge"), 1 << 43).unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
    assert_eq!(error.exit_class(), overlay::ExitClass::NoRoom);
}
