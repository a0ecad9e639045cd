// SPDX-License-Identifier: GPL-3.0-or-later
//! A full disk: found before anything is written, named with the room that is needed, exit code 5.

mod cli_support;

use std::process::Command;

use cli_support::{Home, Said, have_tools, skipped};

/// Runs an import with a small tmpfs for its worlds, in a mount namespace of its own; as an ordinary user in a user
/// namespace as well. `None` where the system allows neither.
fn import_on(size: &str, medium: &std::path::Path) -> Option<(Home, Said)> {
    let home = Home::new();
    let data = home.path().join("data");
    std::fs::create_dir(&data).expect("made");
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs '{0}' && \"$@\"; code=$?; \
         find '{0}' -mindepth 3 -not -path '*/.*' >&2; exit $code",
        data.display()
    );
    let unshare = fixtures::tools::find("unshare")?;
    let is_root = rustix::process::geteuid().is_root();
    let namespaces: &[&str] = if is_root { &["-m"] } else { &["-m", "-U", "-r"] };
    let mount_works = Command::new(&unshare)
        .args(namespaces)
        .args(["sh", "-c", "mount -t tmpfs tmpfs /mnt"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !mount_works {
        return None;
    }
    let mut command = home.command(&unshare);
    command
        .args(namespaces)
        .args(["sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_vodka-decant")]);
    command
        .args(["windows", "import", "--iso"])
        .arg(medium)
        .args(["--edition", "1", "--world", "world"]);
    let said = command.output().expect("unshare starts").into();
    Some((home, said))
}

#[test]
fn a_disk_that_is_too_small_is_found_before_anything_is_written() {
    if !have_tools() {
        return;
    }
    let iso = fixtures::windows_11_iso().expect("made");
    let Some((_, said)) = import_on("4m", &iso) else {
        return skipped("this system lets nobody here mount a tmpfs");
    };
    let said = said.ended_with(5).complains_of(&["MiB"]);
    assert!(
        !said.stderr.contains("vodka/worlds/world"),
        "something is under the world's name:\n{}",
        said.stderr
    );
}

#[test]
fn a_disk_with_room_but_no_inodes_is_full_too() {
    if !have_tools() {
        return;
    }
    let iso = fixtures::windows_11_iso().expect("made");
    let Some((_, said)) = import_on("64m,nr_inodes=200", &iso) else {
        return skipped("this system lets nobody here mount a tmpfs");
    };
    let said = said.ended_with(5);
    assert!(
        !said.stderr.contains("vodka/worlds/world"),
        "something is under the world's name:\n{}",
        said.stderr
    );
}
