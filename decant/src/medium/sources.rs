// SPDX-License-Identifier: GPL-3.0-or-later
//! Where Windows lies on a medium, and whether it does.

use super::{Entry, Medium, MediumError, MediumKind};

/// The directories in which Windows media keep their images, in the order in which they are looked at. A medium for
/// both architectures has them under `x64/` and `x86/`.
pub const SOURCES_PLACES: [&str; 4] = ["sources", "x64/sources", "x86/sources", "arm64/sources"];

/// What set-up images are called, in the order in which they are looked for.
const INSTALL_NAMES: [&str; 3] = ["install.wim", "install.esd", "install.swm"];
const BOOT_NAME: &str = "boot.wim";
/// How many root names an error shows.
const SHOWN_NAMES: usize = 8;

/// A `sources` directory of a medium and the images in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourcesDirectory {
    /// Its path on the medium, as stored; empty for a bare image.
    pub path: String,
    /// `install.wim`, else `install.esd`, else `install.swm`; for a bare image the image itself.
    pub install: Option<Entry>,
    /// `boot.wim`.
    pub boot: Option<Entry>,
}

impl Medium {
    /// The `sources` directories, in the order of [`SOURCES_PLACES`]; case does not matter. For a bare image there is
    /// one, with the image as `install`.
    ///
    /// # Errors
    /// What keeps a directory from being read.
    pub fn find_sources(&self) -> Result<Vec<SourcesDirectory>, MediumError> {
        if let MediumKind::BareImage { name } = self.kind() {
            let install = self.lookup(name)?;
            return Ok(vec![SourcesDirectory {
                path: String::new(),
                install,
                boot: None,
            }]);
        }
        let mut found = Vec::new();
        for place in SOURCES_PLACES {
            let Some(directory) = self.lookup(place)?.filter(Entry::is_directory) else {
                continue;
            };
            let mut install = None;
            for name in INSTALL_NAMES {
                if install.is_none() {
                    install = self.file_in(&directory, name)?;
                }
            }
            let boot = self.file_in(&directory, BOOT_NAME)?;
            found.push(SourcesDirectory {
                path: directory.path,
                install,
                boot,
            });
        }
        Ok(found)
    }

    /// The `sources` directories that hold an image: what makes a medium a Windows installation medium.
    ///
    /// # Errors
    /// [`MediumError::NotWindows`], which names what the medium holds instead; what keeps it from being read.
    pub fn windows_sources(&self) -> Result<Vec<SourcesDirectory>, MediumError> {
        let mut sources = self.find_sources()?;
        let without_image = sources.first().map(|directory| directory.path.clone());
        sources.retain(|directory| directory.install.is_some() || directory.boot.is_some());
        if !sources.is_empty() {
            return Ok(sources);
        }
        let found = match without_image {
            Some(path) => format!("its {path} directory holds {}", self.some_names(&path)?),
            None => format!("its root holds {}", self.some_names("")?),
        };
        Err(MediumError::NotWindows {
            path: self.path().to_owned(),
            found,
        })
    }

    /// A file of a directory, whatever its case; a link or directory of that name is an error that says so.
    fn file_in(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError> {
        let entry = self.files().find(directory, name)?;
        if let Some(entry) = &entry {
            self.check_file(entry)?;
        }
        Ok(entry)
    }

    fn some_names(&self, directory: &str) -> Result<String, MediumError> {
        let entries = self.read_dir(directory)?;
        let shown: Vec<&str> = entries.iter().take(SHOWN_NAMES).map(Entry::name).collect();
        Ok(match entries.len().saturating_sub(SHOWN_NAMES) {
            _ if entries.is_empty() => "nothing".to_owned(),
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        })
    }
}
