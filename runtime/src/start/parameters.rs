// SPDX-License-Identifier: GPL-3.0-or-later
//! RTL_USER_PROCESS_PARAMETERS: one block that holds every string of a process.

use crate::nt::Process;
use crate::status::Status;

pub(super) struct Parameters<'a> {
    pub(super) image: &'a str,
    pub(super) command_line: String,
    pub(super) current_directory: String,
    pub(super) environment: &'a [(String, String)],
    pub(super) whole_environment: bool,
    pub(super) standard: [u64; 3],
}

/// What every process finds in its environment.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ALLUSERSPROFILE", "C:\\ProgramData"),
    ("APPDATA", "C:\\users\\vodka\\AppData\\Roaming"),
    ("COMPUTERNAME", "VODKA"),
    ("ComSpec", "C:\\windows\\system32\\cmd.exe"),
    ("HOMEDRIVE", "C:"),
    ("HOMEPATH", "\\users\\vodka"),
    ("LOCALAPPDATA", "C:\\users\\vodka\\AppData\\Local"),
    ("OS", "Windows_NT"),
    ("PATH", "C:\\windows\\system32;C:\\windows"),
    ("PATHEXT", ".COM;.EXE;.BAT;.CMD"),
    ("PROCESSOR_ARCHITECTURE", "AMD64"),
    ("ProgramData", "C:\\ProgramData"),
    ("ProgramFiles", "C:\\Program Files"),
    ("SystemDrive", "C:"),
    ("SystemRoot", "C:\\windows"),
    ("TEMP", "C:\\temp"),
    ("TMP", "C:\\temp"),
    ("USERNAME", "vodka"),
    ("USERPROFILE", "C:\\users\\vodka"),
    ("windir", "C:\\windows"),
];

/// The directory of a Windows path.
pub(super) fn directory_of(path: &str) -> String {
    match path.rsplit_once('\\') {
        Some((directory, _)) if directory.len() > 2 => directory.to_owned(),
        _ => path
            .get(..2)
            .map_or_else(|| "C:\\".to_owned(), |drive| format!("{drive}\\")),
    }
}

/// One command line out of a program and its arguments, quoted so that `CommandLineToArgvW` and the C runtime take it apart
/// again (the rules of "Parsing C++ command-line arguments" on Microsoft Learn).
pub(super) fn command_line(program: &str, arguments: &[String]) -> String {
    let mut line = format!("\"{program}\"");
    for argument in arguments {
        line.push(' ');
        if !argument.is_empty() && !argument.contains([' ', '\t', '\n', '\u{b}', '"']) {
            line.push_str(argument);
            continue;
        }
        line.push('"');
        let mut backslashes = 0;
        for c in argument.chars() {
            if c == '"' {
                line.extend(std::iter::repeat_n('\\', backslashes + 1));
            }
            backslashes = if c == '\\' { backslashes + 1 } else { 0 };
            line.push(c);
        }
        line.extend(std::iter::repeat_n('\\', backslashes));
        line.push('"');
    }
    line
}

/// The environment block: sorted without case, each entry ended by a zero, the whole by one more.
fn environment_block(process: &Process, extra: &[(String, String)], whole: bool) -> Vec<u8> {
    let mut variables: std::collections::BTreeMap<String, (String, String)> = std::collections::BTreeMap::new();
    let processors = ("NUMBER_OF_PROCESSORS".to_owned(), process.host.processors.to_string());
    let own = ENVIRONMENT
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .chain([processors]);
    for (name, value) in own.filter(|_| !whole).chain(extra.iter().cloned()) {
        variables.insert(crate::object::upcase(&name), (name, value));
    }
    let text: String = variables
        .into_values()
        .map(|(name, value)| format!("{name}={value}\0"))
        .chain(["\0".to_owned()])
        .collect();
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

impl Parameters<'_> {
    /// Writes the block; gives its address.
    pub(super) fn write(&self, process: &Process) -> Result<u64, Status> {
        const HEADER_BYTES: usize = 0x600;
        const NORMALIZED: u32 = 1;
        let environment = environment_block(process, self.environment, self.whole_environment);
        let mut directory = self.current_directory.clone();
        if !directory.ends_with('\\') {
            directory.push('\\');
        }
        let strings: [(usize, &str, usize); 5] = [
            (0x38, &directory, 260),
            (0x60, self.image, 0),
            (0x70, &self.command_line, 0),
            (0xb0, self.image, 0),
            (0xc0, "WinSta0\\Default", 0),
        ];
        let text_bytes: usize = strings
            .iter()
            .map(|(_, text, room)| (text.encode_utf16().count() + 1).max(*room) * 2 + 8)
            .sum();
        let total = HEADER_BYTES + text_bytes + environment.len();
        let base = super::peb::allocate(process, total as u64)?;
        let mut block = vec![0u8; total];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        let length = u32::try_from(total).map_err(|_| Status::NO_MEMORY)?;
        put(0x00, &[length, length, NORMALIZED].map(u32::to_le_bytes).concat());
        put(0x20, &self.standard.map(u64::to_le_bytes).concat());
        let mut at = HEADER_BYTES;
        for (field, text, room) in strings {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let length = u16::try_from(bytes.len())
                .ok()
                .filter(|length| *length < u16::MAX - 2)
                .ok_or(Status::OBJECT_NAME_INVALID)?;
            let maximum = u16::try_from((bytes.len() + 2).max(room * 2)).map_err(|_| Status::OBJECT_NAME_INVALID)?;
            put(field, &[length, maximum].map(u16::to_le_bytes).concat());
            put(field + 8, &(base + at as u64).to_le_bytes());
            put(at, &bytes);
            at = (at + usize::from(maximum)).next_multiple_of(8);
        }
        put(0x80, &(base + at as u64).to_le_bytes());
        put(0x3f0, &(environment.len() as u64).to_le_bytes());
        put(at, &environment);
        process.host.memory.write(base, &block)?;
        Ok(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_so_that_they_come_apart_again() {
        let arguments = ["plain", "two words", "", "a\"b", "tail\\", "dir with\\"].map(str::to_owned);
        assert_eq!(
            command_line("C:\\p.exe", &arguments),
            "\"C:\\p.exe\" plain \"two words\" \"\" \"a\\\"b\" tail\\ \"dir with\\\\\""
        );
    }

    #[test]
    fn a_programs_directory_is_its_first_current_one() {
        assert_eq!(directory_of("C:\\a\\b.exe"), "C:\\a");
        assert_eq!(directory_of("Z:\\b.exe"), "Z:\\");
    }
}
