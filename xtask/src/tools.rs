// SPDX-License-Identifier: GPL-3.0-or-later
//! The Debian packages that the jobs need. The list itself is [`fixtures::tools::TOOLS`].

use fixtures::tools::{self, Tool};

use crate::Result;
use crate::shell::Shell;

/// Sees that every tool is there: installs what is missing when run as root, else says which one line does.
pub fn ensure() -> Result<()> {
    let missing = tools::missing();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|tool: &&Tool| tool.program).collect();
    let line = tools::apt_line(&programs);
    if !rustix::process::geteuid().is_root() {
        return Err(format!("{} not installed; run this once as root:\n  {line}", list(&programs)).into());
    }
    println!("{} not installed; as root, running: {line}", list(&programs));
    Shell::new("apt-get").args(["update", "-q"]).run()?;
    let packages = tools::packages(&programs)
        .into_iter()
        .map(available)
        .collect::<Result<Vec<_>>>()?;
    Shell::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-q", "--no-install-recommends"])
        .args(packages)
        .run()?;
    let missing: Vec<&str> = tools::missing().iter().map(|tool| tool.program).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("still not installed: {}", missing.join(", ")).into())
    }
}

/// The package itself, or the one that took its place: 7z comes from `p7zip-full` in Debian 12, and from `7zip` where
/// that is gone.
fn available(package: &'static str) -> Result<&'static str> {
    if package != "p7zip-full" {
        return Ok(package);
    }
    let policy = Shell::new("apt-cache").args(["policy", package]).read()?;
    let is_there = policy
        .lines()
        .any(|line| line.trim_start().starts_with("Candidate:") && !line.contains("(none)"));
    Ok(if is_there { package } else { "7zip" })
}

fn list(programs: &[&str]) -> String {
    format!(
        "{} {}",
        programs.join(", "),
        if programs.len() == 1 { "is" } else { "are" }
    )
}
