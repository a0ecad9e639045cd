// SPDX-License-Identifier: GPL-3.0-or-later
//! Directories and bare images as media, and files that are no medium at all.

mod medium_support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use medium_support::{arg, contents, have, listing, read, run};
use vodka_decant::medium::limits::MAX_DEPTH;
use vodka_decant::medium::{Entry, Medium, MediumError, MediumKind};

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(Entry::name).collect()
}

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn a_directory_is_a_medium_and_case_does_not_matter() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "Sources/Install.WIM", b"wim");
    put(root.path(), "x86/SOURCES/boot.wim", b"boot");
    put(root.path(), "setup.exe", b"MZ");
    let medium = Medium::open(root.path()).unwrap();
    assert_eq!(
        (medium.kind(), medium.size_bytes(), medium.label()),
        (&MediumKind::Directory, None, None)
    );
    assert_eq!(names(&medium.read_dir("").unwrap()), ["Sources", "setup.exe", "x86"]);
    for path in [
        "sources/install.wim",
        "\\SOURCES\\INSTALL.WIM",
        "/Sources//./Install.WIM",
    ] {
        assert_eq!(
            medium.lookup(path).unwrap().unwrap().path(),
            "Sources/Install.WIM",
            "{path}"
        );
    }
    assert_eq!(read(&medium, "sources/install.wim"), b"wim");
    let sources = medium.windows_sources().unwrap();
    assert_eq!(
        sources.iter().map(|found| found.path.as_str()).collect::<Vec<_>>(),
        ["Sources", "x86/SOURCES"]
    );
    assert_eq!(sources[1].boot.as_ref().unwrap().path(), "x86/SOURCES/boot.wim");
    assert!(sources[1].install.is_none());
}

#[test]
fn the_four_places_are_searched_in_their_order() {
    let root = tempfile::tempdir().unwrap();
    for place in ["arm64/sources", "x86/sources", "x64/sources", "sources"] {
        put(root.path(), &format!("{place}/install.esd"), b"esd");
    }
    let found = Medium::open(root.path()).unwrap().find_sources().unwrap();
    let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["sources", "x64/sources", "x86/sources", "arm64/sources"]);
}

#[test]
fn of_several_images_the_wim_goes_first() {
    let root = tempfile::tempdir().unwrap();
    for name in ["install.swm", "install2.swm", "install.esd", "INSTALL.wim"] {
        put(root.path(), &format!("sources/{name}"), b"image");
    }
    let medium = Medium::open(root.path()).unwrap();
    let install = medium.find_sources().unwrap().remove(0).install.unwrap();
    assert_eq!(install.name(), "INSTALL.wim");
}

#[test]
fn an_exact_name_goes_before_one_in_another_case() {
    let root = tempfile::tempdir().unwrap();
    for name in ["NAME", "Name", "name"] {
        put(root.path(), name, name.as_bytes());
    }
    let medium = Medium::open(root.path()).unwrap();
    assert_eq!(read(&medium, "Name"), b"Name");
    assert_eq!(read(&medium, "nAME"), b"NAME");
}

#[test]
fn no_link_leads_out_of_a_directory() {
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "secret/file", b"secret");
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "real/file", b"real");
    symlink(outside.path().join("secret"), root.path().join("directory")).unwrap();
    symlink(outside.path().join("secret/file"), root.path().join("file")).unwrap();
    symlink("..", root.path().join("up")).unwrap();
    let medium = Medium::open(root.path()).unwrap();
    for path in ["directory/file", "up/file", "../secret/file", "real/../../secret/file"] {
        assert!(medium.lookup(path).unwrap().is_none(), "{path}");
    }
    let error = medium.open_path("file").unwrap_err().to_string();
    assert!(
        error.contains("a symbolic link to") && error.contains("never followed"),
        "{error}"
    );
    assert_eq!(
        listing(&medium).into_keys().collect::<Vec<_>>(),
        ["directory", "file", "real/", "real/file", "up"]
    );
    assert_eq!(contents(&medium).into_keys().collect::<Vec<_>>(), ["real/file"]);
}

