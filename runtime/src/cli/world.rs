// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka world`: what worlds there are, what is in one, forks of it, whether it is whole, and its end.

use clap::{Args, Subcommand};
use overlay::worlds::Listed;
use overlay::{Difference, SealOptions, Sizes, World, WorldConf};
use serde::Serialize;

use super::text::size;
use super::worlds::{Place, failure, world_name};
use super::{ExitCode, Failure, Output};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a fork of a sealed world: its files fall through to the parent's
    New(New),
    /// List the worlds, forks below their parents
    List(List),
    /// Say what a world is and how large
    Show(Show),
    /// Say what another world has otherwise: files and registry
    Diff(Diff),
    /// Check every byte and every piece of metadata of a world against its digest
    Verify(Show),
    /// Seal a world: compute its digest; nothing writes to it from then on
    Seal(Show),
    /// Give a world another name
    Rename(Two),
    /// Make a new, sealed base of a world as it shows now
    Commit(Two),
    /// Make a fork a sealed base of its own, under the same name
    Flatten(Show),
    /// Remove a world for good
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(super) struct New {
    /// The new world
    name: String,
    /// The sealed world that it is a fork of
    #[arg(long, value_name = "BASE")]
    from: String,
    #[command(flatten)]
    place: Place,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The world that is looked at first
    old: String,
    /// The world whose differences are named
    new: String,
    #[command(flatten)]
    place: Place,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Two {
    /// The world
    name: String,
    /// The other name
    to: String,
    #[command(flatten)]
    place: Place,
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
        Command::New(arguments) => new(&arguments),
        Command::List(arguments) => list(&arguments),
        Command::Show(arguments) => show(&arguments),
        Command::Diff(arguments) => diff(&arguments),
        Command::Verify(arguments) => verify(&arguments),
        Command::Seal(arguments) => {
            let mut world = arguments.place.world(&arguments.name)?;
            world.seal(&SealOptions::default()).map_err(failure)?;
            sealed(&world, Output::new(arguments.json))
        }
        Command::Rename(arguments) => {
            let world = arguments.place.world(&arguments.name)?;
            let renamed = world
                .worlds()
                .rename(world.name(), &world_name(&arguments.to)?)
                .map_err(failure)?;
            Output::Text.line(format!("world {} is now {}", world.name(), renamed.name()))
        }
        Command::Commit(arguments) => {
            let world = arguments.place.world(&arguments.name)?;
            let base = world
                .commit_to(&world_name(&arguments.to)?, &SealOptions::default())
                .map_err(failure)?;
            sealed(&base, Output::Text)
        }
        Command::Flatten(arguments) => {
            let mut world = arguments.place.world(&arguments.name)?;
            world.flatten(&SealOptions::default()).map_err(failure)?;
            sealed(&world, Output::new(arguments.json))
        }
        Command::Remove(arguments) => {
            let world = arguments.place.world(&arguments.name)?;
            world.worlds().remove(world.name()).map_err(failure)?;
            Output::Text.line(format!("world {} is removed", world.name()))
        }
    }
}

#[derive(Serialize)]
struct NewWorld {
    name: String,
    path: String,
    parent: String,
    /// The worlds that a name falls through to, nearest first.
    falls_through_to: Vec<String>,
    registry_bytes: u64,
}

fn new(arguments: &New) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let base = arguments.place.world(&arguments.from)?;
    let world = base
        .worlds()
        .fork(&world_name(&arguments.name)?, &base)
        .map_err(failure)?;
    let registry_bytes = std::fs::metadata(world.registry_path())?.len();
    let mut chain = Vec::new();
    let mut next = Some(base);
    while let Some(layer) = next {
        chain.push(layer.name().to_string());
        next = layer
            .conf()
            .parent
            .as_ref()
            .map(|parent| arguments.place.world(&parent.name))
            .transpose()?;
    }
    output.line(format!("{:<24}{:<24}{:<14}PATH", "WORLD", "PARENT", "REGISTRY"))?;
    output.line(format!(
        "{:<24}{:<24}{:<14}{}",
        world.name().to_string(),
        arguments.from,
        size(registry_bytes),
        world.path().display()
    ))?;
    output.line(format!(
        "what {} does not have falls through to {}",
        world.name(),
        chain.join(", then ")
    ))?;
    output.document(&NewWorld {
        name: world.name().to_string(),
        path: world.path().display().to_string(),
        parent: arguments.from.clone(),
        falls_through_to: chain,
        registry_bytes,
    })
}

