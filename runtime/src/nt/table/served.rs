// SPDX-License-Identifier: GPL-3.0-or-later
//! The services that have code, by family.

use super::Argument::{
    self, Attributes as O, Bool as B, Class as C, Handle as H, Pointer as P, Text as S, U32 as U, U64 as Q, Value as V,
};
use super::Level::{self, Full, Partial, Stub};
use crate::nt::call::Handler;
use crate::nt::{
    file, io_completion as port, locale, memory::services as memory, misc, object_services as object, process,
    process_create, query, registry, section, synchronization as sync, thread, time, token,
};

/// A service that has code.
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) handler: Handler,
    pub(super) arguments: &'static [Argument],
    pub(super) classes: &'static [u32],
}

macro_rules! family {
    ($($name:literal $level:expr, $handler:path, [$($argument:expr),*] $(, $classes:expr)?;)*) => {
        &[$(Served { name: $name, level: $level, handler: $handler, arguments: &[$($argument),*], classes: family!(@ $($classes)?) }),*]
    };
    (@) => { &[] };
    (@ $classes:expr) => { $classes };
}

const OTHER_PROCESSES: &str = "other processes";
const GRANTED_ACCESS: &str = "whether the handle grants it";

pub(super) const SERVED: &[&[Served]] = &[
    MEMORY,
    SECTIONS,
    OBJECTS,
    SYNCHRONIZATION,
    THREADS,
    PROCESSES,
    FILES,
    REGISTRY,
    SYSTEM,
    TOKENS,
];

const MEMORY: &[Served] = family! {
    "NtAllocateVirtualMemory" Partial("write watch, large pages, physical pages; other processes"), memory::allocate_virtual_memory, [H, V, Q, V, U, U];
    "NtAllocateVirtualMemoryEx" Partial("write watch, large pages, NUMA; other processes"), memory::allocate_virtual_memory_ex, [H, V, V, U, U, P, U];
    "NtFreeVirtualMemory" Partial(OTHER_PROCESSES), memory::free_virtual_memory, [H, V, V, U];
    "NtProtectVirtualMemory" Partial(OTHER_PROCESSES), memory::protect_virtual_memory, [H, V, V, U, P];
    "NtQueryVirtualMemory" Partial("working-set classes; other processes"), memory::query_virtual_memory, [H, Q, C, P, Q, P], memory::QUERY_CLASSES;
    "NtReadVirtualMemory" Partial(OTHER_PROCESSES), memory::read_virtual_memory, [H, Q, P, Q, P];
    "NtWriteVirtualMemory" Partial("other processes; read-only pages of its own"), memory::write_virtual_memory, [H, Q, P, Q, P];
    "NtFlushVirtualMemory" Partial("writing through to the disk; other processes"), memory::flush_virtual_memory, [H, V, V, P];
    "NtFlushInstructionCache" Partial(OTHER_PROCESSES), memory::flush_instruction_cache, [H, Q, Q];
    "NtLockVirtualMemory" Stub("pages are not pinned"), memory::lock_virtual_memory, [H, V, V, U];
    "NtUnlockVirtualMemory" Stub("pages are not pinned"), memory::lock_virtual_memory, [H, V, V, U];
    "NtSetInformationVirtualMemory" Partial("all classes but prefetch"), memory::set_information_virtual_memory, [H, C, Q, P, P, U], &[0];
};

const SECTIONS: &[Served] = family! {
    "NtCreateSection" Partial("reserved and large-page sections; sharing with other processes"), section::create_section, [P, U, O, V, U, U, H];
    "NtOpenSection" Partial("known DLLs; sharing with other processes"), section::open_section, [P, U, O];
    "NtMapViewOfSection" Partial("reserved views; other processes"), section::map_view_of_section, [H, H, V, Q, Q, V, V, U, U, U];
    "NtMapViewOfSectionEx" Partial("replacing placeholders; other processes"), section::map_view_of_section_ex, [H, H, V, V, V, U, U, P, U];
    "NtUnmapViewOfSection" Partial(OTHER_PROCESSES), section::unmap_view_of_section, [H, Q];
    "NtUnmapViewOfSectionEx" Partial("preserving a placeholder; other processes"), section::unmap_view_of_section, [H, Q, U];
    "NtQuerySection" Partial("relocation and original-base classes"), section::query_section, [H, C, P, U, P], &[0, 1];
    "NtExtendSection" Partial("extending beyond the present size"), section::extend_section, [H, V];
    "NtAreMappedFilesTheSame" Partial("hard links of one file"), section::are_mapped_files_the_same, [Q, Q];
};

