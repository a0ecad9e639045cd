// SPDX-License-Identifier: GPL-3.0-or-later
//! Packing worlds as OCI image layouts, and unpacking them.
#![allow(clippy::print_stdout, reason = "a test says what it skipped and counted")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Order, meta, path, picture, roots, small_world, world_name};
use overlay::{Access, Error, Layers, SealOptions, World, Worlds, attributes};

/// All files of a directory, by path.
fn bytes_of(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.insert(
                    path.strip_prefix(root).unwrap().to_owned(),
                    std::fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}

/// A sealed fork with a mark, an opaque directory, and names that OCI would take for whiteouts.
fn sealed_fork(worlds: &Worlds, base: &World) -> World {
    let mut fork = worlds.fork(&world_name("fork"), base).unwrap();
    let layers = Layers::open(&fork, Access::Write).unwrap();
    layers.remove(&path("line:000abreak")).unwrap();
    layers.remove(&path("Windows\\WinSxS\\large.bin")).unwrap();
    layers.remove(&path("Windows\\WinSxS\\long name of it.dll")).unwrap();
    layers.remove(&path("Windows\\WinSxS")).unwrap();
    layers
        .create_dir(&path("Windows\\WinSxS"), &meta(attributes::DIRECTORY, 5))
        .unwrap();
    layers
        .create_dir(&path(".wh.directory"), &meta(attributes::DIRECTORY, 6))
        .unwrap();
    for name in [".wh..wh..opq", ".wh.directory\\.wh.file", ".wh.directory\\x"] {
        layers
            .create_file(&path(name), &meta(attributes::ARCHIVE, 7))
            .unwrap()
            .write_all(name.as_bytes())
            .unwrap();
    }
    layers
        .link(&path(".wh.directory\\.wh.file"), &path(".wh.directory\\.wh.link"))
        .unwrap();
    let times = meta(attributes::DIRECTORY, 8);
    for dir in ["\\", "Windows", ".wh.directory", "Windows\\WinSxS"] {
        layers.set_metadata(&path(dir), &times).unwrap();
    }
    drop(layers);
    fork.seal(&SealOptions::default()).unwrap();
    fork
}

fn unpack(worlds: &Worlds, from: &Path, name: &str) -> overlay::Result<World> {
    worlds.unpack(from, &world_name(name), &SealOptions::default(), &|_| {})
}

/// Everything of a world but for what only this machine knows.
fn world_picture(world: &World) -> Vec<String> {
    picture(world.path())
        .into_iter()
        .filter(|line| !line.starts_with("world.conf "))
        .collect()
}

#[test]
fn a_world_with_its_parent_is_packed_and_unpacked_to_the_same_digest() {
    for root in roots() {
        let worlds = Worlds::open(root.path().join("worlds")).unwrap();
        let base = small_world(&worlds, "base", Order::Forward, true);
        let fork = sealed_fork(&worlds, &base);
        let layout = root.path().join("layout");
        fork.pack(&layout, &|_| {}).unwrap();
        assert!(matches!(fork.pack(&layout, &|_| {}), Err(Error::PathExists { .. })));

        let others = Worlds::open(root.path().join("others")).unwrap();
        let unpacked = unpack(&others, &layout, "there").unwrap();
        assert_eq!(unpacked.conf().digest, fork.conf().digest);
        assert_eq!(unpacked.conf().parent.as_ref().unwrap().name, "there.base");
        assert_eq!(world_picture(&unpacked), world_picture(&fork));
        let parent = others.world(&world_name("there.base")).unwrap();
        assert_eq!(parent.conf(), base.conf());
        assert_eq!(world_picture(&parent), world_picture(&base));
        assert_eq!(unpacked.verify(&SealOptions::default()).unwrap(), []);
        let layers = Layers::open(&unpacked, Access::Read).unwrap();
        assert!(layers.metadata(&path("line:000abreak")).unwrap().is_none());
        assert!(layers.read_dir(&path("Windows\\WinSxS")).unwrap().is_empty());
        drop(layers);

        // A parent that is here already is used.
        let again = unpack(&worlds, &layout, "again").unwrap();
        assert_eq!(again.conf().parent.as_ref().unwrap().name, "base");
        assert_eq!(worlds.list().unwrap().len(), 3);
        assert!(matches!(
            unpack(&worlds, &layout, "again"),
            Err(Error::WorldExists { .. })
        ));
    }
}

const CHILD: &str = "OVERLAY_TEST_PACK";

/// Not a test by itself: packs a world of its own making, as a process of its own.
#[test]
fn child() {
    let Some(root) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let worlds = Worlds::open(root.join("some where else")).unwrap();
    let base = small_world(&worlds, "another name", Order::Threads, false);
    base.pack(&root.join("layout"), &|_| {}).unwrap();
}

#[test]
fn the_same_world_is_packed_to_the_same_bytes_on_another_machine_and_day() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let one = root.path().join("one");
    base.pack(&one, &|_| {}).unwrap();
    let expected = bytes_of(&one);
    assert_eq!(expected.len(), 5, "layout, index, manifest, config, one layer");
    let exe = std::env::current_exe().unwrap();
    for program in [
        &["env"][..],
        &["faketime", "2031-05-06 07:08:09"],
        &["unshare", "--user"],
    ] {
        let other = tempfile::tempdir().unwrap();
        let output = Command::new(program[0])
            .args(&program[1..])
            .arg(&exe)
            .args(["--exact", "child"])
            .env(CHILD, other.path())
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let found = bytes_of(&other.path().join("layout"));
                assert!(found == expected, "{program:?}: {:?}", found.keys());
            }
            Ok(output) if program[0] == "unshare" => println!("skipped: {}", String::from_utf8_lossy(&output.stderr)),
            Ok(output) => panic!("{program:?}: {}", String::from_utf8_lossy(&output.stdout)),
            Err(error) => println!("skipped {program:?}: {error}"),
        }
    }
}