/// A directory is listed, then swapped for a link: opening what was listed must not follow it.
#[test]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "file", b"secret");
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "directory/file", b"real");
    let medium = Medium::open(root.path()).unwrap();
    let entry = medium.lookup("directory/file").unwrap().unwrap();
    fs::remove_dir_all(root.path().join("directory")).unwrap();
    symlink(outside.path(), root.path().join("directory")).unwrap();
    assert!(matches!(medium.open_file(&entry), Err(MediumError::Host { .. })));
}

#[test]
fn a_pipe_is_listed_and_refused_without_waiting() {
    if !have(&["mkfifo"]) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    run("mkfifo", &[arg(&root.path().join("pipe"))]);
    let medium = Medium::open(root.path()).unwrap();
    let error = medium.open_path("pipe").unwrap_err().to_string();
    assert!(error.contains("a device, pipe or socket"), "{error}");
    let error = Medium::open(&root.path().join("pipe")).unwrap_err();
    assert!(matches!(error, MediumError::Open { .. }), "{error}");
}

const WIM: &[u8] = b"MSWIM\0\0\0 the rest is for another reader";

#[test]
fn a_bare_image_is_a_medium_with_its_parts_beside_it() {
    let root = tempfile::tempdir().unwrap();
    for name in ["install.swm", "install2.swm", "Install3.SWM", "other.wim"] {
        put(root.path(), name, WIM);
    }
    put(root.path(), "holiday.jpg", b"private");
    put(root.path(), "sources/install.wim", WIM);
    let medium = Medium::open(&root.path().join("install.swm")).unwrap();
    assert_eq!(medium.kind().to_string(), "bare image");
    assert_eq!(medium.size_bytes(), Some(WIM.len() as u64));
    assert_eq!(
        names(&medium.read_dir("").unwrap()),
        ["Install3.SWM", "install.swm", "install2.swm", "other.wim"]
    );
    assert_eq!(read(&medium, "install3.swm"), WIM);
    assert!(medium.lookup("holiday.jpg").unwrap().is_none());
    assert!(medium.lookup("sources/install.wim").unwrap().is_none());
    let sources = medium.windows_sources().unwrap();
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].install.as_ref().unwrap().name(), "install.swm");
}

/// Told by content: the name may be anything, and a link is followed to where the parts are.
#[test]
fn a_bare_image_is_known_by_its_content() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "far/download", b"WLPWM\0\0\0");
    symlink("far/download", root.path().join("link.iso")).unwrap();
    let medium = Medium::open(&root.path().join("link.iso")).unwrap();
    assert_eq!(
        medium.find_sources().unwrap()[0].install.as_ref().unwrap().name(),
        "download"
    );
    put(root.path(), "install.wim", b"not a wim at all");
    assert!(matches!(
        Medium::open(&root.path().join("install.wim")),
        Err(MediumError::NotAMedium { .. })
    ));
}

#[test]
fn a_file_that_is_no_medium_is_named_for_what_it_is() {
    let sparse = |at: usize, magic: &[u8]| {
        let mut bytes = vec![1; 4096];
        bytes[at..at + magic.len()].copy_from_slice(magic);
        bytes
    };
    let cases: [(Vec<u8>, &str); 19] = [
        (sparse(0, b"PK\x03\x04"), "it begins with `PK`: a zip file"),
        (sparse(0, b"\x1f\x8b\x08"), "it begins with 1f 8b: a gzip file"),
        (sparse(0, b"\xfd7zXZ\0"), "an xz file"),
        (sparse(0, b"7z\xbc\xaf\x27\x1c"), "a 7z file"),
        (sparse(0, b"QFI\xfb"), "a qcow2 disk image"),
        (sparse(0, b"vhdxfile"), "a VHDX disk image"),
        (sparse(0, b"conectix"), "a VHD disk image"),
        (sparse(4096 - 512, b"conectix"), "in its last sector: a VHD disk image"),
        (sparse(4096 - 512, b"koly"), "a DMG disk image"),
        (sparse(510, b"\x55\xaa"), "(MBR): a disk with partitions"),
        (sparse(512, b"EFI PART"), "(GPT): a disk with partitions"),
        (sparse(3, b"NTFS    "), "an NTFS file system"),
        (sparse(0, b"MZ"), "a Windows program"),
        (sparse(0, b"<!DOCTYPE html>"), "an HTML page"),
        (
            sparse(0, b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0"),
            "a raw CD image",
        ),
        (sparse(0, b"Rar!\x1a\x07"), "a RAR file"),
        (vec![0; 4096], "all zero"),
        (b"hi".to_vec(), "it begins with `hi`"),
        (vec![0xfe, 0xed], "it begins with fe ed"),
    ];
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file.iso");
    for (bytes, words) in cases {
        fs::write(&path, bytes).unwrap();
        let error = Medium::open(&path).unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains("file.iso is not a medium"),
            "{error}, not {words}"
        );
    }
    fs::write(&path, b"").unwrap();
    assert!(matches!(Medium::open(&path), Err(MediumError::Empty { .. })));
    let error = Medium::open(&root.path().join("none.iso")).unwrap_err().to_string();
    assert!(
        error.contains("cannot open the medium") && error.contains("none.iso"),
        "{error}"
    );
}

