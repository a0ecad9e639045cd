// SPDX-License-Identifier: GPL-3.0-or-later
//! The registry stage: an image's hives, their logs replayed, merged into one `registry.hiv`, and counted again.

use hive::log::recover;
use hive::{Counts, Hive, Merge, Strictness, WriteOptions, count};
use overlay::Staging;
use serde::Serialize;

use super::details::Examined;
use super::editions::Edition;
use super::{HiveFile, ImportError};
use crate::wim::ImageMetadata;

/// The most that one hive may have: cells are addressed with 31 bits.
const MAX_HIVE_BYTES: u64 = 1 << 31;

/// What Windows calls a hive's logs: the two of today, and the one of before Windows Vista.
const LOG_SUFFIXES: [&str; 3] = [".LOG1", ".LOG2", ".LOG"];

/// A hive that was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergedHive {
    /// Its path in the image.
    pub file: String,
    /// The key that its root became.
    pub key: String,
    /// Keys, the root included. The same in the source and in `registry.hiv`.
    pub keys: u64,
    /// Values. The same in the source and in `registry.hiv`.
    pub values: u64,
    /// Keys and values of the source that are damaged and were left out, because the person asked for that.
    pub damaged: u64,
}

/// A hive file of the image, its logs replayed.
struct Source<'a> {
    hive: &'a HiveFile,
    bytes: Vec<u8>,
}

/// Merges the hives into the staging directory's `registry.hiv` and tells `merged` of each.
///
/// # Errors
/// [`ImportError::Hive`] for a damaged hive or log, [`ImportError::HiveCounts`] when what was written does not hold
/// what was read.
pub(super) fn merge(
    edition: &Edition<'_>,
    examined: &Examined,
    staging: &Staging,
    skip_damaged: bool,
    merged: &dyn Fn(&MergedHive),
) -> Result<Vec<MergedHive>, ImportError> {
    let sources = examined
        .hives
        .iter()
        .map(|hive| {
            Ok(Source {
                hive,
                bytes: read_hive(edition, &examined.metadata, &hive.file)?,
            })
        })
        .collect::<Result<Vec<_>, ImportError>>()?;
    let strictness = if skip_damaged {
        Strictness::WalkOn
    } else {
        Strictness::Strict
    };
    // The image's own time: a clock would make two imports differ.
    let time = edition.image.last_modification_time.or(edition.image.creation_time);
    let options = WriteOptions {
        timestamp: time.map_or(0, |time| time.0),
        file_name: "registry.hiv".into(),
        strictness,
    };
    let mut merge = Merge::new(options);
    let mut expected = Vec::new();
    for source in &sources {
        let failed = |error| failed(source.hive, error);
        let hive = match strictness {
            Strictness::Strict => Hive::open(&source.bytes).map_err(failed)?,
            Strictness::WalkOn => Hive::open_damaged(&source.bytes).map_err(failed)?.0,
        };
        let (counts, damage) = count(hive.root().map_err(failed)?, strictness).map_err(failed)?;
        expected.push((counts, damage.nr_found));
        merge.mount(&source.hive.key, hive).map_err(failed)?;
    }
    // Each source was read whole above, so an error here is about what all of them make together.
    let whole = merge.build().map_err(|source| ImportError::Hive {
        file: "registry.hiv".to_owned(),
        source,
    })?;

    let path = staging.registry_path();
    std::fs::write(&path, &whole.bytes).map_err(|source| ImportError::Write { path, source })?;
    let found = count_in(&whole.bytes, &examined.hives)?;
    let mut reports = Vec::new();
    for ((source, (expected, damaged)), found) in sources.iter().zip(expected).zip(found) {
        if found != expected {
            return Err(ImportError::HiveCounts {
                file: source.hive.file.clone(),
                key: source.hive.key.clone(),
                expected_keys: expected.keys,
                expected_values: expected.values,
                found_keys: found.keys,
                found_values: found.values,
            });
        }
        let report = report(source.hive, found, damaged);
        merged(&report);
        reports.push(report);
    }
    Ok(reports)
}

/// What `registry.hiv` in the staging directory holds, for an import that goes on behind this stage.
///
/// # Errors
/// [`ImportError::Hive`] or [`ImportError::Write`] when it cannot be read.
pub(super) fn count_again(examined: &Examined, staging: &Staging) -> Result<Vec<MergedHive>, ImportError> {
    let path = staging.registry_path();
    let bytes = std::fs::read(&path).map_err(|source| ImportError::Write { path, source })?;
    let counts = count_in(&bytes, &examined.hives)?;
    // What an earlier run left out, it has told.
    Ok(examined
        .hives
        .iter()
        .zip(counts)
        .map(|(hive, counts)| report(hive, counts, 0))
        .collect())
}

fn report(hive: &HiveFile, counts: Counts, damaged: u64) -> MergedHive {
    MergedHive {
        file: hive.file.clone(),
        key: hive.key.clone(),
        keys: counts.keys,
        values: counts.values,
        damaged,
    }
}

fn failed(hive: &HiveFile, source: hive::Error) -> ImportError {
    ImportError::Hive {
        file: hive.file.clone(),
        source,
    }
}

/// Counts what a merged registry holds under the key of each hive.
fn count_in(registry: &[u8], hives: &[HiveFile]) -> Result<Vec<Counts>, ImportError> {
    let merged = Hive::open(registry).map_err(|source| ImportError::Hive {
        file: "registry.hiv".to_owned(),
        source,
    })?;
    hives
        .iter()
        .map(|hive| {
            let failed = |error| failed(hive, error);
            match merged.open_path(&hive.key).map_err(failed)? {
                Some(key) => Ok(count(key, Strictness::Strict).map_err(failed)?.0),
                None => Ok(Counts::default()),
            }
        })
        .collect()
}

/// Reads a hive out of the image and replays its logs, where it has any.
fn read_hive(edition: &Edition<'_>, metadata: &ImageMetadata, file: &str) -> Result<Vec<u8>, ImportError> {
    let primary = read_file(edition, metadata, file)?.unwrap_or_default();
    let mut logs = Vec::new();
    for suffix in LOG_SUFFIXES {
        // An empty log is normal, and says as much as none.
        logs.extend(read_file(edition, metadata, &format!("{file}{suffix}"))?.filter(|log| !log.is_empty()));
    }
    let logs: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    let recovered = recover(&primary, &logs).map_err(|source| ImportError::Hive {
        file: file.to_owned(),
        source,
    })?;
    Ok(recovered.0.into_owned())
}

fn read_file(edition: &Edition<'_>, metadata: &ImageMetadata, file: &str) -> Result<Option<Vec<u8>>, ImportError> {
    let Some(dentry) = metadata.lookup(file).map(|id| metadata.get(id)) else {
        return Ok(None);
    };
    let Some(sha1) = dentry.data else {
        return Ok(Some(Vec::new()));
    };
    let wim = &edition.file.wim;
    let failed = |source| ImportError::Wim {
        path: format!("{file} in {}", edition.file.path),
        source,
    };
    // The plan has found every blob.
    let Some(blob) = wim.blobs().map_err(failed)?.find(&sha1) else {
        return Ok(None);
    };
    wim.read_blob(blob, MAX_HIVE_BYTES).map(Some).map_err(failed)
}
