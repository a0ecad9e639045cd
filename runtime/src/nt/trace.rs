// SPDX-License-Identifier: GPL-3.0-or-later
//! `--trace`, and the notes about what is not served.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use super::call::Call;
use super::process_state::Process;
use super::strings::{ObjectAttributes, read_string};
use super::table::Argument;
use crate::arch::{Frame, ProgramException};
use crate::status::Status;
use crate::vdk::MemoryExt;

/// Which services are traced.
#[derive(Debug, Clone, Default)]
pub enum TraceFilter {
    /// None.
    #[default]
    None,
    /// Those whose name fits a pattern with `*`, without case; `Nt` may be left out.
    Glob(String),
}

impl TraceFilter {
    fn fits(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Glob(glob) => {
                let (glob, name) = (glob.to_ascii_lowercase(), name.to_ascii_lowercase());
                fits(glob.as_bytes(), name.as_bytes())
                    || name
                        .strip_prefix("nt")
                        .is_some_and(|rest| fits(glob.as_bytes(), rest.as_bytes()))
            }
        }
    }
}

fn fits(glob: &[u8], name: &[u8]) -> bool {
    match glob.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        Some((first, rest)) => name
            .split_first()
            .is_some_and(|(byte, name)| byte == first && fits(rest, name)),
    }
}

/// Where the runtime writes what it has to say about a program.
pub struct Log {
    to: Mutex<Box<dyn Write + Send>>,
    filter: TraceFilter,
    told: Mutex<HashSet<String>>,
}

impl Log {
    /// Writes to `to`.
    #[must_use]
    pub fn new(to: Box<dyn Write + Send>, filter: TraceFilter) -> Self {
        Self {
            to: Mutex::new(to),
            filter,
            told: Mutex::default(),
        }
    }

    /// Writes one line.
    pub fn line(&self, text: &str) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever closed the log cannot be told anything.
        let _ = writeln!(to, "vodka: {text}");
    }

    /// Writes bytes of the program's own debug output.
    pub fn raw(&self, bytes: &[u8]) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(bytes);
    }

    fn once(&self, key: String, text: impl FnOnce() -> String) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            self.line(&text());
        }
    }

    pub(super) fn traces(&self, name: &str) -> bool {
        self.filter.fits(name)
    }

    pub(super) fn trace(&self, thread: u32, line: &str, status: Status) {
        self.line(&format!("[{thread}] {line} = {status}"));
    }

    pub(super) fn unserved(&self, process: &Process, name: &str, frame: &Frame) {
        self.once(name.to_owned(), || {
            format!("{name} is not served (called from {})", caller(process, frame))
        });
    }

    pub(super) fn unserved_class(&self, process: &Process, name: &str, class: u32, frame: &Frame) {
        self.once(format!("{name} {class}"), || {
            format!(
                "{name} does not serve class {class} ({class:#x}) (called from {})",
                caller(process, frame)
            )
        });
    }

    pub(super) fn unknown_number(&self, process: &Process, number: usize, frame: &Frame) {
        self.once(format!("#{number}"), || {
            format!(
                "no service has number {number:#x} (called from {})",
                caller(process, frame)
            )
        });
    }

    pub(super) fn died(&self, process: &Process, exception: &ProgramException) {
        self.line(&format!(
            "the program died: exception {:#010x} at {}, stack {:#x}, address {:#x}",
            exception.code,
            process.describe_address(exception.rip),
            exception.rsp,
            exception.address
        ));
    }
}

/// The code that called the stub.
fn caller(process: &Process, frame: &Frame) -> String {
    match process.host.memory.get::<u64>(frame.rsp.wrapping_add(8)) {
        Ok(address) => process.describe_address(address),
        Err(_) => "an unreadable stack".to_owned(),
    }
}

/// The call with its arguments decoded, as it was made.
pub(super) fn describe_call(call: &Call<'_>) -> String {
    let mut text = format!("{}(", call.service.name);
    for (index, kind) in call.service.arguments.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{}", describe_argument(call, index, *kind));
    }
    text.push(')');
    text
}

fn describe_argument(call: &Call<'_>, index: usize, kind: Argument) -> String {
    let value = call.arg(index);
    match kind {
        Argument::Bool => call.bool(index).to_string(),
        Argument::U32 => format!("{:#x}", call.u32(index)),
        Argument::Class => call.u32(index).to_string(),
        Argument::Handle if value.cast_signed() < 0 => value.cast_signed().to_string(),
        _ if value == 0 => "0".to_owned(),
        Argument::Text => {
            read_string(call.memory(), value).map_or_else(|_| format!("{value:#x}?"), |text| format!("{text:?}"))
        }
        Argument::Attributes => match ObjectAttributes::read(call.memory(), value) {
            Ok(ObjectAttributes { root, name, flags }) => {
                let root = if root == 0 {
                    String::new()
                } else {
                    format!("{root:#x}:")
                };
                format!("{{{root}{:?}, {flags:#x}}}", name.unwrap_or_default())
            }
            Err(_) => format!("{value:#x}?"),
        },
        Argument::Value => call
            .memory()
            .get::<u64>(value)
            .map_or_else(|_| format!("{value:#x}?"), |held| format!("&{held:#x}")),
        Argument::Handle | Argument::Pointer | Argument::U64 => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_pattern_needs_neither_case_nor_the_prefix() {
        let filter = TraceFilter::Glob("*file".into());
        assert!(filter.fits("NtCreateFile") && !filter.fits("NtCreateKey"));
        assert!(TraceFilter::Glob("close".into()).fits("NtClose"));
        assert!(!TraceFilter::None.fits("NtClose"));
    }
}
