// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka hive show`, `get`, `diff` and `verify`: commands that change nothing.

use std::io::Write;

use clap::Args;
use hive::format::data_type;
use hive::reg_export::{quoted, value_text};
use hive::{DiffOptions, Difference, Hive, Key, Strictness, Value, Walk};
use serde::Serialize;

use super::super::{ExitCode, Failure, Output};
use super::target::{Where, damage, note, time_text, wrong_usage};

#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// WHERE [KEY]
    #[arg(value_name = "WHERE [KEY]")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// How many levels of subkeys
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Read what can be read of a damaged hive
    #[arg(long)]
    damaged: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownValue {
    name: String,
    #[serde(rename = "type")]
    kind: u32,
    type_name: Option<&'static str>,
    bytes: usize,
    data: String,
    text: Option<String>,
    tombstone: bool,
}

#[derive(Serialize)]
struct ShownKey {
    path: String,
    last_written: Option<String>,
    class: Option<String>,
    flags: u16,
    user_flags: u8,
    layer: Option<String>,
    class_inherited: bool,
    link_target: Option<String>,
    security: Option<String>,
    subkeys: u32,
    values: Vec<ShownValue>,
}

/// The name that Windows has for a type.
fn type_name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        data_type::NONE => "REG_NONE",
        data_type::SZ => "REG_SZ",
        data_type::EXPAND_SZ => "REG_EXPAND_SZ",
        data_type::BINARY => "REG_BINARY",
        data_type::DWORD => "REG_DWORD",
        data_type::DWORD_BIG_ENDIAN => "REG_DWORD_BIG_ENDIAN",
        data_type::LINK => "REG_LINK",
        data_type::MULTI_SZ => "REG_MULTI_SZ",
        data_type::RESOURCE_LIST => "REG_RESOURCE_LIST",
        data_type::FULL_RESOURCE_DESCRIPTOR => "REG_FULL_RESOURCE_DESCRIPTOR",
        data_type::RESOURCE_REQUIREMENTS_LIST => "REG_RESOURCE_REQUIREMENTS_LIST",
        data_type::QWORD => "REG_QWORD",
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wide(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u16::from_le_bytes(*pair))
        .collect();
    String::from_utf16_lossy(&units)
}

/// What data mean, for people: text, lines of text, or a number.
fn meaning(kind: u32, data: &[u8]) -> Option<String> {
    match (kind, data.len()) {
        (data_type::SZ | data_type::EXPAND_SZ, _) => Some(wide(data).trim_end_matches('\0').to_owned()),
        (data_type::LINK, _) => Some(wide(data)),
        (data_type::MULTI_SZ, _) => {
            let text = wide(data);
            let text = text.strip_suffix('\0').unwrap_or(&text);
            Some(text.strip_suffix('\0').unwrap_or(text).replace('\0', "\n"))
        }
        (data_type::DWORD, 4) => data.try_into().ok().map(|bytes| u32::from_le_bytes(bytes).to_string()),
        (data_type::DWORD_BIG_ENDIAN, 4) => data.try_into().ok().map(|bytes| u32::from_be_bytes(bytes).to_string()),
        (data_type::QWORD, 8) => data.try_into().ok().map(|bytes| u64::from_le_bytes(bytes).to_string()),
        _ => None,
    }
}

fn shown_value(value: &Value<'_>, data: &[u8]) -> ShownValue {
    ShownValue {
        name: value.name().to_string(),
        kind: value.data_type(),
        type_name: type_name(value.data_type()),
        bytes: data.len(),
        data: hex(data),
        text: meaning(value.data_type(), data),
        tombstone: value.is_tombstone(),
    }
}

fn shown_key(key: &Key<'_>, path: String, values: Vec<ShownValue>) -> Result<ShownKey, hive::Error> {
    let layer = match key.layer_semantics() {
        hive::LayerSemantics::Merge => None,
        other => Some(format!("{other:?}")),
    };
    Ok(ShownKey {
        path,
        last_written: time_text(key.last_written()),
        class: key.class()?.map(|class| class.to_string()),
        flags: key.flags(),
        user_flags: key.user_flags(),
        layer,
        class_inherited: key.class_is_inherited(),
        link_target: key.link_target()?.map(|target| wide(&target)),
        security: key.security()?.map(hex),
        subkeys: key.nr_subkeys(),
        values,
    })
}

