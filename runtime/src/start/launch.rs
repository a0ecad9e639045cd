// SPDX-License-Identifier: GPL-3.0-or-later
//! What to run, what a child shares of it, and why a program does not start.

use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::image::ImageError;
use crate::nt::TraceFilter;
use crate::nt::file::Writing;
use crate::status::Status;

/// What to run, and where.
pub struct Launch {
    /// The directory that is C:.
    pub files: PathBuf,
    /// Whether C: may change: a sealed world's must not.
    pub writing: Writing,
    /// Further drive letters.
    pub maps: Vec<(char, PathBuf)>,
    /// The program: a Windows path (`C:\…`), or a host path inside C: or a map.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables on top of the world's own.
    pub environment: Vec<(String, String)>,
    /// The current directory, as a Windows path; the program's own without.
    pub current_directory: Option<String>,
    /// The path of the image as its parameters name it; the program's own without.
    pub image_path: Option<String>,
    /// The whole command line, instead of the program and its arguments.
    pub command_line: Option<String>,
    /// Whether `environment` is all of it, instead of an addition to the world's own.
    pub whole_environment: bool,
    /// What is traced.
    pub trace: TraceFilter,
    /// The host's descriptor to which this process and its children write traces and notes: without one, a copy of
    /// standard error as it is now (a child's own standard error belongs to the program that started it).
    pub log_descriptor: Option<RawFd>,
    /// Rewrite the stubs in memory even where Wine's own way would do (for tests).
    pub rewrite_stubs: bool,
    /// Let every call come through `syscall` and Syscall User Dispatch (for tests).
    pub raw_syscalls: bool,
    /// Move every image off its own base (for tests).
    pub move_images: bool,
}

impl Launch {
    /// Runs `program` with C: at `files`; everything else is left out.
    #[must_use]
    pub fn new(files: PathBuf, program: String) -> Self {
        Self {
            files,
            writing: Writing::Allowed,
            maps: Vec::new(),
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            current_directory: None,
            image_path: None,
            command_line: None,
            whole_environment: false,
            trace: TraceFilter::None,
            log_descriptor: None,
            rewrite_stubs: false,
            raw_syscalls: false,
            move_images: false,
        }
    }
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A drive's directory cannot be opened.
    #[error("cannot open {path:?} as drive {letter}:")]
    Drive {
        /// The letter.
        letter: char,
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The program is not there.
    #[error("no program at {path:?}: neither a path in a drive of this world nor a file of the host that is mapped")]
    NoProgram {
        /// What was asked for.
        path: String,
    },
    /// An image cannot be run.
    #[error("cannot run {path}")]
    Image {
        /// Its Windows path.
        path: String,
        /// Why.
        source: ImageError,
    },
    /// The program imports DLLs, and the world has no ntdll.
    #[error("{path} needs DLLs, but the world has no Windows\\System32\\ntdll.dll")]
    NoNtdll {
        /// The program.
        path: String,
    },
    /// The host refused something that every program needs.
    #[error("cannot prepare {what}: {status}")]
    Prepare {
        /// What.
        what: &'static str,
        /// Why.
        status: Status,
    },
    /// The host refused.
    #[error("the host refused to {what}")]
    Host {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// Something runs already in this process.
    #[error("this process runs a program already")]
    Running,
}

/// The part of a [`Launch`] that a child process shares with its parent.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct SharedLaunch {
    files: PathBuf,
    read_only: bool,
    maps: Vec<(char, PathBuf)>,
    trace: Option<String>,
    log_descriptor: Option<RawFd>,
    rewrite_stubs: bool,
    raw_syscalls: bool,
    move_images: bool,
}

impl SharedLaunch {
    pub(super) fn of(launch: &Launch) -> Self {
        let trace = match &launch.trace {
            TraceFilter::None => None,
            TraceFilter::Glob(glob) => Some(glob.clone()),
        };
        let Launch {
            files,
            maps,
            rewrite_stubs,
            raw_syscalls,
            move_images,
            ..
        } = launch;
        Self {
            files: files.clone(),
            read_only: launch.writing == Writing::Refused,
            maps: maps.clone(),
            trace,
            log_descriptor: launch.log_descriptor,
            rewrite_stubs: *rewrite_stubs,
            raw_syscalls: *raw_syscalls,
            move_images: *move_images,
        }
    }

    pub(super) fn into_launch(self, program: String) -> Launch {
        let mut launch = Launch::new(self.files, program);
        launch.maps = self.maps;
        launch.writing = if self.read_only {
            Writing::Refused
        } else {
            Writing::Allowed
        };
        launch.log_descriptor = self.log_descriptor;
        launch.trace = self.trace.map_or(TraceFilter::None, TraceFilter::Glob);
        (launch.rewrite_stubs, launch.raw_syscalls, launch.move_images) =
            (self.rewrite_stubs, self.raw_syscalls, self.move_images);
        launch
    }
}
