// SPDX-License-Identifier: GPL-3.0-or-later
//! `windows list` and `medium ls` over every kind of medium.

mod cli_support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use cli_support::{Home, have_tools, skipped};
use fixtures::BadXml;

#[test]
fn the_list_has_the_documented_shape() {
    if !have_tools() {
        return;
    }
    let iso = fixtures::windows_11_iso().expect("made");
    let said = Home::new().list(&iso, &[]).ended_with(0);
    insta::assert_snapshot!(said.stdout, @r"
    EDITION        SIZE  NAME
          1    11.8 MiB  Windows 11 Home
          2    11.8 MiB  Windows 11 Home N
          3    11.8 MiB  Windows 11 Home Single Language
          4    11.8 MiB  Windows 11 Education
          5    11.8 MiB  Windows 11 Education N
          6    11.8 MiB  Windows 11 Pro
          7    11.8 MiB  Windows 11 Pro N
          8    11.8 MiB  Windows 11 Pro Education
          9    11.8 MiB  Windows 11 Pro Education N
         10    11.8 MiB  Windows 11 Pro for Workstations
         11    11.8 MiB  Windows 11 Pro N for Workstations
    11 edition(s). `--edition N` says what is in one of them, and `import --edition N` takes it.
    ");
    assert_eq!(said.stderr, "");
}

#[test]
fn the_same_edition_is_listed_from_every_kind_of_medium() {
    if !have_tools() {
        return;
    }
    let home = Home::new();
    let bare = home.list(&fixtures::lzx_wim().expect("made"), &[]).ended_with(0).stdout;
    for medium in [
        fixtures::udf_only_iso(),
        fixtures::joliet_iso(),
        fixtures::rock_ridge_iso(),
        fixtures::plain_iso(),
        fixtures::genisoimage_bridge_iso(),
        fixtures::split_iso(),
        fixtures::split_wim(),
        fixtures::medium_directory(),
        fixtures::xml_without_bom_wim(),
    ] {
        let medium = medium.expect("made");
        assert_eq!(
            home.list(&medium, &[]).ended_with(0).stdout,
            bare,
            "{}",
            medium.display()
        );
    }
}

#[test]
fn both_architectures_of_a_medium_are_listed_and_told_apart() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::multi_arch_iso().expect("made"));
    let listed = home.list(&iso, &[]).ended_with(0).stdout;
    assert!(listed.contains("x64/1") && listed.contains("x86/1"), "{listed}");
    home.list(&iso, &["--edition", "1"])
        .ended_with(4)
        .complains_of(&["x64/1", "x86/1"]);
    let one = home.list(&iso, &["--edition", "x86/1"]).ended_with(0).stdout;
    assert!(one.contains("architecture                x86"), "{one}");
}

#[test]
fn every_oddity_of_editions_is_said() {
    if !have_tools() {
        return;
    }
    let said = Home::new()
        .list(&fixtures::odd_editions_wim().expect("made"), &[])
        .ended_with(0);
    let listed = said.stdout;
    for expected in [
        // A build of Windows 11 that calls itself 10.
        "      1        18 B  Windows 11 Pro\n",
        "note: 1: the image calls itself Windows 10; build 22621 is Windows 11",
        "Windows 11 without a display name",
        "Windows 11 unstaged (unstaged)",
        "note: image 4 is no edition: Windows Setup Media",
        "note: image 5 is no edition: Microsoft Windows PE (x64)",
    ] {
        assert!(listed.contains(expected), "{expected}\nis not in\n{listed}");
    }
    let control = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(
        !listed.contains(control),
        "a control character reached the terminal: {listed:?}"
    );
}

#[test]
fn an_edition_is_found_by_its_index_where_indexes_have_gaps_and_no_order() {
    if !have_tools() {
        return;
    }
    let (home, wim) = (Home::new(), fixtures::index_gaps_wim().expect("made"));
    let fourth = home.list(&wim, &["--edition", "4", "--json"]).ended_with(0).stdout;
    let fourth: serde_json::Value = serde_json::from_str(&fourth).expect("JSON");
    assert_eq!((&fourth["index"], &fourth["name"]), (&4.into(), &"Fourth".into()));
    home.list(&wim, &["--edition", "3"]).ended_with(4);
}

#[test]
fn an_edition_id_that_two_editions_share_is_ambiguous_and_a_type_settles_it() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::server_iso().expect("made"));
    let said = home.list(&iso, &["--edition", "ServerStandard"]).ended_with(4);
    said.complains_of(&[
        "names 2 editions",
        "ServerStandard/Server Core",
        "ServerStandard/Server)",
    ]);
    for (wanted, name) in [
        ("ServerStandard/Server Core", "Windows Server 2022 SERVERSTANDARDCORE"),
        ("ServerStandard/Server", "Windows Server 2022 SERVERSTANDARD"),
        (
            "Windows Server 2022 SERVERDATACENTER",
            "Windows Server 2022 SERVERDATACENTER",
        ),
        (
            "Windows Server 2022 Datacenter",
            "Windows Server 2022 SERVERDATACENTERCORE",
        ),
    ] {
        let said = home.list(&iso, &["--edition", wanted, "--json"]).ended_with(0).stdout;
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(said["image_name"], name, "{wanted}");
    }
}

