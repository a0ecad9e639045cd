// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures the writer: `laydown DIR FILES THREADS` lays down that many small files and seals the world.
#![allow(clippy::print_stdout, reason = "a measuring program says what it measured")]

use std::time::Instant;

use overlay::{ContentHash, FileTime, NtMetadata, NtName, SealOptions, StoredName, WorldConf, WorldName, Worlds};

fn stored(text: &str) -> Result<StoredName, overlay::NameError> {
    NtName::new(&text.encode_utf16().collect::<Vec<_>>()).map(|name| StoredName::alone(&name))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, root, files, threads] = &arguments[..] else {
        return Err("usage: laydown DIR FILES THREADS".into());
    };
    let (files, threads): (usize, usize) = (files.parse()?, threads.parse()?);
    let worlds = Worlds::open(root)?;
    let name = WorldName::new("measured")?;
    let staging = worlds.begin(&name, "")?;
    let tree = staging.tree();
    let time = FileTime(133_000_000_000_000_000);
    let security = tree.intern_security(b"a descriptor")?;
    let mut meta = NtMetadata::new(0x20, time, time, time);
    meta.security = Some(security);

    let begun = Instant::now();
    let mut dirs = Vec::new();
    let mut parent = tree.root();
    for number in 0..files / 8 {
        if number % 20 == 0 {
            parent = tree.create_dir(&tree.root(), &stored(&format!("group {number}"))?, meta.clone())?;
        }
        dirs.push(tree.create_dir(&parent, &stored(&format!("component_{number}"))?, meta.clone())?);
    }
    println!("{} directories: {:?}", dirs.len(), begun.elapsed());

    let begun = Instant::now();
    let bytes = vec![7u8; 1500];
    let hash = ContentHash::of(&bytes);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (dirs, bytes, meta) = (&dirs, &bytes, &meta);
                scope.spawn(move || -> overlay::Result<()> {
                    for (number, dir) in dirs.iter().enumerate().filter(|(number, _)| number % threads == worker) {
                        for at in 0..8 {
                            let name = stored(&format!("file {number} {at}.dll")).map_err(overlay::Error::WorldName)?;
                            let file = tree.create_file(dir, &name, bytes.len() as u64)?;
                            file.write_all_at(bytes, 0)?;
                            tree.finish_file(file, meta, Some(hash))?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| "a worker panicked")?
                .map_err(|e| e.to_string().leak() as &str)
        })
    })?;
    println!("{} files, {threads} threads: {:?}", dirs.len() * 8, begun.elapsed());

    let begun = Instant::now();
    for pair in dirs.chunks_exact(2) {
        let [from, to] = pair else { continue };
        for at in 0..4 {
            let name = stored(&format!("linked {at}.dll"))?;
            let file = tree.create_file(from, &name, 0)?;
            tree.finish_file(file, &meta, Some(ContentHash::of(b"")))?;
            tree.link((from, &name), (to, &name))?;
        }
    }
    println!("{} empty files with a link each: {:?}", dirs.len() * 2, begun.elapsed());

    let begun = Instant::now();
    tree.finish()?;
    println!("metadata of directories: {:?}", begun.elapsed());
    std::fs::write(staging.registry_path(), b"")?;
    let begun = Instant::now();
    let world = staging.commit(WorldConf::default(), &SealOptions::default())?;
    println!("commit: {:?}", begun.elapsed());
    let begun = Instant::now();
    let differences = world.verify(&SealOptions::default())?;
    println!("verify: {:?}, {} differences", begun.elapsed(), differences.len());
    let begun = Instant::now();
    worlds.remove(&name)?;
    println!("remove: {:?}", begun.elapsed());
    Ok(())
}
