// SPDX-License-Identifier: GPL-3.0-or-later
//! Unpacking a world. Everything read is untrusted until its digest is right, and nothing gets a name before that.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::layout::{Blob, Layout, MAX_IMAGE_LAYERS, layout_error, pack};
use super::oci::{self, Descriptor};
use super::tar::{EntryKind, Header};
use super::write::packed_name;
use super::{PackError, tar, zstd};
use crate::beneath::open_root;
use crate::conf::{self, Parent, WorldConf};
use crate::error::{Error, Result, Trying};
use crate::manifest::{ContentHash, Digest, FILES, REGISTRY, SealOptions};
use crate::meta::format::Record;
use crate::meta::{FileTime, NtMetadata};
use crate::name::StoredName;
use crate::removed::{self, Removed};
use crate::store::table::{MAX_TABLE_BYTES, NameTable, SecurityTable};
use crate::store::{ExtraKey, MANIFEST, NAMES, REGISTRY_TABLE, REPARSE, RESERVED, SECURITY, STREAMS};
use crate::tree::{Dir, FileTree};
use crate::worlds::{Staging, World, WorldName, Worlds};

/// The most bytes of the small text files in an archive.
const MAX_CONF_BYTES: u64 = 1 << 20;

impl Worlds {
    /// Makes the world of an OCI image layout, under a name. Parents that are here already, by their digest, are used; the
    /// others become `NAME.base`, `NAME.base2`, … from the lowest on. `progress` is told of the bytes of blobs.
    ///
    /// # Errors
    /// [`Error::Pack`] for everything that is damaged or no packed world; [`Error::WorldExists`]; what Linux says.
    pub fn unpack(
        &self,
        from: &Path,
        name: &WorldName,
        options: &SealOptions<'_>,
        progress: &dyn Fn(u64),
    ) -> Result<World> {
        if self.has(name) {
            return Err(self.exists(name));
        }
        let layout = Layout::open(from)?;
        let manifest = layout.manifest()?;
        let mut below: Option<(WorldName, Digest)> = None;
        let nr_layers = manifest.layers.len();
        for (at, layer) in manifest.layers.iter().enumerate() {
            let blob = layout.checked_blob(layer, progress)?;
            let is_top = at + 1 == nr_layers;
            below = Some(self.unpack_layer(layer, &blob, name, is_top, below.take(), options)?);
        }
        match below {
            Some((name, _)) => self.world(&name),
            None => Err(pack(from, layout_error(from, "its manifest has no layer"))),
        }
    }

    fn unpack_layer(
        &self,
        layer: &Descriptor,
        blob: &Blob,
        name: &WorldName,
        is_top: bool,
        below: Option<(WorldName, Digest)>,
        options: &SealOptions<'_>,
    ) -> Result<(WorldName, Digest)> {
        let plain: Box<dyn Read> = match layer.media_type.as_str() {
            oci::LAYER_TYPE => Box::new(zstd::Reader::new(BufReader::new(blob.open()?))),
            _ => Box::new(BufReader::new(blob.open()?)),
        };
        let mut archive = tar::Reader::new(plain);
        let wrap = |error: PackError| pack(&blob.path, error);
        let first = archive.next_entry().map_err(wrap)?;
        let Some(first) = first.filter(|first| first.path == conf::FILE_NAME && first.kind == EntryKind::File) else {
            return Err(wrap(layout_error(
                &blob.path,
                "the archive does not begin with world.conf",
            )));
        };
        let text = small_text(&mut archive, &first, MAX_CONF_BYTES).map_err(wrap)?;
        let mut conf = WorldConf::parse(&text, &blob.path.join(conf::FILE_NAME))?;
        let Some(expected) = conf.digest else {
            return Err(wrap(layout_error(&blob.path, "its world.conf has no digest")));
        };
        match (&mut conf.parent, &below) {
            (None, None) => {}
            (Some(parent), Some((below_name, digest))) if parent.digest == *digest => {
                *parent = Parent {
                    name: below_name.to_string(),
                    digest: *digest,
                };
            }
            (parent, _) => {
                let said = parent
                    .as_ref()
                    .map_or_else(|| "no parent".into(), |parent| packed_name(&parent.digest));
                let reason = format!("its world.conf names {said}, which is not the layer below");
                return Err(wrap(layout_error(&blob.path, &reason)));
            }
        }
        if !is_top && let Some(there) = self.with_digest(expected)? {
            return Ok((there, expected));
        }
        let name = if is_top { name.clone() } else { self.free_name(name)? };
        let staging = self.begin(&name, "")?;
        let filled = Unpacker::new(&staging, &blob.path).run(&mut archive);
        let sealed = filled.and_then(|()| {
            conf.digest = None;
            staging.prepare(&mut conf, options)?;
            match conf.digest {
                Some(found) if found == expected => Ok(()),
                found => {
                    let found = found.map(|found| found.to_string()).unwrap_or_default();
                    Err(wrap(PackError::WorldDigest {
                        expected: expected.to_string(),
                        found,
                    }))
                }
            }
        });
        match sealed {
            Ok(()) => staging.publish().map(|world| (world.name().clone(), expected)),
            Err(error) => {
                staging.abandon()?;
                Err(error)
            }
        }
    }

