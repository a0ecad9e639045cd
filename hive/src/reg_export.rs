// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing registry text (`.reg`), version 5 or REGEDIT4, as Regedit writes it.
//!
//! Source: Microsoft, "How to add, modify, or delete registry subkeys and values by using a .reg file".
//! What the format cannot say (a name with a NUL in it; with `whole`, classes, descriptors, times and
//! flags) stands in marks that Regedit takes for comments and [`reg_import`](crate::reg_import) reads.

use crate::error::Result;
use crate::format::{data_type, key_flag};
use crate::key::Key;
use crate::reg_text::{
    HEADER_4, HEADER_5, MARK_CLASS, MARK_DATA, MARK_FLAGS, MARK_KEY, MARK_NAME, MARK_SECURITY, MARK_WRITTEN, hex,
    hex_keyword, hex_units, is_plain, plain_text, to_ansi, units_of,
};
use crate::walk::{DamageReport, Strictness, Walk};

pub use crate::reg_text::{quoted, value_text};

/// How registry text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TextForm {
    /// Version 5 in UTF-16LE with a byte order mark: what Windows writes.
    #[default]
    Version5,
    /// Version 5 in UTF-8 without a mark: for people and tools on Linux; Regedit does not read it.
    Version5Utf8,
    /// REGEDIT4 in code page 1252.
    Regedit4,
}

/// What is exported, and how.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The text form.
    pub form: TextForm,
    /// The path that the start key has in the text, such as `HKEY_LOCAL_MACHINE\SOFTWARE`.
    pub path: String,
    /// Whether classes, descriptors, times and flags are marked.
    pub whole: bool,
    /// What happens at damage.
    pub strictness: Strictness,
}

/// Exports a tree of keys.
///
/// # Errors
/// When strict, the first fault.
pub fn export(start: Key<'_>, options: &ExportOptions) -> Result<(Vec<u8>, DamageReport)> {
    let mut text = Text {
        units: Vec::new(),
        form: options.form,
    };
    text.line(if options.form == TextForm::Regedit4 {
        HEADER_4
    } else {
        HEADER_5
    });
    text.line("");
    let prefix: Vec<u16> = options.path.trim_end_matches('\\').encode_utf16().collect();
    let mut path = prefix;
    // For each level, where its name begins in `path`.
    let mut ends: Vec<usize> = Vec::new();
    let mut walk = Walk::new(start, options.strictness);
    while let Some(key) = walk.next_key()? {
        if walk.depth() > 0 {
            if let Some(&end) = ends.get(walk.depth() - 1) {
                path.truncate(end);
                ends.truncate(walk.depth());
            }
            if !path.is_empty() {
                path.push(u16::from(b'\\'));
            }
            path.extend(key.name().units());
        }
        ends.push(path.len());
        text.key(&path);
        if options.whole
            && let Err(error) = text.marks(&key)
        {
            walk.report(error)?;
        }
        walk.values(&key, |value, data| {
            let name: Vec<u16> = value.name().units().collect();
            text.value(&name, value.data_type(), &data.to_cow());
            Ok(())
        })?;
        text.line("");
    }
    Ok((text.finish(), walk.into_damage()))
}

struct Text {
    units: Vec<u16>,
    form: TextForm,
}

impl Text {
    fn push(&mut self, text: &str) {
        self.units.extend(text.encode_utf16());
    }

    fn line(&mut self, text: &str) {
        self.push(text);
        self.push("\r\n");
    }

    /// Whether units survive the text form.
    fn can_hold(&self, units: &[u16]) -> bool {
        is_plain(units) && (self.form != TextForm::Regedit4 || units.iter().all(|&unit| to_ansi(unit).is_some()))
    }

    fn push_units(&mut self, units: &[u16]) {
        let plain = |unit: u16| {
            let control = unit < 0x20 || unit == 0x7f || (0x80..0xa0).contains(&unit);
            let strange = matches!(unit, 0x2028 | 0x2029 | 0xfeff | 0xfffe) || (0xd800..0xe000).contains(&unit);
            if control || strange { u16::from(b'?') } else { unit }
        };
        if self.can_hold(units) {
            self.units.extend_from_slice(units);
        } else {
            self.units.extend(units.iter().map(|&unit| plain(unit)));
        }
    }

