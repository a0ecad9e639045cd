// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka hive set`, `delete`, `load` and `recover`: commands that write.

use std::path::{Path, PathBuf};

use clap::Args;
use hive::format::data_type;
use hive::{Hive, HiveFile, Strictness, WriteOptions};

use super::super::{ExitCode, Failure, Output};
use super::target::{Where, damage, failure, note, now, read_file, write_new, wrong_usage};

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Set {
    /// WHERE KEY VALUE DATA...; VALUE @ is the default value
    ///
    /// Types are sz, expand-sz, multi-sz (each word a line), dword, qword, binary, none, link or a
    /// number. The data of all but text and numbers are hexadecimal. What begins with a minus goes behind `--`.
    #[arg(value_name = "WHERE KEY VALUE DATA")]
    words: Vec<String>,
    /// The type
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "sz")]
    kind: String,
    #[command(flatten)]
    place: Where,
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn bytes_of(words: &[&str]) -> Option<Vec<u8>> {
    let digits: String = words
        .concat()
        .chars()
        .filter(|c| !matches!(c, ',' | ' ' | ':'))
        .collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match std::str::from_utf8(pair) {
            Ok(text) if text.len() == 2 && !text.starts_with('+') => u8::from_str_radix(text, 16).ok(),
            _ => None,
        })
        .collect()
}

/// The type number and the data that a person means.
fn data(kind: &str, words: &[&str]) -> Result<(u32, Vec<u8>), Failure> {
    let joined = words.join(" ");
    let wrong = |expected: &str| {
        let what = format!("{joined:?} is no data of type {kind}: expected {expected}");
        Failure::new(ExitCode::Usage, what)
    };
    let hexadecimal = || bytes_of(words).ok_or_else(|| wrong("pairs of hexadecimal digits"));
    let small = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    Ok(
        match kind
            .trim_start_matches("REG_")
            .to_ascii_lowercase()
            .replace('_', "-")
            .as_str()
        {
            "sz" => (data_type::SZ, hive::tree::utf16_terminated(&joined)),
            "expand-sz" => (data_type::EXPAND_SZ, hive::tree::utf16_terminated(&joined)),
            "link" => (data_type::LINK, wide(&joined)),
            "multi-sz" => {
                if words.iter().any(|word| word.is_empty()) {
                    return Err(wrong("no empty word: it would end the list"));
                }
                let mut data: Vec<u8> = words
                    .iter()
                    .flat_map(|word| hive::tree::utf16_terminated(word))
                    .collect();
                data.extend([0, 0]);
                (data_type::MULTI_SZ, data)
            }
            "dword" => {
                let number = small(number(&joined)).ok_or_else(|| wrong("a number of 32 bits, decimal or 0x…"))?;
                (data_type::DWORD, number.to_le_bytes().to_vec())
            }
            "qword" => {
                let number = number(&joined).ok_or_else(|| wrong("a number of 64 bits, decimal or 0x…"))?;
                (data_type::QWORD, number.to_le_bytes().to_vec())
            }
            "binary" => (data_type::BINARY, hexadecimal()?),
            "none" => (data_type::NONE, hexadecimal()?),
            other => match small(number(other)) {
                Some(number) => (number, hexadecimal()?),
                None => {
                    let what = format!("{kind:?} is no type");
                    return Err(Failure::new(ExitCode::Usage, what)
                        .hint("types are sz, expand-sz, multi-sz, dword, qword, binary, none, link or a number"));
                }
            },
        },
    )
}

