// SPDX-License-Identifier: GPL-3.0-or-later
//! `kill -9` at random moments of an import: never a half world under its name, and running again succeeds.

mod cli_support;

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cli_support::{Home, have_tools};

/// How many imports are killed when `VODKA_KILLS` says nothing else. `cargo xtask kill-test` kills 50.
const KILLS: u32 = 20;

#[test]
fn a_killed_import_leaves_no_half_world_and_can_be_run_again() {
    if !have_tools() {
        return;
    }
    let kills = std::env::var("VODKA_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(KILLS);
    let iso = fixtures::windows_11_iso().expect("made");
    let reference = Home::new();
    let import = |home: &Home| home.import_command(&iso, "6", "world");
    let started = Instant::now();
    cli_support::Said::from(import(&reference).output().expect("starts")).ended_with(0);
    let whole = started.elapsed();
    let digest = reference.digest("world");

    let home = Home::new();
    let mut random = fixtures::bytes::Random::new(u64::from(kills));
    let (mut killed, mut finished, mut again) = (0, 0, 0);
    for round in 0..kills {
        let mut child = import(&home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        // Anywhere from the first instruction to a little behind the last.
        let moment = Duration::from_nanos(random.below(u64::try_from(whole.as_nanos() * 11 / 10).expect("short")));
        std::thread::sleep(moment);
        child.kill().expect("it is ours");
        let status = child.wait().expect("it ends");
        let world = home.world("world");
        if world.exists() {
            // It was whole before the kill: under the name there is nothing else, ever.
            assert_eq!(home.digest("world"), digest, "round {round}, killed after {moment:?}");
            home.vodka(&["world", "verify", "world"]).verified_or_unknown();
            home.vodka(&["world", "remove", "world"]).ended_with(0);
            finished += 1;
            continue;
        }
        assert_eq!(
            status.signal(),
            Some(9),
            "round {round}: it ended by itself, with {status}, and left no world"
        );
        killed += 1;
        assert_eq!(home.other_worlds(&[]), Vec::<String>::new(), "round {round}");
        // Every third time it is run again at once, on what the kill left; else the next round meets it.
        if round % 3 == 0 {
            cli_support::Said::from(import(&home).output().expect("starts")).ended_with(0);
            assert_eq!(home.digest("world"), digest, "round {round}: the resumed world");
            home.vodka(&["world", "remove", "world"]).ended_with(0);
            again += 1;
        }
    }
    cli_support::Said::from(import(&home).output().expect("starts")).ended_with(0);
    assert_eq!(home.digest("world"), digest);
    #[allow(clippy::print_stderr)]
    {
        eprintln!(
            "{kills} kills over {whole:?}: {killed} in the middle, {finished} too late, {again} run again at once"
        );
    }
    assert!(
        killed > kills / 3,
        "only {killed} of {kills} kills met a running import"
    );
}

/// `world verify` comes with a later part of the project; where it is there, it must find nothing.
trait Verified {
    fn verified_or_unknown(self);
}

impl Verified for cli_support::Said {
    fn verified_or_unknown(self) {
        assert!(matches!(self.code, Some(0 | 2)), "{self:?}");
    }
}
