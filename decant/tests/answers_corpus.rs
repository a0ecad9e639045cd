// SPDX-License-Identifier: GPL-3.0-or-later
//! Public answer files are taken for the architecture they are for, and refused, with the line, for another.

// A test that is skipped says so.
#![allow(clippy::print_stderr)]

use std::path::PathBuf;

use vodka_decant::answers::{AnswerFile, Architecture};

fn corpus(path: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("VODKA_CORPUS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus")),
        PathBuf::from,
    );
    let bytes = std::fs::read(root.join(path)).ok();
    if bytes.is_none() {
        eprintln!("skipped: the corpus has no {path} here");
    }
    bytes
}

#[test]
fn public_files_fit_their_own_architecture_only() {
    for (path, architecture, other, line) in [
        (
            "unattend/dockur/win11x64.xml",
            Architecture::Amd64,
            Architecture::Arm64,
            4,
        ),
        (
            "unattend/dockur/win10x64-iot.xml",
            Architecture::Amd64,
            Architecture::X86,
            4,
        ),
        ("unattend/dockur/win7x86.xml", Architecture::X86, Architecture::Amd64, 4),
        (
            "unattend/cschneegans/autounattend.template.xml",
            Architecture::X86,
            Architecture::Amd64,
            5,
        ),
    ] {
        let Some(bytes) = corpus(path) else { continue };
        AnswerFile::check(bytes.clone(), path, architecture).unwrap_or_else(|error| panic!("{error}"));
        let message = AnswerFile::check(bytes, path, other)
            .expect_err("another architecture")
            .to_string();
        assert!(
            message.starts_with(&format!("{path}, line {line}: component ")),
            "{message}"
        );
    }
}
