// SPDX-License-Identifier: GPL-3.0-or-later
//! NTSTATUS: how a service ends (the values are documented in [MS-ERREF], section 2.3).

/// A service's result.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $value:literal;)*) => {
        #[allow(missing_docs, reason = "each constant is the status of its name in [MS-ERREF]")]
        impl Status {
            $(pub const $name: Self = Self($value);)*
        }
        const NAMES: &[(u32, &str)] = &[$(($value, stringify!($name))),*];
    };
}

statuses! {
    SUCCESS = 0x0000_0000;
    WAIT_1 = 0x0000_0001;
    ABANDONED_WAIT_0 = 0x0000_0080;
    USER_APC = 0x0000_00c0;
    ALERTED = 0x0000_0101;
    TIMEOUT = 0x0000_0102;
    PENDING = 0x0000_0103;
    NOTIFY_ENUM_DIR = 0x0000_010c;
    OBJECT_NAME_EXISTS = 0x4000_0000;
    IMAGE_NOT_AT_BASE = 0x4000_0003;
    GUARD_PAGE_VIOLATION = 0x8000_0001;
    DATATYPE_MISALIGNMENT = 0x8000_0002;
    BUFFER_OVERFLOW = 0x8000_0005;
    NO_MORE_FILES = 0x8000_0006;
    NO_MORE_ENTRIES = 0x8000_001a;
    UNSUCCESSFUL = 0xc000_0001;
    NOT_IMPLEMENTED = 0xc000_0002;
    INVALID_INFO_CLASS = 0xc000_0003;
    INFO_LENGTH_MISMATCH = 0xc000_0004;
    ACCESS_VIOLATION = 0xc000_0005;
    INVALID_HANDLE = 0xc000_0008;
    INVALID_CID = 0xc000_000b;
    INVALID_PARAMETER = 0xc000_000d;
    NO_SUCH_FILE = 0xc000_000f;
    INVALID_DEVICE_REQUEST = 0xc000_0010;
    END_OF_FILE = 0xc000_0011;
    NO_MEMORY = 0xc000_0017;
    CONFLICTING_ADDRESSES = 0xc000_0018;
    NOT_MAPPED_VIEW = 0xc000_0019;
    UNABLE_TO_FREE_VM = 0xc000_001a;
    INVALID_SYSTEM_SERVICE = 0xc000_001c;
    ACCESS_DENIED = 0xc000_0022;
    BUFFER_TOO_SMALL = 0xc000_0023;
    OBJECT_TYPE_MISMATCH = 0xc000_0024;
    NOT_COMMITTED = 0xc000_002d;
    OBJECT_NAME_INVALID = 0xc000_0033;
    OBJECT_NAME_NOT_FOUND = 0xc000_0034;
    OBJECT_NAME_COLLISION = 0xc000_0035;
    OBJECT_PATH_INVALID = 0xc000_0039;
    OBJECT_PATH_NOT_FOUND = 0xc000_003a;
    OBJECT_PATH_SYNTAX_BAD = 0xc000_003b;
    SECTION_TOO_BIG = 0xc000_0040;
    SHARING_VIOLATION = 0xc000_0043;
    INVALID_PAGE_PROTECTION = 0xc000_0045;
    MUTANT_NOT_OWNED = 0xc000_0046;
    SEMAPHORE_LIMIT_EXCEEDED = 0xc000_0047;
    SECTION_NOT_IMAGE = 0xc000_0049;
    SUSPEND_COUNT_EXCEEDED = 0xc000_004a;
    FILE_LOCK_CONFLICT = 0xc000_0054;
    DELETE_PENDING = 0xc000_0056;
    RANGE_NOT_LOCKED = 0xc000_007e;
    PRIVILEGE_NOT_HELD = 0xc000_0061;
    INVALID_IMAGE_FORMAT = 0xc000_007b;
    NO_TOKEN = 0xc000_007c;
    DISK_FULL = 0xc000_007f;
    INSUFFICIENT_RESOURCES = 0xc000_009a;
    MEMORY_NOT_ALLOCATED = 0xc000_00a0;
    PIPE_NOT_AVAILABLE = 0xc000_00ac;
    FILE_IS_A_DIRECTORY = 0xc000_00ba;
    NOT_SUPPORTED = 0xc000_00bb;
    NOT_SAME_DEVICE = 0xc000_00d4;
    INTERNAL_ERROR = 0xc000_00e5;
    INVALID_PARAMETER_1 = 0xc000_00ef;
    INVALID_PARAMETER_3 = 0xc000_00f1;
    DIRECTORY_NOT_EMPTY = 0xc000_0101;
    NOT_A_DIRECTORY = 0xc000_0103;
    TOO_MANY_OPENED_FILES = 0xc000_011f;
    MAPPED_FILE_SIZE_ZERO = 0xc000_011e;
    CANNOT_DELETE = 0xc000_0121;
    INVALID_IMAGE_NOT_MZ = 0xc000_012f;
    INVALID_IMAGE_PROTECT = 0xc000_0130;
    PIPE_BROKEN = 0xc000_014b;
    KEY_DELETED = 0xc000_017c;
    CHILD_MUST_BE_VOLATILE = 0xc000_0181;
    MAPPED_ALIGNMENT = 0xc000_0220;
    NOT_FOUND = 0xc000_0225;
    PORT_NOT_SET = 0xc000_0353;
    PATH_NOT_COVERED = 0xc000_0257;
}

