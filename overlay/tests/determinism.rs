// SPDX-License-Identifier: GPL-3.0-or-later
//! The same world on any machine, at any time, in any order of work.

#![allow(clippy::print_stdout, reason = "a test says what it skipped and counted")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Order, picture, roots, small_world};
use overlay::{Manifest, SealOptions, Worlds};

/// Set for a process of ours that makes the small world and does nothing else.
const CHILD: &str = "OVERLAY_TEST_DETERMINISM";

#[test]
fn order_of_work_file_system_and_known_hashes_change_nothing() {
    let mut pictures = Vec::new();
    for root in roots() {
        let worlds = Worlds::open(root.path()).unwrap();
        for (name, order, hashes) in [
            ("a", Order::Forward, true),
            ("b", Order::Backward, false),
            ("c", Order::Threads, true),
        ] {
            let world = small_world(&worlds, name, order, hashes);
            assert_eq!(world.conf().digest, Some(world.stored_manifest().unwrap().digest()));
            pictures.push(picture(world.path()));
        }
    }
    for other in &pictures[1..] {
        assert_eq!(&pictures[0], other);
    }
}

#[test]
fn number_of_threads_changes_nothing() {
    let root = &roots()[0];
    let world = small_world(&Worlds::open(root.path()).unwrap(), "w", Order::Forward, true);
    let manifests: Vec<_> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let options = SealOptions {
                threads,
                ..SealOptions::default()
            };
            Manifest::compute(world.path(), world.conf(), &options).unwrap()
        })
        .collect();
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
}

/// Not a test by itself: what [`umask_and_clock_change_nothing`] runs as processes of its own.
#[test]
fn child() {
    if let Some(root) = std::env::var_os(CHILD) {
        if let Ok(mask) = std::env::var("OVERLAY_TEST_UMASK") {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(u32::from_str_radix(&mask, 8).unwrap()));
        }
        small_world(&Worlds::open(Path::new(&root)).unwrap(), "w", Order::Threads, false);
    }
}

fn run_child(root: &Path, umask: &str, program: &[&str]) -> Vec<String> {
    let exe = std::env::current_exe().unwrap();
    let mut command = match program {
        [] => Command::new(&exe),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&exe);
            command
        }
    };
    let output = command
        .args(["--exact", "child"])
        .env(CHILD, root)
        .env("OVERLAY_TEST_UMASK", umask)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    picture(&root.join("w"))
}

#[test]
fn umask_and_clock_change_nothing() {
    let plain = tempfile::tempdir().unwrap();
    let expected = run_child(plain.path(), "022", &[]);
    let private = tempfile::tempdir().unwrap();
    assert_eq!(run_child(private.path(), "077", &[]), expected);
    // The kernel's own clock cannot be changed without root; faketime changes what the process sees.
    if Command::new("faketime").arg("--version").output().is_ok() {
        let later = tempfile::tempdir().unwrap();
        assert_eq!(
            run_child(later.path(), "002", &["faketime", "2031-05-06 07:08:09"]),
            expected
        );
    } else {
        println!("skipped the changed clock: there is no faketime");
    }
    // And the real clock has gone on.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let again = tempfile::tempdir().unwrap();
    assert_eq!(run_child(again.path(), "022", &[]), expected);
}

/// If this changes, so does every digest that anybody has written down: raise the manifest's FORMAT.
#[test]
fn digest_stability() {
    let root = &roots()[0];
    let world = small_world(&Worlds::open(root.path()).unwrap(), "w", Order::Forward, true);
    let text = world.stored_manifest().unwrap().text().to_owned();
    let expected = include_str!("digest_stability.manifest");
    assert!(text == expected, "the manifest is now:\n{text}");
    // The digest of the text, as sha256sum gives it.
    assert_eq!(
        world.conf().digest.unwrap().to_string(),
        "sha256:c8a5258348b9f2555096a6ca3a2bbb6dc19ea174b5f6d966f94a68c26638f0a9"
    );
}
