// SPDX-License-Identifier: GPL-3.0-or-later
//! The XML: every field may be missing, and what is there is read as it stands.

mod wim_support;

use std::collections::BTreeMap;

use fixtures::wim_writer::{Image, WimWriter, encode_xml};
use vodka_decant::wim::{Architecture, Filetime, ImageInfo, ImageKind, Note, WimError, WimInfo};
use wim_support::{corpus, has_wimlib, open_bytes, text, wimlib};

fn info_of_bytes(xml: Vec<u8>) -> Result<WimInfo, WimError> {
    let writer = WimWriter {
        raw_xml: Some(xml),
        ..WimWriter::new(vec![Image::new("x", vec![])])
    };
    open_bytes(writer.build()).info().cloned()
}

fn info(xml: &str) -> WimInfo {
    info_of_bytes(encode_xml(xml)).expect("well-formed")
}

fn image(inner: &str) -> ImageInfo {
    info(&format!("<WIM><IMAGE INDEX=\"1\">{inner}</IMAGE></WIM>"))
        .images
        .remove(0)
}

#[test]
fn every_field_is_read() {
    let image = image(
        "<NAME>N</NAME><DESCRIPTION>D</DESCRIPTION><DISPLAYNAME>DN</DISPLAYNAME><DISPLAYDESCRIPTION>DD</DISPLAYDESCRIPTION>\
         <FLAGS>Core</FLAGS><DIRCOUNT>3</DIRCOUNT><FILECOUNT>4</FILECOUNT><TOTALBYTES>500</TOTALBYTES>\
         <HARDLINKBYTES>100</HARDLINKBYTES><CREATIONTIME><HIGHPART>0x01D5C03A</HIGHPART><LOWPART>0x8BC20000</LOWPART></CREATIONTIME>\
         <LASTMODIFICATIONTIME><HIGHPART>0x01D5C03B</HIGHPART><LOWPART>1</LOWPART></LASTMODIFICATIONTIME>\
         <UNKNOWN><NAME>not this</NAME></UNKNOWN>\
         <WINDOWS><ARCH>9</ARCH><PRODUCTNAME>P</PRODUCTNAME><EDITIONID>Core</EDITIONID><INSTALLATIONTYPE>Client</INSTALLATIONTYPE>\
         <HAL>acpi</HAL><PRODUCTTYPE>WinNT</PRODUCTTYPE><PRODUCTSUITE>Terminal Server</PRODUCTSUITE>\
         <LANGUAGES><LANGUAGE>en-US</LANGUAGE><LANGUAGE>de-DE</LANGUAGE><FALLBACK LANGUAGE=\"de-DE\">en-US</FALLBACK>\
         <DEFAULT>en-US</DEFAULT></LANGUAGES><VERSION><MAJOR>10</MAJOR><MINOR>0</MINOR><BUILD>26100</BUILD><SPBUILD>1742</SPBUILD>\
         <SPLEVEL>0</SPLEVEL><BRANCH>ge_release</BRANCH></VERSION><SYSTEMROOT>WINDOWS</SYSTEMROOT>\
         <SERVICINGDATA><GDRDUREVISION>20240101</GDRDUREVISION><IMAGESTATE>IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE</IMAGESTATE></SERVICINGDATA></WINDOWS>",
    );
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(image.label(), "DN");
    assert_eq!(
        (image.name.clone(), image.description.clone(), image.flags.clone()),
        (some("N"), some("D"), some("Core"))
    );
    assert_eq!(
        (image.directory_count, image.file_count, image.room_bytes()),
        (Some(3), Some(4), Some(400))
    );
    assert_eq!(image.creation_time, Some(Filetime(0x01D5_C03A_8BC2_0000)));
    assert_eq!(image.last_modification_time, Some(Filetime(0x01D5_C03B_0000_0001)));
    assert_eq!(image.kind(), ImageKind::OperatingSystem);
    let windows = image.windows.expect("WINDOWS");
    assert_eq!(windows.architecture, Some(Architecture::X64));
    assert_eq!(windows.languages, ["en-US", "de-DE"]);
    assert_eq!(windows.fallback_languages, [("de-DE".to_owned(), "en-US".to_owned())]);
    assert_eq!(
        windows.version.as_ref().expect("VERSION").to_string(),
        "10.0.26100.1742"
    );
    assert_eq!(windows.version.expect("VERSION").branch, some("ge_release"));
    assert_eq!(
        (windows.system_root, windows.gdr_revision),
        (some("WINDOWS"), some("20240101"))
    );
}

