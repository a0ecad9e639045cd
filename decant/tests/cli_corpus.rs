// SPDX-License-Identifier: GPL-3.0-or-later
//! Every ISO and WIM of the shared corpus, through the commands, ends as its row of the MANIFEST says.

mod cli_support;

use std::path::{Path, PathBuf};

use cli_support::{Home, Said, skipped};
use fixtures::tools::Run;

/// The corpus' files below `directory`; those ending in `.xz` are unpacked into `home` (as sparse files).
fn corpus(directory: &str, home: &Home) -> Vec<(String, PathBuf)> {
    let Some(root) = fixtures::corpus::root() else {
        skipped("the shared corpus is not there");
        return Vec::new();
    };
    let manifest = std::fs::read_to_string(root.join("MANIFEST.tsv")).expect("the MANIFEST is readable");
    let names = manifest.lines().skip(1).filter_map(|line| line.split('\t').next());
    let names = names.filter(|name| name.starts_with(directory) && !name.ends_with(".expected"));
    names
        .map(|name| {
            let path = root.join(name);
            let path = match name.strip_suffix(".xz") {
                Some(plain) => {
                    let to = home.path().join(plain.replace('/', "-"));
                    Run::new("xz")
                        .and_then(|run| run.args(["-dc"]).arg(&path).output_to_sparse(&to))
                        .expect("xz unpacks");
                    to
                }
                None => path,
            };
            (name.rsplit('/').next().unwrap_or(name).to_owned(), path)
        })
        .collect()
}

fn run(home: &Home, words: &[&str], path: &Path) -> Said {
    let mut all: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
    all.push(path.into());
    home.decant(all)
}

#[test]
fn every_iso_of_the_corpus_is_listed_or_refused_as_its_row_says() {
    if fixtures::tools::require(&["xz"]).is_err() {
        return skipped("xz is not installed");
    }
    let home = Home::new();
    for (name, path) in corpus("iso/", &home) {
        let said = run(&home, &["medium", "ls"], &path);
        // The one hostile image has a loop in its Rock Ridge continuation: named, not followed.
        let expected: &[i32] = match name.as_str() {
            "test_read_format_iso_rockridge_ce_loop.iso" => &[0, 3, 6],
            // Stored compressed by zisofs with an impossible size: listed with what the directory says.
            "test_read_format_iso_zisofs_overflow.iso" => &[0, 3, 6],
            _ => &[0],
        };
        assert!(
            said.code.is_some_and(|code| expected.contains(&code)),
            "{name}: {said:?}"
        );
        // None of them is a Windows medium.
        run(&home, &["windows", "list", "--iso"], &path).ended_with(if said.code == Some(6) { 6 } else { 3 });
    }
}

#[test]
fn every_wim_of_the_corpus_is_listed_and_imported_or_refused_as_its_row_says() {
    let home = Home::new();
    for (name, path) in corpus("wim/", &home)
        .into_iter()
        .filter(|(name, _)| name.ends_with(".wim"))
    {
        let said = home.import(&path, &["--edition", "1", "--world", "world"]);
        let words: &[&str] = match name.as_str() {
            "cyclic.wim" | "dotdot.wim" | "duplicate_names.wim" => &["error: "],
            "corrupted_file_1.wim" => &["error: "],
            _ => &[],
        };
        // These are no Windows; what is refused as hostile must not be refused for that reason only, so the library is
        // asked about each in `wim_corpus`. Here: no panic, no world, nothing outside.
        assert!(matches!(said.code, Some(3 | 4 | 6)), "{name}: {said:?}");
        said.complains_of(words);
        assert!(!home.world("world").exists(), "{name}");
    }
}
