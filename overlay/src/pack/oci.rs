// SPDX-License-Identifier: GPL-3.0-or-later
//! The JSON of an OCI image layout (OCI Image Format Specification 1.1: image-layout, image index, manifest, config).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::PackError;
use crate::manifest::Digest;

pub(super) const LAYOUT: &str = "{\"imageLayoutVersion\":\"1.0.0\"}";
pub(super) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// An uncompressed layer, which some tools make of it.
pub(super) const PLAIN_LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
pub(super) const DIGEST_KEY: &str = "org.vodka.world.digest";
/// The only time in a packed world.
pub(super) const CREATED: &str = "1970-01-01T00:00:00Z";
/// The most bytes of one JSON file that are read.
pub(super) const MAX_JSON_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub schema_version: u32,
    #[serde(default)]
    pub media_type: String,
    pub manifests: Vec<Descriptor>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageManifest {
    pub schema_version: u32,
    #[serde(default)]
    pub media_type: String,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RootFs {
    #[serde(rename = "type")]
    pub kind: String,
    pub diff_ids: Vec<Digest>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct History {
    pub created: String,
    pub created_by: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImageConfig {
    pub created: String,
    pub architecture: String,
    pub os: String,
    pub config: BTreeMap<String, String>,
    pub rootfs: RootFs,
    pub history: Vec<History>,
}

/// A JSON text; maps are sorted and structs have their fixed order.
pub(super) fn to_json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, PackError> {
    serde_json::to_vec(value).map_err(|error| PackError::Layout {
        path: path.into(),
        reason: error.to_string(),
    })
}

pub(super) fn from_json<T: for<'a> Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<T, PackError> {
    serde_json::from_slice(bytes).map_err(|error| PackError::Layout {
        path: path.into(),
        reason: error.to_string(),
    })
}
