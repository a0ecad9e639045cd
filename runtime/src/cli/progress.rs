// SPDX-License-Identifier: GPL-3.0-or-later
//! How far a long step is: a bar on a terminal, a plain line every few seconds elsewhere.
//!
//! Everything goes to standard error, so that standard output holds results only.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text;

/// A bar that shows up for less than this only flickers.
const DELAY: Duration = Duration::from_millis(250);
/// Redraws a second.
const REDRAWS: u8 = 30;
/// Between two plain lines, off a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// One step's progress, in bytes. Dropping it clears the bar.
#[derive(Debug)]
pub struct Progress {
    name: String,
    total_bytes: u64,
    begun: Instant,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Bar { bar: ProgressBar, shown: Mutex<bool> },
    Lines(Mutex<Instant>),
    Quiet,
}

impl Progress {
    /// Progress of a step called `name` over `total_bytes`; `quiet` shows nothing.
    #[must_use]
    pub fn new(name: &str, total_bytes: u64, quiet: bool) -> Self {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb") {
            let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::hidden());
            let template = if std::env::var_os("NO_COLOR").is_some() {
                "{msg} [{bar:30}] {bytes}/{total_bytes} {binary_bytes_per_sec} ETA {eta}"
            } else {
                "{msg} [{bar:30.cyan}] {bytes}/{total_bytes} {binary_bytes_per_sec} ETA {eta}"
            };
            // The templates are constants of ours; a wrong one falls back to indicatif's own.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(name.to_owned());
            Kind::Bar {
                bar,
                shown: Mutex::new(false),
            }
        } else {
            Kind::Lines(Mutex::new(Instant::now()))
        };
        Self {
            name: name.to_owned(),
            total_bytes,
            begun: Instant::now(),
            kind,
        }
    }

    /// Says that `done_bytes` of the total are done. Cheap enough to call for every file.
    pub fn set(&self, done_bytes: u64) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Bar { bar, shown } => {
                bar.set_position(done_bytes);
                if self.begun.elapsed() >= DELAY
                    && let Ok(mut shown) = shown.lock()
                    && !*shown
                {
                    *shown = true;
                    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS));
                }
            }
            Kind::Lines(last) => {
                // Whoever finds the lock taken has nothing newer to say.
                let Ok(mut last) = last.try_lock() else { return };
                if last.elapsed() < LINE_INTERVAL {
                    return;
                }
                *last = Instant::now();
                let line = line(&self.name, done_bytes, self.total_bytes, self.begun.elapsed());
                let _ = writeln!(std::io::stderr().lock(), "{line}");
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Kind::Bar { bar, .. } = &self.kind {
            bar.finish_and_clear();
        }
    }
}

/// One plain line: name, bytes, share, rate and the time left.
fn line(name: &str, done_bytes: u64, total_bytes: u64, elapsed: Duration) -> String {
    let mut text = format!("{name}: {} of {}", text::size(done_bytes), text::size(total_bytes));
    if total_bytes > 0 {
        let share = u128::from(done_bytes) * 100 / u128::from(total_bytes);
        text.push_str(&format!(" ({share} %)"));
    }
    let elapsed_ms = elapsed.as_millis().max(1);
    let rate = u64::try_from(u128::from(done_bytes) * 1000 / elapsed_ms).unwrap_or(u64::MAX);
    text.push_str(&format!(", {}/s", text::size(rate)));
    if rate > 0 && done_bytes < total_bytes {
        let left = Duration::from_secs((total_bytes - done_bytes) / rate);
        text.push_str(&format!(", {} left", text::duration(left)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_bytes_total_rate_and_time_left() {
        let mib = 1024 * 1024;
        assert_eq!(
            line("lay down", 100 * mib, 300 * mib, Duration::from_secs(2)),
            "lay down: 100.0 MiB of 300.0 MiB (33 %), 50.0 MiB/s, 4 s left"
        );
        assert_eq!(line("lay down", 0, 0, Duration::ZERO), "lay down: 0 B of 0 B, 0 B/s");
    }
}