pub(super) fn show(arguments: &Show) -> Result<ExitCode, Failure> {
    let (target, mut words) = arguments.place.target(&arguments.words, "show WHERE [KEY]")?;
    let typed = words.pop_front().unwrap_or_default();
    if !words.is_empty() {
        return Err(wrong_usage("too many words", "show WHERE [KEY]").hint("quote a key that has spaces in it"));
    }
    let bytes = target.read(arguments.damaged)?;
    let (hive, _) = Hive::open_damaged(&bytes).map_err(damage)?;
    let start = target.find(&hive, &typed)?;
    let output = Output::new(arguments.json);
    let strictness = if arguments.damaged {
        Strictness::WalkOn
    } else {
        Strictness::Strict
    };
    let mut walk = Walk::new(start, strictness);
    let mut document = Vec::new();
    let base = target.shown_path(&target.key_path(&typed));
    while let Some(key) = walk.next_key().map_err(damage)? {
        if walk.depth() > arguments.depth {
            continue;
        }
        let below = walk.path();
        let path = match (base.is_empty(), below.is_empty()) {
            (true, _) => below,
            (false, true) => base.clone(),
            (false, false) => format!("{base}\\{below}"),
        };
        let mut values = Vec::new();
        let full = walk.depth() < arguments.depth.max(1);
        if full {
            let each = |value: Value<'_>, data: hive::Data<'_>| {
                values.push((shown_value(&value, &data.to_cow()), value.data_type(), data.to_vec()));
                Ok(())
            };
            walk.values(&key, each).map_err(damage)?;
        }
        let lines: Vec<String> = values
            .iter()
            .map(|(value, kind, data)| line_of(value, *kind, data))
            .collect();
        let shown = match shown_key(
            &key,
            path.clone(),
            values.into_iter().map(|(value, ..)| value).collect(),
        ) {
            Ok(shown) => shown,
            Err(error) => {
                walk.report(error).map_err(damage)?;
                continue;
            }
        };
        print_key(output, &shown, full, &lines)?;
        document.push(shown);
    }
    let found = walk.into_damage();
    for error in &found.found {
        note(&error.to_string());
    }
    output.document(&document)?;
    Ok(if found.is_clean() {
        ExitCode::Done
    } else {
        ExitCode::Damaged
    })
}

/// Text of a line at most; what is cut is said by its size.
fn short(text: &str, bytes: usize) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({bytes} bytes)", &text[..end]),
        None => text.to_owned(),
    }
}

fn line_of(value: &ShownValue, kind: u32, data: &[u8]) -> String {
    let name = if value.name.is_empty() {
        "@".to_owned()
    } else {
        quoted(&value.name)
    };
    let text = match (kind, &value.text) {
        (data_type::EXPAND_SZ | data_type::MULTI_SZ | data_type::LINK, Some(text)) => {
            format!(
                "{} {}",
                type_name(kind).unwrap_or_default(),
                short(&quoted(text), data.len())
            )
        }
        // A megabyte of data need not become three of text first.
        (data_type::SZ, _) => short(&value_text(kind, data), data.len()),
        _ => short(&value_text(kind, &data[..data.len().min(100)]), data.len()),
    };
    format!("  {name}={text}{}", if value.tombstone { " (tombstone)" } else { "" })
}

