// SPDX-License-Identifier: GPL-3.0-or-later
//! tar with PAX records (POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"), as much as a packed
//! layer needs. Written headers depend on nothing but what is given: no user, no group, fixed modes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use super::PackError;

const BLOCK: usize = 512;
/// The most bytes of one set of PAX records that are read.
const MAX_PAX_BYTES: u64 = 1 << 20;
/// The PAX key of the NT metadata; GNU tar, libarchive and Go write xattrs so.
pub(super) const XATTR_KEY: &str = "SCHILY.xattr.user.vodka.nt";

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
    HardLink,
}

/// One entry's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub path: String,
    pub kind: EntryKind,
    pub size_bytes: u64,
    /// The path that a hard link is of.
    pub link: String,
    pub mtime: (i64, u32),
    pub record: Option<Vec<u8>>,
}

fn pad(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(BLOCK as u64) - size_bytes
}

fn put(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    for (to, from) in block.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn octal(block: &mut [u8; BLOCK], at: usize, digits: usize, value: u64) {
    put(block, at, format!("{value:0digits$o}").as_bytes());
}

/// One 512-byte header; what does not fit into it is in PAX records before it.
fn block(path: &str, flag: u8, mode: u64, size_bytes: u64, link: &str, mtime_secs: i64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(
        &mut block,
        0,
        path.as_bytes().get(..path.len().min(100)).unwrap_or_default(),
    );
    octal(&mut block, 100, 7, mode);
    octal(&mut block, 108, 7, 0);
    octal(&mut block, 116, 7, 0);
    octal(&mut block, 124, 11, size_bytes.min(0o77_777_777_777));
    octal(
        &mut block,
        136,
        11,
        u64::try_from(mtime_secs).unwrap_or(0).min(0o77_777_777_777),
    );
    put(&mut block, 148, b"        ");
    put(&mut block, 156, &[flag]);
    put(
        &mut block,
        157,
        link.as_bytes().get(..link.len().min(100)).unwrap_or_default(),
    );
    put(&mut block, 257, b"ustar\x0000");
    octal(&mut block, 329, 7, 0);
    octal(&mut block, 337, 7, 0);
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    put(&mut block, 148, format!("{sum:06o}\0 ").as_bytes());
    block
}

fn pax_record(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    // The length counts its own digits.
    let rest = 1 + key.len() + 1 + value.len() + 1;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    out.extend(format!("{length} {key}=").into_bytes());
    out.extend(value);
    out.push(b'\n');
}

/// `seconds.fraction` as PAX has it: the fraction is added to the whole, so that before 1970 both are negative.
fn pax_time((secs, nanos): (i64, u32)) -> String {
    match (secs, nanos) {
        (secs, 0) => secs.to_string(),
        (0.., nanos) => format!("{secs}.{nanos:09}").trim_end_matches('0').to_owned(),
        (_, nanos) => format!("-{}.{:09}", -(secs + 1), 1_000_000_000 - nanos)
            .trim_end_matches('0')
            .to_owned(),
    }
}

fn parse_pax_time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let secs: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    match (negative, nanos) {
        (_, 0) => Some((secs, 0)),
        (false, nanos) => Some((secs, nanos)),
        (true, nanos) => Some((secs.checked_sub(1)?, 1_000_000_000 - nanos)),
    }
}

/// Writes entries.
pub(super) struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes an entry's header; exactly `size_bytes` must follow through [`Writer::content`].
    pub fn header(&mut self, header: &Header) -> io::Result<()> {
        let (flag, mode) = match header.kind {
            EntryKind::File => (b'0', 0o644),
            EntryKind::Directory => (b'5', 0o755),
            EntryKind::HardLink => (b'1', 0o644),
        };
        let mut pax = Vec::new();
        let plain = |text: &str| text.len() <= 100 && text.is_ascii();
        if !plain(&header.link) {
            pax_record(&mut pax, "linkpath", header.link.as_bytes());
        }
        if header.mtime.0 < 0 || header.mtime.1 != 0 || header.mtime.0 > 0o77_777_777_777 {
            pax_record(&mut pax, "mtime", pax_time(header.mtime).as_bytes());
        }
        if !plain(&header.path) {
            pax_record(&mut pax, "path", header.path.as_bytes());
        }
        if header.size_bytes > 0o77_777_777_777 {
            pax_record(&mut pax, "size", header.size_bytes.to_string().as_bytes());
        }
        if let Some(record) = &header.record {
            pax_record(&mut pax, XATTR_KEY, record);
        }
        if !pax.is_empty() {
            self.out
                .write_all(&block("pax", b'x', 0o644, pax.len() as u64, "", 0))?;
            self.content(&mut &*pax, pax.len() as u64)?;
        }
        let ascii = |text: &str| {
            if text.is_ascii() {
                text.to_owned()
            } else {
                "pax".to_owned()
            }
        };
        let (path, link) = (ascii(&header.path), ascii(&header.link));
        self.out
            .write_all(&block(&path, flag, mode, header.size_bytes, &link, header.mtime.0))
    }

    /// Copies an entry's bytes, and fills up its last block.
    pub fn content(&mut self, from: &mut impl Read, size_bytes: u64) -> io::Result<()> {
        let copied = io::copy(&mut from.take(size_bytes), &mut self.out)?;
        if copied != size_bytes {
            return Err(io::Error::other(format!(
                "it had {size_bytes} bytes and now has {copied}"
            )));
        }
        io::copy(&mut io::repeat(0).take(pad(size_bytes)), &mut self.out).map(drop)
    }

    /// Ends the archive and gives back what is written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

