// SPDX-License-Identifier: GPL-3.0-or-later
//! `world.conf`: what a world is and where it comes from.
//!
//! TOML with a fixed order of fields. A field that this version does not know is refused, not dropped: it may change
//! what the world means. The world's name is not in it, so that a world can be renamed and copied.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{self, Durable};
use crate::manifest::Digest;

/// The file's name in the world's directory.
pub const FILE_NAME: &str = "world.conf";
/// The format that this code reads and writes.
pub const FORMAT: u32 = 1;
/// The most bytes that are read.
const MAX_BYTES: u64 = 1 << 20;

/// All of `world.conf`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldConf {
    /// The version of the format, [`FORMAT`].
    pub format: u32,
    /// The digest of the sealed world; a world without one has been changed since, or was never sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// How far Windows' own set-up has come.
    #[serde(default)]
    pub setup: SetupState,
    /// How the files came here; a fork has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laid_down: Option<LaidDown>,
    /// The world that this one is a fork of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// What the world was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Choices that change what the world is; part of the digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Drives that are Linux directories, as `D: = "/path"`; a fact of the host and no part of the digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub maps: BTreeMap<String, String>,
}

impl Default for WorldConf {
    fn default() -> Self {
        Self {
            format: FORMAT,
            digest: None,
            setup: SetupState::NotRun,
            laid_down: None,
            parent: None,
            source: None,
            options: BTreeMap::new(),
            maps: BTreeMap::new(),
        }
    }
}

/// How far Windows' own set-up has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SetupState {
    /// It has not been run.
    #[default]
    NotRun,
    /// It has begun and is not at its end.
    Unfinished,
    /// It is done.
    Done,
}

impl SetupState {
    /// The word in world.conf.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRun => "not-run",
            Self::Unfinished => "unfinished",
            Self::Done => "done",
        }
    }
}

/// How the files came into the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LaidDown {
    /// By our own code.
    Native,
    /// By the medium's Dism.exe.
    Dism,
    /// From an installed Windows on a disk.
    Adopted,
    /// A free world.
    Free,
}

impl LaidDown {
    /// The word in world.conf.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Dism => "dism",
            Self::Adopted => "adopted",
            Self::Free => "free",
        }
    }
}

/// The world that a fork stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// Its name here; no part of the digest.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
}

/// What a world was imported from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The installation medium.
    pub medium: Medium,
    /// The edition of it.
    pub edition: Edition,
}

/// An installation medium.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Its length.
    pub size_bytes: u64,
    /// The volume's label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its SHA-256 in hex, where somebody took it; for that reason no part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// An edition of a medium.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edition {
    /// Its index in the WIM.
    pub index: u32,
    /// Its name, as listed.
    pub name: String,
    /// EDITIONID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub edition_id: String,
    /// INSTALLATIONTYPE.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub installation_type: String,
    /// Major, minor and build, as `10.0.26100`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The build and its revision, as `26100.1742`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The processor, as `x86_64`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// The languages, as `en-US`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
}

