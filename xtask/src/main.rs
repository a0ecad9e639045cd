// SPDX-License-Identifier: GPL-3.0-or-later
//! Runs the project's own jobs: demo, test, bench, fixtures.

fn main() {}
