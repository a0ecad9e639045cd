// SPDX-License-Identifier: GPL-3.0-or-later
//! Our upcase table is the one that an NTFS formatter writes. ntfs-3g's `mkntfs` and `ntfscat` are asked
//! where they are installed.
#![allow(clippy::print_stderr)] // Tests say what they skip.

use std::process::Command;

#[test]
fn the_table_is_the_one_of_an_ntfs_volume() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("ntfs.img");
    std::fs::File::create(&image).unwrap().set_len(20 << 20).unwrap();
    let tool = |name: &str| {
        let sbin = std::path::Path::new("/usr/sbin").join(name);
        if sbin.exists() {
            Command::new(sbin)
        } else {
            Command::new(name)
        }
    };
    let made = tool("mkntfs").args(["-F", "-Q", "-q"]).arg(&image).output();
    if !made.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mkntfs: {made:?}");
        return;
    }
    // Inode 10 is $UpCase.
    let table = tool("ntfscat").args(["-i", "10"]).arg(&image).output().unwrap();
    assert!(table.status.success());
    let theirs: Vec<u16> = table
        .stdout
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    assert_eq!(theirs.len(), 65_536);
    for unit in 0..=0xffff_u16 {
        assert_eq!(
            hive::upcase::upcase_unit(unit),
            theirs[usize::from(unit)],
            "{unit:#06x}"
        );
    }
}
