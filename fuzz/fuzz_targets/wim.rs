// SPDX-License-Identifier: GPL-3.0-or-later
//! A whole WIM: header, XML, blob table, metadata of each image, the first blobs' bytes.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use vodka_decant::wim::Wim;

fuzz_target!(|bytes: &[u8]| {
    let Ok(wim) = Wim::open(Arc::new(bytes.to_vec())) else { return };
    if let Ok(info) = wim.info() {
        for image in info.images.iter().take(8) {
            if let Ok(metadata) = wim.metadata(image.index) {
                for dentry in metadata.walk() {
                    let _ = metadata.path(dentry);
                }
            }
        }
    }
    if let Ok(blobs) = wim.blobs() {
        for (blob, _) in blobs.iter().take(64) {
            let _ = wim.read_blob(blob, 1 << 20);
        }
    }
});
