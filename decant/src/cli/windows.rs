// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka-decant windows`: list, examine, import.

use std::path::PathBuf;
use std::sync::Mutex;

use clap::{Args, Subcommand, ValueEnum};
use runtime::cli::text::{escape_controls, size};
use runtime::cli::{ExitCode, Failure, Output, Progress, interrupt, worlds};

use super::failure::from_import;
use crate::answers::AnswerFile;
use crate::import::{
    self, EditionDetails, EditionSummary, Editions, ImportError, MediumSummary, MergedHive, Observer, PlanSummary,
    Report, Request, Stage,
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List a medium's editions, or say what is in one of them
    List(List),
    /// Import an edition into a new world
    Import(Import),
    /// Check an answer file against an edition
    CheckAnswers(CheckAnswers),
}

/// An edition is named by its number, NAME, DISPLAYNAME, EDITIONID, or EDITIONID/INSTALLATIONTYPE.
const EDITION_HELP: &str = "The edition: its number, name, EDITIONID, or EDITIONID/INSTALLATIONTYPE";

#[derive(Debug, Args)]
pub(super) struct List {
    /// The medium: an ISO file, a directory, or a bare WIM, ESD or SWM file
    #[arg(long, value_name = "FILE")]
    iso: PathBuf,
    #[arg(long, value_name = "N|NAME", help = EDITION_HELP)]
    edition: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How the image is laid down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Apply {
    /// With the medium's own Dism.exe where the runtime serves it, else natively
    Auto,
    /// With the medium's own Dism.exe
    Dism,
    /// By this program, straight out of the medium
    Native,
}

/// Whether the new Windows' own setup runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Setup {
    /// Run it where the runtime serves it, else leave it pending
    Auto,
    /// Run it
    Run,
    /// Leave it pending
    Skip,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The medium: an ISO file, a directory, or a bare WIM, ESD or SWM file
    #[arg(long, value_name = "FILE")]
    iso: PathBuf,
    #[arg(long, value_name = "N|NAME|EDITIONID", help = EDITION_HELP)]
    edition: String,
    /// The name of the new world
    #[arg(long, value_name = "NAME")]
    world: String,
    /// How to lay the image down
    #[arg(long, value_enum, default_value_t = Apply::Auto)]
    apply: Apply,
    /// Whether to run the new Windows' own setup
    #[arg(long, value_enum, default_value_t = Setup::Auto)]
    setup: Setup,
    /// An answer file of your own instead of the built-in one
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Leave damaged registry keys and values out, and count them, instead of failing
    #[arg(long)]
    skip_damaged_keys: bool,
    /// Check everything, print the plan, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Worker threads; 0 takes one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    worlds: worlds::Place,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckAnswers {
    /// The medium: an ISO file, a directory, or a bare WIM, ESD or SWM file
    #[arg(long, value_name = "FILE")]
    iso: PathBuf,
    #[arg(long, value_name = "N|NAME", help = EDITION_HELP)]
    edition: String,
    /// The answer file
    file: PathBuf,
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list(&arguments),
        Command::Import(arguments) => run_import(&arguments),
        Command::CheckAnswers(arguments) => check_answers(&arguments),
    }
}

fn list(arguments: &List) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    let editions = Editions::open(&arguments.iso).map_err(from_import)?;
    match &arguments.edition {
        None => {
            let summary = MediumSummary::new(&editions, &arguments.iso.display().to_string());
            print_list(output, &summary)?;
            output.document(&summary)
        }
        Some(wanted) => {
            let edition = editions.select(wanted).map_err(from_import)?;
            let details = EditionDetails::new(&edition).map_err(from_import)?;
            print_details(output, &details)?;
            output.document(&details)
        }
    }
}

