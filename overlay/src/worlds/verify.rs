// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a sealed world is still what it was.

use std::collections::BTreeSet;
use std::fs::File;

use super::World;
use crate::beneath::{open_dir, open_file_entry, open_root};
use crate::error::{Error, Result, Trying};
use crate::listing;
use crate::manifest::{Change, Difference, FILES, Manifest, SealOptions, What};
use crate::store::{ExtraKey, MANIFEST, NAMES, REGISTRY_TABLE, RESERVED, SECURITY};

impl World {
    /// Reads every byte and all metadata, and names what is not as it was sealed. If the registry is another, its keys
    /// and values are named, too.
    ///
    /// # Errors
    /// As [`World::stored_manifest`] and [`Manifest::compute`].
    pub fn verify(&self, options: &SealOptions<'_>) -> Result<Vec<Difference>> {
        let expected = self.stored_manifest()?;
        let (found, stores) = Manifest::compute_with_stores(&self.path, &self.conf, options)?;
        let mut differences = expected.compare(&found);
        if differences.iter().any(|difference| difference.what == What::Registry) {
            differences.extend(self.registry_differences()?);
        }
        differences.extend(self.reserved_differences(&stores)?);
        Ok(differences)
    }

    /// Empty when there is no table, or the registry cannot be read: that it is another is known all the same.
    fn registry_differences(&self) -> Result<Vec<Difference>> {
        let place = self.path.join(FILES).join(RESERVED);
        let world = open_root(&self.path).trying("open", &self.path)?;
        let nt = open_dir(&world, &format!("{FILES}/{RESERVED}")).trying("open", &place)?;
        let Ok(table) = open_file_entry(&nt, REGISTRY_TABLE) else {
            return Ok(Vec::new());
        };
        let path = self.registry_path();
        let Ok(registry) = std::fs::read(&path) else {
            return Ok(Vec::new());
        };
        match crate::registry::compare(File::from(table), &place.join(REGISTRY_TABLE), &registry, &path) {
            Err(Error::Registry { .. }) => Ok(Vec::new()),
            result => result,
        }
    }

    /// What is in `:nt` and no file has; the manifest speaks only of what files have.
    fn reserved_differences(&self, stores: &BTreeSet<ExtraKey>) -> Result<Vec<Difference>> {
        let place = self.path.join(FILES).join(RESERVED);
        let world = open_root(&self.path).trying("open", &self.path)?;
        let nt = open_dir(&world, &format!("{FILES}/{RESERVED}")).trying("open", &place)?;
        let known: BTreeSet<String> = stores.iter().map(ToString::to_string).collect();
        let mut names: Vec<String> = listing::raw(&nt, &place)?.into_iter().map(|(name, _)| name).collect();
        names.retain(|name| {
            ![MANIFEST, NAMES, REGISTRY_TABLE, SECURITY].contains(&name.as_str()) && !known.contains(name)
        });
        names.sort();
        let added = |path| Difference {
            what: What::Reserved,
            path,
            change: Change::Added,
        };
        Ok(names.into_iter().map(added).collect())
    }
}
