// SPDX-License-Identifier: GPL-3.0-or-later
//! Names and paths on a medium: splitting, comparing without case, refusing what no file may be called.

use std::collections::HashSet;
use std::path::Path;

use super::MediumError;

/// Whether two names are equal but for case: each character is compared by its simple uppercase form.
#[must_use]
pub fn same_name(left: &str, right: &str) -> bool {
    left == right
        || left
            .chars()
            .flat_map(char::to_uppercase)
            .eq(right.chars().flat_map(char::to_uppercase))
}

/// Whether a stored name could be taken for another place, or cannot be a name at all.
pub(super) fn is_unusable(name: &str) -> bool {
    name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0'])
}

/// `directory` + `/` + `name`, without a `/` at the root.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// The names of a path, with either separator; empty names and `.` are left out.
pub(super) fn components<'a>(path: &'a str, separators: &'a [char]) -> impl Iterator<Item = &'a str> {
    path.split(separators).filter(|name| !name.is_empty() && *name != ".")
}

/// Refuses a directory with a name that cannot be used or that comes twice.
pub(super) fn check_names<'a>(
    medium: &Path,
    directory: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), MediumError> {
    let mut known = HashSet::new();
    for name in names {
        if is_unusable(name) {
            let (path, directory, name) = (medium.to_owned(), directory.to_owned(), name.to_owned());
            return Err(MediumError::UnusableName { path, directory, name });
        }
        if !known.insert(name) {
            let (path, directory, name) = (medium.to_owned(), directory.to_owned(), name.to_owned());
            return Err(MediumError::DuplicateName { path, directory, name });
        }
    }
    Ok(())
}

/// What goes with a name: the exact one, else the first (in byte order) that differs only in case.
pub(super) fn pick<'a, T>(names: impl Iterator<Item = (&'a str, T)>, wanted: &str) -> Option<T> {
    let mut alike: Option<(&str, T)> = None;
    for (name, value) in names {
        if name == wanted {
            return Some(value);
        }
        if same_name(name, wanted) && alike.as_ref().is_none_or(|(known, _)| name < *known) {
            alike = Some((name, value));
        }
    }
    alike.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case() {
        assert!(same_name("Install.WIM", "install.wim"));
        assert!(same_name("STRASSE\u{c4}", "strasse\u{e4}"));
        assert!(!same_name("install.wim", "install.wi"));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_unusable() {
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(is_unusable(name), "{name:?}");
        }
        assert!(!is_unusable("..."));
        assert!(!is_unusable("a\\x2db"));
    }

    #[test]
    fn an_exact_name_goes_before_one_that_differs_in_case() {
        let names = ["SOURCES", "Sources", "sources"];
        assert_eq!(
            pick(names.iter().map(|name| (*name, *name)), "sources"),
            Some("sources")
        );
        assert_eq!(
            pick(names.iter().map(|name| (*name, *name)), "SoUrCeS"),
            Some("SOURCES")
        );
        assert_eq!(pick(names.iter().map(|name| (*name, *name)), "source"), None);
    }

    #[test]
    fn a_name_twice_is_refused() {
        let error = check_names(Path::new("x.iso"), "sources", ["a", "b", "a"].into_iter()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("/sources has two entries with the name \"a\""),
            "{error}"
        );
    }

    #[test]
    fn both_separators_split_a_path() {
        let names: Vec<_> = components("/sources\\./install.wim/", &['/', '\\']).collect();
        assert_eq!(names, ["sources", "install.wim"]);
    }
}
