// SPDX-License-Identifier: GPL-3.0-or-later
//! All that NT keeps about a file is read as `wimlib-imagex dir --detailed` reads it; what no world may hold is refused.

mod wim_support;

use std::collections::BTreeMap;

use fixtures::wim_writer::{ENCRYPTED, HIDDEN, Image, Node, READONLY, ReparsePoint, SYSTEM, TAG_SYMLINK, WimWriter};
use vodka_decant::wim::{Dentry, ImageMetadata, NameFault, Sha1Hash, Wim, WimError};
use wim_support::{Random, has_wimlib, open_bytes, text, wimlib};

/// What `dir --detailed` says of one file, in our order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Detail {
    short_name: String,
    attributes: u32,
    security_descriptor: String,
    /// Seconds since 1970; wimlib prints no fractions.
    times: [i64; 3],
    reparse_tag: Option<u32>,
    hard_link_group: u64,
    object_id: String,
    /// `data`, `reparse`, `efs` or `:name`, and the hash.
    streams: Vec<(String, String)>,
}

/// Reads the text of `dir --detailed`.
fn wimlib_details(image: &std::path::Path) -> BTreeMap<String, Detail> {
    let listing = wimlib(&["dir", text(image), "1", "--detailed"]);
    let mut details = BTreeMap::new();
    let mut path = String::new();
    for line in String::from_utf8(listing).expect("UTF-8").lines() {
        let unquoted = |value: &str| value.trim_matches('"').to_owned();
        let (key, value) = line
            .split_once('=')
            .map_or((line.trim(), ""), |(key, value)| (key.trim(), value.trim()));
        if key == "Full Path" {
            path = unquoted(value);
            details.insert(path.clone(), Detail::default());
            continue;
        }
        let Some(detail) = details.get_mut(&path) else { continue };
        let number = || u64::from_str_radix(value.trim_start_matches("0x"), 16).expect("a hexadecimal number");
        let number_32 = || u32::try_from(number()).expect("32 bits");
        match key {
            "Short Name" => detail.short_name = unquoted(value),
            "Attributes" => detail.attributes = number_32(),
            "Security Descriptor" => detail.security_descriptor = value.to_owned(),
            "Creation Time" => detail.times[0] = unix_seconds(value),
            "Last Access Time" => detail.times[1] = unix_seconds(value),
            "Last Write Time" => detail.times[2] = unix_seconds(value),
            "Reparse Tag" => detail.reparse_tag = Some(number_32()),
            "Link Group ID" => detail.hard_link_group = number(),
            "Object ID" | "Birth Volume ID" | "Birth Object ID" | "Domain ID" => {
                detail.object_id += value.trim_start_matches("0x");
            }
            "Unnamed data stream:" => detail.streams.push(("data".to_owned(), String::new())),
            "Reparse point stream:" => detail.streams.push(("reparse".to_owned(), String::new())),
            "Raw encrypted data stream:" => detail.streams.push(("efs".to_owned(), String::new())),
            "Hash" => {
                detail.streams.last_mut().expect("a stream before its hash").1 =
                    value.trim_start_matches("0x").to_owned()
            }
            _ if key.starts_with("Named data stream") => {
                let name = key
                    .trim_start_matches("Named data stream")
                    .trim_end_matches(':')
                    .trim()
                    .trim_matches('"');
                detail.streams.push((format!(":{name}"), String::new()));
            }
            _ => {}
        }
    }
    for detail in details.values_mut() {
        // An empty unnamed stream and none are the same.
        detail
            .streams
            .retain(|(name, hash)| name.starts_with(':') || !hash.trim_matches('0').is_empty());
        detail.streams.sort();
    }
    details
}

