// SPDX-License-Identifier: GPL-3.0-or-later
//! A small world with one of everything, made through the public interface.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io::Write;
use std::path::{Path, PathBuf};

use overlay::conf::{Edition, LaidDown, Medium, Source};
use overlay::{
    ContentHash, Dir, ExtraKey, FileTime, FileTree, NtMetadata, NtName, NtPath, PathId, SealOptions, ShortName,
    Staging, StoredName, StreamName, World, WorldConf, WorldName, Worlds, attributes, stored_names,
};

pub fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

pub fn name(text: &str) -> NtName {
    NtName::new(&units(text)).expect("a component")
}

pub fn stored(text: &str) -> StoredName {
    StoredName::alone(&name(text))
}

pub fn path(text: &str) -> NtPath {
    NtPath::parse(text).expect("a path")
}

pub fn world_name(text: &str) -> WorldName {
    WorldName::new(text).expect("a world's name")
}

pub fn time(ticks: u64) -> FileTime {
    FileTime(133_000_000_000_000_000 + ticks)
}

pub fn meta(attributes: u32, ticks: u64) -> NtMetadata {
    NtMetadata::new(attributes, time(ticks), time(ticks + 1), time(ticks + 2))
}

pub fn file(tree: &FileTree, dir: &Dir, name: &StoredName, bytes: &[u8], meta: &NtMetadata, hash: bool) {
    let mut file = tree.create_file(dir, name, bytes.len() as u64).expect("make a file");
    file.write_all(bytes).expect("write");
    tree.finish_file(file, meta, hash.then(|| ContentHash::of(bytes)))
        .expect("finish a file");
}

pub fn conf() -> WorldConf {
    WorldConf {
        laid_down: Some(LaidDown::Native),
        source: Some(Source {
            medium: Medium {
                size_bytes: 1234,
                label: "CCCOMA:X64".into(),
                sha256: None,
            },
            edition: Edition {
                index: 6,
                name: "Windows 11 Pro".into(),
                edition_id: "Professional".into(),
                installation_type: "Client".into(),
                version: "10.0.26100".into(),
                build: "26100.1742".into(),
                architecture: "x86_64".into(),
                languages: vec!["en-US".into()],
            },
        }),
        ..WorldConf::default()
    }
}

/// In which order the small world is made; the result must not depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Forward,
    Backward,
    Threads,
}

/// Fills `files/` with one of everything.
pub fn fill(tree: &FileTree, order: Order, hashes: bool) {
    tree.set_root_metadata(meta(attributes::DIRECTORY | attributes::HIDDEN, 10));
    let top = [
        "Program Files",
        "Windows",
        "readme",
        "README",
        "ReadMe",
        "a:b",
        "line\nbreak",
    ];
    let names = stored_names(&top.map(name)).expect("names");
    let [programs, windows, readmes @ .., colon, line] = &names[..] else {
        panic!("seven names")
    };
    let mut programs_meta = meta(attributes::DIRECTORY, 20);
    programs_meta.short_name = ShortName::new(&units("PROGRA~1")).ok();
    let root = tree.root();
    let programs = tree.create_dir(&root, programs, programs_meta).expect("a directory");
    let system_sd = tree.intern_security(b"\x01\0\x04\x80system").expect("a descriptor");
    let mut windows_meta = meta(attributes::DIRECTORY, 30);
    windows_meta.security = Some(system_sd);
    let windows = tree.create_dir(&root, windows, windows_meta).expect("a directory");
    let system32 = tree
        .create_dir(&windows, &stored("System32"), meta(attributes::DIRECTORY, 40))
        .expect("a directory");
    let winsxs = tree
        .create_dir(&windows, &stored("WinSxS"), meta(attributes::DIRECTORY, 41))
        .expect("a directory");

    let jobs: Vec<Box<dyn Fn() + Send + Sync + '_>> = vec![
        Box::new(|| {
            for (at, name) in readmes.iter().enumerate() {
                file(
                    tree,
                    &root,
                    name,
                    format!("text {at}").as_bytes(),
                    &meta(attributes::ARCHIVE, 50),
                    hashes,
                );
            }
            file(tree, &root, colon, b"colon", &meta(attributes::NORMAL, 51), hashes);
            file(tree, &root, line, b"", &meta(attributes::NORMAL, 52), hashes);
        }),
        Box::new(|| {
            // A file with two names; the short name belongs to the second.
            let mut linked = meta(attributes::ARCHIVE | attributes::READONLY, 60);
            linked.security = Some(tree.intern_security(b"\x01\0\x04\x80trusted").expect("a descriptor"));
            linked.short_name = ShortName::new(&units("LONGNA~1.DLL")).ok();
            linked.short_owner = Some(PathId::of(&path("Windows\\WinSxS\\long name of it.dll")));
            file(tree, &system32, &stored("it.dll"), b"MZ linked", &linked, hashes);
            tree.link(
                (&system32, &stored("it.dll")),
                (&winsxs, &stored("long name of it.dll")),
            )
            .expect("a link");
        }),
        Box::new(|| {
            // Named streams.
            let at = path("Windows\\System32\\streams.txt");
            let key = ExtraKey::for_path(&at);
            for (name, bytes) in [
                ("Zone.Identifier", &b"[ZoneTransfer]"[..]),
                ("..", b"dots"),
                ("empty", b""),
            ] {
                let name = StreamName::new(&units(name)).expect("a stream's name");
                let mut stream = tree.create_stream(key, &name, bytes.len() as u64).expect("a stream");
                stream.write_all(bytes).expect("write");
                tree.finish_stream(stream, hashes.then(|| ContentHash::of(bytes)))
                    .expect("finish a stream");
            }
            let mut with = meta(attributes::ARCHIVE, 70);
            with.extra = Some(key);
            file(tree, &system32, &stored("streams.txt"), b"main", &with, hashes);
        }),
        Box::new(|| {
            // A junction, whose target is Linux's root if anybody were to follow it.
            let at = path("Program Files\\junction");
            let key = ExtraKey::for_path(&at);
            tree.set_reparse(key, &b"/\0etc"[..]).expect("reparse data");
            let mut junction = meta(attributes::DIRECTORY | attributes::REPARSE_POINT, 80);
            junction.reparse_tag = Some(0xa000_0003);
            junction.extra = Some(key);
            tree.create_dir(&programs, &stored("junction"), junction)
                .expect("a directory");
        }),
        Box::new(|| {
            // Times that ext4 cannot hold, names that Linux cannot.
            let far = NtMetadata::new(attributes::ARCHIVE, FileTime(0), FileTime(1), FileTime(u64::MAX / 2));
            file(
                tree,
                &programs,
                &StoredName::alone(&NtName::new(&[0xd800, 0x41]).expect("lone")),
                b"lone",
                &far,
                hashes,
            );
            let long = StoredName::alone(&name(&"文".repeat(200)));
            let mut old = NtMetadata::new(attributes::ARCHIVE, FileTime(7), FileTime(8), FileTime(9));
            old.changed = Some(FileTime(10));
            file(tree, &programs, &long, b"long", &old, hashes);
        }),
        Box::new(|| {
            let bytes = vec![0x5a; 3 << 20];
            file(
                tree,
                &winsxs,
                &stored("large.bin"),
                &bytes,
                &meta(attributes::ARCHIVE, 90),
                hashes,
            );
        }),
    ];
    match order {
        Order::Forward => jobs.iter().for_each(|job| job()),
        Order::Backward => jobs.iter().rev().for_each(|job| job()),
        Order::Threads => std::thread::scope(|scope| {
            for job in &jobs {
                scope.spawn(job);
            }
        }),
    }
}

