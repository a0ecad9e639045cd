// SPDX-License-Identifier: GPL-3.0-or-later
//! `windows import`: what it leaves, what it says, and what it refuses before it writes anything.

mod cli_support;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use cli_support::{Home, Said, have_tools};
use fixtures::tools::Run;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The keys and values of a hive as hivex counts them.
fn hivex_counts(hive: &Path) -> (usize, usize) {
    let xml = Run::new("hivexml")
        .and_then(|run| run.arg(hive).output())
        .expect("hivexml reads it");
    let xml = String::from_utf8_lossy(&xml);
    (xml.matches("<node ").count(), xml.matches("<value ").count())
}

#[test]
fn a_world_has_its_four_entries_and_a_line_for_each_hive() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let said = home
        .import(&iso, &["--edition", "Windows 11 Pro", "--world", "pro"])
        .ended_with(0);
    assert_eq!(
        names(&home.world("pro")),
        ["files", "registry.hiv", "removed", "world.conf"]
    );
    assert_eq!(home.other_worlds(&["pro"]), Vec::<String>::new());
    assert!(said.stdout.contains(&home.digest("pro")), "{}", said.stdout);

    let config = home.world("pro").join("files/Windows/System32/config");
    for (file, key) in [
        ("SYSTEM", r"Windows\Machine\SYSTEM"),
        ("SOFTWARE", r"Windows\Machine\SOFTWARE"),
        ("SECURITY", r"Windows\Machine\SECURITY"),
        ("SAM", r"Windows\Machine\SAM"),
        ("DRIVERS", r"Windows\Machine\DRIVERS"),
        ("COMPONENTS", r"Windows\Machine\COMPONENTS"),
        ("ELAM", r"Windows\Machine\ELAM"),
        ("DEFAULT", r"Windows\User\.DEFAULT"),
    ] {
        // The counts are those of another reader.
        let (keys, values) = hivex_counts(&config.join(file));
        let line = format!("Windows/System32/config/{file}   {keys} key(s), {values} value(s) -> {key}\n");
        assert!(said.stdout.contains(&line), "{line}is not in\n{}", said.stdout);
    }
    // hivex reads the merged hive too: all keys, and the four on the way (its root, Windows, Machine, User).
    let merged = hivex_counts(&home.world("pro").join("registry.hiv"));
    let sources = fs::read_dir(&config)
        .expect("there")
        .map(|entry| entry.expect("listed").path())
        .filter(|path| path.is_file())
        .map(|hive| hivex_counts(&hive))
        .fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
    assert_eq!(merged, (sources.0 + 4, sources.1));
}

#[test]
fn a_dirty_hive_is_replayed_from_its_log() {
    if !have_tools() {
        return;
    }
    let (home, wim) = (Home::new(), fixtures::dirty_hive_wim().expect("made"));
    home.import(&wim, &["--edition", "1", "--world", "dirty"]).ended_with(0);
    let bytes = fs::read(home.world("dirty").join("registry.hiv")).expect("there");
    let merged = hive::Hive::open(&bytes).expect("whole");
    let system = merged
        .open_path(r"Windows\Machine\SYSTEM")
        .expect("reads")
        .expect("there");
    let recovered = fixtures::rich::dirty_system().expect("built").recovered;
    let source = hive::Hive::open(&recovered).expect("whole");
    let count = |key| hive::count(key, hive::Strictness::Strict).expect("counts").0;
    assert_eq!(count(system), count(source.root().expect("a root")));
    assert!(
        system.subkey("Only in the log").expect("reads").is_some(),
        "the log was not applied"
    );
    let link = system.subkey("CurrentControlSet").expect("reads").expect("there");
    assert!(link.is_symbolic_link());
    let class = system
        .open_path(r"ControlSet001\Control\Lsa\JD")
        .expect("reads")
        .expect("there")
        .class();
    assert_eq!(class.expect("reads").expect("a class").to_string(), "1f2e3d4c");
}

#[test]
fn no_symbolic_link_is_ever_made_and_nothing_leaves_the_world() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::metadata_iso().expect("made"));
    home.import(&iso, &["--edition", "1", "--world", "world"]).ended_with(0);
    let mut directories = vec![home.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("reads") {
            let entry = entry.expect("listed");
            let kind = entry.file_type().expect("a type");
            assert!(!kind.is_symlink(), "{} is a symbolic link", entry.path().display());
            if kind.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    assert_eq!(names(home.path()), ["data"]);
}

#[test]
fn names_that_are_stored_escaped_are_listed() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let said = home.import(&iso, &["--edition", "1", "--world", "world"]).ended_with(0);
    // Three names differ in case only: two of them are stored escaped.
    assert_eq!(
        said.stdout.matches("name stored escaped: ").count(),
        2,
        "{}",
        said.stdout
    );
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let said = home
        .import(&iso, &["--edition", "6", "--world", "pro", "--dry-run"])
        .ended_with(0);
    assert!(said.stdout.contains("plan: "), "{}", said.stdout);
    assert!(!home.world("pro").exists());
    let files = Run::new("find").and_then(|run| run.arg(home.path()).args(["-type", "f", "-size", "+0"]).output());
    assert_eq!(String::from_utf8_lossy(&files.expect("find runs")), "");
}