#[test]
fn any_field_may_be_missing_or_senseless() {
    let empty = image("");
    assert_eq!(empty, {
        let mut expected = ImageInfo::default();
        expected.index = 1;
        expected
    });
    assert_eq!(
        (empty.label(), empty.room_bytes(), empty.kind()),
        ("", None, ImageKind::Other)
    );
    let odd = image(
        "<NAME/><TOTALBYTES>many</TOTALBYTES><HARDLINKBYTES>7</HARDLINKBYTES><CREATIONTIME><HIGHPART>0x1</HIGHPART></CREATIONTIME><WINDOWS/>",
    );
    assert_eq!(
        (odd.total_bytes, odd.hard_link_bytes, odd.creation_time),
        (None, Some(7), None)
    );
    assert!(odd.windows.is_some());
    assert_eq!(
        image("<TOTALBYTES>5</TOTALBYTES><HARDLINKBYTES>7</HARDLINKBYTES>").room_bytes(),
        Some(0)
    );
}

#[test]
fn indexes_may_have_gaps_and_come_out_of_order() {
    let info =
        info("<WIM><IMAGE INDEX=\"7\"><NAME>seven</NAME></IMAGE><IMAGE INDEX=\"2\"><NAME>two</NAME></IMAGE></WIM>");
    let found: Vec<_> = info.images.iter().map(|image| (image.index, image.label())).collect();
    assert_eq!(found, [(2, "two"), (7, "seven")]);
    let error = info_of_bytes(encode_xml("<WIM><IMAGE INDEX=\"1\"/><IMAGE INDEX=\"1\"/></WIM>")).expect_err("twice");
    assert!(error.to_string().contains("two images have INDEX 1"), "{error}");
}

#[test]
fn with_gaps_the_nth_smallest_index_has_the_nth_metadata() {
    let writer = WimWriter {
        raw_xml: Some(encode_xml("<WIM><IMAGE INDEX=\"5\"/><IMAGE INDEX=\"3\"/></WIM>")),
        ..WimWriter::new(vec![
            Image::new("first", vec![fixtures::wim_writer::Node::file("of three", "")]),
            Image::new("second", vec![fixtures::wim_writer::Node::file("of five", "")]),
        ])
    };
    let wim = open_bytes(writer.build());
    assert!(wim.metadata(3).expect("3").lookup("of three").is_some());
    assert!(wim.metadata(5).expect("5").lookup("of five").is_some());
    let error = wim.metadata(1).expect_err("1");
    assert!(
        error.to_string().ends_with("has no image with INDEX 1; it has 3, 5"),
        "{error}"
    );
}

#[test]
fn text_comes_with_or_without_a_byte_order_mark_and_control_characters_stay() {
    let xml = "<WIM><IMAGE INDEX=\"1\"><NAME>a&#27;b&#x7;c&amp;d&unknown;\u{1}\u{202e}</NAME></IMAGE></WIM>";
    let with_mark = encode_xml(xml);
    let without_mark = with_mark[2..].to_vec();
    let mut with_zeros = with_mark.clone();
    with_zeros.extend([0; 6]);
    for bytes in [with_mark, without_mark, with_zeros] {
        let info = info_of_bytes(bytes).expect("well-formed");
        assert_eq!(info.images[0].label(), "a\u{1b}b\u{7}c&d&unknown;\u{1}\u{202e}");
    }
}

