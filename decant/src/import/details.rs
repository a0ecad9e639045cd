// SPDX-License-Identifier: GPL-3.0-or-later
//! What is in an edition: what its XML says, and what its metadata shows.
//!
//! These structures are what `--json` prints; `docs/json.md` documents them, and their fields only ever grow.

use serde::Serialize;

use super::editions::{Edition, Editions, kind_words};
use super::{ImportError, target};
use crate::answers::Architecture;
use crate::apply::{Inventory, Room};
use crate::wim::ImageMetadata;

/// One line of `windows list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EditionSummary {
    /// What `--edition` takes: the index, with the folder before it on a medium for several architectures.
    pub edition: String,
    /// INDEX in the image file.
    pub index: u32,
    /// The image file's path on the medium.
    pub image_file: String,
    /// The name that people know it by.
    pub name: String,
    /// Why `name` is not what the image calls itself.
    pub note: Option<String>,
    /// `operating system`, `unstaged operating system`, `Windows PE`, `files of the medium`, `image of unknown kind`.
    pub kind: &'static str,
    /// TOTALBYTES: hard links counted once for each name.
    pub total_bytes: Option<u64>,
    /// EDITIONID.
    pub edition_id: Option<String>,
    /// INSTALLATIONTYPE.
    pub installation_type: Option<String>,
    /// `x64`, `x86`, `arm64`, …
    pub architecture: Option<&'static str>,
    /// Major, minor, build and service-pack build: `10.0.26100.1742`.
    pub version: Option<String>,
}

/// What `windows list` says of a medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MediumSummary {
    /// The medium as the person named it.
    pub medium: String,
    /// What it is: `UDF 1.02`, `ISO 9660`, `directory`, …
    pub kind: String,
    /// Its volume label.
    pub label: Option<String>,
    /// Its size in bytes; none for a directory.
    pub size_bytes: Option<u64>,
    /// What can be imported.
    pub editions: Vec<EditionSummary>,
    /// What else the image files hold.
    pub other_images: Vec<EditionSummary>,
}

/// A hive that an import would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HiveFile {
    /// Its path in the image.
    pub file: String,
    /// The key of `registry.hiv` that it becomes.
    pub key: String,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// A set-up program, and whether the image has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetupProgramFile {
    /// Its path.
    pub file: String,
    /// What it does.
    pub purpose: String,
    /// Whether the image has it.
    pub present: bool,
}

/// What `windows list --edition` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EditionDetails {
    /// What the list says of it.
    #[serde(flatten)]
    pub summary: EditionSummary,
    /// NAME as the image has it.
    pub image_name: Option<String>,
    /// DISPLAYNAME.
    pub display_name: Option<String>,
    /// DESCRIPTION.
    pub description: Option<String>,
    /// FLAGS.
    pub flags: Option<String>,
    /// Languages, the default first.
    pub languages: Vec<String>,
    /// Directories, as the XML counts them.
    pub directories: Option<u64>,
    /// Files, as the XML counts them.
    pub files: Option<u64>,
    /// HARDLINKBYTES: what hard links count more than once in `total_bytes`.
    pub hard_link_bytes: Option<u64>,
    /// What an import needs: content counted once, rounded up to blocks, and the registry.
    pub room_bytes: u64,
    /// CREATIONTIME, RFC 3339 in UTC.
    pub creation_time: Option<String>,
    /// The hives that an import takes.
    pub hives: Vec<HiveFile>,
    /// The set-up programs.
    pub setup_programs: Vec<SetupProgramFile>,
    /// Files that EFS keeps encrypted.
    pub encrypted_files: u64,
    /// Names that the world stores escaped.
    pub escaped_names: u64,
}

/// The architecture of an edition, where its XML names one that is known.
#[must_use]
pub fn architecture(edition: &Edition<'_>) -> Option<Architecture> {
    Architecture::of_image(edition.image.windows.as_ref()?.architecture?)
}

impl EditionSummary {
    /// What the XML says of `edition`.
    #[must_use]
    pub fn new(edition: &Edition<'_>) -> Self {
        let (name, note) = edition.image.shown_name();
        let windows = edition.image.windows.as_ref();
        Self {
            edition: edition.number().to_string(),
            index: edition.image.index,
            image_file: edition.file.path.clone(),
            name,
            note: note.map(|note| note.to_string()),
            kind: kind_words(edition.image.kind()),
            total_bytes: edition.image.total_bytes,
            edition_id: windows.and_then(|windows| windows.edition_id.clone()),
            installation_type: windows.and_then(|windows| windows.installation_type.clone()),
            architecture: architecture(edition).map(Architecture::shown_name),
            version: windows
                .and_then(|windows| windows.version.as_ref())
                .map(ToString::to_string),
        }
    }
}

