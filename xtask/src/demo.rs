// SPDX-License-Identifier: GPL-3.0-or-later
//! `cargo xtask demo`: from nothing to a world, as a transcript that a person can type again.

use std::path::{Path, PathBuf};

use crate::shell::{Shell, cargo, target_dir};
use crate::{Result, tools};

#[derive(clap::Args)]
pub struct Arguments {
    /// Import this edition (its index, name or EDITIONID).
    #[arg(long, default_value = "6")]
    edition: String,
    /// Keep the worlds here instead of in a temporary directory that is removed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure()?;
    step("Build the two commands");
    shown(cargo().args([
        "build",
        "--release",
        "--locked",
        "--package",
        "vodka-decant",
        "--package",
        "runtime",
    ]))?;
    step("Make a Microsoft-like ISO (UDF bridge, eleven editions; no file of Microsoft's is in it)");
    let iso = fixtures::windows_11_iso()?;
    shown(Shell::new("ls").arg("-l").arg(&iso))?;
    shown(Shell::new("7z").args(["l", "-ba"]).arg(&iso))?;

    let temporary = tempfile::Builder::new().prefix("vodka-demo-").tempdir()?;
    let home = arguments.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(home)?;
    let demo = Demo {
        iso: &iso,
        home,
        programs: target_dir().join("release"),
    };

    step("Which editions does it hold?");
    demo.decant(&["windows", "list", "--iso"], &[])?;
    step("What is in one of them?");
    demo.decant(&["windows", "list", "--iso"], &["--edition", &arguments.edition])?;
    step("What would an import do?");
    let edition = ["--edition", &arguments.edition];
    demo.decant(
        &["windows", "import", "--iso"],
        &[&edition[..], &["--world", "eleven", "--dry-run"]].concat(),
    )?;
    step("Import it");
    demo.decant(
        &["windows", "import", "--iso"],
        &[&edition[..], &["--world", "eleven"]].concat(),
    )?;
    step("What lies in the world?");
    let world = home.join("vodka/worlds/eleven");
    shown(Shell::new("ls").arg("-lA").arg(&world))?;
    shown(Shell::new("ls").arg("-A").arg(world.join("files")))?;
    shown(Shell::new("cat").arg(world.join("world.conf")))?;
    demo.vodka(&["world", "list"])?;
    demo.vodka(&["world", "show", "eleven"])?;
    step("The same import again gives the same world");
    demo.decant(
        &["windows", "import", "--iso"],
        &[&edition[..], &["--world", "again"]].concat(),
    )?;
    let (first, second) = (digest(&world)?, digest(&home.join("vodka/worlds/again"))?);
    println!("eleven: {first}\nagain:  {second}");
    if first != second {
        return Err("two imports of one edition have different digests".into());
    }
    demo.vodka(&["world", "remove", "again"])?;
    demo.vodka(&["world", "list"])?;
    Ok(())
}

struct Demo<'a> {
    iso: &'a Path,
    home: &'a Path,
    programs: PathBuf,
}

impl Demo<'_> {
    fn shell(&self, program: &str) -> Shell {
        Shell::new(self.programs.join(program)).env("XDG_DATA_HOME", self.home)
    }

    fn decant(&self, before: &[&str], after: &[&str]) -> Result<()> {
        shown(self.shell("vodka-decant").args(before).arg(self.iso).args(after))
    }

    fn vodka(&self, words: &[&str]) -> Result<()> {
        shown(self.shell("vodka").args(words))
    }
}

fn step(title: &str) {
    println!("\n# {title}");
}

/// Runs a command behind the line that a person would type.
fn shown(shell: Shell) -> Result<()> {
    println!("$ {}", shell.line());
    shell.run()
}

/// The digest in a world's `world.conf`.
fn digest(world: &Path) -> Result<String> {
    let conf: toml::Table = std::fs::read_to_string(world.join("world.conf"))?.parse()?;
    let digest = conf.get("digest").and_then(|value| value.as_str());
    Ok(digest
        .ok_or_else(|| format!("{} has no digest", world.join("world.conf").display()))?
        .to_owned())
}
