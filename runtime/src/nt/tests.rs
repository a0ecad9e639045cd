// SPDX-License-Identifier: GPL-3.0-or-later
//! Services called through the dispatcher on a fake host: no program, no ntdll, no memory but a vector.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::file::Drives;
use super::registry::Registry;
use super::table::{self, own_numbers};
use super::thread::Thread;
use super::{Host, Log, Process, ServiceMap, TraceFilter, serve_call};
use crate::arch::{Frame, Outcome};
use crate::flavor::Flavor;
use crate::status::Status;
use crate::vdk::fake::{FakeClock, FakeMemory, FakePages, SeededRandom};
use crate::vdk::{Clock, MemoryExt};

/// A log that a test can read.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic while writing").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct SharedClock(Arc<FakeClock>);

impl Clock for SharedClock {
    fn system_time(&self) -> u64 {
        self.0.system_time()
    }
    fn monotonic_time(&self) -> u64 {
        self.0.monotonic_time()
    }
}

/// A process on a fake host, with one thread.
struct Fake {
    process: Process,
    thread: Arc<Thread>,
    lines: Lines,
    clock: Arc<FakeClock>,
    drive: tempfile::TempDir,
}

const STACK: u64 = FakeMemory::BASE + 0x1000;
/// Where tests put what services read and write; the first page is left for single results.
const DATA: u64 = FakeMemory::BASE + 0x4000;
const BUFFER: u64 = FakeMemory::BASE + 0x8000;
const BUFFER_BYTES: u64 = 0x4000;

impl Fake {
    fn new() -> Self {
        let drive = tempfile::tempdir().expect("a directory");
        let mut drives = Drives::default();
        drives
            .map('C', drive.path(), super::file::Writing::Allowed)
            .expect("opened");
        let clock = Arc::new(FakeClock::at(1_000_000));
        let host = Host {
            memory: Box::new(FakeMemory::new(0x1_0000)),
            clock: Box::new(SharedClock(Arc::clone(&clock))),
            random: Box::new(SeededRandom::new(1)),
            move_images: false,
            processors: 2,
        };
        let lines = Lines::default();
        let log = Log::new(Box::new(lines.clone()), TraceFilter::None);
        let registry = Registry::with_minimum().expect("valid names");
        let process = Process::new(
            400,
            host,
            Box::<FakePages>::default(),
            drives,
            registry,
            Flavor::None,
            log,
        );
        assert!(process.services.set(ServiceMap::new(&own_numbers())).is_ok());
        let thread = Arc::new(Thread::new(404, 0, 0, false));
        process.add_thread(Arc::clone(&thread));
        Self {
            process,
            thread,
            lines,
            clock,
            drive,
        }
    }

    fn outcome(&self, thread: &Arc<Thread>, name: &str, arguments: &[u64]) -> Outcome {
        let number = own_numbers()
            .iter()
            .find(|service| service.name == name)
            .expect("a service with code")
            .number;
        let mut registers = [0; 4];
        for (register, argument) in registers.iter_mut().zip(arguments) {
            *register = *argument;
        }
        for (index, argument) in arguments.iter().enumerate().skip(4) {
            let at = STACK + 0x30 + 8 * (index as u64 - 4);
            self.process.host.memory.put(at, *argument).expect("the stack");
        }
        serve_call(
            &self.process,
            thread,
            &Frame::with_registers(number.into(), registers, STACK),
        )
    }

    fn call(&self, name: &str, arguments: &[u64]) -> Status {
        match self.outcome(&self.thread, name, arguments) {
            Outcome::Return(value) => Status(u32::try_from(value).expect("a status")),
            other => panic!("{name} does not return: {other:?}"),
        }
    }

    fn get<T: zerocopy::FromBytes + zerocopy::IntoBytes>(&self, address: u64) -> T {
        self.process.host.memory.get(address).expect("inside")
    }

    fn put<T: zerocopy::IntoBytes + zerocopy::Immutable>(&self, address: u64, value: T) {
        self.process.host.memory.put(address, value).expect("inside");
    }

    /// A UNICODE_STRING at `address`.
    fn text(&self, address: u64, text: &str) -> u64 {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let length = u16::try_from(units.len()).expect("short");
        self.put(address, [length, length]);
        self.put(address + 8, address + 16);
        self.process.host.memory.write(address + 16, &units).expect("inside");
        address
    }

