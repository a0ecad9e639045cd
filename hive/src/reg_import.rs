// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading registry text (`.reg`), version 5 and REGEDIT4, in UTF-16, UTF-8 or code page 1252, into a
//! list of changes that can be applied to a hive.
//!
//! Source: Microsoft, "How to add, modify, or delete registry subkeys and values by using a .reg file".

use crate::error::{Error, Result};
use crate::format::data_type;
use crate::reg_text::{
    HEADER_4, HEADER_5, MARK_CLASS, MARK_DATA, MARK_FLAGS, MARK_KEY, MARK_NAME, MARK_SECURITY, MARK_WRITTEN, from_ansi,
};

pub use crate::reg_apply::{apply, to_hive};

/// The largest text that is read.
pub const MAX_TEXT_BYTES: usize = 1 << 30;

/// One key of the text and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The line it is on, from 1.
    pub line: usize,
    /// The path as the text has it, in UTF-16 units; names are parted by backslashes.
    pub path: Vec<u16>,
    /// Whether the key is deleted, with all below it.
    pub delete: bool,
    /// Its values, in the order of the text.
    pub values: Vec<ValueChange>,
    /// Marks: the class name in UTF-16LE.
    pub class: Option<Vec<u8>>,
    /// Marks: the security descriptor.
    pub security: Option<Vec<u8>>,
    /// Marks: the last write, a FILETIME.
    pub last_written: Option<u64>,
    /// Marks: flags, user flags, layer flags.
    pub flags: Option<(u16, u8, u8)>,
}

/// One value of the text; `data` is `None` where it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueChange {
    /// Its name in UTF-16 units; empty for the default value.
    pub name: Vec<u16>,
    /// Its type and data.
    pub data: Option<(u32, Vec<u8>)>,
}

/// Reads registry text.
///
/// # Errors
/// [`Error::InvalidRegText`] with the line.
pub fn parse(bytes: &[u8]) -> Result<Vec<KeyChange>> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(Error::TooLarge {
            needed_bytes: bytes.len() as u64,
            limit_bytes: MAX_TEXT_BYTES as u64,
        });
    }
    let units = decode(bytes);
    let mut parser = Parser {
        units: &units,
        at: 0,
        line: 1,
        ansi: false,
        changes: Vec::new(),
    };
    parser.header()?;
    parser.lines()?;
    Ok(parser.changes)
}

/// The text's units, without a byte order mark.
fn decode(bytes: &[u8]) -> Vec<u16> {
    let pairs = |bytes: &[u8], of: fn([u8; 2]) -> u16| bytes.as_chunks::<2>().0.iter().map(|p| of(*p)).collect();
    if let Some(text) = bytes.strip_prefix(&[0xff, 0xfe]) {
        return pairs(text, u16::from_le_bytes);
    }
    if let Some(text) = bytes.strip_prefix(&[0xfe, 0xff]) {
        return pairs(text, u16::from_be_bytes);
    }
    if bytes.get(1) == Some(&0) {
        return pairs(bytes, u16::from_le_bytes);
    }
    let text = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    match std::str::from_utf8(text) {
        // REGEDIT4 is never UTF-8, even where it could be.
        Ok(text) if !text.trim_start().starts_with(HEADER_4) => text.encode_utf16().collect(),
        _ => text.iter().map(|&byte| from_ansi(byte)).collect(),
    }
}

struct Parser<'t> {
    units: &'t [u16],
    at: usize,
    line: usize,
    ansi: bool,
    changes: Vec<KeyChange>,
}

fn text_of(units: &[u16]) -> String {
    String::from_utf16_lossy(units)
}

fn is_space(unit: u16) -> bool {
    unit == 0x20 || unit == 9
}

fn trim(mut units: &[u16]) -> &[u16] {
    while let [first, rest @ ..] = units {
        if !is_space(*first) {
            break;
        }
        units = rest;
    }
    while let [rest @ .., last] = units {
        if !is_space(*last) {
            break;
        }
        units = rest;
    }
    units
}

fn starts_with(units: &[u16], text: &str) -> bool {
    let mut units = units.iter().copied();
    text.encode_utf16().all(|unit| units.next() == Some(unit))
}

