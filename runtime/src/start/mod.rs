// SPDX-License-Identifier: GPL-3.0-or-later
//! From a program file to a running process: host, memory, ntdll, program, PEB and parameters, first thread.
//!
//! One process of the host holds one NT process, so what is started here stays until the host process ends.

pub mod child;
mod launch;
mod parameters;
mod peb;
mod shared_data;

use std::fs::File;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub(crate) use launch::SharedLaunch;
pub use launch::{Launch, StartError};

use crate::arch;
use crate::flavor::Flavor;
use crate::image::{Export, ImageHeaders, LearnedService, exports, learn_services, map_image, rewrite_stub};
use crate::linux::{LinuxClock, LinuxPages, LinuxRandom};
use crate::nt::file::{Drives, FileObject, Writing};
use crate::nt::memory::protect;
use crate::nt::registry::Registry;
use crate::nt::section::image_information;
use crate::nt::thread::{Thread, create_thread, initial_context};
use crate::nt::{EntryPoints, Host, Log, Process, ProcessImage, ServiceMap};
use crate::object::{Body, Object, Sync};
use crate::status::Status;
use crate::uaccess::ProcessMemory;

static SHARED: OnceLock<SharedLaunch> = OnceLock::new();

/// What a child of the process that runs here starts from.
pub(crate) fn shared_launch() -> Option<SharedLaunch> {
    SHARED.get().cloned()
}

static RUNNING: OnceLock<&'static Process> = OnceLock::new();

/// The process that runs here.
pub(crate) fn running() -> Option<&'static Process> {
    RUNNING.get().copied()
}

/// Ends the host process with the NT process, if one runs (a test's fake process has none).
pub(crate) fn end_process(code: u32) {
    if running().is_some() {
        child::report(code);
        crate::linux::exit_now(code);
    }
}

fn prepare(what: &'static str) -> impl Fn(Status) -> StartError {
    move |status| StartError::Prepare { what, status }
}

struct Loaded {
    path: String,
    file: File,
    headers: ImageHeaders,
}

fn load(path: String, file: File) -> Result<Loaded, StartError> {
    match ImageHeaders::parse(&file) {
        Ok(headers) => Ok(Loaded { path, file, headers }),
        Err(source) => Err(StartError::Image { path, source }),
    }
}

/// The program by its Windows path, or by a host path that lies in a drive.
fn find_program(drives: &Drives, asked: &str) -> Result<Loaded, StartError> {
    let missing = || StartError::NoProgram { path: asked.to_owned() };
    let windows = match asked.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => asked.replace('/', "\\"),
        _ => {
            let host = Path::new(asked).canonicalize().map_err(|_| missing())?;
            drives.windows_path(&host).ok_or_else(missing)?
        }
    };
    let letter = windows.chars().next().ok_or_else(missing)?;
    let components: Vec<&str> = windows[2..].split('\\').filter(|part| !part.is_empty()).collect();
    let volume = drives.get(letter).ok_or_else(missing)?;
    let file = volume.open_existing(&components).ok_or_else(missing)?;
    load(windows, file)
}

/// The world's ntdll with what was learned from it.
struct Ntdll {
    loaded: Loaded,
    exports: Vec<Export>,
    services: Vec<LearnedService>,
}

fn find_ntdll(drives: &Drives) -> Result<Option<Ntdll>, StartError> {
    let place = ["Windows", "System32", "ntdll.dll"];
    let Some(file) = drives.get('C').and_then(|volume| volume.open_existing(&place)) else {
        return Ok(None);
    };
    let loaded = load("C:\\Windows\\System32\\ntdll.dll".to_owned(), file)?;
    let bad = |source| StartError::Image {
        path: loaded.path.clone(),
        source,
    };
    let exports = exports(&loaded.file, &loaded.headers).map_err(bad)?;
    let services = learn_services(&loaded.file, &loaded.headers, &exports).map_err(bad)?;
    Ok(Some(Ntdll {
        loaded,
        exports,
        services,
    }))
}

