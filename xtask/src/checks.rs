// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the source itself: licence lines, and the count of `unsafe`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::shell::{Shell, workspace};

const SPDX: &str = "SPDX-License-Identifier: GPL-3.0-or-later";
/// Where the announced counts of `unsafe` are kept, one `FILE COUNT` a line.
const UNSAFE_COUNTS: &str = "xtask/unsafe-counts.txt";

/// Every file that git tracks or would track, relative to the workspace.
fn source_files() -> Result<Vec<PathBuf>> {
    let listed = Shell::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .read();
    // An unpacked archive is no git repository: then everything outside `target` is source.
    let Ok(listed) = listed else { return walk(&workspace()) };
    Ok(listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut directories) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    directories.push(entry.path());
                }
            } else {
                files.push(entry.path().strip_prefix(root)?.to_owned());
            }
        }
    }
    Ok(files)
}

/// Every source file begins with its SPDX line (a script has it in its second line).
pub fn spdx() -> Result<String> {
    let mut bad = Vec::new();
    let mut count = 0;
    for file in source_files()? {
        let is_source = file
            .extension()
            .is_some_and(|extension| ["rs", "toml", "sh"].iter().any(|known| extension == *known))
            || file.starts_with(".ci");
        if !is_source || file.ends_with("rustfmt.toml") || file.starts_with(".cargo") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(workspace().join(&file)) else {
            continue;
        };
        count += 1;
        if !text.lines().take(2).any(|line| line.contains(SPDX)) {
            bad.push(file.display().to_string());
        }
    }
    if bad.is_empty() {
        return Ok(format!("{count} files carry their licence line"));
    }
    Err(format!("these files do not begin with `{SPDX}`:\n  {}", bad.join("\n  ")).into())
}

/// `unsafe` grows nowhere unannounced: each file's count must be the one in [`UNSAFE_COUNTS`], so that a new block shows
/// in the same change as a line of its own.
pub fn unsafe_ratchet() -> Result<String> {
    let announced: BTreeMap<PathBuf, usize> = std::fs::read_to_string(workspace().join(UNSAFE_COUNTS))?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(file, count)| Some((PathBuf::from(file), count.parse().ok()?)))
        .collect();
    let mut found = BTreeMap::new();
    for file in source_files()? {
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(workspace().join(&file)) else {
            continue;
        };
        let count = count_unsafe(&text);
        if count > 0 {
            found.insert(file, count);
        }
    }
    let mut wrong = Vec::new();
    for (file, count) in &found {
        let allowed = announced.get(file).copied().unwrap_or(0);
        if *count != allowed {
            wrong.push(format!("{}: {count}, announced {allowed}", file.display()));
        }
    }
    wrong.extend(
        announced
            .iter()
            .filter(|(file, _)| !found.contains_key(*file))
            .map(|(file, count)| format!("{}: 0, announced {count}", file.display())),
    );
    if wrong.is_empty() {
        return Ok(format!(
            "{} uses of `unsafe` in {} files, as announced",
            found.values().sum::<usize>(),
            found.len()
        ));
    }
    Err(format!(
        "the count of `unsafe` differs from {UNSAFE_COUNTS}; if that is meant, change it there:\n  {}",
        wrong.join("\n  ")
    )
    .into())
}

/// How often the keyword `unsafe` stands in code: not in comments, strings or longer words.
fn count_unsafe(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += if rest.starts_with(b"//") {
            rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            rest.windows(2)
                .position(|pair| pair == b"*/")
                .map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if rest[0] == b'"' {
            string(rest)
        } else if rest.starts_with(b"'\"'") {
            3
        } else if is_word(rest[0]) {
            let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
            count += usize::from(&rest[..length] == b"unsafe");
            length
        } else {
            1
        };
    }
    count
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of a raw string that `rest` begins with.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let body = rest.strip_prefix(b"r").or_else(|| rest.strip_prefix(b"br"))?;
    let hashes = body.iter().take_while(|byte| **byte == b'#').count();
    if body.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let start = rest.len() - body.len() + hashes + 1;
    let length = rest[start..].windows(end.len()).position(|window| window == end)?;
    Some(start + length + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keyword_in_code_is_counted() {
        assert_eq!(count_unsafe("unsafe { f() } unsafe fn g() {}"), 2);
        assert_eq!(
            count_unsafe("// unsafe\n/* unsafe */ \"unsafe \\\" unsafe\" r#\"unsafe\"# unsafe_code is_unsafe"),
            0
        );
        assert_eq!(count_unsafe("let quote = '\"'; unsafe {}"), 1);
    }
}
