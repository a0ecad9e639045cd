// SPDX-License-Identifier: GPL-3.0-or-later
//! The tree of dentries: arenas, walking, paths and lookup.

use std::fmt;
use std::ops::Range;

use super::dentry::{Dentry, DentryId, Reparse, StreamEntry};
use super::name::{escape_name, names_equal_ignore_case, upcase};
use crate::wim::types::{Filetime, Sha1Hash};

/// An image's directory tree and security descriptors.
pub struct ImageMetadata {
    pub(super) nodes: Vec<Node>,
    /// All names one after another: each node's name, its short name, its streams' names.
    pub(super) names: Vec<u16>,
    pub(super) streams: Vec<StreamEntry>,
    pub(super) tagged: Vec<u8>,
    pub(super) descriptors: Vec<u8>,
    /// End of each descriptor in `descriptors`.
    pub(super) descriptor_ends: Vec<u32>,
}

/// A dentry as kept. Ranges are in the arenas of [`ImageMetadata`], which are all shorter than 4 GiB.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub parent: u32,
    pub first_child: u32,
    pub child_count: u32,
    pub metadata_offset: u32,
    pub attributes: u32,
    pub security_id: i32,
    pub creation_time: u64,
    pub last_access_time: u64,
    pub last_write_time: u64,
    pub hard_link_group: u64,
    pub reparse_tag: u32,
    pub reparse_reserved: u16,
    pub reparse_flags: u16,
    pub data: Sha1Hash,
    pub reparse_data: Sha1Hash,
    pub efs_data: Sha1Hash,
    pub name_start: u32,
    pub name_length: u16,
    pub short_name_length: u16,
    pub streams: Range<u32>,
    pub tagged: Range<u32>,
}

impl fmt::Debug for ImageMetadata {
    /// Counts only: the arenas have millions of entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageMetadata")
            .field("dentries", &self.nodes.len())
            .field("named_streams", &self.streams.len())
            .field("security_descriptors", &self.descriptor_ends.len())
            .finish_non_exhaustive()
    }
}

impl ImageMetadata {
    /// The root directory.
    #[must_use]
    pub fn root(&self) -> DentryId {
        DentryId(0)
    }

    /// How many files and directories there are, with the root.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: there is always a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A file or directory.
    ///
    /// # Panics
    /// When `id` is of another image.
    #[must_use]
    pub fn get(&self, id: DentryId) -> Dentry<'_> {
        let node = self.node(id);
        let name_start = node.name_start as usize;
        let name_end = name_start + usize::from(node.name_length);
        let reparse = (node.attributes & super::dentry::ATTRIBUTE_REPARSE_POINT != 0).then(|| Reparse {
            tag: node.reparse_tag,
            reserved: node.reparse_reserved,
            flags: node.reparse_flags,
            data: node.reparse_data.non_zero(),
        });
        Dentry {
            id,
            parent: (id.0 != 0).then_some(DentryId(node.parent)),
            metadata_offset: node.metadata_offset.into(),
            name: &self.names[name_start..name_end],
            short_name: &self.names[name_end..name_end + usize::from(node.short_name_length)],
            attributes: node.attributes,
            security_id: u32::try_from(node.security_id).ok(),
            creation_time: Filetime(node.creation_time),
            last_access_time: Filetime(node.last_access_time),
            last_write_time: Filetime(node.last_write_time),
            hard_link_group: Some(node.hard_link_group).filter(|&group| group != 0),
            reparse,
            data: node.data.non_zero(),
            efs_data: node.efs_data.non_zero(),
            streams: &self.streams[node.streams.start as usize..node.streams.end as usize],
            names: &self.names,
            tagged: &self.tagged[node.tagged.start as usize..node.tagged.end as usize],
        }
    }

    fn node(&self, id: DentryId) -> &Node {
        &self.nodes[id.index()]
    }

    /// What a directory holds, in stored order.
    pub fn children(&self, id: DentryId) -> impl ExactSizeIterator<Item = DentryId> + DoubleEndedIterator + use<> {
        let node = self.node(id);
        (node.first_child..node.first_child + node.child_count).map(DentryId)
    }

    /// Every file and directory once, a directory right before what it holds, in stored order.
    pub fn walk(&self) -> impl Iterator<Item = DentryId> + '_ {
        let mut stack = vec![self.root()];
        std::iter::from_fn(move || {
            let next = stack.pop()?;
            stack.extend(self.children(next).rev());
            Some(next)
        })
    }

    /// Every file and directory by ascending number: all of one depth before the next depth.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = DentryId> + use<> {
        (0..self.nodes.len()).map(|index| DentryId(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// The path from the root, its names separated by `\`, as stored; empty for the root.
    #[must_use]
    pub fn path_utf16(&self, id: DentryId) -> Vec<u16> {
        let mut names = Vec::new();
        let mut at = id;
        while at.0 != 0 {
            names.push(self.get(at).name);
            at = DentryId(self.node(at).parent);
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(u16::from(b'\\'));
            path.extend_from_slice(name);
        }
        path
    }

    /// The path for a message: `\` for the root, names escaped as [`escape_name`] does.
    #[must_use]
    pub fn path(&self, id: DentryId) -> String {
        let path = self.path_utf16(id);
        if path.is_empty() {
            "\\".to_owned()
        } else {
            escape_name(&path)
        }
    }

    /// The file or directory at a path whose names are separated by `/` or `\`, without regard to case. A name that is
    /// there exactly is preferred; else the first in stored order is taken. Empty names are passed over.
    #[must_use]
    pub fn lookup(&self, path: &str) -> Option<DentryId> {
        let mut at = self.root();
        for name in path.split(['/', '\\']).filter(|name| !name.is_empty()) {
            let name: Vec<u16> = name.encode_utf16().collect();
            at = self.child(at, &name)?;
        }
        Some(at)
    }

    /// The child of a directory with this name, as [`Self::lookup`] finds it.
    #[must_use]
    pub fn child(&self, directory: DentryId, name: &[u16]) -> Option<DentryId> {
        let mut found = None;
        for child in self.children(directory) {
            let child_name = self.get(child).name;
            if child_name == name {
                return Some(child);
            }
            if found.is_none() && names_equal_ignore_case(child_name, name) {
                found = Some(child);
            }
        }
        found
    }

    /// The security descriptors, raw and self-relative, in their order.
    pub fn security_descriptors(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.descriptor_ends.len()).map(|index| self.descriptor(index))
    }

    /// The security descriptor that a [`Dentry::security_id`] means.
    #[must_use]
    pub fn security_descriptor(&self, security_id: u32) -> Option<&[u8]> {
        let index = security_id as usize;
        (index < self.descriptor_ends.len()).then(|| self.descriptor(index))
    }

    fn descriptor(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.descriptor_ends[before]);
        &self.descriptors[start as usize..self.descriptor_ends[index] as usize]
    }

    /// Files of one directory whose names differ only in case: each with the first of its names.
    #[must_use]
    pub fn case_duplicates(&self) -> Vec<(DentryId, DentryId)> {
        let mut duplicates = Vec::new();
        let mut folded: Vec<(Vec<u16>, DentryId)> = Vec::new();
        for directory in self.ids() {
            folded.clear();
            folded.extend(self.children(directory).map(|child| {
                let name = self.get(child).name;
                (name.iter().map(|&unit| upcase(unit)).collect(), child)
            }));
            folded.sort_unstable();
            let mut first = 0;
            for at in 1..folded.len() {
                if folded[at].0 == folded[first].0 {
                    duplicates.push((folded[first].1, folded[at].1));
                } else {
                    first = at;
                }
            }
        }
        duplicates
    }
}
