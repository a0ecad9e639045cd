// SPDX-License-Identifier: GPL-3.0-or-later
//! What an image asks for: directories, inodes with all their names, and the blobs that fill them.
//!
//! Built and checked before anything is written; the order of everything here comes from names, never from threads.

use std::collections::HashMap;

use overlay::{ExtraKey, FileTime, NtMetadata, NtName, NtPath, PathId, SecurityId, ShortName, StoredName, StreamName};

use super::ApplyError;
use crate::wim::{BlobTable, Dentry, DentryId, ImageMetadata, Sha1Hash};
use overlay::tree::{Dir, FileTree};

/// The largest reparse data that NT takes: MAXIMUM_REPARSE_DATA_BUFFER_SIZE less its 8-byte header ([MS-FSCC] 2.1.2).
const MAX_REPARSE_BYTES: u64 = 16 * 1024 - 8;

/// What a file of the host costs beside its bytes, for the estimate of room: one block, inode and name included.
const OVERHEAD_BYTES: u64 = 4096;

/// A directory to make; parents come before children.
#[derive(Debug)]
struct Directory {
    dentry: DentryId,
    /// Position of the parent, and the name there; none for the root.
    place: Option<(usize, StoredName)>,
    path: NtPath,
}

/// A file to make, under all its names.
#[derive(Debug)]
pub(super) struct Inode {
    /// The dentry whose metadata counts: that of the first name.
    pub dentry: DentryId,
    /// Directory and stored name of each name, sorted by path.
    pub names: Vec<(usize, StoredName)>,
    /// The path of the first name.
    pub path: NtPath,
    /// The short name and the path it belongs to.
    short_name: Option<(ShortName, NtPath)>,
}

/// What a blob fills.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The content of the inode at this position.
    File(usize),
    /// A named stream of a file or directory.
    Stream(ExtraKey, StreamName),
    /// The reparse data of a file or directory.
    Reparse(ExtraKey),
}

/// A name that Linux could not hold as it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EscapedName {
    /// The NT path.
    pub path: String,
    /// The name under which its last component is stored.
    pub stored: String,
}

/// A blob that an image needs and the WIM lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingBlob {
    /// Its SHA-1.
    pub sha1: Sha1Hash,
    /// A file that needs it.
    pub path: String,
}

/// What a lay-down will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes of file content, hard links counted once.
    pub content_bytes: u64,
    /// Files, hard links counted once.
    pub files: u64,
    /// Names of files.
    pub file_names: u64,
    /// Directories.
    pub directories: u64,
    /// Content and the host's overhead together.
    pub disk_bytes: u64,
}

/// Everything that an image asks for.
#[derive(Debug)]
pub struct Inventory {
    directories: Vec<Directory>,
    pub(super) inodes: Vec<Inode>,
    /// Positions of the inodes that no blob fills.
    pub(super) empty_inodes: Vec<usize>,
    /// Streams that no blob fills.
    pub(super) empty_streams: Vec<(ExtraKey, StreamName)>,
    pub(super) targets: HashMap<Sha1Hash, Vec<Target>>,
    paths_of_extras: HashMap<ExtraKey, NtPath>,
    escaped: Vec<EscapedName>,
    encrypted: Vec<String>,
}

/// Dentries that name one inode agree on all of this; those that do not are apart, as for wimlib and NTFS.
type LinkKey = (u64, Option<Sha1Hash>, u32, Option<u32>);

impl Inventory {
    /// Takes stock of an image.
    ///
    /// # Errors
    /// [`ApplyError::Name`] for a name that cannot be kept; nothing was written.
    pub fn new(metadata: &ImageMetadata) -> Result<Self, ApplyError> {
        let root = Directory {
            dentry: metadata.root(),
            place: None,
            path: NtPath::root(),
        };
        let mut inventory = Self {
            directories: vec![root],
            inodes: Vec::new(),
            empty_inodes: Vec::new(),
            empty_streams: Vec::new(),
            targets: HashMap::new(),
            paths_of_extras: HashMap::new(),
            escaped: Vec::new(),
            encrypted: Vec::new(),
        };
        let mut links: HashMap<LinkKey, usize> = HashMap::new();
        let mut next = 0;
        while next < inventory.directories.len() {
            inventory.take_directory(metadata, next, &mut links)?;
            next += 1;
        }
        for position in 0..inventory.inodes.len() {
            let inode = &mut inventory.inodes[position];
            inode.names.sort_by_cached_key(|(directory, stored)| {
                (
                    inventory.directories[*directory].path.to_string(),
                    stored.as_str().to_owned(),
                )
            });
        }
        inventory.take_contents(metadata)?;
        Ok(inventory)
    }

