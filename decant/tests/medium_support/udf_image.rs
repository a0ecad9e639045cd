// SPDX-License-Identifier: GPL-3.0-or-later
//! A UDF writer for tests: every form that a reader must know and that no tool here writes with files in it.
//!
//! It is written from ECMA-167 and the UDF specification, apart from the reader, with offsets where that has structs.

use std::collections::BTreeMap;

/// How the partition map table finds blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    Sparable,
    Virtual150,
    Virtual200,
    Metadata,
}

/// How a file's content is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Inside the file entry, where it fits; else short descriptors.
    Inline,
    /// One short descriptor (long ones where the ICB lies in another partition).
    Short,
    Long,
    Extended,
    /// One descriptor each block, back to front on the disc, in a chain of allocation extents.
    Scattered,
    /// A hole of each kind after each block.
    Holes,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub block_bytes: usize,
    pub form: Form,
    pub layout: Layout,
    pub strategy: u16,
    pub extended_entries: bool,
    pub inline_directories: bool,
    pub revision: u16,
    pub label: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_bytes: 2048,
            form: Form::Plain,
            layout: Layout::Short,
            strategy: 4,
            extended_entries: false,
            inline_directories: false,
            revision: 0x0102,
            label: "TEST".to_owned(),
        }
    }
}

pub const PARTITION_START: usize = 320;
const MAIN: usize = 128;
const RESERVE: usize = 160;
const INTEGRITY: usize = 192;
const SPARING: usize = 208;
const PACKET: usize = 4;

/// CRC-16 of ECMA-167, bit by bit.
pub fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// Writes a tag over the first 16 bytes; the CRC covers `length` bytes behind it.
pub fn seal(bytes: &mut [u8], identifier: u16, location: u32, length: usize) {
    put(bytes, 0, &identifier.to_le_bytes());
    put(bytes, 2, &3_u16.to_le_bytes());
    put(bytes, 6, &1_u16.to_le_bytes());
    let sum = crc(&bytes[16..16 + length]);
    put(bytes, 8, &sum.to_le_bytes());
    put(bytes, 10, &u16::try_from(length).unwrap().to_le_bytes());
    put(bytes, 12, &location.to_le_bytes());
    reseal(bytes);
}

/// Makes the tag checksum right again.
pub fn reseal(bytes: &mut [u8]) {
    bytes[4] = 0;
    bytes[4] = bytes[..16].iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
}

pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn entity(bytes: &mut [u8], at: usize, name: &str, revision: u16) {
    put(bytes, at + 1, name.as_bytes());
    put(bytes, at + 24, &revision.to_le_bytes());
}

/// OSTA compressed Unicode: 8 bits where they are enough.
pub fn cs0(name: &str) -> Vec<u8> {
    if name.chars().all(|character| u32::from(character) < 256) {
        std::iter::once(8)
            .chain(
                name.chars()
                    .map(|character| u8::try_from(u32::from(character)).unwrap()),
            )
            .collect()
    } else {
        std::iter::once(16)
            .chain(name.encode_utf16().flat_map(u16::to_be_bytes))
            .collect()
    }
}

fn dstring(bytes: &mut [u8], at: usize, length: usize, text: &str) {
    let encoded = cs0(text);
    put(bytes, at, &encoded);
    bytes[at + length - 1] = u8::try_from(encoded.len()).unwrap();
}

fn timestamp(bytes: &mut [u8], at: usize) {
    // 2009-09-22 12:52:23.45 at UTC+2: type 1, 120 minutes.
    put(bytes, at, &(0x1000_u16 | 120).to_le_bytes());
    put(bytes, at + 2, &2009_u16.to_le_bytes());
    put(bytes, at + 4, &[9, 22, 12, 52, 23, 45, 0, 0]);
}

/// The time of every file: nanoseconds since 1970.
pub const MODIFIED_NS: i64 = 1_253_616_743_450_000_000;