fn print_list(output: Output, summary: &MediumSummary) -> Result<(), Failure> {
    let size_of = |edition: &EditionSummary| edition.total_bytes.map_or_else(|| "?".to_owned(), size);
    output.line("EDITION        SIZE  NAME")?;
    for edition in &summary.editions {
        let unstaged = if edition.kind == "unstaged operating system" {
            " (unstaged)"
        } else {
            ""
        };
        output.line(format!(
            "{:>7}{:>12}  {}{unstaged}",
            edition.edition,
            size_of(edition),
            edition.name
        ))?;
    }
    output.line(format!(
        "{} edition(s). `--edition N` says what is in one of them, and `import --edition N` takes it.",
        summary.editions.len()
    ))?;
    for edition in &summary.editions {
        if let Some(note) = &edition.note {
            output.line(format!("note: {}: {note}", edition.edition))?;
        }
    }
    for image in &summary.other_images {
        output.line(format!(
            "note: image {} is no edition: {} ({})",
            image.edition, image.name, image.kind
        ))?;
    }
    Ok(())
}

fn print_details(output: Output, details: &EditionDetails) -> Result<(), Failure> {
    let summary = &details.summary;
    let unknown = || "not said".to_owned();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
    let number = |value: Option<u64>| value.map_or_else(unknown, |number| number.to_string());
    let bytes = |value: Option<u64>| value.map_or_else(unknown, |bytes| format!("{bytes} ({})", size(bytes)));
    output.line(&summary.name)?;
    if let Some(note) = &summary.note {
        output.line(format!("  note: {note}"))?;
    }
    let lines = [
        ("edition", format!("{} of {}", summary.edition, summary.image_file)),
        ("kind", summary.kind.to_owned()),
        ("NAME", text(&details.image_name)),
        ("DISPLAYNAME", text(&details.display_name)),
        ("DESCRIPTION", text(&details.description)),
        ("EDITIONID", text(&summary.edition_id)),
        ("installation type", text(&summary.installation_type)),
        ("architecture", summary.architecture.map_or_else(unknown, str::to_owned)),
        ("version", text(&summary.version)),
        (
            "languages",
            if details.languages.is_empty() {
                unknown()
            } else {
                details.languages.join(", ")
            },
        ),
        ("created", text(&details.creation_time)),
        ("directories", number(details.directories)),
        ("files", number(details.files)),
        ("total bytes", bytes(summary.total_bytes)),
        ("counted twice by hard links", bytes(details.hard_link_bytes)),
        ("room needed", bytes(Some(details.room_bytes))),
    ];
    for (name, value) in lines {
        output.line(format!("  {name:<28}{value}"))?;
    }
    if details.escaped_names > 0 {
        output.line(format!("  {:<28}{}", "names stored escaped", details.escaped_names))?;
    }
    if details.encrypted_files > 0 {
        output.line(format!("  {:<28}{}", "files encrypted by EFS", details.encrypted_files))?;
    }
    output.line("  hives that an import takes")?;
    if details.hives.is_empty() {
        output.line("    none: this image holds no installed Windows")?;
    }
    for hive in &details.hives {
        output.line(format!(
            "    {:<52} {:>10} -> {}",
            hive.file,
            size(hive.size_bytes),
            hive.key
        ))?;
    }
    output.line("  set-up programs")?;
    for program in &details.setup_programs {
        let present = if program.present { "present" } else { "missing" };
        output.line(format!("    {:<36} {present}  {}", program.file, program.purpose))?;
    }
    Ok(())
}

/// Tells a person, or nobody, how an import goes.
struct Reporter {
    output: Output,
    progress: Mutex<Option<Progress>>,
}

impl Reporter {
    /// The observer's calls cannot fail; a closed pipe is noticed when the result is printed.
    fn say(&self, text: impl AsRef<str>) {
        let _ = self.output.line(text);
    }

    fn set_progress(&self, progress: Option<Progress>) {
        if let Ok(mut current) = self.progress.lock() {
            *current = progress;
        }
    }
}

impl Observer for Reporter {
    fn planned(&self, plan: &PlanSummary) {
        self.say(format!(
            "{} -> world {} ({})",
            plan.edition.name,
            plan.world,
            plan.path.display()
        ));
        self.say(format!(
            "plan: {} file(s) under {} name(s) in {} director(ies), {} of content; {} needed, {} free; answers: {}",
            plan.files,
            plan.file_names,
            plan.directories,
            size(plan.content_bytes),
            size(plan.needed_bytes),
            size(plan.free_bytes),
            plan.answers
        ));
        for name in &plan.escaped_names {
            self.say(format!("name stored escaped: {} as {}", name.path, name.stored));
        }
        for path in &plan.encrypted_files {
            self.say(format!("kept encrypted by EFS: {path}"));
        }
    }