const OBJECTS: &[Served] = family! {
    "NtClose" Full("closing_takes_a_handle_away_once"), object::close, [H];
    "NtDuplicateObject" Partial("other processes; access checks"), object::duplicate_object, [H, H, H, P, U, U, U];
    "NtQueryObject" Partial("the list of all types; true handle counts"), object::query_object, [H, C, P, U, P], object::QUERY_CLASSES;
    "NtSetInformationObject" Partial("session classes"), object::set_information_object, [H, C, P, U], &[4];
    "NtMakeTemporaryObject" Partial("permanent objects"), object::make_temporary_object, [H];
    "NtCompareObjects" Full("two_handles_of_one_object_compare_as_the_same"), object::compare_objects, [H, H];
    "NtCreateDirectoryObject" Partial("sharing with other processes"), object::create_directory_object, [P, U, O];
    "NtOpenDirectoryObject" Partial("sharing with other processes"), object::open_directory_object, [P, U, O];
    "NtCreateSymbolicLinkObject" Partial("following created links in lookups"), object::create_symbolic_link_object, [P, U, O, S];
    "NtOpenSymbolicLinkObject" Partial("sharing with other processes"), object::open_symbolic_link_object, [P, U, O];
    "NtQuerySymbolicLinkObject" Partial("sharing with other processes"), object::query_symbolic_link_object, [H, P, P];
};

const SYNCHRONIZATION: &[Served] = family! {
    "NtCreateEvent" Partial("sharing with other processes"), sync::create_event, [P, U, O, U, B];
    "NtOpenEvent" Partial("sharing with other processes"), sync::open_event, [P, U, O];
    "NtSetEvent" Partial(GRANTED_ACCESS), sync::set_event, [H, P];
    "NtResetEvent" Partial(GRANTED_ACCESS), sync::reset_event, [H, P];
    "NtClearEvent" Partial(GRANTED_ACCESS), sync::clear_event, [H];
    "NtPulseEvent" Partial(GRANTED_ACCESS), sync::pulse_event, [H, P];
    "NtQueryEvent" Partial(GRANTED_ACCESS), sync::query_event, [H, C, P, U, P], &[0];
    "NtCreateSemaphore" Partial("sharing with other processes"), sync::create_semaphore, [P, U, O, U, U];
    "NtOpenSemaphore" Partial("sharing with other processes"), sync::open_semaphore, [P, U, O];
    "NtReleaseSemaphore" Partial(GRANTED_ACCESS), sync::release_semaphore, [H, U, P];
    "NtQuerySemaphore" Partial(GRANTED_ACCESS), sync::query_semaphore, [H, C, P, U, P], &[0];
    "NtCreateMutant" Partial("sharing with other processes"), sync::create_mutant, [P, U, O, B];
    "NtOpenMutant" Partial("sharing with other processes"), sync::open_mutant, [P, U, O];
    "NtReleaseMutant" Partial(GRANTED_ACCESS), sync::release_mutant, [H, P];
    "NtQueryMutant" Partial("the owner class"), sync::query_mutant, [H, C, P, U, P], &[0];
    "NtCreateTimer" Partial("sharing with other processes"), sync::create_timer, [P, U, O, U];
    "NtOpenTimer" Partial("sharing with other processes"), sync::open_timer, [P, U, O];
    "NtSetTimer" Partial("APC routines"), sync::set_timer, [H, V, P, P, B, U, P];
    "NtCancelTimer" Partial("APC routines"), sync::cancel_timer, [H, P];
    "NtCreateKeyedEvent" Partial("sharing with other processes"), sync::create_keyed_event, [P, U, O, U];
    "NtOpenKeyedEvent" Partial("sharing with other processes"), sync::open_keyed_event, [P, U, O];
    "NtWaitForKeyedEvent" Partial("sharing with other processes"), sync::wait_for_keyed_event, [H, Q, B, V];
    "NtReleaseKeyedEvent" Partial("sharing with other processes"), sync::release_keyed_event, [H, Q, B, V];
    "NtWaitForSingleObject" Partial("suspending the waiting thread"), sync::wait_for_single_object, [H, B, V];
    "NtWaitForMultipleObjects" Partial("suspending the waiting thread"), sync::wait_for_multiple_objects, [U, P, U, B, V];
    "NtSignalAndWaitForSingleObject" Partial("the two steps are not one"), sync::signal_and_wait, [H, H, B, V];
    "NtDelayExecution" Partial("suspending the waiting thread"), sync::delay_execution, [B, V];
    "NtYieldExecution" Partial("telling that nobody else was ready"), sync::yield_execution, [];
    "NtWaitForAlertByThreadId" Partial("suspending the waiting thread"), sync::wait_for_alert_by_thread_id, [P, V];
    "NtAlertThreadByThreadId" Full("an_alert_by_id_is_kept_until_it_is_waited_for"), sync::alert_thread_by_thread_id, [Q];
    "NtAlertThread" Partial("threads of other processes"), sync::alert_thread, [H];
    "NtCreateIoCompletion" Partial("the number of concurrent threads"), port::create_io_completion, [P, U, O, U];
    "NtSetIoCompletion" Partial(GRANTED_ACCESS), port::set_io_completion, [H, Q, Q, U, Q];
    "NtRemoveIoCompletion" Partial("the number of concurrent threads"), port::remove_io_completion, [H, P, P, P, V];
    "NtRemoveIoCompletionEx" Partial("the number of concurrent threads"), port::remove_io_completion_ex, [H, P, U, P, V, B];
    "NtQueryIoCompletion" Partial(GRANTED_ACCESS), port::query_io_completion, [H, C, P, U, P], &[0];
};