    fn take_directory(
        &mut self,
        metadata: &ImageMetadata,
        position: usize,
        links: &mut HashMap<LinkKey, usize>,
    ) -> Result<(), ApplyError> {
        let parent_path = self.directories[position].path.clone();
        let mut children: Vec<(NtName, DentryId)> = metadata
            .children(self.directories[position].dentry)
            .map(|id| {
                let name = NtName::new(metadata.get(id).name).map_err(|error| ApplyError::Name {
                    path: metadata.path(id),
                    reason: error.to_string(),
                })?;
                Ok((name, id))
            })
            .collect::<Result<_, ApplyError>>()?;
        children.sort_by(|(one, _), (other, _)| one.units().cmp(other.units()));
        let names: Vec<NtName> = children.iter().map(|(name, _)| name.clone()).collect();
        let stored = overlay::stored_names(&names).map_err(|error| ApplyError::Name {
            path: parent_path.to_string(),
            reason: error.to_string(),
        })?;
        for ((name, id), stored) in children.into_iter().zip(stored) {
            let path = parent_path.join(&name);
            if !stored.is_verbatim() {
                self.escaped.push(EscapedName {
                    path: path.to_string(),
                    stored: stored.as_str().to_owned(),
                });
            }
            let dentry = metadata.get(id);
            if dentry.is_directory() {
                self.directories.push(Directory {
                    dentry: id,
                    place: Some((position, stored)),
                    path,
                });
            } else {
                self.take_file(&dentry, position, stored, path, links)?;
            }
        }
        Ok(())
    }

    fn take_file(
        &mut self,
        dentry: &Dentry<'_>,
        directory: usize,
        stored: StoredName,
        path: NtPath,
        links: &mut HashMap<LinkKey, usize>,
    ) -> Result<(), ApplyError> {
        let short_name = short_name(dentry, &path)?.map(|short| (short, path.clone()));
        let new = self.inodes.len();
        let position = match dentry.hard_link_group {
            None => new,
            Some(group) => {
                let key = (group, dentry.data, dentry.attributes, dentry.security_id);
                *links.entry(key).or_insert(new)
            }
        };
        if position == new {
            if dentry.is_encrypted() {
                self.encrypted.push(path.to_string());
            }
            self.inodes.push(Inode {
                dentry: dentry.id,
                names: vec![(directory, stored)],
                path,
                short_name,
            });
            return Ok(());
        }
        let inode = &mut self.inodes[position];
        inode.names.push((directory, stored));
        // The first path by name decides, so that the order of the image's directories does not.
        if path < inode.path {
            inode.path = path;
            inode.dentry = dentry.id;
        }
        if let Some((short, owner)) = short_name
            && inode.short_name.as_ref().is_none_or(|(_, known)| owner < *known)
        {
            inode.short_name = Some((short, owner));
        }
        Ok(())
    }

    /// Notes which blob fills what.
    fn take_contents(&mut self, metadata: &ImageMetadata) -> Result<(), ApplyError> {
        let files = self
            .inodes
            .iter()
            .enumerate()
            .map(|(position, inode)| (inode.dentry, &inode.path, Some(position)));
        let directories = self
            .directories
            .iter()
            .map(|directory| (directory.dentry, &directory.path, None));
        for (id, path, file) in directories.chain(files) {
            let dentry = metadata.get(id);
            if let Some(position) = file {
                match dentry.data.or(dentry.efs_data) {
                    Some(sha1) => self.targets.entry(sha1).or_default().push(Target::File(position)),
                    None => self.empty_inodes.push(position),
                }
            }
            let key = ExtraKey::for_path(path);
            if let Some(sha1) = dentry.reparse.and_then(|reparse| reparse.data) {
                self.targets.entry(sha1).or_default().push(Target::Reparse(key));
                self.paths_of_extras.insert(key, path.clone());
            }
            for stream in dentry.named_streams() {
                let name = StreamName::new(stream.name).map_err(|error| ApplyError::Name {
                    path: path.to_string(),
                    reason: error.to_string(),
                })?;
                self.paths_of_extras.insert(key, path.clone());
                match stream.sha1 {
                    Some(sha1) => self.targets.entry(sha1).or_default().push(Target::Stream(key, name)),
                    None => self.empty_streams.push((key, name)),
                }
            }
        }
        Ok(())
    }

    /// Names that Linux cannot hold or that differ only in case, in order of their paths.
    #[must_use]
    pub fn escaped_names(&self) -> &[EscapedName] {
        &self.escaped
    }

    /// Files encrypted by EFS: their raw data is kept, which only their owner's key opens.
    #[must_use]
    pub fn encrypted_files(&self) -> &[String] {
        &self.encrypted
    }

    /// The blobs that `blobs` lacks, sorted by the path that needs each.
    #[must_use]
    pub fn missing_blobs(&self, blobs: &BlobTable) -> Vec<MissingBlob> {
        let mut missing: Vec<MissingBlob> = self
            .targets
            .iter()
            .filter(|(sha1, _)| blobs.find(sha1).is_none())
            .map(|(sha1, targets)| MissingBlob {
                sha1: *sha1,
                path: self.target_path(&targets[0]),
            })
            .collect();
        missing.sort_by(|one, other| (&one.path, one.sha1.0).cmp(&(&other.path, other.sha1.0)));
        missing
    }