    /// A world that is here with a digest.
    fn with_digest(&self, digest: Digest) -> Result<Option<WorldName>> {
        let found = self
            .list()?
            .into_iter()
            .find(|world| world.conf.as_ref().is_ok_and(|c| c.digest == Some(digest)));
        Ok(found.map(|world| world.name))
    }

    fn free_name(&self, top: &WorldName) -> Result<WorldName> {
        for number in 1..=MAX_IMAGE_LAYERS * 2 {
            let number = if number == 1 { String::new() } else { number.to_string() };
            let name = WorldName::new(&format!("{top}.base{number}")).map_err(Error::WorldName)?;
            if !self.has(&name) {
                return Ok(name);
            }
        }
        Err(self.exists(top))
    }
}

fn small_text(from: &mut impl Read, header: &Header, limit: u64) -> std::result::Result<String, PackError> {
    let bad = |reason: String| PackError::Entry {
        path: header.path.clone(),
        reason,
    };
    if header.size_bytes > limit {
        return Err(bad(format!(
            "it has {} bytes, and at most {limit} are read",
            header.size_bytes
        )));
    }
    let mut bytes = Vec::new();
    from.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".into()))
}

/// Writes the entries of one archive into a staging.
struct Unpacker<'a> {
    staging: &'a Staging,
    tree: &'a FileTree,
    archive: &'a Path,
    names: NameTable,
    /// By the path of stored names.
    directories: HashMap<String, Dir>,
}

impl<'a> Unpacker<'a> {
    fn new(staging: &'a Staging, archive: &'a Path) -> Self {
        let tree = staging.tree();
        let directories = HashMap::from([(String::new(), tree.root())]);
        Self {
            staging,
            tree,
            archive,
            names: NameTable::default(),
            directories,
        }
    }

    fn run(&mut self, archive: &mut tar::Reader<impl Read>) -> Result<()> {
        while let Some(header) = archive.next_entry().map_err(|error| pack(self.archive, error))? {
            self.entry(&header, archive)?;
        }
        Ok(())
    }

    fn bad(&self, header: &Header, reason: impl Into<String>) -> Error {
        pack(
            self.archive,
            PackError::Entry {
                path: header.path.clone(),
                reason: reason.into(),
            },
        )
    }

    fn entry(&mut self, header: &Header, bytes: &mut impl Read) -> Result<()> {
        match header.path.as_str() {
            REGISTRY => return self.registry(header, bytes),
            removed::FILE_NAME => {
                let text = small_text(bytes, header, MAX_TABLE_BYTES).map_err(|error| pack(self.archive, error))?;
                let removed = Removed::parse(&text, &self.archive.join(removed::FILE_NAME))?;
                let path = self.staging.path();
                let world = open_root(&path).trying("open", &path)?;
                return removed.write(&world, &path, crate::files::Durable::Later).map(drop);
            }
            FILES => {
                self.tree.set_root_metadata(self.metadata(header, true)?);
                return Ok(());
            }
            _ => {}
        }
        let Some(path) = header.path.strip_prefix("files/") else {
            return Err(self.bad(header, "it is none of a world's four entries"));
        };
        let mut components: Vec<String> = Vec::new();
        for component in path.split('/') {
            if component.starts_with(".wh.") {
                // `removed` says the same, exactly.
                return Ok(());
            }
            components.push(match component.strip_prefix(":wh.") {
                Some(rest) => format!(".wh.{rest}"),
                None => component.to_owned(),
            });
        }
        if components.first().is_some_and(|first| first == RESERVED) {
            return self.reserved(header, components.get(1..).unwrap_or_default(), bytes);
        }
        self.ordinary(header, &components, bytes)
    }

    fn registry(&self, header: &Header, bytes: &mut impl Read) -> Result<()> {
        if header.kind != EntryKind::File {
            return Err(self.bad(header, "it is no file"));
        }
        let path = self.staging.registry_path();
        let mut file = File::create_new(&path).trying("make", &path)?;
        std::io::copy(bytes, &mut file).trying("write", &path).map(drop)
    }

