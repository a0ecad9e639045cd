// SPDX-License-Identifier: GPL-3.0-or-later
//! A world's `world.conf`, which another machine may have written.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use overlay::WorldConf;

fuzz_target!(|text: &str| {
    if let Ok(conf) = WorldConf::parse(text, Path::new("world.conf"))
        && let Ok(written) = conf.to_text()
    {
        let again = WorldConf::parse(&written, Path::new("world.conf")).expect("what we write, we read");
        assert_eq!(again, conf);
    }
});