pub(super) fn set(arguments: &Set) -> Result<ExitCode, Failure> {
    const USAGE: &str = "set WHERE KEY VALUE DATA... [--type TYPE]";
    let (mut target, words) = arguments.place.target(&arguments.words, USAGE)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [key, name, rest @ ..] = &words[..] else {
        return Err(wrong_usage("a key, a value and data are expected", USAGE));
    };
    let (kind, data) = data(&arguments.kind, rest)?;
    let name = if *name == "@" { Vec::new() } else { units(name) };
    let path = target.key_path(key);
    let mut file = target.edit()?;
    let now = now();
    file.change(|editor| {
        let key = editor.create_path(&path, now)?;
        editor.set_value(key, &name, kind, &data, now)
    })
    .map_err(failure)?;
    file.flush(now).map_err(failure)?;
    Ok(ExitCode::Done)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Delete {
    /// WHERE KEY [VALUE]; without VALUE the key
    #[arg(value_name = "WHERE KEY [VALUE]")]
    words: Vec<String>,
    /// Delete a key's subkeys as well
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    place: Where,
}

pub(super) fn delete(arguments: &Delete) -> Result<ExitCode, Failure> {
    const USAGE: &str = "delete WHERE KEY [VALUE]";
    let (mut target, words) = arguments.place.target(&arguments.words, USAGE)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (typed, name) = match words[..] {
        [key] => (key, None),
        [key, name] => (key, Some(if name == "@" { Vec::new() } else { units(name) })),
        _ => return Err(wrong_usage("a key, and perhaps a value, is expected", USAGE)),
    };
    let mut file = target.edit()?;
    let Some(key) = file.editor().find(&target.key_path(typed)).map_err(damage)? else {
        return Err(target.missing_key(&file.editor().hive(), typed));
    };
    let now = now();
    let done = file.change(|editor| match &name {
        Some(name) => editor.delete_value(key, name, now),
        None if arguments.tree => editor.delete_tree(key, now),
        None => editor.delete_key(key, now),
    });
    let has_subkeys = file.editor().key(key).is_ok_and(|key| key.nr_subkeys() > 0);
    done.map_err(|error| {
        let failure = failure(error);
        if name.is_none() && has_subkeys {
            failure.hint("--tree deletes its subkeys as well")
        } else {
            failure
        }
    })?;
    file.flush(now).map_err(failure)?;
    Ok(ExitCode::Done)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Load {
    /// WHERE KEY HIVE: the hive file's root becomes the new key KEY
    #[arg(value_name = "WHERE KEY HIVE")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
}

pub(super) fn load(arguments: &Load) -> Result<ExitCode, Failure> {
    const USAGE: &str = "load WHERE KEY HIVE";
    let (mut target, words) = arguments.place.target(&arguments.words, USAGE)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [typed, source] = words[..] else {
        return Err(wrong_usage("a key and a hive are expected", USAGE));
    };
    let source = arguments.place.named(source)?;
    let bytes = source.read(false)?;
    let root = Hive::open(&bytes).and_then(|hive| hive.root()).map_err(damage)?;
    let path = target.key_path(typed);
    let (parent, name) = path.rsplit_once('\\').unwrap_or(("", &path));
    if name.is_empty() {
        return Err(wrong_usage("the root cannot be replaced: name a new key", USAGE));
    }
    let mut file = target.edit()?;
    let now = now();
    let counts = file
        .change(|editor| {
            let parent = editor.create_path(parent, now)?;
            editor.graft(parent, &units(name), root, now)
        })
        .map_err(failure)?;
    file.flush(now).map_err(failure)?;
    let shown = target.shown_path(&path);
    Output::Text.line(format!(
        "{}   {} key(s), {} value(s) -> {shown}",
        source.shown, counts.keys, counts.values
    ))?;
    Ok(ExitCode::Done)
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Recover {
    /// The hive file; its logs are those beside it
    file: PathBuf,
    /// A log, in place of those beside the hive; LOG1 first
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// Where the clean hive goes [default: FILE.recovered]
    #[arg(long, value_name = "FILE", conflicts_with = "in_place")]
    out: Option<PathBuf>,
    /// Recover the file itself and empty its logs
    #[arg(long, conflicts_with = "logs")]
    in_place: bool,
    /// Leave out what is damaged and write the rest anew
    #[arg(long, conflicts_with = "in_place")]
    rebuild: bool,
}

pub(super) fn recover(arguments: &Recover) -> Result<ExitCode, Failure> {
    let path = &arguments.file;
    if arguments.in_place {
        let (_, recovery) = hive::load(path).map_err(failure)?;
        say_recovery(path, recovery.as_ref())?;
        HiveFile::open(path).map_err(failure)?;
        return Ok(ExitCode::Done);
    }
    let bytes = read_file(path)?;
    let logs = if arguments.logs.is_empty() {
        hive::file::read_logs(path).map_err(failure)?
    } else {
        arguments
            .logs
            .iter()
            .map(|log| read_file(log))
            .collect::<Result<_, _>>()?
    };
    let logs: Vec<&[u8]> = logs.iter().map(Vec::as_slice).collect();
    let replayed = match hive::log::recover(&bytes, &logs) {
        Ok((replayed, recovery)) => {
            say_recovery(path, recovery.as_ref())?;
            replayed.into_owned()
        }
        Err(error) if arguments.rebuild => {
            note(&error.to_string());
            bytes.clone()
        }
        Err(error) => return Err(damage(error).hint("--rebuild leaves out what is damaged and keeps the rest")),
    };
    let mut left_out = false;
    let result = if arguments.rebuild {
        let (hive, opened) = Hive::open_damaged(&replayed).map_err(damage)?;
        opened.errors.iter().for_each(|error| note(&error.to_string()));
        let time = hive.base_block().last_written.get();
        let options = WriteOptions {
            timestamp: time,
            strictness: Strictness::WalkOn,
            ..WriteOptions::default()
        };
        let (rebuilt, report) = hive::rebuild(&hive, &options).map_err(damage)?;
        report.damage.found.iter().for_each(|error| note(&error.to_string()));
        left_out = !report.damage.is_clean();
        let counts = report.counts;
        Output::Text.line(format!(
            "{} key(s) and {} value(s) are kept, {} fault(s) were met",
            counts.keys, counts.values, report.damage.nr_found
        ))?;
        rebuilt
    } else {
        replayed
    };
    let mut default = path.clone().into_os_string();
    default.push(".recovered");
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(default));
    write_new(&out, &result)?;
    Output::Text.line(format!("written to {}", out.display()))?;
    Ok(if left_out { ExitCode::Damaged } else { ExitCode::Done })
}

fn say_recovery(path: &Path, recovery: Option<&hive::log::Recovery>) -> Result<(), Failure> {
    let Some(recovery) = recovery else {
        return Output::Text.line(format!("{} is clean: its logs hold nothing for it", path.display()));
    };
    for note_of in &recovery.notes {
        note(&note_of.to_string());
    }
    let base = if recovery.base_block_from_log {
        ", the base block among them"
    } else {
        ""
    };
    Output::Text.line(format!(
        "{}: {} log entr(ies), {} page(s) replayed{base}",
        path.display(),
        recovery.nr_entries,
        recovery.nr_pages
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_what_a_person_types() {
        let of = |kind: &str, words: &[&str]| data(kind, words).map_err(|failure| failure.exit_code);
        assert_eq!(of("dword", &["0x1a"]), Ok((4, vec![0x1a, 0, 0, 0])));
        assert_eq!(of("REG_DWORD", &["26"]), Ok((4, vec![0x1a, 0, 0, 0])));
        assert_eq!(of("sz", &["a", "b"]), Ok((1, vec![b'a', 0, b' ', 0, b'b', 0, 0, 0])));
        assert_eq!(
            of("multi-sz", &["a", "b"]),
            Ok((7, vec![b'a', 0, 0, 0, b'b', 0, 0, 0, 0, 0]))
        );
        assert_eq!(of("binary", &["01,02 ff"]), Ok((3, vec![1, 2, 255])));
        assert_eq!(of("0xffff0011", &["aa"]), Ok((0xffff_0011, vec![0xaa])));
        for (kind, word) in [
            ("dword", "4294967296"),
            ("binary", "1"),
            ("binary", "+1"),
            ("what", "1"),
            ("qword", "x"),
        ] {
            assert_eq!(of(kind, &[word]), Err(ExitCode::Usage), "{kind} {word}");
        }
    }
}