    /// What is in `:nt`: never files of NT.
    fn reserved(&mut self, header: &Header, components: &[String], bytes: &mut impl Read) -> Result<()> {
        let text = |bytes: &mut _| small_text(bytes, header, MAX_TABLE_BYTES).map_err(|e| pack(self.archive, e));
        let components: Vec<&str> = components.iter().map(String::as_str).collect();
        let key = |text: &str| -> Option<ExtraKey> {
            let key = ExtraKey(u64::from_str_radix(text, 16).ok()?.to_be_bytes());
            (key.to_string() == text).then_some(key)
        };
        match (&components[..], header.kind) {
            ([], EntryKind::Directory) => Ok(()),
            // Made anew when the world is sealed.
            ([MANIFEST | REGISTRY_TABLE], EntryKind::File) => Ok(()),
            ([NAMES], EntryKind::File) => {
                self.names = NameTable::parse(&text(bytes)?, &self.archive.join(NAMES))?;
                Ok(())
            }
            ([SECURITY], EntryKind::File) => {
                let table = SecurityTable::parse(&text(bytes)?, &self.archive.join(SECURITY))?;
                table
                    .iter()
                    .try_for_each(|descriptor| self.tree.intern_security(descriptor).map(drop))
            }
            ([store], EntryKind::Directory) if key(store).is_some() => Ok(()),
            ([store, STREAMS], EntryKind::Directory) if key(store).is_some() => Ok(()),
            ([store, REPARSE], EntryKind::File) => {
                let key = key(store).ok_or_else(|| self.bad(header, "that is no key of an extra store"))?;
                if header.size_bytes > crate::layer::MAX_REPARSE_BYTES {
                    return Err(self.bad(header, "reparse data have at most 16 KiB"));
                }
                let mut data = Vec::new();
                bytes.read_to_end(&mut data).trying("read", self.archive)?;
                self.tree.set_reparse(key, &data)
            }
            ([store, STREAMS, stored], EntryKind::File) => {
                let key = key(store).ok_or_else(|| self.bad(header, "that is no key of an extra store"))?;
                let name = StoredName::decode_stream(stored, |hash| self.names.get(hash))
                    .map_err(|error| self.bad(header, error.to_string()))?;
                let mut file = self.tree.create_stream(key, &name, header.size_bytes)?;
                let hash = copy(bytes, &mut file, self.archive)?;
                self.tree.finish_stream(file, Some(hash))
            }
            _ => Err(self.bad(header, "`:nt` has no such entry")),
        }
    }

    fn ordinary(&mut self, header: &Header, components: &[String], bytes: &mut impl Read) -> Result<()> {
        let (dir, stored) = self.place(header, components)?;
        match header.kind {
            EntryKind::Directory => {
                let made = self.tree.create_dir(&dir, &stored, self.metadata(header, true)?)?;
                self.directories.insert(components.join("/"), made);
                Ok(())
            }
            EntryKind::File => {
                let mut file = self.tree.create_file(&dir, &stored, header.size_bytes)?;
                let hash = copy(bytes, &mut file, self.archive)?;
                self.tree.finish_file(file, &self.metadata(header, false)?, Some(hash))
            }
            EntryKind::HardLink => {
                let Some(target) = header.link.strip_prefix("files/") else {
                    return Err(self.bad(header, format!("it is a link of `{}`, outside of files/", header.link)));
                };
                let unescaped = |component: &str| match component.strip_prefix(":wh.") {
                    Some(rest) => format!(".wh.{rest}"),
                    None => component.to_owned(),
                };
                let target: Vec<String> = target.split('/').map(unescaped).collect();
                let (from_dir, from) = self.place(header, &target)?;
                self.tree.link((&from_dir, &from), (&dir, &stored))
            }
        }
    }

    /// The directory that an entry is in, which must have come before, and its stored name.
    fn place(&self, header: &Header, components: &[String]) -> Result<(Dir, StoredName)> {
        let Some((last, parents)) = components.split_last() else {
            return Err(self.bad(header, "it has no name"));
        };
        let dir = self.directories.get(&parents.join("/"));
        let dir = dir
            .ok_or_else(|| self.bad(header, "its directory has not come before it"))?
            .clone();
        let stored = StoredName::decode(last, |hash| self.names.get(hash))
            .map_err(|error| self.bad(header, error.to_string()))?;
        Ok((dir, stored))
    }

    fn metadata(&self, header: &Header, is_directory: bool) -> Result<NtMetadata> {
        let written = FileTime::from_unix(header.mtime.0, header.mtime.1).to_unix();
        match &header.record {
            None => Ok(NtMetadata::without_record(is_directory, written, written)),
            Some(bytes) => {
                let record = Record::decode(bytes).map_err(|error| self.bad(header, error.to_string()))?;
                let mut meta = NtMetadata::from_record(record, header.mtime, written);
                meta.accessed = meta.written;
                Ok(meta)
            }
        }
    }
}

/// Copies an entry's bytes and hashes them on the way.
fn copy(from: &mut impl Read, to: &mut impl Write, archive: &Path) -> Result<ContentHash> {
    let mut hasher = ContentHash::hasher();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let read = from.read(&mut buffer).trying("read", archive)?;
        if read == 0 {
            return Ok(hasher.finalize().into());
        }
        let piece = buffer.get(..read).unwrap_or_default();
        hasher.update(piece);
        to.write_all(piece).trying("unpack from", archive)?;
    }
}
