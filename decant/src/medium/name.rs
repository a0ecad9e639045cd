// SPDX-License-Identifier: GPL-3.0-or-later
//! Names and paths on a medium: splitting, comparing without case, refusing what no file may be called.

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
    fn both_separators_split_a_path() {
        let names: Vec<_> = components("/sources\\./install.wim/", &['/', '\\']).collect();
        assert_eq!(names, ["sources", "install.wim"]);
    }
}
