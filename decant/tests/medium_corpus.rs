// SPDX-License-Identifier: GPL-3.0-or-later
//! The public corpus of disc images: each is listed or refused as its manifest says.
#![allow(clippy::print_stderr, reason = "says what was skipped")]

mod medium_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use medium_support::{contents, corpus, have, listing, read, run};
use vodka_decant::medium::{Medium, MediumKind};

/// What a corpus image must show: its kind in words, label, and files with sizes, or a part of the refusal.
struct Promise {
    name: &'static str,
    kind: &'static str,
    label: Option<&'static str>,
    shows: Shows,
}

enum Shows {
    Files(&'static [(&'static str, u64)]),
    /// The disc opens, its root is refused with these words.
    Refusal(&'static str),
}

const NOTES: &[(&str, u64)] = &[
    ("v2.13-ReleaseNotes", 21_703),
    ("v2.14-ReleaseNotes", 18_788),
    ("v2.15-ReleaseNotes", 29_885),
    ("v2.16-ReleaseNotes", 7816),
];
const PLAIN_NOTES: &[(&str, u64)] = &[
    ("V2.13_", 21_703),
    ("V2.14_", 18_788),
    ("V2.15_", 29_885),
    ("V2.16_", 7816),
];
const LONG: &str =
    "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123";
const LONG_DIRECTORY: &str =
    "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890dir/";

const fn promise(name: &'static str, kind: &'static str, label: &'static str, shows: Shows) -> Promise {
    Promise {
        name,
        kind,
        label: if label.is_empty() { None } else { Some(label) },
        shows,
    }
}

const EMPTY: Shows = Shows::Files(&[]);
const PROMISES: &[Promise] = &[
    promise(
        "util-linux/iso-different-iso-joliet-label",
        "ISO 9660 with Joliet",
        "Joliet Label",
        EMPTY,
    ),
    promise(
        "util-linux/iso-joliet",
        "ISO 9660 with Joliet",
        "ThisWonderfulLabelIsVeryVeryLong",
        Shows::Files(NOTES),
    ),
    promise(
        "util-linux/iso-multi-0-174-348-genisoimage",
        "ISO 9660",
        "third session",
        EMPTY,
    ),
    promise(
        "util-linux/iso-rr-joliet",
        "ISO 9660 with Rock Ridge",
        "ThisIsVolumeName",
        Shows::Files(NOTES),
    ),
    promise("util-linux/iso", "ISO 9660", "IsoVolumeName", Shows::Files(PLAIN_NOTES)),
    promise("util-linux/udf-cd-mkudfiso-20100208", "UDF 1.02", "Volume Label", EMPTY),
    promise(
        "util-linux/udf-hdd-macosx-2.60-4096",
        "UDF 2.60",
        "Untitled UDF Volume",
        EMPTY,
    ),
    promise("util-linux/udf-hdd-mkudffs-2.2", "UDF 2.01", "\u{1f600}", EMPTY),
    promise("util-linux/udf-hdd-win7", "UDF 2.01", "My volume label", EMPTY),
    promise(
        "util-linux/udf-multi-0-320-640-mkudffs",
        "UDF 2.01",
        "third session",
        EMPTY,
    ),
    promise(
        "libarchive/test_read_format_iso_joliet_long",
        "ISO 9660 with Rock Ridge",
        "CDROM",
        Shows::Files(&[(LONG, 6), (LONG_DIRECTORY, 0), ("hardlink", 6)]),
    ),
    promise(
        "libarchive/test_read_format_iso_multi_extent",
        "ISO 9660 with Rock Ridge",
        "CDROM",
        Shows::Files(&[("file", 262_280)]),
    ),
    promise(
        "libarchive/test_read_format_iso_rockridge_ce_loop",
        "ISO 9660 with Rock Ridge",
        "CDROM",
        Shows::Refusal("expected continuation areas with an end, found one that leads back to block 24"),
    ),
    promise(
        "libarchive/test_read_format_iso_xorriso",
        "ISO 9660 with Rock Ridge",
        "ISOIMAGE",
        Shows::Files(&[
            ("dir/", 0),
            ("dir/file2", 7),
            ("dir/file3", 7),
            ("dir2/", 0),
            ("dir2/file4", 7),
            ("empty", 0),
            ("file", 6),
            ("hardlink", 6),
            ("symlink", 0),
        ]),
    ),
    promise(
        "libarchive/test_read_format_iso_zisofs_overflow",
        "ISO 9660 with Rock Ridge",
        "POC_WRITE",
        Shows::Files(&[("OVERFLOW.BIN", 2064)]),
    ),
];

/// Gives the image as a file; those that are kept compressed are unpacked into `directory`.
fn image(corpus: &Path, name: &str, directory: &Path) -> PathBuf {
    let plain = corpus.join(format!("{name}.iso"));
    if plain.exists() {
        return plain;
    }
    let target = directory.join("image.iso");
    let packed = corpus.join(format!("{name}.img.xz"));
    std::fs::write(&target, run("xz", &["-dc", packed.to_str().unwrap()])).unwrap();
    target
}

