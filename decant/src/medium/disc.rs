// SPDX-License-Identifier: GPL-3.0-or-later
//! A plain file or block device as a medium: which file system is on it, and which side of a bridge disc is meant.
//!
//! Microsoft's discs carry a UDF volume with everything and an ISO 9660 volume with nothing but README.TXT; other
//! writers put the same tree on both. So the side with a `sources` directory is taken, UDF first.

use std::path::Path;
use std::sync::Arc;

use super::bare::{self, BareImage};
use super::host_file::HostFile;
use super::{FileSystem, Inner, MediumError, MediumKind, ReadAt, SOURCES_PLACES, iso9660, lookup, name, udf, unknown};

/// Opens a file by its content.
pub(super) fn open(path: &Path) -> Result<Inner, MediumError> {
    let disc = Arc::new(HostFile::open(path)?);
    if disc.len_bytes() == 0 {
        return Err(MediumError::Empty { path: path.to_owned() });
    }
    if bare::is_image(&disc.up_to(0, 8)?) {
        let image = BareImage::open(path)?;
        let kind = MediumKind::BareImage {
            name: image.name().to_owned(),
        };
        return Ok(inner(&disc, kind, None, image));
    }
    match udf::Volume::open(&disc) {
        Ok(Some(volume)) => beside_udf(&disc, volume),
        Ok(None) => iso_alone(&disc),
        Err(truncated @ MediumError::Truncated { .. }) => Err(truncated),
        // The damage is worth nothing if the Windows files are on the other side.
        Err(error) => match iso9660::Volume::open(&disc) {
            Ok(Some(iso)) if holds_sources(&iso).unwrap_or(false) => Ok(from_iso(&disc, iso, true)),
            _ => Err(error),
        },
    }
}

fn iso_alone(disc: &Arc<HostFile>) -> Result<Inner, MediumError> {
    match iso9660::Volume::open(disc)? {
        Some(volume) => Ok(from_iso(disc, volume, false)),
        None => Err(MediumError::NotAMedium {
            path: disc.path().to_owned(),
            seen: match udf::recognized_only(disc)? {
                Some(seen) => seen,
                None => unknown::describe(disc)?,
            },
        }),
    }
}

/// The UDF side, unless only the other one has what is looked for.
fn beside_udf(disc: &Arc<HostFile>, volume: udf::Volume) -> Result<Inner, MediumError> {
    if !holds_sources(&volume)? {
        // An ISO 9660 side that cannot be read takes nothing from a UDF side that can.
        if let Ok(Some(iso)) = iso9660::Volume::open(disc) {
            let iso_is_meant =
                holds_sources(&iso).unwrap_or(false) || (is_empty(&volume)? && !is_empty(&iso).unwrap_or(true));
            if iso_is_meant {
                return Ok(from_iso(disc, iso, true));
            }
        }
    }
    let kind = volume.kind(iso9660::is_present(disc)?);
    let label = volume.label();
    Ok(inner(disc, kind, label, volume))
}

fn from_iso(disc: &Arc<HostFile>, volume: iso9660::Volume, udf_too: bool) -> Inner {
    let kind = volume.kind(udf_too);
    let label = volume.label();
    inner(disc, kind, label, volume)
}

fn inner(disc: &Arc<HostFile>, kind: MediumKind, label: Option<String>, files: impl FileSystem + 'static) -> Inner {
    Inner {
        path: disc.path().to_owned(),
        kind,
        label: label.filter(|label| !label.is_empty()),
        size_bytes: Some(disc.len_bytes()),
        files: Box::new(files),
    }
}

fn holds_sources(files: &dyn FileSystem) -> Result<bool, MediumError> {
    for place in SOURCES_PLACES {
        let found = lookup(files, name::components(place, &['/']))?;
        if found.is_some_and(|entry| entry.is_directory()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_empty(files: &dyn FileSystem) -> Result<bool, MediumError> {
    Ok(files.children(&files.root())?.is_empty())
}
