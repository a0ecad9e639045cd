// SPDX-License-Identifier: GPL-3.0-or-later
//! What opens, what is refused with its name, split WIMs, and how little is read.

mod wim_support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fixtures::wim_writer::{Image, Node, WimWriter};
use vodka_decant::medium::{ReadAt, ReadAtError};
use vodka_decant::wim::{BlobReader, ChunkDecoder, Compression, ResourceId, Sha1Hash, Wim, WimError, format};
use wim_support::{files_below, files_of, has_wimlib, open, open_bytes, random_tree, text, wimlib};

/// A named source that counts the bytes that are read from it.
#[derive(Debug)]
struct Counted {
    name: String,
    bytes: Vec<u8>,
    read_bytes: Arc<AtomicU64>,
}

impl Counted {
    fn file(path: &Path) -> Arc<dyn ReadAt> {
        let bytes = std::fs::read(path).expect("a file");
        Arc::new(Self {
            name: text(path).to_owned(),
            bytes,
            read_bytes: Arc::default(),
        })
    }
}

impl ReadAt for Counted {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadAtError> {
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buffer, offset)
    }
}

fn captured(directory: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (tree, image) = (directory.join("tree"), directory.join(name));
    if !tree.exists() {
        random_tree(&tree, 77, 80, 200_000);
    }
    wimlib(&[&["capture", text(&tree), text(&image), "name"], options].concat());
    image
}

fn small() -> Vec<u8> {
    WimWriter::new(vec![Image::new("One", vec![Node::file("f", "content")])]).build()
}

fn refusal(bytes: Vec<u8>) -> WimError {
    Wim::open(Arc::new(bytes)).expect_err("refused")
}

#[test]
fn what_is_no_wim_is_said_to_be_none() {
    for bytes in [
        vec![],
        b"MSWIM".to_vec(),
        b"MSCF\0\0\0\0 and more".to_vec(),
        vec![0; 4096],
    ] {
        assert!(!Wim::is_wim(&bytes));
        let error = refusal(bytes);
        assert!(matches!(error, WimError::UnexpectedMagic { .. }), "{error}");
    }
    // Only the header is missing: then the read fails.
    assert!(matches!(refusal(small()[..100].to_vec()), WimError::Read { .. }));
}

#[test]
fn a_pipable_wim_is_refused_by_its_name() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = captured(directory.path(), "pipable.wim", &["--pipable", "--compress=lzx"]);
    let bytes = std::fs::read(image).expect("a file");
    assert!(Wim::is_wim(&bytes));
    let error = refusal(bytes);
    assert!(
        matches!(error, WimError::UnsupportedPipable { .. }) && error.is_unsupported(),
        "{error}"
    );
    assert!(error.to_string().contains("WLPWM"));
}

#[test]
fn damaged_headers_are_refused_naming_the_field() {
    let edit = |at: usize, value: &[u8]| {
        let mut bytes = small();
        bytes[at..at + value.len()].copy_from_slice(value);
        refusal(bytes)
    };
    assert!(matches!(
        edit(8, &[100]),
        WimError::InvalidHeader {
            field: "header size",
            ..
        }
    ));
    assert!(matches!(
        edit(12, &[1, 2, 3, 4]),
        WimError::UnsupportedVersion { found: 0x0403_0201, .. }
    ));
    assert!(matches!(
        edit(40, &[0]),
        WimError::InvalidHeader {
            field: "part number",
            ..
        }
    ));
    assert!(matches!(
        edit(40, &[2, 0, 3, 0]),
        WimError::UnexpectedPart {
            part: 2,
            total_parts: 3,
            ..
        }
    ));
    assert!(matches!(
        edit(44, &[0xff; 4]),
        WimError::InvalidHeader {
            field: "image count",
            ..
        }
    ));
    let compressed = |kind: u32, chunk: u32| {
        let flags = (format::header_flags::COMPRESSION | kind).to_le_bytes();
        edit(16, &[flags, chunk.to_le_bytes()].concat())
    };
    assert!(matches!(compressed(0, 32768), WimError::InvalidHeader { .. }));
    assert!(matches!(
        compressed(format::header_flags::COMPRESS_XPRESS_2, 32768),
        WimError::UnsupportedCompression { .. }
    ));
    assert!(matches!(
        compressed(format::header_flags::COMPRESS_LZX, 40_000),
        WimError::UnsupportedChunkSize { .. }
    ));
    assert!(matches!(
        compressed(format::header_flags::COMPRESS_XPRESS, 1 << 17),
        WimError::UnsupportedChunkSize { .. }
    ));
}

