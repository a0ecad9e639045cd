// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka hive`, as a person or a script runs it: on hive files and on worlds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hive::{Hive, HiveFile, Merge, Node, WriteOptions};
use overlay::{SealOptions, WorldConf, WorldName, Worlds};

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vodka"))
            .arg("hive")
            .args(words)
            .current_dir(self.dir.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .output()
            .unwrap()
    }

    /// What a command prints that must end with `code`.
    #[track_caller]
    fn says(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(output.status.code(), Some(code), "{words:?}\n{out}\n{err}");
        format!("{out}{err}")
    }

    fn hive(&self, name: &str, tree: &Node) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, tree.to_hive(&WriteOptions::default()).unwrap()).unwrap();
        path
    }

    /// A sealed world whose registry is a merge, as an import leaves it.
    fn world(&self, name: &str, system: &Node) {
        let bytes = system.to_hive(&WriteOptions::default()).unwrap();
        let mut merge = Merge::new(WriteOptions::default());
        merge
            .mount("Windows\\Machine\\SYSTEM", Hive::open(&bytes).unwrap())
            .unwrap();
        let worlds = Worlds::open(self.path("data/vodka/worlds")).unwrap();
        let staging = worlds.begin(&WorldName::new(name).unwrap(), "test").unwrap();
        std::fs::write(staging.registry_path(), merge.build().unwrap().bytes).unwrap();
        staging.commit(WorldConf::default(), &SealOptions::default()).unwrap();
    }
}

fn system() -> Node {
    let mut root = Node::new("SYSTEM");
    root.key("Setup").set_dword("SetupType", 2).set_sz("CmdLine", "oobe");
    root.key("ControlSet001\\Control").set_sz("", "default");
    root
}

