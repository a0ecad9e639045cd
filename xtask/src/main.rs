// SPDX-License-Identifier: GPL-3.0-or-later
fn main() {}
//! Runs the project's own jobs: demo, test, bench, fixtures.