impl WorldConf {
    /// The text of the file.
    ///
    /// # Errors
    /// When a value has no TOML form, as a number beyond 2^63.
    pub fn to_text(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Conf {
            path: FILE_NAME.into(),
            reason: error.to_string(),
        })
    }

    /// Reads the text of the file; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Conf`] with the line, for what is no TOML, has an unknown field or another format.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let refused = |reason: String| Error::Conf {
            path: path.into(),
            reason,
        };
        // The format first: of a newer one, nothing else can be said.
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| refused(error.to_string()))?;
        match table.get("format").and_then(toml::Value::as_integer) {
            Some(format) if format == i64::from(FORMAT) => {}
            Some(format) => {
                return Err(refused(format!(
                    "it has format {format}, and this program reads format {FORMAT}"
                )));
            }
            None => return Err(refused("it has no `format`".into())),
        }
        toml::from_str(text).map_err(|error| refused(error.to_string()))
    }

    /// Reads the file of a world's directory; `None` when there is none.
    pub(crate) fn read(world: impl AsFd, place: &Path) -> Result<Option<Self>> {
        match files::read_text(world, FILE_NAME, place, MAX_BYTES)? {
            Some(text) => Self::parse(&text, &place.join(FILE_NAME)).map(Some),
            None => Ok(None),
        }
    }

    /// Writes the file of a world's directory.
    pub(crate) fn write(&self, world: impl AsFd, place: &Path, durable: Durable) -> Result<std::fs::File> {
        files::replace(world, FILE_NAME, self.to_text()?.as_bytes(), place, durable)
    }

    /// The fields that are part of the digest, by name: what the world is, not where or under which name it lies.
    pub(crate) fn identity(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        let mut put = |key: &str, value: String| {
            if !value.is_empty() {
                fields.insert(key.to_owned(), value);
            }
        };
        put("setup", self.setup.as_str().into());
        put(
            "laid_down",
            self.laid_down.map(LaidDown::as_str).unwrap_or_default().into(),
        );
        put(
            "parent.digest",
            self.parent
                .as_ref()
                .map(|parent| parent.digest.to_string())
                .unwrap_or_default(),
        );
        if let Some(Source { medium, edition }) = &self.source {
            put("source.medium.size_bytes", medium.size_bytes.to_string());
            put("source.medium.label", medium.label.clone());
            put("source.edition.index", edition.index.to_string());
            put("source.edition.name", edition.name.clone());
            put("source.edition.edition_id", edition.edition_id.clone());
            put("source.edition.installation_type", edition.installation_type.clone());
            put("source.edition.version", edition.version.clone());
            put("source.edition.build", edition.build.clone());
            put("source.edition.architecture", edition.architecture.clone());
            put("source.edition.languages", edition.languages.join(","));
        }
        for (key, value) in &self.options {
            fields.insert(format!("options.{key}"), value.clone());
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> WorldConf {
        WorldConf {
            format: FORMAT,
            digest: Some(Digest::of(b"x")),
            setup: SetupState::Done,
            laid_down: Some(LaidDown::Native),
            parent: Some(Parent {
                name: "base \"1\"".into(),
                digest: Digest::of(b"y"),
            }),
            source: Some(Source {
                medium: Medium {
                    size_bytes: 7 << 30,
                    label: "CCCOMA\n".into(),
                    sha256: Some("ab".into()),
                },
                edition: Edition {
                    index: 6,
                    name: "Windows 11 Pro".into(),
                    ..Edition::default()
                },
            }),
            options: BTreeMap::from([("deterministic".into(), "yes".into()), ("empty".into(), String::new())]),
            maps: BTreeMap::from([("D:".into(), "/srv/data".into())]),
        }
    }

    fn parse(text: &str) -> Result<WorldConf> {
        WorldConf::parse(text, Path::new(FILE_NAME))
    }

    #[test]
    fn the_text_of_a_conf_is_this_and_reads_back() {
        let text = full().to_text().unwrap();
        assert_eq!(
            text,
            r#"format = 1
digest = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
setup = "done"
laid_down = "native"

[parent]
name = 'base "1"'
digest = "sha256:a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa"

[source.medium]
size_bytes = 7516192768
label = """
CCCOMA
"""
sha256 = "ab"

[source.edition]
index = 6
name = "Windows 11 Pro"

[options]
deterministic = "yes"
empty = ""

[maps]
"D:" = "/srv/data"
"#
        );
        assert_eq!(parse(&text).unwrap(), full());
        assert_eq!(parse("format = 1\n").unwrap(), WorldConf::default());
    }

    #[test]
    fn an_unknown_field_or_format_is_refused_and_named() {
        for (text, named) in [
            ("format = 2\nnew = 1\n", "format 2"),
            ("setup = 'done'\n", "no `format`"),
            ("format = 1\nsecret = 1\n", "secret"),
            ("format = 1\n[parent]\nname = 'x'\n", "digest"),
            ("format = 1\ndigest = 'sha256:12'\n", "64 lower-case hex digits"),
            ("format = 1\nsetup = 'half'\n", "half"),
            ("format = 1\nformat = 1\n", "duplicate"),
            ("format = ", "line 1"),
        ] {
            match parse(text) {
                Err(error @ Error::Conf { .. }) => assert!(error.to_string().contains(named), "{text}: {error}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_a_host_knows_is_no_part_of_the_identity() {
        let mut other = full();
        other.digest = None;
        other.maps.clear();
        if let (Some(source), Some(parent)) = (&mut other.source, &mut other.parent) {
            source.medium.sha256 = None;
            parent.name = "renamed".into();
        }
        assert_eq!(other.identity(), full().identity());
        other.options.remove("empty");
        assert_ne!(other.identity(), full().identity());
    }

    proptest! {
        #[test]
        fn a_damaged_conf_is_refused_or_read_and_never_more(at in 0usize..600, to in any::<u8>(), cut in 0usize..600) {
            let mut bytes = full().to_text().unwrap().into_bytes();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            bytes.truncate(cut.max(400));
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(conf) = parse(&text)
            {
                prop_assert_eq!(parse(&conf.to_text().unwrap()).unwrap(), conf);
            }
        }

        #[test]
        fn any_value_reads_back(label in any::<String>(), key in any::<String>(), value in any::<String>()) {
            let mut conf = full();
            if let Some(source) = &mut conf.source {
                source.medium.label = label;
            }
            conf.options.insert(key, value);
            prop_assert_eq!(parse(&conf.to_text().unwrap()).unwrap(), conf);
        }
    }
}