#[test]
fn a_value_is_set_got_and_deleted() {
    let bench = Bench::new();
    bench.hive("a.hiv", &system());
    bench.says(0, &["set", "a.hiv", "New\\Key", "n", "--type", "dword", "0x10"]);
    assert_eq!(bench.says(0, &["get", "a.hiv", "new\\KEY", "N"]), "16\n");
    bench.says(
        0,
        &["set", "a.hiv", "New\\Key", "list", "-t", "multi-sz", "one", "two words"],
    );
    assert_eq!(bench.says(0, &["get", "a.hiv", "New\\Key", "list"]), "one\ntwo words\n");
    bench.says(0, &["set", "a.hiv", "New\\Key", "@", "the", "default"]);
    assert_eq!(bench.says(0, &["get", "a.hiv", "New\\Key"]), "the default\n");
    bench.says(0, &["delete", "a.hiv", "New\\Key", "n"]);
    let said = bench.says(1, &["get", "a.hiv", "New\\Key", "n"]);
    assert!(said.contains("has no value n"), "{said}");
    let said = bench.says(1, &["delete", "a.hiv", "New"]);
    assert!(said.contains("--tree"), "{said}");
    bench.says(0, &["delete", "a.hiv", "New", "--tree"]);
    let said = bench.says(1, &["show", "a.hiv", "Seutp"]);
    assert!(said.contains("did you mean Setup?"), "{said}");
    bench.says(0, &["verify", "a.hiv"]);
    let left: Vec<_> = std::fs::read_dir(bench.dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no log is left beside the hive");
}

#[test]
fn wrong_words_are_usage() {
    let bench = Bench::new();
    bench.hive("a.hiv", &system());
    for words in [
        &["show"][..],
        &["get", "a.hiv"],
        &["set", "a.hiv", "k", "v", "-t", "dword", "no number"],
        &["set", "a.hiv", "k", "v", "-t", "nonsense", "1"],
        &["export", "a.hiv", "a", "b"],
        &["load", "a.hiv", "k"],
        &["show", "--world", "no/such name"],
    ] {
        bench.says(2, words);
    }
    bench.says(7, &["show", "--world", "missing"]);
    bench.says(1, &["show", "missing.hiv"]);
}

#[test]
fn a_world_is_read_by_the_paths_that_people_type_and_a_sealed_one_is_not_changed() {
    let bench = Bench::new();
    bench.world("base", &system());
    for path in [
        "HKLM\\SYSTEM\\Setup",
        "HKEY_LOCAL_MACHINE\\System\\Setup",
        "\\Registry\\Machine\\SYSTEM\\Setup",
    ] {
        assert_eq!(bench.says(0, &["get", "--world", "base", path, "SetupType"]), "2\n");
        assert_eq!(bench.says(0, &["get", "world:base", path, "SetupType"]), "2\n");
    }
    let shown = bench.says(0, &["show", "--world", "base", "HKLM\\SYSTEM", "--depth", "2"]);
    assert!(
        shown.contains("[HKEY_LOCAL_MACHINE\\SYSTEM\\Setup]") && shown.contains("\"SetupType\"=dword:00000002"),
        "{shown}"
    );
    let said = bench.says(
        7,
        &[
            "set",
            "--world",
            "base",
            "HKLM\\SYSTEM\\Setup",
            "SetupType",
            "-t",
            "dword",
            "0",
        ],
    );
    assert!(said.contains("sealed"), "{said}");
    let entries = std::fs::read_dir(bench.path("data/vodka/worlds/base")).unwrap().count();
    assert_eq!(entries, 4, "nothing is left in the world");
}

#[test]
fn a_diff_of_two_worlds_names_exactly_what_changed() {
    let bench = Bench::new();
    let mut changed = system();
    changed.key("Setup").set_dword("SetupType", 0);
    changed.key("Select").set_dword("Current", 1);
    changed.key("ControlSet001").subkeys.clear();
    bench.world("one", &system());
    bench.world("two", &changed);
    let said = bench.says(1, &["diff", "world:one", "world:two"]);
    let root = "Windows\\Machine\\SYSTEM";
    let expected = format!(
        "- [{root}\\ControlSet001\\Control]\n- [{root}\\ControlSet001\\Control] @=\"default\"\n\
         + [{root}\\Select]\n+ [{root}\\Select] \"Current\"=dword:00000001\n\
         ~ [{root}\\Setup] \"SetupType\": dword:00000002 -> dword:00000000\n"
    );
    assert_eq!(said, expected);
    assert_eq!(bench.says(0, &["diff", "world:one", "world:one"]), "");
    let said = bench.says(1, &["diff", "world:one", "world:two", "--key", "HKLM\\SYSTEM\\Select"]);
    assert!(said.contains("there is no key"), "{said}");
    let document: serde_json::Value =
        serde_json::from_slice(&bench.run(&["diff", "world:one", "world:two", "--json"]).stdout).unwrap();
    assert_eq!(document.as_array().unwrap().len(), 5);
    assert_eq!(document[4]["change"], "changed");
    assert_eq!(document[4]["new"]["data"], "00000000");
}

#[test]
fn a_fork_is_changed_and_its_diff_is_the_change() {
    let bench = Bench::new();
    bench.world("base", &system());
    let worlds = Worlds::open(bench.path("data/vodka/worlds")).unwrap();
    let base = worlds.world(&WorldName::new("base").unwrap()).unwrap();
    worlds.fork(&WorldName::new("fork").unwrap(), &base).unwrap();
    bench.says(
        0,
        &[
            "set",
            "--world",
            "fork",
            "HKLM\\SYSTEM\\Setup",
            "SetupType",
            "-t",
            "dword",
            "1",
        ],
    );
    let said = bench.says(1, &["diff", "world:base", "world:fork"]);
    assert_eq!(
        said,
        "~ [Windows\\Machine\\SYSTEM\\Setup] \"SetupType\": dword:00000002 -> dword:00000001\n"
    );
    let entries = std::fs::read_dir(bench.path("data/vodka/worlds/fork")).unwrap();
    let logs = entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("LOG"));
    assert_eq!(logs.count(), 0, "no log is left in the world");
}

#[test]
fn text_goes_both_ways() {
    let bench = Bench::new();
    bench.hive("a.hiv", &system());
    let root = "HKEY_LOCAL_MACHINE\\SYSTEM";
    bench.says(0, &["export", "a.hiv", "--root", root, "--out", "a.reg", "--whole"]);
    let text = std::fs::read(bench.path("a.reg")).unwrap();
    assert_eq!(text[..4], [0xff, 0xfe, b'W', 0], "what Regedit reads");
    bench.says(0, &["import", "b.hiv", "a.reg", "--root", "HKLM\\SYSTEM", "--new"]);
    bench.says(0, &["diff", "a.hiv", "b.hiv", "--times", "--attributes"]);
    let said = bench.says(0, &["export", "a.hiv", "Setup"]);
    assert!(
        said.starts_with("Windows Registry Editor Version 5.00\r\n\r\n[Setup]\r\n"),
        "{said}"
    );
    std::fs::write(
        bench.path("c.reg"),
        "REGEDIT4\n\n[Setup]\n\"CmdLine\"=-\n\"x\"=\"y\"\n[-ControlSet001]\n",
    )
    .unwrap();
    bench.says(0, &["import", "a.hiv", "c.reg"]);
    let said = bench.says(1, &["diff", "b.hiv", "a.hiv"]);
    assert_eq!(said.lines().count(), 5, "{said}");
    // All or nothing.
    std::fs::write(bench.path("d.reg"), "REGEDIT4\n\n[Good]\n[Bad]\n\"x\"=dword:zz\n").unwrap();
    let said = bench.says(2, &["import", "a.hiv", "d.reg"]);
    assert!(said.contains("line 5"), "{said}");
    bench.says(1, &["show", "a.hiv", "Good"]);
    let said = bench.says(6, &["show", "c.reg"]);
    assert!(said.contains("registry text file"), "{said}");
}

