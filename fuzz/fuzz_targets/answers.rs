// SPDX-License-Identifier: GPL-3.0-or-later
//! An answer file (unattend.xml) that a person gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vodka_decant::answers::{AnswerFile, Architecture};

fuzz_target!(|bytes: &[u8]| {
    let _ = AnswerFile::check(bytes.to_vec(), "fuzzed.xml", Architecture::Amd64);
});
