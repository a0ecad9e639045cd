// SPDX-License-Identifier: GPL-3.0-or-later
//! From the XML's bytes to [`WimInfo`], in one pass and without a tree.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, escape};

use super::info::{ImageInfo, Version, WimInfo, WindowsInfo};
use crate::wim::error::WimError;
use crate::wim::types::Filetime;

/// Elements inside elements; Windows' XML has six levels.
const MAX_XML_DEPTH: usize = 64;
/// Elements below the root that a known field lies in.
const KNOWN_DEPTH: usize = 4;
/// Languages, editions or fallbacks of one image.
const MAX_LIST: usize = 4096;

/// The XML's text: UTF-16LE with or without a byte order mark, trailing zeros dropped. A lone surrogate becomes U+FFFD.
pub fn decode_text(bytes: &[u8]) -> String {
    let body = bytes.strip_prefix(&[0xff, 0xfe]).unwrap_or(bytes);
    let units: Vec<u16> = body
        .as_chunks::<2>()
        .0
        .iter()
        .map(|unit| u16::from_le_bytes(*unit))
        .collect();
    let length = units.iter().rposition(|&unit| unit != 0).map_or(0, |last| last + 1);
    String::from_utf16_lossy(&units[..length])
}

/// Reads the XML's text. Unknown elements are passed over.
///
/// # Errors
/// [`WimError::InvalidXml`] when it is not well-formed, its root is not `WIM`, two images have one INDEX, or it has more
/// images, levels or list entries than any WIM.
pub fn parse(text: &str, wim: &str) -> Result<WimInfo, WimError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().allow_dangling_amp = true;
    let mut parser = Parser::default();
    loop {
        let offset = reader.buffer_position();
        let event = reader
            .read_event()
            .map_err(|error| (reader.error_position(), error.to_string()));
        match event.and_then(|event| parser.event(event).map_err(|reason| (offset, reason))) {
            Ok(false) => {}
            Ok(true) => return Ok(parser.finish()),
            Err((offset, reason)) => {
                return Err(WimError::InvalidXml {
                    wim: wim.to_owned(),
                    offset,
                    reason,
                });
            }
        }
    }
}

#[derive(Default)]
struct Parser {
    /// Names of the open elements.
    open: Vec<String>,
    /// Text of the innermost open element.
    text: String,
    info: WimInfo,
    image: Option<ImageInfo>,
    seen_indexes: HashSet<u32>,
    last_index: u32,
    seen_root: bool,
    /// The halves of a FILETIME that is being read.
    high_part: Option<u64>,
    low_part: Option<u64>,
    fallback_language: Option<String>,
}

impl Parser {
    /// Takes one event; `true` at the end.
    fn event(&mut self, event: Event<'_>) -> Result<bool, String> {
        match event {
            Event::Start(start) | Event::Empty(start) => self.start(&start)?,
            Event::End(_) => self.end(),
            Event::Text(text) => self.text.push_str(&text.xml10_content()),
            Event::CData(text) => self.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let name = reference.into_inner();
                match reference_text(&name) {
                    Some(text) => self.text.push_str(&text),
                    None => self.text.push_str(&format!("&{name};")),
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => {
                return match self.open.last() {
                    Some(name) => Err(format!("it ends inside <{name}>")),
                    None if self.seen_root => Ok(true),
                    None => Err("it has no element".to_owned()),
                };
            }
        }
        Ok(false)
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.name();
        let name = name.as_ref().to_owned();
        if self.open.len() >= MAX_XML_DEPTH {
            return Err(format!("<{name}> is more than {MAX_XML_DEPTH} levels deep"));
        }
        if self.open.is_empty() {
            if name != "WIM" || self.seen_root {
                return Err(format!("found <{name}>, expected one <WIM>"));
            }
            self.seen_root = true;
        }
        self.text.clear();
        self.open.push(name);
        let open = std::mem::take(&mut self.open);
        let started = self.start_below_root(Path::of(&open).parts(), start);
        self.open = open;
        started
    }

    /// What a start tag itself says. `path` is that of its element below the root.
    fn start_below_root(&mut self, path: &[&str], start: &BytesStart<'_>) -> Result<(), String> {
        match path {
            ["IMAGE"] => self.start_image(start)?,
            ["IMAGE", "WINDOWS"] => {
                self.windows();
            }
            ["IMAGE", "WINDOWS", "LANGUAGES", "FALLBACK"] => self.fallback_language = attribute(start, "LANGUAGE"),
            ["IMAGE", "WINDOWS", "EDITIONS", "EDITION"] => {
                if let Some(edition) = attribute(start, "ID").or_else(|| attribute(start, "NAME")) {
                    push_bounded(&mut self.windows().editions, edition);
                }
            }
            ["IMAGE", "CREATIONTIME" | "LASTMODIFICATIONTIME"] => (self.high_part, self.low_part) = (None, None),
            _ => {}
        }
        Ok(())
    }

    fn start_image(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.info.images.len() >= crate::wim::MAX_IMAGES {
            return Err(format!("there are more than {} images", crate::wim::MAX_IMAGES));
        }
        let index = match attribute(start, "INDEX") {
            None => self.last_index.saturating_add(1),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| format!("INDEX is `{}`, expected a number", text.escape_debug()))?,
        };
        if !self.seen_indexes.insert(index) {
            return Err(format!("two images have INDEX {index}"));
        }
        self.last_index = index;
        self.image = Some(ImageInfo {
            index,
            ..ImageInfo::default()
        });
        Ok(())
    }