/// Says which digest a world has now.
fn sealed(world: &World, output: Output) -> Result<(), Failure> {
    let digest = world.conf().digest.as_ref().map(ToString::to_string);
    output.line(format!(
        "world {} is sealed: {}",
        world.name(),
        digest.as_deref().unwrap_or("no digest")
    ))?;
    output.document(&serde_json::json!({ "name": world.name().to_string(), "digest": digest }))
}

#[derive(Serialize)]
struct Differences {
    old: String,
    new: String,
    files: Vec<String>,
    registry: Vec<String>,
}

fn diff(arguments: &Diff) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let (old, new) = (
        arguments.place.world(&arguments.old)?,
        arguments.place.world(&arguments.new)?,
    );
    let found = old.diff(&new).map_err(failure)?;
    let differences = Differences {
        old: arguments.old.clone(),
        new: arguments.new.clone(),
        files: found.files.iter().map(ToString::to_string).collect(),
        registry: found.registry.iter().map(ToString::to_string).collect(),
    };
    for line in differences.files.iter().chain(&differences.registry) {
        output.line(line)?;
    }
    output.line(format!(
        "{} difference(s) of files, {} of the registry",
        differences.files.len(),
        differences.registry.len()
    ))?;
    output.document(&differences)
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
    output.line(format!("{:<24}{:<40}{:<12}SETUP", "WORLD", "EDITION", "BUILD"))?;
    for (depth, position) in below_their_parents(&listed) {
        let world = &listed[position];
        let name = format!("{}{}", "  ".repeat(depth), world.name);
        match &world.conf {
            Ok(conf) => {
                let edition = conf.source.as_ref().map(|source| &source.edition);
                let shown = match (edition, &conf.parent) {
                    (Some(edition), _) => edition.name.clone(),
                    (None, Some(parent)) => format!("fork of {}", parent.name),
                    (None, None) => String::new(),
                };
                let build = edition.map_or("", |edition| edition.build.as_str());
                output.line(format!("{name:<24}{shown:<40}{build:<12}{}", conf.setup.as_str()))?;
            }
            Err(error) => output.line(format!("{name:<24}cannot be read: {error}"))?,
        }
    }
    output.line(format!("{} world(s)", listed.len()))?;
    let document: Vec<ListedWorld> = listed
        .into_iter()
        .map(|world| match world.conf {
            Ok(conf) => ListedWorld {
                name: world.name.to_string(),
                conf: Some(conf),
                error: None,
            },
            Err(error) => ListedWorld {
                name: world.name.to_string(),
                conf: None,
                error: Some(error.to_string()),
            },
        })
        .collect();
    output.document(&document)
}

/// Depth and position of each world, forks behind their parents. A fork whose parent is not here stands at the left.
fn below_their_parents(listed: &[Listed]) -> Vec<(usize, usize)> {
    let parent = |position: usize| {
        let name = &listed[position].conf.as_ref().ok()?.parent.as_ref()?.name;
        listed.iter().position(|world| world.name.as_str() == name)
    };
    let mut shown = Vec::with_capacity(listed.len());
    let mut todo: Vec<(usize, usize)> = (0..listed.len())
        .rev()
        .filter(|position| parent(*position).is_none())
        .map(|position| (0, position))
        .collect();
    while let Some((depth, position)) = todo.pop() {
        shown.push((depth, position));
        let children = (0..listed.len()).rev().filter(|child| parent(*child) == Some(position));
        todo.extend(children.map(|child| (depth + 1, child)));
    }
    // Worlds whose confs name each other as parents would hide; damage must be seen.
    let hidden: Vec<usize> = (0..listed.len())
        .filter(|p| !shown.iter().any(|(_, shown)| shown == p))
        .collect();
    shown.extend(hidden.into_iter().map(|position| (0, position)));
    shown
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
