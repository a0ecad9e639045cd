// SPDX-License-Identifier: GPL-3.0-or-later
//! Registry paths as people type them, and where they lie in a hive or in a world's registry.

use crate::upcase::eq_names;

/// The roots of a world's registry: as typed, and the path in `registry.hiv`. The first spelling of each
/// is the one that is shown.
const WORLD: [(&str, &str); 14] = [
    ("HKEY_LOCAL_MACHINE", "Windows\\Machine"),
    ("HKLM", "Windows\\Machine"),
    ("HKEY_USERS", "Windows\\User"),
    ("HKU", "Windows\\User"),
    ("HKEY_CLASSES_ROOT", "Windows\\Machine\\SOFTWARE\\Classes"),
    ("HKCR", "Windows\\Machine\\SOFTWARE\\Classes"),
    ("HKEY_CURRENT_USER", "Windows\\User\\.DEFAULT"),
    ("HKCU", "Windows\\User\\.DEFAULT"),
    (
        "HKEY_CURRENT_CONFIG",
        "Windows\\Machine\\SYSTEM\\CurrentControlSet\\Hardware Profiles\\Current",
    ),
    (
        "HKCC",
        "Windows\\Machine\\SYSTEM\\CurrentControlSet\\Hardware Profiles\\Current",
    ),
    ("\\Registry\\Machine", "Windows\\Machine"),
    ("\\Registry\\User", "Windows\\User"),
    ("Registry\\Machine", "Windows\\Machine"),
    ("Registry\\User", "Windows\\User"),
];

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// What of `path` follows `prefix`, name by name and whatever the case.
fn strip<'p>(path: &'p [u16], prefix: &[u16]) -> Option<&'p [u16]> {
    let (head, rest) = path.split_at_checked(prefix.len())?;
    let ends = rest.first().is_none_or(|&unit| unit == u16::from(b'\\'));
    (ends && eq_names(head, prefix)).then(|| rest.strip_prefix(&[u16::from(b'\\')]).unwrap_or(rest))
}

/// Where a typed path lies in a world's registry: `HKLM\SYSTEM\Setup` is `Windows\Machine\SYSTEM\Setup`.
/// Both spellings of the roots, `\Registry\Machine\…` and the paths of the file itself are taken.
#[must_use]
pub fn in_world(path: &[u16]) -> Vec<u16> {
    for (typed, stored) in WORLD {
        if let Some(rest) = strip(path, &units(typed)) {
            let mut found = units(stored);
            if !rest.is_empty() {
                found.push(u16::from(b'\\'));
                found.extend_from_slice(rest);
            }
            return found;
        }
    }
    path.to_vec()
}

/// The same for text.
#[must_use]
pub fn in_world_str(path: &str) -> String {
    String::from_utf16_lossy(&in_world(&units(path)))
}

/// How a path of a world's registry is shown: `Windows\Machine\SYSTEM` is `HKEY_LOCAL_MACHINE\SYSTEM`.
#[must_use]
pub fn shown_from_world(path: &str) -> String {
    for (shown, stored) in [WORLD[0], WORLD[2]] {
        if let Some(rest) = strip(&units(path), &units(stored)) {
            let rest = String::from_utf16_lossy(rest);
            return if rest.is_empty() {
                shown.to_owned()
            } else {
                format!("{shown}\\{rest}")
            };
        }
    }
    path.to_owned()
}

/// Where a path of a text lies in a single hive whose root is called `root` there (such as
/// `HKEY_LOCAL_MACHINE\SOFTWARE`). `HKLM` and `HKEY_LOCAL_MACHINE` are one root. `None`: it lies outside.
#[must_use]
pub fn in_hive(path: &[u16], root: &str) -> Option<Vec<u16>> {
    let root = units(root.trim_end_matches('\\'));
    if root.is_empty() {
        return Some(path.to_vec());
    }
    if let Some(rest) = strip(path, &root) {
        return Some(rest.to_vec());
    }
    strip(&in_world(path), &in_world(&root)).map(<[u16]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_as_people_type_them() {
        for path in [
            "HKLM\\SYSTEM\\Setup",
            "hkey_local_machine\\SYSTEM\\Setup",
            "\\REGISTRY\\MACHINE\\SYSTEM\\Setup",
        ] {
            assert_eq!(in_world_str(path), "Windows\\Machine\\SYSTEM\\Setup");
        }
        assert_eq!(in_world_str("HKLMX\\a"), "HKLMX\\a");
        assert_eq!(in_world_str("Windows\\User"), "Windows\\User");
        assert_eq!(in_world_str("HKU"), "Windows\\User");
        assert_eq!(
            shown_from_world("windows\\machine\\SOFTWARE"),
            "HKEY_LOCAL_MACHINE\\SOFTWARE"
        );
    }

    #[test]
    fn a_path_outside_the_hive_is_refused() {
        let root = "HKEY_LOCAL_MACHINE\\SOFTWARE";
        assert_eq!(in_hive(&units("hklm\\software\\A"), root), Some(units("A")));
        assert_eq!(in_hive(&units("HKEY_LOCAL_MACHINE\\SOFTWARE"), root), Some(Vec::new()));
        assert_eq!(in_hive(&units("HKEY_LOCAL_MACHINE\\SYSTEM\\A"), root), None);
        assert_eq!(in_hive(&units("A\\B"), ""), Some(units("A\\B")));
    }
}
