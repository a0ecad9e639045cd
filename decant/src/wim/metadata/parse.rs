// SPDX-License-Identifier: GPL-3.0-or-later
//! From an unpacked metadata resource to the arenas of [`ImageMetadata`].
//!
//! Source: the white paper's section "Metadata Resource" for security data, dentries and stream entries; wimlib's
//! documentation for tagged items and for which unnamed stream is which.

use std::ops::Range;

use zerocopy::FromBytes as _;

use super::NameFault;
use super::dentry::{ATTRIBUTE_DIRECTORY, ATTRIBUTE_REPARSE_POINT, StreamEntry};
use super::name::{check_name, check_stream_name, escape_name};
use super::streams::Streams;
use super::tree::{ImageMetadata, Node};
use crate::wim::error::WimError;
use crate::wim::format::{DENTRY_BYTES, RawDentry, RawExtraStream, RawSecurityData};
use crate::wim::types::Sha1Hash;

/// Parses an image's unpacked metadata resource.
///
/// # Errors
/// [`WimError::InvalidMetadata`], [`WimError::InvalidName`], [`WimError::DuplicateName`], [`WimError::Cycle`].
pub fn parse(bytes: &[u8], wim: &str, index: u32) -> Result<ImageMetadata, WimError> {
    if u32::try_from(bytes.len()).is_err() {
        let (found, limit) = (bytes.len() as u64, u32::MAX.into());
        return Err(WimError::TooLarge {
            what: format!("the metadata of image {index}"),
            wim: wim.to_owned(),
            found,
            limit,
        });
    }
    let mut parser = Parser {
        bytes,
        wim,
        index,
        tree: ImageMetadata {
            nodes: Vec::new(),
            names: Vec::new(),
            streams: Vec::new(),
            tagged: Vec::new(),
            descriptors: Vec::new(),
            descriptor_ends: Vec::new(),
        },
        parsed: vec![0; bytes.len() / 512 + 1],
    };
    let root_offset = parser.security_data()?;
    parser.tree(root_offset)?;
    Ok(parser.tree)
}

struct Parser<'b> {
    bytes: &'b [u8],
    wim: &'b str,
    index: u32,
    tree: ImageMetadata,
    /// A bit for every 8 bytes of the resource: something was read from them.
    parsed: Vec<u64>,
}

/// A directory whose list is to be parsed.
#[derive(Clone, Copy)]
struct Pending {
    node: u32,
    list_offset: u64,
    depth: u32,
}