/// Reads entries.
pub(super) struct Reader<R: Read> {
    from: R,
    /// Of the current entry: bytes not read yet, and those that fill its last block.
    left: u64,
    padding: u64,
    /// How far the archive is read.
    offset: u64,
}

impl<R: Read> Reader<R> {
    pub fn new(from: R) -> Self {
        Self {
            from,
            left: 0,
            padding: 0,
            offset: 0,
        }
    }

    fn bad(&self, reason: impl Into<String>) -> PackError {
        PackError::Tar {
            offset: self.offset,
            reason: reason.into(),
        }
    }

    /// The next entry; what was not read of the last one is skipped. `None` at the end.
    pub fn next_entry(&mut self) -> Result<Option<Header>, PackError> {
        let mut pax = BTreeMap::new();
        loop {
            let skip = self.left + self.padding;
            self.skip(skip)?;
            let mut block = [0; BLOCK];
            self.exact(&mut block)?;
            if block.iter().all(|&byte| byte == 0) {
                return if pax.is_empty() {
                    Ok(None)
                } else {
                    Err(self.bad("PAX records without an entry"))
                };
            }
            let sum = field_number(&block, 148, 8);
            let spaces = [b' '; 8];
            let mut without = block;
            put(&mut without, 148, &spaces);
            let real: u64 = without.iter().map(|&byte| u64::from(byte)).sum();
            if sum != Some(real) {
                return Err(self.bad(format!("a header with the checksum {sum:?}, expected {real}")));
            }
            let size = field_number(&block, 124, 12).ok_or_else(|| self.bad("a size that is no number"))?;
            let flag = block.get(156).copied().unwrap_or(0);
            if flag == b'x' {
                if size > MAX_PAX_BYTES || !pax.is_empty() {
                    return Err(self.bad(format!("PAX records of {size} bytes, or twice for one entry")));
                }
                // At most 1 MiB.
                let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
                self.exact(&mut bytes)?;
                self.skip(pad(size))?;
                pax = parse_pax(&bytes).ok_or_else(|| self.bad("PAX records that are none"))?;
                continue;
            }
            return self.entry(&block, flag, size, pax).map(Some);
        }
    }

    fn entry(
        &mut self,
        block: &[u8; BLOCK],
        flag: u8,
        size: u64,
        mut pax: BTreeMap<String, Vec<u8>>,
    ) -> Result<Header, PackError> {
        let kind = match flag {
            b'0' | 0 => EntryKind::File,
            b'5' => EntryKind::Directory,
            b'1' => EntryKind::HardLink,
            other => {
                return Err(self.bad(format!(
                    "an entry of type {:?}, and a layer has files, directories and links",
                    char::from(other)
                )));
            }
        };
        let mut text = |key: &str, at: usize, length: usize| -> Option<String> {
            let bytes = match pax.remove(key) {
                Some(bytes) => bytes,
                None => {
                    let field = block.get(at..at + length)?;
                    field.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
                }
            };
            String::from_utf8(bytes).ok()
        };
        let path = text("path", 0, 100).ok_or_else(|| self.bad("a path that is not UTF-8"))?;
        let link = text("linkpath", 157, 100).ok_or_else(|| self.bad("a link that is not UTF-8"))?;
        let number = |bytes: Vec<u8>| String::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let size_bytes = match pax.remove("size") {
            Some(bytes) => number(bytes).ok_or_else(|| self.bad("a PAX size that is no number"))?,
            None => size,
        };
        let mtime = match pax.remove("mtime") {
            Some(bytes) => String::from_utf8(bytes)
                .ok()
                .and_then(|text| parse_pax_time(&text))
                .ok_or_else(|| self.bad("a PAX mtime that is no time"))?,
            None => {
                let secs = field_number(block, 136, 12).ok_or_else(|| self.bad("an mtime that is no number"))?;
                (i64::try_from(secs).unwrap_or(i64::MAX), 0)
            }
        };
        if kind != EntryKind::File && size_bytes != 0 {
            return Err(self.bad(format!("`{path}` has bytes and is no file")));
        }
        self.left = size_bytes;
        self.padding = size_bytes
            .checked_next_multiple_of(BLOCK as u64)
            .map_or(0, |whole| whole - size_bytes);
        let path = path.strip_suffix('/').unwrap_or(&path).to_owned();
        Ok(Header {
            path,
            kind,
            size_bytes,
            link,
            mtime,
            record: pax.remove(XATTR_KEY),
        })
    }

