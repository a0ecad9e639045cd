// SPDX-License-Identifier: GPL-3.0-or-later
//! The editions of a medium: every installable image of its image files, and the other images beside them.

use std::path::Path;

use super::ImportError;
use super::select::{EditionNumber, select};
use crate::medium::{Entry, Medium, MediumError};
use crate::wim::{ImageInfo, ImageKind, Wim};

/// An image file of a medium (`sources/install.wim`) with its parts, opened.
#[derive(Debug)]
pub struct ImageFile {
    /// Its path on the medium.
    pub path: String,
    /// `x64`, `x86` or `arm64` where the medium has several image files.
    pub folder: Option<String>,
    /// The image file.
    pub wim: Wim,
}

/// One image of a medium.
#[derive(Debug, Clone, Copy)]
pub struct Edition<'a> {
    /// The file that holds it.
    pub file: &'a ImageFile,
    /// What the file's XML says of it.
    pub image: &'a ImageInfo,
}

impl Edition<'_> {
    /// What to type to take it.
    #[must_use]
    pub fn number(&self) -> EditionNumber {
        EditionNumber {
            folder: self.file.folder.clone(),
            index: self.image.index,
        }
    }

    /// Whether it can be installed: neither Windows PE nor the medium's own files.
    #[must_use]
    pub fn is_installable(&self) -> bool {
        !matches!(self.image.kind(), ImageKind::WindowsPe | ImageKind::SetupMedia)
    }
}

/// A medium with its image files open.
#[derive(Debug)]
pub struct Editions {
    medium: Medium,
    files: Vec<ImageFile>,
}

impl Editions {
    /// Opens the medium at `path` and the header and XML of each image file; nothing else is read.
    ///
    /// # Errors
    /// [`ImportError::Medium`] when it cannot be read or is no Windows medium, [`ImportError::Wim`] for a damaged or
    /// unserved image file.
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        let medium = Medium::open(path)?;
        let mut found = medium.windows_sources()?;
        found.retain(|sources| sources.install.is_some());
        if found.is_empty() {
            return Err(ImportError::NoEditions { path: path.to_owned() });
        }
        let several = found.len() > 1;
        let mut files = Vec::new();
        for sources in &found {
            let Some(install) = &sources.install else { continue };
            let folder = sources
                .path
                .split_once('/')
                .map_or("", |(folder, _)| folder)
                .to_lowercase();
            let wim = open_image(&medium, install)?;
            // The XML is what every caller wants next, and what is wrong with it belongs here.
            wim.info().map_err(|source| ImportError::Wim {
                path: install.path().to_owned(),
                source,
            })?;
            files.push(ImageFile {
                path: install.path().to_owned(),
                folder: several.then_some(folder),
                wim,
            });
        }
        Ok(Self { medium, files })
    }

    /// The medium.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Every image, in the order of files and indexes, whether it can be installed or not.
    pub fn images(&self) -> impl Iterator<Item = Edition<'_>> {
        self.files.iter().flat_map(|file| {
            // `open` has read the XML of each file.
            let images = file.wim.info().map(|info| info.images.as_slice()).unwrap_or_default();
            images.iter().map(move |image| Edition { file, image })
        })
    }

    /// The one edition that `wanted` names.
    ///
    /// # Errors
    /// [`ImportError::Select`] with candidates, or [`ImportError::NotInstallable`] when the index is that of Windows
    /// PE or of the medium's own files.
    pub fn select(&self, wanted: &str) -> Result<Edition<'_>, ImportError> {
        let (installable, others): (Vec<_>, Vec<_>) = self.images().partition(Edition::is_installable);
        let numbered: Vec<_> = installable
            .iter()
            .map(|edition| (edition.number(), edition.image))
            .collect();
        match select(&numbered, wanted) {
            Ok(position) => Ok(installable[position]),
            Err(error) => {
                let number = wanted.trim().to_lowercase();
                match others.iter().find(|other| other.number().to_string() == number) {
                    Some(other) => Err(ImportError::NotInstallable {
                        number: other.number(),
                        name: other.image.shown_name().0,
                        kind: kind_words(other.image.kind()),
                    }),
                    None => Err(error.into()),
                }
            }
        }
    }
}

/// What an image is, in words.
#[must_use]
pub fn kind_words(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::OperatingSystem => "operating system",
        ImageKind::Unstaged => "unstaged operating system",
        ImageKind::WindowsPe => "Windows PE",
        ImageKind::SetupMedia => "files of the medium",
        _ => "image of unknown kind",
    }
}

/// Opens an image file with its parts, which are looked for beside it.
///
/// # Errors
/// [`ImportError::Wim`] naming the file, or [`ImportError::Medium`].
pub fn open_image(medium: &Medium, image: &Entry) -> Result<Wim, ImportError> {
    let source = medium.open_file(image)?;
    let folder = image.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut failed: Option<MediumError> = None;
    let wim = Wim::open_split(source, &mut |name| {
        let path = if folder.is_empty() {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        };
        match medium
            .lookup(&path)
            .and_then(|entry| entry.map(|entry| medium.open_file(&entry)).transpose())
        {
            Ok(part) => part,
            Err(error) => {
                failed.get_or_insert(error);
                None
            }
        }
    });
    // A part that cannot be read says more than that it is missing.
    if let Some(error) = failed {
        return Err(error.into());
    }
    wim.map_err(|source| ImportError::Wim {
        path: image.path().to_owned(),
        source,
    })
}