fn long(length: usize, kind: u32, block: u32, partition: u16) -> Vec<u8> {
    let mut bytes = (u32::try_from(length).unwrap() | kind << 30).to_le_bytes().to_vec();
    bytes.extend(block.to_le_bytes());
    bytes.extend(partition.to_le_bytes());
    bytes.extend([0; 6]);
    bytes
}

fn short(length: usize, kind: u32, block: u32) -> Vec<u8> {
    long(length, kind, block, 0)[..8].to_vec()
}

fn extended(length: usize, kind: u32, block: u32, partition: u16) -> Vec<u8> {
    let recorded = if kind == 0 { length } else { 0 };
    let mut bytes = (u32::try_from(length).unwrap() | kind << 30).to_le_bytes().to_vec();
    bytes.extend(u32::try_from(recorded).unwrap().to_le_bytes());
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes.extend(block.to_le_bytes());
    bytes.extend(partition.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// A node of the tree that is written.
#[derive(Debug, Clone)]
pub enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<String, Node>),
}

/// Makes a tree of `path` → content.
pub fn tree(files: &[(&str, Vec<u8>)]) -> Node {
    let mut root = BTreeMap::new();
    for (path, content) in files {
        let mut directory = &mut root;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                directory.insert(name.to_owned(), Node::File(content.clone()));
                break;
            }
            let node = directory
                .entry(name.to_owned())
                .or_insert_with(|| Node::Directory(BTreeMap::new()));
            let Node::Directory(inner) = node else {
                panic!("{name} is a file")
            };
            directory = inner;
        }
    }
    Node::Directory(root)
}

/// The image at work: the bare partition, and the metadata file or virtual table over it.
pub struct Writer {
    options: Options,
    /// The physical partition's blocks.
    partition: Vec<u8>,
    metadata: Vec<u8>,
    table: Vec<u32>,
    /// Blocks of descriptors, as places in the finished image: what a mutation test aims at.
    pub structures: Vec<usize>,
}

/// Writes a whole image.
pub fn write(options: &Options, root: &Node) -> Vec<u8> {
    write_with_structures(options, root).0
}

/// The same, with the places of its descriptors.
pub fn write_with_structures(options: &Options, root: &Node) -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer {
        options: options.clone(),
        partition: Vec::new(),
        metadata: Vec::new(),
        table: Vec::new(),
        structures: Vec::new(),
    };
    writer.image(root)
}

impl Writer {
    fn block_bytes(&self) -> usize {
        self.options.block_bytes
    }

    /// The map that descriptors and directories are addressed through.
    fn meta_partition(&self) -> u16 {
        u16::from(!matches!(self.options.form, Form::Plain | Form::Sparable))
    }

    fn take_physical(&mut self, blocks: usize) -> u32 {
        let block = self.partition.len() / self.block_bytes();
        self.partition
            .resize(self.partition.len() + blocks * self.block_bytes(), 0);
        u32::try_from(block).unwrap()
    }

    /// Takes a block for a descriptor or a directory, addressed through the meta partition.
    fn take_meta(&mut self) -> u32 {
        match self.options.form {
            Form::Plain | Form::Sparable => self.take_physical(1),
            Form::Metadata => {
                let block = self.metadata.len() / self.block_bytes();
                self.metadata.resize(self.metadata.len() + self.block_bytes(), 0);
                u32::try_from(block).unwrap()
            }
            Form::Virtual150 | Form::Virtual200 => {
                // A block in between, so that virtual and physical numbers never agree.
                let physical = self.take_physical(2) + 1;
                self.table.push(physical);
                u32::try_from(self.table.len() - 1).unwrap()
            }
        }
    }

    fn put_meta(&mut self, block: u32, bytes: &[u8]) {
        let block_bytes = self.block_bytes();
        let block = usize::try_from(block).unwrap();
        match self.options.form {
            Form::Plain | Form::Sparable => put(&mut self.partition, block * block_bytes, bytes),
            Form::Metadata => put(&mut self.metadata, block * block_bytes, bytes),
            Form::Virtual150 | Form::Virtual200 => {
                let physical = self.table[block] as usize;
                put(&mut self.partition, physical * block_bytes, bytes);
            }
        }
    }

