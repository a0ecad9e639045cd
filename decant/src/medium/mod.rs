// SPDX-License-Identifier: GPL-3.0-or-later
//! Installation media: ISO files (UDF and ISO 9660), directories and bare images, read in place.
//!
//! [`Medium::open`] tells by content what it was given and gives one tree of [`Entry`]s, whatever lies beneath. A file
//! is a list of extents behind [`ReadAt`]: nothing is mounted, copied or cached, no root is needed, and any number of
//! threads may read. Whoever breaks this module makes every later stage read wrong bytes, so nothing on a medium is
//! believed: each structure is checked against its checksum and place, each count against [`limits`], and each
//! fault is said with its path, LBA and offset.

mod bare;
mod calendar;
mod directory;
mod disc;
mod entry;
mod error;
mod extents;
mod host_file;
mod iso9660;
mod kind;
pub mod limits;
mod name;
mod read_at;
mod sources;
mod udf;
mod unknown;
mod walk;

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use entry::{Entry, EntryKind};
pub use error::MediumError;
pub use extents::Extent;
pub use kind::{MediumKind, UdfRevision};
pub use name::same_name;
pub use read_at::{ReadAt, ReadAtError};
pub use sources::{SOURCES_PLACES, SourcesDirectory};
pub use walk::Walk;

/// What each kind of medium can do; [`Medium`] builds paths, lookup and walks on it.
trait FileSystem: Debug + Send + Sync {
    /// The root directory.
    fn root(&self) -> Entry;

    /// What a directory holds, in any order; names are checked to be usable and to come once.
    fn children(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError>;

    /// The entry of a directory with this name: the exact name if there is one, else one that differs only in case.
    fn find(&self, directory: &Entry, name: &str) -> Result<Option<Entry>, MediumError>;

    /// Opens a plain file.
    fn open(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError>;

    /// Where a plain file's bytes are on the medium; `None` where they are in no place of their own.
    fn extents(&self, file: &Entry) -> Result<Option<Vec<Extent>>, MediumError>;

    /// What tells this directory from all others on the medium, where cycles are possible.
    fn identity(&self, directory: &Entry) -> Option<(u64, u64)>;
}

/// An open installation medium. Cheap to clone; all clones share one open file.
#[derive(Clone)]
pub struct Medium {
    inner: Arc<Inner>,
}

/// Short: what lies beneath may be tables of many megabytes.
impl Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Medium")
            .field("path", &self.inner.path)
            .field("kind", &self.inner.kind)
            .field("label", &self.inner.label)
            .finish_non_exhaustive()
    }
}

struct Inner {
    path: PathBuf,
    kind: MediumKind,
    label: Option<String>,
    size_bytes: Option<u64>,
    files: Box<dyn FileSystem>,
}

impl Medium {
    /// Opens an ISO file (or a block device), a directory, or a bare WIM, ESD or SWM; told by content, not by name.
    ///
    /// # Errors
    /// [`MediumError::NotAMedium`] for anything else, [`MediumError::Truncated`] for an ISO that is shorter than its
    /// volume, [`MediumError::Damaged`] and the others for one that cannot be read.
    pub fn open(path: &Path) -> Result<Self, MediumError> {
        let metadata = path.metadata().map_err(|source| MediumError::Open {
            path: path.to_owned(),
            source,
        })?;
        let inner = if metadata.is_dir() {
            Inner {
                path: path.to_owned(),
                kind: MediumKind::Directory,
                label: None,
                size_bytes: None,
                files: Box::new(directory::HostDirectory::open(path)?),
            }
        } else {
            disc::open(path)?
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What it is, with the details that its volume descriptors give.
    #[must_use]
    pub fn kind(&self) -> &MediumKind {
        &self.inner.kind
    }

    /// The volume's label: UDF's logical volume identifier, else Joliet's or ISO 9660's volume identifier. `None`
    /// for a directory, a bare image and an empty label.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.inner.label.as_deref()
    }

    /// The length of the ISO file or bare image in bytes; `None` for a directory.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.inner.size_bytes
    }

