// SPDX-License-Identifier: GPL-3.0-or-later
//! A registry hive: walked strictly and past damage, then rebuilt.
#![no_main]

use hive::{Hive, Strictness, WriteOptions, count, rebuild};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(hive) = Hive::open(bytes) {
        if let Ok(root) = hive.root() {
            let _ = count(root, Strictness::Strict);
        }
        let _ = rebuild(&hive, &WriteOptions::default());
    }
    if let Ok((hive, _)) = Hive::open_damaged(bytes) {
        if let Ok(root) = hive.root() {
            let _ = count(root, Strictness::WalkOn);
        }
    }
});