#[test]
fn a_medium_without_windows_says_what_it_holds() {
    let root = tempfile::tempdir().unwrap();
    let error = Medium::open(root.path())
        .unwrap()
        .windows_sources()
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("its root holds nothing"), "{error}");
    for number in 0..11 {
        put(root.path(), &format!("file{number:02}"), b"");
    }
    let medium = Medium::open(root.path()).unwrap();
    let error = medium.windows_sources().unwrap_err().to_string();
    assert!(
        error.contains("its root holds file00, file01, ") && error.ends_with("file07 and 3 more"),
        "{error}"
    );
    put(root.path(), "Sources/readme.txt", b"");
    let error = medium.windows_sources().unwrap_err().to_string();
    assert!(error.ends_with("its Sources directory holds readme.txt"), "{error}");
}

#[test]
fn a_missing_path_and_a_wrong_kind_are_named() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a/file", b"x");
    let medium = Medium::open(root.path()).unwrap();
    assert!(matches!(medium.open_path("a/none"), Err(MediumError::NotFound { .. })));
    assert!(matches!(medium.open_path("a"), Err(MediumError::NotAFile { .. })));
    assert!(matches!(
        medium.read_dir("a/file"),
        Err(MediumError::NotADirectory { .. })
    ));
    assert!(medium.lookup("a/file/below").unwrap().is_none());
    assert!(medium.lookup("a\0b").unwrap().is_none());
    assert_eq!(medium.lookup("").unwrap().unwrap().path(), "");
}

/// Root may read anything: then there is nothing to see.
#[test]
fn a_directory_that_cannot_be_read_is_an_error_with_its_path() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "closed/file", b"x");
    let closed = root.path().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_err() {
        let medium = Medium::open(root.path()).unwrap();
        let results: Vec<_> = medium.walk().collect();
        assert!(results[0].is_ok());
        let error = results[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("closed"), "{error}");
        assert!(matches!(Medium::open(&closed), Err(MediumError::Open { .. })));
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_walk_ends_at_the_greatest_depth_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let deep: Vec<&str> = std::iter::repeat_n("d", MAX_DEPTH + 5).collect();
    put(root.path(), &(deep.join("/") + "/file"), b"x");
    put(root.path(), "z", b"x");
    let medium = Medium::open(root.path()).unwrap();
    let results: Vec<_> = medium.walk().collect();
    assert!(matches!(
        results[MAX_DEPTH + 1],
        Err(MediumError::Limit { limit: 128, .. })
    ));
    assert_eq!(results[MAX_DEPTH + 2].as_ref().unwrap().path(), "z");
    assert_eq!(results.len(), MAX_DEPTH + 3);
    let deepest = results[MAX_DEPTH].as_ref().unwrap().path();
    assert_eq!(medium.lookup(deepest).unwrap().unwrap().path(), deepest);
}

#[test]
fn many_threads_read_one_medium() {
    let root = tempfile::tempdir().unwrap();
    let content = medium_support::pattern(1, 1 << 20);
    put(root.path(), "sources/install.wim", &content);
    let medium = Medium::open(root.path()).unwrap();
    let file = medium.open_path("sources/install.wim").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (file, content) = (&file, &content);
            scope.spawn(move || {
                for step in 0..200 {
                    let at = (thread * 7919 + step * 4099) % (content.len() - 3000);
                    let mut got = [0; 3000];
                    file.read_exact_at(&mut got, at as u64).unwrap();
                    assert_eq!(got, content[at..at + 3000]);
                }
            });
        }
    });
}