#[test]
fn a_dirty_hive_is_read_with_its_log_and_recovered_elsewhere() {
    let bench = Bench::new();
    let path = bench.hive("a.hiv", &system());
    dirty(&path);
    let before = std::fs::read(&path).unwrap();
    let said = bench.says(0, &["show", "a.hiv"]);
    assert!(
        said.contains("note: a.hiv is dirty: 1 log") && said.contains("[Later]"),
        "{said}"
    );
    let said = bench.says(0, &["recover", "a.hiv"]);
    assert!(said.contains("1 log entr(ies)"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "the hive itself is as it was");
    bench.says(0, &["verify", "a.hiv.recovered"]);
    bench.says(0, &["get", "a.hiv.recovered", "Later", "v"]);
    bench.says(1, &["recover", "a.hiv"]);
    std::fs::remove_file(bench.path("a.hiv.LOG1")).unwrap();
    let said = bench.says(6, &["show", "a.hiv"]);
    assert!(
        said.contains("no log can be applied") && said.contains("--damaged"),
        "{said}"
    );
    bench.says(0, &["show", "a.hiv", "--damaged"]);
}

/// Leaves a hive as a killed process leaves it: a change in its log only.
fn dirty(path: &Path) {
    let mut file = HiveFile::open(path).unwrap();
    file.change(|editor| {
        let key = editor.create_path("Later", 1)?;
        editor.set_value(key, &[0x76], 1, &[0x78, 0, 0, 0], 1)
    })
    .unwrap();
}

#[test]
fn a_damaged_hive_is_said_to_be_so_and_rebuilt() {
    let bench = Bench::new();
    let path = bench.hive("a.hiv", &system());
    let mut bytes = std::fs::read(&path).unwrap();
    let hive = Hive::open(&bytes).unwrap();
    let at = usize::try_from(hive.open_path("Setup").unwrap().unwrap().file_offset()).unwrap();
    bytes[at + 4..at + 6].copy_from_slice(b"xx");
    std::fs::write(&path, &bytes).unwrap();
    let said = bench.says(6, &["verify", "a.hiv"]);
    assert!(
        said.contains("damage: ") && said.contains(&format!("{at:#x}")),
        "{said}"
    );
    let said = bench.says(6, &["show", "a.hiv"]);
    assert!(said.contains("expected signature"), "{said}");
    let said = bench.says(6, &["recover", "a.hiv", "--rebuild", "--out", "b.hiv"]);
    assert!(said.contains("3 key(s)"), "{said}");
    bench.says(0, &["verify", "b.hiv", "--notes"]);
    bench.says(6, &["set", "a.hiv", "k", "v", "x"]);
}

#[test]
fn a_hive_is_loaded_below_a_key() {
    let bench = Bench::new();
    bench.hive("a.hiv", &Node::new("ROOT"));
    bench.hive("s.hiv", &system());
    let said = bench.says(0, &["load", "a.hiv", "Windows\\Machine\\SYSTEM", "s.hiv"]);
    assert_eq!(said, "s.hiv   4 key(s), 3 value(s) -> Windows\\Machine\\SYSTEM\n");
    let said = bench.says(1, &["load", "a.hiv", "windows\\machine\\system", "s.hiv"]);
    assert!(said.contains("exists already"), "{said}");
    assert_eq!(
        bench.says(0, &["get", "a.hiv", "Windows\\Machine\\SYSTEM\\Setup", "SetupType"]),
        "2\n"
    );
}

#[test]
fn json_is_one_document_and_a_closed_pipe_is_no_error() {
    let bench = Bench::new();
    bench.hive("a.hiv", &system());
    for words in [
        &["show", "a.hiv", "--json", "--depth", "3"][..],
        &["get", "a.hiv", "Setup", "SetupType", "--json"],
        &["verify", "a.hiv", "--json"],
    ] {
        let output = bench.run(words);
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(output.stderr.is_empty());
    }
    let raw = bench.run(&["get", "a.hiv", "Setup", "SetupType", "--raw"]);
    assert_eq!(raw.stdout, [2, 0, 0, 0]);
}
