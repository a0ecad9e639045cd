// SPDX-License-Identifier: GPL-3.0-or-later
//! The XML of a WIM, behind a header that says where it is.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use vodka_decant::wim::Wim;

fuzz_target!(|xml: &[u8]| {
    let mut wim = vec![0; 208];
    wim[..8].copy_from_slice(b"MSWIM\0\0\0");
    wim[8..12].copy_from_slice(&208_u32.to_le_bytes());
    wim[12..16].copy_from_slice(&0x10d00_u32.to_le_bytes());
    wim[40..44].copy_from_slice(&[1, 0, 1, 0]);
    wim[44..48].copy_from_slice(&1_u32.to_le_bytes());
    // The XML resource: its length (and no flags), its place, its length again.
    for (at, number) in [(72, xml.len() as u64), (80, 208), (88, xml.len() as u64)] {
        wim[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    wim.extend_from_slice(xml);
    let Ok(wim) = Wim::open(Arc::new(wim)) else { return };
    if let Ok(info) = wim.info() {
        for image in &info.images {
            let _ = (image.label(), image.shown_name(), image.kind(), image.room_bytes());
        }
    }
});