    fn end(&mut self) {
        let text = std::mem::take(&mut self.text);
        let mut open = std::mem::take(&mut self.open);
        match Path::of(&open).parts() {
            ["TOTALBYTES"] => self.info.total_bytes = number(&text),
            ["IMAGE"] => self.info.images.extend(self.image.take()),
            ["IMAGE", "WINDOWS", rest @ ..] => self.end_windows(rest, text),
            ["IMAGE", rest @ ..] => self.end_image_field(rest, text),
            _ => {}
        }
        open.pop();
        self.open = open;
    }

    fn end_image_field(&mut self, path: &[&str], text: String) {
        let time = self
            .high_part
            .zip(self.low_part)
            .map(|(high, low)| Filetime(high << 32 | low & 0xffff_ffff));
        let (high_part, low_part) = (&mut self.high_part, &mut self.low_part);
        let Some(image) = &mut self.image else { return };
        match path {
            ["NAME"] => image.name = non_empty(text),
            ["DESCRIPTION"] => image.description = non_empty(text),
            ["DISPLAYNAME"] => image.display_name = non_empty(text),
            ["DISPLAYDESCRIPTION"] => image.display_description = non_empty(text),
            ["FLAGS"] => image.flags = non_empty(text),
            ["DIRCOUNT"] => image.directory_count = number(&text),
            ["FILECOUNT"] => image.file_count = number(&text),
            ["TOTALBYTES"] => image.total_bytes = number(&text),
            ["HARDLINKBYTES"] => image.hard_link_bytes = number(&text),
            ["CREATIONTIME" | "LASTMODIFICATIONTIME", "HIGHPART"] => *high_part = number(&text),
            ["CREATIONTIME" | "LASTMODIFICATIONTIME", "LOWPART"] => *low_part = number(&text),
            ["CREATIONTIME"] => image.creation_time = time,
            ["LASTMODIFICATIONTIME"] => image.last_modification_time = time,
            _ => {}
        }
    }

    fn end_windows(&mut self, path: &[&str], text: String) {
        let fallback_language = self.fallback_language.take();
        let windows = self.windows();
        match path {
            ["ARCH"] => windows.architecture = number_32(&text).map(Into::into),
            ["PRODUCTNAME"] => windows.product_name = non_empty(text),
            ["EDITIONID"] => windows.edition_id = non_empty(text),
            ["INSTALLATIONTYPE"] => windows.installation_type = non_empty(text),
            ["HAL"] => windows.hal = non_empty(text),
            ["PRODUCTTYPE"] => windows.product_type = non_empty(text),
            ["PRODUCTSUITE"] => windows.product_suite = non_empty(text),
            ["SYSTEMROOT"] => windows.system_root = non_empty(text),
            ["LANGUAGES", "LANGUAGE"] => push_bounded(&mut windows.languages, text),
            ["LANGUAGES", "DEFAULT"] => windows.default_language = non_empty(text),
            ["LANGUAGES", "FALLBACK"] => {
                push_bounded(
                    &mut windows.fallback_languages,
                    (fallback_language.unwrap_or_default(), text),
                );
            }
            ["SERVICINGDATA", "GDRDUREVISION"] => windows.gdr_revision = non_empty(text),
            ["SERVICINGDATA", "IMAGESTATE"] => windows.image_state = non_empty(text),
            ["EDITIONS", "EDITION"] if !text.trim().is_empty() => push_bounded(&mut windows.editions, text),
            ["VERSION", field] => {
                let version = windows.version.get_or_insert_default();
                end_version_field(version, field, text);
            }
            _ => {}
        }
    }

    fn windows(&mut self) -> &mut WindowsInfo {
        self.image.get_or_insert_default().windows.get_or_insert_default()
    }

    fn finish(mut self) -> WimInfo {
        self.info.images.sort_by_key(|image| image.index);
        self.info
    }
}

/// The open elements below the root, without allocating; empty for the root itself and where no known field is so deep.
struct Path<'a> {
    names: [&'a str; KNOWN_DEPTH],
    depth: usize,
}

impl<'a> Path<'a> {
    fn of(open: &'a [String]) -> Self {
        let below_root = open.get(1..).filter(|names| names.len() <= KNOWN_DEPTH).unwrap_or(&[]);
        let mut names = [""; KNOWN_DEPTH];
        for (slot, name) in names.iter_mut().zip(below_root) {
            *slot = name;
        }
        Self {
            names,
            depth: below_root.len(),
        }
    }

    fn parts(&self) -> &[&'a str] {
        &self.names[..self.depth]
    }
}

fn end_version_field(version: &mut Version, field: &str, text: String) {
    match field {
        "MAJOR" => version.major = number_32(&text),
        "MINOR" => version.minor = number_32(&text),
        "BUILD" => version.build = number_32(&text),
        "SPBUILD" => version.sp_build = number_32(&text),
        "SPLEVEL" => version.sp_level = number_32(&text),
        "BRANCH" => version.branch = non_empty(text),
        _ => {}
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    // Values are short and plain; a damaged attribute counts as missing.
    start
        .html_attributes()
        .flatten()
        .find(|attribute| attribute.key.as_ref() == name)
        .map(|attribute| {
            let value = attribute.value.as_ref();
            escape::unescape(value).map_or_else(|_| value.to_owned(), |value| value.into_owned())
        })
}

/// What `&name;` stands for. Windows' own XML has control characters as numbers, which XML 1.0 forbids: they are data.
fn reference_text(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        return escape::resolve_predefined_entity(name).map(str::to_owned);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code).map(String::from)
}

fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_LIST {
        list.push(item);
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn number_32(text: &str) -> Option<u32> {
    number(text).and_then(|number| u32::try_from(number).ok())
}
