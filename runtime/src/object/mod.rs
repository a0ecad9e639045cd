// SPDX-License-Identifier: GPL-3.0-or-later
//! Objects, the handles that name them in a process, and their names in the object namespace. No `unsafe` today.
//!
//! Today all of it belongs to one process. Everything that two processes of a world will share goes through
//! [`Dispatcher`]'s methods, which know objects only by [`SyncId`]: the world's shared arena can take its place.

mod alerts;
mod dispatcher;
mod handles;
mod names;
mod ports;

use std::sync::{Arc, OnceLock};

pub use dispatcher::{Apc, Dispatcher, Sync, SyncId, Timeout};
pub use handles::{Handle, HandleEntry, HandleTable};
pub use names::{Namespace, upcase};
pub use ports::Packet;

use crate::nt;

/// What an object is.
#[allow(missing_docs, reason = "each variant is the NT object type of its name")]
pub enum Body {
    Event,
    Semaphore,
    Mutant,
    Timer,
    IoCompletion,
    KeyedEvent,
    Directory,
    SymbolicLink(String),
    Process(nt::process::ProcessObject),
    Thread(Arc<nt::thread::Thread>),
    /// The first thread of a child process.
    ChildThread(Arc<nt::process::ChildProcess>),
    File(nt::file::FileObject),
    Section(nt::section::Section),
    Key(nt::registry::KeyObject),
    Token,
}

/// One NT object.
pub struct Object {
    /// What it is.
    pub body: Body,
    /// Its wait state, for those that have one.
    pub sync: Option<SyncId>,
    dispatcher: Arc<Dispatcher>,
    name: OnceLock<String>,
}

impl Object {
    /// A new object without a name.
    #[must_use]
    pub fn new(dispatcher: &Arc<Dispatcher>, body: Body, sync: Option<Sync>) -> Arc<Self> {
        let sync = sync.map(|sync| dispatcher.create(sync));
        Arc::new(Self {
            body,
            sync,
            dispatcher: Arc::clone(dispatcher),
            name: OnceLock::new(),
        })
    }

    /// Its full name in the namespace, when it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }

    /// The type's name, as `NtQueryObject` gives it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match &self.body {
            Body::Event => "Event",
            Body::Semaphore => "Semaphore",
            Body::Mutant => "Mutant",
            Body::Timer => "Timer",
            Body::IoCompletion => "IoCompletion",
            Body::KeyedEvent => "KeyedEvent",
            Body::Directory => "Directory",
            Body::SymbolicLink(_) => "SymbolicLink",
            Body::Process(_) => "Process",
            Body::Thread(_) | Body::ChildThread(_) => "Thread",
            Body::File(_) => "File",
            Body::Section(_) => "Section",
            Body::Key(_) => "Key",
            Body::Token => "Token",
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(sync) = self.sync {
            self.dispatcher.free(sync);
        }
    }
}
