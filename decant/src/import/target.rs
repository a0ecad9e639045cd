// SPDX-License-Identifier: GPL-3.0-or-later
//! What an installed Windows is made of: the data of `targets/windows/target.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// The parsed `targets/windows/target.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Where the answer file goes, inside the world.
    pub answers: String,
    /// The hives of an installed Windows.
    #[serde(rename = "hive")]
    pub hives: Vec<TargetHive>,
    /// The programs that finish an installation.
    #[serde(rename = "setup_program")]
    pub setup_programs: Vec<SetupProgram>,
}

/// One hive file and where it goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetHive {
    /// Its path inside an image, with `/`.
    pub file: String,
    /// The key of `registry.hiv` that its root becomes, with `\`.
    pub key: String,
}

/// One program that takes part in setup.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupProgram {
    /// Its path inside an image, with `/`.
    pub file: String,
    /// What it does, in a few words.
    pub purpose: String,
}

/// The Windows target.
pub fn windows() -> &'static Target {
    static WINDOWS: LazyLock<Target> = LazyLock::new(|| {
        toml::from_str(include_str!("../../../targets/windows/target.toml"))
            .unwrap_or_else(|error| unreachable!("targets/windows/target.toml is checked by a test: {error}"))
    });
    &WINDOWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_whole_and_the_system_hive_comes_first() {
        let target = windows();
        assert_eq!(target.hives[0].key, r"Windows\Machine\SYSTEM");
        for hive in &target.hives {
            assert!(
                hive.file.starts_with("Windows/") && hive.key.starts_with(r"Windows\"),
                "{hive:?}"
            );
        }
        assert!(
            target
                .setup_programs
                .iter()
                .all(|program| program.file.starts_with("Windows/"))
        );
    }
}
