// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka-decant medium`: what lies on a medium, Windows or not.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use runtime::cli::{Failure, Output};
use serde::Serialize;

use super::failure::from_medium;
use crate::medium::{EntryKind, Medium, MediumError};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print every path on a medium with its size
    Ls(Ls),
}

#[derive(Debug, Args)]
pub(super) struct Ls {
    /// An ISO file, a directory, or a bare WIM, ESD or SWM file
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Ls(arguments) => ls(&arguments),
    }
}

#[derive(Serialize)]
struct Listing {
    medium: String,
    kind: String,
    label: Option<String>,
    size_bytes: Option<u64>,
    entries: Vec<ListedEntry>,
    errors: Vec<String>,
}

#[derive(Serialize)]
struct ListedEntry {
    path: String,
    kind: &'static str,
    size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_target: Option<String>,
}

fn ls(arguments: &Ls) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let medium = Medium::open(&arguments.file).map_err(from_medium)?;
    let mut listing = Listing {
        medium: arguments.file.display().to_string(),
        kind: medium.kind().to_string(),
        label: medium.label().map(str::to_owned),
        size_bytes: medium.size_bytes(),
        entries: Vec::new(),
        errors: Vec::new(),
    };
    output.line(match &listing.label {
        Some(label) => format!("{}, {}, label {label:?}", listing.medium, listing.kind),
        None => format!("{}, {}", listing.medium, listing.kind),
    })?;
    let (mut files, mut directories, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut errors: Vec<MediumError> = Vec::new();
    for entry in medium.walk() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let (kind, mark, link_target) = match entry.kind() {
            EntryKind::Directory => ("directory", "/", None),
            EntryKind::File => ("file", "", None),
            EntryKind::Symlink { target } => ("symbolic link", "", Some(target.clone())),
            _ => ("other", "", None),
        };
        directories += u64::from(entry.is_directory());
        files += u64::from(entry.is_file());
        bytes = bytes.saturating_add(entry.size_bytes());
        let target = link_target
            .as_ref()
            .map_or_else(String::new, |target| format!(" -> {target}"));
        output.line(format!("{:>15}  {}{mark}{target}", entry.size_bytes(), entry.path()))?;
        if arguments.json {
            let path = entry.path().to_owned();
            listing.entries.push(ListedEntry {
                path,
                kind,
                size_bytes: entry.size_bytes(),
                link_target,
            });
        }
    }
    output.line(format!(
        "{files} file(s) with {bytes} bytes in {directories} director(ies)"
    ))?;
    listing.errors = errors.iter().map(ToString::to_string).collect();
    output.document(&listing)?;
    // What could be read is listed; the command fails all the same, with the first reason and the number of others.
    let others = errors.len().saturating_sub(1);
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) if others == 0 => Err(from_medium(error)),
        Some(error) => Err(from_medium(error).hint(format!("{others} more place(s) could not be read"))),
    }
}