#[test]
fn structures_outside_the_file_are_refused_with_both_lengths() {
    let length = small().len() as u64;
    for (field, what) in [(48, "the blob table"), (72, "the XML")] {
        let mut bytes = small();
        bytes[field + 8..field + 16].copy_from_slice(&(length - 3).to_le_bytes());
        let wim = open_bytes(bytes);
        let error = if field == 48 {
            wim.blobs().map(|_| ())
        } else {
            wim.info().map(|_| ())
        }
        .expect_err(what);
        assert!(matches!(error, WimError::InvalidLocation { .. }), "{error}");
        assert!(
            error.to_string().contains(what) && error.to_string().contains(&length.to_string()),
            "{error}"
        );
    }
    let mut bytes = small();
    bytes[72..79].copy_from_slice(&[0xff; 7]);
    assert!(matches!(open_bytes(bytes).info(), Err(WimError::TooLarge { .. })));
}

#[test]
fn a_blob_that_is_not_there_is_named() {
    let wim = open_bytes(small());
    let sha1 = Sha1Hash::of(b"nowhere");
    let error = wim.find_blob(&sha1).expect_err("missing");
    assert!(error.to_string().contains(&sha1.to_string()), "{error}");
}

#[test]
fn a_blob_larger_than_allowed_is_not_read() {
    let wim = open_bytes(small());
    let blob = wim.find_blob(&Sha1Hash::of(b"content")).expect("there");
    assert_eq!(wim.read_blob(blob, 7).expect("7 bytes"), b"content");
    assert!(matches!(
        wim.read_blob(blob, 6),
        Err(WimError::TooLarge { found: 7, limit: 6, .. })
    ));
}

#[test]
fn a_damaged_blob_is_never_reported_as_good() {
    let mut bytes = small();
    bytes[208] ^= 1;
    let wim = open_bytes(bytes);
    let blob = wim.find_blob(&Sha1Hash::of(b"content")).expect("listed");
    let error = wim.read_blob(blob, 1 << 20).expect_err("damaged");
    let WimError::WrongHash {
        offset,
        expected,
        actual,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((offset, expected), (208, Sha1Hash::of(b"content")));
    assert_ne!(actual, expected);
}

#[test]
fn split_parts_are_found_by_name_and_read_as_one() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = captured(directory.path(), "whole.wim", &["--compress=lzx"]);
    let first = directory.path().join("install.swm");
    wimlib(&["split", text(&image), text(&first), "0.1"]);
    let mut asked = Vec::new();
    let wim = Wim::open_split(Counted::file(&first), &mut |name| {
        asked.push(name.to_owned());
        Some(Counted::file(&directory.path().join(name)))
    })
    .expect("all parts");
    let parts = wim.header().total_parts;
    assert!(parts >= 3, "{parts} parts");
    assert_eq!(asked.first().map(String::as_str), Some("install2.swm"));
    assert_eq!(asked.len(), usize::from(parts) - 1);
    assert_eq!(files_of(&wim, 1), files_below(&directory.path().join("tree")));

    // The first alone can be listed, and says which part is missing when a blob is needed.
    let alone = open(&first);
    assert_eq!(alone.info().expect("the XML").images.len(), 1);
    let metadata = alone.metadata(1).expect("the metadata are in the first part");
    let missing = metadata
        .ids()
        .flat_map(|id| metadata.get(id).blobs())
        .find_map(|sha1| alone.find_blob(&sha1).err());
    assert!(matches!(missing, Some(WimError::MissingPart { part: 2, .. })));

    let second = directory.path().join("install2.swm");
    let error = Wim::open(Counted::file(&second)).expect_err("a later part");
    assert!(matches!(error, WimError::UnexpectedPart { part: 2, .. }), "{error}");

    let open_with = |third: Option<PathBuf>| {
        Wim::open_split(Counted::file(&first), &mut |name| {
            let path = if name == "install3.swm" {
                third.clone()?
            } else {
                directory.path().join(name)
            };
            Some(Counted::file(&path))
        })
        .expect_err("a wrong part")
    };
    let error = open_with(None);
    assert!(
        matches!(&error, WimError::MissingPart { part: 3, part_name, .. } if part_name == "install3.swm"),
        "{error}"
    );
    assert!(matches!(
        open_with(Some(second)),
        WimError::WrongPart {
            field: "part number",
            ..
        }
    ));
    assert!(matches!(open_with(Some(image)), WimError::WrongPart { part: 3, .. }));
}

#[test]
fn listing_reads_the_header_and_the_xml_only() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = captured(directory.path(), "image.wim", &["--compress=xpress"]);
    let source = Counted {
        name: "image.wim".to_owned(),
        bytes: std::fs::read(image).expect("a file"),
        read_bytes: Arc::default(),
    };
    let read_bytes = source.read_bytes.clone();
    let wim = Wim::open(Arc::new(source)).expect("opens");
    assert_eq!(read_bytes.load(Ordering::Relaxed), 208);
    wim.info().expect("the XML");
    assert_eq!(read_bytes.load(Ordering::Relaxed), 208 + wim.header().xml.stored_bytes);
    wim.metadata(1).expect("the metadata");
    let blob = wim.metadata_blob(1).expect("the metadata");
    let expected = 208
        + wim.header().xml.stored_bytes
        + wim.header().blob_table.stored_bytes
        + wim.blobs().expect("blobs").get(blob).stored_bytes;
    assert_eq!(read_bytes.load(Ordering::Relaxed), expected);
}