/// `Wed Jan 01 00:00:00 2020 UTC` as seconds since 1970.
fn unix_seconds(shown: &str) -> i64 {
    let parts: Vec<&str> = shown.split_whitespace().collect();
    let [_, month, day, clock, year, _] = parts.as_slice() else {
        panic!("a time like `{shown}`")
    };
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = months.iter().position(|name| name == month).expect("a month") as i64 + 1;
    let (year, day): (i64, i64) = (year.parse().expect("a year"), day.parse().expect("a day"));
    let clock: Vec<i64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    // Days since 1970-01-01 in the Gregorian calendar, the year beginning in March.
    let (shifted_year, shifted_month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year - era * 400;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2]
}

fn our_detail(metadata: &ImageMetadata, dentry: &Dentry<'_>) -> Detail {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = |sha1: Option<Sha1Hash>| sha1.unwrap_or_default().to_string();
    let mut streams: Vec<(String, String)> = Vec::new();
    streams.extend(dentry.data.map(|sha1| ("data".to_owned(), sha1.to_string())));
    streams.extend(dentry.efs_data.map(|sha1| ("efs".to_owned(), sha1.to_string())));
    streams.extend(
        dentry
            .reparse
            .and_then(|reparse| reparse.data)
            .map(|sha1| ("reparse".to_owned(), sha1.to_string())),
    );
    streams.extend(
        dentry
            .named_streams()
            .map(|stream| (format!(":{}", String::from_utf16_lossy(stream.name)), hash(stream.sha1))),
    );
    streams.sort();
    let descriptor = dentry.security_id.and_then(|id| metadata.security_descriptor(id));
    Detail {
        short_name: String::from_utf16_lossy(dentry.short_name),
        attributes: dentry.attributes,
        security_descriptor: descriptor.map(hex).unwrap_or_default(),
        times: [dentry.creation_time, dentry.last_access_time, dentry.last_write_time].map(|time| time.unix_time().0),
        reparse_tag: dentry.reparse.map(|reparse| reparse.tag),
        hard_link_group: dentry.hard_link_group.unwrap_or(0),
        object_id: dentry.object_id().map(hex).unwrap_or_default(),
        streams,
    }
}

fn metadata_equals_wimlibs(bytes: Vec<u8>) {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image.wim");
    std::fs::write(&image, &bytes).expect("written");
    wimlib(&["verify", text(&image)]);
    let expected = wimlib_details(&image);
    let metadata = open_bytes(bytes).metadata(1).expect("metadata");
    let mut found = BTreeMap::new();
    for id in metadata.walk() {
        let path = String::from_utf16_lossy(&metadata.path_utf16(id)).replace('\\', "/");
        let path = if path.is_empty() { "/".to_owned() } else { path };
        found.insert(path, our_detail(&metadata, &metadata.get(id)));
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, detail) in &expected {
        assert_eq!(found[path], *detail, "{path}");
    }
}

fn descriptor(ace_sizes: u8) -> Vec<u8> {
    let mut bytes = vec![1, 0, 4, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0];
    bytes.extend([2, 0, 8 + ace_sizes, 0, 0, 0, 0, 0]);
    bytes.extend(vec![0; ace_sizes.into()]);
    bytes
}

fn every_kind() -> Image {
    let mut image = Image::new(
        "every kind",
        vec![
            Node::directory(
                "Windows",
                vec![
                    Node::file("explorer.exe", "MZ")
                        .with_short_name("EXPLOR~1.EXE")
                        .with_security_id(1),
                    Node::file("one", "linked").with_hard_link_group(0x7_0000_0001),
                    Node::file("two", "linked").with_hard_link_group(0x7_0000_0001),
                    Node::directory("empty", vec![]),
                ],
            )
            .with_security_id(0)
            .with_short_name("WIN"),
            Node::file("streams", "main")
                .with_stream("Zone.Identifier", "[ZoneTransfer]")
                .with_stream("none", ""),
            Node::file("empty with stream", "").with_stream("s", "t"),
            Node::directory("directory with stream", vec![Node::file("in", "side")]).with_stream("d", "e"),
            Node::junction("Documents and Settings", "C:\\Users").with_attributes(HIDDEN | SYSTEM),
            Node::symlink("relative", "Windows\\one", true).with_stream("of a link", "x"),
            Node::symlink("absolute", "C:\\Windows", false),
            Node::file("times", "x").with_times(
                116_444_736_000_000_000,
                132_000_000_000_000_001,
                133_999_999_999_999_999,
            ),
            Node::file("object id", "x")
                .with_tagged_item(0x999, [5; 13])
                .with_tagged_item(1, [7; 64]),
            Node::file("empty", ""),
            Node::file("n\u{e4}me \u{65e5}\u{672c} \u{1f600}", "x").with_short_name("N\u{c4}ME~1"),
        ],
    );
    image.security_descriptors = vec![descriptor(0), descriptor(20), descriptor(0)];
    image.root.security_id = 2;
    image
}

