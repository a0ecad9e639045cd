// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka world`: what worlds there are, what is in one, whether it is whole, and its end.

use clap::{Args, Subcommand};
use overlay::{Difference, SealOptions, Sizes, World, WorldConf, WorldName};
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
            let name = world_name(&arguments.name)?;
            arguments.place.worlds()?.remove(&name).map_err(failure)?;
            Output::Text.line(format!("world {name} is removed"))
        }
    }
}

fn world_name(name: &str) -> Result<WorldName, Failure> {
    name.parse().map_err(|error: overlay::NameError| Failure::new(ExitCode::Usage, error))
}

fn open(arguments: &Show) -> Result<World, Failure> {
    arguments.place.worlds()?.world(&world_name(&arguments.name)?).map_err(failure)
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
    let listed = arguments.place.worlds()?.list().map_err(failure)?;
    let mut document = Vec::new();
    output.line(format!("{:<24}{:<40}{:<12}SETUP", "WORLD", "EDITION", "BUILD"))?;
    for world in listed {
        let name = world.name.to_string();
        match world.conf {
            Ok(conf) => {
                let edition = conf.source.as_ref().map(|source| &source.edition);
                let shown = edition.map_or("", |edition| edition.name.as_str());
                let build = edition.and_then(|edition| edition.build).map_or_else(String::new, |build| build.to_string());
                output.line(format!("{name:<24}{shown:<40}{build:<12}{}", conf.setup))?;
                document.push(ListedWorld { name, conf: Some(conf), error: None });
            }
            Err(error) => {
                output.line(format!("{name:<24}cannot be read: {error}"))?;
                document.push(ListedWorld { name, conf: None, error: Some(error.to_string()) });
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

fn show(arguments: &Show) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let world = open(arguments)?;
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
        let optional = [
            ("EDITIONID", edition.edition_id.clone()),
            ("installation type", edition.installation_type.clone()),
            ("version", edition.version.clone()),
            ("architecture", edition.architecture.clone()),
            ("languages", (!edition.languages.is_empty()).then(|| edition.languages.join(", "))),
            ("medium label", source.medium.label.clone()),
            ("medium size", source.medium.size_bytes.map(|bytes| format!("{bytes} ({})", size(bytes)))),
            ("medium sha256", source.medium.sha256.clone()),
        ];
        lines.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    }
    lines.push(("setup", conf.setup.to_string()));
    lines.push(("files", format!("{} in {} director(ies)", sizes.files, sizes.directories)));
    lines.push(("content", format!("{} ({})", sizes.apparent_bytes, size(sizes.apparent_bytes))));
    lines.push(("on disk", format!("{} ({})", sizes.allocated_bytes, size(sizes.allocated_bytes))));
    lines.push(("registry", format!("{} ({})", sizes.registry_bytes, size(sizes.registry_bytes))));
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
    let world = open(arguments)?;
    let differences: Vec<String> =
        world.verify(&SealOptions::default()).map_err(failure)?.iter().map(Difference::to_string).collect();
    for difference in &differences {
        output.line(difference)?;
    }
    let digest = world.conf().digest.as_ref().map(ToString::to_string);
    let whole = differences.is_empty();
    if whole {
        output.line(format!("world {} is whole: {}", world.name(), digest.as_deref().unwrap_or("no digest")))?;
    }
    let count = differences.len();
    output.document(&Verified { name: world.name().to_string(), digest, whole, differences })?;
    if whole {
        return Ok(());
    }
    Err(Failure::new(ExitCode::Damaged, format!("world {} differs from its digest in {count} place(s)", world.name())))
}
