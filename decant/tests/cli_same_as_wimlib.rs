// SPDX-License-Identifier: GPL-3.0-or-later
//! An imported world holds what `wimlib-imagex` takes out of the same edition: byte for byte what Linux can show
//! (`apply`), and field for field what it can't (`dir --detailed`).

mod cli_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cli_support::{Home, have_tools};
use fixtures::tools::Run;
use overlay::layer::{Entry, Kind};
use overlay::{Layer, NtPath};
use sha1::{Digest, Sha1};

/// What the import itself puts into a world: the answer file, at the place where Windows looks for it.
const PLACED: &str = "Windows/Panther/unattend.xml";

/// A world's tree, by path with `/`.
fn world_tree(layer: &Layer) -> BTreeMap<String, (NtPath, Entry)> {
    let mut tree = BTreeMap::new();
    let mut directories = vec![(String::new(), NtPath::root())];
    while let Some((prefix, directory)) = directories.pop() {
        for entry in layer.read_dir(&directory).expect("a directory of the world is read") {
            let name = String::from_utf16_lossy(entry.name().units());
            let path = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}/{name}")
            };
            let nt_path = directory.join(entry.name());
            if entry.kind == Kind::Directory && entry.meta.reparse_tag.is_none() {
                directories.push((path.clone(), nt_path.clone()));
            }
            tree.insert(path, (nt_path, entry));
        }
    }
    tree
}

/// A Linux tree, by path; no symbolic link is followed.
fn linux_tree(root: &Path) -> BTreeMap<String, fs::Metadata> {
    let mut tree = BTreeMap::new();
    let mut directories = vec![String::new()];
    while let Some(prefix) = directories.pop() {
        for entry in fs::read_dir(root.join(&prefix)).expect("a directory is read") {
            let entry = entry.expect("listed");
            let name = entry.file_name().into_string().expect("wimlib writes UTF-8");
            let path = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}/{name}")
            };
            let metadata = entry.path().symlink_metadata().expect("there");
            if metadata.is_dir() {
                directories.push(path.clone());
            }
            tree.insert(path, metadata);
        }
    }
    tree
}

/// The sets of names that share an inode, each with two or more.
fn link_groups<K: Ord>(files: impl Iterator<Item = (String, K)>) -> BTreeSet<Vec<String>> {
    let mut groups: BTreeMap<K, Vec<String>> = BTreeMap::new();
    for (path, inode) in files {
        groups.entry(inode).or_default().push(path);
    }
    groups.into_values().filter(|names| names.len() > 1).collect()
}

/// A symbolic link's target as Linux has it, from its reparse data ([MS-FSCC] 2.1.2.4).
fn link_target(data: &[u8]) -> String {
    let field = |at: usize| usize::from(u16::from_le_bytes([data[at], data[at + 1]]));
    let (offset, length) = (12 + field(0), field(2));
    let units: Vec<u16> = data[offset..offset + length]
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let target = String::from_utf16(&units).expect("a target of text");
    // An absolute one names a drive; wimlib takes the drive for Linux' root.
    target
        .trim_start_matches("\\??\\")
        .trim_start_matches("C:")
        .replace('\\', "/")
}

fn same_as_apply(wim: &Path, edition: &str) {
    let home = Home::new();
    home.import_command(wim, edition, "imported")
        .output()
        .map(cli_support::Said::from)
        .expect("starts")
        .ended_with(0);
    let applied = home.path().join("applied");
    Run::new("wimlib-imagex")
        .and_then(|run| run.arg("apply").arg(wim).arg(edition).arg(&applied).run())
        .expect("applied");

    let files = home.world("imported").join("files");
    let layer = Layer::open(&files).expect("the world opens");
    let mut world = world_tree(&layer);
    let linux = linux_tree(&applied);
    if !linux.contains_key(PLACED) {
        assert!(world.remove(PLACED).is_some(), "the answer file is not at {PLACED}");
    }
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(world.keys().collect()), names(linux.keys().collect()), "names");

    for (path, metadata) in &linux {
        let (nt_path, entry) = &world[path];
        if metadata.is_symlink() {
            assert_eq!(
                entry.meta.reparse_tag,
                Some(0xa000_000c),
                "{path}: a symbolic link keeps its tag"
            );
            let data = layer.reparse_data(nt_path).expect("read").expect("a link has data");
            let target = fs::read_link(applied.join(path)).expect("a link");
            assert_eq!(Path::new(&link_target(&data)), target, "{path}: target");
        } else if metadata.is_dir() {
            assert_eq!(entry.kind, Kind::Directory, "{path}");
        } else {
            assert_eq!((entry.kind, entry.size_bytes), (Kind::File, metadata.len()), "{path}");
            let mut bytes = Vec::new();
            layer
                .open_file(nt_path)
                .expect("opens")
                .read_to_end(&mut bytes)
                .expect("reads");
            assert!(
                bytes == fs::read(applied.join(path)).expect("reads"),
                "{path}: content differs"
            );
        }
        // The placed answer file may have changed its directory's time.
        let (seconds, nanoseconds) = entry.meta.written.to_unix();
        let time = (
            metadata.mtime(),
            u32::try_from(metadata.mtime_nsec()).expect("below a second"),
        );
        assert_eq!((seconds, nanoseconds), time, "{path}: last-write time");
    }
    let plain = |path: &str| !linux[path].is_dir() && !linux[path].is_symlink();
    let ours = world
        .iter()
        .filter(|(path, _)| plain(path))
        .map(|(path, (_, entry))| (path.clone(), entry.ino));
    let theirs = linux
        .iter()
        .filter(|(path, _)| plain(path))
        .map(|(path, metadata)| (path.clone(), metadata.ino()));
    let (ours, theirs) = (link_groups(ours), link_groups(theirs));
    assert_eq!(ours, theirs, "hard links");
}