#[test]
fn every_kind_of_metadata_is_read_as_wimlib_reads_it() {
    metadata_equals_wimlibs(WimWriter::new(vec![every_kind()]).build());
}

#[test]
fn random_metadata_is_read_as_wimlib_reads_it() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut image = Image::new("random", random_nodes(&mut random, 0));
        image.security_descriptors = (0..5).map(|size| descriptor(size * 4)).collect();
        metadata_equals_wimlibs(WimWriter::new(vec![image]).build());
    }
}

fn random_nodes(random: &mut Random, depth: usize) -> Vec<Node> {
    (0..random.below(12))
        .map(|number| {
            let name = format!(
                "{}{number}",
                ["file", "\u{e9}", "x.y", "sp ace", "\u{1f600}"][random.below(5)]
            );
            let mut node = match random.below(5) {
                0 if depth < 4 => Node::directory(&name, random_nodes(random, depth + 1)),
                1 => Node::junction(&name, "C:\\x"),
                2 => Node::symlink(&name, "x", random.below(2) == 0),
                _ => {
                    let length = random.below(3) * random.below(50);
                    Node::file(&name, random.data(length))
                }
            };
            node.security_id = i32::try_from(random.below(6)).expect("small") - 1;
            node.creation_time = 116_444_736_000_000_000 + random.next() % 20_000_000_000_000_000;
            node.last_write_time = 116_444_736_000_000_000 + random.next() % 20_000_000_000_000_000;
            node = node.with_attributes([0, HIDDEN, SYSTEM, READONLY][random.below(4)]);
            for stream in 0..random.below(4).saturating_sub(1) {
                let length = random.below(40);
                node = node.with_stream(&format!("s{stream}"), random.data(length));
            }
            if random.below(4) == 0 {
                node = node.with_short_name(&format!("SHORT~{number}"));
            }
            if random.below(6) == 0 {
                node = node.with_tagged_item(1, vec![9; if random.below(2) == 0 { 16 } else { 64 }]);
            }
            node
        })
        .collect()
}

#[test]
fn an_encrypted_file_has_raw_data_and_no_data() {
    let image = Image::new("efs", vec![Node::file("secret", "raw EFS").with_attributes(ENCRYPTED)]);
    let metadata = open_bytes(WimWriter::new(vec![image]).build())
        .metadata(1)
        .expect("metadata");
    let dentry = metadata.get(metadata.lookup("SECRET").expect("found"));
    assert_eq!(dentry.efs_data, Some(Sha1Hash::of(b"raw EFS")));
    assert_eq!(dentry.data, None);
}

#[test]
fn a_reparse_point_may_have_data_as_well() {
    let mut node = Node::symlink("link", "x", true);
    node.unnamed_as_extra = true;
    let reparse_data = node.reparse.as_ref().expect("a link").data.clone();
    // The second unnamed stream is the data.
    node.streams.push((Vec::new(), b"data behind the link".to_vec()));
    let image = Image::new("both", vec![node]);
    let metadata = open_bytes(WimWriter::new(vec![image]).build())
        .metadata(1)
        .expect("metadata");
    let dentry = metadata.get(metadata.lookup("link").expect("found"));
    let reparse = dentry.reparse.expect("a reparse point");
    assert_eq!(
        (reparse.tag, reparse.data),
        (TAG_SYMLINK, Some(Sha1Hash::of(&reparse_data)))
    );
    assert_eq!(dentry.data, Some(Sha1Hash::of(b"data behind the link")));
}