    /// OBJECT_ATTRIBUTES for a name, at `DATA`.
    fn attributes(&self, name: &str) -> u64 {
        let text = self.text(DATA + 0x100, name);
        self.put(DATA, [48u64, 0, text, 0x40, 0, 0]);
        DATA
    }

    /// What a creating service gives.
    fn made(&self, name: &str, arguments: &[u64]) -> u64 {
        let mut all = vec![FakeMemory::BASE];
        all.extend(arguments);
        assert_eq!(self.call(name, &all), Status::SUCCESS, "{name}");
        self.get(FakeMemory::BASE)
    }
}

const RESULT: u64 = FakeMemory::BASE + 0x100;
const OWN_THREAD: u64 = u64::MAX - 1;
const OWN_PROCESS: u64 = u64::MAX;
const POLL: u64 = FakeMemory::BASE + 0x200;

#[test]
fn closing_takes_a_handle_away_once() {
    let fake = Fake::new();
    let event = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    assert_eq!(fake.call("NtClose", &[event]), Status::SUCCESS);
    assert_eq!(fake.call("NtClose", &[event]), Status::INVALID_HANDLE);
    assert_eq!(fake.call("NtSetEvent", &[event, 0]), Status::INVALID_HANDLE);
    let kept = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    fake.put(RESULT, [0u8, 1]);
    assert_eq!(
        fake.call("NtSetInformationObject", &[kept, 4, RESULT, 2]),
        Status::SUCCESS
    );
    assert_eq!(
        fake.call("NtClose", &[kept]),
        Status(0xc000_0235),
        "protected from close"
    );
}

#[test]
fn two_handles_of_one_object_compare_as_the_same() {
    let fake = Fake::new();
    let event = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    let other = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    assert_eq!(
        fake.call("NtDuplicateObject", &[OWN_PROCESS, event, OWN_PROCESS, RESULT, 0, 0, 2]),
        Status::SUCCESS
    );
    let copy: u64 = fake.get(RESULT);
    assert_ne!(copy, event);
    assert_eq!(fake.call("NtCompareObjects", &[event, copy]), Status::SUCCESS);
    assert_eq!(fake.call("NtCompareObjects", &[event, other]), Status(0xc000_01ac));
    assert_eq!(fake.call("NtCompareObjects", &[event, 0x7770]), Status::INVALID_HANDLE);
}

#[test]
fn an_event_tells_its_state_before_the_change() {
    let fake = Fake::new();
    let event = fake.made("NtCreateEvent", &[3, 0, 1, 0]);
    for (service, before) in [
        ("NtSetEvent", 0u32),
        ("NtSetEvent", 1),
        ("NtResetEvent", 1),
        ("NtResetEvent", 0),
    ] {
        assert_eq!(fake.call(service, &[event, RESULT]), Status::SUCCESS);
        assert_eq!(fake.get::<u32>(RESULT), before, "{service}");
    }
    fake.call("NtSetEvent", &[event, 0]);
    assert_eq!(fake.call("NtQueryEvent", &[event, 0, RESULT, 8, 0]), Status::SUCCESS);
    assert_eq!(fake.get::<[u32; 2]>(RESULT), [1, 1], "a synchronization event, set");
    assert_eq!(
        fake.call("NtQueryEvent", &[event, 0, RESULT, 4, 0]),
        Status::INFO_LENGTH_MISMATCH
    );
    assert_eq!(fake.call("NtClearEvent", &[event]), Status::SUCCESS);
    fake.put(POLL, 0i64);
    assert_eq!(fake.call("NtWaitForSingleObject", &[event, 0, POLL]), Status::TIMEOUT);
    assert_eq!(
        fake.call("NtSetEvent", &[event, 8]),
        Status::ACCESS_VIOLATION,
        "an unwritable result"
    );
    let semaphore = fake.made("NtCreateSemaphore", &[3, 0, 0, 1]);
    assert_eq!(fake.call("NtSetEvent", &[semaphore, 0]), Status::OBJECT_TYPE_MISMATCH);
}

