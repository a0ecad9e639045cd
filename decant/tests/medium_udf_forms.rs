// SPDX-License-Identifier: GPL-3.0-or-later
//! Every form of UDF that the standard has, written by a small writer of our own and, where it can, read by 7z as well.

mod medium_support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use medium_support::udf_image::{Form, Layout, MODIFIED_NS, Node, Options, PARTITION_START, seal, tree, write};
use medium_support::{contents, contents_of_7z, have, pattern};
use vodka_decant::medium::limits::{MAX_WALK_ENTRIES, MAX_WALK_FAULTS};
use vodka_decant::medium::{Medium, MediumError, MediumKind};

/// A tree with an empty file, one within a block, one of many blocks, names of 8 and 16 bits, and many names.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Vec::new()),
        ("caf\u{e9}", pattern(1, 20)),
        ("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{1f600}", pattern(2, 2500)),
        ("sources/install.wim", pattern(3, 70_001)),
        ("sources/boot.wim", pattern(4, 8192)),
        ("a/b/c/d/deep.txt", pattern(5, 333)),
    ]
}

struct Image {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn store(bytes: &[u8]) -> Image {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.iso");
    std::fs::write(&path, bytes).unwrap();
    Image {
        _directory: directory,
        path,
    }
}

fn open(bytes: &[u8]) -> Result<Medium, MediumError> {
    Medium::open(&store(bytes).path)
}

/// Writes the tree, reads it back, compares with what was written and with 7z. Gives whether 7z could read it.
fn check(options: &Options) -> bool {
    let written = files();
    let image = store(&write(options, &tree(&written)));
    let medium = Medium::open(&image.path).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    let mut expected: BTreeMap<String, Vec<u8>> = written
        .into_iter()
        .map(|(path, content)| (path.to_owned(), content))
        .collect();
    if options.layout == Layout::Holes {
        for content in expected.values_mut() {
            *content = with_holes(content, options.block_bytes);
        }
    }
    let read = contents(&medium);
    assert_eq!(
        read.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "{options:?}"
    );
    for (path, content) in &expected {
        assert!(read[path] == *content, "{path} differs under {options:?}");
    }
    assert_eq!(
        medium.lookup("SOURCES/INSTALL.WIM").unwrap().unwrap().modified_ns(),
        Some(MODIFIED_NS)
    );
    assert_eq!(medium.windows_sources().unwrap().len(), 1);
    have(&["7z"])
        && contents_of_7z(&image.path).is_some_and(|other| {
            assert!(other == read, "7z reads {options:?} differently");
            true
        })
}

fn with_holes(content: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    for piece in content.chunks(block_bytes) {
        whole.extend(piece);
        if piece.len() == block_bytes {
            whole.resize(whole.len() + block_bytes, 0);
        }
    }
    whole
}

/// Checks all layouts in one form; gives how many of the images 7z could read.
fn all_layouts(form: Form, revision: u16) -> usize {
    let layouts = [
        Layout::Inline,
        Layout::Short,
        Layout::Long,
        Layout::Extended,
        Layout::Scattered,
        Layout::Holes,
    ];
    let mut read_by_7z = 0;
    for layout in layouts {
        for (extended_entries, inline_directories) in [(false, true), (true, false)] {
            let options = Options {
                form,
                layout,
                extended_entries,
                inline_directories,
                revision,
                ..Options::default()
            };
            read_by_7z += usize::from(check(&options));
        }
    }
    read_by_7z
}

#[test]
fn a_plain_partition_is_read_in_every_layout_of_files() {
    let read_by_7z = all_layouts(Form::Plain, 0x0102);
    // The comparison with an independent reader must not go away unseen.
    assert!(
        read_by_7z >= 4 || !have(&["7z"]),
        "7z could read {read_by_7z} of the images"
    );
}

#[test]
fn a_metadata_partition_is_read_in_every_layout_of_files() {
    all_layouts(Form::Metadata, 0x0250);
}

#[test]
fn a_virtual_partition_of_udf_1_50_is_read_in_every_layout_of_files() {
    all_layouts(Form::Virtual150, 0x0150);
}

#[test]
fn a_virtual_partition_of_udf_2_00_is_read_in_every_layout_of_files() {
    all_layouts(Form::Virtual200, 0x0200);
}

#[test]
fn a_sparable_partition_is_read_in_every_layout_of_files() {
    all_layouts(Form::Sparable, 0x0150);
}

#[test]
fn every_block_size_is_found() {
    for block_bytes in [512, 1024, 2048, 4096] {
        for form in [Form::Plain, Form::Metadata, Form::Virtual200, Form::Sparable] {
            check(&Options {
                block_bytes,
                form,
                layout: Layout::Scattered,
                ..Options::default()
            });
        }
        let medium = open(&write(
            &Options {
                block_bytes,
                ..Options::default()
            },
            &tree(&files()),
        ))
        .unwrap();
        let MediumKind::Udf { block_bytes: found, .. } = medium.kind() else {
            panic!("{:?}", medium.kind())
        };
        assert_eq!(*found as usize, block_bytes);
    }
}

/// Strategy 4096: the entry that holds is the last one of a chain of rewritten entries, not the first.
#[test]
fn the_last_entry_of_a_strategy_4096_chain_holds() {
    for form in [Form::Plain, Form::Virtual150] {
        check(&Options {
            strategy: 4096,
            form,
            layout: Layout::Long,
            ..Options::default()
        });
    }
}

/// An older entry is no stand-in for a newer one that is damaged: that would be old content, given for new.
#[test]
fn a_damaged_newer_entry_of_a_chain_is_refused() {
    let options = Options {
        strategy: 4096,
        layout: Layout::Long,
        ..Options::default()
    };
    let mut bytes = write(&options, &tree(&files()));
    let entry = (PARTITION_START..)
        .find(|at| bytes[at * 2048 + 56..at * 2048 + 60] == 70_001_u32.to_le_bytes())
        .unwrap();
    bytes[entry * 2048 + 300] ^= 1;
    let medium = open(&bytes).unwrap();
    let error = medium.lookup("sources/install.wim").unwrap_err().to_string();
    assert!(
        error.contains("expected CRC") && error.contains(&format!("LBA {entry}")),
        "{error}"
    );
}

/// UDF 2.00 and later name the volume again in the virtual allocation table: the newer label is the label.
#[test]
fn the_label_of_a_virtual_allocation_table_goes_before_the_descriptors() {
    let label = |form| {
        let options = Options {
            form,
            label: "\u{41f}\u{440} DISC".to_owned(),
            ..Options::default()
        };
        open(&write(&options, &tree(&files())))
            .unwrap()
            .label()
            .unwrap()
            .to_owned()
    };
    assert_eq!(label(Form::Plain), "\u{41f}\u{440} DISC");
    assert_eq!(label(Form::Virtual200), "\u{41f}\u{440} DISC AGAIN");
}

#[test]
fn the_revision_is_the_volumes() {
    for revision in [0x0102, 0x0150, 0x0201, 0x0260] {
        let medium = open(&write(
            &Options {
                revision,
                ..Options::default()
            },
            &tree(&files()),
        ))
        .unwrap();
        let MediumKind::Udf { revision: found, .. } = medium.kind() else {
            panic!("{:?}", medium.kind())
        };
        assert_eq!(found.0, revision);
    }
}

fn image() -> Vec<u8> {
    write(&Options::default(), &tree(&files()))
}

/// The root directory's entry: the writer puts it behind those of all other directories.
fn root_entry(bytes: &[u8]) -> usize {
    let is_directory = |at: &usize| bytes[at * 2048 + 27] == 4 && bytes[at * 2048] == 5;
    (PARTITION_START..bytes.len() / 2048).rfind(is_directory).unwrap()
}

fn block(at: usize) -> std::ops::Range<usize> {
    at * 2048..(at + 1) * 2048
}

#[test]
fn the_reserve_sequence_serves_where_the_main_one_is_damaged() {
    let mut bytes = image();
    bytes[block(129)].fill(0xff);
    assert_eq!(contents(&open(&bytes).unwrap()).len(), files().len());
    bytes[block(161)].fill(0xff);
    let error = open(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("main volume descriptor sequence") && error.contains("LBA 129"),
        "{error}"
    );
}

#[test]
fn one_whole_anchor_is_enough() {
    let mut bytes = image();
    let last = bytes.len() / 2048 - 1;
    bytes[block(256)].fill(0);
    assert_eq!(contents(&open(&bytes).unwrap()).len(), files().len());
    bytes[block(last)].fill(0);
    let error = open(&bytes).unwrap_err().to_string();
    assert!(error.contains("NSR03") && error.contains("no whole anchor"), "{error}");
}

#[test]
fn the_mirror_serves_where_the_metadata_file_is_damaged() {
    let options = Options {
        form: Form::Metadata,
        revision: 0x0250,
        ..Options::default()
    };
    let mut bytes = write(&options, &tree(&files()));
    let main = (PARTITION_START..bytes.len() / 2048)
        .find(|at| bytes[at * 2048 + 27] == 250)
        .unwrap();
    bytes[block(main)].fill(0xff);
    assert_eq!(contents(&open(&bytes).unwrap()).len(), files().len());
}

#[test]
fn a_truncated_image_is_said_with_both_sizes() {
    let bytes = image();
    let declared = bytes.len() - 2048; // The last block is the anchor's.
    for cut in [1, 2048, 20_000] {
        match open(&bytes[..declared - cut]).unwrap_err() {
            MediumError::Truncated {
                declared_bytes,
                actual_bytes,
                ..
            } => {
                assert_eq!(
                    (declared_bytes, actual_bytes),
                    (declared as u64, (declared - cut) as u64)
                );
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_flipped_bit_in_a_descriptor_is_found_by_its_crc() {
    let mut bytes = image();
    let root = root_entry(&bytes);
    bytes[root * 2048 + 300] ^= 1;
    let error = open(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("expected CRC") && error.contains(&format!("LBA {root}")),
        "{error}"
    );
}

#[test]
fn a_descriptor_in_a_foreign_place_is_refused() {
    let mut bytes = image();
    let root = root_entry(&bytes);
    let wrong = u32::try_from(root - PARTITION_START + 7).unwrap();
    seal(&mut bytes[block(root)], 261, wrong, 2032);
    let error = open(&bytes).unwrap_err().to_string();
    assert!(error.contains("expected tag location"), "{error}");
}

/// A directory whose entry leads back to the root: a walk ends, names both, and gives all the rest.
#[test]
fn a_directory_cycle_is_named_and_ended() {
    let mut bytes = image();
    let root = u32::try_from(root_entry(&bytes) - PARTITION_START).unwrap();
    let list = (PARTITION_START..bytes.len() / 2048)
        .find(|at| bytes[block(*at)].windows(9).any(|name| name == b"\x08deep.txt"))
        .unwrap();
    let at = list * 2048
        + bytes[block(list)]
            .windows(9)
            .position(|name| name == b"\x08deep.txt")
            .unwrap()
        - 42;
    bytes[at + 24..at + 28].copy_from_slice(&root.to_le_bytes());
    let length = (38 + 4 + 9_usize).next_multiple_of(4);
    seal(&mut bytes[at..at + length], 257, 0, length - 16);
    let medium = open(&bytes).unwrap();
    let errors: Vec<String> = medium
        .walk()
        .filter_map(Result::err)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("/a/b/c/d/deep.txt is also /"), "{}", errors[0]);
    assert!(
        medium
            .walk()
            .flatten()
            .any(|entry| entry.path() == "sources/install.wim")
    );
}

/// Two allocation extents that lead to each other.
#[test]
fn a_cycle_of_allocation_extents_is_refused() {
    let options = Options {
        layout: Layout::Scattered,
        ..Options::default()
    };
    let mut bytes = write(&options, &tree(&files()));
    let extents: Vec<usize> = (PARTITION_START..bytes.len() / 2048)
        .filter(|at| bytes[at * 2048..at * 2048 + 2] == 258_u16.to_le_bytes())
        .collect();
    // The chain is written from its end: make the first block of the disc's longest chain lead to itself.
    let own = *extents.last().unwrap();
    let number = u32::try_from(own - PARTITION_START).unwrap();
    let at = own * 2048 + 24 + 3 * 16;
    assert_eq!(bytes[at + 3] >> 6, 3, "a continuation");
    bytes[at + 4..at + 8].copy_from_slice(&number.to_le_bytes());
    seal(&mut bytes[block(own)], 258, number, 8 + 4 * 16);
    let medium = open(&bytes).unwrap();
    let error = medium.open_path("sources/install.wim").unwrap_err().to_string();
    assert!(error.contains("leads back"), "{error}");
}

#[test]
fn an_extent_outside_the_partition_is_refused() {
    let mut bytes = image();
    let entry = (PARTITION_START..)
        .find(|at| bytes[at * 2048 + 56..at * 2048 + 60] == 70_001_u32.to_le_bytes())
        .unwrap();
    let at = entry * 2048 + 176 + 24 + 4;
    bytes[at..at + 4].copy_from_slice(&1_000_000_u32.to_le_bytes());
    let number = u32::try_from(entry - PARTITION_START).unwrap();
    seal(&mut bytes[block(entry)], 261, number, 2032);
    let medium = open(&bytes).unwrap();
    let error = medium.open_path("sources/install.wim").unwrap_err().to_string();
    assert!(
        error.contains("/sources/install.wim") || error.contains("sources/install.wim"),
        "{error}"
    );
    assert!(error.contains("blocks of partition 0"), "{error}");
}

#[test]
fn an_unusable_name_is_refused_and_named() {
    for name in ["..", "x/y", "a\0b"] {
        let root = Node::Directory(BTreeMap::from([(name.to_owned(), Node::File(b"x".to_vec()))]));
        let medium = open(&write(&Options::default(), &root)).unwrap();
        assert!(
            matches!(medium.read_dir(""), Err(MediumError::UnusableName { .. })),
            "{name:?}"
        );
    }
}

#[test]
fn a_read_error_behind_the_files_end_names_the_file_and_the_lba() {
    let bytes = image();
    let image = store(&bytes);
    let medium = Medium::open(&image.path).unwrap();
    let file = medium.open_path("sources/install.wim").unwrap();
    let extent = medium
        .extents(&medium.lookup("sources/install.wim").unwrap().unwrap())
        .unwrap()
        .unwrap()[0];
    // The medium loses its end while it is open, as on a failing disc.
    let kept = extent.medium_offset.unwrap() + 4096;
    std::fs::OpenOptions::new()
        .write(true)
        .open(&image.path)
        .unwrap()
        .set_len(kept)
        .unwrap();
    let error = file.read_exact_at(&mut vec![0; 8192], 100).unwrap_err();
    assert_eq!(error.lba, Some(kept / 2048));
    let text = error.to_string();
    assert!(
        text.contains("sources/install.wim on ") && text.contains("offset 100"),
        "{text}"
    );
}

/// Many directories that all have the same listing: without bounds a walk would take longer than anyone lives.
#[test]
fn a_web_of_directories_ends_at_the_bound() {
    // With directories in the listing each second way to one is a fault; with files there is none.
    let inner = |files: bool| match files {
        true => Node::File(b"x".to_vec()),
        false => Node::Directory(BTreeMap::new()),
    };
    for (files, most_entries, most_faults) in [(false, 10_000, MAX_WALK_FAULTS + 1), (true, MAX_WALK_ENTRIES, 1)] {
        let directories = (0..600).map(|number| (format!("d{number:04}"), Node::Directory(BTreeMap::new())));
        let others = (0..1000).map(|number| (format!("x{number:04}"), inner(files)));
        let many = BTreeMap::from([
            ("web".to_owned(), Node::Directory(directories.collect())),
            ("listing".to_owned(), Node::Directory(others.collect())),
        ]);
        let mut bytes = write(&Options::default(), &Node::Directory(many));
        let entries = |bytes: &[u8]| -> Vec<usize> {
            let is_directory = |at: &usize| bytes[at * 2048 + 27] == 4 && bytes[at * 2048..at * 2048 + 2] == [5, 1];
            (PARTITION_START..bytes.len() / 2048).filter(is_directory).collect()
        };
        // Everything from the length of the content on is the listing's: it is written before the web.
        let length = |at: usize| bytes[at * 2048 + 56..at * 2048 + 58].to_vec();
        let all = entries(&bytes);
        let empty = length(all[if files { 1 } else { 0 }]);
        let listing = *all.iter().find(|at| length(**at) != empty).unwrap();
        let content = bytes[listing * 2048 + 56..listing * 2048 + 64].to_vec();
        let allocation = bytes[listing * 2048 + 172..(listing + 1) * 2048].to_vec();
        let empties: Vec<usize> = all.iter().copied().filter(|at| length(*at) == empty).collect();
        for entry in empties {
            let at = entry * 2048;
            bytes[at + 56..at + 64].copy_from_slice(&content);
            bytes[at + 172..at + 2048].copy_from_slice(&allocation);
            seal(
                &mut bytes[block(entry)],
                261,
                u32::try_from(entry - PARTITION_START).unwrap(),
                2032,
            );
        }
        let medium = open(&bytes).unwrap();
        let (mut given, mut faults) = (0, Vec::new());
        for entry in medium.walk() {
            match entry {
                Ok(_) => given += 1,
                Err(error) => faults.push(error),
            }
        }
        assert!(given <= most_entries && given > 1000, "{given}");
        assert!(faults.len() <= most_faults, "{}", faults.len());
        assert!(
            matches!(faults.last(), Some(MediumError::Limit { .. })),
            "{:?}",
            faults.last()
        );
    }
}