#[test]
fn every_corpus_image_is_listed_or_refused_as_its_manifest_says() {
    let Some(corpus) = corpus("iso") else { return };
    if !have(&["xz"]) {
        return;
    }
    for promise in PROMISES {
        let directory = tempfile::tempdir().unwrap();
        let medium = Medium::open(&image(&corpus, promise.name, directory.path())).unwrap();
        assert_eq!(medium.kind().to_string(), promise.kind, "{}", promise.name);
        assert_eq!(medium.label(), promise.label, "{}", promise.name);
        match &promise.shows {
            Shows::Files(files) => {
                let expected: BTreeMap<String, u64> =
                    files.iter().map(|(path, size)| ((*path).to_owned(), *size)).collect();
                assert_eq!(listing(&medium), expected, "{}", promise.name);
                contents(&medium);
            }
            Shows::Refusal(words) => {
                let error = medium.walk().next().unwrap().unwrap_err().to_string();
                assert!(error.contains(words), "{}: {error}", promise.name);
            }
        }
    }
}

/// A new file in the corpus must get its promise here.
#[test]
fn no_corpus_image_is_left_out() {
    let Some(corpus) = corpus("iso") else { return };
    let known: BTreeSet<&str> = PROMISES.iter().map(|promise| promise.name).collect();
    for part in ["util-linux", "libarchive"] {
        for entry in std::fs::read_dir(corpus.join(part)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(stem) = name.strip_suffix(".img.xz").or(name.strip_suffix(".iso")) else {
                continue;
            };
            assert!(
                known.contains(format!("{part}/{stem}").as_str()),
                "{part}/{name} has no promise"
            );
        }
    }
}

/// blkid's own expectations, for those images that have them: type, label, UDF revision and block size.
#[test]
fn labels_and_revisions_equal_blkids() {
    let Some(corpus) = corpus("iso") else { return };
    if !have(&["xz"]) {
        return;
    }
    let mut compared = 0;
    for promise in PROMISES {
        let Ok(expected) = std::fs::read_to_string(corpus.join(format!("{}.expected", promise.name))) else {
            continue;
        };
        let directory = tempfile::tempdir().unwrap();
        let medium = Medium::open(&image(&corpus, promise.name, directory.path())).unwrap();
        let field = |name: &str| {
            expected
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(unescape)
        };
        assert_eq!(field("ID_FS_LABEL_ENC").as_deref(), medium.label(), "{}", promise.name);
        let (kind, block_bytes) = match medium.kind() {
            MediumKind::Udf {
                block_bytes, revision, ..
            } => {
                assert_eq!(field("ID_FS_VERSION"), Some(revision.to_string()), "{}", promise.name);
                ("udf", *block_bytes)
            }
            MediumKind::Iso9660 {
                block_bytes, joliet, ..
            } => {
                let joliet = joliet.map(|_| "Joliet Extension".to_owned());
                assert_eq!(field("ID_FS_VERSION"), joliet, "{}", promise.name);
                ("iso9660", *block_bytes)
            }
            other => panic!("{}: {other}", promise.name),
        };
        assert_eq!(field("ID_FS_TYPE").as_deref(), Some(kind), "{}", promise.name);
        assert_eq!(
            field("ID_FS_BLOCK_SIZE"),
            Some(block_bytes.to_string()),
            "{}",
            promise.name
        );
        compared += 1;
    }
    assert!(compared >= 8, "only {compared} images have expectations");
}

/// udev's form of a value: `\x20` for a character that is not plain.
fn unescape(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (
            first,
            behind.first(),
            code.and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        ) {
            (b'\\', Some(b'x'), Some(code)) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_file_in_several_extents_is_read_across_their_border() {
    let Some(corpus) = corpus("iso") else { return };
    let path = corpus.join("libarchive/test_read_format_iso_multi_extent.iso");
    let medium = Medium::open(&path).unwrap();
    let bytes = read(&medium, "file");
    assert_eq!(bytes.len(), 262_280);
    if have(&["7z"]) {
        assert!(bytes == run("7z", &["x", "-so", path.to_str().unwrap(), "file"]));
    }
}

#[test]
fn a_compressed_file_says_so_and_is_given_as_stored() {
    let Some(corpus) = corpus("iso") else { return };
    let medium = Medium::open(&corpus.join("libarchive/test_read_format_iso_zisofs_overflow.iso")).unwrap();
    assert!(medium.lookup("overflow.bin").unwrap().unwrap().stored_compressed());
    assert!(read(&medium, "OVERFLOW.BIN").starts_with(&[0x37, 0xe4, 0x53, 0x96]));
}
