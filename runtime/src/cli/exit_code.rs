// SPDX-License-Identifier: GPL-3.0-or-later
//! The exit codes of both commands: a public promise, documented in `docs/exit-codes.md`.

/// How a command ended. The numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum ExitCode {
    /// Done as asked.
    Done = 0,
    /// Something that no other code describes: a host error, or a fault of ours.
    Unexpected = 1,
    /// The command line is wrong, or an answer file that it names is.
    Usage = 2,
    /// The medium cannot be read, or is no Windows medium.
    Medium = 3,
    /// No such edition, or several that fit.
    Edition = 4,
    /// Not enough room for the world.
    NoRoom = 5,
    /// Data on the medium or in a world is damaged.
    Damaged = 6,
    /// The world exists already, is missing, or is in use.
    World = 7,
    /// The new Windows' own setup failed or did not end in time.
    Setup = 8,
    /// The runtime does not serve something that was asked for.
    NotServed = 9,
    /// Ended by Ctrl-C or SIGTERM.
    Interrupted = 130,
}

impl ExitCode {
    /// Every code, in order of its number.
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::Unexpected,
        Self::Usage,
        Self::Medium,
        Self::Edition,
        Self::NoRoom,
        Self::Damaged,
        Self::World,
        Self::Setup,
        Self::NotServed,
        Self::Interrupted,
    ];

    /// The number that the process ends with.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
