// SPDX-License-Identifier: GPL-3.0-or-later
//! Each exit code of the documentation is reached here (5 needs a full disk: see `cli_full_disk`).

mod cli_support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cli_support::{Home, have_tools};

#[test]
fn zero_is_done() {
    Home::new().decant(["--version"]).ended_with(0);
}

#[test]
fn one_is_unexpected() {
    if !have_tools() {
        return;
    }
    // Where worlds are to lie there is a file: nobody's medium, edition or world is at fault.
    let home = Home::new();
    std::fs::write(home.path().join("data"), b"a file").expect("written");
    home.import(&fixtures::lzx_wim().expect("made"), &["--edition", "1", "--world", "w"])
        .ended_with(1);
}

#[test]
fn two_is_usage() {
    Home::new().decant(["windows", "import"]).ended_with(2);
    Home::new().decant(["windows", "frobnicate"]).ended_with(2);
}

#[test]
fn three_is_a_medium_that_is_not_readable_or_no_windows_medium() {
    if !have_tools() {
        return;
    }
    let home = Home::new();
    home.list("/nonexistent.iso".as_ref(), &[])
        .ended_with(3)
        .complains_of(&["/nonexistent.iso"]);
    home.list(&fixtures::no_windows_iso().expect("made"), &[])
        .ended_with(3)
        .complains_of(&["not a Windows"]);
    let truncated = fixtures::truncated_iso().expect("made");
    let whole = std::fs::metadata(fixtures::windows_11_iso().expect("made"))
        .expect("there")
        .len();
    let file = std::fs::metadata(&truncated).expect("there").len();
    // Both sizes are said; the volume ends with the sector before its second anchor.
    let said = home.list(&truncated, &[]).ended_with(3);
    said.complains_of(&["truncated", &file.to_string(), &(whole - 2048).to_string()]);
    let missing = fixtures::split_wim_with_a_missing_part().expect("made");
    home.list(&missing, &[]).ended_with(3).complains_of(&["install2.swm"]);
}

#[test]
fn four_is_an_edition_that_is_not_there_or_ambiguous() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::server_iso().expect("made"));
    let import = |edition: &str| home.import(&iso, &["--edition", edition, "--world", "w"]);
    import("Windows 3.11")
        .ended_with(4)
        .complains_of(&["Windows 3.11", "Windows Server 2022 Standard"]);
    import("ServerDatacenter")
        .ended_with(4)
        .complains_of(&["names 2 editions"]);
    import("5").ended_with(4);
}

#[test]
fn six_is_damaged_data() {
    if !have_tools() {
        return;
    }
    let home = Home::new();
    home.list(&fixtures::truncated_wim().expect("made"), &[]).ended_with(6);
    home.import(
        &fixtures::damaged_blob_wim().expect("made"),
        &["--edition", "1", "--world", "w"],
    )
    .ended_with(6);
}

#[test]
fn seven_is_a_world_that_exists_or_is_missing() {
    if !have_tools() {
        return;
    }
    let (home, wim) = (Home::new(), fixtures::lzx_wim().expect("made"));
    let import = || home.import(&wim, &["--edition", "1", "--world", "twice"]);
    import().ended_with(0);
    import().ended_with(7).complains_of(&["twice", "exists"]);
    home.vodka(&["world", "show", "nobody"])
        .ended_with(7)
        .complains_of(&["nobody"]);
    home.vodka(&["world", "remove", "twice"]).ended_with(0);
    import().ended_with(0);
}

#[test]
fn nine_is_a_service_that_is_not_served() {
    if !have_tools() {
        return;
    }
    let (home, wim) = (Home::new(), fixtures::lzx_wim().expect("made"));
    for option in [["--apply", "dism"], ["--setup", "run"]] {
        let words = [&["--edition", "1", "--world", "w"][..], &option].concat();
        home.import(&wim, &words).ended_with(9).complains_of(&[option[0]]);
        assert!(!home.world("w").exists());
    }
}

#[test]
fn one_hundred_and_thirty_is_interrupted_and_the_import_can_go_on() {
    if !have_tools() {
        return;
    }
    let iso = fixtures::large_iso().expect("made");
    for signal in ["INT", "TERM"] {
        // A home of its own: what the first leaves would look like the second's work, before it has begun to listen.
        let home = Home::new();
        let mut command = home.import_command(&iso, "1", "large");
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // Until files are being written.
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(30) && !is_laying_down(&home) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let kill = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(kill.is_ok_and(|status| status.success()));
        let said: cli_support::Said = child.wait_with_output().expect("ends").into();
        said.ended_with(130);
        assert!(!home.world("large").exists());
        home.import(&iso, &["--edition", "1", "--world", "large"]).ended_with(0);
    }
}

/// Whether some file of the new Windows is there, wherever an import keeps it meanwhile.
fn is_laying_down(home: &Home) -> bool {
    let mut directories = vec![home.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name() == "Windows" {
                return true;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(entry.path());
            }
        }
    }
    false
}