#[test]
fn an_imported_tree_equals_what_wimlib_applies() {
    if have_tools() {
        same_as_apply(&fixtures::windows_11_wim().expect("made"), "6");
    }
}

#[test]
fn it_does_so_in_every_compression() {
    if have_tools() {
        same_as_apply(&fixtures::xpress_wim().expect("made"), "1");
        same_as_apply(&fixtures::uncompressed_wim().expect("made"), "1");
    }
}

/// One file or directory as `wimlib-imagex dir --detailed` shows it.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Shown {
    short_name: String,
    attributes: u32,
    security: Option<String>,
    times: [String; 3],
    reparse_tag: Option<u32>,
    links: u64,
    /// SHA-1 and length of the unnamed stream ("") and of each named one. An empty stream has no blob.
    streams: BTreeMap<String, (String, u64)>,
    /// Length and SHA-1 of the reparse data.
    reparse: Option<(String, u64)>,
}

/// Parses what `dir --detailed` prints.
fn parse_detailed(text: &str) -> BTreeMap<String, Shown> {
    let mut shown = BTreeMap::new();
    for block in text.split("----------------------------------------------------------------------------\n") {
        let value = |key: &str| {
            block
                .lines()
                .find(|line| line.starts_with(key))
                .and_then(|line| line.split_once("= "))
                .map(|(_, value)| value)
        };
        let hex = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number");
        // One quote from each end: a name may have its own.
        let unquote = |text: &str| {
            text.strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                .unwrap_or(text)
                .to_owned()
        };
        let Some(path) = value("Full Path").map(unquote) else {
            continue;
        };
        let mut one = Shown {
            short_name: value("Short Name").map(unquote).unwrap_or_default(),
            attributes: value("Attributes").map(hex).unwrap_or_default(),
            security: value("Security Descriptor").map(str::to_owned),
            times: ["Creation Time", "Last Write Time", "Last Access Time"]
                .map(|key| value(key).expect("a time").to_owned()),
            reparse_tag: value("Reparse Tag").map(hex),
            links: value("Link Count").and_then(|text| text.parse().ok()).expect("a count"),
            ..Shown::default()
        };
        for stream in block.split("\n\t").skip(1) {
            let (title, rest) = stream.split_once(":\n").expect("a stream has a title");
            let field = |key: &str| {
                rest.lines()
                    .find(|line| line.starts_with(key))
                    .and_then(|line| line.split_once("= "))
                    .expect("a field")
                    .1
            };
            let hash = field("Hash").trim_start_matches("0x").to_owned();
            let bytes: u64 = field("Uncompressed size")
                .trim_end_matches(" bytes")
                .parse()
                .expect("a length");
            if title.starts_with("Reparse") {
                one.reparse = Some((hash, bytes));
            } else if title.starts_with("Unnamed") {
                if bytes > 0 {
                    one.streams.insert(String::new(), (hash, bytes));
                }
            } else {
                let name = unquote(title.trim_start_matches("Named data stream "));
                let hash = if bytes == 0 { sha1_hex(b"") } else { hash };
                one.streams.insert(name, (hash, bytes));
            }
        }
        shown.insert(one_mark(&path), one);
    }
    shown
}

