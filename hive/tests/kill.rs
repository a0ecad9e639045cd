// SPDX-License-Identifier: GPL-3.0-or-later
//! `kill -9` at random moments of in-place changes: after reopening, each change is whole or absent, what
//! was acknowledged is there, and the verifier has nothing to say. `VODKA_KILLS` is the number (1,000 in
//! a full run).
#![allow(clippy::print_stdout)] // A full run says how many there were.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hive::format::data_type;
use hive::{Hive, HiveFile, Node, WriteOptions, load, verify};

const PLACES: [&str; 4] = ["A\\Counter", "M\\Deep\\Down\\Counter", "Z\\Counter", "Z\\Other"];

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

fn counter(hive: &Hive<'_>, place: &str) -> u32 {
    let Some(key) = hive.open_path(place).unwrap() else {
        return 0;
    };
    let data = key.value("n").unwrap().unwrap().data().unwrap().to_vec();
    u32::from_le_bytes(data.try_into().unwrap())
}

/// The process that is killed. It is a test only so that this program can start itself.
#[test]
#[ignore = "started by the test below"]
fn writer() {
    let Some(path) = std::env::var_os("VODKA_KILL_HIVE") else {
        return;
    };
    let mut file = HiveFile::open(Path::new(&path)).unwrap();
    let mut round = counter(&file.editor().hive(), PLACES[0]);
    let mut out = std::io::stdout();
    loop {
        round += 1;
        file.change(|editor| {
            for place in PLACES {
                let key = editor.create_path(place, u64::from(round))?;
                editor.set_value(
                    key,
                    &units("n"),
                    data_type::DWORD,
                    &round.to_le_bytes(),
                    u64::from(round),
                )?;
                // Of many sizes, big data among them.
                let data = vec![round.to_le_bytes()[0]; (round as usize * 997) % 40_000];
                editor.set_value(key, &units("blob"), data_type::BINARY, &data, u64::from(round))?;
            }
            let key = editor.create_path(&format!("Many\\k{}", round.wrapping_mul(37) % 700), u64::from(round))?;
            editor.set_security(key, &[(round % 5).to_le_bytes()[0]; 40], u64::from(round))?;
            if let Some(old) = editor.find(&format!("Many\\k{}", round.wrapping_mul(53) % 700))? {
                if round.is_multiple_of(2) {
                    editor.delete_tree(old, u64::from(round))?;
                } else {
                    editor.rename_key(old, &units(&format!("renamed {round}")), u64::from(round))?;
                }
            }
            Ok(())
        })
        .unwrap();
        writeln!(out, "done {round}").unwrap();
        out.flush().unwrap();
        if round.is_multiple_of(7) {
            file.flush(u64::from(round)).unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_each_change_whole_or_absent() {
    let nr_kills: u32 = std::env::var("VODKA_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(60);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.hiv");
    std::fs::write(&path, Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap()).unwrap();
    let mut seed = 1_u64;
    let (mut last, mut nr_replayed) = (0, 0);
    for kill in 0..nr_kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--ignored", "--nocapture", "--test-threads=1"])
            .env("VODKA_KILL_HIVE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // From before the hive is open to many changes later.
        std::thread::sleep(Duration::from_micros((seed >> 33) % 12_000));
        child.kill().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let acknowledged = lines
            .filter_map(|line| line.rsplit_once("done ")?.1.parse::<u32>().ok())
            .last();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "the writer failed by itself"
        );

        let (bytes, recovery) = load(&path).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        nr_replayed += u32::from(recovery.is_some());
        let report = verify(&bytes).unwrap();
        assert!(report.is_clean(), "after kill {kill}: {}", report.findings[0]);
        let hive = Hive::open(&bytes).unwrap();
        let found = PLACES.map(|place| counter(&hive, place));
        assert!(
            found.iter().all(|n| *n == found[0]),
            "after kill {kill}: half a change, {found:?}"
        );
        let acknowledged = acknowledged.unwrap_or(last);
        assert!(
            found[0] == acknowledged || found[0] == acknowledged + 1,
            "{} of {acknowledged}",
            found[0]
        );
        last = found[0];
    }
    assert!(
        last > nr_kills / 2 && nr_replayed > 0,
        "{last} changes, {nr_replayed} replays"
    );
    println!("{nr_kills} kills, {last} changes, {nr_replayed} replays");
}

#[test]
fn a_second_writer_is_refused_and_reading_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.hiv");
    let bytes = Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap();
    let mut file = HiveFile::create(&path, &bytes).unwrap();
    file.change(|editor| editor.create_path("A\\B", 1)).unwrap();
    assert!(matches!(HiveFile::open(&path), Err(hive::FileError::InUse { .. })));
    let before = std::fs::read(&path).unwrap();
    let log = std::fs::read(dir.path().join("test.hiv.LOG1")).unwrap();
    let (replayed, recovery) = load(&path).unwrap();
    assert_eq!(recovery.unwrap().nr_entries, 1);
    assert!(Hive::open(&replayed).unwrap().open_path("a\\b").unwrap().is_some());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read(dir.path().join("test.hiv.LOG1")).unwrap(), log);
    drop(file);
    let file = HiveFile::open(&path).unwrap();
    assert!(file.editor().find("A\\B").unwrap().is_some());
    drop(file);
    assert!(
        Hive::open(&std::fs::read(&path).unwrap()).is_ok(),
        "opened for changes, it is recovered on disk"
    );
    assert_eq!(std::fs::read(dir.path().join("test.hiv.LOG1")).unwrap().len(), 0);
}

#[test]
fn a_failed_change_is_in_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.hiv");
    let bytes = Node::new("ROOT").to_hive(&WriteOptions::default()).unwrap();
    let mut file = HiveFile::create(&path, &bytes).unwrap();
    let failed: Result<(), _> = file.change(|editor| {
        editor.create_path("Half", 1)?;
        Err(hive::Error::RegistryText)
    });
    failed.unwrap_err();
    file.flush(1).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    drop(file);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "no empty log is left behind"
    );
}
