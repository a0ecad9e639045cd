// SPDX-License-Identifier: GPL-3.0-or-later
//! Everything that can be wrong with a hive, in sentences. Offsets are file offsets in bytes, as a hex
//! viewer shows them.

/// What is wrong with a hive, a log, or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is too short to be a hive.
    #[error("the file has {actual_bytes} bytes, but a hive has at least {expected_bytes}")]
    TooShort {
        /// The least that is needed.
        expected_bytes: u64,
        /// What is there.
        actual_bytes: u64,
    },
    /// A `.reg` text was given where a hive was expected.
    #[error("this is a registry text file (.reg), not a hive: import it instead")]
    RegistryText,
    /// The file does not begin with `regf`.
    #[error("a hive begins with \"regf\" at offset 0, found {actual:02x?}")]
    NotAHive {
        /// The four bytes found.
        actual: [u8; 4],
    },
    /// A log was given where a primary file was expected, or the other way round.
    #[error("file type {actual} at offset 0x1c: expected {expected}")]
    UnexpectedFileType {
        /// What kind of file was wanted.
        expected: &'static str,
        /// The number found.
        actual: u32,
    },
    /// A version that nobody has described.
    #[error("hive version {major}.{minor} at offset 0x14 is not supported: 1.3 to 1.6 are")]
    UnsupportedVersion {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// The checksum of the base block is wrong.
    #[error(
        "the base block's checksum at offset 0x1fc is {actual:#010x}, but its bytes give {expected:#010x}: recover it with its logs"
    )]
    WrongChecksum {
        /// Computed from the bytes.
        expected: u32,
        /// Stored.
        actual: u32,
    },
    /// The hive was being written when it was last used.
    #[error("the hive is dirty (sequence numbers {primary} and {secondary}): recover it with its logs first")]
    Dirty {
        /// The primary sequence number.
        primary: u32,
        /// The secondary sequence number.
        secondary: u32,
    },
    /// The file ends before its hive bins data do.
    #[error("the file is truncated: its header says {expected_bytes} bytes, {actual_bytes} are there")]
    Truncated {
        /// The base block and the bins data that it promises.
        expected_bytes: u64,
        /// What is there.
        actual_bytes: u64,
    },
    /// The size of the hive bins data is not possible.
    #[error(
        "hive bins data of {actual_bytes} bytes (offset 0x28): expected a multiple of 4096 of at most 2 GiB, not 0"
    )]
    InvalidBinsSize {
        /// The size found.
        actual_bytes: u32,
    },
    /// A bin's header is wrong.
    #[error("bin at offset {offset:#x}: {what} is {actual:#x}, expected {expected}")]
    InvalidBin {
        /// Where the bin begins.
        offset: u64,
        /// The field.
        what: &'static str,
        /// The value found.
        actual: u32,
        /// What would be right.
        expected: String,
    },
    /// A reference to a cell leads nowhere.
    #[error("{what} at offset {offset:#x} lies outside the hive bins data ({bins_bytes} bytes)")]
    CellOutside {
        /// What was looked for.
        what: &'static str,
        /// Where it should be.
        offset: u64,
        /// The length of the hive bins data.
        bins_bytes: u64,
    },
    /// A reference to a cell that is free.
    #[error("{what} at offset {offset:#x} is in a cell that is not in use (size {size})")]
    CellNotInUse {
        /// What was looked for.
        what: &'static str,
        /// Where the cell begins.
        offset: u64,
        /// The size field.
        size: i32,
    },
    /// A cell's size is impossible.
    #[error("{what} at offset {offset:#x}: cell size {size} is not possible here ({room} bytes are left in its bin)")]
    InvalidCellSize {
        /// What was looked for.
        what: &'static str,
        /// Where the cell begins.
        offset: u64,
        /// The size field.
        size: i32,
        /// How many bytes there are.
        room: u64,
    },
    /// A cell is too small for what it should hold.
    #[error("{what} at offset {offset:#x} needs {expected_bytes} bytes, its cell has {actual_bytes}")]
    CellTooSmall {
        /// What was looked for.
        what: &'static str,
        /// Where the cell begins.
        offset: u64,
        /// The bytes needed.
        expected_bytes: u64,
        /// The bytes there are.
        actual_bytes: u64,
    },
    /// A cell holds something else.
    #[error("{what} at offset {offset:#x}: expected signature {expected}, found {actual:02x?}")]
    UnexpectedSignature {
        /// What was looked for.
        what: &'static str,
        /// Where the cell begins.
        offset: u64,
        /// The signatures that would do.
        expected: &'static str,
        /// The two bytes found.
        actual: [u8; 2],
    },
    /// A number in a record contradicts another one.
    #[error("{what} at offset {offset:#x} is {actual}, expected {expected}")]
    Mismatch {
        /// The field.
        what: &'static str,
        /// Where its record begins.
        offset: u64,
        /// What would be right.
        expected: u64,
        /// What was found.
        actual: u64,
    },
    /// A UTF-16 text has an odd number of bytes.
    #[error("{what} at offset {offset:#x} is UTF-16 of {actual_bytes} bytes: an even number was expected")]
    OddLength {
        /// The text.
        what: &'static str,
        /// Where its record begins.
        offset: u64,
        /// The length found.
        actual_bytes: u64,
    },
    /// A key node is reached twice: a cycle, or a subkey listed twice.
    #[error("the key node at offset {offset:#x} is reached a second time: a cycle, or a subkey listed twice")]
    KeyReachedTwice {
        /// Where the key node's cell begins.
        offset: u64,
    },
    /// A list, a value or a big data record is reached twice.
    #[error("the list, value or big data record at offset {offset:#x} belongs to more than one owner")]
    ListReachedTwice {
        /// Where its cell begins.
        offset: u64,
    },
    /// Keys are nested too deep.
    #[error("the key node at offset {offset:#x} is nested deeper than {limit} levels")]
    TooDeep {
        /// Where the key node's cell begins.
        offset: u64,
        /// The limit.
        limit: usize,
    },
    /// Subkeys are not in NT's order, so that a lookup may miss them.
    #[error("the subkey list of the key node at offset {offset:#x} is not in order at element {element}")]
    NotInOrder {
        /// Where the key node's cell begins.
        offset: u64,
        /// The first element that is out of order.
        element: u64,
    },
    /// Two subkeys of one key have one name.
    #[error("two subkeys have the name {name:?}")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The same, with the key it is in.
    #[error("key {path:?}: {source}")]
    InKey {
        /// The path from the root.
        path: String,
        /// What is wrong there.
        source: Box<Error>,
    },
    /// A key path that was asked for does not exist.
    #[error("the key {path:?} does not exist")]
    MissingKey {
        /// The path from the root.
        path: String,
    },
    /// A value that was asked for does not exist.
    #[error("the value {name:?} does not exist in key {path:?}")]
    MissingValue {
        /// The key.
        path: String,
        /// The value.
        name: String,
    },
    /// A name that the format cannot hold.
    #[error(
        "{what} of {actual} UTF-16 units: at most {limit} are possible, and a key's name has at least 1 and no backslash"
    )]
    InvalidName {
        /// Which name.
        what: &'static str,
        /// Its length in UTF-16 units.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// Something already stands where a new thing should go.
    #[error("{path:?} exists already")]
    AlreadyExists {
        /// The path.
        path: String,
    },
    /// A cell is in use, but nothing refers to it.
    #[error("the cell at offset {offset:#x} is in use, but nothing refers to it")]
    LostCell {
        /// Where it begins.
        offset: u64,
    },
    /// A key that may not be deleted or renamed.
    #[error("the key {name:?} cannot be deleted or renamed: {why}")]
    NotDeletable {
        /// Its name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A stable key below a volatile one.
    #[error("the key {name:?} must be volatile, as its parent is")]
    ChildMustBeVolatile {
        /// Its name.
        name: String,
    },
    /// A hive would grow over the format's limit.
    #[error("the hive would need {needed_bytes} bytes: a hive holds at most {limit_bytes}")]
    TooLarge {
        /// What it would need.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// A registry text file is wrong.
    #[error("line {line}: {what}")]
    InvalidRegText {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// No log can be applied.
    #[error("the hive is dirty and no log can be applied: {reasons}")]
    NoUsableLog {
        /// For each log, why not.
        reasons: String,
    },
    /// A log is damaged.
    #[error("log {log}, offset {offset:#x}: {what}")]
    InvalidLog {
        /// Which log: 1 for LOG1, 2 for LOG2.
        log: usize,
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
}

impl Error {
    /// The same error with the path of the key it is in, unless it has one.
    #[must_use]
    pub fn in_key(self, path: impl FnOnce() -> String) -> Self {
        match self {
            Self::InKey { .. } => self,
            other => Self::InKey {
                path: path(),
                source: Box::new(other),
            },
        }
    }
}

/// The result of everything here.
pub type Result<T, E = Error> = core::result::Result<T, E>;