    /// The path that was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The root directory's entry.
    #[must_use]
    pub fn root(&self) -> Entry {
        self.files().root()
    }

    /// The entries of a directory, sorted by name (byte order). `""` is the root.
    ///
    /// # Errors
    /// [`MediumError::NotFound`], [`MediumError::NotADirectory`], or what keeps the directory from being read.
    pub fn read_dir(&self, directory: &str) -> Result<Vec<Entry>, MediumError> {
        self.read_entries(&self.existing(directory)?)
    }

    /// The same for a directory whose entry is at hand.
    ///
    /// # Errors
    /// As for [`Medium::read_dir`].
    pub fn read_entries(&self, directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        if !directory.is_directory() {
            return Err(MediumError::NotADirectory {
                path: self.path().to_owned(),
                entry: directory.path.clone(),
            });
        }
        let mut entries = self.files().children(directory)?;
        entries.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(entries)
    }

    /// Looks a path up: `/` between names, or `\` where that finds nothing; case does not matter, but an exact name
    /// goes before one that differs in case. `None` if there is no such entry. Links are not followed.
    ///
    /// # Errors
    /// What keeps a directory on the way, or the entry itself, from being read.
    pub fn lookup(&self, path: &str) -> Result<Option<Entry>, MediumError> {
        let found = self.lookup_split(path, &['/'])?;
        if found.is_none() && path.contains('\\') {
            return self.lookup_split(path, &['/', '\\']);
        }
        Ok(found)
    }

    /// Opens a plain file for reading at any offset.
    ///
    /// # Errors
    /// [`MediumError::NotAFile`], or what keeps its allocation from being read.
    pub fn open_file(&self, file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        self.check_file(file)?;
        self.files().open(file)
    }

    /// Looks a path up and opens it.
    ///
    /// # Errors
    /// [`MediumError::NotFound`], and as for [`Medium::open_file`].
    pub fn open_path(&self, path: &str) -> Result<Arc<dyn ReadAt>, MediumError> {
        self.open_file(&self.existing(path)?)
    }

    /// Where a file's bytes are in the ISO file, in file order: for a copy that can share or move blocks. `None` for
    /// a file of a directory, and for one so small that it lies inside its own file entry.
    ///
    /// # Errors
    /// As for [`Medium::open_file`].
    pub fn extents(&self, file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        self.check_file(file)?;
        self.files().extents(file)
    }

    /// All entries below the root, each directory before what it holds, sorted by name: the same order every time.
    /// A directory that cannot be read is given as an error, and the walk goes on behind it.
    #[must_use]
    pub fn walk(&self) -> Walk {
        Walk::new(self.clone())
    }

    fn files(&self) -> &dyn FileSystem {
        &*self.inner.files
    }

    fn existing(&self, path: &str) -> Result<Entry, MediumError> {
        self.lookup(path)?.ok_or_else(|| MediumError::NotFound {
            path: self.path().to_owned(),
            entry: path.to_owned(),
        })
    }

    fn lookup_split(&self, path: &str, separators: &[char]) -> Result<Option<Entry>, MediumError> {
        lookup(self.files(), name::components(path, separators))
    }

    fn check_file(&self, file: &Entry) -> Result<(), MediumError> {
        if file.is_file() {
            return Ok(());
        }
        Err(MediumError::NotAFile {
            path: self.path().to_owned(),
            entry: file.path.clone(),
            found: file.kind_words(),
        })
    }
}

/// Looks names up from the root, one below the other.
fn lookup<'a>(files: &dyn FileSystem, names: impl Iterator<Item = &'a str>) -> Result<Option<Entry>, MediumError> {
    let mut entry = files.root();
    for (depth, name) in names.enumerate() {
        if !entry.is_directory() || name == ".." || name.contains('\0') || depth > limits::MAX_DEPTH {
            return Ok(None);
        }
        match files.find(&entry, name)? {
            Some(found) => entry = found,
            None => return Ok(None),
        }
    }
    Ok(Some(entry))
}