#[test]
fn damaged_xml_is_refused_with_its_place() {
    for (xml, expected) in [
        ("", "no element"),
        ("<WIM><IMAGE INDEX=\"1\">", "ends inside <IMAGE>"),
        ("<WIM></IMAGE></WIM>", "IMAGE"),
        ("<OTHER/>", "found <OTHER>"),
        ("<WIM/><WIM/>", "one <WIM>"),
        ("<WIM><IMAGE INDEX=\"one\"/></WIM>", "INDEX is `one`"),
        ("<WIM><", ""),
    ] {
        let error = info_of_bytes(encode_xml(xml)).expect_err(xml);
        assert!(matches!(error, WimError::InvalidXml { .. }), "{xml}: {error}");
        assert!(error.to_string().contains(expected), "{xml}: {error}");
    }
    let deep = format!("<WIM>{}", "<a>".repeat(200));
    assert!(
        info_of_bytes(encode_xml(&deep))
            .expect_err("deep")
            .to_string()
            .contains("64 levels")
    );
    let many = format!("<WIM>{}</WIM>", "<IMAGE/>".repeat(5000));
    assert!(
        info_of_bytes(encode_xml(&many))
            .expect_err("many")
            .to_string()
            .contains("4096 images")
    );
}

#[test]
fn a_windows_11_that_says_10_is_shown_as_11_with_a_note() {
    let with_build = |build| {
        image(&format!(
            "<NAME>Windows 10 Pro N</NAME><WINDOWS><VERSION><BUILD>{build}</BUILD></VERSION></WINDOWS>"
        ))
    };
    let note = Note::Windows11CalledWindows10 { build: 22631 };
    assert_eq!(
        with_build(22_631).shown_name(),
        ("Windows 11 Pro N".to_owned(), Some(note))
    );
    assert!(note.to_string().contains("22631"));
    assert_eq!(with_build(19_045).shown_name(), ("Windows 10 Pro N".to_owned(), None));
    assert_eq!(with_build(22_631).label(), "Windows 10 Pro N");
}

#[test]
fn operating_systems_are_told_from_setup_pe_and_unstaged_images() {
    let kind = |name: &str, windows: &str| image(&format!("<NAME>{name}</NAME>{windows}")).kind();
    let windows = |inner: &str| format!("<WINDOWS><VERSION><MAJOR>10</MAJOR></VERSION>{inner}</WINDOWS>");
    assert_eq!(kind("Windows Setup Media", ""), ImageKind::SetupMedia);
    assert_eq!(kind("Windows Setup Media", &windows("")), ImageKind::SetupMedia);
    let pe = "<EDITIONID>WindowsPE</EDITIONID><INSTALLATIONTYPE>WindowsPE</INSTALLATIONTYPE>";
    assert_eq!(
        kind("Microsoft Windows Setup (x64)", &windows(pe)),
        ImageKind::WindowsPe
    );
    assert_eq!(
        kind("Windows 11 Pro", &windows("<EDITIONID>Professional</EDITIONID>")),
        ImageKind::OperatingSystem
    );
    assert_eq!(kind("build lab", &windows("")), ImageKind::Unstaged);
    let editions =
        "<EDITIONS><EDITION ID=\"Core\"/><EDITION ID=\"Professional\"/></EDITIONS><EDITIONID>Core</EDITIONID>";
    assert_eq!(kind("build lab", &windows(editions)), ImageKind::Unstaged);
    let xp = "<WINDOWS><VERSION><MAJOR>5</MAJOR><BUILD>2600</BUILD></VERSION></WINDOWS>";
    assert_eq!(kind("XP", xp), ImageKind::OperatingSystem);
    assert_eq!(kind("data", ""), ImageKind::Other);
}

/// The images of a corpus table: what `wimlib-imagex info` printed of a Microsoft medium, field by field.
fn edition_table(path: &std::path::Path) -> Vec<BTreeMap<String, String>> {
    let text = String::from_utf8_lossy(&std::fs::read(path).expect("the table")).into_owned();
    let mut images: Vec<BTreeMap<String, String>> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if key == "Index" {
            images.push(BTreeMap::new());
        }
        if let Some(image) = images.last_mut() {
            image.insert(key.to_owned(), value.trim().to_owned());
        }
    }
    images
}

