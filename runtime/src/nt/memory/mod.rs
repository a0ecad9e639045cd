// SPDX-License-Identifier: GPL-3.0-or-later
//! Virtual memory: the address space and its services.

pub(crate) mod protect;
mod runs;
pub(crate) mod services;
mod space;

pub use space::{AddressSpace, BasicInformation, GRANULARITY, Kind, PAGE, PageFault, Place, USER_END};