    /// What laying this down will take.
    #[must_use]
    pub fn room(&self, blobs: &BlobTable) -> Room {
        let mut room = Room {
            files: self.inodes.len() as u64,
            file_names: self.inodes.iter().map(|inode| inode.names.len() as u64).sum(),
            directories: self.directories.len() as u64,
            ..Room::default()
        };
        room.disk_bytes = (room.directories + self.empty_inodes.len() as u64).saturating_mul(OVERHEAD_BYTES);
        for (sha1, targets) in &self.targets {
            let size_bytes = blobs.find(sha1).map_or(0, |id| blobs.get(id).size_bytes);
            let count = targets.len() as u64;
            room.content_bytes = room.content_bytes.saturating_add(size_bytes.saturating_mul(count));
            let on_disk = size_bytes.checked_next_multiple_of(OVERHEAD_BYTES).unwrap_or(u64::MAX);
            room.disk_bytes = room.disk_bytes.saturating_add(on_disk.saturating_mul(count));
        }
        room
    }

    /// Refuses reparse data above NT's limit.
    ///
    /// # Errors
    /// [`ApplyError::ReparseTooLarge`], naming the first path that has such.
    pub fn check_reparse_sizes(&self, blobs: &BlobTable) -> Result<(), ApplyError> {
        for (sha1, targets) in &self.targets {
            let found_bytes = blobs.find(sha1).map_or(0, |id| blobs.get(id).size_bytes);
            let reparse = targets.iter().find(|target| matches!(target, Target::Reparse(_)));
            if let Some(target) = reparse
                && found_bytes > MAX_REPARSE_BYTES
            {
                let path = self.target_path(target);
                return Err(ApplyError::ReparseTooLarge {
                    path,
                    found_bytes,
                    most_bytes: MAX_REPARSE_BYTES,
                });
            }
        }
        Ok(())
    }

    /// The path of a target, for messages.
    pub(super) fn target_path(&self, target: &Target) -> String {
        let extra = |key: &ExtraKey| {
            self.paths_of_extras
                .get(key)
                .map_or_else(String::new, ToString::to_string)
        };
        match target {
            Target::File(position) => self.inodes[*position].path.to_string(),
            Target::Stream(key, name) => format!("{}:{name}", extra(key)),
            Target::Reparse(key) => format!("{} (reparse data)", extra(key)),
        }
    }

    /// Makes every directory and gives their handles, by position. The tree puts their metadata on them at its end.
    pub(super) fn create_directories(
        &self,
        metadata: &ImageMetadata,
        tree: &FileTree,
        security: &[SecurityId],
    ) -> Result<Vec<Dir>, ApplyError> {
        let mut made: Vec<Dir> = Vec::with_capacity(self.directories.len());
        for directory in &self.directories {
            let dentry = metadata.get(directory.dentry);
            let mut nt = nt_metadata(&dentry, &directory.path, security);
            nt.short_name = short_name(&dentry, &directory.path)?;
            let handle = match &directory.place {
                None => {
                    tree.set_root_metadata(nt);
                    tree.root()
                }
                Some((parent, stored)) => tree.create_dir(&made[*parent], stored, nt)?,
            };
            made.push(handle);
        }
        Ok(made)
    }

    /// The NT metadata of the inode at `position`.
    pub(super) fn inode_metadata(
        &self,
        metadata: &ImageMetadata,
        position: usize,
        security: &[SecurityId],
    ) -> NtMetadata {
        let inode = &self.inodes[position];
        let mut nt = nt_metadata(&metadata.get(inode.dentry), &inode.path, security);
        if let Some((short, owner)) = &inode.short_name {
            nt.short_name = Some(short.clone());
            nt.short_owner = (inode.names.len() > 1).then(|| PathId::of(owner));
        }
        nt
    }
}

/// The short name of a dentry, where it has one.
fn short_name(dentry: &Dentry<'_>, path: &NtPath) -> Result<Option<ShortName>, ApplyError> {
    if dentry.short_name.is_empty() {
        return Ok(None);
    }
    ShortName::new(dentry.short_name)
        .map(Some)
        .map_err(|error| ApplyError::Name {
            path: path.to_string(),
            reason: error.to_string(),
        })
}

/// What a dentry says of its inode, short name apart.
fn nt_metadata(dentry: &Dentry<'_>, path: &NtPath, security: &[SecurityId]) -> NtMetadata {
    let mut nt = NtMetadata::new(
        dentry.attributes,
        FileTime(dentry.creation_time.0),
        FileTime(dentry.last_access_time.0),
        FileTime(dentry.last_write_time.0),
    );
    nt.security = dentry
        .security_id
        .and_then(|id| security.get(usize::try_from(id).ok()?).copied());
    nt.reparse_tag = dentry.reparse.map(|reparse| reparse.tag);
    let has_reparse_data = dentry.reparse.is_some_and(|reparse| reparse.data.is_some());
    if has_reparse_data || dentry.named_streams().next().is_some() {
        nt.extra = Some(ExtraKey::for_path(path));
    }
    nt
}