#[test]
fn a_target_outside_stays_data() {
    let mut node = Node::symlink("passwd", "..\\..\\..\\etc\\passwd", true);
    node.reparse.as_mut().expect("a link").flags = 1;
    let target: ReparsePoint = node.reparse.clone().expect("a link");
    let wim = open_bytes(WimWriter::new(vec![Image::new("out", vec![node])]).build());
    let metadata = wim.metadata(1).expect("metadata");
    let reparse = metadata
        .get(metadata.lookup("passwd").expect("found"))
        .reparse
        .expect("a reparse point");
    let blob = wim.find_blob(&reparse.data.expect("data")).expect("stored");
    assert_eq!(wim.read_blob(blob, 1 << 20).expect("whole"), target.data);
    assert_eq!(reparse.flags, 1);
}

fn refusal(nodes: Vec<Node>) -> WimError {
    open_bytes(WimWriter::new(vec![Image::new("bad", nodes)]).build())
        .metadata(1)
        .expect_err("refused")
}

#[test]
fn names_that_lead_elsewhere_are_refused_with_path_and_offset() {
    for (name, expected) in [
        (".", NameFault::Dot),
        ("..", NameFault::DotDot),
        ("a/b", NameFault::Separator),
        ("a\\b", NameFault::Separator),
        ("a\0b", NameFault::Nul),
        ("", NameFault::Empty),
    ] {
        let error = refusal(vec![Node::directory(
            "dir",
            vec![Node::file("ok", "x"), Node::file(name, "x")],
        )]);
        let WimError::InvalidName {
            path, offset, fault, ..
        } = &error
        else {
            panic!("{name:?}: {error}")
        };
        assert_eq!(*fault, expected);
        assert!(path.starts_with("\\dir\\") && *offset > 0, "{error}");
        assert!(!error.to_string().contains('\0'));
    }
    assert!(matches!(
        refusal(vec![Node::file("x", "y").with_short_name("..")]),
        WimError::InvalidName { .. }
    ));
    let stream = refusal(vec![Node::file("x", "y").with_stream("a:b", "z")]);
    assert!(
        matches!(
            stream,
            WimError::InvalidName {
                fault: NameFault::Colon,
                ..
            }
        ),
        "{stream}"
    );
}

#[test]
fn a_duplicate_is_refused_and_a_difference_in_case_is_listed() {
    let error = refusal(vec![Node::directory(
        "d",
        vec![Node::file("same", "1"), Node::file("x", ""), Node::file("same", "2")],
    )]);
    assert!(
        matches!(&error, WimError::DuplicateName { path, .. } if path == "\\d\\same"),
        "{error}"
    );

    let nodes = vec![
        Node::file("Readme", "1"),
        Node::file("x", ""),
        Node::file("README", "2"),
        Node::file("readme", "3"),
    ];
    let wim = open_bytes(WimWriter::new(vec![Image::new("case", nodes)]).build());
    let metadata = wim.metadata(1).expect("allowed");
    let shown: Vec<_> = metadata
        .case_duplicates()
        .iter()
        .map(|&(a, b)| (metadata.path(a), metadata.path(b)))
        .collect();
    let pair = |name: &str| ("\\Readme".to_owned(), name.to_owned());
    assert_eq!(shown, [pair("\\README"), pair("\\readme")]);
    assert_eq!(metadata.path(metadata.lookup("/README").expect("exact")), "\\README");
    assert_eq!(metadata.path(metadata.lookup("rEADME").expect("any case")), "\\Readme");
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let deep = |levels: usize| (0..levels).fold(Node::file("f", ""), |inner, _| Node::directory("d", vec![inner]));
    let wim = |levels| open_bytes(WimWriter::new(vec![Image::new("deep", vec![deep(levels)])]).build());
    assert_eq!(wim(1000).metadata(1).expect("deep enough").len(), 1002);
    let error = wim(1100).metadata(1).expect_err("too deep");
    assert!(error.to_string().contains("1024 levels"), "{error}");
}

