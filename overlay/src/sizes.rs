// SPDX-License-Identifier: GPL-3.0-or-later
//! How much a world has and takes.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};

use crate::beneath::{open_dir, open_dir_entry, open_root};
use crate::error::{Error, Result, Trying};
use crate::layer::{links_of, size_of};
use crate::listing;
use crate::store::RESERVED;
use crate::tree::MAX_DEPTH;

/// A world's own part, without its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Sizes {
    /// Files, each hard-link group once.
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Further names of files.
    pub links: u64,
    /// The bytes of files and streams as their lengths say, each hard-link group once.
    pub apparent_bytes: u64,
    /// What the file system has set aside for all of the world, registry and metadata with it.
    pub allocated_bytes: u64,
    /// The length of `registry.hiv`.
    pub registry_bytes: u64,
}

/// Adds up a world's directory.
pub(crate) fn sizes(world: &Path) -> Result<Sizes> {
    let root = open_root(world).trying("open", world)?;
    let mut sizes = Sizes::default();
    for (name, _) in listing::raw(&root, world)? {
        let stat = statat(&root, &*name, AtFlags::SYMLINK_NOFOLLOW).trying("look at", world.join(&name))?;
        sizes.allocated_bytes += allocated(&stat);
        if name == crate::manifest::REGISTRY {
            sizes.registry_bytes = size_of(&stat);
        }
    }
    let place = world.join(crate::manifest::FILES);
    let files = open_dir_entry(&root, crate::manifest::FILES).trying("open", &place)?;
    walk(&files, &place, &mut sizes)?;
    Ok(sizes)
}

fn walk(root: &OwnedFd, place: &Path, sizes: &mut Sizes) -> Result<()> {
    let mut seen = HashSet::new();
    let mut todo = vec![(String::new(), 0)];
    while let Some((path, depth)) = todo.pop() {
        let at = place.join(&path);
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep {
                path: at.display().to_string(),
                limit: MAX_DEPTH,
            });
        }
        let reserved = path == RESERVED || path.starts_with(":nt/");
        let dir = open_dir(root, &path).trying("open", &at)?;
        sizes.allocated_bytes += if path.is_empty() {
            0
        } else {
            allocated(&fstat(&dir).trying("look at", &at)?)
        };
        sizes.directories += u64::from(!reserved);
        for (name, kind) in listing::raw(&dir, &at)? {
            let below = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}/{name}")
            };
            if kind == FileType::Directory {
                todo.push((below, depth + 1));
                continue;
            }
            let stat = statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW).trying("look at", at.join(&name))?;
            if links_of(&stat) > 1 && !seen.insert(stat.st_ino) {
                sizes.links += u64::from(!reserved);
                continue;
            }
            sizes.allocated_bytes += allocated(&stat);
            // Of `:nt`, the streams are the person's and the tables are ours.
            if !reserved {
                sizes.files += 1;
                sizes.apparent_bytes += size_of(&stat);
            } else if path.ends_with("/streams") {
                sizes.apparent_bytes += size_of(&stat);
            }
        }
    }
    Ok(())
}

/// What Linux counts in units of 512 bytes.
fn allocated(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}
