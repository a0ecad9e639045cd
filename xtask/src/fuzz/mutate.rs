// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutations of media. Half of them are blind (bits, bytes, lengths); the other half know the format well enough to get
//! past its checksums, so that the parsers behind them see the damage too.

use fixtures::bytes::Random;
use fixtures::wim_file::WimFile;

const SECTOR: usize = 2048;

/// Numbers that parsers trip over.
const INTERESTING: [u64; 16] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 7,
    u64::MAX,
];

/// Changes `bytes` somewhere in `range`, blindly.
fn blind(random: &mut Random, bytes: &mut [u8], start: usize, end: usize) {
    let end = end.min(bytes.len());
    if start >= end {
        return;
    }
    let place = start + random.index(end - start);
    match random.below(6) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = random.next_u64().to_le_bytes()[0],
        2 => number(random, bytes, place, end),
        3 => number(random, bytes, place & !3, end),
        4 => {
            // A run of one byte.
            let stop = end.min(place + 1 + random.index(32));
            let byte = [0, 0xff, b'.', b'/'][random.index(4)];
            bytes[place..stop].fill(byte);
        }
        _ => {
            // A piece of the same region over another.
            let from = start + random.index(end - start);
            let length = (1 + random.index(64)).min(end - from).min(end - place);
            let piece = bytes[from..from + length].to_vec();
            bytes[place..place + length].copy_from_slice(&piece);
        }
    }
}

/// Puts an interesting number, or one a little off the number that is there, at `place`.
fn number(random: &mut Random, bytes: &mut [u8], place: usize, end: usize) {
    let width = [2, 4, 8][random.index(3)];
    let Some(field) = bytes.get_mut(place..(place + width).min(end)) else {
        return;
    };
    let mut old = [0; 8];
    old[..field.len()].copy_from_slice(field);
    let new = match random.below(3) {
        0 => INTERESTING[random.index(INTERESTING.len())],
        1 => u64::from_le_bytes(old).wrapping_add(random.below(17)).wrapping_sub(8),
        _ => u64::from_le_bytes(old).wrapping_mul(1 << random.below(12)),
    };
    let length = field.len();
    if random.below(4) == 0 {
        field.copy_from_slice(&new.to_be_bytes()[8 - length..]);
    } else {
        field.copy_from_slice(&new.to_le_bytes()[..length]);
    }
}

/// How many changes one input gets: mostly few.
fn changes(random: &mut Random) -> u64 {
    1 + [0, 0, 1, 2, 5, 20][random.index(6)]
}

/// Cuts the end off, or doubles a piece, once in a while.
fn resize(random: &mut Random, bytes: &mut Vec<u8>) {
    match random.below(24) {
        0 => {
            let keep = random.index(bytes.len());
            bytes.truncate(keep);
        }
        1 => {
            let at = random.index(bytes.len());
            let piece = bytes[at..bytes.len().min(at + 3000)].to_vec();
            bytes.splice(at..at, piece);
        }
        2 => bytes.extend(std::iter::repeat_n(0, random.index(5000))),
        _ => {}
    }
}

/// A mutated ISO. Its file system's own sectors are hit far more often than the files' data.
pub fn iso(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    // Sectors that hold structures: descriptors at the start, tags, directory records; found by what they begin with.
    let structures: Vec<usize> = (16..bytes.len() / SECTOR)
        .filter(|sector| is_structure(&bytes, *sector))
        .collect();
    for _ in 0..changes(random) {
        let sector = if random.below(12) == 0 || structures.is_empty() {
            random.index(bytes.len() / SECTOR)
        } else {
            structures[random.index(structures.len())]
        };
        let start = sector * SECTOR;
        let used = bytes[start..start + SECTOR]
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(SECTOR, |last| last + 1);
        match random.below(16) {
            // A structure over another: cycles, wrong kinds in right places.
            0 if !structures.is_empty() => {
                let from = structures[random.index(structures.len())] * SECTOR;
                bytes.copy_within(from..from + SECTOR, start);
                if random.below(2) == 0 {
                    relocate_tag(&mut bytes, sector);
                }
            }
            _ => blind(random, &mut bytes, start, start + used),
        }
        // Three of four: the descriptor's checksum is made right again, so that the damage gets behind it.
        if random.below(4) != 0 {
            seal_tag(&mut bytes[start..start + SECTOR]);
        }
    }
    resize(random, &mut bytes);
    bytes
}