#[test]
fn a_pulse_releases_those_who_wait_and_nobody_later() {
    let fake = Fake::new();
    let event = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    let process = &fake.process;
    let sync = process.handles.object(event).expect("open").sync.expect("a wait state");
    let waited = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let forever = crate::object::Timeout::Forever;
            process
                .dispatcher
                .wait(999, &[sync], false, forever, false, &*process.host.clock)
        });
        // The waiter is there once somebody is registered: a pulse before that would be lost, as documented.
        while process.dispatcher.waiters(sync) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(fake.call("NtPulseEvent", &[event, RESULT]), Status::SUCCESS);
        waiter.join().expect("no panic")
    });
    assert_eq!(waited, Status::SUCCESS);
    fake.put(POLL, 0i64);
    assert_eq!(fake.call("NtWaitForSingleObject", &[event, 0, POLL]), Status::TIMEOUT);
}

#[test]
fn a_semaphore_never_exceeds_its_limit() {
    let fake = Fake::new();
    assert_eq!(
        fake.call("NtCreateSemaphore", &[RESULT, 3, 0, 3, 2]),
        Status::INVALID_PARAMETER
    );
    let semaphore = fake.made("NtCreateSemaphore", &[3, 0, 1, 3]);
    assert_eq!(
        fake.call("NtReleaseSemaphore", &[semaphore, 2, RESULT]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<u32>(RESULT), 1);
    assert_eq!(
        fake.call("NtReleaseSemaphore", &[semaphore, 1, 0]),
        Status::SEMAPHORE_LIMIT_EXCEEDED
    );
    assert_eq!(
        fake.call("NtReleaseSemaphore", &[semaphore, 0, 0]),
        Status::INVALID_PARAMETER
    );
    assert_eq!(
        fake.call("NtQuerySemaphore", &[semaphore, 0, RESULT, 8, 0]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<[u32; 2]>(RESULT), [3, 3]);
    fake.put(POLL, 0i64);
    for expected in [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS, Status::TIMEOUT] {
        assert_eq!(fake.call("NtWaitForSingleObject", &[semaphore, 0, POLL]), expected);
    }
}

#[test]
fn a_mutant_is_released_only_by_its_owner() {
    let fake = Fake::new();
    let mutant = fake.made("NtCreateMutant", &[3, 0, 1]);
    fake.put(POLL, 0i64);
    assert_eq!(
        fake.call("NtWaitForSingleObject", &[mutant, 0, POLL]),
        Status::SUCCESS,
        "again by its owner"
    );
    let other = Arc::new(Thread::new(408, 0, 0, false));
    let by_other = |name, arguments: &[u64]| match fake.outcome(&other, name, arguments) {
        Outcome::Return(value) => Status(u32::try_from(value).expect("a status")),
        _ => Status::INTERNAL_ERROR,
    };
    assert_eq!(by_other("NtReleaseMutant", &[mutant, 0]), Status::MUTANT_NOT_OWNED);
    assert_eq!(by_other("NtWaitForSingleObject", &[mutant, 0, POLL]), Status::TIMEOUT);
    for before in [-1i32, 0] {
        assert_eq!(fake.call("NtReleaseMutant", &[mutant, RESULT]), Status::SUCCESS);
        assert_eq!(fake.get::<u32>(RESULT).cast_signed(), before);
    }
    assert_eq!(fake.call("NtReleaseMutant", &[mutant, 0]), Status::MUTANT_NOT_OWNED);
    assert_eq!(by_other("NtWaitForSingleObject", &[mutant, 0, POLL]), Status::SUCCESS);
    fake.process.dispatcher.thread_ended(other.id);
    assert_eq!(
        fake.call("NtWaitForSingleObject", &[mutant, 0, POLL]),
        Status::ABANDONED_WAIT_0
    );
}

#[test]
fn waiting_for_all_takes_all_or_none() {
    let fake = Fake::new();
    let one = fake.made("NtCreateEvent", &[3, 0, 1, 1]);
    let other = fake.made("NtCreateEvent", &[3, 0, 1, 0]);
    fake.put(DATA, [one, other]);
    fake.put(POLL, 0i64);
    assert_eq!(
        fake.call("NtWaitForMultipleObjects", &[2, DATA, 0, 0, POLL]),
        Status::TIMEOUT
    );
    assert_eq!(fake.call("NtSetEvent", &[other, 0]), Status::SUCCESS);
    assert_eq!(
        fake.call("NtWaitForMultipleObjects", &[2, DATA, 0, 0, POLL]),
        Status::SUCCESS,
        "the first was not taken"
    );
    assert_eq!(
        fake.call("NtWaitForMultipleObjects", &[2, DATA, 1, 0, POLL]),
        Status::TIMEOUT,
        "now both are"
    );
    assert_eq!(fake.call("NtSetEvent", &[other, 0]), Status::SUCCESS);
    assert_eq!(
        fake.call("NtWaitForMultipleObjects", &[2, DATA, 1, 0, POLL]),
        Status::WAIT_1
    );
    assert_eq!(
        fake.call("NtWaitForMultipleObjects", &[65, DATA, 1, 0, POLL]),
        Status::INVALID_PARAMETER_1
    );
}

#[test]
fn a_timer_fires_when_the_clock_says_so() {
    let fake = Fake::new();
    let timer = fake.made("NtCreateTimer", &[3, 0, 1]);
    fake.put(RESULT, -500i64);
    assert_eq!(
        fake.call("NtSetTimer", &[timer, RESULT, 0, 0, 0, 0, 0]),
        Status::SUCCESS
    );
    fake.put(POLL, 0i64);
    assert_eq!(fake.call("NtWaitForSingleObject", &[timer, 0, POLL]), Status::TIMEOUT);
    fake.clock.advance(500);
    assert_eq!(fake.call("NtWaitForSingleObject", &[timer, 0, POLL]), Status::SUCCESS);
    assert_eq!(
        fake.call("NtWaitForSingleObject", &[timer, 0, POLL]),
        Status::TIMEOUT,
        "it fires once"
    );
}

#[test]
fn an_alert_by_id_is_kept_until_it_is_waited_for() {
    let fake = Fake::new();
    fake.put(POLL, 0i64);
    assert_eq!(fake.call("NtWaitForAlertByThreadId", &[0, POLL]), Status::TIMEOUT);
    assert_eq!(fake.call("NtAlertThreadByThreadId", &[404]), Status::SUCCESS);
    assert_eq!(fake.call("NtAlertThreadByThreadId", &[404]), Status::SUCCESS);
    assert_eq!(fake.call("NtWaitForAlertByThreadId", &[0, POLL]), Status::ALERTED);
    assert_eq!(
        fake.call("NtWaitForAlertByThreadId", &[0, POLL]),
        Status::TIMEOUT,
        "two alerts are one"
    );
    assert_eq!(fake.call("NtAlertThreadByThreadId", &[4]), Status::INVALID_CID);
}

#[test]
fn completions_come_out_in_the_order_they_went_in() {
    let fake = Fake::new();
    let port = fake.made("NtCreateIoCompletion", &[3, 0, 0]);
    for value in 1..=3u64 {
        assert_eq!(
            fake.call("NtSetIoCompletion", &[port, 70 + value, value, 0, 9]),
            Status::SUCCESS
        );
    }
    assert_eq!(
        fake.call("NtQueryIoCompletion", &[port, 0, RESULT, 4, 0]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<u32>(RESULT), 3);
    fake.put(POLL, 0i64);
    let status_block = RESULT + 0x20;
    assert_eq!(
        fake.call("NtRemoveIoCompletion", &[port, RESULT, RESULT + 8, status_block, POLL]),
        Status::SUCCESS
    );
    assert_eq!(
        (fake.get::<[u64; 2]>(RESULT), fake.get::<[u64; 2]>(status_block)),
        ([71, 1], [0, 9])
    );
    assert_eq!(
        fake.call("NtRemoveIoCompletionEx", &[port, DATA, 8, RESULT, POLL, 0]),
        Status::SUCCESS
    );
    assert_eq!(
        (
            fake.get::<u32>(RESULT),
            fake.get::<u64>(DATA),
            fake.get::<u64>(DATA + 32)
        ),
        (2, 72, 73)
    );
    assert_eq!(
        fake.call("NtRemoveIoCompletionEx", &[port, DATA, 8, RESULT, POLL, 0]),
        Status::TIMEOUT
    );
    assert_eq!(fake.get::<u32>(RESULT), 0);
}

#[test]
fn clocks_tell_the_hosts_time() {
    let fake = Fake::new();
    assert_eq!(fake.call("NtQuerySystemTime", &[RESULT]), Status::SUCCESS);
    assert_eq!(fake.get::<u64>(RESULT), 1_000_000);
    fake.clock.advance(50_000);
    assert_eq!(
        fake.call("NtQueryPerformanceCounter", &[RESULT, RESULT + 8]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<[u64; 2]>(RESULT), [1_050_000, 10_000_000]);
    assert_eq!(fake.call("NtGetTickCount", &[]), Status(105));
    assert_eq!(
        fake.call("NtQueryTimerResolution", &[RESULT, RESULT + 4, RESULT + 8]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<[u32; 3]>(RESULT), [156_250, 5_000, 10_000]);
    assert_eq!(fake.call("NtQuerySystemTime", &[8]), Status::ACCESS_VIOLATION);
}

#[test]
fn a_displayed_string_reaches_the_log() {
    let fake = Fake::new();
    let text = fake.text(DATA, "checking the disk…");
    assert_eq!(fake.call("NtDisplayString", &[text]), Status::SUCCESS);
    assert_eq!(*fake.lines.0.lock().expect("written"), "checking the disk…".as_bytes());
}

/// Creates or opens a file of C:.
fn open(fake: &Fake, path: &str, access: u64, disposition: u64, options: u64) -> Result<u64, Status> {
    let attributes = fake.attributes(path);
    let arguments = [
        FakeMemory::BASE,
        access,
        attributes,
        RESULT,
        0,
        0x80,
        7,
        disposition,
        options,
        0,
        0,
    ];
    match fake.call("NtCreateFile", &arguments) {
        Status::SUCCESS => Ok(fake.get(FakeMemory::BASE)),
        status => Err(status),
    }
}

const READ_WRITE: u64 = 0x0012_019f;
const SYNCHRONOUS: u64 = 0x20;

#[test]
fn a_flushed_file_is_on_the_disk() {
    let fake = Fake::new();
    let file = open(&fake, "\\??\\C:\\flush.txt", READ_WRITE, 2, SYNCHRONOUS).expect("created");
    fake.put(DATA, *b"contents");
    assert_eq!(
        fake.call("NtWriteFile", &[file, 0, 0, 0, RESULT, DATA, 8, 0, 0]),
        Status::SUCCESS
    );
    assert_eq!(fake.call("NtFlushBuffersFile", &[file, RESULT]), Status::SUCCESS);
    assert_eq!(fake.get::<[u64; 2]>(RESULT), [0, 0]);
    assert_eq!(
        std::fs::read(fake.drive.path().join("flush.txt")).expect("there"),
        b"contents"
    );
    let event = fake.made("NtCreateEvent", &[3, 0, 0, 0]);
    assert_eq!(
        fake.call("NtFlushBuffersFile", &[event, RESULT]),
        Status::OBJECT_TYPE_MISMATCH
    );
}

#[test]
fn every_disposition_does_what_it_says() {
    let fake = Fake::new();
    let path = "\\??\\C:\\File.txt";
    let information = || fake.get::<u64>(RESULT + 8);
    assert_eq!(
        open(&fake, path, READ_WRITE, 1, 0).err(),
        Some(Status::OBJECT_NAME_NOT_FOUND)
    );
    assert_eq!(
        open(&fake, path, READ_WRITE, 4, 0).err(),
        Some(Status::OBJECT_NAME_NOT_FOUND)
    );
    open(&fake, path, READ_WRITE, 2, 0).expect("created");
    assert_eq!(information(), 2);
    assert_eq!(
        open(&fake, path, READ_WRITE, 2, 0).err(),
        Some(Status::OBJECT_NAME_COLLISION)
    );
    std::fs::write(fake.drive.path().join("File.txt"), "x").expect("written");
    open(&fake, "\\??\\c:\\fILE.TXT", READ_WRITE, 3, 0).expect("opened in any case");
    assert_eq!(information(), 1);
    open(&fake, path, READ_WRITE, 5, 0).expect("overwritten");
    assert_eq!(
        (
            information(),
            std::fs::metadata(fake.drive.path().join("File.txt"))
                .expect("there")
                .len()
        ),
        (3, 0)
    );
    assert_eq!(open(&fake, path, READ_WRITE, 1, 1).err(), Some(Status::NOT_A_DIRECTORY));
    open(&fake, "\\??\\C:\\Dir", READ_WRITE, 2, 1).expect("a directory");
    assert_eq!(
        open(&fake, "\\??\\C:\\Dir", READ_WRITE, 1, 0x40).err(),
        Some(Status::FILE_IS_A_DIRECTORY)
    );
    assert_eq!(
        open(&fake, "\\??\\C:\\No\\File", READ_WRITE, 2, 0).err(),
        Some(Status::OBJECT_PATH_NOT_FOUND)
    );
    assert_eq!(
        open(&fake, "\\??\\C:\\..\\x", READ_WRITE, 2, 0).err(),
        Some(Status::OBJECT_NAME_INVALID)
    );
    assert_eq!(
        open(&fake, "\\??\\Q:\\x", READ_WRITE, 2, 0).err(),
        Some(Status::OBJECT_PATH_NOT_FOUND)
    );
}

#[test]
fn a_file_is_renamed_and_deleted_under_its_handle() {
    let fake = Fake::new();
    let file = open(&fake, "\\??\\C:\\old.txt", 0x1_0000 | READ_WRITE, 2, SYNCHRONOUS).expect("created");
    std::fs::write(fake.drive.path().join("taken.txt"), "x").expect("written");
    let rename = |to: &str, replace: u64| {
        let units: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
        fake.put(BUFFER, [replace, 0]);
        fake.put(BUFFER + 16, u32::try_from(units.len()).expect("short"));
        fake.process.host.memory.write(BUFFER + 20, &units).expect("inside");
        fake.call(
            "NtSetInformationFile",
            &[file, RESULT, BUFFER, 20 + units.len() as u64, 10],
        )
    };
    assert_eq!(rename("\\??\\C:\\Taken.txt", 0), Status::OBJECT_NAME_COLLISION);
    assert_eq!(rename("\\??\\C:\\new.txt", 0), Status::SUCCESS);
    assert!(fake.drive.path().join("new.txt").exists() && !fake.drive.path().join("old.txt").exists());
    assert_eq!(rename("\\??\\C:\\NEW.txt", 0), Status::SUCCESS, "only the case changes");
    assert!(fake.drive.path().join("NEW.txt").exists());
    fake.put(BUFFER, 1u8);
    assert_eq!(
        fake.call("NtSetInformationFile", &[file, RESULT, BUFFER, 1, 13]),
        Status::SUCCESS
    );
    assert!(fake.drive.path().join("NEW.txt").exists(), "until the handle is closed");
    assert_eq!(fake.call("NtClose", &[file]), Status::SUCCESS);
    assert!(!fake.drive.path().join("NEW.txt").exists());
}

#[test]
fn a_directory_is_listed_by_pattern_and_to_its_end() {
    let fake = Fake::new();
    for name in ["b.txt", "A.TXT", "c.log"] {
        std::fs::write(fake.drive.path().join(name), "x").expect("written");
    }
    let directory = open(&fake, "\\??\\C:\\", 0x10_0001, 1, 0x21).expect("opened");
    let query = |single: u64, pattern: u64, restart: u64| {
        fake.call(
            "NtQueryDirectoryFile",
            &[
                directory,
                0,
                0,
                0,
                RESULT,
                BUFFER,
                BUFFER_BYTES,
                12,
                single,
                pattern,
                restart,
            ],
        )
    };
    let pattern = fake.text(DATA + 0x800, "*.txt");
    assert_eq!(query(0, pattern, 0), Status::SUCCESS);
    let name = |at: u64| {
        let length: u32 = fake.get(at + 8);
        String::from_utf16(
            &fake
                .process
                .host
                .memory
                .read_units(at + 12, length as usize / 2)
                .expect("inside"),
        )
        .expect("text")
    };
    let next = u64::from(fake.get::<u32>(BUFFER));
    assert_eq!(
        (name(BUFFER), name(BUFFER + next), fake.get::<u32>(BUFFER + next)),
        ("A.TXT".into(), "b.txt".into(), 0)
    );
    assert_eq!(query(0, 0, 0), Status::NO_MORE_FILES);
    assert_eq!(query(1, 0, 1), Status::SUCCESS, "from the start, with the same pattern");
    assert_eq!((name(BUFFER), fake.get::<u32>(BUFFER)), ("A.TXT".into(), 0));
}

#[test]
fn a_value_is_cut_or_refused_by_the_room_for_it() {
    let fake = Fake::new();
    let attributes = fake.attributes("\\Registry\\Machine\\Software\\Test");
    let key = fake.made("NtCreateKey", &[0xf_003f, attributes, 0, 0, 0, RESULT]);
    assert_eq!(fake.get::<u32>(RESULT), 1, "created");
    let name = fake.text(DATA + 0x800, "Value");
    fake.put(BUFFER, *b"datadata");
    assert_eq!(
        fake.call("NtSetValueKey", &[key, name, 0, 3, BUFFER, 8]),
        Status::SUCCESS
    );
    for (room, expected) in [
        (8, Status::BUFFER_TOO_SMALL),
        (16, Status::BUFFER_OVERFLOW),
        (20, Status::SUCCESS),
    ] {
        assert_eq!(
            fake.call("NtQueryValueKey", &[key, name, 2, BUFFER, room, RESULT]),
            expected,
            "{room}"
        );
        assert_eq!(fake.get::<u32>(RESULT), 20);
    }
    assert_eq!(fake.get::<[u8; 8]>(BUFFER + 12), *b"datadata");
    assert_eq!(fake.call("NtDeleteKey", &[key]), Status::SUCCESS);
    assert_eq!(
        fake.call("NtQueryValueKey", &[key, name, 2, BUFFER, 20, RESULT]),
        Status::KEY_DELETED
    );
    assert_eq!(
        fake.call("NtOpenKey", &[FakeMemory::BASE, 1, attributes]),
        Status::OBJECT_NAME_NOT_FOUND
    );
}

#[test]
fn memory_is_reserved_committed_and_given_back() {
    let fake = Fake::new();
    let allocate = |base: u64, size: u64, kind: u64, protection: u64| {
        fake.put(RESULT, [base, size]);
        fake.call(
            "NtAllocateVirtualMemory",
            &[OWN_PROCESS, RESULT, 0, RESULT + 8, kind, protection],
        )
    };
    assert_eq!(allocate(0, 0x1_0001, 0x2000, 4), Status::SUCCESS);
    let [base, size]: [u64; 2] = fake.get(RESULT);
    assert_eq!((base % 0x1_0000, size), (0, 0x1_1000));
    assert_eq!(allocate(base + 0x1800, 0x1000, 0x1000, 4), Status::SUCCESS);
    assert_eq!(fake.get::<[u64; 2]>(RESULT), [base + 0x1000, 0x2000]);
    assert_eq!(allocate(base, 0x1000, 0x1000, 0x1f), Status::INVALID_PAGE_PROTECTION);
    assert_eq!(allocate(base, 0x1000, 0x2000, 4), Status::CONFLICTING_ADDRESSES);
    assert_eq!(allocate(0, 0, 0x2000, 4), Status::INVALID_PARAMETER);
    fake.put(RESULT, [base, 0]);
    assert_eq!(
        fake.call("NtFreeVirtualMemory", &[OWN_PROCESS, RESULT, RESULT + 8, 0x8000]),
        Status::SUCCESS
    );
    assert_eq!(fake.get::<u64>(RESULT + 8), 0x1_1000);
    assert_eq!(fake.process.space.query(base).state, 0x1_0000);
}

#[test]
fn what_is_not_served_says_so_and_is_logged_once() {
    let fake = Fake::new();
    for _ in 0..2 {
        assert_eq!(
            fake.call("NtQuerySystemInformation", &[9999, BUFFER, 8, 0]),
            Status::INVALID_INFO_CLASS
        );
    }
    let log = String::from_utf8(fake.lines.0.lock().expect("written").clone()).expect("text");
    assert_eq!(
        log.matches("NtQuerySystemInformation does not serve class 9999")
            .count(),
        1,
        "{log}"
    );
    let frame = Frame::with_registers(0xfff, [0; 4], STACK);
    match serve_call(&fake.process, &fake.thread, &frame) {
        Outcome::Return(status) => assert_eq!(status, u64::from(Status::INVALID_SYSTEM_SERVICE.0)),
        other => panic!("{other:?}"),
    }
}

/// The table's classes and the code's must be the same: each listed class is known, and no other number near them is.
#[test]
fn the_table_lists_exactly_the_classes_that_are_served() {
    let fake = Fake::new();
    let file = open(&fake, "\\??\\C:\\class.txt", READ_WRITE, 2, SYNCHRONOUS).expect("created");
    let attributes = fake.attributes("\\Registry\\Machine\\Software");
    let key = fake.made("NtOpenKey", &[0xf_003f, attributes]);
    let token = {
        assert_eq!(
            fake.call("NtOpenProcessToken", &[OWN_PROCESS, 8, RESULT]),
            Status::SUCCESS
        );
        fake.get::<u64>(RESULT)
    };
    let length = BUFFER_BYTES;
    type Arguments = Box<dyn Fn(u64) -> Vec<u64>>;
    let services: [(&str, Arguments); 9] = [
        (
            "NtQuerySystemInformation",
            Box::new(move |class| vec![class, BUFFER, length, 0]),
        ),
        (
            "NtQueryInformationProcess",
            Box::new(move |class| vec![OWN_PROCESS, class, BUFFER, length, 0]),
        ),
        (
            "NtQueryInformationThread",
            Box::new(move |class| vec![OWN_THREAD, class, BUFFER, length, 0]),
        ),
        (
            "NtQueryInformationToken",
            Box::new(move |class| vec![token, class, BUFFER, length, RESULT]),
        ),
        (
            "NtQueryInformationFile",
            Box::new(move |class| vec![file, RESULT, BUFFER, length, class]),
        ),
        (
            "NtQueryVolumeInformationFile",
            Box::new(move |class| vec![file, RESULT, BUFFER, length, class]),
        ),
        (
            "NtQueryObject",
            Box::new(move |class| vec![file, class, BUFFER, length, 0]),
        ),
        (
            "NtQueryKey",
            Box::new(move |class| vec![key, class, BUFFER, length, RESULT]),
        ),
        (
            "NtQueryVirtualMemory",
            Box::new(move |class| vec![OWN_PROCESS, 0x1_0000, class, BUFFER, length, 0]),
        ),
    ];
    for (name, arguments) in services {
        let listed = table::find(name).expect("in the table").classes;
        for class in (0..300).chain([1000, 9999]) {
            let status = fake.call(name, &arguments(class));
            let known = status != Status::INVALID_INFO_CLASS;
            // Wine's own classes are refused to a program of another flavor.
            let wine_only = class == 1000;
            let class = u32::try_from(class).expect("small");
            assert!(
                wine_only || known == listed.contains(&class),
                "{name} class {class}: {status}"
            );
        }
    }
}

#[test]
fn an_unreadable_stack_ends_the_call_and_nothing_else() {
    let fake = Fake::new();
    let number = own_numbers()
        .iter()
        .find(|service| service.name == "NtCreateFile")
        .expect("served")
        .number;
    let frame = Frame::with_registers(number.into(), [0; 4], 0x7000_0000);
    match serve_call(&fake.process, &fake.thread, &frame) {
        Outcome::Return(status) => assert_eq!(status, u64::from(Status::ACCESS_VIOLATION.0)),
        other => panic!("{other:?}"),
    }
}

/// Whatever a program passes, a service gives a status: no panic, no hang.
#[test]
fn no_argument_makes_a_service_fail() {
    let fake = Fake::new();
    let values = [
        0,
        1,
        4,
        8,
        0x7fff_ffff_ffff_ffff,
        u64::MAX,
        u64::MAX - 1,
        DATA,
        BUFFER,
        0xffff_ffff,
        0x8000_0000,
    ];
    // Those that may wait for ever are not for this test.
    let waits = |name: &str| {
        ["Wait", "Delay", "Remove", "KeyedEvent", "Suspend", "Terminate"]
            .iter()
            .any(|part| name.contains(part))
    };
    let mut random = 1u64;
    for service in own_numbers().iter().filter(|service| !waits(&service.name)) {
        for _ in 0..200 {
            let mut arguments = [0u64; 14];
            for argument in &mut arguments {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *argument = values[usize::try_from(random >> 33).expect("31 bits") % values.len()];
            }
            let _ = fake.outcome(&fake.thread, &service.name, &arguments);
        }
    }
}
