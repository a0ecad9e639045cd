// SPDX-License-Identifier: GPL-3.0-or-later
//! Lays an image down into an empty directory and prints where the time went: what `cargo xtask bench lay-down` runs.
//!
//! `lay_down WIM INDEX DIRECTORY [THREADS]`
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use overlay::FileTree;
use vodka_decant::apply::{Inventory, Options, lay_down};
use vodka_decant::import::open_image;
use vodka_decant::medium::Medium;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, index, directory, threads @ ..] = arguments.as_slice() else {
        return Err("usage: lay_down WIM INDEX DIRECTORY [THREADS]".into());
    };
    let threads = threads.first().map_or(Ok(0), |threads| threads.parse())?;
    let begun = Instant::now();
    let medium = Medium::open(Path::new(image))?;
    let sources = medium.windows_sources()?;
    let entry = sources[0].install.as_ref().ok_or("no install image")?;
    let wim = Arc::new(open_image(&medium, entry)?);
    let metadata = wim.metadata(index.parse()?)?;
    let inventory = Inventory::new(&metadata)?;
    let planned = begun.elapsed();
    std::fs::create_dir_all(directory)?;
    let tree = FileTree::open(directory)?;
    let interrupted = AtomicBool::new(false);
    let options = Options {
        threads,
        progress: &|_| {},
        interrupted: &interrupted,
    };
    lay_down(&wim, &metadata, &inventory, &tree, &options)?;
    let total = begun.elapsed();
    println!(
        "plan {:.3} s, lay down {:.3} s",
        planned.as_secs_f64(),
        (total - planned).as_secs_f64()
    );
    Ok(())
}
