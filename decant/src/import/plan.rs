// SPDX-License-Identifier: GPL-3.0-or-later
//! The first stage: everything that can be known before a byte is written.

use std::path::{Path, PathBuf};

use overlay::Worlds;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::details::{EditionSummary, Examined, HiveFile, architecture};
use super::editions::Edition;
use super::{ImportError, Request, target};
use crate::answers::{AnswerFile, MAX_ANSWERS_BYTES};
use crate::apply::EscapedName;

/// Part of a file system that an import leaves free: metadata of the host, journals, and a person's own work.
const SPARE_BYTES: u64 = 64 << 20;

/// What an import will do. It holds: whatever is wrong with it was found while it was made.
#[derive(Debug)]
pub struct Plan {
    /// The edition's tree and what it takes.
    pub examined: Examined,
    /// The answers that will be placed.
    pub answers: AnswerFile,
    /// What makes two imports the same: an interrupted one goes on only if this is equal.
    pub fingerprint: String,
    /// What is told to the person.
    pub summary: PlanSummary,
}

/// A plan as it is shown, by `--dry-run` and at the start of every import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// The world's name.
    pub world: String,
    /// Where it will be.
    pub path: PathBuf,
    /// The edition.
    pub edition: EditionSummary,
    /// How the image will be laid down: `native`.
    pub apply: &'static str,
    /// Directories to make.
    pub directories: u64,
    /// Files to write, hard links counted once.
    pub files: u64,
    /// Names of those files.
    pub file_names: u64,
    /// Bytes of content to write.
    pub content_bytes: u64,
    /// Room that the world needs.
    pub needed_bytes: u64,
    /// Room that there is.
    pub free_bytes: u64,
    /// Hives to merge.
    pub hives: Vec<HiveFile>,
    /// `default`, or the person's file.
    pub answers: String,
    /// SHA-256 of the answers.
    pub answers_sha256: String,
    /// Names that Linux cannot hold or that differ only in case, and how they are stored.
    pub escaped_names: Vec<EscapedName>,
    /// Files whose content EFS keeps encrypted.
    pub encrypted_files: Vec<String>,
}

impl Plan {
    /// Checks a request against an edition, the answer file and the room there is.
    ///
    /// # Errors
    /// The first thing that makes the import impossible; nothing was written.
    pub fn new(request: &Request<'_>, edition: &Edition<'_>) -> Result<Self, ImportError> {
        let survey = Worlds::survey(&request.worlds, &request.world)?;
        let number = edition.number();
        let wim = &edition.file.wim;
        let failed = |source| ImportError::Wim {
            path: edition.file.path.clone(),
            source,
        };
        let examined = Examined::new(edition)?;
        let system = &target::windows().hives[0].file;
        if !examined.hives.iter().any(|hive| hive.file == *system) {
            return Err(ImportError::NoWindows {
                number,
                file: system.clone(),
            });
        }
        let blobs = wim.blobs().map_err(failed)?;
        let missing = examined.inventory.missing_blobs(blobs);
        if !missing.is_empty() {
            return Err(ImportError::MissingBlobs { number, missing });
        }
        examined.inventory.check_reparse_sizes(blobs)?;

        let architecture = architecture(edition).ok_or(ImportError::NoArchitecture { number })?;
        let answers = match &request.answers {
            None => AnswerFile::default_for(architecture),
            Some(path) => AnswerFile::check(read_answers(path)?, &path.display().to_string(), architecture)?,
        };

        let free_bytes = survey.file_system.free_bytes.saturating_add(survey.left_over_bytes);
        let free_inodes = survey.file_system.free_inodes;
        let needed_bytes = examined.world_bytes().saturating_add(answers.bytes().len() as u64);
        let needed_files = examined.room.files + examined.room.directories;
        if needed_bytes.saturating_add(SPARE_BYTES) > free_bytes || free_inodes.is_some_and(|free| needed_files > free)
        {
            return Err(ImportError::NoRoom {
                path: request.worlds.clone(),
                needed_bytes: needed_bytes.saturating_add(SPARE_BYTES),
                free_bytes,
                needed_files,
                free_files: free_inodes.unwrap_or(u64::MAX),
            });
        }

        let summary = PlanSummary {
            world: request.world.to_string(),
            path: survey.path,
            edition: EditionSummary::new(edition),
            apply: "native",
            directories: examined.room.directories,
            files: examined.room.files,
            file_names: examined.room.file_names,
            content_bytes: examined.room.content_bytes,
            needed_bytes,
            free_bytes,
            hives: examined.hives.clone(),
            answers: request
                .answers
                .as_ref()
                .map_or("default".to_owned(), |path| path.display().to_string()),
            answers_sha256: answers.sha256(),
            escaped_names: examined.inventory.escaped_names().to_vec(),
            encrypted_files: examined.inventory.encrypted_files().to_vec(),
        };
        let fingerprint = fingerprint(edition, request, &answers);
        Ok(Self {
            examined,
            answers,
            fingerprint,
            summary,
        })
    }
}

fn read_answers(path: &Path) -> Result<Vec<u8>, ImportError> {
    let failed = |source| ImportError::ReadAnswers {
        path: path.to_owned(),
        source,
    };
    let length_bytes = std::fs::metadata(path).map_err(failed)?.len();
    if length_bytes > MAX_ANSWERS_BYTES {
        return Err(ImportError::Answers(crate::answers::AnswersError::TooLarge {
            name: path.display().to_string(),
            found_bytes: length_bytes,
            most_bytes: MAX_ANSWERS_BYTES,
        }));
    }
    std::fs::read(path).map_err(failed)
}

/// SHA-256 over everything that decides what a world becomes, as far as it is known before the medium is read whole:
/// the image file's identity and the edition's, the answers, and the version of this program.
fn fingerprint(edition: &Edition<'_>, request: &Request<'_>, answers: &AnswerFile) -> String {
    let header = edition.file.wim.header();
    let text = format!(
        "vodka-decant {}\nworld {}\nskip damaged keys {}\nimage file {} {:?}\nindex {}\nimage {:?}\nanswers {}\n",
        env!("CARGO_PKG_VERSION"),
        request.world,
        request.skip_damaged_keys,
        edition.file.path,
        header,
        edition.image.index,
        edition.image,
        answers.sha256(),
    );
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
