// SPDX-License-Identifier: GPL-3.0-or-later
//! The names that an image exports.

use zerocopy::FromBytes;

use super::format::ExportDirectory;
use super::{Directory, ImageError, ImageHeaders, MAX_EXPORT_NAME_BYTES, MAX_EXPORTS, ReadAt};

/// One exported name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The name, as bytes of the file.
    pub name: String,
    /// Where it lies, as an offset from the base.
    pub rva: u32,
}

/// Reads the exports by name, in the file's order; forwarders (which lie inside the export directory) are left out.
///
/// # Errors
/// [`ImageError::Truncated`] when a table lies outside the file, [`ImageError::Bad`] when there are too many names.
pub fn exports<R: ReadAt + ?Sized>(file: &R, headers: &ImageHeaders) -> Result<Vec<Export>, ImageError> {
    let Some((rva, bytes)) = headers.directory(Directory::Export) else {
        return Ok(Vec::new());
    };
    let truncated = |what| ImageError::Truncated {
        what,
        offset: rva.into(),
    };
    // Names, tables and the directory lie together in every linker's output: one read serves nearly all of it.
    let near = headers.read_rva(file, rva, bytes as usize)?;
    let piece = |at: u32, length: usize| -> Result<Vec<u8>, ImageError> {
        let inside = at
            .checked_sub(rva)
            .and_then(|start| near.get(start as usize..))
            .and_then(|rest| rest.get(..length));
        match inside {
            Some(slice) => Ok(slice.to_vec()),
            None => headers.read_rva(file, at, length),
        }
    };
    let directory = ExportDirectory::read_from_prefix(&near)
        .map_err(|_| truncated("the export directory"))?
        .0;
    let count = directory.name_count.get();
    if count > MAX_EXPORTS || directory.function_count.get() > MAX_EXPORTS {
        let found = u64::from(count.max(directory.function_count.get()));
        return Err(ImageError::Bad {
            what: "the number of exports",
            found,
            offset: rva.into(),
            expected: "at most 131,072",
        });
    }
    let table = |at: u32, entries: u32, width: usize, what| {
        let bytes = piece(at, entries as usize * width)?;
        if bytes.len() == entries as usize * width {
            Ok(bytes)
        } else {
            Err(truncated(what))
        }
    };
    let names = table(directory.names.get(), count, 4, "the table of export names")?;
    let ordinals = table(directory.ordinals.get(), count, 2, "the table of export ordinals")?;
    let functions = table(
        directory.functions.get(),
        directory.function_count.get(),
        4,
        "the table of export addresses",
    )?;
    let mut found = Vec::with_capacity(count as usize);
    for (name, ordinal) in names.chunks_exact(4).zip(ordinals.chunks_exact(2)) {
        let name_rva = u32::from_le_bytes([name[0], name[1], name[2], name[3]]);
        let ordinal = usize::from(u16::from_le_bytes([ordinal[0], ordinal[1]]));
        let Some(address) = functions.get(ordinal * 4..ordinal * 4 + 4) else {
            return Err(truncated("an export's ordinal"));
        };
        let address = u32::from_le_bytes([address[0], address[1], address[2], address[3]]);
        if address == 0 || address.checked_sub(rva).is_some_and(|into| into < bytes) {
            continue;
        }
        let name = match name_rva.checked_sub(rva).and_then(|start| near.get(start as usize..)) {
            Some(rest) => rest[..rest.len().min(MAX_EXPORT_NAME_BYTES)].to_vec(),
            None => headers.read_rva(file, name_rva, MAX_EXPORT_NAME_BYTES)?,
        };
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(truncated("an export's name"))?;
        found.push(Export {
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            rva: address,
        });
    }
    Ok(found)
}
