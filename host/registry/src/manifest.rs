//! Manifests, image indexes and descriptors, as registries store them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::OciDigest;

/// Media type of a manifest.
pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index of manifests.
pub const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Reference to a blob or manifest by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type.
    pub media_type: String,
    /// The digest.
    pub digest: OciDigest,
    /// The size in bytes.
    pub size: u64,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The type of the artifact, in lists of referrers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The platform, in indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<ManifestPlatform>,
}

/// Platform of a manifest in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPlatform {
    /// The architecture; `wasm` for components.
    pub architecture: String,
    /// The operating system; `wasip1` or `wasip2` for components.
    pub os: String,
}

/// Manifest of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageManifest {
    /// The version of the format, always 2.
    pub schema_version: u32,
    /// The media type of this manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The type of the artifact. If it is missing, the media type of the config is the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The config.
    pub config: Descriptor,
    /// The layers.
    pub layers: Vec<Descriptor>,
    /// The manifest that this one refers to, for signatures and attestations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// List of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageIndex {
    /// The version of the format, always 2.
    pub schema_version: u32,
    /// The media type of this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests.
    pub manifests: Vec<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OciManifest {
    /// One artifact.
    Image(Box<ImageManifest>),
    /// A choice of artifacts.
    Index(ImageIndex),
}

/// A manifest whose digest has been checked.
#[derive(Debug, Clone)]
pub struct PulledManifest {
    /// The digest of the bytes.
    pub digest: OciDigest,
    /// The manifest as received.
    pub bytes: Vec<u8>,
    /// The parsed manifest.
    pub parsed: OciManifest,
    /// The index from which the manifest was chosen, if the reference names an index.
    pub index: Option<OciDigest>,
}