impl<'t> Parser<'t> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error::InvalidRegText {
            line: self.line,
            what: what.into(),
        }
    }

    /// The next line without its end; `line` counts it once it is taken.
    fn next_line(&mut self) -> Option<&'t [u16]> {
        if self.at >= self.units.len() {
            return None;
        }
        let rest = &self.units[self.at..];
        let end = rest
            .iter()
            .position(|&unit| unit == 0x0a || unit == 0x0d)
            .unwrap_or(rest.len());
        let both = rest.get(end) == Some(&0x0d) && rest.get(end + 1) == Some(&0x0a);
        self.at += end + if both { 2 } else { 1 };
        Some(&rest[..end])
    }

    fn header(&mut self) -> Result<()> {
        while let Some(line) = self.next_line() {
            let text = text_of(trim(line));
            match text.as_str() {
                "" => self.line += 1,
                HEADER_5 => {
                    self.line += 1;
                    return Ok(());
                }
                HEADER_4 => {
                    self.ansi = true;
                    self.line += 1;
                    return Ok(());
                }
                other => {
                    let shown: String = other.chars().take(60).collect();
                    return Err(self.error(format!("expected \"{HEADER_5}\" or \"{HEADER_4}\", found {shown:?}")));
                }
            }
        }
        Err(self.error("the text is empty: expected a header"))
    }

    fn lines(&mut self) -> Result<()> {
        let (mut key_mark, mut name_mark, mut data_mark): (Option<Vec<u16>>, _, _) = (None, None, None);
        while let Some(line) = self.next_line() {
            let line = trim(line);
            match line.first() {
                None => {}
                Some(0x3b) => key_mark = self.mark(line, &mut name_mark, &mut data_mark)?.or(key_mark),
                Some(0x5b) => {
                    let change = self.key(line, key_mark.take())?;
                    self.changes.push(change);
                }
                Some(0x22 | 0x40) => {
                    let value = self.value(line, name_mark.take(), data_mark.take())?;
                    match self.changes.last_mut() {
                        Some(change) if !change.delete => change.values.push(value),
                        Some(_) => return Err(self.error("a value in a key that is deleted")),
                        None => return Err(self.error("a value before the first [key]")),
                    }
                }
                Some(_) => {
                    let shown: String = text_of(line).chars().take(60).collect();
                    return Err(self.error(format!("expected [key], \"name\"=, @= or a comment, found {shown:?}")));
                }
            }
            self.line += 1;
        }
        Ok(())
    }

    /// Reads a mark; a comment that is none is passed over. A key's path returns.
    fn mark(
        &mut self,
        line: &[u16],
        name_mark: &mut Option<Vec<u16>>,
        data_mark: &mut Option<Vec<u8>>,
    ) -> Result<Option<Vec<u16>>> {
        if !starts_with(line, ";!") {
            return Ok(None);
        }
        let text = text_of(line);
        let shown: String = text.chars().take(60).collect();
        let bad = self.error(format!("a mark that cannot be read: {shown:?}"));
        let missing = self.error("a mark before the first [key]");
        let numbers = |text: &str| {
            let parts = text.split(',').filter(|part| !part.is_empty());
            parts
                .map(|part| u64::from_str_radix(part.trim(), 16).ok())
                .collect::<Option<Vec<u64>>>()
        };
        let units = |text: &str| {
            numbers(text)?
                .into_iter()
                .map(|n| u16::try_from(n).ok())
                .collect::<Option<Vec<_>>>()
        };
        let bytes = |text: &str| {
            numbers(text)?
                .into_iter()
                .map(|n| u8::try_from(n).ok())
                .collect::<Option<Vec<_>>>()
        };
        if let Some(rest) = text.strip_prefix(MARK_KEY) {
            return Ok(Some(units(rest).ok_or(bad)?));
        }
        if let Some(rest) = text.strip_prefix(MARK_NAME) {
            *name_mark = Some(units(rest).ok_or(bad)?);
        } else if let Some(rest) = text.strip_prefix(MARK_DATA) {
            *data_mark = Some(bytes(rest).ok_or(bad)?);
        } else if let Some(rest) = text.strip_prefix(MARK_CLASS) {
            self.changes.last_mut().ok_or(missing)?.class = Some(bytes(rest).ok_or(bad)?);
        } else if let Some(rest) = text.strip_prefix(MARK_SECURITY) {
            self.changes.last_mut().ok_or(missing)?.security = Some(bytes(rest).ok_or(bad)?);
        } else if let Some(rest) = text.strip_prefix(MARK_WRITTEN) {
            let time = u64::from_str_radix(rest.trim(), 16).map_err(|_| bad)?;
            self.changes.last_mut().ok_or(missing)?.last_written = Some(time);
        } else if let Some(rest) = text.strip_prefix(MARK_FLAGS) {
            let narrow = |numbers: Vec<u64>| match numbers[..] {
                [flags, user, layer] => Some((
                    u16::try_from(flags).ok()?,
                    u8::try_from(user).ok()?,
                    u8::try_from(layer).ok()?,
                )),
                _ => None,
            };
            let flags = numbers(rest).and_then(narrow).ok_or(bad)?;
            self.changes.last_mut().ok_or(missing)?.flags = Some(flags);
        }
        Ok(None)
    }

    fn key(&self, line: &[u16], mark: Option<Vec<u16>>) -> Result<KeyChange> {
        // A name may hold a bracket: the last one of the line ends the path.
        let end = line.iter().rposition(|&unit| unit == 0x5d);
        let Some(end) = end else {
            return Err(self.error("a key's path that no ] ends"));
        };
        // A mark is only made for keys that are there.
        let (delete, start) = if line.get(1) == Some(&0x2d) && mark.is_none() {
            (true, 2)
        } else {
            (false, 1)
        };
        let path = mark.unwrap_or_else(|| line.get(start..end).unwrap_or_default().to_vec());
        Ok(KeyChange {
            line: self.line,
            path,
            delete,
            values: Vec::new(),
            class: None,
            security: None,
            last_written: None,
            flags: None,
        })
    }

    fn value(&mut self, line: &'t [u16], name: Option<Vec<u16>>, data: Option<Vec<u8>>) -> Result<ValueChange> {
        let (found, rest) = if line.first() == Some(&0x40) {
            (Vec::new(), &line[1..])
        } else {
            self.string(&line[1..])?
        };
        let rest = trim(rest);
        let Some((0x3d, rest)) = rest.split_first() else {
            return Err(self.error("expected = behind a value's name"));
        };
        let rest = trim(rest);
        let name = name.unwrap_or(found);
        let (kind, bytes) = match rest.first() {
            Some(0x2d) => return Ok(ValueChange { name, data: None }),
            Some(0x22) => {
                let (text, _) = self.string(&rest[1..])?;
                let bytes = text.iter().chain(&[0]).flat_map(|unit| unit.to_le_bytes()).collect();
                (data_type::SZ, bytes)
            }
            _ => self.number_or_hex(rest)?,
        };
        Ok(ValueChange {
            name,
            data: Some((kind, data.unwrap_or(bytes))),
        })
    }

    /// A string behind its opening quote, over lines if need be: its units, and what follows.
    fn string(&mut self, mut rest: &'t [u16]) -> Result<(Vec<u16>, &'t [u16])> {
        let started = self.line;
        let mut text = Vec::new();
        loop {
            let mut at = 0;
            while let Some(&unit) = rest.get(at) {
                match (unit, rest.get(at + 1)) {
                    (0x22, _) => return Ok((text, &rest[at + 1..])),
                    (0x5c, Some(&next)) => {
                        text.push(match next {
                            0x6e => 0x0a,
                            0x72 => 0x0d,
                            other => other,
                        });
                        at += 2;
                    }
                    _ => {
                        text.push(unit);
                        at += 1;
                    }
                }
            }
            // Regedit writes line ends within strings as they are.
            match self.next_line() {
                Some(line) => rest = line,
                None => {
                    return Err(Error::InvalidRegText {
                        line: started,
                        what: "a string that no \" ends".to_owned(),
                    });
                }
            }
            self.line += 1;
            text.extend([0x0d, 0x0a]);
        }
    }

    fn number_or_hex(&mut self, rest: &'t [u16]) -> Result<(u32, Vec<u8>)> {
        let text = text_of(rest);
        let lower = text.to_ascii_lowercase();
        if let Some(digits) = lower.strip_prefix("dword:") {
            let digits = digits.split(';').next().unwrap_or_default().trim();
            let number = u32::from_str_radix(digits, 16)
                .ok()
                .filter(|_| !digits.starts_with('+'));
            return match number {
                Some(number) => Ok((data_type::DWORD, number.to_le_bytes().to_vec())),
                None => Err(self.error(format!(
                    "expected up to 8 hexadecimal digits behind dword:, found {digits:?}"
                ))),
            };
        }
        let Some(head) = lower.strip_prefix("hex") else {
            let shown: String = text.chars().take(60).collect();
            return Err(self.error(format!("expected \"text\", dword:, hex: or -, found {shown:?}")));
        };
        let Some((kind, first)) = head.split_once(':') else {
            return Err(self.error("expected : behind hex"));
        };
        let kind = match kind.trim() {
            "" => data_type::BINARY,
            number => {
                let number = number.strip_prefix('(').and_then(|n| n.strip_suffix(')'));
                let number = number.map(|n| n.strip_prefix("0x").unwrap_or(n));
                let number = number.and_then(|n| u32::from_str_radix(n, 16).ok());
                number.ok_or_else(|| self.error(format!("expected hex(type), found {:?}", format!("hex{kind}"))))?
            }
        };
        let mut bytes = Vec::new();
        let mut more = self.hex_bytes(first, &mut bytes)?;
        while more {
            let Some(line) = self.next_line() else { break };
            self.line += 1;
            more = self.hex_bytes(&text_of(trim(line)), &mut bytes)?;
        }
        if self.ansi && matches!(kind, data_type::EXPAND_SZ | data_type::MULTI_SZ) {
            bytes = bytes
                .into_iter()
                .flat_map(|byte| from_ansi(byte).to_le_bytes())
                .collect();
        }
        Ok((kind, bytes))
    }

    /// One line of bytes; whether another line follows.
    fn hex_bytes(&self, line: &str, bytes: &mut Vec<u8>) -> Result<bool> {
        let line = line.split(';').next().unwrap_or_default().trim();
        let (line, more) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let byte = u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| part.len() <= 2 && !part.starts_with('+'));
            bytes.push(byte.ok_or_else(|| self.error(format!("expected two hexadecimal digits, found {part:?}")))?);
        }
        Ok(more)
    }
}
