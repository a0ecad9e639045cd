// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka hive export` and `import`: registry text both ways.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hive::reg_export::{ExportOptions, TextForm};
use hive::{Hive, Strictness, WriteOptions, paths, reg_import};

use super::super::{ExitCode, Failure, Output};
use super::target::{Where, damage, failure, note, now, read_file, write_new, wrong_usage};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Version 5 in UTF-16, as Windows writes it
    Utf16,
    /// Version 5 in UTF-8, for people; Regedit does not read it
    Utf8,
    /// REGEDIT4 in code page 1252
    Regedit4,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Export {
    /// WHERE [KEY]
    #[arg(value_name = "WHERE [KEY]")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Write to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The text's form [default: utf16 to a file, utf8 to standard output]
    #[arg(long, value_enum)]
    form: Option<Form>,
    /// What the hive's root is called in the text, such as HKEY_LOCAL_MACHINE\SOFTWARE
    #[arg(long, value_name = "PATH")]
    root: Option<String>,
    /// Also write classes, security descriptors, times and flags, in comments that `import` reads
    #[arg(long)]
    whole: bool,
    /// Write what can be read of a damaged hive
    #[arg(long)]
    damaged: bool,
}

pub(super) fn export(arguments: &Export) -> Result<ExitCode, Failure> {
    let (target, mut words) = arguments.place.target(&arguments.words, "export WHERE [KEY]")?;
    let typed = words.pop_front().unwrap_or_default();
    if !words.is_empty() {
        return Err(wrong_usage("too many words", "export WHERE [KEY]").hint("quote a key that has spaces in it"));
    }
    let bytes = target.read(arguments.damaged)?;
    let (hive, _) = Hive::open_damaged(&bytes).map_err(damage)?;
    let start = target.find(&hive, &typed)?;
    let below = target.shown_path(&target.key_path(&typed));
    let path = match &arguments.root {
        Some(root) if below.is_empty() => root.clone(),
        Some(root) => format!("{}\\{below}", root.trim_end_matches('\\')),
        None => below,
    };
    let form = match (arguments.form, &arguments.out) {
        (Some(Form::Utf16), _) | (None, Some(_)) => TextForm::Version5,
        (Some(Form::Utf8), _) | (None, None) => TextForm::Version5Utf8,
        (Some(Form::Regedit4), _) => TextForm::Regedit4,
    };
    let strictness = if arguments.damaged {
        Strictness::WalkOn
    } else {
        Strictness::Strict
    };
    let options = ExportOptions {
        form,
        path,
        whole: arguments.whole,
        strictness,
    };
    let (text, found) = hive::reg_export::export(start, &options).map_err(damage)?;
    found.found.iter().for_each(|error| note(&error.to_string()));
    match &arguments.out {
        Some(out) => write_new(out, &text)?,
        None => std::io::stdout().lock().write_all(&text)?,
    }
    Ok(if found.is_clean() {
        ExitCode::Done
    } else {
        ExitCode::Damaged
    })
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// WHERE TEXT
    #[arg(value_name = "WHERE TEXT")]
    words: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// What the hive's root is called in the text, such as HKEY_LOCAL_MACHINE\SOFTWARE
    #[arg(long, value_name = "PATH")]
    root: Option<String>,
    /// Make WHERE: a new hive file
    #[arg(long)]
    new: bool,
}

pub(super) fn import(arguments: &Import) -> Result<ExitCode, Failure> {
    const USAGE: &str = "import WHERE TEXT";
    let (mut target, words) = arguments.place.target(&arguments.words, USAGE)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [text] = words[..] else {
        return Err(wrong_usage("one text is expected", USAGE));
    };
    let text = read_file(&PathBuf::from(text))?;
    let changes = reg_import::parse(&text).map_err(damage)?;
    let root = arguments.root.clone().unwrap_or_default();
    let is_world = target.is_world;
    let place = |path: &[u16]| {
        let inside = paths::in_hive(path, &root)?;
        Some(if is_world { paths::in_world(&inside) } else { inside })
    };
    let now = now();
    if arguments.new {
        let options = WriteOptions {
            timestamp: now,
            ..WriteOptions::default()
        };
        let bytes = reg_import::to_hive(&changes, &options, place).map_err(damage)?;
        write_new(&target.path, &bytes)?;
    } else {
        let mut file = target.edit()?;
        file.change(|editor| reg_import::apply(editor, &changes, now, place))
            .map_err(failure)?;
        file.flush(now).map_err(failure)?;
    }
    Output::Text.line(format!(
        "{}: {} key(s) of the text applied",
        target.shown,
        changes.len()
    ))?;
    Ok(ExitCode::Done)
}