    fn key(&mut self, path: &[u16]) {
        // A minus at the start would mean that the key is to be deleted.
        if !self.can_hold(path) || path.first() == Some(&u16::from(b'-')) {
            self.line(&format!("{MARK_KEY}{}", hex_units(path)));
        }
        self.push("[");
        self.push_units(path);
        self.line("]");
    }

    fn marks(&mut self, key: &Key<'_>) -> Result<()> {
        let flags = key.flags() & !(key_flag::COMPRESSED_NAME | key_flag::HIVE_ENTRY | key_flag::HIVE_EXIT);
        self.line(&format!("{MARK_WRITTEN}{:016x}", key.last_written()));
        if flags != 0 || key.user_flags() != 0 || key.layer_flags() != 0 {
            self.line(&format!(
                "{MARK_FLAGS}{flags:x},{:x},{:x}",
                key.user_flags(),
                key.layer_flags()
            ));
        }
        if let Some(class) = key.class()? {
            self.line(&format!("{MARK_CLASS}{}", hex(class.as_bytes())));
        }
        if let Some(security) = key.security()? {
            self.line(&format!("{MARK_SECURITY}{}", hex(security)));
        }
        Ok(())
    }

    fn value(&mut self, name: &[u16], kind: u32, data: &[u8]) {
        let ansi = self.form == TextForm::Regedit4;
        let text = (kind == data_type::SZ)
            .then(|| plain_text(data))
            .flatten()
            .filter(|units| self.can_hold(units));
        // REGEDIT4 has these two in code page 1252.
        let ansi_strings = ansi && matches!(kind, data_type::EXPAND_SZ | data_type::MULTI_SZ);
        let narrow = || units_of(data)?.into_iter().map(to_ansi).collect::<Option<Vec<u8>>>();
        let narrow = if ansi_strings { narrow() } else { None };
        if !self.can_hold(name) {
            self.line(&format!("{MARK_NAME}{}", hex_units(name)));
        }
        if ansi_strings && narrow.is_none() {
            self.line(&format!("{MARK_DATA}{}", hex(data)));
        }
        let start = self.units.len();
        if name.is_empty() {
            self.push("@");
        } else {
            self.quote(name);
        }
        self.push("=");
        match (text, kind, <[u8; 4]>::try_from(data)) {
            (Some(units), _, _) => {
                self.quote(&units);
                self.line("");
            }
            (None, data_type::DWORD, Ok(number)) => self.line(&format!("dword:{:08x}", u32::from_le_bytes(number))),
            _ => {
                self.push(&hex_keyword(kind));
                let column = self.units.len() - start;
                self.hex_lines(narrow.as_deref().unwrap_or(data), column);
            }
        }
    }

    fn quote(&mut self, units: &[u16]) {
        self.push("\"");
        let mut escaped = Vec::with_capacity(units.len());
        for &unit in units {
            if unit == u16::from(b'"') || unit == u16::from(b'\\') {
                escaped.push(u16::from(b'\\'));
            }
            escaped.push(unit);
        }
        self.push_units(&escaped);
        self.push("\"");
    }

    /// Bytes, cut as Regedit cuts them: a line is full at 76 characters.
    fn hex_lines(&mut self, bytes: &[u8], mut column: usize) {
        for (at, byte) in bytes.iter().enumerate() {
            let last = at + 1 == bytes.len();
            self.push(&format!("{byte:02x}"));
            column += 3;
            if !last {
                self.push(",");
                if column > 76 {
                    self.line("\\");
                    self.push("  ");
                    column = 2;
                }
            }
        }
        self.line("");
    }

    fn finish(self) -> Vec<u8> {
        match self.form {
            TextForm::Version5 => [0xfeff]
                .iter()
                .chain(&self.units)
                .flat_map(|unit| unit.to_le_bytes())
                .collect(),
            TextForm::Version5Utf8 => String::from_utf16_lossy(&self.units).into_bytes(),
            TextForm::Regedit4 => self.units.iter().map(|&unit| to_ansi(unit).unwrap_or(b'?')).collect(),
        }
    }
}
