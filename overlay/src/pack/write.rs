// SPDX-License-Identifier: GPL-3.0-or-later
//! Packing a world.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat, fstat, renameat};
use sha2::{Digest as _, Sha256};

use super::oci::{self, Descriptor, History, ImageConfig, ImageManifest, Index, RootFs};
use super::tar::{EntryKind, Header};
use super::{tar, zstd};
use crate::beneath::{FILE_MODE, open_dir, open_dir_entry, open_entry, open_file_entry, open_root};
use crate::conf::{self, Parent, WorldConf};
use crate::error::{Error, Result, Trying};
use crate::layer::{links_of, size_of};
use crate::layers::{Access, Layers};
use crate::listing;
use crate::manifest::{Digest, FILES, REGISTRY};
use crate::meta::disk::stat_times;
use crate::meta::format::{MAX_BYTES, XATTR};
use crate::name::StoredName;
use crate::removed::{self, Removed};
use crate::store::{NAMES, RESERVED, SECURITY, WORK};
use crate::tree::{MAX_DEPTH, make_dir};
use crate::worlds::{World, WorldName};

/// How a world's name is written in the conf of a packed child: names are the host's, digests the world's.
pub(super) fn packed_name(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex().get(..12).unwrap_or_default())
}

impl World {
    /// Writes the world with its parents as an OCI image layout into a directory, which is made and must be empty. All of
    /// them must be sealed. `progress` is told of the bytes that are read.
    ///
    /// # Errors
    /// [`Error::NotSealed`], [`Error::PathExists`] for a directory that is not empty, what Linux says.
    pub fn pack(&self, to: &Path, progress: &dyn Fn(u64)) -> Result<Digest> {
        // Holds them all.
        let _layers = Layers::open(self, Access::Read)?;
        std::fs::create_dir_all(to).trying("make the directory", to)?;
        let layout = open_root(to).trying("open", to)?;
        if !listing::raw(&layout, to)?.is_empty() {
            return Err(Error::PathExists {
                path: to.display().to_string(),
            });
        }
        let blobs_path = to.join("blobs");
        make_dir(&layout, "blobs", &blobs_path)?;
        let blobs = open_dir_entry(&layout, "blobs").trying("open", &blobs_path)?;
        let sha256_path = blobs_path.join("sha256");
        make_dir(&blobs, "sha256", &sha256_path)?;
        let out = Blobs {
            fd: open_dir_entry(&blobs, "sha256").trying("open", &sha256_path)?,
            path: sha256_path,
        };

        let mut worlds = Vec::new();
        let mut next = Some(self.name().clone());
        while let Some(name) = next {
            let world = self.worlds().world(&name)?;
            next = match &world.conf().parent {
                Some(parent) => Some(WorldName::new(&parent.name).map_err(Error::WorldName)?),
                None => None,
            };
            worlds.push(world);
        }
        let (mut layers, mut diff_ids, mut history) = (Vec::new(), Vec::new(), Vec::new());
        for world in worlds.iter().rev() {
            let (layer, diff_id) = pack_layer(world, &out, progress)?;
            history.push(History {
                created: oci::CREATED.into(),
                created_by: format!(
                    "vodka world pack {}",
                    layer.annotations.get(oci::DIGEST_KEY).map_or("", |d| d)
                ),
            });
            layers.push(layer);
            diff_ids.push(diff_id);
        }
        let architecture = match worlds.last().and_then(|base| base.conf().source.as_ref()) {
            Some(source) if source.edition.architecture == "arm64" || source.edition.architecture == "aarch64" => {
                "arm64"
            }
            Some(source) if source.edition.architecture == "x86" => "386",
            _ => "amd64",
        };
        let config = ImageConfig {
            created: oci::CREATED.into(),
            architecture: architecture.into(),
            os: "windows".into(),
            config: BTreeMap::new(),
            rootfs: RootFs {
                kind: "layers".into(),
                diff_ids,
            },
            history,
        };
        let config = out.put(&json(&config, to)?, oci::CONFIG_TYPE)?;
        let manifest = ImageManifest {
            schema_version: 2,
            media_type: oci::MANIFEST_TYPE.into(),
            config,
            layers,
            annotations: annotations(self, worlds.last()),
        };
        let mut manifest = out.put(&json(&manifest, to)?, oci::MANIFEST_TYPE)?;
        manifest
            .annotations
            .insert("org.opencontainers.image.ref.name".into(), "world".into());
        let digest = manifest.digest;
        let index = Index {
            schema_version: 2,
            media_type: oci::INDEX_TYPE.into(),
            manifests: vec![manifest],
        };
        for (name, bytes) in [
            ("oci-layout", oci::LAYOUT.as_bytes().to_vec()),
            ("index.json", json(&index, to)?),
        ] {
            crate::files::replace(&layout, name, &bytes, to, crate::files::Durable::Later)?;
        }
        Ok(digest)
    }
}