const THREADS: &[Served] = family! {
    "NtCreateThreadEx" Partial("other processes; attach and loader flags"), thread::create_thread_ex, [P, U, O, H, Q, Q, U, Q, Q, Q, P];
    "NtTerminateThread" Partial("ending another thread"), thread::terminate_thread, [H, U];
    "NtSuspendThread" Partial("stopping another thread that runs"), thread::suspend_thread, [H, P];
    "NtResumeThread" Partial("threads of other processes"), thread::resume_thread, [H, P];
    "NtAlertResumeThread" Partial("threads of other processes"), thread::alert_resume_thread, [H, P];
    "NtOpenThread" Partial("threads of other processes"), thread::open_thread, [P, U, O, P];
    "NtGetNextThread" Partial("threads of other processes"), thread::get_next_thread, [H, H, U, U, U, P];
    "NtQueueApcThread" Partial("special APCs; other processes"), thread::queue_apc_thread, [H, Q, Q, Q, Q];
    "NtTestAlert" Partial("several waiting APCs run one by one"), thread::test_alert, [];
    "NtContinue" Partial("debug registers; extended state"), thread::continue_thread, [P, B];
    "NtContinueEx" Partial("debug registers; extended state; the argument block"), thread::continue_thread, [P, P];
    "NtRaiseException" Partial("debugger ports; extended state"), thread::raise_exception, [P, P, B];
    "NtGetContextThread" Partial("other threads; debug registers"), thread::get_context_thread, [H, P];
    "NtSetContextThread" Partial("other threads; debug registers"), thread::set_context_thread, [H, P];
    "NtQueryInformationThread" Partial("other classes; true times"), query::query_information_thread, [H, C, P, U, P], query::THREAD_CLASSES;
    "NtSetInformationThread" Stub("classes are taken without effect"), thread::set_information_thread, [H, C, P, U], thread::SET_CLASSES;
    "NtGetCurrentProcessorNumber" Partial("more than 64 processors"), misc::get_current_processor_number, [];
    "NtSetThreadExecutionState" Stub("there is no power state"), misc::set_thread_execution_state, [U, P];
    "NtFlushProcessWriteBuffers" Partial("threads inside the program"), misc::flush_process_write_buffers, [];
};

const PROCESSES: &[Served] = family! {
    "NtTerminateProcess" Partial("processes that are no children; ending the other threads only"), process::terminate_process, [H, U];
    "NtCreateUserProcess" Partial("inherited handles but the three standard ones; sharing objects; jobs; attributes"), process_create::create_user_process, [P, P, U, U, O, O, U, U, P, P, P];
    "NtOpenProcess" Partial(OTHER_PROCESSES), process::open_process, [P, U, O, P];
    "NtQueryInformationProcess" Partial("other classes; true times and counters; other processes"), query::query_information_process, [H, C, P, U, P], query::PROCESS_CLASSES;
    "NtSetInformationProcess" Stub("classes are taken without effect"), process::set_information_process, [H, C, P, U], process::SET_CLASSES;
    "NtRaiseHardError" Partial("asking the person"), process::raise_hard_error, [U, U, U, P, U, P];
};