    fn exact(&mut self, buffer: &mut [u8]) -> Result<(), PackError> {
        self.from
            .read_exact(buffer)
            .map_err(|error| self.bad(format!("the archive cannot be read: {error}")))?;
        self.offset += buffer.len() as u64;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), PackError> {
        let skipped = io::copy(&mut (&mut self.from).take(bytes), &mut io::sink())
            .map_err(|error| self.bad(format!("the archive cannot be read: {error}")))?;
        self.offset += skipped;
        (self.left, self.padding) = (0, 0);
        if skipped == bytes {
            Ok(())
        } else {
            Err(self.bad("the archive ends too early"))
        }
    }
}

/// The bytes of the current entry.
impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..most).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let read = self.from.read(buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        self.offset += read as u64;
        Ok(read)
    }
}

fn field_number(block: &[u8; BLOCK], at: usize, length: usize) -> Option<u64> {
    let field = block.get(at..at + length)?;
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(text, 8).ok()
    }
}

fn parse_pax(mut bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut records = BTreeMap::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|&byte| byte == b' ')?;
        let length: usize = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
        let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&byte| byte == b'=')?;
        let key = std::str::from_utf8(record.get(..equals)?).ok()?.to_owned();
        records.insert(key, record.get(equals + 1..)?.to_vec());
        bytes = bytes.get(length..)?;
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let record = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..90));
        (
            "[a-zé:文]{1,150}",
            0u8..3,
            any::<i32>(),
            0u32..1_000_000_000,
            record,
            "[a-z文]{0,150}",
        )
            .prop_map(|(path, kind, secs, nanos, record, link)| {
                let kind = [EntryKind::File, EntryKind::Directory, EntryKind::HardLink][usize::from(kind)];
                let size_bytes = if kind == EntryKind::File {
                    path.len() as u64 * 7
                } else {
                    0
                };
                let mtime = (i64::from(secs) * 9, nanos);
                Header {
                    path,
                    kind,
                    size_bytes,
                    link,
                    mtime,
                    record,
                }
            })
    }

    fn archive(headers: &[Header]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for header in headers {
            writer.header(header).unwrap();
            writer.content(&mut io::repeat(7), header.size_bytes).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn times_before_1970_are_as_pax_wants_them() {
        for (time, text) in [
            ((-1, 500_000_000), "-0.5"),
            ((-2, 0), "-2"),
            ((1, 100), "1.0000001"),
            ((0, 0), "0"),
        ] {
            assert_eq!(pax_time(time), text);
            assert_eq!(parse_pax_time(text), Some(time));
        }
        for bad in ["", "x", "1.x", "--1", "1.-1"] {
            assert_eq!(parse_pax_time(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn headers_come_back(headers in proptest::collection::vec(any_header(), 0..5), read in any::<bool>()) {
            let bytes = archive(&headers);
            prop_assert_eq!(bytes.len() % BLOCK, 0);
            let mut reader = Reader::new(&*bytes);
            for header in &headers {
                let found = reader.next_entry().unwrap().unwrap();
                prop_assert_eq!(&found, header);
                if read {
                    let mut content = Vec::new();
                    reader.read_to_end(&mut content).unwrap();
                    prop_assert_eq!(content, vec![7; usize::try_from(header.size_bytes).unwrap()]);
                }
            }
            prop_assert!(reader.next_entry().unwrap().is_none());
        }

        #[test]
        fn a_damaged_archive_ends_or_is_refused(
            headers in proptest::collection::vec(any_header(), 1..3), at in any::<usize>(), to in any::<u8>(), cut in any::<usize>()
        ) {
            let mut bytes = archive(&headers);
            let length = bytes.len();
            if let Some(byte) = bytes.get_mut(at % length) {
                *byte = to;
            }
            bytes.truncate(cut % length + 1);
            let mut reader = Reader::new(&*bytes);
            for _ in 0..100 {
                match reader.next_entry() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(false, "no end");
        }
    }
}