fn json(value: &impl serde::Serialize, path: &Path) -> Result<Vec<u8>> {
    oci::to_json(value, path).map_err(|source| Error::Pack {
        path: path.into(),
        source,
    })
}

/// What a person or a tool may want to know without unpacking.
fn annotations(world: &World, base: Option<&World>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    out.insert("org.opencontainers.image.created".into(), oci::CREATED.into());
    if let Some(digest) = world.conf().digest {
        out.insert(oci::DIGEST_KEY.into(), digest.to_string());
    }
    if let Some(source) = base.and_then(|base| base.conf().source.as_ref()) {
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                out.insert(key.into(), value.into());
            }
        };
        put("org.opencontainers.image.title", &source.edition.name);
        put("org.opencontainers.image.version", &source.edition.build);
        put("org.vodka.medium.label", &source.medium.label);
        put("org.vodka.edition.id", &source.edition.edition_id);
        put("org.vodka.edition.languages", &source.edition.languages.join(","));
    }
    out
}

/// The directory of blobs.
struct Blobs {
    fd: OwnedFd,
    path: PathBuf,
}

impl Blobs {
    fn put(&self, bytes: &[u8], media_type: &str) -> Result<Descriptor> {
        let digest = Digest::of(bytes);
        crate::files::replace(&self.fd, &digest.hex(), bytes, &self.path, crate::files::Durable::Later)?;
        let size = bytes.len() as u64;
        Ok(Descriptor {
            media_type: media_type.into(),
            digest,
            size,
            annotations: BTreeMap::new(),
        })
    }
}

/// Hashes and counts what goes through.
struct Hashing<W> {
    out: W,
    hasher: Sha256,
    written: u64,
}

impl<W: Write> Hashing<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            hasher: Sha256::new(),
            written: 0,
        }
    }

    fn done(self) -> (W, Digest, u64) {
        (
            self.out,
            Digest::from_bytes(self.hasher.finalize().into()),
            self.written,
        )
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

type Out = tar::Writer<Hashing<zstd::Writer<Hashing<File>>>>;

fn pack_layer(world: &World, blobs: &Blobs, progress: &dyn Fn(u64)) -> Result<(Descriptor, Digest)> {
    let digest = world.conf().digest.ok_or_else(|| Error::NotSealed {
        name: world.name().to_string(),
    })?;
    let work = ".layer";
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    let file = File::from(open_entry(&blobs.fd, work, flags, FILE_MODE).trying("make", &blobs.path)?);
    let out = tar::Writer::new(Hashing::new(zstd::Writer::new(Hashing::new(file))));
    let mut packer = Packer {
        out,
        first_name: HashMap::new(),
        progress,
    };
    packer.world(world)?;
    let written = |error: io::Error| Error::io("write", &blobs.path, error);
    let (compressor, diff_id, _) = packer.out.finish().map_err(written)?.done();
    let (_, blob, size) = compressor.finish().map_err(written)?.done();
    renameat(&blobs.fd, work, &blobs.fd, blob.hex()).trying("name a blob in", &blobs.path)?;
    let annotations = BTreeMap::from([(oci::DIGEST_KEY.to_owned(), digest.to_string())]);
    Ok((
        Descriptor {
            media_type: oci::LAYER_TYPE.into(),
            digest: blob,
            size,
            annotations,
        },
        diff_id,
    ))
}

struct Packer<'a> {
    out: Out,
    /// The first name of each inode that has several.
    first_name: HashMap<u64, String>,
    progress: &'a dyn Fn(u64),
}

