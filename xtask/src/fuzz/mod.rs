// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask fuzz`: mutated ISOs, WIMs and XMLs, a third each, fed to the real command in processes of their own.
//!
//! Each input is listed, described and imported. A run fails when a process panics, is ended by a signal, takes longer
//! than five seconds, can't live with 512 MiB, leaves anything outside the worlds' directory, leaves a symbolic link in a
//! world, or ends with 1 (an error that nobody foresaw). The input is then kept under `target/fuzz-failures/`. Input `N`
//! of a seed is always the same: `--seed S --only N` runs it alone.

mod mutate;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fixtures::bytes::Random;
use fixtures::wim_file::WimFile;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::shell::{cargo, target_dir};
use crate::{Result, tools};

/// The seed of a run that names none.
pub const DEFAULT_SEED: u64 = 1;
/// The longest that one process may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most memory (address space, which bounds it) that one process may have.
const MEMORY_BYTES: u64 = 512 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// How many mutated inputs.
    #[arg(long, default_value_t = 10_000)]
    iterations: u64,
    /// Which inputs: the same seed gives the same ones.
    #[arg(long, default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Run only the input of this number, and show what the command says.
    #[arg(long, value_name = "N")]
    only: Option<u64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure()?;
    if let Some(number) = arguments.only {
        return run_one(number, arguments.seed);
    }
    run_counted(arguments.iterations, arguments.seed).map(drop)
}

/// The kinds of input, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Iso,
    Wim,
    Xml,
}

impl Kind {
    fn of(number: u64) -> Self {
        [Self::Iso, Self::Wim, Self::Xml][usize::try_from(number % 3).unwrap_or(0)]
    }

    fn extension(self) -> &'static str {
        if self == Self::Iso { "iso" } else { "wim" }
    }
}

/// The seeds, read.
struct Seeds {
    isos: Vec<Vec<u8>>,
    wims: Vec<WimFile>,
}