fn print_key(output: Output, key: &ShownKey, full: bool, lines: &[String]) -> Result<(), Failure> {
    let mut facts = Vec::new();
    if let Some(target) = &key.link_target {
        facts.push(format!("-> {target}"));
    }
    if let Some(layer) = &key.layer {
        facts.push(layer.clone());
    }
    if key.class_inherited {
        facts.push("InheritClass".to_owned());
    }
    if let Some(class) = &key.class {
        facts.push(format!("class {}", quoted(class)));
    }
    if full {
        facts.extend(key.last_written.clone());
    }
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!("  {}", facts.join(", "))
    };
    let path = if key.path.is_empty() { "\\" } else { &key.path };
    output.line(format!("[{path}]{facts}"))?;
    lines.iter().try_for_each(|line| output.line(line))
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// WHERE KEY [VALUE]; without VALUE the default value
    #[arg(value_name = "WHERE KEY [VALUE]")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Print the data's bytes as they are
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn get(arguments: &Get) -> Result<ExitCode, Failure> {
    const USAGE: &str = "get WHERE KEY [VALUE]";
    let (target, words) = arguments.place.target(&arguments.words, USAGE)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (typed, name) = match words[..] {
        [key] | [key, "@"] => (key, ""),
        [key, name] => (key, name),
        _ => return Err(wrong_usage("a key and a value are expected", USAGE)),
    };
    let bytes = target.read(false)?;
    let hive = Hive::open(&bytes).map_err(damage)?;
    let key = target.find(&hive, typed)?;
    let Some(value) = key.value(name).map_err(damage)? else {
        let shown = if name.is_empty() {
            "default value".to_owned()
        } else {
            format!("value {name}")
        };
        return Err(Failure::new(
            ExitCode::Unexpected,
            format!("{}: {typed} has no {shown}", target.shown),
        ));
    };
    let data = value.data().map_err(damage)?.to_vec();
    if arguments.raw {
        std::io::stdout().lock().write_all(&data)?;
        return Ok(ExitCode::Done);
    }
    let output = Output::new(arguments.json);
    let shown = shown_value(&value, &data);
    match &shown.text {
        // A person wants a REG_MULTI_SZ as lines.
        Some(text) => text.split('\n').try_for_each(|line| output.line(line))?,
        None => output.line(&shown.data)?,
    }
    output.document(&shown)?;
    Ok(ExitCode::Done)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Diff {
    /// The first hive or world
    old: String,
    /// The second hive or world
    new: String,
    /// Compare this key and what is below it only
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Compare times of last writes as well
    #[arg(long)]
    times: bool,
    /// Compare classes, security descriptors and flags as well
    #[arg(long)]
    attributes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShownContent {
    #[serde(rename = "type")]
    kind: u32,
    data: String,
}

#[derive(Serialize)]
struct ShownDifference {
    change: &'static str,
    key: String,
    value: Option<String>,
    what: Option<&'static str>,
    old: Option<ShownContent>,
    new: Option<ShownContent>,
}

fn shown_difference(difference: Difference) -> ShownDifference {
    let content = |content: hive::diff::Content| ShownContent {
        kind: content.data_type,
        data: hex(&content.data),
    };
    let shown = |change, key, value, what| ShownDifference {
        change,
        key,
        value,
        what,
        old: None,
        new: None,
    };
    match difference {
        Difference::KeyAdded { path } => shown("added", path, None, None),
        Difference::KeyRemoved { path } => shown("removed", path, None, None),
        Difference::KeyChanged { path, what } => shown("changed", path, None, Some(what)),
        Difference::ValueAdded { path, name, new } => ShownDifference {
            new: Some(content(new)),
            ..shown("added", path, Some(name), None)
        },
        Difference::ValueRemoved { path, name, old } => ShownDifference {
            old: Some(content(old)),
            ..shown("removed", path, Some(name), None)
        },
        Difference::ValueChanged { path, name, old, new } => ShownDifference {
            old: Some(content(old)),
            new: Some(content(new)),
            ..shown("changed", path, Some(name), None)
        },
    }
}

pub(super) fn diff(arguments: &Diff) -> Result<ExitCode, Failure> {
    let (old, new) = (
        arguments.place.named(&arguments.old)?,
        arguments.place.named(&arguments.new)?,
    );
    let (old_bytes, new_bytes) = (old.read(false)?, new.read(false)?);
    let (old_hive, new_hive) = (
        Hive::open(&old_bytes).map_err(damage)?,
        Hive::open(&new_bytes).map_err(damage)?,
    );
    let typed = arguments.key.clone().unwrap_or_default();
    let (a, b) = (old.find(&old_hive, &typed)?, new.find(&new_hive, &typed)?);
    let options = DiffOptions {
        times: arguments.times,
        attributes: arguments.attributes,
    };
    let output = Output::new(arguments.json);
    let (mut document, mut nr, mut unwritten) = (Vec::new(), 0_u64, None);
    let walked = hive::diff(a, b, options, &mut |difference| {
        nr += 1;
        if let Err(failure) = output.line(difference.to_string()) {
            unwritten = Some(failure);
            // Any error ends the walk; this one is not shown.
            return Err(hive::Error::RegistryText);
        }
        if arguments.json {
            document.push(shown_difference(difference));
        }
        Ok(())
    });
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    walked.map_err(damage)?;
    output.document(&document)?;
    Ok(if nr == 0 { ExitCode::Done } else { ExitCode::Unexpected })
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// WHERE
    #[arg(value_name = "WHERE")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Also print what is harmless
    #[arg(long)]
    notes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Verified {
    sound: bool,
    keys: u64,
    values: u64,
    security_descriptors: u64,
    free_bytes: u64,
    lost_cells: u64,
    lost_bytes: u64,
    damage: u64,
    notes: u64,
    findings: Vec<String>,
}

pub(super) fn verify(arguments: &Verify) -> Result<ExitCode, Failure> {
    let (target, words) = arguments.place.target(&arguments.words, "verify WHERE")?;
    if !words.is_empty() {
        return Err(wrong_usage("one hive is expected", "verify WHERE"));
    }
    // The logs are replayed where they can be; else the file itself is checked.
    let bytes = target.read(true)?;
    let report = hive::verify(&bytes).map_err(damage)?;
    let output = Output::new(arguments.json);
    let shown =
        |finding: &&hive::verify::Finding| arguments.notes || finding.severity == hive::verify::Severity::Damage;
    let findings: Vec<String> = report.findings.iter().filter(shown).map(ToString::to_string).collect();
    findings.iter().try_for_each(|finding| output.line(finding))?;
    output.line(format!(
        "{}: {} key(s), {} value(s), {} fault(s), {} note(s)",
        target.shown, report.counts.keys, report.counts.values, report.nr_damage, report.nr_notes
    ))?;
    output.document(&Verified {
        sound: report.is_sound(),
        keys: report.counts.keys,
        values: report.counts.values,
        security_descriptors: report.nr_security,
        free_bytes: report.free_bytes,
        lost_cells: report.nr_lost_cells,
        lost_bytes: report.lost_bytes,
        damage: report.nr_damage,
        notes: report.nr_notes,
        findings,
    })?;
    Ok(if report.is_sound() {
        ExitCode::Done
    } else {
        ExitCode::Damaged
    })
}