const FILES: &[Served] = family! {
    "NtCreateFile" Partial("sharing modes, streams, EAs, file ids, pipes, devices, asynchronous operations"), file::create_file, [P, U, O, P, P, U, U, U, U, P, U];
    "NtOpenFile" Partial("sharing modes, streams, file ids, pipes, devices, asynchronous operations"), file::open_file, [P, U, O, P, U, U];
    "NtReadFile" Partial("APCs of pending reads; locks"), file::read_file, [H, H, P, P, P, P, U, V, P];
    "NtWriteFile" Partial("asynchronous writes; locks"), file::write_file, [H, H, P, P, P, P, U, V, P];
    "NtQueryInformationFile" Partial("streams, hard links, pipes; creation time and hidden attributes are not kept"), file::query_information_file, [H, P, P, U, C], file::QUERY_CLASSES;
    "NtSetInformationFile" Partial("creation time and hidden attributes; POSIX semantics; valid data length"), file::set_information_file, [H, P, P, U, C], file::SET_CLASSES;
    "NtQueryDirectoryFile" Partial("short names; the DOS pattern `<`; asynchronous queries"), file::query_directory_file, [H, H, P, P, P, P, U, C, B, S, B], file::DIRECTORY_CLASSES;
    "NtQueryDirectoryFileEx" Partial("short names; the DOS pattern `<`; asynchronous queries"), file::query_directory_file_ex, [H, H, P, P, P, P, U, C, U, S], file::DIRECTORY_CLASSES;
    "NtQueryAttributesFile" Partial("creation time and hidden attributes"), file::query_attributes_file, [O, P];
    "NtQueryFullAttributesFile" Partial("creation time and hidden attributes"), file::query_full_attributes_file, [O, P];
    "NtQueryVolumeInformationFile" Partial("labels, object ids, quotas"), file::query_volume_information_file, [H, P, P, U, C], file::VOLUME_QUERY_CLASSES;
    "NtCreateNamedPipeFile" Partial("other processes; message mode; synchronous listening; quotas"), file::create_named_pipe_file, [P, U, O, P, U, U, U, U, U, U, U, U, U, V];
    "NtDeleteFile" Partial("files that are open"), file::delete_file, [O];
    "NtFlushBuffersFile" Partial("pipes; whether the handle grants writing"), file::flush_buffers, [H, P];
    "NtLockFile" Stub("locks are granted and not enforced"), file::lock_file, [H, H, P, P, P, P, P, U, B, B];
    "NtUnlockFile" Stub("locks are not kept"), file::unlock_file, [H, P, P, P, U];
    "NtCancelIoFile" Stub("pending reads of pipes are not ended"), file::cancel_io, [H, P];
    "NtCancelIoFileEx" Stub("pending reads of pipes are not ended"), file::cancel_io, [H, P, P];
    "NtFsControlFile" Partial("all other codes: reparse points, sparse ranges, pipes, volumes"), file::fs_control, [H, H, P, P, P, U, P, U, P, U], file::FS_CONTROL_CODES;
    "NtDeviceIoControlFile" Stub("every code is refused"), file::device_io_control, [H, H, P, P, P, U, P, U, P, U];
};

const REGISTRY: &[Served] = family! {
    "NtOpenKey" Partial("the world's hives, links, access checks"), registry::open_key, [P, U, O];
    "NtOpenKeyEx" Partial("the world's hives, links, access checks"), registry::open_key_ex, [P, U, O, U];
    "NtCreateKey" Partial("the world's hives, links, volatile keys, access checks"), registry::create_key, [P, U, O, U, S, U, P];
    "NtDeleteKey" Partial("the world's hives"), registry::delete_key, [H];
    "NtQueryKey" Partial("flags, virtualization, trust, layer classes"), registry::query_key, [H, C, P, U, P], registry::KEY_CLASSES;
    "NtEnumerateKey" Partial("flags, virtualization classes"), registry::enumerate_key, [H, U, C, P, U, P], registry::KEY_CLASSES;
    "NtQueryValueKey" Partial("the world's hives; the aligned full class"), registry::query_value_key, [H, S, C, P, U, P], registry::VALUE_CLASSES;
    "NtEnumerateValueKey" Partial("the world's hives; the aligned full class"), registry::enumerate_value_key, [H, U, C, P, U, P], registry::VALUE_CLASSES;
    "NtQueryMultipleValueKey" Partial("the world's hives"), registry::query_multiple_value_key, [H, P, U, P, P, P];
    "NtSetValueKey" Partial("the world's hives"), registry::set_value_key, [H, S, U, U, P, U];
    "NtDeleteValueKey" Partial("the world's hives"), registry::delete_value_key, [H, S];
    "NtFlushKey" Stub("nothing is kept on disk"), registry::flush_key, [H];
    "NtNotifyChangeKey" Stub("the notification never comes"), registry::notify_change_key, [H, H, P, P, P, U, B, P, U, B];
};

