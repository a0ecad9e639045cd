// SPDX-License-Identifier: GPL-3.0-or-later
//! The registry's services.
//!
//! Today the keys live in this process and end with it (`store`): the world's `registry.hiv`, through the `hive` crate,
//! takes that module's place. Security, links and notification are not served yet.

mod services;
mod store;

use std::sync::Arc;

pub(super) use services::{
    KEY_CLASSES, VALUE_CLASSES, create_key, delete_key, delete_value_key, enumerate_key, enumerate_value_key,
    flush_key, notify_change_key, open_key, open_key_ex, query_key, query_multiple_value_key, query_value_key,
    set_value_key,
};
pub use store::{KeyNode, Registry, Value};

/// An open key.
pub struct KeyObject {
    /// Its full path, as it was opened.
    pub path: String,
    /// The key.
    pub node: Arc<KeyNode>,
}
