// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures forks and lookups: `layers DIR FILES REGISTRY_MIB LOOKUPS`.
#![allow(clippy::print_stdout, reason = "a measuring program says what it measured")]

use std::io::Write;
use std::time::{Duration, Instant};

use overlay::{
    Access, FileTime, Layers, NtMetadata, NtName, NtPath, SealOptions, StoredName, WorldConf, WorldName, Worlds,
};

fn name(text: &str) -> Result<NtName, overlay::NameError> {
    NtName::new(&text.encode_utf16().collect::<Vec<_>>())
}

/// How long this thread has run on a processor: other programs' load does not count.
fn processor_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(
        text.split(' ').next().unwrap_or_default().parse()?,
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, root, files, registry_mib, lookups] = &arguments[..] else {
        return Err("usage: layers DIR FILES REGISTRY_MIB LOOKUPS".into());
    };
    let (files, lookups): (usize, usize) = (files.parse()?, lookups.parse()?);
    let worlds = Worlds::open(root)?;
    let time = FileTime(133_000_000_000_000_000);
    let meta = NtMetadata::new(0x20, time, time, time);
    let staging = worlds.begin(&WorldName::new("base")?, "")?;
    let tree = staging.tree();
    let mut paths = Vec::new();
    let top = name("Windows")?;
    let windows = tree.create_dir(&tree.root(), &StoredName::alone(&top), meta.clone())?;
    for group in 0..files.div_ceil(100) {
        let group = name(&format!("Component Group {group}"))?;
        let dir = tree.create_dir(&windows, &StoredName::alone(&group), meta.clone())?;
        for file in 0..100 {
            let file = name(&format!("Some File Name {file}.dll"))?;
            let new = tree.create_file(&dir, &StoredName::alone(&file), 0)?;
            tree.finish_file(new, &meta, Some(overlay::ContentHash::of(b"")))?;
            paths.push(NtPath::root().join(&top).join(&group).join(&file));
        }
    }
    let mut registry = std::fs::File::create(staging.registry_path())?;
    for at in 0..registry_mib.parse::<u32>()? {
        registry.write_all(&at.to_le_bytes().repeat(1 << 18))?;
    }
    let mut world = staging.commit(WorldConf::default(), &SealOptions::default())?;

    let begun = Instant::now();
    let to = worlds.root().join("registry.cp");
    let copied = std::process::Command::new("cp")
        .arg(world.registry_path())
        .arg(&to)
        .status()?;
    println!("cp of the registry ({copied}): {:?}", begun.elapsed());
    std::fs::remove_file(&to)?;
    for depth in 1..=5 {
        if depth > 1 {
            let begun = Instant::now();
            let mut fork = worlds.fork(&WorldName::new(&format!("fork{depth}"))?, &world)?;
            println!(
                "fork {depth}: {:?}, own {} bytes",
                begun.elapsed(),
                fork.sizes()?.allocated_bytes
            );
            fork.seal(&SealOptions::default())?;
            world = fork;
        }
        if depth != 1 && depth != 5 {
            continue;
        }
        let layers = Layers::open(&world, Access::Read)?;
        let misses: Vec<NtPath> = paths
            .iter()
            .step_by(97)
            .filter_map(|path| Some(path.parent()?.join(&name("No Such File At All.dll").ok()?)))
            .collect();
        for pass in ["first", "second"] {
            let begun = processor_time()?;
            let mut found = 0usize;
            for at in 0..lookups {
                // A step that visits all, in no order that a cache likes.
                let path = if at % 2 == 0 {
                    paths.get(at * 7919 % paths.len())
                } else {
                    misses.get(at * 31 % misses.len())
                };
                if let Some(path) = path {
                    found += usize::from(layers.kind(path)?.is_some());
                }
            }
            let each = (processor_time()? - begun) / u32::try_from(lookups)?;
            println!("{depth} layers, {pass} pass: {lookups} lookups, {found} found, {each:?} each");
        }
    }
    let begun = processor_time()?;
    let mut found = 0;
    let base = worlds.root().join("base/files");
    let stored: Vec<_> = paths
        .iter()
        .map(|path| base.join(path.to_string().replace('\\', "/")))
        .collect();
    for at in 0..lookups {
        if let Some(path) = stored.get(at * 7919 % stored.len()) {
            found += usize::from(std::fs::symlink_metadata(path).is_ok());
        }
    }
    println!(
        "stat of exact paths: {found} found, {:?} each",
        (processor_time()? - begun) / u32::try_from(lookups)?
    );
    Ok(())
}