impl Status {
    /// Whether it is a success or a warning that leaves results behind: the two high bits are not both set.
    #[must_use]
    pub fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }

    /// Its name, without `STATUS_`, when it is one that the runtime itself gives.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(value, _)| *value == self.0).map(|(_, name)| *name)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#010x}", self.0),
        }
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self} ({:#010x})", self.0)
    }
}

impl From<crate::vdk::Fault> for Status {
    fn from(_: crate::vdk::Fault) -> Self {
        Self::ACCESS_VIOLATION
    }
}

impl From<crate::vdk::PageError> for Status {
    fn from(error: crate::vdk::PageError) -> Self {
        use crate::vdk::PageError;
        match error {
            PageError::InUse | PageError::NotReserved => Self::CONFLICTING_ADDRESSES,
            PageError::NoMemory => Self::NO_MEMORY,
            PageError::Denied => Self::ACCESS_DENIED,
        }
    }
}

impl From<std::io::Error> for Status {
    fn from(error: std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Self::OBJECT_NAME_NOT_FOUND,
            Some(libc::ENOTDIR) => Self::OBJECT_PATH_NOT_FOUND,
            Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY | libc::EXDEV | libc::ELOOP) => {
                Self::ACCESS_DENIED
            }
            Some(libc::EEXIST) => Self::OBJECT_NAME_COLLISION,
            Some(libc::EISDIR) => Self::FILE_IS_A_DIRECTORY,
            Some(libc::ENOTEMPTY) => Self::DIRECTORY_NOT_EMPTY,
            Some(libc::ENOSPC | libc::EDQUOT) => Self::DISK_FULL,
            Some(libc::EMFILE | libc::ENFILE) => Self::TOO_MANY_OPENED_FILES,
            Some(libc::ENOMEM) => Self::NO_MEMORY,
            Some(libc::EFAULT) => Self::ACCESS_VIOLATION,
            Some(libc::EPIPE) => Self::PIPE_BROKEN,
            Some(libc::EINVAL) => Self::INVALID_PARAMETER,
            Some(libc::ENAMETOOLONG) => Self::OBJECT_NAME_INVALID,
            _ => Self::UNSUCCESSFUL,
        }
    }
}

impl From<rustix::io::Errno> for Status {
    fn from(error: rustix::io::Errno) -> Self {
        Self::from(std::io::Error::from(error))
    }
}
