// SPDX-License-Identifier: GPL-3.0-or-later
//! The way of an import: plan → lay down → registry → answers → seal. The one place that knows all of it.
//!
//! Each stage is whole or not done. The world grows in a staging directory that only its lock's holder may touch; an
//! import that was killed goes on after its last whole stage, and a world appears under its name only when sealed.

mod details;
mod editions;
mod error;
mod medium_hash;
mod plan;
mod registry;
mod select;
mod target;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use overlay::conf::{self, LaidDown, SetupState, WorldConf};
use overlay::{NtPath, SealOptions, Staging, WorldName, Worlds};
use serde::Serialize;

pub use details::{EditionDetails, EditionSummary, Examined, HiveFile, MediumSummary, SetupProgramFile, architecture};
pub use editions::{Edition, Editions, ImageFile, kind_words, open_image};
pub use error::ImportError;
pub use plan::{Plan, PlanSummary};
pub use registry::MergedHive;
pub use select::{Candidate, EditionNumber, SelectError};

use crate::apply::{self, ApplyError};
use crate::medium::MediumKind;
use medium_hash::MediumHash;

/// What a person asks for.
#[derive(Debug)]
pub struct Request<'a> {
    /// The medium: an ISO file, a directory or a bare image.
    pub medium: PathBuf,
    /// The edition, as [`Editions::select`] takes it.
    pub edition: String,
    /// The world to make.
    pub world: WorldName,
    /// Where worlds live.
    pub worlds: PathBuf,
    /// The person's own answer file.
    pub answers: Option<PathBuf>,
    /// Leave damaged registry keys and values out instead of failing.
    pub skip_damaged_keys: bool,
    /// Stop after the plan.
    pub dry_run: bool,
    /// Worker threads; 0 takes one for each core.
    pub threads: usize,
    /// Set by Ctrl-C.
    pub interrupted: &'a AtomicBool,
}

/// A stage of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// Decompress the image into the world.
    LayDown,
    /// Merge its hives.
    Registry,
    /// Place the answer file.
    Answers,
    /// Compute the digest and give the world its name.
    Seal,
}

impl Stage {
    const ALL: [Self; 4] = [Self::LayDown, Self::Registry, Self::Answers, Self::Seal];

    /// Its name in DESIGN's words; also what the staging directory remembers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LayDown => "lay down",
            Self::Registry => "registry",
            Self::Answers => "answers",
            Self::Seal => "seal",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// Who is told how an import goes. Called from any thread.
pub trait Observer: Sync {
    /// The plan holds.
    fn planned(&self, _plan: &PlanSummary) {}
    /// An interrupted import is taken up after this stage.
    fn resumed(&self, _after: Stage) {}
    /// A stage begins; `total_bytes` is what it will report, 0 when it reports nothing.
    fn stage(&self, _stage: Stage, _total_bytes: u64) {}
    /// That many bytes of the stage are done.
    fn bytes(&self, _stage: Stage, _done_bytes: u64) {}
    /// A hive was merged.
    fn hive(&self, _hive: &MergedHive) {}
}

/// How long a stage took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageTime {
    /// The stage's name.
    pub stage: &'static str,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// A finished import.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was planned.
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// Whether it stopped after the plan.
    pub dry_run: bool,
    /// The hives that were merged, with their counts.
    pub merged_hives: Vec<MergedHive>,
    /// The world's digest; none after a dry run.
    pub digest: Option<String>,
    /// SHA-256 of the medium, where it is one file.
    pub medium_sha256: Option<String>,
    /// The stages that this run did.
    pub stages: Vec<StageTime>,
}

/// Imports an edition into a world.
///
/// # Errors
/// [`ImportError`]. Nothing then stands under the world's name; what was done stays in staging for the next run.
pub fn run(request: &Request<'_>, observer: &dyn Observer) -> Result<Report, ImportError> {
    let editions = Editions::open(&request.medium)?;
    let edition = editions.select(&request.edition)?;
    let plan = Plan::new(request, &edition)?;
    observer.planned(&plan.summary);
    let mut report = Report {
        plan: plan.summary.clone(),
        dry_run: request.dry_run,
        merged_hives: Vec::new(),
        digest: None,
        medium_sha256: None,
        stages: Vec::new(),
    };
    if request.dry_run {
        return Ok(report);
    }
    let mut staging = Worlds::open(&request.worlds)?.begin(&request.world, &plan.fingerprint)?;
    let run = Run {
        request,
        observer,
        editions: &editions,
        edition,
        plan: &plan,
    };
    let done = std::thread::scope(|scope| {
        let hash = MediumHash::start(scope, editions.medium(), request.interrupted);
        let stages = run.stages(&mut staging, &mut report);
        if stages.is_err() {
            hash.stop();
        }
        let sha256 = hash.join();
        stages?;
        sha256
    });
    let world = done
        .and_then(|medium_sha256| {
            report.medium_sha256.clone_from(&medium_sha256);
            run.seal(staging, &mut report, medium_sha256)
        })
        .map_err(|error| run.name_the_room(error))?;
    report.digest = world.conf().digest.as_ref().map(ToString::to_string);
    Ok(report)
}

/// One run of an import, after its plan.
struct Run<'a> {
    request: &'a Request<'a>,
    observer: &'a dyn Observer,
    editions: &'a Editions,
    edition: Edition<'a>,
    plan: &'a Plan,
}