impl Packer<'_> {
    /// First what is needed to read the rest: the conf, the marks, the tables of names and descriptors.
    fn world(&mut self, world: &World) -> Result<()> {
        let root = open_root(world.path()).trying("open", world.path())?;
        let conf = WorldConf {
            maps: BTreeMap::new(),
            parent: world.conf().parent.as_ref().map(|parent| Parent {
                name: packed_name(&parent.digest),
                digest: parent.digest,
            }),
            ..world.conf().clone()
        };
        self.bytes(conf::FILE_NAME, conf.to_text()?.as_bytes(), world.path())?;
        let removed = world.removed()?;
        self.bytes(removed::FILE_NAME, removed.to_text().as_bytes(), world.path())?;
        self.file(&root, REGISTRY, REGISTRY, world.path(), (0, 0))?;
        let files_path = world.path().join(FILES);
        let files = open_dir_entry(&root, FILES).trying("open", &files_path)?;
        self.directory(&files, FILES, &files_path)?;
        if let Ok(nt) = open_dir_entry(&files, RESERVED) {
            self.plain_directory(&format!("{FILES}/{RESERVED}"), &files_path)?;
            let place = files_path.join(RESERVED);
            for name in [NAMES, SECURITY] {
                if open_file_entry(&nt, name).is_ok() {
                    self.file(&nt, name, &format!("{FILES}/{RESERVED}/{name}"), &place, (0, 0))?;
                }
            }
            self.below(&files, RESERVED, &place, &removed)?;
        }
        self.below(&files, "", &files_path, &removed)
    }

    /// All in a directory of `files/`, depth first, names by their bytes.
    fn below(&mut self, files: &OwnedFd, top: &str, place: &Path, removed: &Removed) -> Result<()> {
        let mut todo = vec![(top.to_owned(), 0)];
        while let Some((path, depth)) = todo.pop() {
            if depth > MAX_DEPTH {
                return Err(Error::TooDeep { path, limit: MAX_DEPTH });
            }
            let dir = open_dir(files, &path).trying("open", place)?;
            let in_tar = if path.is_empty() {
                FILES.to_owned()
            } else {
                format!("{FILES}/{}", tar_path(&path))
            };
            if path != top {
                match path.starts_with(RESERVED) {
                    true => self.plain_directory(&in_tar, place)?,
                    false => self.directory(&dir, &in_tar, place)?,
                }
            }
            let mut entries = listing::raw(&dir, place)?;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut directories = Vec::new();
            for (name, kind) in entries {
                let ours = path == RESERVED && [NAMES, SECURITY, WORK].contains(&&*name);
                if ours || (path.is_empty() && name == RESERVED) {
                    continue;
                }
                let below = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}/{name}")
                };
                match kind {
                    rustix::fs::FileType::Directory => directories.push((below, depth + 1)),
                    rustix::fs::FileType::RegularFile => {
                        let at = format!("{FILES}/{}", tar_path(&below));
                        self.file(&dir, &name, &at, place, (0, 0))?;
                    }
                    other => {
                        let path = place.join(below);
                        return Err(Error::ForeignEntry {
                            path,
                            found: crate::beneath::kind_words(other),
                        });
                    }
                }
            }
            if !path.starts_with(RESERVED) {
                self.whiteouts(&dir, &path, &in_tar, place, removed)?;
            }
            todo.extend(directories.into_iter().rev());
        }
        Ok(())
    }

    /// The marks once more, as OCI tools read them. A world's own reader goes by `removed`.
    fn whiteouts(&mut self, dir: &OwnedFd, path: &str, in_tar: &str, place: &Path, removed: &Removed) -> Result<()> {
        if removed.is_empty() {
            return Ok(());
        }
        let here = removed.sorted().into_iter().filter_map(|mark| {
            let (parent, name) = (mark.parent()?, mark.name()?);
            let stored: Vec<_> = parent
                .components()
                .iter()
                .map(|name| StoredName::alone(name).to_string())
                .collect();
            (stored.join("/") == path).then(|| StoredName::alone(name).to_string())
        });
        let here: Vec<String> = here.collect();
        for name in here {
            // A name that the layer has itself is no whiteout for OCI; a directory is opaque.
            let at = match open_dir_entry(dir, &name) {
                Ok(_) => format!("{in_tar}/{}/.wh..wh..opq", tar_path(&name)),
                Err(_) => format!("{in_tar}/.wh.{}", tar_path(&name)),
            };
            self.bytes(&at, b"", place)?;
        }
        Ok(())
    }

    fn directory(&mut self, dir: &OwnedFd, in_tar: &str, place: &Path) -> Result<()> {
        let stat = fstat(dir).trying("look at", place)?;
        self.entry(
            in_tar,
            EntryKind::Directory,
            0,
            nt_time(&stat),
            record(dir, place)?,
            place,
        )
    }

    fn plain_directory(&mut self, in_tar: &str, place: &Path) -> Result<()> {
        self.entry(in_tar, EntryKind::Directory, 0, (0, 0), None, place)
    }

    fn bytes(&mut self, in_tar: &str, bytes: &[u8], place: &Path) -> Result<()> {
        self.entry(in_tar, EntryKind::File, bytes.len() as u64, (0, 0), None, place)?;
        self.out.content(&mut &*bytes, bytes.len() as u64).trying("pack", place)
    }

    /// A file with its bytes, or a link to one that was packed. Files of `files/` outside of `:nt` keep their times.
    fn file(&mut self, dir: &OwnedFd, name: &str, in_tar: &str, place: &Path, fixed: (i64, u32)) -> Result<()> {
        let path = place.join(name);
        let mut file = File::from(open_file_entry(dir, name).trying("open", &path)?);
        let stat = fstat(&file).trying("look at", &path)?;
        let ours = !in_tar.starts_with("files/") || in_tar.starts_with("files/:nt/");
        let mtime = if ours { fixed } else { nt_time(&stat) };
        if links_of(&stat) > 1 && !ours {
            if let Some(first) = self.first_name.get(&stat.st_ino).cloned() {
                let header = Header {
                    path: in_tar.into(),
                    kind: EntryKind::HardLink,
                    size_bytes: 0,
                    link: first,
                    mtime,
                    record: None,
                };
                return self.out.header(&header).trying("pack", &path);
            }
            self.first_name.insert(stat.st_ino, in_tar.to_owned());
        }
        let record = if ours { None } else { record(&file, &path)? };
        let size_bytes = size_of(&stat);
        self.entry(in_tar, EntryKind::File, size_bytes, mtime, record, &path)?;
        self.out.content(&mut file, size_bytes).trying("pack", &path)?;
        (self.progress)(size_bytes);
        Ok(())
    }

    fn entry(
        &mut self,
        in_tar: &str,
        kind: EntryKind,
        size_bytes: u64,
        mtime: (i64, u32),
        record: Option<Vec<u8>>,
        place: &Path,
    ) -> Result<()> {
        let header = Header {
            path: in_tar.into(),
            kind,
            size_bytes,
            link: String::new(),
            mtime,
            record,
        };
        self.out.header(&header).trying("pack", place)
    }
}

/// The mtime as NT sees it: what a Linux program left below 100 ns is no part of the world.
fn nt_time(stat: &Stat) -> (i64, u32) {
    let (secs, nanos) = stat_times(stat).0;
    (secs, nanos / 100 * 100)
}

/// `.wh.` begins an OCI whiteout; a file that is really called so is written with `:wh.`, which no stored name is.
fn tar_path(stored: &str) -> String {
    let component = |name: &str| match name.strip_prefix(".wh.") {
        Some(rest) => format!(":wh.{rest}"),
        None => name.to_owned(),
    };
    stored.split('/').map(component).collect::<Vec<_>>().join("/")
}

/// The record as it is on the disk.
fn record(fd: &impl std::os::fd::AsFd, place: &Path) -> Result<Option<Vec<u8>>> {
    let mut buffer = [0u8; MAX_BYTES + 1];
    match rustix::fs::fgetxattr(fd, XATTR, &mut buffer[..]) {
        Ok(length) => Ok(Some(buffer.get(..length).unwrap_or_default().to_vec())),
        Err(rustix::io::Errno::NODATA) => Ok(None),
        Err(error) => Err(Error::io("read the NT metadata of", place, error)),
    }
}
