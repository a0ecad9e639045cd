// SPDX-License-Identifier: GPL-3.0-or-later
//! Listing reads at most 4 MiB beside the XML, and with an edition that image's metadata; however large the medium.
//!
//! Alone in its process: what Linux counts as read is counted for all threads of one.

// What a test measured belongs in its output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use vodka_decant::import::{EditionDetails, Editions, MediumSummary};

/// What this whole process has read so far, by any system call (proc(5), `/proc/pid/io`, rchar).
fn read_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("proc is there");
    let rchar = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("rchar");
    rchar.trim().parse().expect("a number")
}

#[test]
fn listing_reads_at_most_4_mib_beside_the_xml_and_the_metadata() {
    let Ok(medium) = fixtures::large_iso() else {
        eprintln!("skipped: the tools that make the medium are missing");
        return;
    };
    let medium_bytes = std::fs::metadata(&medium).expect("the medium").len();
    assert!(
        medium_bytes > 24 << 20,
        "the medium is too small to show anything: {medium_bytes}"
    );

    let before = read_bytes();
    let editions = Editions::open(&medium).expect("a Windows medium");
    let summary = MediumSummary::new(&editions, "medium.iso");
    let listed = read_bytes() - before;
    let edition = editions
        .select(&summary.editions[0].edition)
        .expect("the first edition");
    let wim = &edition.file.wim;
    let xml_bytes = 2 * wim.xml_text().expect("the XML").len() as u64;
    assert!(
        listed <= xml_bytes + (4 << 20),
        "{listed} bytes read for a list, {xml_bytes} of them XML"
    );

    let before = read_bytes();
    let details = EditionDetails::new(&edition).expect("details");
    let examined = read_bytes() - before;
    assert!(details.directories.is_some_and(|directories| directories > 100));
    // The image's metadata are found through the blob table, 50 bytes for each blob.
    let blob_table_bytes = 50 * wim.blobs().expect("the blob table").len() as u64;
    let metadata = wim.metadata(edition.image.index).expect("metadata");
    let metadata_bytes = 512 * metadata.len() as u64;
    assert!(
        examined <= metadata_bytes + blob_table_bytes + (4 << 20),
        "{examined} bytes read for one edition of {} names",
        metadata.len()
    );
    println!("{listed} bytes for the list, {examined} for the edition, of {medium_bytes}");
}