/// The one layer of a packed base.
fn layer_of(layout: &Path) -> PathBuf {
    let blobs = std::fs::read_dir(layout.join("blobs/sha256"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    blobs.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn other_programs_read_the_layer() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let layout = root.path().join("layout");
    base.pack(&layout, &|_| {}).unwrap();
    let out = root.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let layer = layer_of(&layout);
    let script = "zstd -d -q -c \"$1\" > \"$2.tar\" && tar --xattrs --xattrs-include='user.*' -xf \"$2.tar\" -C \"$2\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&layer)
        .arg(&out)
        .output()
        .unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("not found") {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What GNU tar and zstd make of it is the world, but for its manifest's place in it, which is there too.
    let inside = |root: &Path| {
        picture(root)
            .into_iter()
            .filter(|line| !line.starts_with(' '))
            .collect::<Vec<_>>()
    };
    assert_eq!(inside(&out), inside(base.path()));
}

#[test]
fn a_damaged_blob_is_refused_and_named_and_leaves_nothing() {
    let root = &roots()[0];
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let layout = root.path().join("layout");
    base.pack(&layout, &|_| {}).unwrap();
    let others = Worlds::open(root.path().join("others")).unwrap();
    for blob in std::fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let blob = blob.unwrap().path();
        let right = std::fs::read(&blob).unwrap();
        let mut bad = right.clone();
        bad[right.len() / 2] ^= 1;
        std::fs::write(&blob, &bad).unwrap();
        let error = unpack(&others, &layout, "w").unwrap_err();
        let name = blob.file_name().unwrap().to_string_lossy().into_owned();
        let text = format!("{:?}", error);
        assert!(
            matches!(error, Error::Pack { .. }) && text.contains(&name) && text.contains("BlobDigest"),
            "{text}"
        );
        std::fs::write(&blob, &right[..right.len() - 1]).unwrap();
        assert!(matches!(unpack(&others, &layout, "w"), Err(Error::Pack { .. })));
        std::fs::write(&blob, &right).unwrap();
    }
    assert!(others.list().unwrap().is_empty());
    assert!(unpack(&others, &layout, "w").is_ok());
}

/// Puts another layer in the place of the right one, with right digests.
fn with_layer(layout: &Path, to: &Path, tar: &[u8]) {
    use overlay::Digest;
    let mut files = bytes_of(layout);
    let old = layer_of(layout);
    let (old_name, old_len) = (
        old.file_name().unwrap().to_string_lossy().into_owned(),
        std::fs::metadata(&old).unwrap().len(),
    );
    files.remove(&PathBuf::from(format!("blobs/sha256/{old_name}")));
    let digest = Digest::of(tar);
    files.insert(format!("blobs/sha256/{}", digest.hex()).into(), tar.to_vec());
    // The manifest names the layer, the index names the manifest.
    let (mut name, mut bytes) = (PathBuf::new(), Vec::new());
    for (path, content) in &files {
        if String::from_utf8_lossy(content).contains(&old_name) {
            (name, bytes) = (path.clone(), content.clone());
        }
    }
    files.remove(&name);
    let old_manifest = (name.file_name().unwrap().to_string_lossy().into_owned(), bytes.len());
    let text = String::from_utf8(bytes).unwrap();
    let text = text
        .replace(&old_name, &digest.hex())
        .replace(&format!("\"size\":{old_len}"), &format!("\"size\":{}", tar.len()))
        .replace("layer.v1.tar+zstd", "layer.v1.tar");
    let manifest = Digest::of(text.as_bytes());
    let index = String::from_utf8(files[Path::new("index.json")].clone()).unwrap();
    let index = index.replace(&old_manifest.0, &manifest.hex()).replace(
        &format!("\"size\":{}", old_manifest.1),
        &format!("\"size\":{}", text.len()),
    );
    files.insert("index.json".into(), index.into_bytes());
    files.insert(format!("blobs/sha256/{}", manifest.hex()).into(), text.into_bytes());
    for (path, bytes) in files {
        let path = to.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn plain_tar(layout: &Path) -> Option<Vec<u8>> {
    let output = Command::new("zstd")
        .args(["-d", "-q", "-c"])
        .arg(layer_of(layout))
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

/// Mutations behind right digests, so that the parsers see them; counted.
#[test]
fn a_hostile_layer_is_refused_or_is_the_world_and_writes_nothing_outside() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let layout = root.path().join("layout");
    base.pack(&layout, &|_| {}).unwrap();
    let Some(right) = plain_tar(&layout) else {
        println!("skipped: there is no zstd");
        return;
    };
    let others = Worlds::open(root.path().join("others")).unwrap();
    let outside = root.path().join("outside");
    let try_layer = |tar: &[u8]| {
        let to = root.path().join("changed");
        with_layer(&layout, &to, tar);
        let result = unpack(&others, &to, "w");
        std::fs::remove_dir_all(&to).unwrap();
        result
    };
    let world = try_layer(&right).unwrap();
    assert_eq!(
        world.conf().digest,
        base.conf().digest,
        "the harness itself changes nothing"
    );
    others.remove(&world_name("w")).unwrap();

    // The large file is left out: its bytes are no structure.
    let mut state = 88172645463325252u64;
    let mut next = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % bound as u64).unwrap()
    };
    let interesting: Vec<usize> = (0..right.len() / 512)
        .filter(|b| right[b * 512..b * 512 + 512] != [0x5a; 512])
        .collect();
    let (mut refused, mut same) = (0, 0);
    for round in 0..400 {
        let mut bad = right.clone();
        for _ in 0..=next(3) {
            let block = interesting[next(interesting.len())] * 512;
            match next(4) {
                0 => bad[block + next(512)] = u8::try_from(next(256)).unwrap(),
                1 => bad[block + next(512)] ^= 1 << next(8),
                2 => bad.truncate(block.max(512)),
                _ => {
                    let other = interesting[next(interesting.len())] * 512;
                    if other + 512 <= bad.len() && block + 512 <= bad.len() {
                        bad.copy_within(other..other + 512, block);
                    }
                }
            }
            if bad.len() < right.len() {
                break;
            }
            // A right checksum, or nothing but checksums would be tried.
            if bad[block + 257..].starts_with(b"ustar") {
                bad[block + 148..block + 156].fill(b' ');
                let sum: u32 = bad[block..block + 512].iter().map(|&byte| u32::from(byte)).sum();
                bad[block + 148..block + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        match try_layer(&bad) {
            Ok(world) => {
                same += 1;
                assert_eq!(world.conf().digest, base.conf().digest, "round {round}");
                others.remove(&world_name("w")).unwrap();
            }
            Err(_) => refused += 1,
        }
        assert!(others.list().unwrap().is_empty(), "round {round}");
    }
    println!("{refused} refused, {same} the same world in spite of the change");
    assert!(refused > 200 && same > 0);
    // Names that would lead out.
    for (from, to) in [
        ("files/README", "files/../../outside"),
        ("files/README", "/tmp/outside"),
        ("files/README", "outside/x"),
    ] {
        let at = right
            .windows(100)
            .position(|w| w.starts_with(from.as_bytes()) && w[from.len()] == 0)
            .unwrap();
        let mut bad = right.clone();
        bad[at..at + 100].fill(0);
        bad[at..at + to.len()].copy_from_slice(to.as_bytes());
        bad[at + 148..at + 156].fill(b' ');
        let sum: u32 = bad[at..at + 512].iter().map(|&byte| u32::from(byte)).sum();
        bad[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let error = try_layer(&bad).unwrap_err();
        assert!(format!("{error:?}").contains("Entry"), "{error:?}");
    }
    assert!(!outside.exists());
}

/// Ends the registry however the test ends.
struct Registry(std::process::Child);

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn skopeo_and_a_registry_carry_a_world() {
    let found = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !found("skopeo") || !found("docker-registry") {
        println!("skipped: skopeo and docker-registry (Debian packages of these names) are not both here");
        return;
    }
    let root = &roots()[0];
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let fork = sealed_fork(&worlds, &base);
    let layout = root.path().join("layout");
    fork.pack(&layout, &|_| {}).unwrap();

    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let conf = root.path().join("registry.yml");
    let store = root.path().join("registry");
    std::fs::write(
        &conf,
        format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            store.display()
        ),
    )
    .unwrap();
    let log = std::fs::File::create(root.path().join("registry.log")).unwrap();
    let mut serve = Command::new("docker-registry");
    serve
        .arg("serve")
        .arg(&conf)
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let _registry = Registry(serve.spawn().unwrap());
    for _ in 0..200 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let policy = root.path().join("policy.json");
    std::fs::write(&policy, "{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}").unwrap();
    let copy = |from: String, to: String| {
        let output = Command::new("skopeo")
            .arg("--policy")
            .arg(&policy)
            .args(["copy", "--src-tls-verify=false", "--dest-tls-verify=false", &from, &to])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{from} to {to}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let remote = format!("docker://127.0.0.1:{port}/worlds/fork:1");
    copy(format!("oci:{}:world", layout.display()), remote.clone());
    let back = root.path().join("back");
    copy(remote, format!("oci:{}:world", back.display()));
    let others = Worlds::open(root.path().join("others")).unwrap();
    let unpacked = unpack(&others, &back, "there").unwrap();
    assert_eq!(unpacked.conf().digest, fork.conf().digest);
    println!("pushed and pulled {}", fork.conf().digest.unwrap());
}

const UNPACK: &str = "OVERLAY_TEST_UNPACK";

/// Not a test by itself: what the next test runs as a process of its own, to kill it.
#[test]
fn unpacking_child() {
    let Some(root) = std::env::var_os(UNPACK).map(PathBuf::from) else {
        return;
    };
    let worlds = Worlds::open(root.join("others")).unwrap();
    loop {
        unpack(&worlds, &root.join("layout"), "w").unwrap();
        worlds.remove(&world_name("w")).unwrap();
        worlds.remove(&world_name("w.base")).unwrap();
    }
}

#[test]
fn a_kill_while_unpacking_leaves_whole_worlds_or_none() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let worlds = Worlds::open(root.path().join("worlds")).unwrap();
    let base = small_world(&worlds, "base", Order::Forward, true);
    let fork = sealed_fork(&worlds, &base);
    fork.pack(&root.path().join("layout"), &|_| {}).unwrap();
    let others = Worlds::open(root.path().join("others")).unwrap();
    let begun = std::time::Instant::now();
    unpack(&others, &root.path().join("layout"), "w").unwrap();
    let round_time = begun.elapsed();
    let (mut tops, mut bases) = (0, 0);
    for round in 0..50u32 {
        for name in ["w", "w.base"] {
            match others.remove(&world_name(name)) {
                Ok(()) | Err(Error::WorldMissing { .. }) => {}
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "unpacking_child"])
            .env(UNPACK, root.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(round_time * round / 15);
        child.kill().unwrap();
        child.wait().unwrap();
        for listed in others.list().unwrap() {
            let world = others.world(&listed.name).unwrap();
            assert_eq!(world.verify(&SealOptions::default()).unwrap(), [], "round {round}");
            tops += usize::from(listed.name.as_str() == "w");
            bases += usize::from(listed.name.as_str() == "w.base");
        }
    }
    println!("after 50 kills: {bases} parents and {tops} worlds were there, each whole");
    assert!(bases > 0);
}