/// A lone surrogate is one mark to us and three bad bytes to wimlib: make them alike.
fn one_mark(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("\u{fffd}\u{fffd}") {
        text = text.replace("\u{fffd}\u{fffd}", "\u{fffd}");
    }
    text
}

fn sha1_hex(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A FILETIME as wimlib shows it, in whole seconds.
fn shown_time(time: overlay::FileTime) -> String {
    let (seconds, _) = time.to_unix();
    let time = jiff::Timestamp::from_second(seconds).expect("a year of four digits");
    time.strftime("%a %b %d %H:%M:%S %Y UTC").to_string()
}

/// Creation, last write, last access.
fn times(entry: &Entry) -> [overlay::FileTime; 3] {
    [entry.meta.created, entry.meta.written, entry.meta.accessed]
}

fn shown(layer: &Layer, path: &NtPath, entry: &Entry) -> Shown {
    let bytes_of = |mut file: fs::File| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("reads");
        (sha1_hex(&bytes), bytes.len() as u64)
    };
    let mut streams = BTreeMap::new();
    if entry.kind == Kind::File && entry.meta.reparse_tag.is_none() && entry.size_bytes > 0 {
        streams.insert(String::new(), bytes_of(layer.open_file(path).expect("opens")));
    }
    for stream in layer.streams(path).expect("streams are listed") {
        let file = layer.open_stream(path, &stream.name).expect("a stream opens");
        streams.insert(String::from_utf16_lossy(stream.name.units()), bytes_of(file));
    }
    let reparse = layer.reparse_data(path).expect("reads");
    Shown {
        short_name: entry
            .meta
            .short_name
            .as_ref()
            .map(|name| String::from_utf16_lossy(name.units()))
            .unwrap_or_default(),
        attributes: entry.meta.attributes,
        security: entry.meta.security.map(|id| {
            let bytes = layer.security(id).expect("a descriptor is kept");
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }),
        times: times(entry).map(shown_time),
        reparse_tag: entry.meta.reparse_tag,
        links: if entry.kind == Kind::Directory { 1 } else { entry.links },
        streams,
        reparse: reparse.map(|data| (sha1_hex(&data), data.len() as u64)),
    }
}

fn same_as_detailed(wim: &Path) {
    let home = Home::new();
    home.import_command(wim, "1", "imported")
        .output()
        .map(cli_support::Said::from)
        .expect("starts")
        .ended_with(0);
    let printed = Run::new("wimlib-imagex")
        .and_then(|run| run.arg("dir").arg(wim).args(["1", "--detailed"]).output())
        .expect("wimlib lists");
    let theirs = parse_detailed(&String::from_utf8_lossy(&printed));
    let layer = Layer::open(home.world("imported").join("files")).expect("the world opens");
    let mut compared = 0;
    for (path, (nt_path, entry)) in world_tree(&layer) {
        // What the import placed; its directory too, where the image has none.
        if path == PLACED || path == "Windows/Panther" && !theirs.contains_key("/Windows/Panther") {
            continue;
        }
        let mut ours = shown(&layer, &nt_path, &entry);
        let theirs = theirs
            .get(&one_mark(&format!("/{path}")))
            .unwrap_or_else(|| panic!("wimlib does not list {path}"));
        // The last access is Linux' own time: listing a directory, as this test just did, changes it, and ext4 can't
        // hold one before 1901 or after 2446.
        let is_kept = !["1601", "9998"].iter().any(|year| theirs.times[2].contains(year));
        if entry.kind == Kind::Directory || !is_kept {
            ours.times[2] = theirs.times[2].clone();
        }
        assert_eq!(&ours, theirs, "{path}");
        compared += 1;
    }
    // All but the root, which is compared next.
    assert_eq!(compared, theirs.len() - 1, "wimlib lists others too");
    let root = layer.metadata(&NtPath::root()).expect("reads");
    if let Some(root) = root {
        let ours = shown(&layer, &NtPath::root(), &root);
        assert_eq!(ours.attributes, theirs["/"].attributes, "the root's attributes");
        assert_eq!(ours.times[..2], theirs["/"].times[..2], "the root's times");
    }
}

#[test]
fn all_metadata_that_linux_has_no_place_for_is_read_back_equal() {
    if have_tools() {
        same_as_detailed(&fixtures::metadata_wim().expect("made"));
    }
}

#[test]
fn it_is_so_too_where_wimlib_wrote_the_metadata() {
    if have_tools() {
        same_as_detailed(&fixtures::metadata_lzx_wim().expect("made"));
        same_as_detailed(&fixtures::lzx_wim().expect("made"));
    }
}
