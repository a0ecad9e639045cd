// SPDX-License-Identifier: GPL-3.0-or-later
//! A bare WIM, ESD or SWM: its folder, seen through a filter that lets only images by.
//!
//! Split parts (`install2.swm` beside `install.swm`) are found this way, and the rest of a person's downloads is not
//! part of the medium.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::directory::HostDirectory;
use super::name::same_name;
use super::{Entry, Extent, FileSystem, MediumError, ReadAt};

/// The first bytes of a WIM, of any kind (`MSWIM`), and of wimlib's pipable form.
const MAGICS: [&[u8; 8]; 2] = [b"MSWIM\0\0\0", b"WLPWM\0\0\0"];
const IMAGE_EXTENSIONS: [&str; 3] = ["wim", "esd", "swm"];

/// Whether a file that begins with `head` is a WIM.
pub(super) fn is_image(head: &[u8]) -> bool {
    MAGICS.iter().any(|magic| head.starts_with(*magic))
}

/// The folder of a bare image.
#[derive(Debug)]
pub(super) struct BareImage {
    folder: HostDirectory,
    name: String,
}

impl BareImage {
    /// A link that the person gave is resolved first, so that the parts beside the real file are found.
    pub(super) fn open(path: &Path) -> Result<Self, MediumError> {
        let path = path.canonicalize().map_err(|source| MediumError::Open {
            path: path.to_owned(),
            source,
        })?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Ok(Self {
            folder: HostDirectory::open(parent)?,
            name,
        })
    }

    /// The image's name in its folder.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The image itself, and what may be another part of it by its extension.
    fn belongs(&self, entry: &Entry) -> bool {
        let extension = |name| Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
        let own = extension(self.name.as_str());
        let its = extension(entry.name());
        let is_image_name =
            !its.is_empty() && (same_name(its, own) || IMAGE_EXTENSIONS.iter().any(|known| same_name(its, known)));
        entry.name() == self.name || (entry.is_file() && is_image_name)
    }
}

impl FileSystem for BareImage {
    fn root(&self) -> Entry {
        self.folder.root()
    }

    fn children(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        let mut entries = self.folder.children(directory)?;
        entries.retain(|entry| self.belongs(entry));
        Ok(entries)
    }

    fn find(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError> {
        Ok(self.folder.find(directory, name)?.filter(|entry| self.belongs(entry)))
    }

    fn open(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        self.folder.open(file)
    }

    fn extents(&self, _file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        Ok(None)
    }

    fn identity(&self, _directory: &Entry) -> Option<(u64, u64)> {
        None
    }
}