/// Starts the program on this thread and gives its 32-bit exit status when its first thread was also its last; when the
/// program ends itself, the host process ends with the low 8 bits of its status and this function does not return.
///
/// # Errors
/// [`StartError`].
pub fn run(launch: Launch) -> Result<u32, StartError> {
    let mut launch = launch;
    if launch.log_descriptor.is_none() {
        // Not closed by exec: children write to it too.
        launch.log_descriptor = rustix::io::dup(std::io::stderr()).ok().map(IntoRawFd::into_raw_fd);
    }
    let to: Box<dyn Write + Send> = match launch.log_descriptor {
        Some(descriptor) => Box::new(crate::linux::DescriptorWriter(descriptor)),
        None => Box::new(std::io::sink()),
    };
    let _ = SHARED.set(SharedLaunch::of(&launch));
    let mut drives = Drives::default();
    let all = std::iter::once(&('C', launch.files.clone()))
        .chain(&launch.maps)
        .cloned()
        .collect::<Vec<_>>();
    for (letter, path) in all {
        // Maps are the person's own directories.
        let writing = if letter == 'C' {
            launch.writing
        } else {
            Writing::Allowed
        };
        drives
            .map(letter, &path, writing)
            .map_err(|source| StartError::Drive { letter, path, source })?;
    }
    let program = find_program(&drives, &launch.program)?;
    let ntdll = find_ntdll(&drives)?;
    let bad = |source| StartError::Image {
        path: program.path.clone(),
        source,
    };
    if ntdll.is_none() && program.headers.imports_anything(&program.file).map_err(bad)? {
        return Err(StartError::NoNtdll { path: program.path });
    }
    let flavor = ntdll.as_ref().map_or(Flavor::None, |ntdll| Flavor::of(&ntdll.exports));
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(64).min(64));
    let host = Host {
        memory: Box::new(ProcessMemory),
        clock: Box::new(LinuxClock),
        random: Box::new(LinuxRandom),
        move_images: launch.move_images,
        processors,
    };
    let registry = Registry::with_minimum().map_err(prepare("the registry"))?;
    let log = Log::new(to, launch.trace);
    let id = std::process::id().wrapping_mul(4);
    let process = Process::new(id, host, Box::new(LinuxPages::default()), drives, registry, flavor, log);
    // The process lives as long as the host process.
    let process: &'static Process = Box::leak(Box::new(process));
    RUNNING.set(process).map_err(|_| StartError::Running)?;
    arch::install_signals(process).map_err(|source| StartError::Host {
        what: "install signal handlers",
        source,
    })?;

    let system_call = if launch.raw_syscalls {
        0
    } else {
        flavor.system_call_byte()
    };
    shared_data::map(process, system_call).map_err(prepare("KUSER_SHARED_DATA"))?;
    if let Some(ntdll) = &ntdll {
        let rewrite = launch.rewrite_stubs || system_call == 0 && !launch.raw_syscalls;
        map_ntdll(process, ntdll, rewrite)?;
    } else {
        // A program without an ntdll carries the numbers of this table itself.
        let _ = process.services.set(ServiceMap::new(&crate::nt::table::own_numbers()));
    }
    let Loaded { path, file, headers } = program;
    let moved = process.host.move_images;
    let mapped = map_image(
        &process.space,
        &ProcessMemory,
        &file,
        &headers,
        &Arc::from(path.as_str()),
        moved,
    )
    .map_err(|source| StartError::Image {
        path: path.clone(),
        source,
    })?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let standard = standard_handles(process)?;
    let command = parameters::Parameters {
        image: launch.image_path.as_deref().unwrap_or(&path),
        command_line: launch
            .command_line
            .unwrap_or_else(|| parameters::command_line(&path, &launch.arguments)),
        current_directory: launch
            .current_directory
            .unwrap_or_else(|| parameters::directory_of(&path)),
        environment: &launch.environment,
        whole_environment: launch.whole_environment,
        standard,
    };
    let parameters = command.write(process).map_err(prepare("the process parameters"))?;
    let peb = peb::write(process, mapped.base, parameters, &headers).map_err(prepare("the PEB"))?;
    let stack_bytes = headers.stack_reserve;
    let information = image_information(&headers, mapped.base, bytes);
    let _ = process.image.set(ProcessImage {
        path,
        information,
        stack_bytes,
        peb,
    });

    let entry = if headers.entry_point == 0 {
        0
    } else {
        mapped.base + u64::from(headers.entry_point)
    };
    let object = create_thread(process, entry, stack_bytes, false, peb).map_err(prepare("the first thread"))?;
    let Body::Thread(thread) = &object.body else {
        return Err(prepare("the first thread")(Status::INTERNAL_ERROR));
    };
    let code = run_thread(process, thread, peb).map_err(|source| StartError::Host {
        what: "run the first thread",
        source,
    })?;
    if process.thread_ended(thread, code) {
        return Ok(process.exit_code().unwrap_or(code));
    }
    drop(object);
    // Other threads go on: whoever is last ends the process.
    loop {
        std::thread::park();
    }
}