#[test]
fn json_is_one_document_and_nothing_else() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::windows_11_iso().expect("made"));
    let listed = home.list(&iso, &["--json"]).ended_with(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).expect("one document");
    assert_eq!(listed["editions"].as_array().map(Vec::len), Some(11));
    let one = home
        .list(&iso, &["--edition", "Windows 11 Pro", "--json"])
        .ended_with(0);
    let one: serde_json::Value = serde_json::from_str(&one.stdout).expect("one document");
    assert_eq!(one["index"], 6);
    assert_eq!(one["hives"].as_array().map(Vec::len), Some(8));
}

#[test]
fn real_tables_of_editions_list_with_their_indexes_names_and_sizes() {
    if !have_tools() {
        return;
    }
    let tables = fixtures::corpus::edition_tables().expect("readable");
    if tables.is_empty() {
        return skipped("the shared corpus is not there");
    }
    let home = Home::new();
    for (name, table) in tables {
        let wim = fixtures::corpus::table_wim(&name, &table).expect("made");
        let listed = home.list(&wim, &["--json"]).ended_with(0).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let editions = listed["editions"].as_array().expect("a list");
        assert_eq!(editions.len(), table.len(), "{name}");
        for (edition, row) in editions.iter().zip(&table) {
            let expected = (
                row.index,
                row.display_name.as_str(),
                row.total_bytes,
                row.edition_id.as_str(),
            );
            let found = (
                u32::try_from(edition["index"].as_u64().expect("a number")).expect("small"),
                edition["name"].as_str().expect("text"),
                edition["total_bytes"].as_u64().expect("a number"),
                edition["edition_id"].as_str().expect("text"),
            );
            assert_eq!(found, expected, "{name}");
        }
        let plain = home.list(&wim, &[]).ended_with(0).stdout;
        for (line, row) in plain.lines().skip(1).zip(&table) {
            #[allow(clippy::cast_precision_loss)] // One decimal is printed.
            let gibibytes = format!("{:.1} GiB", row.total_bytes as f64 / f64::from(1 << 30));
            assert_eq!(
                line,
                format!("{:>7}{gibibytes:>12}  {}", row.index, row.display_name),
                "{name}"
            );
        }
    }
}

#[test]
fn bad_xml_is_refused_and_no_panic() {
    if !have_tools() {
        return;
    }
    let home = Home::new();
    for (name, way) in BadXml::ALL {
        let said = home.list(&fixtures::bad_xml_wim(way).expect("made"), &[]);
        match way {
            // A lone surrogate spoils one letter of a name, an odd byte at the end nothing.
            BadXml::LoneSurrogate | BadXml::OddLength => {
                assert!(matches!(said.code, Some(0 | 6)), "{name}: {said:?}");
            }
            _ => drop(said.ended_with(6).complains_of(&["XML"])),
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    if !have_tools() {
        return;
    }
    let (home, iso) = (Home::new(), fixtures::many_files_iso().expect("made"));
    let mut command = home.decant_command(["medium", "ls"]);
    let mut child = command
        .arg(&iso)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut first)
        .expect("a line");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(
        (output.status.code(), output.stderr.len()),
        (Some(0), 0),
        "after {first}"
    );
}

#[test]
fn a_file_over_four_gibibytes_is_listed_and_read_right_at_its_end() {
    use vodka_decant::medium::Medium;
    if !have_tools() {
        return;
    }
    for iso in [fixtures::huge_file_udf_iso(), fixtures::huge_file_iso9660()] {
        let iso = iso.expect("made");
        let mut words: Vec<std::ffi::OsString> = vec!["medium".into(), "ls".into()];
        words.push(iso.clone().into());
        let listed = Home::new().decant(words).ended_with(0).stdout;
        assert!(listed.contains(&fixtures::HUGE_FILE_BYTES.to_string()), "{listed}");
        let medium = Medium::open(&iso).expect("opens");
        let file = medium.open_path(fixtures::HUGE_FILE).expect("opens");
        assert_eq!(file.len_bytes(), fixtures::HUGE_FILE_BYTES);
        let read = |offset: u64, length: usize| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset).expect("reads");
            bytes
        };
        let tail = fixtures::HUGE_FILE_TAIL;
        assert_eq!(read(fixtures::HUGE_FILE_BYTES - tail.len() as u64, tail.len()), tail);
        assert_eq!(read((4 << 30) - 10, 28), b"across the border of 32 bits");
        assert_eq!(read(0, 6), b"first\0");
    }
}

#[test]
fn every_format_of_mkudffs_opens_as_an_empty_disc() {
    if !have_tools() || fixtures::tools::require(&["mkudffs"]).is_err() {
        return;
    }
    for format in fixtures::UDF_FORMATS {
        let image = fixtures::empty_udf_image(format).expect("made");
        let mut words: Vec<std::ffi::OsString> = vec!["medium".into(), "ls".into()];
        words.push(image.into());
        let said = Home::new().decant(words);
        assert_eq!(said.code, Some(0), "{format:?}: {}", said.stderr);
    }
}
