// SPDX-License-Identifier: GPL-3.0-or-later
//! World *free*: C programs on Wine's PE DLLs, each way into the runtime.

mod common;

use common::{build, free_drive, run, text};

/// Direct calls, rewritten stubs, Syscall User Dispatch alone, and every image moved off its base.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--debug-dispatch", "stubs"],
    &["--debug-dispatch", "syscall"],
    &["--debug-dispatch", "relocate"],
];

#[test]
fn arguments_streams_and_the_exit_code_arrive() {
    let Some(drive) = free_drive() else { return };
    if !build("hello.c", &drive.path().join("temp/hello.exe"), &[]) {
        return;
    }
    for way in WAYS {
        let mut options = way.to_vec();
        options.extend(["--env", "TEST_VARIABLE=set"]);
        let output = run(
            drive.path(),
            &options,
            "C:\\temp\\hello.exe",
            &["one", "two words", "quo\"te"],
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected =
            "argument [one]\nargument [two words]\nargument [quo\"te]\nmodule C:\\temp\\hello.exe\nvariable set\n";
        assert_eq!(text(&output), expected, "{way:?}: {said}");
        assert!(said.contains("error 3.25"), "{way:?}: {said}");
        assert_eq!(output.status.code(), Some(7), "{way:?}: {said}");
    }
}

#[test]
fn every_family_does_its_work() {
    let Some(drive) = free_drive() else { return };
    if !build("families.c", &drive.path().join("temp/families.exe"), &[])
        || !build("hello.c", &drive.path().join("temp/hello.exe"), &[])
    {
        return;
    }
    let expected = [
        "wait 0 counter 40000 local 5 codes 105 106 107 108",
        "exception address 0000000000000000",
        "stack 150",
        "apc 9",
        "sleep c0",
        "timeout 102",
        "read 4 file size 10",
        "any case Jello",
        "moved 1",
        "found moved.txt",
        "deleted 1",
        "gone 1",
        "registry 0 text",
        "argument [from the parent]",
        "module C:\\temp\\hello.exe",
        "variable (none)",
        "child 7",
    ];
    for way in WAYS {
        let output = run(drive.path(), way, "C:\\temp\\families.exe", &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text(&output).lines().collect::<Vec<_>>(), expected, "{way:?}: {said}");
        assert_eq!(output.status.code(), Some(33), "{way:?}: {said}");
    }
}

#[test]
fn a_trace_shows_decoded_arguments_and_statuses() {
    let Some(drive) = free_drive() else { return };
    if !build("hello.c", &drive.path().join("temp/hello.exe"), &[]) {
        return;
    }
    let output = run(drive.path(), &["--trace=NtOpenKey"], "C:\\temp\\hello.exe", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("NtOpenKey(") && said.contains("\\\\Registry\\\\Machine") && said.contains("= SUCCESS"),
        "{said}"
    );
    assert!(!said.contains("NtClose("), "{said}");
}
