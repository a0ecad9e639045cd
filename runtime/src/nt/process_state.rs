// SPDX-License-Identifier: GPL-3.0-or-later
//! Everything that belongs to the process that we run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::dispatch::ServiceMap;
use super::file::{Drives, Pipes};
use super::memory::AddressSpace;
use super::process::ProcessObject;
use super::registry::Registry;
use super::thread::Thread;
use super::trace::Log;
use crate::flavor::Flavor;
use crate::object::{Body, Dispatcher, Handle, HandleTable, Namespace, Object, Sync};
use crate::status::Status;
use crate::vdk::{Clock, Memory, Pages, Random};

/// The host under a process.
pub struct Host {
    /// Its memory.
    pub memory: Box<dyn Memory>,
    /// Its clocks.
    pub clock: Box<dyn Clock>,
    /// Its random bytes.
    pub random: Box<dyn Random>,
    /// Whether every image is moved off its own base (a test of relocation).
    pub move_images: bool,
    /// How many processors the program may use, 1 to 64.
    pub processors: u32,
}

/// Where the runtime enters ntdll.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryPoints {
    /// ntdll's base.
    pub ntdll: u64,
    /// `LdrInitializeThunk`: where every thread begins.
    pub loader: u64,
    /// `RtlUserThreadStart`: where the loader goes on.
    pub thread_start: u64,
    /// `KiUserApcDispatcher`.
    pub apc: u64,
    /// `KiUserExceptionDispatcher`.
    pub exception: u64,
}

/// The program, for the queries that ask about it.
#[derive(Debug, Clone, Default)]
pub struct ProcessImage {
    /// Its Windows path (`C:\…`).
    pub path: String,
    /// Its SECTION_IMAGE_INFORMATION.
    pub information: Vec<u8>,
    /// The stack that its header asks for, in bytes.
    pub stack_bytes: u64,
    /// The PEB.
    pub peb: u64,
}

/// The process.
pub struct Process {
    /// Its id: a multiple of four.
    pub id: u32,
    /// The host.
    pub host: Host,
    /// Its memory map.
    pub space: AddressSpace,
    /// Its handles.
    pub handles: HandleTable,
    /// Its waits.
    pub dispatcher: Arc<Dispatcher>,
    /// Object names.
    pub names: Namespace,
    /// Its drive letters.
    pub drives: Drives,
    /// Its named pipes.
    pub pipes: Pipes,
    /// The registry.
    pub registry: Registry,
    /// Its ntdll's quirks.
    pub flavor: Flavor,
    /// Where unserved services and traces go.
    pub log: Log,
    /// The object that stands for it.
    pub object: Arc<Object>,
    /// Known once ntdll is mapped.
    pub services: OnceLock<ServiceMap>,
    /// win32u's, read when the first of them is called.
    pub win32u: OnceLock<ServiceMap>,
    /// Known once ntdll is mapped.
    pub entry_points: OnceLock<EntryPoints>,
    /// Known once the program is mapped.
    pub image: OnceLock<ProcessImage>,
    threads: Mutex<HashMap<u32, Arc<Object>>>,
    next_thread: AtomicU32,
    exit: OnceLock<u32>,
    keyed_event: OnceLock<Arc<Object>>,
}

impl Process {
    /// A process with no program yet.
    #[must_use]
    pub fn new(
        id: u32,
        host: Host,
        pages: Box<dyn Pages>,
        drives: Drives,
        registry: Registry,
        flavor: Flavor,
        log: Log,
    ) -> Self {
        let dispatcher = Arc::new(Dispatcher::default());
        let sync = Sync::Event {
            manual: true,
            signalled: false,
        };
        let object = Object::new(&dispatcher, Body::Process(ProcessObject::own(id)), Some(sync));
        Self {
            id,
            host,
            space: AddressSpace::new(pages),
            handles: HandleTable::default(),
            dispatcher,
            names: Namespace::default(),
            drives,
            pipes: Pipes::default(),
            registry,
            flavor,
            log,
            object,
            services: OnceLock::new(),
            win32u: OnceLock::new(),
            entry_points: OnceLock::new(),
            image: OnceLock::new(),
            threads: Mutex::default(),
            next_thread: AtomicU32::new(id + 4),
            exit: OnceLock::new(),
            keyed_event: OnceLock::new(),
        }
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<u32, Arc<Object>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread id that no thread of this process had.
    pub fn new_thread_id(&self) -> u32 {
        self.next_thread.fetch_add(4, Ordering::Relaxed)
    }

    /// Notes a thread that will run.
    pub fn add_thread(&self, thread: Arc<Thread>) -> Arc<Object> {
        let id = thread.id;
        let sync = Sync::Event {
            manual: true,
            signalled: false,
        };
        let object = Object::new(&self.dispatcher, Body::Thread(thread), Some(sync));
        self.threads().insert(id, Arc::clone(&object));
        object
    }

    /// A thread ended with `code`; true when it was the last.
    pub fn thread_ended(&self, thread: &Thread, code: u32) -> bool {
        thread.set_exit_code(code);
        self.dispatcher.thread_ended(thread.id);
        let (object, last) = {
            let mut threads = self.threads();
            (threads.remove(&thread.id), threads.is_empty())
        };
        if let Some(sync) = object.and_then(|object| object.sync) {
            // The object is alive here.
            let _ = self.dispatcher.set_event(sync);
        }
        last
    }

    /// How many threads run.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        self.threads().len()
    }

    /// The object of a running thread.
    #[must_use]
    pub fn thread_object(&self, id: u32) -> Option<Arc<Object>> {
        self.threads().get(&id).cloned()
    }

    /// The ids of the running threads, ascending.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.threads().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The object of a handle, or of the pseudo handles −1 (this process) and −2 (this thread).
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    pub fn object(&self, thread: &Thread, handle: Handle) -> Result<Arc<Object>, Status> {
        match handle.cast_signed() {
            -1 => Ok(Arc::clone(&self.object)),
            -2 => self.thread_object(thread.id).ok_or(Status::INVALID_HANDLE),
            _ => self.handles.object(handle),
        }
    }

    /// The keyed event behind a null handle.
    pub(super) fn system_keyed_event(&self) -> Result<Arc<Object>, Status> {
        let make = || Object::new(&self.dispatcher, Body::KeyedEvent, Some(Sync::Keyed));
        Ok(Arc::clone(self.keyed_event.get_or_init(make)))
    }

    /// Notes how the process ends; the first one counts.
    pub fn set_exit_code(&self, code: u32) {
        let _ = self.exit.set(code);
    }

    /// How the process ended.
    #[must_use]
    pub fn exit_code(&self) -> Option<u32> {
        self.exit.get().copied()
    }

    /// `module+0x123` for an address inside an image.
    #[must_use]
    pub fn describe_address(&self, address: u64) -> String {
        match self.space.name_at(address) {
            Some((base, name)) => {
                let module = name.rsplit('\\').next().unwrap_or(&name);
                format!("{module}+{:#x}", address - base)
            }
            None => format!("{address:#x}"),
        }
    }
}
