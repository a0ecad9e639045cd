// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading an OCI image layout: one image, each blob checked before it is used.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::PackError;
use super::oci::{self, Descriptor, ImageConfig, ImageManifest, Index};
use crate::beneath::{open_dir_entry, open_file_entry, open_root};
use crate::error::{Error, Result, Trying};
use crate::manifest::Digest;

/// The most layers of an image.
pub(super) const MAX_IMAGE_LAYERS: usize = crate::layers::MAX_LAYERS;

pub(super) fn pack(path: &Path, source: PackError) -> Error {
    Error::Pack {
        path: path.into(),
        source,
    }
}

pub(super) fn layout_error(path: &Path, reason: &str) -> PackError {
    PackError::Layout {
        path: path.into(),
        reason: reason.into(),
    }
}

/// An OCI image layout.
pub(super) struct Layout {
    path: PathBuf,
    fd: OwnedFd,
}

/// A blob whose digest is right.
pub(super) struct Blob {
    pub path: PathBuf,
    file: File,
}

impl Blob {
    /// From its beginning.
    pub fn open(&self) -> Result<File> {
        use std::io::Seek;
        let mut file = self.file.try_clone().trying("open", &self.path)?;
        file.rewind().trying("read", &self.path)?;
        Ok(file)
    }
}

impl Layout {
    pub fn open(path: &Path) -> Result<Self> {
        let fd = open_root(path).trying("open", path)?;
        let layout = Self { path: path.into(), fd };
        let version: HashMap<String, String> = layout.json("oci-layout")?;
        match version.get("imageLayoutVersion").map(String::as_str) {
            Some("1.0.0") => Ok(layout),
            other => {
                let reason = format!("its imageLayoutVersion is {other:?}, expected \"1.0.0\"");
                Err(pack(path, layout_error(path, &reason)))
            }
        }
    }

    fn json<T: for<'a> serde::Deserialize<'a>>(&self, name: &str) -> Result<T> {
        let path = self.path.join(name);
        let text = crate::files::read_text(&self.fd, name, &self.path, oci::MAX_JSON_BYTES)?
            .ok_or_else(|| pack(&self.path, layout_error(&path, "it is missing")))?;
        oci::from_json(text.as_bytes(), &path).map_err(|error| pack(&self.path, error))
    }

    pub fn manifest(&self) -> Result<ImageManifest> {
        let refused = |reason: String| pack(&self.path, layout_error(&self.path, &reason));
        let index: Index = self.json("index.json")?;
        let [descriptor] = &index.manifests[..] else {
            return Err(refused(format!(
                "it has {} images, and one is unpacked",
                index.manifests.len()
            )));
        };
        if descriptor.media_type != oci::MANIFEST_TYPE {
            return Err(refused(format!("its image has the type {:?}", descriptor.media_type)));
        }
        let manifest: ImageManifest = self.json_blob(descriptor)?;
        let config: ImageConfig = self.json_blob(&manifest.config)?;
        if manifest.layers.is_empty() || manifest.layers.len() > MAX_IMAGE_LAYERS {
            return Err(refused(format!(
                "it has {} layers, expected 1 to {MAX_IMAGE_LAYERS}",
                manifest.layers.len()
            )));
        }
        if config.rootfs.diff_ids.len() != manifest.layers.len() {
            return Err(refused(
                "its config and its manifest have different numbers of layers".into(),
            ));
        }
        for layer in &manifest.layers {
            if ![oci::LAYER_TYPE, oci::PLAIN_LAYER_TYPE].contains(&&*layer.media_type) {
                return Err(refused(format!(
                    "a layer has the type {:?}, expected {:?}",
                    layer.media_type,
                    oci::LAYER_TYPE
                )));
            }
        }
        Ok(manifest)
    }

    fn json_blob<T: for<'a> serde::Deserialize<'a>>(&self, descriptor: &Descriptor) -> Result<T> {
        let blob = self.checked_blob(descriptor, &|_| {})?;
        let mut bytes = Vec::new();
        blob.open()?
            .take(oci::MAX_JSON_BYTES)
            .read_to_end(&mut bytes)
            .trying("read", &blob.path)?;
        oci::from_json(&bytes, &blob.path).map_err(|error| pack(&self.path, error))
    }

    /// Opens a blob and reads it once, to see whether it is the one.
    pub fn checked_blob(&self, descriptor: &Descriptor, progress: &dyn Fn(u64)) -> Result<Blob> {
        let name = descriptor.digest.hex();
        let path = self.path.join("blobs/sha256").join(&name);
        let dir = open_dir_entry(&self.fd, "blobs").and_then(|blobs| open_dir_entry(&blobs, "sha256"));
        let dir = dir.trying("open", self.path.join("blobs/sha256"))?;
        let file = File::from(open_file_entry(&dir, &name).trying("open", &path)?);
        let size = file.metadata().trying("look at", &path)?.len();
        if size != descriptor.size {
            let reason = format!("it has {size} bytes, expected {}", descriptor.size);
            return Err(pack(&self.path, layout_error(&path, &reason)));
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let read = (&file).read(&mut buffer).trying("read", &path)?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
            progress(read as u64);
        }
        let found = Digest::from_bytes(hasher.finalize().into());
        if found == descriptor.digest {
            Ok(Blob { path, file })
        } else {
            Err(pack(
                &self.path,
                PackError::BlobDigest {
                    path,
                    found: found.to_string(),
                },
            ))
        }
    }
}
