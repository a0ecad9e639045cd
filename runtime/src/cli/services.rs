// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka services`: which NT services are served, and how far.

use std::path::PathBuf;

use clap::Args;

use super::{ExitCode, Failure, Output};
use crate::nt::table::{Report, report, report_markdown};
use crate::start::services_of;

/// The arguments of `vodka services`.
#[derive(Debug, Args)]
pub struct ServicesArguments {
    /// Report on the services of this ntdll or win32u instead of the public list of Windows 11 25H2
    #[arg(long, value_name = "FILE")]
    ntdll: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the served part of the table in Markdown, as docs/runtime.md holds it
    #[arg(long)]
    markdown: bool,
}

/// Prints the report.
///
/// # Errors
/// When the file is no ntdll.
pub fn run(arguments: &ServicesArguments) -> Result<(), Failure> {
    if arguments.markdown {
        return print(&report_markdown());
    }
    let learned = match &arguments.ntdll {
        Some(path) => Some(services_of(path).map_err(|error| Failure::new(ExitCode::Damaged, error))?),
        None => None,
    };
    let report = report(learned.as_deref());
    if arguments.json {
        return Output::Json.document(&report);
    }
    print(&lines(&report))
}

fn print(text: &str) -> Result<(), Failure> {
    text.lines().try_for_each(|line| Output::Text.line(line))
}

fn lines(report: &Report) -> String {
    let mut text = String::new();
    for service in &report.services {
        let number = service
            .number
            .map_or_else(String::new, |number| format!("{number:#06x} "));
        text.push_str(format!("{number}{:<8} {} {}", service.level, service.name, service.note).trim_end());
        text.push('\n');
    }
    let Report {
        total,
        full,
        partial,
        stub,
        missing,
        ..
    } = report;
    let share = report.served_per_mille();
    text.push_str(&format!(
        "{total} services: {full} full, {partial} partial, {stub} only pretended, {missing} missing; {}.{} % served",
        share / 10,
        share % 10
    ));
    text
}
