// SPDX-License-Identifier: GPL-3.0-or-later
//! A dirty hive and its log. The first four bytes are the length of the hive; the log follows it.
#![no_main]

use hive::{Hive, Strictness, count};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX).min(rest.len());
    let (primary, log) = rest.split_at(length);
    if let Ok((whole, _)) = hive::log::recover(primary, &[log, &[]])
        && let Ok(hive) = Hive::open(&whole)
        && let Ok(root) = hive.root()
    {
        let _ = count(root, Strictness::Strict);
    }
});
