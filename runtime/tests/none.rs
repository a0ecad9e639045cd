// SPDX-License-Identifier: GPL-3.0-or-later
//! World *none*: programs of our own without imports, on no ntdll at all.

mod common;

use common::{build, run, text};
use runtime::nt::table::own_numbers;

/// `NtX=NUMBER` words for the command line of a program without imports.
fn numbers() -> Vec<String> {
    own_numbers()
        .iter()
        .map(|service| format!("{}={}", service.name, service.number))
        .collect()
}

#[test]
fn a_program_without_imports_writes_allocates_and_ends() {
    let drive = tempfile::tempdir().expect("a directory");
    let program = drive.path().join("native.exe");
    if !build(
        "native.c",
        &program,
        &["-nostdlib", "-Wl,--entry,start", "-Wl,--subsystem,native"],
    ) {
        return;
    }
    let wanted = ["NtWriteFile=", "NtAllocateVirtualMemory=", "NtTerminateProcess="];
    let numbers: Vec<String> = numbers()
        .into_iter()
        .filter(|word| wanted.iter().any(|name| word.starts_with(name)))
        .collect();
    let arguments: Vec<&str> = numbers.iter().map(String::as_str).collect();
    for options in [vec![], vec!["--debug-dispatch", "relocate"]] {
        let output = run(drive.path(), &options, "C:\\native.exe", &arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text(&output), "native\n", "{said}");
        assert_eq!(output.status.code(), Some(0x42), "the low 8 bits of 0xc0ffee42: {said}");
        assert!(said.contains("no service has number 0xffe"), "{said}");
    }
}

#[test]
fn a_file_that_is_no_program_is_refused_by_name() {
    let drive = tempfile::tempdir().expect("a directory");
    std::fs::write(drive.path().join("text.exe"), "no program").expect("written");
    let output = run(drive.path(), &[], "C:\\text.exe", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("C:\\text.exe") && said.contains("no MZ mark at offset 0"),
        "{said}"
    );
    let output = run(drive.path(), &[], "C:\\missing.exe", &[]);
    assert_eq!(output.status.code(), Some(2));
}
