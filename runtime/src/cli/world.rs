// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka world`: what worlds there are, what is in one, whether it is whole, and its end.

use clap::{Args, Subcommand};
use overlay::{Difference, SealOptions, Sizes, WorldConf};
use serde::Serialize;

use super::text::size;
use super::worlds::{Place, failure};
use super::{ExitCode, Failure, Output};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the worlds
    List(List),
    /// Say what a world is and how large
    Show(Show),
    /// Check every byte and every piece of metadata of a world against its digest
    Verify(Show),
    /// Remove a world for good
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    place: Place,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The world
    name: String,
    #[command(flatten)]
    place: Place,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The world
    name: String,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list(&arguments),
        Command::Show(arguments) => show(&arguments),
        Command::Verify(arguments) => verify(&arguments),
        Command::Remove(arguments) => {
            let world = arguments.place.world(&arguments.name)?;
            world.worlds().remove(world.name()).map_err(failure)?;
            Output::Text.line(format!("world {} is removed", world.name()))
        }
    }
}

#[derive(Serialize)]
struct ListedWorld {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    conf: Option<WorldConf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn list(arguments: &List) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let listed = match arguments.place.worlds()? {
        Some(worlds) => worlds.list().map_err(failure)?,
        None => Vec::new(),
    };
    let mut document = Vec::new();
    output.line(format!("{:<24}{:<40}{:<12}SETUP", "WORLD", "EDITION", "BUILD"))?;
    for world in listed {
        let name = world.name.to_string();
        match world.conf {
            Ok(conf) => {
                let edition = conf.source.as_ref().map(|source| &source.edition);
                let shown = edition.map_or("", |edition| edition.name.as_str());
                let build = edition.map_or("", |edition| edition.build.as_str());
                output.line(format!("{name:<24}{shown:<40}{build:<12}{}", conf.setup.as_str()))?;
                document.push(ListedWorld {
                    name,
                    conf: Some(conf),
                    error: None,
                });
            }
            Err(error) => {
                output.line(format!("{name:<24}cannot be read: {error}"))?;
                document.push(ListedWorld {
                    name,
                    conf: None,
                    error: Some(error.to_string()),
                });
            }
        }
    }
    output.line(format!("{} world(s)", document.len()))?;
    output.document(&document)
}

#[derive(Serialize)]
struct ShownWorld<'a> {
    name: String,
    path: String,
    #[serde(flatten)]
    conf: &'a WorldConf,
    sizes: Sizes,
}

/// A size as a number and as people say it.
fn size_text(bytes: u64) -> String {
    format!("{bytes} ({})", size(bytes))
}

fn show(arguments: &Show) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let world = arguments.place.world(&arguments.name)?;
    let sizes = world.sizes().map_err(failure)?;
    let conf = world.conf();
    output.line(format!("world {}", world.name()))?;
    let mut lines = vec![("path", world.path().display().to_string())];
    if let Some(parent) = &conf.parent {
        lines.push(("parent", parent.name.to_string()));
    }
    if let Some(source) = &conf.source {
        let edition = &source.edition;
        lines.push(("edition", format!("{} (index {})", edition.name, edition.index)));
        let medium = &source.medium;
        let optional = [
            ("EDITIONID", edition.edition_id.clone()),
            ("installation type", edition.installation_type.clone()),
            ("version", edition.version.clone()),
            ("architecture", edition.architecture.clone()),
            ("languages", edition.languages.join(", ")),
            ("medium label", medium.label.clone()),
            (
                "medium size",
                if medium.size_bytes > 0 {
                    size_text(medium.size_bytes)
                } else {
                    String::new()
                },
            ),
            ("medium sha256", medium.sha256.clone().unwrap_or_default()),
        ];
        lines.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()));
    }
    lines.push(("setup", conf.setup.as_str().to_owned()));
    lines.push((
        "files",
        format!("{} in {} director(ies)", sizes.files, sizes.directories),
    ));
    lines.push(("content", size_text(sizes.apparent_bytes)));
    lines.push(("on disk", size_text(sizes.allocated_bytes)));
    lines.push(("registry", size_text(sizes.registry_bytes)));
    if let Some(digest) = &conf.digest {
        lines.push(("digest", digest.to_string()));
    }
    for (name, value) in lines {
        output.line(format!("  {name:<20}{value}"))?;
    }
    output.document(&ShownWorld {
        name: world.name().to_string(),
        path: world.path().display().to_string(),
        conf,
        sizes,
    })
}

#[derive(Serialize)]
struct Verified {
    name: String,
    digest: Option<String>,
    whole: bool,
    differences: Vec<String>,
}

fn verify(arguments: &Show) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let world = arguments.place.world(&arguments.name)?;
    let differences: Vec<String> = world
        .verify(&SealOptions::default())
        .map_err(failure)?
        .iter()
        .map(Difference::to_string)
        .collect();
    for difference in &differences {
        output.line(difference)?;
    }
    let digest = world.conf().digest.as_ref().map(ToString::to_string);
    let whole = differences.is_empty();
    if whole {
        output.line(format!(
            "world {} is whole: {}",
            world.name(),
            digest.as_deref().unwrap_or("no digest")
        ))?;
    }
    let count = differences.len();
    output.document(&Verified {
        name: world.name().to_string(),
        digest,
        whole,
        differences,
    })?;
    if whole {
        return Ok(());
    }
    Err(Failure::new(
        ExitCode::Damaged,
        format!("world {} differs from its digest in {count} place(s)", world.name()),
    ))
}