    fn data(&mut self, bytes: &[u8]) -> u32 {
        let block = self.take_physical(bytes.len().div_ceil(self.block_bytes()));
        let at = block as usize * self.block_bytes();
        put(&mut self.partition, at, bytes);
        block
    }

    /// A file entry of either kind as bytes, not sealed yet; gives where allocation descriptors go as well.
    fn entry(&self, file_type: u8, form: u16, length: usize, allocation: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; self.block_bytes()];
        put(&mut bytes, 20, &self.options.strategy.to_le_bytes());
        put(&mut bytes, 24, &1_u16.to_le_bytes());
        bytes[27] = file_type;
        put(&mut bytes, 34, &form.to_le_bytes());
        put(&mut bytes, 48, &1_u16.to_le_bytes());
        put(&mut bytes, 56, &u64::try_from(length).unwrap().to_le_bytes());
        let (modified, attributes, header) = if self.options.extended_entries {
            (92, 208, 216)
        } else {
            (84, 168, 176)
        };
        timestamp(&mut bytes, modified);
        // Extended attributes before the descriptors: the reader must skip them.
        put(&mut bytes, attributes, &24_u32.to_le_bytes());
        put(
            &mut bytes,
            attributes + 4,
            &u32::try_from(allocation.len()).unwrap().to_le_bytes(),
        );
        put(&mut bytes, header, &[0xea; 24]);
        put(&mut bytes, header + 24, allocation);
        bytes
    }

    fn entry_id(&self) -> u16 {
        if self.options.extended_entries { 266 } else { 261 }
    }

    fn room(&self) -> usize {
        self.block_bytes() - if self.options.extended_entries { 216 } else { 176 } - 24
    }

    /// Puts a file entry into the meta partition. Under strategy 4096 it is a chain: an old entry, an indirect entry
    /// behind it, and the entry that holds.
    fn put_entry(&mut self, file_type: u8, form: u16, length: usize, allocation: &[u8]) -> u32 {
        let identifier = self.entry_id();
        let used = self.block_bytes() - 16;
        if self.options.strategy == 4 {
            let block = self.take_meta();
            let mut bytes = self.entry(file_type, form, length, allocation);
            seal(&mut bytes, identifier, block, used);
            self.put_meta(block, &bytes);
            return block;
        }
        let (first, indirect, second) = (self.take_meta(), self.take_meta(), self.take_meta());
        let mut old = self.entry(file_type, 3, 3, b"old");
        seal(&mut old, identifier, first, used);
        self.put_meta(first, &old);
        let mut link = vec![0; self.block_bytes()];
        put(&mut link, 20, &4096_u16.to_le_bytes());
        link[27] = 3;
        let target = long(self.block_bytes(), 0, second, self.meta_partition());
        put(&mut link, 36, &target);
        seal(&mut link, 259, indirect, 36);
        self.put_meta(indirect, &link);
        let mut new = self.entry(file_type, form, length, allocation);
        seal(&mut new, identifier, second, used);
        self.put_meta(second, &new);
        // The block behind the last entry stays empty, as on a disc that waits for the next change.
        self.take_meta();
        first
    }

    fn file(&mut self, content: &[u8]) -> u32 {
        let block_bytes = self.block_bytes();
        let layout = match self.options.layout {
            Layout::Inline if content.len() > self.room() => Layout::Short,
            Layout::Short if self.meta_partition() != 0 => Layout::Long,
            layout => layout,
        };
        match layout {
            Layout::Inline => self.put_entry(5, 3, content.len(), content),
            Layout::Short => {
                let block = self.data(content);
                let form = u16::from(self.meta_partition() != 0);
                let descriptor = if form == 0 {
                    short(content.len(), 0, block)
                } else {
                    long(content.len(), 0, block, 0)
                };
                self.put_entry(5, form, content.len(), &descriptor)
            }
            Layout::Long => {
                let block = self.data(content);
                self.put_entry(5, 1, content.len(), &long(content.len(), 0, block, 0))
            }
            Layout::Extended => {
                let block = self.data(content);
                self.put_entry(5, 2, content.len(), &extended(content.len(), 0, block, 0))
            }
            Layout::Scattered => self.scattered(content),
            Layout::Holes => {
                let mut allocation = Vec::new();
                let mut length = 0;
                for (index, piece) in content.chunks(block_bytes).enumerate() {
                    let block = self.data(piece);
                    allocation.extend(long(piece.len(), 0, block, 0));
                    length += piece.len();
                    if piece.len() == block_bytes {
                        let kind = 1 + u32::try_from(index % 2).unwrap();
                        allocation.extend(long(block_bytes, kind, 0, 0));
                        length += block_bytes;
                    }
                }
                self.put_entry(5, 1, length, &allocation)
            }
        }
    }

    /// Each block its own extent, backwards, three descriptors in the entry and in each allocation extent.
    fn scattered(&mut self, content: &[u8]) -> u32 {
        let pieces: Vec<&[u8]> = content.chunks(self.block_bytes()).collect();
        let mut descriptors = vec![Vec::new(); pieces.len()];
        for (index, piece) in pieces.iter().enumerate().rev() {
            let block = self.data(piece);
            descriptors[index] = long(piece.len(), 0, block, 0);
        }
        let mut areas: Vec<Vec<u8>> = descriptors.chunks(3).map(|group| group.concat()).collect();
        let partition = self.meta_partition();
        let mut next: Option<u32> = None;
        while areas.len() > 1 {
            let mut area = areas.pop().unwrap();
            if let Some(next) = next {
                area.extend(long(self.block_bytes(), 3, next, partition));
            }
            let block = self.take_meta();
            let mut bytes = vec![0; self.block_bytes()];
            put(&mut bytes, 20, &u32::try_from(area.len()).unwrap().to_le_bytes());
            put(&mut bytes, 24, &area);
            seal(&mut bytes, 258, block, 8 + area.len());
            self.put_meta(block, &bytes);
            next = Some(block);
        }
        let mut area = areas.pop().unwrap_or_default();
        if let Some(next) = next {
            area.extend(long(self.block_bytes(), 3, next, partition));
        }
        self.put_entry(5, 1, content.len(), &area)
    }

    fn identifier(&self, characteristics: u8, name: &[u8], icb: u32) -> Vec<u8> {
        // Four bytes of implementation use: the reader must skip them.
        let length = (38 + 4 + name.len()).next_multiple_of(4);
        let mut bytes = vec![0; length];
        put(&mut bytes, 16, &1_u16.to_le_bytes());
        bytes[18] = characteristics;
        bytes[19] = u8::try_from(name.len()).unwrap();
        put(&mut bytes, 20, &long(self.block_bytes(), 0, icb, self.meta_partition()));
        put(&mut bytes, 36, &4_u16.to_le_bytes());
        put(&mut bytes, 42, name);
        seal(&mut bytes, 257, 0, length - 16);
        bytes
    }

    fn directory(&mut self, entries: &BTreeMap<String, Node>) -> u32 {
        let mut bytes = self.identifier(8 | 2, b"", 0);
        // A deleted name with the compression that marks such names, which leads nowhere.
        bytes.extend(self.identifier(4, b"\xfegone", 0xffff));
        for (name, node) in entries {
            let (icb, characteristics) = match node {
                Node::File(content) => (self.file(content), 0),
                Node::Directory(inner) => (self.directory(inner), 2),
            };
            bytes.extend(self.identifier(characteristics, &cs0(name), icb));
        }
        if self.options.inline_directories && bytes.len() <= self.room() {
            return self.put_entry(4, 3, bytes.len(), &bytes);
        }
        let mut allocation = Vec::new();
        for piece in bytes.chunks(self.block_bytes()) {
            let block = self.take_meta();
            self.put_meta(block, piece);
            // Short descriptors mean the partition of the entry itself, whatever it is.
            allocation.extend(short(piece.len(), 0, block));
        }
        self.put_entry(4, 0, bytes.len(), &allocation)
    }

    fn image(&mut self, root: &Node) -> (Vec<u8>, Vec<usize>) {
        let block_bytes = self.block_bytes();
        let Node::Directory(entries) = root else {
            panic!("the root is a file")
        };
        if matches!(self.options.form, Form::Metadata | Form::Sparable) {
            // So that the first block of everything is not block 0 of the partition.
            self.take_physical(3);
        }
        let file_set = self.take_meta();
        let root_block = self.directory(entries);
        let mut bytes = vec![0; block_bytes];
        timestamp(&mut bytes, 16);
        put(
            &mut bytes,
            400,
            &long(block_bytes, 0, root_block, self.meta_partition()),
        );
        entity(&mut bytes, 416, "*OSTA UDF Compliant", self.options.revision);
        seal(&mut bytes, 256, file_set, 496);
        self.put_meta(file_set, &bytes);
        let metadata = self.metadata_files();
        let moved = self.spare_packets();
        self.frame(file_set, metadata, &moved)
    }

    /// Writes the metadata file and its mirror; gives the blocks of their entries.
    fn metadata_files(&mut self) -> (u32, u32) {
        if self.options.form != Form::Metadata {
            return (0, 0);
        }
        let content = self.metadata.clone();
        let blocks = [250, 251].map(|file_type| {
            // In two extents with something between them.
            let half = (content.len() / self.block_bytes() / 2).max(1) * self.block_bytes();
            let (front, back) = content.split_at(half.min(content.len()));
            let first = self.data(front);
            self.take_physical(1);
            let second = self.data(back);
            let allocation = [short(front.len(), 0, first), short(back.len(), 0, second)].concat();
            let block = self.take_physical(1);
            let mut bytes = self.entry(file_type, 0, content.len(), &allocation);
            put(&mut bytes, 20, &4_u16.to_le_bytes());
            seal(&mut bytes, self.entry_id(), block, self.block_bytes() - 16);
            put(&mut self.partition, block as usize * self.options.block_bytes, &bytes);
            block
        });
        (blocks[0], blocks[1])
    }

    /// Moves each second packet to the partition's end and spoils its old place.
    fn spare_packets(&mut self) -> Vec<(u32, u32)> {
        if self.options.form != Form::Sparable {
            return Vec::new();
        }
        let packet_bytes = PACKET * self.block_bytes();
        let whole = self.partition.len().next_multiple_of(packet_bytes);
        self.partition.resize(whole, 0);
        let mut moved = Vec::new();
        for packet in (1..whole / packet_bytes).step_by(2) {
            let at = packet * packet_bytes;
            let content = self.partition[at..at + packet_bytes].to_vec();
            self.partition[at..at + packet_bytes].fill(0xbd);
            let new = PARTITION_START * self.block_bytes() + self.partition.len();
            self.partition.extend(content);
            let original = u32::try_from(packet * PACKET).unwrap();
            moved.push((original, u32::try_from(new / self.block_bytes()).unwrap()));
        }
        moved
    }

    fn maps(&self, (metadata, mirror): (u32, u32)) -> Vec<u8> {
        let plain = [1, 6, 1, 0, 0, 0];
        let type2 = |name: &str| {
            let mut map = vec![0; 64];
            put(&mut map, 0, &[2, 64]);
            entity(&mut map, 4, name, self.options.revision);
            put(&mut map, 36, &1_u16.to_le_bytes());
            map
        };
        match self.options.form {
            Form::Plain => plain.to_vec(),
            Form::Virtual150 | Form::Virtual200 => [plain.to_vec(), type2("*UDF Virtual Partition")].concat(),
            Form::Sparable => {
                let mut map = type2("*UDF Sparable Partition");
                put(&mut map, 40, &u16::try_from(PACKET).unwrap().to_le_bytes());
                map[42] = 2;
                put(&mut map, 44, &u32::try_from(self.block_bytes()).unwrap().to_le_bytes());
                put(&mut map, 48, &u32::try_from(SPARING).unwrap().to_le_bytes());
                put(&mut map, 52, &u32::try_from(SPARING + 8).unwrap().to_le_bytes());
                map
            }
            Form::Metadata => {
                let mut map = type2("*UDF Metadata Partition");
                put(&mut map, 40, &metadata.to_le_bytes());
                put(&mut map, 44, &mirror.to_le_bytes());
                put(&mut map, 48, &u32::MAX.to_le_bytes());
                [plain.to_vec(), map].concat()
            }
        }
    }

    /// The volume around the partition.
    fn frame(&mut self, file_set: u32, metadata: (u32, u32), moved: &[(u32, u32)]) -> (Vec<u8>, Vec<usize>) {
        let block_bytes = self.block_bytes();
        let is_virtual = matches!(self.options.form, Form::Virtual150 | Form::Virtual200);
        if is_virtual {
            self.virtual_table();
        }
        let length_blocks = self.partition.len() / block_bytes;
        let mut image = vec![0; PARTITION_START * block_bytes];
        for (index, name) in [b"BEA01", b"NSR03", b"TEA01"].iter().enumerate() {
            let at = 32_768 + index * block_bytes.max(2048);
            put(&mut image, at + 1, *name);
            image[at + 6] = 1;
        }
        let maps = self.maps(metadata);
        for start in [MAIN, RESERVE] {
            let descriptors = [
                (1, self.primary()),
                (6, self.logical(file_set, &maps)),
                (5, self.partition_descriptor(length_blocks)),
                (8, vec![0; 512]),
            ];
            for (index, (identifier, mut bytes)) in descriptors.into_iter().enumerate() {
                let block = start + index;
                let length = bytes.len() - 16;
                seal(&mut bytes, identifier, u32::try_from(block).unwrap(), length);
                put(&mut image, block * block_bytes, &bytes);
            }
        }
        self.integrity(&mut image);
        self.sparing(&mut image, moved);
        self.structures.extend(
            (MAIN..MAIN + 4)
                .chain([INTEGRITY, 256])
                .map(|block| block * block_bytes),
        );
        let first = image.len();
        image.extend(&self.partition);
        self.structures.extend(
            (0..length_blocks)
                .map(|block| first + block * block_bytes)
                .filter(|at| {
                    let tag = u16::from_le_bytes([image[*at], image[at + 1]]);
                    matches!(tag, 256..=266) && image[at + 2] == 3
                }),
        );
        if !is_virtual {
            image.resize(image.len() + block_bytes, 0);
        }
        let last = image.len() / block_bytes - 1;
        for block in [256, last].into_iter().take(if is_virtual { 1 } else { 2 }) {
            let mut anchor = vec![0; 512];
            for (at, start) in [(16, MAIN), (24, RESERVE)] {
                put(&mut anchor, at, &u32::try_from(16 * block_bytes).unwrap().to_le_bytes());
                put(&mut anchor, at + 4, &u32::try_from(start).unwrap().to_le_bytes());
            }
            seal(&mut anchor, 2, u32::try_from(block).unwrap(), 496);
            put(&mut image, block * block_bytes, &anchor);
        }
        (image, self.structures.clone())
    }

    fn primary(&self) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        dstring(&mut bytes, 24, 32, "VOLUME");
        put(&mut bytes, 56, &[1, 0, 1, 0, 2, 0, 2, 0]);
        dstring(&mut bytes, 72, 128, "0123456789abcdefSET");
        bytes
    }

    fn logical(&self, file_set: u32, maps: &[u8]) -> Vec<u8> {
        let block_bytes = self.block_bytes();
        let mut bytes = vec![0; 512_usize.max(440 + maps.len())];
        dstring(&mut bytes, 84, 128, &self.options.label);
        put(&mut bytes, 212, &u32::try_from(block_bytes).unwrap().to_le_bytes());
        entity(&mut bytes, 216, "*OSTA UDF Compliant", self.options.revision);
        put(&mut bytes, 248, &long(block_bytes, 0, file_set, self.meta_partition()));
        put(&mut bytes, 264, &u32::try_from(maps.len()).unwrap().to_le_bytes());
        put(&mut bytes, 268, &(1 + u32::from(self.meta_partition())).to_le_bytes());
        put(&mut bytes, 432, &u32::try_from(block_bytes).unwrap().to_le_bytes());
        put(&mut bytes, 436, &u32::try_from(INTEGRITY).unwrap().to_le_bytes());
        put(&mut bytes, 440, maps);
        bytes
    }

    fn partition_descriptor(&self, length_blocks: usize) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        put(&mut bytes, 20, &[1, 0]);
        entity(&mut bytes, 24, "+NSR03", 0);
        put(&mut bytes, 184, &1_u32.to_le_bytes());
        put(&mut bytes, 188, &u32::try_from(PARTITION_START).unwrap().to_le_bytes());
        put(&mut bytes, 192, &u32::try_from(length_blocks).unwrap().to_le_bytes());
        bytes
    }

    fn integrity(&self, image: &mut [u8]) {
        let mut bytes = vec![0; 512];
        timestamp(&mut bytes, 16);
        put(&mut bytes, 28, &1_u32.to_le_bytes());
        put(&mut bytes, 72, &1_u32.to_le_bytes());
        put(&mut bytes, 76, &46_u32.to_le_bytes());
        put(&mut bytes, 88 + 40, &self.options.revision.to_le_bytes());
        put(&mut bytes, 88 + 42, &self.options.revision.to_le_bytes());
        seal(&mut bytes, 9, u32::try_from(INTEGRITY).unwrap(), 496);
        put(image, INTEGRITY * self.block_bytes(), &bytes);
    }

    /// Two copies: an outdated one that moves nothing, and the one that holds.
    fn sparing(&self, image: &mut [u8], moved: &[(u32, u32)]) {
        if self.options.form != Form::Sparable {
            return;
        }
        let free = [(u32::MAX, 9999)];
        for (block, sequence, entries) in [(SPARING, 1_u32, &free[..]), (SPARING + 8, 2, moved)] {
            let mut bytes = vec![0; self.block_bytes()];
            entity(&mut bytes, 16, "*UDF Sparing Table", self.options.revision);
            put(&mut bytes, 48, &u16::try_from(entries.len()).unwrap().to_le_bytes());
            put(&mut bytes, 52, &sequence.to_le_bytes());
            for (index, (original, mapped)) in entries.iter().enumerate() {
                put(&mut bytes, 56 + index * 8, &original.to_le_bytes());
                put(&mut bytes, 60 + index * 8, &mapped.to_le_bytes());
            }
            seal(&mut bytes, 0, u32::try_from(block).unwrap(), 40 + entries.len() * 8);
            put(image, block * self.block_bytes(), &bytes);
        }
    }

    /// The virtual allocation table and, as the image's last block, its ICB.
    fn virtual_table(&mut self) {
        let mut entries: Vec<u8> = self.table.iter().flat_map(|block| block.to_le_bytes()).collect();
        let file_type = if self.options.form == Form::Virtual150 {
            let mut trailer = vec![0; 36];
            entity(&mut trailer, 0, "*UDF Virtual Alloc Tbl", 0x0150);
            put(&mut trailer, 32, &u32::MAX.to_le_bytes());
            entries.extend(trailer);
            0
        } else {
            let mut header = vec![0; 152 + 8];
            put(&mut header, 0, &160_u16.to_le_bytes());
            put(&mut header, 2, &8_u16.to_le_bytes());
            dstring(&mut header, 4, 128, &format!("{} AGAIN", self.options.label));
            entries = [header, entries].concat();
            248
        };
        let block = self.data(&entries);
        let own = self.take_physical(1);
        let mut bytes = self.entry(file_type, 0, entries.len(), &short(entries.len(), 0, block));
        put(&mut bytes, 20, &4_u16.to_le_bytes());
        seal(&mut bytes, self.entry_id(), own, self.block_bytes() - 16);
        let at = own as usize * self.block_bytes();
        put(&mut self.partition, at, &bytes);
    }
}