impl Seeds {
    fn load() -> Result<Self> {
        let seeds = fixtures::seeds::seeds()?;
        Ok(Self {
            isos: seeds.isos.iter().map(fs::read).collect::<Result<_, _>>()?,
            wims: seeds
                .wims
                .iter()
                .map(|path| WimFile::read(path))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Input `number` of `seed`.
    fn input(&self, number: u64, seed: u64) -> Vec<u8> {
        let mut random =
            Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        match Kind::of(number) {
            Kind::Iso => {
                let seed = &self.isos[random.index(self.isos.len())];
                mutate::iso(&mut random, seed)
            }
            Kind::Wim => {
                let seed = &self.wims[random.index(self.wims.len())];
                mutate::wim(&mut random, seed)
            }
            Kind::Xml => {
                let seed = &self.wims[random.index(self.wims.len())];
                mutate::xml(&mut random, seed)
            }
        }
    }
}

/// The command under test, built as for a person's debugging: overflow checks are on.
fn build() -> Result<PathBuf> {
    cargo().args(["build", "--locked", "--package", "vodka-decant"]).run()?;
    Ok(target_dir().join("debug/vodka-decant"))
}

/// How one process ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Code(i32),
    Signal(i32),
    Overdue,
}

/// Bounds the address space of this process, which needs little, and so of every child, until it is dropped.
struct MemoryLimit(Rlimit);

impl MemoryLimit {
    fn set() -> Result<Self> {
        let old = getrlimit(Resource::As);
        setrlimit(
            Resource::As,
            Rlimit {
                current: Some(MEMORY_BYTES),
                maximum: old.maximum,
            },
        )?;
        Ok(Self(old))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Raising a soft limit to what it was is always allowed.
        let _ = setrlimit(Resource::As, self.0);
    }
}

/// What is counted over a run.
#[derive(Default)]
struct Counts {
    ends: BTreeMap<(Kind, &'static str, End), u64>,
    failures: Vec<String>,
    slowest: Duration,
}

/// Runs `iterations` inputs on all cores; returns a line for a summary.
pub fn run_counted(iterations: u64, seed: u64) -> Result<String> {
    let program = build()?;
    let seeds = Seeds::load()?;
    let _limit = MemoryLimit::set()?;
    let counts = Mutex::new(Counts::default());
    let next = AtomicU64::new(0);
    let started = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let worker = || {
            let place = Place::new().map_err(|error| error.to_string())?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= iterations {
                    return Ok(());
                }
                let input = seeds.input(number, seed);
                try_input(&program, &place, number, seed, &input, &counts).map_err(|error| error.to_string())?;
            }
        };
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
            .collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    let counts = counts.into_inner().map_err(|_| "a worker panicked")?;
    report(&counts, iterations, seed, started.elapsed())
}

fn report(counts: &Counts, iterations: u64, seed: u64, took: Duration) -> Result<String> {
    println!(
        "{iterations} mutated inputs of seed {seed} in {:.0} s, each listed, described and imported:",
        took.as_secs_f64()
    );
    for ((kind, command, end), count) in &counts.ends {
        println!(
            "  {:4} {command:9} {end:?}: {count}",
            format!("{kind:?}").to_lowercase()
        );
    }
    println!("  slowest process: {:.2} s", counts.slowest.as_secs_f64());
    for failure in counts.failures.iter().take(50) {
        println!("  FAILED {failure}");
    }
    let imported: u64 = counts
        .ends
        .iter()
        .filter(|((_, command, end), _)| *command == "import" && *end == End::Code(0))
        .map(|(_, count)| count)
        .sum();
    if counts.failures.is_empty() {
        return Ok(format!(
            "{iterations} inputs of seed {seed}: {imported} imported, the others refused; no panic, none over {} s or {} MiB, \
             nothing outside the world",
            DEADLINE.as_secs(),
            MEMORY_BYTES >> 20
        ));
    }
    Err(format!(
        "{} of {iterations} inputs of seed {seed} failed; they are kept in {}",
        counts.failures.len(),
        failures_dir().display()
    )
    .into())
}

fn failures_dir() -> PathBuf {
    target_dir().join("fuzz-failures")
}

/// A directory tree of one worker. The worlds lie many directories deep in it: a path that climbs out of a world by `..`
/// ends in the tree, where it is found.
struct Place {
    root: tempfile::TempDir,
    worlds_home: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("vodka-fuzz-")
            .tempdir_in(memory_or_disk())?;
        let mut worlds_home = root.path().to_owned();
        for depth in 0..20 {
            worlds_home.push(format!("d{depth}"));
        }
        fs::create_dir_all(&worlds_home)?;
        for name in ["home", "cwd", "tmp"] {
            fs::create_dir(root.path().join(name))?;
        }
        Ok(Self { root, worlds_home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs the command once.
    fn run(&self, program: &Path, input: &Path, words: &[&str]) -> Result<(End, Duration, String)> {
        let [out, err] = ["stdout", "stderr"].map(|name| self.path(name));
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(["windows", words[0], "--iso"])
            .arg(input)
            .args(&words[1..])
            .current_dir(self.path("cwd"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_DATA_HOME", &self.worlds_home)
            .env("XDG_CACHE_HOME", self.path("home/cache"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        let mut pause = Duration::from_micros(200);
        let end = loop {
            if let Some(status) = child.try_wait()? {
                use std::os::unix::process::ExitStatusExt;
                break status
                    .code()
                    .map_or_else(|| End::Signal(status.signal().unwrap_or(0)), End::Code);
            }
            if started.elapsed() > DEADLINE {
                child.kill()?;
                child.wait()?;
                break End::Overdue;
            }
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_millis(10));
        };
        Ok((
            end,
            started.elapsed(),
            String::from_utf8_lossy(&fs::read(err)?).into_owned(),
        ))
    }

    /// What lies where nothing may lie; also symbolic links inside worlds. Clears the worlds.
    fn strays(&self) -> Result<Vec<String>> {
        let mut strays = Vec::new();
        for (directory, expected) in [("home", &["cache"][..]), ("cwd", &[]), ("tmp", &[])] {
            strays.extend(unexpected(&self.path(directory), expected)?);
        }
        strays.extend(unexpected(
            self.root.path(),
            &["home", "cwd", "tmp", "stdout", "stderr", "input.iso", "input.wim", "d0"],
        )?);
        let mut directory = self.path("d0");
        for depth in 1..20 {
            let next = format!("d{depth}");
            strays.extend(unexpected(&directory, &[&next])?);
            directory.push(next);
        }
        strays.extend(unexpected(&self.worlds_home, &["vodka"])?);
        let vodka = self.worlds_home.join("vodka");
        if vodka.is_dir() {
            strays.extend(unexpected(&vodka, &["worlds"])?);
            symbolic_links(&vodka, &mut strays)?;
            fs::remove_dir_all(&vodka)?;
        }
        Ok(strays)
    }
}

/// In memory where that holds a world's attributes (Linux 6.6 and later): an import waits for the disk once.
fn memory_or_disk() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let holds_attributes = tempfile::NamedTempFile::new_in(&memory).is_ok_and(|file| {
        rustix::fs::fsetxattr(&file, "user.vodka.probe", b"1", rustix::fs::XattrFlags::empty()).is_ok()
    });
    if holds_attributes { memory } else { std::env::temp_dir() }
}

fn unexpected(directory: &Path, expected: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !expected.iter().any(|name| entry.file_name() == *name) {
            found.push(format!("{} appeared", entry.path().display()));
        }
    }
    Ok(found)
}

fn symbolic_links(directory: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            found.push(format!("{} is a symbolic link", entry.path().display()));
        } else if kind.is_dir() {
            symbolic_links(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// The commands that every input goes through.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("list", &["list", "--json"]),
    ("describe", &["list", "--edition", "1"]),
    ("import", &["import", "--edition", "1", "--world", "fuzzed", "--json"]),
];

/// Runs one input and counts; a fault is kept and named.
fn try_input(
    program: &Path,
    place: &Place,
    number: u64,
    seed: u64,
    input: &[u8],
    counts: &Mutex<Counts>,
) -> Result<()> {
    let kind = Kind::of(number);
    let path = place.path(&format!("input.{}", kind.extension()));
    fs::write(&path, input)?;
    for (name, words) in COMMANDS {
        let (end, took, stderr) = place.run(program, &path, words)?;
        let mut faults = Vec::new();
        match &end {
            End::Code(0 | 3..=7) if !stderr.contains("panicked at") => {}
            // Which edition is asked for is ours: 2 would be a usage error of the run itself.
            other => faults.push(format!(
                "{other:?}: {}",
                stderr.lines().take(3).collect::<Vec<_>>().join(" | ")
            )),
        }
        if name == "import" {
            let world = place.worlds_home.join("vodka/worlds/fuzzed");
            if (end == End::Code(0)) != world.is_dir() {
                faults.push(format!(
                    "{end:?}, but the world is {}there",
                    if world.is_dir() { "" } else { "not " }
                ));
            }
            faults.extend(place.strays()?);
        }
        let mut counts = counts.lock().map_err(|_| "a worker panicked")?;
        counts.slowest = counts.slowest.max(took);
        *counts.ends.entry((kind, name, end)).or_default() += 1;
        if !faults.is_empty() {
            let kept = failures_dir().join(format!("seed-{seed}-input-{number}.{}", kind.extension()));
            fs::create_dir_all(failures_dir())?;
            fs::write(&kept, input)?;
            counts
                .failures
                .push(format!("{} ({name}): {}", kept.display(), faults.join("; ")));
        }
    }
    Ok(())
}

/// Runs one input and shows everything.
fn run_one(number: u64, seed: u64) -> Result<()> {
    let program = build()?;
    let input = Seeds::load()?.input(number, seed);
    let _limit = MemoryLimit::set()?;
    let place = Place::new()?;
    let kind = Kind::of(number);
    let path = place.path(&format!("input.{}", kind.extension()));
    fs::write(&path, &input)?;
    for (name, words) in COMMANDS {
        let (end, took, stderr) = place.run(&program, &path, words)?;
        println!("== {name}: {end:?} after {:.2} s", took.as_secs_f64());
        println!("{}{stderr}", String::from_utf8_lossy(&fs::read(place.path("stdout"))?));
    }
    let counts = Mutex::new(Counts::default());
    place.strays()?;
    try_input(&program, &place, number, seed, &input, &counts)?;
    let counts = counts.into_inner().map_err(|_| "a worker panicked")?;
    if counts.failures.is_empty() {
        Ok(())
    } else {
        Err(counts.failures.join("\n").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failures of one input when the command under test is this shell script.
    fn failures_of(script: &str) -> Vec<String> {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        let place = Place::new().expect("a place");
        let counts = Mutex::new(Counts::default());
        // Number 0 of a seed that no run has: what is kept is put beside no real failure.
        try_input(&program, &place, 0, u64::MAX, b"input", &counts).expect("it runs");
        counts.into_inner().expect("no panic").failures
    }

    /// One at a time: a script that another test's fork holds open for writing can't be executed.
    #[test]
    fn every_kind_of_fault_is_found() {
        const WORLD: &str = "w=$XDG_DATA_HOME/vodka/worlds/fuzzed; [ $2 = import ] && mkdir -p $w;";
        assert_eq!(failures_of("exit 6"), Vec::<String>::new(), "a refusal is no fault");
        assert_eq!(
            failures_of(&format!("{WORLD} exit 0")),
            Vec::<String>::new(),
            "a world is no fault"
        );
        for (fault, script) in [
            ("an error that nobody foresaw", "exit 1".to_owned()),
            ("a panic", "exit 101".to_owned()),
            (
                "a panic of a thread",
                "echo \"thread panicked at x\" >&2; exit 6".to_owned(),
            ),
            ("a signal", "kill -SEGV $$".to_owned()),
            ("a world of a failed import", format!("{WORLD} exit 6")),
            ("no world of a whole import", "exit 0".to_owned()),
            (
                "a file above the worlds",
                "echo > $XDG_DATA_HOME/../escaped; exit 6".to_owned(),
            ),
            ("a file at home", "echo > $HOME/escaped; exit 6".to_owned()),
            (
                "a link in a world",
                format!("{WORLD} [ $2 = import ] && ln -s / $w/link; exit 0"),
            ),
        ] {
            assert!(!failures_of(&script).is_empty(), "not found: {fault}");
        }
        let _ = fs::remove_file(failures_dir().join(format!("seed-{}-input-0.iso", u64::MAX)));
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        let found = failures_of("[ $2 = list ] && [ $5 = --json ] && exec sleep 60; exit 6");
        assert!(found.iter().any(|failure| failure.contains("Overdue")), "{found:?}");
    }
}
