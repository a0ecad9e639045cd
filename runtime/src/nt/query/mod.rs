// SPDX-License-Identifier: GPL-3.0-or-later
//! Information classes of the system, of processes and of threads. Each service names the classes that it serves in a
//! constant that the table shows; a class that it does not serve fails and is logged once.

mod process;
mod system;
mod thread;

pub(super) use process::{QUERY_CLASSES as PROCESS_CLASSES, query_information_process};
pub(super) use system::{
    EX_CLASSES as SYSTEM_EX_CLASSES, QUERY_CLASSES as SYSTEM_CLASSES, query_system_information,
    query_system_information_ex,
};
pub(super) use thread::{QUERY_CLASSES as THREAD_CLASSES, query_information_thread};

/// Little-endian fields at offsets in a block of zeros.
fn block(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (offset, field) in fields {
        bytes[*offset..*offset + field.len()].copy_from_slice(field);
    }
    bytes
}
