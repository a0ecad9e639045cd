// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask bench`: figures that stand beside another program's of the same run.

use std::path::Path;
use std::time::{Duration, Instant};

use fixtures::tools::Run;

use crate::shell::{Shell, cargo, target_dir};
use crate::{Result, tools};

#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure; all of it when left out.
    what: Option<What>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// `windows list` beside `7z l` and wimlib's extraction of the XML.
    List,
    /// `windows import` beside `wimlib-imagex apply` of the same edition.
    Import,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure()?;
    cargo()
        .args(["build", "--release", "--locked", "--package", "vodka-decant"])
        .run()?;
    if arguments.what.is_none_or(|what| what == What::List) {
        list()?;
    }
    if arguments.what.is_none_or(|what| what == What::Import) {
        import()?;
    }
    Ok(())
}

/// What a task took: in the middle, and at best.
#[derive(Clone, Copy)]
struct Took {
    median: Duration,
    best: Duration,
}

/// Runs each task once in turn, `rounds` times, after one round that is not counted: what the machine does beside us
/// then falls on all of them alike. The best of many rounds is what is left of it.
fn measure<const N: usize>(rounds: usize, tasks: [&dyn Fn() -> Result<()>; N]) -> Result<[Took; N]> {
    let mut times = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for (task, times) in tasks.iter().zip(&mut times) {
            let started = Instant::now();
            task()?;
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        Took {
            median: times[times.len() / 2],
            best: times[0],
        }
    }))
}

fn line(what: &str, took: Took) {
    println!("  {what:<38}{}{}", milliseconds(took.median), milliseconds(took.best));
}

/// Prints how many times as long the others took together.
fn ratio(what: &str, ours: Took, others: &[Took]) {
    let times =
        |of: fn(&Took) -> Duration| others.iter().map(of).sum::<Duration>().as_secs_f64() / of(&ours).as_secs_f64();
    println!(
        "  {what:<38}{:>12}{:>12}",
        format!("1/{:.1}", times(|t| t.median)),
        format!("1/{:.1}", times(|t| t.best))
    );
}

fn milliseconds(duration: Duration) -> String {
    format!("{:>9.2} ms", duration.as_secs_f64() * 1000.0)
}

/// Must-show 4 of the main job: listing takes at most a twentieth.
fn list() -> Result<()> {
    const ROUNDS: usize = 25;
    let iso = fixtures::many_files_iso()?;
    let wim = fixtures::large_wim()?;
    let work = tempfile::tempdir()?;
    let program = target_dir().join("release/vodka-decant");
    let ours = || quietly(Shell::new(&program).args(["windows", "list", "--iso"]).arg(&iso));
    let names = || Ok(Run::new("7z")?.arg("l").arg(&iso).run()?);
    // wimlib reads no ISO: somebody has to take the WIM out of it first.
    let extracted = work.path().join("install.wim");
    let take_out = || {
        Ok(Run::new("7z")?
            .args(["e", "-so"])
            .arg(&iso)
            .arg("sources/install.wim")
            .output_to_sparse(&extracted)?)
    };
    let xml = |wim: &Path| -> Result<()> {
        let to = format!("--extract-xml={}", work.path().join("xml").display());
        Ok(Run::new("wimlib-imagex")?.arg("info").arg(wim).arg(to).run()?)
    };
    let xml_of_known = || xml(&wim);
    let [ours, names, take_out, xml] = measure(ROUNDS, [&ours, &names, &take_out, &xml_of_known])?;
    println!(
        "listing the editions of an ISO with 918 files and a WIM of {} MiB",
        std::fs::metadata(&wim)?.len() >> 20
    );
    println!("  {:<38}{:>12}{:>12}", format!("({ROUNDS} rounds)"), "median", "best");
    line("vodka-decant windows list", ours);
    line("7z l", names);
    line("7z e sources/install.wim", take_out);
    line("wimlib-imagex info --extract-xml", xml);
    ratio("to 7z l + 7z e + XML", ours, &[names, take_out, xml]);
    ratio("to 7z l + XML, were the WIM at hand", ours, &[names, xml]);
    Ok(())
}

fn import() -> Result<()> {
    const ROUNDS: usize = 3;
    let iso = fixtures::large_iso()?;
    let wim = fixtures::large_wim()?;
    let work = tempfile::tempdir()?;
    let program = target_dir().join("release/vodka-decant");
    let home = work.path().join("home");
    let ours = || {
        let _ = std::fs::remove_dir_all(&home);
        let words = ["--edition", "1", "--world", "bench"];
        let shell = Shell::new(&program)
            .quiet_env("XDG_DATA_HOME", &home)
            .args(["windows", "import", "--iso"]);
        quietly(shell.arg(&iso).args(words))
    };
    let tree = work.path().join("tree");
    let wimlib = || {
        let _ = std::fs::remove_dir_all(&tree);
        Ok(Run::new("wimlib-imagex")?
            .arg("apply")
            .arg(&wim)
            .arg("1")
            .arg(&tree)
            .run()?)
    };
    let [ours, wimlib] = measure(ROUNDS, [&ours, &wimlib])?;
    println!("importing an edition of 90 MB, 4,000 files");
    println!("  {:<38}{:>12}{:>12}", format!("({ROUNDS} rounds)"), "median", "best");
    line("vodka-decant windows import (all of it)", ours);
    line("wimlib-imagex apply (files only)", wimlib);
    ratio("wimlib's time to ours", ours, &[wimlib]);
    Ok(())
}

/// Runs it and throws away what it prints; an error names it and says what it said.
fn quietly(shell: Shell) -> Result<()> {
    shell.read().map(drop)
}