impl Run<'_> {
    /// Does every stage before the seal that is not done yet.
    fn stages(&self, staging: &mut Staging, report: &mut Report) -> Result<(), ImportError> {
        let last = staging.last_stage().and_then(Stage::from_name);
        if let Some(last) = last {
            self.observer.resumed(last);
        }
        for stage in [Stage::LayDown, Stage::Registry, Stage::Answers] {
            if last.is_some_and(|last| stage <= last) {
                // The counts belong to the report, whoever merged.
                if stage == Stage::Registry {
                    report.merged_hives = registry::count_again(&self.plan.examined, staging)?;
                    report.merged_hives.iter().for_each(|hive| self.observer.hive(hive));
                }
                continue;
            }
            self.check_interrupted()?;
            let begun = Instant::now();
            match stage {
                Stage::LayDown => self.lay_down(staging)?,
                Stage::Registry => {
                    self.observer.stage(stage, 0);
                    let skip_damaged = self.request.skip_damaged_keys;
                    let tell = |hive: &MergedHive| self.observer.hive(hive);
                    let merged = registry::merge(&self.edition, &self.plan.examined, staging, skip_damaged, &tell);
                    report.merged_hives = merged?;
                }
                Stage::Answers => {
                    self.observer.stage(stage, 0);
                    self.place_answers(staging)?;
                }
                Stage::Seal => {}
            }
            staging.stage_done(stage.name())?;
            report.stages.push(StageTime {
                stage: stage.name(),
                seconds: begun.elapsed().as_secs_f64(),
            });
        }
        Ok(())
    }

    fn lay_down(&self, staging: &mut Staging) -> Result<(), ImportError> {
        // What a killed lay-down left is of unknown completeness.
        staging.clear_files()?;
        self.observer
            .stage(Stage::LayDown, self.plan.examined.room.content_bytes);
        let options = apply::Options {
            threads: self.request.threads,
            progress: &|done_bytes| self.observer.bytes(Stage::LayDown, done_bytes),
            interrupted: self.request.interrupted,
        };
        let Examined {
            metadata, inventory, ..
        } = &self.plan.examined;
        match apply::lay_down(&self.edition.file.wim, metadata, inventory, staging.tree(), &options) {
            Err(ApplyError::Interrupted) => Err(ImportError::Interrupted),
            other => Ok(other?),
        }
    }

    fn place_answers(&self, staging: &mut Staging) -> Result<(), ImportError> {
        let place = target::windows().answers.as_str();
        // The time of what the image brought last is the only one that is the same on every machine.
        let time = self
            .edition
            .image
            .last_modification_time
            .or(self.edition.image.creation_time);
        let time = overlay::FileTime(time.map_or(0, |time| time.0));
        let metadata = overlay::NtMetadata::new(overlay::attributes::ARCHIVE, time, time, time);
        let place = NtPath::parse(place).map_err(|source| ImportError::Place {
            path: place.to_owned(),
            source,
        })?;
        staging.place_file(&place, self.plan.answers.bytes(), &metadata)?;
        Ok(())
    }

    fn seal(
        &self,
        staging: Staging,
        report: &mut Report,
        medium_sha256: Option<String>,
    ) -> Result<overlay::World, ImportError> {
        self.check_interrupted()?;
        let begun = Instant::now();
        self.observer.stage(Stage::Seal, 0);
        let medium = self.editions.medium();
        let summary = &self.plan.summary.edition;
        let windows = self.edition.image.windows.as_ref();
        let build = windows
            .and_then(|windows| windows.version.as_ref()?.build)
            .map(|build| build.to_string());
        let mut conf = WorldConf::default();
        conf.source = Some(conf::Source {
            medium: conf::Medium {
                size_bytes: medium.size_bytes().unwrap_or_default(),
                label: medium.label().unwrap_or_default().to_owned(),
                sha256: medium_sha256,
            },
            edition: conf::Edition {
                index: summary.index,
                name: summary.name.clone(),
                edition_id: summary.edition_id.clone().unwrap_or_default(),
                installation_type: summary.installation_type.clone().unwrap_or_default(),
                version: summary.version.clone().unwrap_or_default(),
                build: build.unwrap_or_default(),
                architecture: summary.architecture.unwrap_or_default().to_owned(),
                languages: windows.map(|windows| windows.languages.clone()).unwrap_or_default(),
            },
        });
        conf.laid_down = Some(LaidDown::Native);
        conf.setup = SetupState::NotRun;
        conf.options
            .insert("answers_sha256".to_owned(), self.plan.summary.answers_sha256.clone());
        let options = SealOptions {
            threads: self.request.threads,
            ..SealOptions::default()
        };
        let world = staging.commit(conf, &options)?;
        report.stages.push(StageTime {
            stage: Stage::Seal.name(),
            seconds: begun.elapsed().as_secs_f64(),
        });
        Ok(world)
    }

    fn check_interrupted(&self) -> Result<(), ImportError> {
        if self.request.interrupted.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(ImportError::Interrupted);
        }
        Ok(())
    }

    /// A disk that filled up all the same is told with the room that is needed.
    fn name_the_room(&self, error: ImportError) -> ImportError {
        if error.is_disk_full() {
            return ImportError::DiskFull {
                path: self.request.worlds.clone(),
                needed_bytes: self.plan.summary.needed_bytes,
                source: Box::new(error),
            };
        }
        error
    }
}

/// Whether a medium is one file of the host, which a hash can stand for.
fn is_one_file(kind: &MediumKind) -> bool {
    !matches!(kind, MediumKind::Directory)
}