impl Parser<'_> {
    fn invalid(&self, offset: usize, node: Option<u32>, reason: impl Into<String>) -> WimError {
        let path = node.map_or_else(String::new, |node| self.path(node));
        WimError::InvalidMetadata {
            wim: self.wim.to_owned(),
            index: self.index,
            offset: offset as u64,
            path,
            reason: reason.into(),
        }
    }

    fn path(&self, node: u32) -> String {
        self.tree.path(super::DentryId(node))
    }

    fn path_with(&self, directory: u32, name: &[u16]) -> String {
        let directory = self.path(directory);
        let separator = if directory.ends_with('\\') { "" } else { "\\" };
        format!("{directory}{separator}{}", escape_name(name))
    }

    /// Takes the security descriptors; gives the root dentry's offset.
    fn security_data(&mut self) -> Result<usize, WimError> {
        const HEADER_BYTES: usize = size_of::<RawSecurityData>();
        let Ok((header, rest)) = RawSecurityData::ref_from_prefix(self.bytes) else {
            return Err(self.invalid(
                0,
                None,
                format!("it has {} bytes, expected at least 8", self.bytes.len()),
            ));
        };
        let total = header.total_bytes.get() as usize;
        let count = header.entry_count.get() as usize;
        if count == 0 {
            // Some writers leave the length 0.
            return Ok(total.max(HEADER_BYTES).next_multiple_of(8));
        }
        let lengths = count.checked_mul(8).and_then(|length| rest.get(..length));
        let Some(lengths) =
            lengths.filter(|lengths| HEADER_BYTES + lengths.len() <= total && total <= self.bytes.len())
        else {
            let reason = format!("the security data have {count} descriptors in {total} bytes, which do not fit");
            return Err(self.invalid(0, None, reason));
        };
        let mut at = HEADER_BYTES + lengths.len();
        let mut ends = Vec::with_capacity(count);
        let mut descriptors = Vec::with_capacity(total - at);
        for (position, length) in lengths.as_chunks::<8>().0.iter().enumerate() {
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let end = at.checked_add(length).filter(|&end| end <= total);
            let Some(descriptor) = end.and_then(|end| self.bytes.get(at..end)) else {
                let reason = format!("security descriptor {position} of {length} bytes ends behind the security data");
                return Err(self.invalid(at, None, reason));
            };
            descriptors.extend_from_slice(descriptor);
            ends.push(narrow(descriptors.len()));
            at += length;
        }
        self.tree.descriptors = descriptors;
        self.tree.descriptor_ends = ends;
        Ok(total.next_multiple_of(8))
    }

    fn tree(&mut self, root_offset: usize) -> Result<(), WimError> {
        let root_length = self.dentry(root_offset, 0)?;
        if root_length.is_none() {
            return Err(self.invalid(root_offset, None, "there is no root directory"));
        }
        let root = &self.tree.nodes[0];
        if root.attributes & ATTRIBUTE_DIRECTORY == 0 {
            let reason = format!("the root has attributes {:#x}, expected a directory", root.attributes);
            return Err(self.invalid(root_offset, None, reason));
        }
        if root.name_length != 0 {
            return Err(self.invalid(root_offset, None, "the root directory has a name"));
        }
        // First in, first out: a directory's children get consecutive numbers.
        let mut next = 0;
        let mut depths = vec![0u32];
        while next < self.tree.nodes.len() {
            let pending = Pending {
                node: narrow(next),
                list_offset: self.subdir_offset(next),
                depth: depths[next],
            };
            if pending.list_offset != 0 {
                self.directory(pending, &mut depths)?;
            }
            next += 1;
        }
        Ok(())
    }

    /// Where the list of a directory begins, 0 for none.
    fn subdir_offset(&self, node: usize) -> u64 {
        let node = &self.tree.nodes[node];
        if node.attributes & ATTRIBUTE_DIRECTORY == 0 || node.attributes & ATTRIBUTE_REPARSE_POINT != 0 {
            return 0;
        }
        let raw = self.bytes.get(node.metadata_offset as usize..);
        raw.and_then(|raw| RawDentry::ref_from_prefix(raw).ok())
            .map_or(0, |(raw, _)| raw.subdir_offset.get())
    }

    fn directory(&mut self, directory: Pending, depths: &mut Vec<u32>) -> Result<(), WimError> {
        let Pending {
            node,
            list_offset,
            depth,
        } = directory;
        let first_child = narrow(self.tree.nodes.len());
        let mut at = usize::try_from(list_offset).unwrap_or(usize::MAX);
        if at >= self.bytes.len() {
            let own = self.tree.nodes[node as usize].metadata_offset as usize;
            let reason = format!("its list is at {list_offset}, expected less than {}", self.bytes.len());
            return Err(self.invalid(own, Some(node), reason));
        }
        while let Some(length) = self.dentry(at, node)? {
            if depth >= crate::wim::MAX_DEPTH {
                let reason = format!("directories are more than {} levels deep", crate::wim::MAX_DEPTH);
                return Err(self.invalid(at, Some(node), reason));
            }
            depths.push(depth + 1);
            at += length;
        }
        let end = narrow(self.tree.nodes.len());
        let directory = &mut self.tree.nodes[node as usize];
        (directory.first_child, directory.child_count) = (first_child, end - first_child);
        self.refuse_duplicates(node, first_child..end)
    }

    fn refuse_duplicates(&self, directory: u32, children: Range<u32>) -> Result<(), WimError> {
        // Sorted numbers need the least memory.
        let mut order: Vec<u32> = children.collect();
        let dentry = |child: u32| self.tree.get(super::DentryId(child));
        order.sort_unstable_by(|&a, &b| dentry(a).name.cmp(dentry(b).name).then(a.cmp(&b)));
        let same = order
            .windows(2)
            .map(|pair| (dentry(pair[0]), dentry(pair[1])))
            .find(|(a, b)| a.name == b.name);
        let Some((first, second)) = same else { return Ok(()) };
        Err(WimError::DuplicateName {
            wim: self.wim.to_owned(),
            index: self.index,
            path: self.path_with(directory, first.name),
            first_offset: first.metadata_offset,
            offset: second.metadata_offset,
        })
    }

    /// Takes the dentry at `at` with its stream entries; gives the length of all, or `None` at a list's end.
    fn dentry(&mut self, at: usize, parent: u32) -> Result<Option<usize>, WimError> {
        let node = narrow(self.tree.nodes.len());
        let parent_path = if node == 0 { None } else { Some(parent) };
        let Some((length, body)) = self.bytes.get(at..).and_then(<[u8]>::split_first_chunk::<8>) else {
            return Err(self.invalid(at, parent_path, "the resource ends before the directory's list does"));
        };
        let length = u64::from_le_bytes(*length);
        // A list ends with a zero length; wimlib and Windows also end it at a length that holds nothing.
        if length <= 8 {
            return Ok(None);
        }
        if length < DENTRY_BYTES as u64 || length - 8 > body.len() as u64 {
            let reason = format!(
                "a dentry has {length} bytes, expected {DENTRY_BYTES} to {}",
                body.len() + 8
            );
            return Err(self.invalid(at, parent_path, reason));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let dentry = &self.bytes[at..at + length];
        let Ok((raw, behind)) = RawDentry::read_from_prefix(dentry) else {
            return Err(self.invalid(at, parent_path, "a dentry is too short"));
        };
        self.mark_parsed(at..at + length, parent)?;

        let name_bytes = usize::from(raw.name_bytes.get());
        let short_name_bytes = usize::from(raw.short_name_bytes.get());
        let name_start = narrow(self.tree.names.len());
        let fields = split_names(behind, name_bytes, short_name_bytes);
        let Some(Names {
            name,
            short_name,
            consumed,
        }) = fields
        else {
            let reason =
                format!("its names of {name_bytes} and {short_name_bytes} bytes are no UTF-16 in {length} bytes");
            return Err(self.invalid(at, parent_path, reason));
        };
        extend_utf16(&mut self.tree.names, name);
        let name_length = narrow_16(name_bytes / 2);
        extend_utf16(&mut self.tree.names, short_name);
        let short_name_length = narrow_16(short_name_bytes / 2);
        if node != 0 {
            self.check_names(at, parent, name_start, name_length, short_name_length)?;
        }

        let tagged_at = (DENTRY_BYTES + consumed).next_multiple_of(8);
        let tagged_start = narrow(self.tree.tagged.len());
        self.tree
            .tagged
            .extend_from_slice(dentry.get(tagged_at..).unwrap_or(&[]));
        let tagged = tagged_start..narrow(self.tree.tagged.len());

        let mut streams = Streams::new(&raw);
        let streams_start = narrow(self.tree.streams.len());
        let mut end = at + length.next_multiple_of(8);
        for _ in 0..raw.extra_stream_count.get() {
            end = self.extra_stream(end, at, parent_path, &mut streams)?;
        }
        self.tree.nodes.push(Node {
            parent,
            first_child: 0,
            child_count: 0,
            metadata_offset: narrow(at),
            attributes: raw.attributes.get(),
            security_id: raw.security_id.get(),
            creation_time: raw.creation_time.get(),
            last_access_time: raw.last_access_time.get(),
            last_write_time: raw.last_write_time.get(),
            hard_link_group: hard_link_group(&raw),
            reparse_tag: raw.reparse_tag.get(),
            reparse_reserved: raw.reparse_reserved.get(),
            reparse_flags: raw.reparse_flags.get(),
            data: streams.data,
            reparse_data: streams.reparse_data,
            efs_data: streams.efs_data,
            name_start,
            name_length,
            short_name_length,
            streams: streams_start..narrow(self.tree.streams.len()),
            tagged,
        });
        let security_id = raw.security_id.get();
        if security_id >= 0 && security_id as usize >= self.tree.descriptor_ends.len() {
            let count = self.tree.descriptor_ends.len();
            let reason = format!("its security id is {security_id}, but there are {count} security descriptor(s)");
            return Err(self.invalid(at, Some(node), reason));
        }
        Ok(Some(end - at))
    }

    /// Refuses bytes that another dentry was read from: its directory's list is reached twice, or two lists overlap. With
    /// it, all arenas together are bounded by the resource's length.
    fn mark_parsed(&mut self, range: Range<usize>, parent: u32) -> Result<(), WimError> {
        for slot in range.start / 8..range.end.div_ceil(8) {
            let (word, bit) = (slot / 64, slot % 64);
            let seen = self.parsed.get_mut(word).is_none_or(|word| {
                let seen = *word >> bit & 1 == 1;
                *word |= 1 << bit;
                seen
            });
            if seen {
                let (wim, index, offset) = (self.wim.to_owned(), self.index, range.start as u64);
                return Err(WimError::Cycle {
                    wim,
                    index,
                    offset,
                    path: self.path(parent),
                });
            }
        }
        Ok(())
    }

    fn check_names(
        &self,
        at: usize,
        parent: u32,
        name_start: u32,
        name_length: u16,
        short_name_length: u16,
    ) -> Result<(), WimError> {
        let names = &self.tree.names[name_start as usize..];
        let (name, short_name) = names.split_at(name_length.into());
        if let Err(fault) = check_name(name) {
            return Err(self.bad_name(at, self.path_with(parent, name), fault));
        }
        if short_name_length != 0
            && let Err(fault) = check_name(short_name)
        {
            let path = format!(
                "{} (short name {})",
                self.path_with(parent, name),
                escape_name(short_name)
            );
            return Err(self.bad_name(at, path, fault));
        }
        Ok(())
    }

    fn bad_name(&self, at: usize, path: String, fault: NameFault) -> WimError {
        WimError::InvalidName {
            wim: self.wim.to_owned(),
            index: self.index,
            offset: at as u64,
            path,
            fault,
        }
    }

    /// Takes one extra stream entry at `at`; gives where the next begins.
    fn extra_stream(
        &mut self,
        at: usize,
        dentry_at: usize,
        parent: Option<u32>,
        streams: &mut Streams,
    ) -> Result<usize, WimError> {
        const ENTRY_BYTES: usize = size_of::<RawExtraStream>();
        let parsed = self
            .bytes
            .get(at..)
            .and_then(|rest| RawExtraStream::read_from_prefix(rest).ok());
        let Some((raw, behind)) = parsed else {
            return Err(self.invalid(
                at,
                parent,
                format!("a stream entry of the dentry at {dentry_at} is cut off"),
            ));
        };
        let name_bytes = usize::from(raw.name_bytes.get());
        let length = usize::try_from(raw.length_bytes.get()).unwrap_or(usize::MAX);
        let name = behind.get(..name_bytes).filter(|_| name_bytes.is_multiple_of(2));
        let fits = length >= ENTRY_BYTES + name_bytes && length <= self.bytes.len() - at;
        let Some(name) = name.filter(|_| fits) else {
            let reason =
                format!("a stream entry of the dentry at {dentry_at} has {length} bytes and a name of {name_bytes}");
            return Err(self.invalid(at, parent, reason));
        };
        self.mark_parsed(at..at + length, parent.unwrap_or(0))?;
        let sha1 = Sha1Hash(raw.sha1);
        if name.is_empty() {
            streams.unnamed(sha1);
        } else {
            let name_start = self.tree.names.len();
            extend_utf16(&mut self.tree.names, name);
            let units = &self.tree.names[name_start..];
            if let Err(fault) = check_stream_name(units) {
                let path = format!("{} (a stream {})", self.path(parent.unwrap_or(0)), escape_name(units));
                return Err(self.bad_name(at, path, fault));
            }
            let name_length = narrow_16(name_bytes / 2);
            self.tree.streams.push(StreamEntry {
                name_start: narrow(name_start),
                name_length,
                sha1,
            });
        }
        Ok(at + length.next_multiple_of(8))
    }
}