fn is_structure(bytes: &[u8], sector: usize) -> bool {
    let start = sector * SECTOR;
    let head = &bytes[start..start + 16];
    let is_descriptor = matches!(&head[1..6], b"CD001" | b"BEA01" | b"NSR02" | b"NSR03" | b"TEA01");
    // A directory's first record is its own: 34 bytes and one of name.
    let is_directory = head[0] >= 34 && bytes[start + 32] == 1 && bytes[start + 33] == 0;
    is_descriptor || is_directory || is_tag(head)
}

/// Whether this is the tag of a UDF descriptor: its checksum is right and its number is one that exists.
fn is_tag(head: &[u8]) -> bool {
    let number = u16::from_le_bytes([head[0], head[1]]);
    let known = (1..=9).contains(&number) || (256..=266).contains(&number);
    let sum = head[..16]
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 4)
        .fold(0_u8, |sum, (_, byte)| sum.wrapping_add(*byte));
    known && sum == head[4]
}

/// Makes the CRC and the checksum of a UDF tag right, where there is one (ECMA-167 3/7.2).
fn seal_tag(sector: &mut [u8]) {
    let number = u16::from_le_bytes([sector[0], sector[1]]);
    if !((1..=9).contains(&number) || (256..=266).contains(&number)) {
        return;
    }
    let crc_bytes = usize::from(u16::from_le_bytes([sector[10], sector[11]]));
    if let Some(body) = sector.get(16..16 + crc_bytes) {
        let crc = crc16(body);
        sector[8..10].copy_from_slice(&crc.to_le_bytes());
    }
    sector[4] = 0;
    sector[4] = sector[..16].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
}

/// Makes a copied tag claim the place where it now is.
fn relocate_tag(bytes: &mut [u8], sector: usize) {
    let start = sector * SECTOR;
    let number = u32::try_from(sector).unwrap_or(0);
    bytes[start + 12..start + 16].copy_from_slice(&number.to_le_bytes());
}

/// CRC-16 with polynomial 0x1021 from 0, as UDF tags have it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// A mutated WIM: header, blob table, metadata (with its SHA-1 made right again), chunk tables, stored data.
pub fn wim(random: &mut Random, seed: &WimFile) -> Vec<u8> {
    const HEADER: usize = 208;
    const METADATA: u8 = 0x02;
    const COMPRESSED: u8 = 0x04;
    let mut file = seed.clone();
    let blobs = seed.blobs().unwrap_or_default();
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let metadata: Vec<_> = blobs
        .iter()
        .filter(|blob| blob.resource.flags & METADATA != 0 && blob.resource.flags & COMPRESSED == 0)
        .collect();
    for _ in 0..changes(random) {
        let pick = random.below(10);
        let blob = (!blobs.is_empty()).then(|| blobs[random.index(blobs.len())]);
        match (pick, blob) {
            (0 | 1, _) => blind(random, &mut file.bytes, 8, HEADER),
            (2 | 3, _) => {
                let table = seed.blob_table();
                blind(
                    random,
                    &mut file.bytes,
                    place(table.offset),
                    place(table.offset + table.stored_bytes),
                );
            }
            (4..=6, _) if !metadata.is_empty() => {
                let blob = metadata[random.index(metadata.len())];
                let (start, end) = (
                    place(blob.resource.offset),
                    place(blob.resource.offset + blob.resource.stored_bytes),
                );
                // Names and numbers of dentries, one to three at a time.
                for _ in 0..=random.below(3) {
                    blind(random, &mut file.bytes, start, end);
                }
                file.rehash_blob(blob);
            }
            // The chunk table and the first codes, where a decompressor decides most.
            (7, Some(blob)) => {
                let start = place(blob.resource.offset);
                blind(random, &mut file.bytes, start, start + 300);
            }
            (_, Some(blob)) => {
                let (start, end) = (
                    place(blob.resource.offset),
                    place(blob.resource.offset + blob.resource.stored_bytes),
                );
                blind(random, &mut file.bytes, start, end);
            }
            _ => blind(random, &mut file.bytes, 0, usize::MAX),
        }
    }
    resize(random, &mut file.bytes);
    file.bytes
}

/// A WIM whose XML is mutated: as text (elements, numbers, names) and as bytes.
pub fn xml(random: &mut Random, seed: &WimFile) -> Vec<u8> {
    let mut text = seed.xml_text().unwrap_or_default();
    for _ in 0..changes(random) {
        text = mutate_text(random, &text);
    }
    let mut bytes = fixtures::edition::utf16_with_bom(&text);
    if random.below(3) == 0 {
        let end = bytes.len();
        for _ in 0..changes(random) {
            blind(random, &mut bytes, 0, end);
        }
    }
    resize(random, &mut bytes);
    let mut file = seed.clone();
    file.set_xml(&bytes);
    file.bytes
}