const SYSTEM: &[Served] = family! {
    "NtQuerySystemInformation" Partial("processes, handles, modules, counters and others"), query::query_system_information, [C, P, U, P], query::SYSTEM_CLASSES;
    "NtQuerySystemInformationEx" Partial("feature, CPU-set and NUMA classes"), query::query_system_information_ex, [C, P, U, P, U, P], query::SYSTEM_EX_CLASSES;
    "NtQueryPerformanceCounter" Full("clocks_tell_the_hosts_time"), time::query_performance_counter, [P, P];
    "NtQuerySystemTime" Full("clocks_tell_the_hosts_time"), time::query_system_time, [P];
    "NtQueryTimerResolution" Full("clocks_tell_the_hosts_time"), time::query_timer_resolution, [P, P, P];
    "NtSetTimerResolution" Partial("the resolution stays at its finest"), time::set_timer_resolution, [U, B, P];
    "NtGetTickCount" Full("clocks_tell_the_hosts_time"), time::get_tick_count, [];
    "NtQueryDefaultLocale" Partial("other locales than 0409"), locale::query_default_locale, [B, P];
    "NtQueryDefaultUILanguage" Partial("other languages than 0409"), locale::query_ui_language, [P];
    "NtQueryInstallUILanguage" Partial("other languages than 0409"), locale::query_ui_language, [P];
    "NtGetNlsSectionPtr" Partial("sharing between processes"), locale::get_nls_section_ptr, [U, U, P, P, P];
    "NtInitializeNlsFiles" Partial("other locales than 0409"), locale::initialize_nls_files, [P, P, P];
    "NtDisplayString" Full("a_displayed_string_reaches_the_log"), misc::display_string, [S];
    "NtAllocateLocallyUniqueId" Partial("uniqueness among processes"), misc::allocate_locally_unique_id, [P];
    "NtAllocateUuids" Partial("a stable node id"), misc::allocate_uuids, [P, P, P, P];
    "NtQueryDebugFilterState" Stub("nothing is filtered in"), misc::query_debug_filter_state, [U, U];
    "NtManageHotPatch" Stub("refused, as the loader tolerates"), misc::not_supported, [U, P, U, P];
    "NtApphelpCacheControl" Stub("refused, as the loader tolerates"), misc::not_supported, [U, P];
    "NtQuerySecurityPolicy" Stub("refused, as the loader tolerates"), misc::not_supported, [P, P, P, P, P, P];
    "NtGetMUIRegistryInfo" Stub("refused, as the loader tolerates"), misc::not_supported, [U, P, P];
    "NtQueryLicenseValue" Stub("no value is stored"), misc::query_license_value, [S, P, P, U, P];
};

const TOKENS: &[Served] = family! {
    "NtOpenProcessToken" Partial("one fixed user; access checks"), token::open_process_token, [H, U, P];
    "NtOpenProcessTokenEx" Partial("one fixed user; access checks"), token::open_process_token_ex, [H, U, U, P];
    "NtOpenThreadToken" Partial("impersonation"), token::open_thread_token, [H, U, B, P];
    "NtOpenThreadTokenEx" Partial("impersonation"), token::open_thread_token, [H, U, B, U, P];
    "NtDuplicateToken" Partial("one fixed user; levels"), token::duplicate_token, [H, U, O, B, U, P];
    "NtQueryInformationToken" Partial("one fixed user; other classes"), token::query_information_token, [H, C, P, U, P], token::QUERY_CLASSES;
    "NtAdjustPrivilegesToken" Stub("no state is kept"), token::adjust_privileges_token, [H, B, P, U, P, P];
};
