// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask test`: every check that a change has to pass, in one run, with a summary at its end.

use std::time::{Duration, Instant};

use crate::shell::{cargo, target_dir};
use crate::{Result, checks, fuzz, licences, tools};

#[derive(clap::Args)]
pub struct Arguments {
    /// Also build the static program (a release build, some minutes) and run a longer mutation run.
    #[arg(long)]
    full: bool,
    /// Run only the steps whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// What a step does; the text that it gives is its line in the summary.
type Step = (&'static str, Box<dyn Fn() -> Result<String>>);

/// Mutated inputs of one run: enough to catch a broken parser, few enough for every change.
const MUTATIONS: u64 = 600;
/// Mutated inputs of a `--full` run.
const FULL_MUTATIONS: u64 = 10_000;

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure()?;
    let full = arguments.full;
    let mut steps: Vec<Step> = vec![
        (
            "format",
            Box::new(|| {
                cargo()
                    .args(["fmt", "--all", "--check"])
                    .run()
                    .map(|()| "formatted".to_owned())
            }),
        ),
        ("licence lines", Box::new(checks::spdx)),
        ("unsafe", Box::new(checks::unsafe_ratchet)),
        ("licences of dependencies", Box::new(licences::check)),
        (
            "clippy",
            Box::new(|| {
                cargo()
                    .args([
                        "clippy",
                        "--workspace",
                        "--all-targets",
                        "--locked",
                        "--",
                        "-D",
                        "warnings",
                    ])
                    .run()
                    .map(|()| "no warning".to_owned())
            }),
        ),
        (
            "documentation",
            Box::new(|| {
                cargo()
                    .env("RUSTDOCFLAGS", "-D warnings")
                    .args(["doc", "--workspace", "--no-deps", "--locked"])
                    .run()
                    .map(|()| "every public item is documented".to_owned())
            }),
        ),
        (
            "tests",
            Box::new(|| {
                cargo()
                    .args(["test", "--workspace", "--locked", "--no-fail-fast"])
                    .run()
                    .map(|()| "all passed".to_owned())
            }),
        ),
        (
            "mutated media",
            Box::new(move || fuzz::run_counted(if full { FULL_MUTATIONS } else { MUTATIONS }, fuzz::DEFAULT_SEED)),
        ),
    ];
    if full {
        steps.push(("static program", Box::new(static_program)));
    }
    let chosen = steps
        .into_iter()
        .filter(|(name, _)| arguments.only.as_deref().is_none_or(|only| name.contains(only)));
    let started = Instant::now();
    let mut summary = Vec::new();
    for (name, step) in chosen {
        println!("\n== {name}");
        let step_started = Instant::now();
        let result = step();
        if let Err(error) = &result {
            println!("failed: {error}");
        }
        summary.push((name, step_started.elapsed(), result.map_err(|error| error.to_string())));
    }
    println!("\n== summary");
    for (name, took, result) in &summary {
        let (mark, text) = match result {
            Ok(text) => ("ok    ", text.as_str()),
            Err(error) => ("FAILED", error.lines().next().unwrap_or_default()),
        };
        println!("{mark} {name:25} {:>7}  {text}", seconds(*took));
    }
    let failed = summary.iter().filter(|(_, _, result)| result.is_err()).count();
    println!("       {:25} {:>7}", "all", seconds(started.elapsed()));
    match (failed, summary.len()) {
        (_, 0) => Err("no step has such a name".into()),
        (0, _) => Ok(()),
        (failed, all) => Err(format!("{failed} of {all} steps failed").into()),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// A static-PIE build, which must need no C library at run time and no C compiler at build time.
fn static_program() -> Result<String> {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let directory = target_dir().join("static");
    cargo()
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", &directory)
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            TARGET,
            "--package",
            "vodka-decant",
            "--package",
            "runtime",
        ])
        .run()?;
    let program = directory.join(TARGET).join("release/vodka-decant");
    let bytes = std::fs::read(&program)?;
    if has_interpreter(&bytes)? {
        return Err(format!("{} asks for a dynamic loader", program.display()).into());
    }
    Ok(format!("{} is static, {} KiB", program.display(), bytes.len() / 1024))
}

/// Whether an ELF file has a `PT_INTERP` segment, so that the system's loader has to run it.
fn has_interpreter(elf: &[u8]) -> Result<bool> {
    const PT_INTERP: u32 = 3;
    let word = |at: usize| -> Result<u64> {
        let bytes = elf.get(at..at + 8).ok_or("the program is no whole ELF file")?;
        Ok(u64::from_le_bytes(bytes.try_into()?))
    };
    let table = usize::try_from(word(32)?)?;
    let entry_bytes = usize::try_from(word(54)? & 0xffff)?;
    let entries = usize::try_from(word(56)? & 0xffff)?;
    for entry in 0..entries {
        if word(table + entry * entry_bytes)? & 0xffff_ffff == u64::from(PT_INTERP) {
            return Ok(true);
        }
    }
    Ok(false)
}