fn mutate_text(random: &mut Random, text: &str) -> String {
    const NASTY: [&str; 18] = [
        "",
        "0",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "0xFFFFFFFF",
        "99999999999999999999999999",
        "NaN",
        "\u{9b}31m",
        "\u{202e}",
        "&#0;",
        "&lt;",
        "&nope;",
        "<![CDATA[x]]>",
        "<!-- -->",
        "<!DOCTYPE a [<!ENTITY b \"c\">]>",
        "../../etc",
        "\u{1F600}",
    ];
    // Positions of `<`: elements are cut there.
    let tags: Vec<usize> = text
        .char_indices()
        .filter(|(_, letter)| *letter == '<')
        .map(|(at, _)| at)
        .collect();
    if tags.len() < 2 {
        return text.to_owned();
    }
    let first = tags[random.index(tags.len())];
    let second = tags[random.index(tags.len())];
    let (low, high) = (first.min(second), first.max(second));
    let nasty = NASTY[random.index(NASTY.len())];
    match random.below(16) {
        // Any piece taken out or doubled: mostly no XML any more.
        0 => format!("{}{}", &text[..low], &text[high..]),
        1 if high - low < 20_000 => format!("{}{}{}", &text[..high], &text[low..high], &text[high..]),
        // A whole element taken out, doubled, put elsewhere: still XML, with something else to say.
        2 | 8 => match element(text, first) {
            Some(end) => format!("{}{}", &text[..first], &text[end..]),
            None => text.to_owned(),
        },
        9 | 10 => match element(text, first) {
            Some(end) if end - first < 20_000 => format!("{}{}{}", &text[..end], &text[first..end], &text[end..]),
            _ => text.to_owned(),
        },
        11 => match element(text, first) {
            Some(end) if end - first < 20_000 => format!("{}{}{}", &text[..second], &text[first..end], &text[second..]),
            _ => text.to_owned(),
        },
        // The text of an element replaced.
        3 | 4 | 12..=14 => match text[low..].find('>').map(|at| low + at + 1) {
            Some(open) => {
                let close = text[open..].find('<').map_or(text.len(), |at| open + at);
                format!("{}{nasty}{}", &text[..open], &text[close..])
            }
            None => text.to_owned(),
        },
        5 => format!("{}{nasty}{}", &text[..low], &text[low..]),
        // One name for another: `INDEX`, `NAME`, `IMAGE`, …
        6 => {
            const NAMES: [&str; 10] = [
                "INDEX",
                "NAME",
                "IMAGE",
                "WINDOWS",
                "VERSION",
                "BUILD",
                "HIGHPART",
                "ARCH",
                "TOTALBYTES",
                "LANGUAGE",
            ];
            let (from, to) = (NAMES[random.index(NAMES.len())], NAMES[random.index(NAMES.len())]);
            text.replacen(from, to, 1 + random.index(3))
        }
        _ => {
            let depth = random.index(3000);
            format!("{}{}{}", &text[..low], "<A>".repeat(depth), &text[low..])
        }
    }
}

/// Where the element that begins at `start` ends; `None` when none begins there. Elements in it of the same name are
/// not counted: in a WIM there are none.
fn element(text: &str, start: usize) -> Option<usize> {
    let name: String = text[start + 1..]
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric())
        .collect();
    let close = format!("</{name}>");
    (!name.is_empty()).then_some(())?;
    text[start..].find(&close).map(|at| start + at + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_mutation() {
        let seed: Vec<u8> = (0..100 * SECTOR)
            .map(|at| u8::try_from(at % 251).unwrap_or(0))
            .collect();
        let mutated = |number| iso(&mut Random::new(number), &seed);
        assert_eq!(mutated(3), mutated(3));
        assert_ne!(mutated(3), mutated(4));
    }

    #[test]
    fn a_sealed_tag_is_taken_for_a_tag() {
        let mut sector = vec![0; SECTOR];
        sector[0] = 6;
        sector[10] = 100;
        sector[50] = 77;
        assert!(!is_tag(&sector[..16]));
        seal_tag(&mut sector);
        assert!(is_tag(&sector[..16]));
    }

    #[test]
    fn the_crc_is_that_of_ecma_167() {
        // The example of ECMA-167 3/7.2.6: 70 6a 77 gives 3299.
        assert_eq!(crc16(&[0x70, 0x6a, 0x77]), 0x3299);
    }
}
