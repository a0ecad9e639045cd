// SPDX-License-Identifier: GPL-3.0-or-later
//! The table of services: the one place that says what is served, and how far. Dispatch, `--trace`, `vodka services` and
//! `docs/runtime.md` come from it. Its levels are promises: `Full` names the test that holds it, `Partial` names what is
//! left out, and a service that only pretends is a `Stub` and does not count as served.

mod names;
mod report;
mod served;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::call::Handler;

pub use report::{Report, ReportLine, report, report_markdown};

/// How far a service is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Every class and flag that the table lists works as documented; the test of this name holds it.
    Full(&'static str),
    /// It works, but for what is named.
    Partial(&'static str),
    /// It answers without doing the work.
    Stub(&'static str),
    /// `STATUS_NOT_IMPLEMENTED`, logged once.
    Missing,
}

impl Level {
    /// Whether it counts as served.
    #[must_use]
    pub fn is_served(self) -> bool {
        matches!(self, Self::Full(_) | Self::Partial(_))
    }

    /// The level's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Partial(_) => "partial",
            Self::Stub(_) => "stub",
            Self::Missing => "missing",
        }
    }

    /// What the level leaves out, or the test that holds it.
    #[must_use]
    pub fn note(self) -> &'static str {
        match self {
            Self::Full(note) | Self::Partial(note) | Self::Stub(note) => note,
            Self::Missing => "",
        }
    }
}

/// What an argument is, for traces; their count also tells the dispatcher how many to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A handle.
    Handle,
    /// A 32-bit number.
    U32,
    /// A 64-bit number.
    U64,
    /// A BOOLEAN.
    Bool,
    /// An information class.
    Class,
    /// A pointer.
    Pointer,
    /// A pointer to 64 bits whose value at the call is of interest.
    Value,
    /// A UNICODE_STRING.
    Text,
    /// OBJECT_ATTRIBUTES.
    Attributes,
}

/// One service.
#[derive(Debug)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// How far it is served.
    pub level: Level,
    /// Its code; none when missing.
    pub handler: Option<Handler>,
    /// Its arguments; empty when missing.
    pub arguments: &'static [Argument],
    /// The information classes that it serves, for those that have classes.
    pub classes: &'static [u32],
    /// When a world first needs it, 1 to 9; 0 when nothing planned does.
    pub milestone: u8,
    /// Whether it is one of Windows 11 25H2's; Wine's own and those of older builds are not.
    pub listed: bool,
}

/// What a number of an ntdll means whose name no table has.
pub static UNKNOWN: Service = Service {
    name: "(unknown)",
    level: Level::Missing,
    handler: None,
    arguments: &[],
    classes: &[],
    milestone: 0,
    listed: false,
};

/// The whole table by name.
#[must_use]
pub fn all() -> &'static BTreeMap<&'static str, Service> {
    static TABLE: OnceLock<BTreeMap<&'static str, Service>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = BTreeMap::new();
        for (milestone, names) in names::NAMES {
            for name in *names {
                let level = Level::Missing;
                table.insert(
                    *name,
                    Service {
                        name,
                        level,
                        handler: None,
                        arguments: &[],
                        classes: &[],
                        milestone: *milestone,
                        listed: true,
                    },
                );
            }
        }
        for service in served::SERVED.iter().flat_map(|family| family.iter()) {
            let (milestone, listed) = table
                .get(service.name)
                .map_or((0, false), |known| (known.milestone, known.listed));
            let (name, level, arguments, classes) = (service.name, service.level, service.arguments, service.classes);
            table.insert(
                name,
                Service {
                    name,
                    level,
                    handler: Some(service.handler),
                    arguments,
                    classes,
                    milestone,
                    listed,
                },
            );
        }
        table
    })
}

/// The service of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Service> {
    all().get(name)
}

/// The numbers under which a program without an ntdll finds the services that have code: their place in the order of
/// their names. They change with the table; such a program is built for the runtime that runs it.
#[must_use]
pub fn own_numbers() -> Vec<crate::image::LearnedService> {
    let served = all().values().filter(|service| service.handler.is_some());
    let numbered = served.zip(0u32..);
    numbered
        .map(|(service, number)| crate::image::LearnedService {
            name: service.name.to_owned(),
            number,
            rva: 0,
            kind: crate::image::StubKind::Plain,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crate's own sources as one text.
    fn sources() -> String {
        fn read(directory: &std::path::Path, text: &mut String) {
            for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    read(&path, text);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    text.push_str(&std::fs::read_to_string(path).expect("text"));
                }
            }
        }
        let mut text = String::new();
        for directory in ["src", "tests"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
            if path.is_dir() {
                read(&path, &mut text);
            }
        }
        text
    }

    #[test]
    fn a_full_service_names_a_test_that_exists() {
        let sources = sources();
        for service in all().values() {
            if let Level::Full(test) = service.level {
                assert!(
                    sources.contains(&format!("fn {test}()")),
                    "{} names the test {test}, which is not there",
                    service.name
                );
            }
        }
    }

    #[test]
    fn what_is_less_than_full_says_what_it_leaves_out() {
        for service in all().values() {
            if let Level::Partial(note) | Level::Stub(note) = service.level {
                assert!(!note.is_empty(), "{}", service.name);
            }
            assert_eq!(
                service.handler.is_none(),
                service.level == Level::Missing,
                "{}",
                service.name
            );
            assert!(
                service.arguments.len() <= crate::nt::call::MAX_ARGUMENTS,
                "{}",
                service.name
            );
        }
    }

    #[test]
    fn no_service_is_listed_twice() {
        let mut names: Vec<&str> = served::SERVED
            .iter()
            .flat_map(|family| family.iter().map(|service| service.name))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
