// SPDX-License-Identifier: GPL-3.0-or-later
//! The NT services: what they are ([`table`]), how a call reaches one (`dispatch`), and one module for each family.
//! Handlers are plain functions on a [`Call`]; they reach the host only through [`vdk`](crate::vdk) and the standard
//! library, so a test runs them against a fake host with no program in memory.

mod call;
mod dispatch;
pub mod file;
mod io_completion;
mod locale;
pub mod memory;
mod misc;
mod object_services;
pub mod process;
mod process_create;
mod process_state;
mod query;
pub mod registry;
pub mod section;
mod strings;
mod synchronization;
pub mod table;
#[cfg(test)]
mod tests;
pub mod thread;
mod time;
mod token;
mod trace;

pub use call::{Call, Handler, ServiceResult};
pub(crate) use dispatch::set_current_thread;
pub use dispatch::{ServiceMap, serve_call};
pub use process_state::{EntryPoints, Host, Process, ProcessImage};
pub use time::PERFORMANCE_FREQUENCY;
pub use trace::{Log, TraceFilter};
