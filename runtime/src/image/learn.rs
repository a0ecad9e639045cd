// SPDX-License-Identifier: GPL-3.0-or-later
//! Service numbers out of the stubs of an ntdll or win32u, so that any build of either serves.
//!
//! A stub is `mov r10, rcx; mov eax, NUMBER; test byte [0x7ffe0308], 1; jne +3; syscall; ret`, and in Windows 10 1507
//! `mov r10, rcx; mov eax, NUMBER; syscall; ret`.

use super::{Export, ImageError, ImageHeaders, ReadAt};

/// How a stub enters the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubKind {
    /// It looks at `[0x7ffe0308]` first: Wine's, and Windows' since 1511.
    Tested,
    /// `syscall` at once.
    Plain,
}

/// One service of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedService {
    /// The name with `Nt` in front (or the export's own when it has neither `Nt` nor `Zw`).
    pub name: String,
    /// The number that its stub puts in `eax`.
    pub number: u32,
    /// Where the stub lies.
    pub rva: u32,
    /// Its form.
    pub kind: StubKind,
}

const MOV_R10_RCX_MOV_EAX: [u8; 4] = [0x4c, 0x8b, 0xd1, 0xb8];
const TEST_SYSTEM_CALL: [u8; 8] = [0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01];
const SYSCALL_RET: [u8; 3] = [0x0f, 0x05, 0xc3];
const STUB_BYTES: usize = 24;

/// The number and form of a stub, when `code` is one.
fn decode(code: &[u8]) -> Option<(u32, StubKind)> {
    let code = code.strip_prefix(&MOV_R10_RCX_MOV_EAX)?;
    let (number, rest) = code.split_first_chunk::<4>()?;
    let kind = if rest.starts_with(&TEST_SYSTEM_CALL) {
        StubKind::Tested
    } else if rest.starts_with(&SYSCALL_RET) {
        StubKind::Plain
    } else {
        return None;
    };
    Some((u32::from_le_bytes(*number), kind))
}

/// Finds the services among `exports`: sorted by number, one for each number (`Nt` wins over `Zw`).
///
/// # Errors
/// [`ImageError::Io`].
pub fn learn_services<R: ReadAt + ?Sized>(
    file: &R,
    headers: &ImageHeaders,
    exports: &[Export],
) -> Result<Vec<LearnedService>, ImageError> {
    // Stubs lie close together: one read of the range that all candidates span, where that is a sane size.
    const SPAN_BYTES: u32 = 4 << 20;
    let low = exports.iter().map(|export| export.rva).min().unwrap_or(0);
    let span = headers.read_rva(file, low, SPAN_BYTES as usize)?;
    let mut found: Vec<LearnedService> = Vec::new();
    for export in exports {
        let inside = span
            .get((export.rva - low) as usize..)
            .and_then(|rest| rest.get(..STUB_BYTES));
        let decoded = match inside {
            Some(code) => decode(code),
            None => decode(&headers.read_rva(file, export.rva, STUB_BYTES)?),
        };
        let Some((number, kind)) = decoded else { continue };
        let name = match export.name.strip_prefix("Zw") {
            Some(rest) => format!("Nt{rest}"),
            None => export.name.clone(),
        };
        found.push(LearnedService {
            name,
            number,
            rva: export.rva,
            kind,
        });
    }
    found.sort_by(|a, b| {
        (a.number, !a.name.starts_with("Nt"), &a.name).cmp(&(b.number, !b.name.starts_with("Nt"), &b.name))
    });
    found.dedup_by_key(|service| service.number);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_stub_is_decoded_and_other_code_is_not() {
        let tested = [
            0x4c, 0x8b, 0xd1, 0xb8, 0x34, 0x12, 0, 0, 0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01, 0x75, 3, 0x0f, 5,
            0xc3, 0xcd, 0x2e, 0xc3,
        ];
        assert_eq!(decode(&tested), Some((0x1234, StubKind::Tested)));
        let plain = [0x4c, 0x8b, 0xd1, 0xb8, 7, 0, 0, 0, 0x0f, 5, 0xc3];
        assert_eq!(decode(&plain), Some((7, StubKind::Plain)));
        assert_eq!(decode(&tested[..12]), None, "cut off");
        assert_eq!(
            decode(&[0x48, 0x89, 0x5c, 0x24, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            None
        );
    }
}