impl MediumSummary {
    /// What a medium holds; `medium` is how the person named it.
    #[must_use]
    pub fn new(editions: &Editions, medium: &str) -> Self {
        let (installable, others): (Vec<_>, Vec<_>) = editions.images().partition(Edition::is_installable);
        let summaries = |list: Vec<Edition<'_>>| list.iter().map(EditionSummary::new).collect();
        Self {
            medium: medium.to_owned(),
            kind: editions.medium().kind().to_string(),
            label: editions.medium().label().map(str::to_owned),
            size_bytes: editions.medium().size_bytes(),
            editions: summaries(installable),
            other_images: summaries(others),
        }
    }
}

/// An edition that was looked into.
#[derive(Debug)]
pub struct Examined {
    /// The image's tree.
    pub metadata: ImageMetadata,
    /// What laying it down takes.
    pub inventory: Inventory,
    /// The hives that the target names and the image has.
    pub hives: Vec<HiveFile>,
    /// Room for the lay-down alone.
    pub room: Room,
}

impl Examined {
    /// Reads an edition's metadata and takes stock of it.
    ///
    /// # Errors
    /// [`ImportError::Wim`] or [`ImportError::Apply`] for damaged metadata or names that cannot be kept.
    pub fn new(edition: &Edition<'_>) -> Result<Self, ImportError> {
        let wim = &edition.file.wim;
        let failed = |source| ImportError::Wim {
            path: edition.file.path.clone(),
            source,
        };
        let metadata = wim.metadata(edition.image.index).map_err(failed)?;
        let inventory = Inventory::new(&metadata)?;
        let blobs = wim.blobs().map_err(failed)?;
        let hives = target::windows()
            .hives
            .iter()
            .filter_map(|hive| {
                let dentry = metadata.get(metadata.lookup(&hive.file)?);
                let size_bytes = dentry
                    .data
                    .and_then(|sha1| blobs.find(&sha1))
                    .map_or(0, |id| blobs.get(id).size_bytes);
                (!dentry.is_directory()).then(|| HiveFile {
                    file: hive.file.clone(),
                    key: hive.key.clone(),
                    size_bytes,
                })
            })
            .collect();
        let room = inventory.room(blobs);
        Ok(Self {
            metadata,
            inventory,
            hives,
            room,
        })
    }

    /// Everything that a world of this edition takes: the files and the merged registry.
    #[must_use]
    pub fn world_bytes(&self) -> u64 {
        self.hives
            .iter()
            .fold(self.room.disk_bytes, |sum, hive| sum.saturating_add(hive.size_bytes))
    }
}

impl EditionDetails {
    /// Looks into an edition: reads its metadata and says what it holds.
    ///
    /// # Errors
    /// As [`Examined::new`].
    pub fn new(edition: &Edition<'_>) -> Result<Self, ImportError> {
        let examined = Examined::new(edition)?;
        let image = edition.image;
        let windows = image.windows.as_ref();
        let mut languages = windows.map(|windows| windows.languages.clone()).unwrap_or_default();
        if let Some(default) = windows.and_then(|windows| windows.default_language.as_ref()) {
            languages.retain(|language| language != default);
            languages.insert(0, default.clone());
        }
        let setup_programs = target::windows().setup_programs.iter().map(|program| SetupProgramFile {
            file: program.file.clone(),
            purpose: program.purpose.clone(),
            present: examined.metadata.lookup(&program.file).is_some(),
        });
        Ok(Self {
            summary: EditionSummary::new(edition),
            image_name: image.name.clone(),
            display_name: image.display_name.clone(),
            description: image.description.clone(),
            flags: image.flags.clone(),
            languages,
            directories: image.directory_count,
            files: image.file_count,
            hard_link_bytes: image.hard_link_bytes,
            room_bytes: examined.world_bytes(),
            creation_time: image.creation_time.and_then(|time| {
                let (seconds, nanoseconds) = time.unix_time();
                let time = jiff::Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()?;
                Some(time.to_string())
            }),
            setup_programs: setup_programs.collect(),
            encrypted_files: examined.inventory.encrypted_files().len() as u64,
            escaped_names: examined.inventory.escaped_names().len() as u64,
            hives: examined.hives,
        })
    }
}
