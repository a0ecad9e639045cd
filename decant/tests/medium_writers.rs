// SPDX-License-Identifier: GPL-3.0-or-later
//! Discs written by genisoimage, xorriso and mkudffs read as what went into them, and as other readers read them.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod medium_support;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use medium_support::udf_image::{Layout, Node, Options, PARTITION_START, put, seal, tree as udf_tree, write};
use medium_support::{arg, contents, contents_of_7z, have, listing, listing_of_7z, pattern, read, run, tree, try_run};
use vodka_decant::medium::{Medium, MediumError, MediumKind};

/// A source tree with long, mixed-case and non-ASCII names, depth, an empty file and enough names for several sectors.
fn source(root: &Path) -> PathBuf {
    let source = root.join("source");
    let deep = source.join("d1/d2/d3/d4/d5/d6/d7/d8/d9/d10");
    for directory in [&deep, &source.join("sources"), &source.join("many")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(source.join("sources/install.wim"), pattern(1, 300_000)).unwrap();
    fs::write(source.join("sources/Boot.Wim"), pattern(2, 2048)).unwrap();
    fs::write(source.join("empty"), b"").unwrap();
    fs::write(
        source.join("A quite long name, with spaces and (brackets).txt"),
        b"long",
    )
    .unwrap();
    fs::write(source.join("caf\u{e9} \u{41f}\u{440}"), b"wide").unwrap();
    fs::write(deep.join("deep file"), b"deep").unwrap();
    for number in 0..150 {
        fs::write(source.join(format!("many/file number {number:03}")), [number]).unwrap();
    }
    source
}

#[test]
fn trees_with_whole_names_read_as_their_source() {
    if !have(&["genisoimage", "xorriso"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = source(directory.path());
    let target = directory.path().join("image.iso");
    let forms: [(&str, &[&str], &str); 6] = [
        (
            "genisoimage",
            &["-quiet", "-input-charset", "utf-8", "-R"],
            "ISO 9660 with Rock Ridge",
        ),
        (
            "genisoimage",
            &["-quiet", "-input-charset", "utf-8", "-R", "-J", "-joliet-long"],
            "ISO 9660 with Rock Ridge",
        ),
        (
            "genisoimage",
            &["-quiet", "-input-charset", "utf-8", "-J", "-joliet-long", "-D"],
            "ISO 9660 with Joliet",
        ),
        (
            "genisoimage",
            &["-quiet", "-input-charset", "utf-8", "-udf", "-D", "-J", "-joliet-long"],
            "UDF 1.02",
        ),
        (
            "xorriso",
            &["-as", "mkisofs", "-quiet", "-R"],
            "ISO 9660 with Rock Ridge",
        ),
        (
            "xorriso",
            &["-as", "mkisofs", "-quiet", "-J", "-joliet-long", "-D"],
            "ISO 9660 with Rock Ridge",
        ),
    ];
    for (program, arguments, kind) in forms {
        let mut all = arguments.to_vec();
        all.extend(["-o", arg(&target), arg(&source)]);
        fs::remove_file(&target).ok();
        run(program, &all);
        let medium = Medium::open(&target).unwrap();
        assert_eq!(medium.kind().to_string(), kind, "{program} {arguments:?}");
        assert!(contents(&medium) == tree(&source), "{program} {arguments:?}");
        assert_eq!(
            medium.windows_sources().unwrap()[0]
                .install
                .as_ref()
                .unwrap()
                .size_bytes(),
            300_000
        );
        assert_eq!(
            medium.windows_sources().unwrap()[0].boot.as_ref().unwrap().name(),
            "Boot.Wim"
        );
    }
}

/// 7z prefers Joliet and knows no moved directories: compared where that makes no difference.
#[test]
fn listings_and_contents_equal_those_of_7z() {
    if !have(&["genisoimage", "7z"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = source(directory.path());
    let target = directory.path().join("image.iso");
    let forms: [&[&str]; 4] = [
        &["-iso-level", "1", "-D"],
        &["-iso-level", "3", "-D", "-allow-lowercase", "-l"],
        &["-J", "-joliet-long", "-D"],
        &["-udf", "-D", "-J", "-joliet-long"],
    ];
    for arguments in forms {
        let mut all = vec!["-quiet", "-input-charset", "utf-8", "-o", arg(&target)];
        all.extend(arguments);
        all.push(arg(&source));
        fs::remove_file(&target).ok();
        run("genisoimage", &all);
        let medium = Medium::open(&target).unwrap();
        assert_eq!(listing(&medium), listing_of_7z(&target).unwrap(), "{arguments:?}");
        assert!(contents(&medium) == contents_of_7z(&target).unwrap(), "{arguments:?}");
    }
}

/// A person's own discs: `VODKA_ISO` names one or more, with `:` between them.
#[test]
fn a_persons_own_disc_is_listed_as_7z_lists_it() {
    let Some(images) = std::env::var_os("VODKA_ISO") else {
        eprintln!("skipped: VODKA_ISO names no disc image");
        return;
    };
    assert!(have(&["7z"]));
    for image in std::env::split_paths(&images) {
        let medium = Medium::open(&image).unwrap();
        assert_eq!(listing(&medium), listing_of_7z(&image).unwrap(), "{}", image.display());
        if medium.size_bytes().unwrap() < 256 << 20 {
            assert!(
                contents(&medium) == contents_of_7z(&image).unwrap(),
                "{}",
                image.display()
            );
        }
    }
}

/// Directories deeper than eight are moved to rr_moved on the disc; they must show where they belong.
#[test]
fn moved_directories_are_listed_as_isoinfo_lists_them() {
    if !have(&["genisoimage", "isoinfo"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = source(directory.path());
    let target = directory.path().join("image.iso");
    run(
        "genisoimage",
        &[
            "-quiet",
            "-input-charset",
            "utf-8",
            "-R",
            "-o",
            arg(&target),
            arg(&source),
        ],
    );
    let medium = Medium::open(&target).unwrap();
    let ours: BTreeSet<String> = medium.walk().map(|entry| entry.unwrap().path().to_owned()).collect();
    assert!(ours.contains("d1/d2/d3/d4/d5/d6/d7/d8/d9/d10/deep file"));
    let output = String::from_utf8(run("isoinfo", &["-R", "-f", "-i", arg(&target)])).unwrap();
    // isoinfo follows no child links: it lists the moved directory under rr_moved.
    let theirs: BTreeSet<String> = output
        .lines()
        .map(|line| line.trim_start_matches('/'))
        .filter(|path| !path.starts_with("rr_moved/"))
        .map(str::to_owned)
        .collect();
    let mine: BTreeSet<String> = ours
        .iter()
        .filter(|path| !path.starts_with("d1/d2/d3/d4/d5/d6/d7/"))
        .cloned()
        .collect();
    let expected: BTreeSet<String> = theirs
        .iter()
        .filter(|path| !path.starts_with("d1/d2/d3/d4/d5/d6/d7/"))
        .cloned()
        .collect();
    assert_eq!(mine, expected);
}

#[test]
fn links_keep_their_targets() {
    if !have(&["xorriso"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    let far = format!("/{}/../{}", "x".repeat(200), "y".repeat(200));
    for (name, target) in [("near", "a/b"), ("up", "../c"), ("far", far.as_str())] {
        std::os::unix::fs::symlink(target, source.join(name)).unwrap();
    }
    let target = directory.path().join("image.iso");
    run(
        "xorriso",
        &["-as", "mkisofs", "-quiet", "-R", "-o", arg(&target), arg(&source)],
    );
    let medium = Medium::open(&target).unwrap();
    for (name, target) in [("near", "a/b"), ("up", "../c"), ("far", far.as_str())] {
        let kind = format!("{:?}", medium.lookup(name).unwrap().unwrap().kind());
        assert_eq!(kind, format!("Symlink {{ target: {target:?} }}"));
        assert!(matches!(medium.open_path(name), Err(MediumError::NotAFile { .. })));
    }
}

/// A disc that was added to: the later session has the old files and the new ones.
#[test]
fn the_last_session_of_a_disc_wins() {
    if !have(&["genisoimage", "xorriso"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    for (path, name) in [(&first, "old"), (&second, "new")] {
        fs::create_dir(path).unwrap();
        fs::write(path.join(name), name).unwrap();
    }
    let image = directory.path().join("image.iso");
    run(
        "genisoimage",
        &["-quiet", "-R", "-V", "ONE", "-o", arg(&image), arg(&first)],
    );
    // A CD has a gap of 11,400 blocks between its first two sessions.
    let start = fs::metadata(&image).unwrap().len() / 2048 + 11_400;
    let added = directory.path().join("added");
    let place = format!("0,{start}");
    let arguments = [
        "-quiet",
        "-R",
        "-V",
        "TWO",
        "-C",
        &place,
        "-M",
        arg(&image),
        "-o",
        arg(&added),
        arg(&second),
    ];
    run("genisoimage", &arguments);
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&fs::read(&added).unwrap(), start * 2048).unwrap();
    let medium = Medium::open(&image).unwrap();
    assert_eq!(medium.label(), Some("TWO"));
    assert_eq!(
        (read(&medium, "old"), read(&medium, "new")),
        (b"old".to_vec(), b"new".to_vec())
    );
    let MediumKind::Iso9660 { session_block, .. } = medium.kind() else {
        panic!("{:?}", medium.kind())
    };
    assert_eq!(*session_block, start);
    // A session that is cut off is not whole: the one before it holds.
    file.set_len((start + 20) * 2048).unwrap();
    assert_eq!(Medium::open(&image).unwrap().label(), Some("ONE"));

    let grown = directory.path().join("grown.iso");
    run(
        "xorriso",
        &["-outdev", arg(&grown), "-volid", "ONE", "-map", arg(&first), "/"],
    );
    run(
        "xorriso",
        &["-dev", arg(&grown), "-volid", "TWO", "-map", arg(&second), "/"],
    );
    let medium = Medium::open(&grown).unwrap();
    assert_eq!(medium.label(), Some("TWO"));
    assert_eq!(listing(&medium).into_keys().collect::<Vec<_>>(), ["new", "old"]);
}

/// Paths with their contents.
type Files<'a> = &'a [(&'a str, &'a str)];

/// Puts an ISO 9660 volume into the room before a UDF volume: two independent sides.
fn bridge(directory: &Path, iso_files: Files<'_>, udf: &Node) -> PathBuf {
    let source = directory.join("iso-side");
    for (path, content) in iso_files {
        let path = source.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let iso = directory.join("iso-side.iso");
    run(
        "genisoimage",
        &["-quiet", "-no-pad", "-V", "ISO_SIDE", "-o", arg(&iso), arg(&source)],
    );
    let iso_bytes = fs::read(&iso).unwrap();
    assert!(iso_bytes.len() < 128 * 2048);
    let mut bytes = write(
        &Options {
            label: "UDF side".to_owned(),
            ..Options::default()
        },
        udf,
    );
    put(&mut bytes, 0, &iso_bytes);
    let path = directory.join("bridge.iso");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn of_a_bridge_disc_the_side_with_sources_is_taken() {
    if !have(&["genisoimage"]) {
        return;
    }
    let wim = || pattern(1, 5000);
    let readme: Files<'_> = &[("README.TXT", "see the other side")];
    // (ISO side, UDF side, the label of the side that is meant)
    let cases: [(Files<'_>, Node, &str); 5] = [
        (readme, udf_tree(&[("sources/install.wim", wim())]), "UDF side"),
        (readme, udf_tree(&[("X64/Sources/install.wim", wim())]), "UDF side"),
        (
            &[("sources/install.wim", "wim")],
            udf_tree(&[("readme.txt", wim())]),
            "ISO_SIDE",
        ),
        (readme, udf_tree(&[]), "ISO_SIDE"),
        (readme, udf_tree(&[("music.ogg", wim())]), "UDF side"),
    ];
    for (iso, udf, label) in cases {
        let directory = tempfile::tempdir().unwrap();
        let medium = Medium::open(&bridge(directory.path(), iso, &udf)).unwrap();
        assert_eq!(medium.label(), Some(label), "{iso:?} {udf:?}");
        let both = matches!(
            medium.kind(),
            MediumKind::Udf { iso9660_too: true, .. } | MediumKind::Iso9660 { udf_too: true, .. }
        );
        assert!(both, "{:?}", medium.kind());
    }
}

#[test]
fn a_damaged_udf_side_is_said_unless_the_other_side_has_sources() {
    if !have(&["genisoimage"]) {
        return;
    }
    let spoil = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        for block in [128, 129, 160, 161] {
            bytes[block * 2048..(block + 1) * 2048].fill(0xff);
        }
        fs::write(path, bytes).unwrap();
    };
    let udf = udf_tree(&[("sources/install.wim", pattern(1, 5000))]);
    let directory = tempfile::tempdir().unwrap();
    let path = bridge(directory.path(), &[("README.TXT", "see the other side")], &udf);
    spoil(&path);
    let error = Medium::open(&path).unwrap_err().to_string();
    assert!(error.contains("main volume descriptor sequence"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let path = bridge(directory.path(), &[("sources/install.wim", "wim")], &udf);
    spoil(&path);
    assert_eq!(Medium::open(&path).unwrap().label(), Some("ISO_SIDE"));
}

#[test]
fn mkudffs_discs_of_every_media_type_and_revision_open() {
    if !have(&["mkudffs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut opened = BTreeSet::new();
    for media in [
        "hd", "dvd", "dvdram", "dvdrw", "dvdr", "worm", "mo", "cdrw", "cdr", "cd", "bdr",
    ] {
        for revision in ["1.02", "1.50", "2.00", "2.01", "2.50", "2.60"] {
            for (block_bytes, extra) in [("512", "--ad=short"), ("2048", "--ad=inicb"), ("4096", "--ad=long")] {
                let path = directory.path().join("image");
                fs::remove_file(&path).ok();
                let arguments = [
                    "--utf8",
                    "--label=\u{41f}\u{440} \u{1f600}",
                    "--new-file",
                    &format!("--media-type={media}"),
                    &format!("--udfrev={revision}"),
                    &format!("--blocksize={block_bytes}"),
                    extra,
                    arg(&path),
                    "4000",
                ];
                // mkudffs itself refuses what a medium of that kind cannot have.
                if try_run("mkudffs", &arguments).is_none() {
                    continue;
                }
                let what = format!("{media} {revision} {block_bytes}");
                let medium = Medium::open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(medium.label(), Some("\u{41f}\u{440} \u{1f600}"), "{what}");
                let MediumKind::Udf {
                    revision: found,
                    block_bytes: size,
                    ..
                } = medium.kind()
                else {
                    panic!("{what}")
                };
                assert_eq!(
                    (found.to_string(), size.to_string()),
                    (revision.to_owned(), block_bytes.to_owned()),
                    "{what}"
                );
                // What mkudffs itself puts into the root; the second one marks the spare packets of a rewritable disc.
                let known = ["lost+found", "Non-Allocatable Space"];
                let names = listing(&medium).into_keys();
                assert!(
                    names
                        .into_iter()
                        .all(|name| known.contains(&name.trim_end_matches('/'))),
                    "{what}"
                );
                opened.insert(what);
            }
        }
    }
    assert!(opened.len() >= 40, "mkudffs made {} discs: {opened:?}", opened.len());
}

/// The end of a file of more than 4 GiB: several extents in ISO 9660, whose sizes have 32 bits each.
#[test]
fn a_file_over_4_gib_in_iso_9660_is_read_right_at_its_end() {
    if !have(&["xorriso", "dd"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::create_dir_all(source.join("sources")).unwrap();
    let length = (4_u64 << 30) + 1_234_567;
    let marks = [0, (4 << 30) - 3000, (4 << 30) - 5, (4 << 30) + 100, length - 16];
    let file = File::create(source.join("sources/install.wim")).unwrap();
    file.set_len(length).unwrap();
    for mark in marks {
        file.write_all_at(&pattern(mark, 16), mark).unwrap();
    }
    // Through dd, so that the image is as sparse as the file.
    let image = directory.path().join("image.iso");
    let mut xorriso = Command::new("xorriso")
        .args([
            "-as",
            "mkisofs",
            "-quiet",
            "-iso-level",
            "3",
            "-R",
            "-o",
            "-",
            arg(&source),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dd = Command::new("dd")
        .args([
            "conv=sparse",
            "bs=1M",
            "iflag=fullblock",
            "status=none",
            &format!("of={}", arg(&image)),
        ])
        .stdin(xorriso.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(dd.success() && xorriso.wait().unwrap().success());
    check_marks(&image, length, &marks);
}

/// The same in UDF: a file of five extents of almost 1 GiB, the most that one may have.
#[test]
fn a_file_over_4_gib_in_udf_is_read_right_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image.iso");
    let options = Options {
        layout: Layout::Long,
        ..Options::default()
    };
    let mut bytes = write(&options, &udf_tree(&[("sources/install.wim", vec![0xee; 10])]));
    let most = (1_u64 << 30) - 2048;
    let length = 4 * most + 1_234_567;
    let first = bytes.len() as u64 / 2048 - PARTITION_START as u64;
    let blocks = length.div_ceil(2048);
    // The entry: its length and five descriptors.
    let at = (PARTITION_START * 2048..bytes.len())
        .step_by(2048)
        .find(|at| bytes[at + 27] == 5)
        .unwrap();
    put(&mut bytes, at + 56, &length.to_le_bytes());
    put(&mut bytes, at + 172, &(5 * 16_u32).to_le_bytes());
    for index in 0..5 {
        let descriptor = at + 200 + usize::try_from(index).unwrap() * 16;
        let run = most.min(length - index * most);
        put(&mut bytes, descriptor, &u32::try_from(run).unwrap().to_le_bytes());
        put(
            &mut bytes,
            descriptor + 4,
            &u32::try_from(first + index * most / 2048).unwrap().to_le_bytes(),
        );
        put(&mut bytes, descriptor + 8, &[0; 8]);
    }
    let number = u32::try_from(at / 2048 - PARTITION_START).unwrap();
    seal(&mut bytes[at..at + 2048], 261, number, 2032);
    for block in [130, 162] {
        let at = block * 2048;
        put(
            &mut bytes,
            at + 192,
            &u32::try_from(first + blocks).unwrap().to_le_bytes(),
        );
        seal(&mut bytes[at..at + 2048], 5, u32::try_from(block).unwrap(), 496);
    }
    fs::write(&image, &bytes).unwrap();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let data = bytes.len() as u64;
    file.set_len(data + blocks * 2048).unwrap();
    let marks = [0, most - 8, 2 * most - 1, 4 * most - 15, length - 16];
    for mark in marks {
        file.write_all_at(&pattern(mark, 16), data + mark).unwrap();
    }
    check_marks(&image, length, &marks);
}

fn check_marks(image: &Path, length: u64, marks: &[u64]) {
    let medium = Medium::open(image).unwrap();
    let install = medium.windows_sources().unwrap()[0].install.clone().unwrap();
    assert_eq!(install.size_bytes(), length);
    let file = medium.open_file(&install).unwrap();
    for mark in marks {
        let mut found = [0; 16];
        file.read_exact_at(&mut found, *mark).unwrap();
        assert_eq!(found.as_slice(), pattern(*mark, 16), "at {mark}");
    }
    // Across everything between the last two marks, in one read.
    let mut tail = vec![0xee; 1 << 20];
    file.read_exact_at(&mut tail, length - (1 << 20)).unwrap();
    assert_eq!(tail[tail.len() - 16..], pattern(length - 16, 16));
    assert!(tail[..tail.len() - 16].iter().all(|byte| *byte == 0));
    assert!(file.read_exact_at(&mut [0], length).is_err());
}

/// A small plain ISO, and where its root directory's third record (the first file) is.
fn plain_iso(directory: &Path) -> (Vec<u8>, usize) {
    let source = directory.join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("file.txt"), pattern(1, 5000)).unwrap();
    let target = directory.join("image.iso");
    run("genisoimage", &["-quiet", "-no-pad", "-o", arg(&target), arg(&source)]);
    let bytes = fs::read(&target).unwrap();
    let root = u32::from_le_bytes(bytes[16 * 2048 + 158..16 * 2048 + 162].try_into().unwrap()) as usize * 2048;
    (bytes, root + 34 + 34)
}

fn open(directory: &Path, bytes: &[u8]) -> Result<Medium, MediumError> {
    let path = directory.join("changed.iso");
    fs::write(&path, bytes).unwrap();
    Medium::open(&path)
}

#[test]
fn a_truncated_iso_9660_image_is_said_with_both_sizes() {
    if !have(&["genisoimage"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (bytes, _) = plain_iso(directory.path());
    match open(directory.path(), &bytes[..bytes.len() - 1]).unwrap_err() {
        MediumError::Truncated {
            declared_bytes,
            actual_bytes,
            ..
        } => {
            assert_eq!(
                (declared_bytes, actual_bytes),
                (bytes.len() as u64, bytes.len() as u64 - 1)
            );
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_interleaved_file_is_listed_and_refused_by_name() {
    if !have(&["genisoimage"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, record) = plain_iso(directory.path());
    bytes[record + 26] = 2;
    bytes[record + 27] = 1;
    let medium = open(directory.path(), &bytes).unwrap();
    assert_eq!(medium.lookup("file.txt").unwrap().unwrap().size_bytes(), 5000);
    let error = medium.open_path("file.txt").unwrap_err().to_string();
    assert!(
        error.starts_with("FILE.TXT on ") && error.contains("file unit size 2, gap size 1"),
        "{error}"
    );
}

#[test]
fn byte_orders_that_disagree_are_refused_with_both_numbers() {
    if !have(&["genisoimage"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, record) = plain_iso(directory.path());
    bytes[record + 17] ^= 1;
    let error = open(directory.path(), &bytes)
        .unwrap()
        .read_dir("")
        .unwrap_err()
        .to_string();
    assert!(error.contains("both byte orders (5000), found 5001"), "{error}");
}

#[test]
fn a_directory_cycle_of_iso_9660_is_named_and_ended() {
    if !have(&["genisoimage"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, record) = plain_iso(directory.path());
    // The second entry is `SUB`: it becomes the root again.
    let sub = record + usize::from(bytes[record]);
    let root: [u8; 16] = bytes[16 * 2048 + 158..16 * 2048 + 174].try_into().unwrap();
    put(&mut bytes, sub + 2, &root);
    let medium = open(directory.path(), &bytes).unwrap();
    let results: Vec<Result<String, String>> = medium
        .walk()
        .map(|entry| {
            entry
                .map(|entry| entry.path().to_owned())
                .map_err(|error| error.to_string())
        })
        .collect();
    assert_eq!(results.len(), 3, "{results:?}");
    assert!(
        results[2].as_ref().unwrap_err().contains("/SUB is also /"),
        "{results:?}"
    );
}

#[test]
fn a_file_that_promises_more_extents_needs_them() {
    if !have(&["genisoimage"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, record) = plain_iso(directory.path());
    bytes[record + 25] |= 0x80;
    let error = open(directory.path(), &bytes)
        .unwrap()
        .read_dir("")
        .unwrap_err()
        .to_string();
    assert!(error.contains("another record of the file"), "{error}");
}