fn hard_link_group(raw: &RawDentry) -> u64 {
    if raw.attributes.get() & ATTRIBUTE_REPARSE_POINT != 0 {
        return 0;
    }
    let low: u64 = raw.reparse_tag.get().into();
    let middle: u64 = raw.reparse_reserved.get().into();
    let high: u64 = raw.reparse_flags.get().into();
    low | middle << 32 | high << 48
}

struct Names<'b> {
    name: &'b [u8],
    short_name: &'b [u8],
    /// How many bytes both take with their terminating zeros.
    consumed: usize,
}

/// Splits off the name and the short name; each that is not empty has a terminating zero.
fn split_names(behind: &[u8], name_bytes: usize, short_name_bytes: usize) -> Option<Names<'_>> {
    if !name_bytes.is_multiple_of(2) || !short_name_bytes.is_multiple_of(2) {
        return None;
    }
    let with_zero = |bytes: usize| if bytes == 0 { 0 } else { bytes + 2 };
    let short_start = with_zero(name_bytes);
    let name = behind.get(..name_bytes)?;
    let short_name = behind
        .get(short_start..short_start + short_name_bytes)
        .or((short_name_bytes == 0).then_some(&[]))?;
    Some(Names {
        name,
        short_name,
        consumed: short_start + with_zero(short_name_bytes),
    })
}

fn extend_utf16(units: &mut Vec<u16>, bytes: &[u8]) {
    units.extend(bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)));
}

/// A position in an arena. Every arena is filled from the resource, which is shorter than 4 GiB.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// A length in UTF-16 units, half of a 16-bit length in bytes.
fn narrow_16(units: usize) -> u16 {
    u16::try_from(units).unwrap_or(u16::MAX)
}
