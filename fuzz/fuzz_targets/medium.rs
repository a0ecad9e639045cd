// SPDX-License-Identifier: GPL-3.0-or-later
//! ISO 9660, Joliet, Rock Ridge and UDF: opens the bytes as a medium, lists all of it, reads the start of each file.
#![no_main]

use std::io::Write;
use std::os::fd::AsRawFd;

use libfuzzer_sys::fuzz_target;
use vodka_decant::medium::Medium;

fuzz_target!(|bytes: &[u8]| {
    // A medium is opened by its path: an unnamed file in memory has one.
    let Ok(descriptor) = rustix::fs::memfd_create("medium", rustix::fs::MemfdFlags::CLOEXEC) else { return };
    let mut file = std::fs::File::from(descriptor);
    if file.write_all(bytes).is_err() {
        return;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let Ok(medium) = Medium::open(path.as_ref()) else { return };
    let mut buffer = [0; 4096];
    for entry in medium.walk().take(10_000).flatten() {
        if let Ok(file) = medium.open_file(&entry) {
            let length = usize::try_from(file.len_bytes()).unwrap_or(usize::MAX).min(buffer.len());
            let _ = file.read_exact_at(&mut buffer[..length], 0);
            let _ = file.read_exact_at(&mut buffer[..length], file.len_bytes().saturating_sub(length as u64));
        }
    }
    let _ = medium.windows_sources();
});