/// Reading stored chunks and decompressing them apart gives the blob, chunk by chunk, in medium order.
#[test]
fn chunks_read_apart_give_the_blob() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    for options in [&["--compress=lzx"][..], &["--compress=xpress"], &["--compress=none"]] {
        let image = captured(directory.path(), "chunks.wim", options);
        let wim = open(&image);
        let blobs = wim.blobs().expect("blobs");
        let reads = wim.read_order(blobs.iter().map(|(id, _)| id)).expect("an order");
        assert_eq!(reads.len(), blobs.len());
        assert!(reads.is_sorted_by_key(|read| (read.part, read.offset)));
        let (mut decoder, mut stored) = (ChunkDecoder::new(), Vec::new());
        for read in reads {
            let [blob] = read.blobs[..] else {
                panic!("one blob a resource")
            };
            let expected = blobs.get(blob);
            assert_eq!(read.resource, ResourceId::Blob(blob));
            let layout = wim.layout(read.resource).expect("a layout");
            assert_eq!(layout.size_bytes(), expected.size_bytes);
            let mut bytes = vec![0; usize::try_from(layout.size_bytes()).expect("small")];
            // Any order will do.
            for index in (0..layout.chunk_count()).rev() {
                let chunk = layout.chunk(index);
                wim.read_stored(&layout, &chunk, &mut stored).expect("read");
                let start = usize::try_from(chunk.start).expect("small");
                decoder
                    .decode(
                        &layout,
                        &chunk,
                        &stored,
                        &mut bytes[start..start + chunk.size_bytes as usize],
                    )
                    .expect("decoded");
            }
            assert_eq!(Sha1Hash::of(&bytes), expected.sha1);
        }
        std::fs::remove_file(image).expect("removed");
    }
}

#[test]
fn flags_and_fields_of_the_header_are_given() {
    let wim = open_bytes(
        WimWriter {
            boot_index: 1,
            ..WimWriter::new(vec![Image::new("One", vec![])])
        }
        .build(),
    );
    let header = wim.header();
    assert_eq!(
        (header.boot_index, header.image_count, header.compression),
        (Some(1), 1, Compression::None)
    );
    assert!(!header.is_split() && !header.is_write_in_progress() && !header.has_relative_link_targets());
    assert_eq!(header.guid.to_string().len(), 38);
}

/// What a hostile WIM claims must not be believed before it is checked: each claim is refused at once, without the memory
/// that it would need.
#[test]
fn claims_of_immense_sizes_are_refused_without_allocating() {
    // A compressed WIM whose only blob claims many more chunks than are stored.
    let claim = |stored: u64, unpacked: u64| {
        let mut bytes = small();
        let flags = format::header_flags::COMPRESSION | format::header_flags::COMPRESS_LZX;
        bytes[16..20].copy_from_slice(&flags.to_le_bytes());
        bytes[20..24].copy_from_slice(&32768u32.to_le_bytes());
        let table = usize::try_from(u64::from_le_bytes(*bytes[56..].first_chunk().expect("a field"))).expect("small");
        // The second entry, behind the metadata's.
        let entry = table + 50;
        bytes[entry..entry + 8].copy_from_slice(&(stored | 4 << 56).to_le_bytes());
        bytes[entry + 16..entry + 24].copy_from_slice(&unpacked.to_le_bytes());
        let wim = open_bytes(bytes);
        let blob = wim.find_blob(&Sha1Hash::of(b"content")).expect("listed");
        let mut reader = BlobReader::new(&wim);
        reader.read(blob, &mut |_| Ok(())).expect_err("refused")
    };
    for (stored, unpacked) in [
        (7, 1 << 50),
        (7, u64::MAX),
        (7, 1 << 33),
        (7, 100_000),
        (1 << 40, 1 << 41),
    ] {
        let error = claim(stored, unpacked);
        assert!(
            error.is_damage() || matches!(error, WimError::WrongHash { .. }),
            "{stored} {unpacked}: {error}"
        );
    }
    assert!(matches!(claim(7, 1 << 50), WimError::TooLarge { .. }));
    assert!(matches!(claim(7, 1 << 33), WimError::InvalidChunkTable { .. }));
    assert!(matches!(claim(1 << 40, 1 << 41), WimError::InvalidLocation { .. }));
}

#[test]
fn a_solid_chunk_beyond_the_memory_of_a_worker_is_refused() {
    if !has_wimlib() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let image = captured(
        directory.path(),
        "solid.esd",
        &["--solid", "--solid-chunk-size=1048576"],
    );
    let mut bytes = std::fs::read(&image).expect("a file");
    let at = bytes
        .windows(8)
        .position(|window| window == [0, 0, 0x10, 0, 3, 0, 0, 0])
        .expect("the solid header");
    bytes[at..at + 4].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let error = open_bytes(bytes).blobs().map(|_| ()).expect_err("refused");
    assert!(
        matches!(error, WimError::UnsupportedChunkSize { found: 0x4000_0000, .. }),
        "{error}"
    );
}