    fn resumed(&self, after: Stage) {
        self.say(format!("an interrupted import goes on: `{}` was whole", after.name()));
    }

    fn stage(&self, stage: Stage, total_bytes: u64) {
        self.say(stage.name());
        let quiet = self.output == Output::Json;
        self.set_progress((total_bytes > 0).then(|| Progress::new(stage.name(), total_bytes, quiet)));
    }

    fn bytes(&self, _: Stage, done_bytes: u64) {
        if let Ok(progress) = self.progress.lock()
            && let Some(progress) = progress.as_ref()
        {
            progress.set(done_bytes);
        }
    }

    fn hive(&self, hive: &MergedHive) {
        self.say(format!(
            "{}   {} key(s), {} value(s) -> {}",
            hive.file, hive.keys, hive.values, hive.key
        ));
        if hive.damaged > 0 {
            self.say(format!(
                "{}   {} damaged key(s) and value(s) left out",
                hive.file, hive.damaged
            ));
        }
    }
}

fn run_import(arguments: &Import) -> Result<(), Failure> {
    let output = Output::new(arguments.json);
    if arguments.apply == Apply::Dism {
        return Err(
            Failure::new(ExitCode::NotServed, "--apply dism: the runtime cannot run Dism.exe yet")
                .hint("--apply native lays the image down without it"),
        );
    }
    if arguments.setup == Setup::Run {
        return Err(Failure::new(
            ExitCode::NotServed,
            "--setup run: the runtime cannot run Windows' own setup yet",
        )
        .hint("--setup skip leaves it pending"));
    }
    let world = worlds::world_name(&arguments.world)?;
    let interrupted = interrupt::flag()?;
    let request = Request {
        medium: arguments.iso.clone(),
        edition: arguments.edition.clone(),
        world,
        worlds: arguments.worlds.path()?,
        answers: arguments.answers.clone(),
        skip_damaged_keys: arguments.skip_damaged_keys,
        dry_run: arguments.dry_run,
        threads: arguments.threads,
        interrupted: &interrupted,
    };
    let reporter = Reporter {
        output,
        progress: Mutex::new(None),
    };
    if arguments.apply == Apply::Auto {
        reporter.say("Dism.exe cannot be run yet: the image is laid down natively");
    }
    let report = import::run(&request, &reporter);
    reporter.set_progress(None);
    let report = report.map_err(from_import)?;
    print_report(output, &report)?;
    output.document(&report)
}

fn print_report(output: Output, report: &Report) -> Result<(), Failure> {
    if report.dry_run {
        for hive in &report.plan.hives {
            output.line(format!("{} ({}) -> {}", hive.file, size(hive.size_bytes), hive.key))?;
        }
        return output.line("dry run: nothing was written");
    }
    if let Some(sha256) = &report.medium_sha256 {
        output.line(format!("medium sha256:{sha256}"))?;
    }
    if let Some(digest) = &report.digest {
        output.line(format!("world {} is whole: {digest}", report.plan.world))?;
    }
    output.line("setup is pending: the runtime cannot run Windows' own setup yet")
}

fn check_answers(arguments: &CheckAnswers) -> Result<(), Failure> {
    let editions = Editions::open(&arguments.iso).map_err(from_import)?;
    let edition = editions.select(&arguments.edition).map_err(from_import)?;
    let architecture = import::architecture(&edition).ok_or_else(|| {
        from_import(ImportError::NoArchitecture {
            number: edition.number(),
        })
    })?;
    let name = arguments.file.display().to_string();
    let bytes = std::fs::read(&arguments.file).map_err(|source| {
        from_import(ImportError::ReadAnswers {
            path: arguments.file.clone(),
            source,
        })
    })?;
    AnswerFile::check(bytes, &name, architecture).map_err(|error| from_import(error.into()))?;
    Output::Text.line(format!(
        "{} fits {} ({})",
        escape_controls(&name),
        edition.image.shown_name().0,
        architecture.shown_name()
    ))
}