/// Where the root's own list begins in the metadata of an image without security descriptors.
fn edited(nodes: Vec<Node>, edit: fn(&mut Vec<u8>)) -> Result<ImageMetadata, WimError> {
    let writer = WimWriter {
        edit_metadata: Some(edit),
        ..WimWriter::new(vec![Image::new("edited", nodes)])
    };
    open_bytes(writer.build()).metadata(1)
}

#[test]
fn a_list_that_is_reached_twice_is_refused() {
    // The second directory's list becomes the root's.
    let to_root = |metadata: &mut Vec<u8>| {
        let root_list: [u8; 8] = *metadata[8 + 16..].first_chunk().expect("the root");
        let list = usize::try_from(u64::from_le_bytes(root_list)).expect("small");
        metadata[list + 16..list + 24].copy_from_slice(&root_list);
    };
    let error = edited(vec![Node::directory("d", vec![Node::file("f", "")])], to_root).expect_err("a cycle");
    assert!(
        matches!(&error, WimError::Cycle { path, .. } if path == "\\d"),
        "{error}"
    );
}

#[test]
fn damaged_structures_are_refused_with_their_place() {
    let nodes = || vec![Node::file("f", "x").with_stream("s", "t")];
    type Edit = fn(&mut Vec<u8>);
    let edits: [(Edit, &str); 6] = [
        (|bytes| bytes.truncate(3), "at least 8"),
        (|bytes| bytes.truncate(8), "before the directory's list"),
        (
            |bytes| bytes[8..16].copy_from_slice(&50u64.to_le_bytes()),
            "a dentry has 50 bytes",
        ),
        (
            |bytes| bytes[8 + 12..8 + 16].copy_from_slice(&7i32.to_le_bytes()),
            "security id is 7",
        ),
        (
            |bytes| bytes[8 + 16..8 + 24].copy_from_slice(&u64::MAX.to_le_bytes()),
            "its list is at",
        ),
        (
            |bytes| bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes()),
            "descriptors in 8 bytes",
        ),
    ];
    for (edit, expected) in edits {
        let error = edited(nodes(), edit).expect_err(expected);
        assert!(matches!(error, WimError::InvalidMetadata { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error} should say `{expected}`");
    }
}

#[test]
fn metadata_that_do_not_have_their_hash_are_refused() {
    let mut bytes = WimWriter::new(vec![every_kind()]).build();
    // The word is in the metadata only: a name there.
    let at = bytes
        .windows(12)
        .position(|window| window == b"e\0x\0p\0l\0o\0r\0")
        .expect("the name");
    bytes[at] = b'E';
    let error = open_bytes(bytes).metadata(1).expect_err("changed");
    assert!(matches!(error, WimError::WrongHash { .. }), "{error}");
}

#[test]
fn paths_are_found_without_case_and_with_both_separators() {
    let wim: Wim = open_bytes(WimWriter::new(vec![every_kind()]).build());
    let metadata = wim.metadata(1).expect("metadata");
    for path in [
        "Windows\\explorer.exe",
        "/WINDOWS/EXPLORER.EXE",
        "\\windows\\\\Explorer.exe",
    ] {
        let id = metadata.lookup(path).expect(path);
        assert_eq!(metadata.path(id), "\\Windows\\explorer.exe");
    }
    assert_eq!(metadata.lookup("Windows\\nothing"), None);
    assert_eq!(metadata.lookup("\\"), Some(metadata.root()));
    assert_eq!(metadata.path(metadata.root()), "\\");
}
