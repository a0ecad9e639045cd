// SPDX-License-Identifier: GPL-3.0-or-later
//! What `vodka services` says.

use std::fmt::Write;

use super::{Level, Service, UNKNOWN, all, find};
use crate::image::LearnedService;

/// One service of a report.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReportLine {
    /// The service.
    pub name: String,
    /// Its number in the ntdll that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// `full`, `partial`, `stub` or `missing`.
    pub level: &'static str,
    /// What is left out, or the test that holds a full one.
    pub note: &'static str,
    /// The information classes that it serves.
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    pub classes: &'static [u32],
    /// When a world first needs it, 1 to 9; 0 when nothing planned does.
    pub milestone: u8,
}

/// How much of an ntdll, or of the public list, is served.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// How many services there are.
    pub total: usize,
    /// How many are full.
    pub full: usize,
    /// How many are partial.
    pub partial: usize,
    /// How many only pretend.
    pub stub: usize,
    /// How many are missing.
    pub missing: usize,
    /// Each one, sorted by name.
    pub services: Vec<ReportLine>,
}

impl Report {
    /// The share of full and partial services, in tenths of a percent.
    #[must_use]
    pub fn served_per_mille(&self) -> usize {
        (self.full + self.partial) * 1000 / self.total.max(1)
    }
}

fn line(name: &str, number: Option<u32>, service: &'static Service) -> ReportLine {
    ReportLine {
        name: name.to_owned(),
        number,
        level: service.level.name(),
        note: service.level.note(),
        classes: service.classes,
        milestone: service.milestone,
    }
}

/// Reports on the services of an ntdll, or of Windows 11 25H2's public list without one.
#[must_use]
pub fn report(ntdll: Option<&[LearnedService]>) -> Report {
    let mut services: Vec<ReportLine> = match ntdll {
        Some(learned) => learned
            .iter()
            .map(|of| line(&of.name, Some(of.number), find(&of.name).unwrap_or(&UNKNOWN)))
            .collect(),
        None => all()
            .values()
            .filter(|service| service.listed)
            .map(|of| line(of.name, None, of))
            .collect(),
    };
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let count = |level: &str| services.iter().filter(|service| service.level == level).count();
    Report {
        total: services.len(),
        full: count(Level::Full("").name()),
        partial: count(Level::Partial("").name()),
        stub: count(Level::Stub("").name()),
        missing: count(Level::Missing.name()),
        services,
    }
}

/// The served part of the table in Markdown, for `docs/runtime.md`.
#[must_use]
pub fn report_markdown() -> String {
    let mut text = String::from("| service | level | classes | what is left out |\n|---|---|---|---|\n");
    for service in all().values().filter(|service| service.level != Level::Missing) {
        let classes: Vec<String> = service.classes.iter().map(u32::to_string).collect();
        let note = if let Level::Full(_) = service.level {
            ""
        } else {
            service.level.note()
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {note} |",
            service.name,
            service.level.name(),
            classes.join(" ")
        );
    }
    text
}