#[test]
fn the_edition_tables_of_microsoft_media_list_the_same() {
    let Some(tables) = corpus("editions/xoap") else { return };
    let fields = [
        ("Name", "NAME"),
        ("Description", "DESCRIPTION"),
        ("Display Name", "DISPLAYNAME"),
        ("Flags", "FLAGS"),
        ("Directory Count", "DIRCOUNT"),
        ("File Count", "FILECOUNT"),
        ("Total Bytes", "TOTALBYTES"),
        ("Hard Link Bytes", "HARDLINKBYTES"),
    ];
    let windows_fields = [
        ("Product Name", "PRODUCTNAME"),
        ("Edition ID", "EDITIONID"),
        ("Installation Type", "INSTALLATIONTYPE"),
        ("Product Type", "PRODUCTTYPE"),
        ("Product Suite", "PRODUCTSUITE"),
        ("System Root", "SYSTEMROOT"),
    ];
    let escape = |value: &str| value.replace('&', "&amp;").replace('<', "&lt;");
    let mut seen = 0;
    for entry in std::fs::read_dir(tables).expect("the tables") {
        let images = edition_table(&entry.expect("an entry").path());
        assert!(images.len() >= 4);
        let element = |image: &BTreeMap<String, String>, (key, tag): (&str, &str)| {
            image
                .get(key)
                .map_or_else(String::new, |value| format!("<{tag}>{}</{tag}>", escape(value)))
        };
        let writer = WimWriter::new(
            images
                .iter()
                .map(|image| {
                    let mut made = Image::new("", vec![]);
                    let inner: String = windows_fields.iter().map(|&field| element(image, field)).collect();
                    let version: String = [
                        ("Major Version", "MAJOR"),
                        ("Minor Version", "MINOR"),
                        ("Build", "BUILD"),
                        ("Service Pack Build", "SPBUILD"),
                    ]
                    .iter()
                    .map(|&field| element(image, field))
                    .collect();
                    made.xml = fields.iter().map(|&field| element(image, field)).collect();
                    made.xml += &format!("<WINDOWS><ARCH>9</ARCH>{inner}<VERSION>{version}</VERSION></WINDOWS>");
                    made
                })
                .collect(),
        );
        let wim = open_bytes(writer.build());
        let found = &wim.info().expect("the XML").images;
        assert_eq!(found.len(), images.len());
        for (found, expected) in found.iter().zip(&images) {
            let windows = found.windows.as_ref().expect("WINDOWS");
            let version = windows.version.as_ref().expect("VERSION");
            assert_eq!(found.index.to_string(), expected["Index"]);
            assert_eq!(found.label(), expected["Display Name"]);
            assert_eq!(found.total_bytes.expect("bytes").to_string(), expected["Total Bytes"]);
            assert_eq!(
                found.hard_link_bytes.expect("bytes").to_string(),
                expected["Hard Link Bytes"]
            );
            assert_eq!(windows.edition_id.as_deref(), Some(expected["Edition ID"].as_str()));
            assert_eq!(
                windows.installation_type.as_deref(),
                Some(expected["Installation Type"].as_str())
            );
            let shown = format!(
                "{}.{}.{}.{}",
                expected["Major Version"], expected["Minor Version"], expected["Build"], expected["Service Pack Build"]
            );
            assert_eq!(version.to_string(), shown);
            assert_eq!(
                (windows.architecture, found.kind()),
                (Some(Architecture::X64), ImageKind::OperatingSystem)
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 8, "two tables of four editions");
}

/// The same WIM, its XML written by wimlib, is shown alike by both.
#[test]
fn wimlibs_own_xml_is_read_as_wimlib_shows_it() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = directory.path().join("image.wim");
    std::fs::write(
        &image,
        WimWriter::new(vec![Image::new("One", vec![]), Image::new("Two", vec![])]).build(),
    )
    .expect("written");
    let set = |property: &str| wimlib(&["info", text(&image), "2", "--image-property", property]);
    for property in [
        "DISPLAYNAME=A <b> & \u{fc}",
        "WINDOWS/EDITIONID=ServerStandard",
        "WINDOWS/VERSION/BUILD=20348",
        "WINDOWS/ARCH=12",
    ] {
        set(property);
    }
    let wim = wim_support::open(&image);
    let second = wim.image(2).expect("image 2");
    let windows = second.windows.as_ref().expect("WINDOWS");
    assert_eq!((second.label(), second.build()), ("A <b> & \u{fc}", Some(20_348)));
    assert_eq!(
        (windows.architecture, windows.edition_id.as_deref()),
        (Some(Architecture::Arm64), Some("ServerStandard"))
    );
    let shown = String::from_utf8(wimlib(&["info", text(&image), "2"])).expect("UTF-8");
    for line in [
        "Edition ID:             ServerStandard",
        "Build:                  20348",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}