#[test]
fn off_a_terminal_there_is_no_carriage_return() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let said = home.import(&iso, &["--edition", "6", "--world", "pro"]).ended_with(0);
    for text in [&said.stdout, &said.stderr] {
        assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
    }
}

#[test]
fn json_of_an_import_is_valid_and_alone_on_standard_output() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let said = home
        .import(&iso, &["--edition", "6", "--world", "pro", "--json"])
        .ended_with(0);
    let document: serde_json::Value = serde_json::from_str(&said.stdout).expect("one document");
    assert!(document.to_string().contains(&home.digest("pro")), "{document}");
}

#[test]
fn an_answer_file_is_placed_and_its_architecture_is_the_editions() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::multi_arch_iso().expect("made"));
    for (edition, world, architecture) in [("x64/1", "wide", "amd64"), ("x86/1", "narrow", "x86")] {
        home.import(&iso, &["--edition", edition, "--world", world])
            .ended_with(0);
        let answers = home.world(world).join("files/Windows/Panther/unattend.xml");
        let text = fs::read_to_string(answers).expect("there");
        assert!(
            text.contains(&format!("processorArchitecture=\"{architecture}\"")),
            "{text}"
        );
        assert!(text.contains("vodka"), "{text}");
    }
}

#[test]
fn a_bad_answer_file_is_refused_with_its_line_before_anything_is_written() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let file = home.path().join("answers.xml");
    let component = |architecture: &str| {
        format!(
            "<?xml version=\"1.0\"?>\n<unattend xmlns=\"urn:schemas-microsoft-com:unattend\">\n\
             <settings pass=\"oobeSystem\">\n<component name=\"Microsoft-Windows-Shell-Setup\" \
             processorArchitecture=\"{architecture}\" publicKeyToken=\"31bf3856ad364e35\" language=\"neutral\" \
             versionScope=\"nonSxS\"/>\n</settings>\n</unattend>\n"
        )
    };
    for (text, line) in [
        (
            "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\">\n<settings pass=\"oobeSystem\">\n</unattend>\n"
                .to_owned(),
            "3",
        ),
        (component("x86"), "4"),
        (
            component("amd64").replace("urn:schemas-microsoft-com:unattend", "urn:other"),
            "2",
        ),
    ] {
        fs::write(&file, text).expect("written");
        let said = home.import(
            &iso,
            &[
                "--edition",
                "6",
                "--world",
                "pro",
                "--answers",
                &file.display().to_string(),
            ],
        );
        said.ended_with(2).complains_of(&["answers.xml", line]);
        assert!(!home.world("pro").exists());
    }
    let own = component("amd64");
    fs::write(&file, &own).expect("written");
    let words = [
        "--edition",
        "6",
        "--world",
        "pro",
        "--answers",
        &file.display().to_string(),
    ];
    home.import(&iso, &words).ended_with(0);
    let placed = fs::read_to_string(home.world("pro").join("files/Windows/Panther/unattend.xml")).expect("there");
    assert_eq!(placed, own);
}

#[test]
fn of_two_imports_at_once_one_is_whole_and_the_other_says_so() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let start = || {
        let mut command = home.import_command(&iso, "6", "pro");
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts")
    };
    let (first, second) = (start(), start());
    let mut said: Vec<Said> = [first, second]
        .map(|child| child.wait_with_output().expect("ends").into())
        .into_iter()
        .collect();
    said.sort_by_key(|said| said.code);
    assert_eq!((said[0].code, said[1].code), (Some(0), Some(7)), "{said:?}");
    assert!(said[1].stderr.contains("pro"), "{}", said[1].stderr);
    assert_eq!(names(&home.world("pro")).len(), 4);
}

#[test]
fn a_damaged_blob_is_found_and_leaves_no_world() {
    if !have_tools() {
        return;
    }
    let home = Home::new();
    for medium in [fixtures::damaged_blob_wim(), fixtures::damaged_blob_iso()] {
        let medium = medium.expect("made");
        let said = home
            .import(&medium, &["--edition", "1", "--world", "world"])
            .ended_with(6);
        said.complains_of(&["noise.bin"]);
        assert!(!home.world("world").exists());
    }
}

#[test]
fn a_missing_blob_is_found_before_anything_is_written() {
    if !have_tools() {
        return;
    }
    let (home, wim) = (Home::new(), fixtures::missing_blob_wim().expect("made"));
    let said = home
        .import(&wim, &["--edition", "1", "--world", "world"])
        .ended_with(6)
        .complains_of(&["noise.bin"]);
    assert!(!said.stdout.contains("lay down"), "{}", said.stdout);
    assert!(!home.world("world").exists());
}