fn map_ntdll(process: &'static Process, ntdll: &Ntdll, rewrite: bool) -> Result<(), StartError> {
    let Ntdll {
        loaded,
        exports,
        services,
    } = ntdll;
    let memory = &ProcessMemory;
    let mapped = map_image(
        &process.space,
        memory,
        &loaded.file,
        &loaded.headers,
        &Arc::from(loaded.path.as_str()),
        process.host.move_images,
    )
    .map_err(|source| StartError::Image {
        path: loaded.path.clone(),
        source,
    })?;
    let find = |name: &str| {
        exports
            .iter()
            .find(|export| export.name == name)
            .map_or(0, |export| mapped.base + u64::from(export.rva))
    };
    let entry = EntryPoints {
        ntdll: mapped.base,
        loader: find("LdrInitializeThunk"),
        thread_start: find("RtlUserThreadStart"),
        apc: find("KiUserApcDispatcher"),
        exception: find("KiUserExceptionDispatcher"),
    };
    process
        .flavor
        .prepare_ntdll(memory, mapped.base, exports)
        .map_err(prepare("ntdll"))?;
    if rewrite {
        rewrite_stubs(process, mapped.base, services).map_err(prepare("ntdll's stubs"))?;
    }
    let _ = process.services.set(ServiceMap::new(services));
    let _ = process.entry_points.set(entry);
    Ok(())
}

/// Turns every stub into a direct call; their pages are made writable once, not one by one.
fn rewrite_stubs(process: &Process, base: u64, services: &[LearnedService]) -> Result<(), Status> {
    let low = services.iter().map(|service| service.rva).min();
    let high = services.iter().map(|service| service.rva).max();
    let (Some(low), Some(high)) = (low, high) else {
        return Ok(());
    };
    let (start, size) = (base + u64::from(low), u64::from(high - low) + 32);
    let before = process.space.protect(start, size, protect::EXECUTE_READWRITE)?;
    for service in services {
        rewrite_stub(&ProcessMemory, base + u64::from(service.rva), service.kind)?;
    }
    process.space.protect(start, size, before)?;
    Ok(())
}

/// Handles to the host's standard streams.
fn standard_handles(process: &Process) -> Result<[u64; 3], StartError> {
    use std::os::fd::AsFd;
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let mut handles = [0; 3];
    for (handle, fd) in handles.iter_mut().zip([input.as_fd(), output.as_fd(), error.as_fd()]) {
        let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(fd, 3) else {
            continue;
        };
        let sync = Sync::Event {
            manual: true,
            signalled: true,
        };
        let file = FileObject::stream(File::from(copy), "\\Device\\Stream");
        let object = Object::new(&process.dispatcher, Body::File(file), Some(sync));
        *handle = process
            .handles
            .insert(object, 0x12_019f, true)
            .map_err(prepare("the standard handles"))?;
    }
    Ok(handles)
}

fn run_thread(process: &Process, thread: &Arc<Thread>, argument: u64) -> std::io::Result<u32> {
    thread.stop_if_suspended();
    let context =
        initial_context(process, thread, argument).map_err(|status| std::io::Error::other(status.to_string()))?;
    crate::nt::set_current_thread(Arc::clone(thread));
    arch::run_thread(thread.teb, thread.id as usize, &context)
}

/// Starts a further thread of the program.
pub(crate) fn start_thread(process: &'static Process, thread: Arc<Thread>, argument: u64) -> std::io::Result<()> {
    arch::start_helper_thread("nt-thread", move || {
        let code = match run_thread(process, &thread, argument) {
            Ok(code) => code,
            Err(error) => {
                process.log.line(&format!("a thread could not run: {error}"));
                Status::UNSUCCESSFUL.0
            }
        };
        if process.thread_ended(&thread, code) {
            end_process(process.exit_code().unwrap_or(code));
        }
    })
}

/// The names of the world's win32u services, none of which is served; empty without a win32u.
pub(crate) fn win32u_services(process: &Process) -> ServiceMap {
    let volume = process.drives.get('C');
    let file = volume.and_then(|volume| volume.open_existing(&["Windows", "System32", "win32u.dll"]));
    let learned = file.and_then(|file| {
        let headers = ImageHeaders::parse(&file).ok()?;
        let exports = exports(&file, &headers).ok()?;
        learn_services(&file, &headers, &exports).ok()
    });
    ServiceMap::new(&learned.unwrap_or_default())
}

/// The services that an ntdll (or win32u) file has.
///
/// # Errors
/// [`StartError::Image`], [`StartError::Host`].
pub fn services_of(path: &Path) -> Result<Vec<LearnedService>, StartError> {
    let file = File::open(path).map_err(|source| StartError::Host {
        what: "open the file",
        source,
    })?;
    let bad = |source| StartError::Image {
        path: path.display().to_string(),
        source,
    };
    let headers = ImageHeaders::parse(&file).map_err(bad)?;
    let exports = exports(&file, &headers).map_err(bad)?;
    learn_services(&file, &headers, &exports).map_err(bad)
}
