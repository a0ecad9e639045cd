// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures `verify` beside sha256sum on all cores: `verify DIR FILES MIB_EACH`.
#![allow(clippy::print_stdout, reason = "a measuring program says what it measured")]

use std::io::Write;
use std::time::Instant;

use overlay::{FileTime, NtMetadata, NtName, SealOptions, StoredName, WorldConf, WorldName, Worlds};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, root, files, mib] = &arguments[..] else {
        return Err("usage: verify DIR FILES MIB_EACH".into());
    };
    let (files, mib): (u32, usize) = (files.parse()?, mib.parse()?);
    let worlds = Worlds::open(root)?;
    let staging = worlds.begin(&WorldName::new("w")?, "")?;
    let time = FileTime(133_000_000_000_000_000);
    let meta = NtMetadata::new(0x20, time, time, time);
    for at in 0..files {
        let name = NtName::new(&format!("file{at}").encode_utf16().collect::<Vec<_>>())?;
        let tree = staging.tree();
        let mut file = tree.create_file(&tree.root(), &StoredName::alone(&name), 0)?;
        file.write_all(&at.to_le_bytes().repeat(mib << 18))?;
        tree.finish_file(file, &meta, None)?;
    }
    std::fs::write(staging.registry_path(), b"")?;
    let world = staging.commit(WorldConf::default(), &SealOptions::default())?;
    let cores = std::thread::available_parallelism()?;
    for _ in 0..2 {
        let begun = Instant::now();
        let differences = world.verify(&SealOptions::default())?;
        println!("verify: {:?}, {} differences", begun.elapsed(), differences.len());
        let begun = Instant::now();
        let script = format!("find \"$0\" -type f -print0 | xargs -0 -n1 -P{cores} sha256sum > /dev/null");
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(world.path().join("files"))
            .status()?;
        println!("sha256sum on {cores} cores ({status}): {:?}", begun.elapsed());
    }
    Ok(())
}