/// Makes and seals the small world.
pub fn small_world(worlds: &Worlds, world: &str, order: Order, hashes: bool) -> World {
    let mut staging = worlds.begin(&world_name(world), "small world").expect("begin");
    // A killed run of ours may have come further.
    if staging.last_stage().is_none() {
        fill(staging.tree(), order, hashes);
        staging.stage_done("lay down").expect("a stage");
    }
    let answers = meta(attributes::ARCHIVE, 100);
    staging
        .place_file(&path("WINDOWS\\Panther\\unattend.xml"), b"<unattend/>", &answers)
        .expect("place a file");
    finish(staging)
}

pub fn finish(staging: Staging) -> World {
    std::fs::write(staging.registry_path(), b"regf of a test").expect("write a registry");
    staging.commit(conf(), &SealOptions::default()).expect("commit")
}

/// Everything that Linux shows of a tree, but for what is the machine's own: names, kinds, bytes, xattrs, mtimes to NT's
/// 100 ns.
pub fn picture(root: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut lines = Vec::new();
    let mut todo = vec![PathBuf::new()];
    let mut links = std::collections::HashMap::new();
    while let Some(at) = todo.pop() {
        let full = root.join(&at);
        let stat = std::fs::symlink_metadata(&full).expect("stat");
        let mut line = format!("{} {}.{:09}", at.display(), stat.mtime(), stat.mtime_nsec() / 100 * 100);
        let mut buffer = [0u8; 256];
        if let Ok(length) = rustix::fs::lgetxattr(&full, "user.vodka.nt", &mut buffer[..]) {
            line.push_str(&format!(" {:02x?}", &buffer[..length]));
        }
        if stat.is_dir() {
            let below = std::fs::read_dir(&full)
                .expect("list")
                .map(|entry| at.join(entry.expect("entry").file_name()));
            todo.extend(below);
        } else {
            assert!(stat.is_file(), "{}", full.display());
            line.push_str(&format!(" {}", ContentHash::of(&std::fs::read(&full).expect("read"))));
            links
                .entry(stat.ino())
                .or_insert_with(Vec::new)
                .push(at.display().to_string());
        }
        lines.push(line);
    }
    for mut names in links.into_values().filter(|names| names.len() > 1) {
        names.sort();
        lines.push(format!("links {names:?}"));
    }
    lines.sort();
    lines
}

/// Two file systems that behave differently: the one of the build, and tmpfs.
pub fn roots() -> Vec<tempfile::TempDir> {
    let mut roots = vec![tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")];
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => roots.push(dir),
        Err(error) => eprintln!("skipped on tmpfs: {error}"),
    }
    roots
}
