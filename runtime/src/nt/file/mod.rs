// SPDX-License-Identifier: GPL-3.0-or-later
//! Files: drive letters, opening, reading and writing, queries, directories.
//!
//! Today a drive is one plain directory (`volume`). The overlay's layered lookup (a world and its parents) takes that
//! module's place; nothing else here knows how names reach the host. Sharing modes are not enforced yet.

mod directory;
mod information;
mod open;
mod path;
mod pipe;
mod transfer;
mod volume;
mod volume_information;
mod wildcard;

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use directory::{CLASSES as DIRECTORY_CLASSES, query_directory_file, query_directory_file_ex};
pub(super) use information::{QUERY_CLASSES, SET_CLASSES, query_information_file, set_information_file};
pub(super) use open::{
    create_file, delete_file, open_file, open_program, query_attributes_file, query_full_attributes_file,
};
pub use path::device_path;
pub use pipe::Pipes;
pub(super) use pipe::create_named_pipe_file;
pub(super) use transfer::{
    FS_CONTROL_CODES, cancel_io, device_io_control, flush_buffers, fs_control, lock_file, read_file, unlock_file,
    write_file,
};
pub use volume::{Drives, Volume, Writing};
pub(super) use volume_information::{QUERY_CLASSES as VOLUME_QUERY_CLASSES, query_volume_information_file};

use crate::object::Object;

/// What stands behind a file object.
#[derive(Debug)]
pub enum Backing {
    /// A file of a volume.
    Disk(File),
    /// A directory of a volume, open for its metadata.
    Directory(File),
    /// A pipe, terminal or other stream of the host.
    Stream(File),
    /// `\Device\Null`.
    Null,
}

/// A file object.
pub struct FileObject {
    /// Its full NT path.
    pub path: String,
    backing: Backing,
    /// Where it lies, for files of a volume: the volume, and the path below its root.
    place: Mutex<Option<(Arc<Volume>, PathBuf)>>,
    position: Mutex<u64>,
    /// Opened with FILE_SYNCHRONOUS_IO_*: the object keeps the position.
    synchronous: bool,
    /// Opened with FILE_APPEND_DATA but not FILE_WRITE_DATA.
    append: bool,
    delete_on_close: AtomicBool,
    completion: Mutex<Option<(Arc<Object>, u64)>>,
    listing: Mutex<Option<directory::Listing>>,
    /// For the server's end of a named pipe.
    listening: Option<Mutex<pipe::Listening>>,
}

impl FileObject {
    /// A file object for a stream of the host.
    #[must_use]
    pub fn stream(file: File, path: &str) -> Self {
        Self::new(Backing::Stream(file), path.to_owned(), None, true)
    }

    fn new(backing: Backing, path: String, place: Option<(Arc<Volume>, PathBuf)>, synchronous: bool) -> Self {
        Self {
            path,
            backing,
            place: Mutex::new(place),
            position: Mutex::new(0),
            synchronous,
            append: false,
            delete_on_close: AtomicBool::new(false),
            completion: Mutex::new(None),
            listing: Mutex::new(None),
            listening: None,
        }
    }

    /// The host's file behind a plain file.
    #[must_use]
    pub fn host_file(&self) -> Option<&File> {
        match &self.backing {
            Backing::Disk(file) => Some(file),
            _ => None,
        }
    }

    /// A copy of what a child process gets for one of its standard streams.
    pub(super) fn for_child(&self) -> Result<Option<File>, crate::status::Status> {
        match &self.backing {
            Backing::Disk(file) | Backing::Stream(file) => {
                if let Backing::Disk(_) = self.backing {
                    use std::io::{Seek, SeekFrom};
                    // The host's position is what the child goes on from.
                    let position = *self.position.lock().unwrap_or_else(PoisonError::into_inner);
                    (&*file).seek(SeekFrom::Start(position))?;
                }
                Ok(Some(super::process_create::copy_for_child(file)?))
            }
            Backing::Directory(_) | Backing::Null => Ok(None),
        }
    }

    fn is_directory(&self) -> bool {
        matches!(self.backing, Backing::Directory(_))
    }

    /// The path below the drive, beginning with a backslash, as name queries give it.
    fn path_on_volume(&self) -> &str {
        let rest = self.path.strip_prefix("\\??\\").unwrap_or(&self.path);
        match rest.as_bytes() {
            [_, b':'] => "\\",
            [_, b':', ..] => &rest[2..],
            _ => rest,
        }
    }
}

impl Drop for FileObject {
    fn drop(&mut self) {
        if !self.delete_on_close.load(Ordering::SeqCst) {
            return;
        }
        if let Some((volume, path)) = self.place.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Nobody is left to be told; a file that somebody deleted already is as good.
            let _ = volume.remove(&path, self.is_directory());
        }
    }
}
