// SPDX-License-Identifier: GPL-3.0-or-later
//! Every quirk of one kind of ntdll, and nothing else. A service that must know which ntdll it serves asks here.

use crate::arch::{Context, Frame};
use crate::image::Export;
use crate::nt::Process;
use crate::object::Apc;
use crate::status::Status;
use crate::vdk::{Memory, MemoryExt};

/// Which ntdll a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavor {
    /// No ntdll: a program without imports.
    None,
    /// Microsoft's.
    Windows,
    /// Wine 9 or later, PE build.
    Wine10,
    /// Wine 8, PE build.
    Wine8,
}

impl Flavor {
    /// Tells from an ntdll's exports which it is.
    #[must_use]
    pub fn of(exports: &[Export]) -> Self {
        let has = |name: &str| exports.iter().any(|export| export.name == name);
        if has("__wine_unixlib_handle") {
            Self::Wine10
        } else if has("__wine_unix_call_dispatcher") || has("wine_get_version") {
            Self::Wine8
        } else {
            Self::Windows
        }
    }

    /// Whether it is Wine's.
    #[must_use]
    pub fn is_wine(self) -> bool {
        matches!(self, Self::Wine8 | Self::Wine10)
    }

    /// What Wine's own class of `NtQuerySystemInformation` answers: version, build, host system and its release.
    #[must_use]
    pub fn wine_version(self) -> &'static [u8] {
        if self == Self::Wine8 {
            b"8.0\0vodka\0Linux\0\0"
        } else {
            b"10.0\0vodka\0Linux\0\0"
        }
    }

    /// `KUSER_SHARED_DATA.SystemCall`: Wine's stubs call through `[0x7ffe1000]` when it is 1; a genuine ntdll would use
    /// `int 2e` then.
    #[must_use]
    pub fn system_call_byte(self) -> u8 {
        u8::from(self.is_wine())
    }

    /// How many bytes a TEB takes: Wine keeps its debug buffers behind it, at TEB+0x3000.
    #[must_use]
    pub fn teb_bytes(self) -> u64 {
        if self.is_wine() { 0x5000 } else { 0x2000 }
    }

    /// How many bytes a PEB takes: Wine looks for its debug channels at PEB+0x2000.
    #[must_use]
    pub fn peb_bytes(self) -> u64 {
        if self.is_wine() { 0x4000 } else { 0x2000 }
    }

    /// The registers with which `KiUserApcDispatcher` begins `apc`; the program goes on with `after` when it is over.
    ///
    /// # Errors
    /// `ACCESS_VIOLATION` when the program's stack cannot take the frame.
    pub fn apc_context(
        self,
        memory: &dyn Memory,
        apc: &Apc,
        after: &Context,
        frame: &Frame,
        dispatcher: u64,
    ) -> Result<Context, Status> {
        let mut begin = after.clone();
        begin.rip = dispatcher;
        let mut saved = after.clone();
        if self == Self::Wine8 {
            // Wine 8 hands over rcx = context, rdx, r8, r9 = arguments, and the routine on the stack.
            let stack = (frame.rsp & !15).wrapping_sub(0x510 + 0x80);
            memory.put(stack + 0x30, saved)?;
            memory.put(stack + 0x20, apc.routine)?;
            (begin.rsp, begin.rcx) = (stack - 8, stack + 0x30);
            (begin.rdx, begin.r8, begin.r9) = (apc.arguments[0], apc.arguments[1], apc.arguments[2]);
        } else {
            // NT: the context at rsp, the arguments and the routine in its home space.
            let stack = (frame.rsp & !15).wrapping_sub(0x500 + 0x80);
            saved.parameter_home[..4].copy_from_slice(&[
                apc.arguments[0],
                apc.arguments[1],
                apc.arguments[2],
                apc.routine,
            ]);
            memory.put(stack, saved)?;
            begin.rsp = stack;
        }
        Ok(begin)
    }

    /// Fills the exports through which Wine's ntdll reaches its Unix side.
    ///
    /// # Errors
    /// `ACCESS_VIOLATION` when they are not writable.
    pub fn prepare_ntdll(self, memory: &dyn Memory, base: u64, exports: &[Export]) -> Result<(), Status> {
        for export in exports {
            let at = base + u64::from(export.rva);
            match export.name.as_str() {
                "__wine_unixlib_handle" => memory.put(at, UNIXLIB_OF_NTDLL)?,
                "__wine_unix_call_dispatcher" => memory.put(at, crate::arch::unix_call_dispatcher_address())?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The handle under which ntdll's own Unix calls arrive.
pub(crate) const UNIXLIB_OF_NTDLL: u64 = 0x5678;

/// A call through `__wine_unix_call_dispatcher`: handle, code, arguments.
pub(crate) fn unix_call(process: &Process, frame: &Frame) -> Status {
    /// The longest message that is taken.
    const MAX_MESSAGE_BYTES: usize = 0x1_0000;
    let (handle, code, arguments) = (frame.r10, frame.rdx & 0xffff_ffff, frame.r8);
    let memory = &*process.host.memory;
    if handle != UNIXLIB_OF_NTDLL || code != 2 {
        process.log.line(&format!(
            "Wine's Unix call {code} of {} is not served",
            process.describe_address(handle)
        ));
        return Status::NOT_IMPLEMENTED;
    }
    if process.flavor == Flavor::Wine8 {
        // system_time_precise(i64 *time)
        return memory
            .put(arguments, process.host.clock.system_time())
            .map_or_else(Status::from, |()| Status::SUCCESS);
    }
    // wine_dbg_write({ const char *text; unsigned int length })
    let message = (|| {
        let text: u64 = memory.get(arguments)?;
        let length: u32 = memory.get(arguments + 8)?;
        memory.read_bytes(text, (length as usize).min(MAX_MESSAGE_BYTES))
    })();
    match message {
        Ok(bytes) => {
            process.log.raw(&bytes);
            Status::SUCCESS
        }
        Err(fault) => fault.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ntdll_is_told_by_what_it_exports() {
        let exports = |names: &[&str]| {
            names
                .iter()
                .map(|name| Export {
                    name: (*name).into(),
                    rva: 0,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            Flavor::of(&exports(&["NtClose", "__wine_unixlib_handle"])),
            Flavor::Wine10
        );
        assert_eq!(Flavor::of(&exports(&["NtClose", "wine_get_version"])), Flavor::Wine8);
        assert_eq!(Flavor::of(&exports(&["NtClose"])), Flavor::Windows);
    }
}
