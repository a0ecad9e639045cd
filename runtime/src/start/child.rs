// SPDX-License-Identifier: GPL-3.0-or-later
//! A child process: this command again, told what to run through one socket.
//!
//! Parent → child: the length and the JSON of a `Payload`, then one byte when the first thread is resumed.
//! Child → parent: four bytes of exit status.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use super::{SharedLaunch, StartError};
use crate::status::Status;

/// The environment variable of the host that tells a child its end of the socket.
const CHANNEL_VARIABLE: &str = "VODKA_CHILD_CHANNEL";
/// The longest payload that is read.
const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

/// What a child runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Payload {
    /// The Windows path of the image.
    pub(crate) program: String,
    /// The path as its parameters name it.
    pub(crate) image_path: String,
    pub(crate) command_line: String,
    pub(crate) current_directory: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) launch: SharedLaunch,
}

static CHANNEL: OnceLock<Mutex<UnixStream>> = OnceLock::new();

/// Starts the child; it reads the payload and waits. Gives it and our end of its socket.
pub(crate) fn spawn(
    payload: &Payload,
    [input, output, error]: [Stdio; 3],
) -> Result<(std::process::Child, UnixStream), Status> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    // The child's end must survive exec. A child that starts at the same moment may inherit it too: it never uses it, and
    // closes it with its own end.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
    let mut command = Command::new("/proc/self/exe");
    command
        .env(CHANNEL_VARIABLE, theirs.as_raw_fd().to_string())
        .stdin(input)
        .stdout(output)
        .stderr(error);
    let child = command.spawn()?;
    drop(theirs);
    let text = serde_json::to_vec(payload).map_err(|_| Status::INTERNAL_ERROR)?;
    let length = u32::try_from(text.len()).map_err(|_| Status::NO_MEMORY)?;
    let mut to = &ours;
    to.write_all(&length.to_le_bytes()).and_then(|()| to.write_all(&text))?;
    Ok((child, ours))
}

/// Runs what this process was started for by another program's `NtCreateUserProcess`; nothing when it was not. Every
/// command that runs programs calls this before it looks at its arguments.
#[must_use]
pub fn run_if_child() -> Option<u8> {
    let number: RawFd = std::env::var(CHANNEL_VARIABLE)
        .ok()?
        .parse()
        .ok()
        .filter(|fd| *fd > 2)?;
    Some(run(number).unwrap_or_else(|error| {
        let mut text = format!("vodka: a child process cannot start: {error}");
        let mut next = std::error::Error::source(&error);
        while let Some(cause) = next {
            text.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        // Nobody else can be told.
        let _ = writeln!(std::io::stderr(), "{text}");
        report(Status::UNSUCCESSFUL.0);
        1
    }))
}

fn run(number: RawFd) -> Result<u8, StartError> {
    let host = |what| move |source| StartError::Host { what, source };
    let fd = crate::linux::adopt_descriptor(number);
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| host("take the parent's socket")(error.into()))?;
    let mut channel = UnixStream::from(fd);
    let failed = host("read what to run");
    let mut length = [0; 4];
    channel.read_exact(&mut length).map_err(&failed)?;
    let length = u32::from_le_bytes(length).min(MAX_PAYLOAD_BYTES);
    let mut text = vec![0; length as usize];
    channel.read_exact(&mut text).map_err(&failed)?;
    let payload: Payload = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    let mut go = [0];
    if channel.read_exact(&mut go).is_err() {
        // The parent ended before it resumed us.
        return Ok(1);
    }
    let _ = CHANNEL.set(Mutex::new(channel));
    let code = super::run(payload.into_launch())?;
    report(code);
    Ok(code.to_le_bytes()[0])
}

/// Leaves the exit status for the parent, when there is one.
pub(super) fn report(code: u32) {
    if let Some(channel) = CHANNEL.get() {
        // A parent that is gone wants no answer.
        let _ = channel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&code.to_le_bytes());
    }
}

impl Payload {
    fn into_launch(self) -> super::Launch {
        let mut launch = self.launch.into_launch(self.program);
        launch.image_path = Some(self.image_path);
        launch.command_line = Some(self.command_line);
        launch.current_directory = Some(self.current_directory);
        launch.environment = self.environment;
        launch.whole_environment = true;
        launch
    }
}
