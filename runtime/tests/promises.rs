// SPDX-License-Identifier: GPL-3.0-or-later
//! Promises about the crate as a whole: its documentation is what its table says, and its `unsafe` does not grow unseen.

use std::path::{Path, PathBuf};

use runtime::nt::table::report_markdown;

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `docs/runtime.md` holds the table between its two marks. `VODKA_BLESS=1` writes it anew.
#[test]
fn the_documentation_shows_the_table() {
    const START: &str = "<!-- the table: written by the test `the_documentation_shows_the_table` -->\n";
    const END: &str = "<!-- the table ends -->\n";
    let path = crate_directory().join("../docs/runtime.md");
    let text = std::fs::read_to_string(&path).expect("docs/runtime.md");
    let (before, rest) = text.split_once(START).expect("the start mark");
    let (table, after) = rest.split_once(END).expect("the end mark");
    let expected = report_markdown();
    if std::env::var_os("VODKA_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{START}{expected}{END}{after}")).expect("written");
        return;
    }
    assert!(
        table == expected,
        "docs/runtime.md is not what the table says; VODKA_BLESS=1 cargo test -p runtime writes it"
    );
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Places of `unsafe` in a module's sources: blocks, functions and foreign declarations.
fn count_unsafe(module: &str) -> usize {
    let mut files = Vec::new();
    sources(&crate_directory().join("src").join(module), &mut files);
    let lines = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(file).expect("text");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.map(|line| {
        ["unsafe {", "unsafe fn", "unsafe extern"]
            .iter()
            .map(|form| line.matches(form).count())
            .sum::<usize>()
    })
    .sum()
}

#[test]
fn unsafe_stays_where_it_is_and_as_much_as_it_is() {
    // A change of these numbers is announced in the commit that makes it.
    let expected = [("arch", 23), ("uaccess", 6), ("linux", 8)];
    for (module, count) in expected {
        assert_eq!(count_unsafe(module), count, "places of unsafe in {module}");
    }
    for module in ["cli", "flavor", "image", "nt", "object", "start", "vdk"] {
        assert_eq!(count_unsafe(module), 0, "places of unsafe in {module}");
    }
}
