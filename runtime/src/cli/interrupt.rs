// SPDX-License-Identifier: GPL-3.0-or-later
//! Ctrl-C and SIGTERM: the first asks the work to stop at a safe place, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::ExitCode;

/// A flag that the first SIGINT or SIGTERM sets. Work polls it where stopping loses nothing.
///
/// # Errors
/// When the host refuses the signal handlers.
pub fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: on the second signal the flag is already set, and this one ends the process.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(ExitCode::Interrupted.number()),
            Arc::clone(&flag),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
