//! Manifests, image indexes and descriptors, as registries store them.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
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
    pub index: Option<PulledIndex>,
}

/// An index whose digest has been checked.
#[derive(Debug, Clone)]
pub struct PulledIndex {
    /// The digest of the bytes.
    pub digest: OciDigest,
    /// The index as received.
    pub bytes: Vec<u8>,
}

/// Maximum number of layers of a manifest.
const MAX_LAYERS: usize = 64;
/// Maximum number of manifests in an index.
const MAX_MANIFESTS: usize = 1000;
/// Maximum number of annotations of one object.
const MAX_ANNOTATIONS: usize = 256;
/// Media types that are read as a manifest. Docker's has the same form.
const IMAGE_TYPES: [&str; 2] = [
    IMAGE_MANIFEST,
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Media types that are read as an index.
const INDEX_TYPES: [&str; 2] = [
    IMAGE_INDEX,
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// Value of the `Accept` header for manifests.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";
/// The expected media types, for messages.
pub(crate) const EXPECTED: &str = "an OCI image manifest or index";

/// Keys that tell a manifest from an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestShape {
    schema_version: u32,
    media_type: Option<String>,
    config: Option<IgnoredAny>,
    layers: Option<IgnoredAny>,
    manifests: Option<IgnoredAny>,
}

/// Reason why a manifest is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ManifestFault {
    /// The media type is not that of a manifest.
    MediaType(String),
    /// The content is not valid.
    Content(String),
    /// There are more parts than the limit.
    Limit(&'static str, usize),
}

impl OciManifest {
    /// Parses a manifest or an index with the media type of its `Content-Type` header, if there was one.
    pub(crate) fn parse(bytes: &[u8], header: Option<&str>) -> Result<Self, ManifestFault> {
        let json = |error: serde_json::Error| {
            ManifestFault::Content(mimir_core::text::visible(&error.to_string()))
        };
        let unknown = |media_type: &str| {
            let shown = mimir_core::text::prefix(media_type, 100);
            ManifestFault::MediaType(mimir_core::text::visible(shown))
        };
        // A page of a web server, for example.
        if let Some(header) = header
            && !IMAGE_TYPES.contains(&header)
            && !INDEX_TYPES.contains(&header)
        {
            return Err(unknown(header));
        }
        let shape: ManifestShape = serde_json::from_slice(bytes).map_err(json)?;
        if shape.schema_version != 2 {
            let why = format!("`schemaVersion` is {}, expected 2", shape.schema_version);
            return Err(ManifestFault::Content(why));
        }
        if let (Some(header), Some(own)) = (header, &shape.media_type)
            && header != own.as_str()
        {
            let own = mimir_core::text::visible(own);
            let why = format!("its media type is `{own}`, but the registry calls it `{header}`");
            return Err(ManifestFault::Content(why));
        }
        let media_type = header.or(shape.media_type.as_deref()).unwrap_or_default();
        if IMAGE_TYPES.contains(&media_type) {
            // Otherwise, clients could read different content under one digest.
            if shape.manifests.is_some() {
                let why = "a manifest must not have `manifests`".to_owned();
                return Err(ManifestFault::Content(why));
            }
            let image: ImageManifest = serde_json::from_slice(bytes).map_err(json)?;
            image.check_limits()?;
            return Ok(Self::Image(Box::new(image)));
        }
        if INDEX_TYPES.contains(&media_type) {
            if shape.config.is_some() || shape.layers.is_some() {
                let why = "an index must not have `config` or `layers`".to_owned();
                return Err(ManifestFault::Content(why));
            }
            let index: ImageIndex = serde_json::from_slice(bytes).map_err(json)?;
            if index.manifests.len() > MAX_MANIFESTS {
                return Err(ManifestFault::Limit("manifests", MAX_MANIFESTS));
            }
            return Ok(Self::Index(index));
        }
        Err(unknown(media_type))
    }
}

impl ImageManifest {
    fn check_limits(&self) -> Result<(), ManifestFault> {
        if self.layers.len() > MAX_LAYERS {
            return Err(ManifestFault::Limit("layers", MAX_LAYERS));
        }
        let annotations = self.layers.iter().map(|layer| &layer.annotations);
        let mut annotations = annotations.chain([&self.annotations]);
        if annotations.any(|annotations| annotations.len() > MAX_ANNOTATIONS) {
            return Err(ManifestFault::Limit("annotations", MAX_ANNOTATIONS));
        }
        Ok(())
    }

    /// Returns the type of the artifact: `artifactType`, or the media type of the config.
    pub fn kind(&self) -> &str {
        let own = self.artifact_type.as_deref();
        own.unwrap_or(&self.config.media_type)
    }
}

impl ImageIndex {
    /// Returns the manifest for WebAssembly: that for WASI 0.2, or another one for `wasm`, or the only one if the index
    /// does not name platforms.
    pub(crate) fn wasm_manifest(&self) -> Option<&Descriptor> {
        let is_image = |entry: &&Descriptor| IMAGE_TYPES.contains(&entry.media_type.as_str());
        let mut wasm = self.manifests.iter().filter(is_image).filter(|entry| {
            let platform = entry.platform.as_ref();
            platform.is_some_and(|platform| platform.architecture == "wasm")
        });
        let is_preferred = |entry: &&Descriptor| {
            let platform = entry.platform.as_ref();
            platform.is_some_and(|platform| platform.os == "wasip2")
        };
        let preferred = wasm.clone().find(is_preferred).or_else(|| wasm.next());
        preferred.or_else(|| match &self.manifests[..] {
            [only] if only.platform.is_none() && is_image(&only) => Some(only),
            _ => None,
        })
    }
}

impl PulledManifest {
    /// Returns the digest that the reference names: that of the index, if there is one.
    pub fn named_digest(&self) -> OciDigest {
        self.index
            .as_ref()
            .map_or(self.digest, |index| index.digest)
    }

    /// Returns the digests whose signatures are signatures of the artifact: that of the manifest, and that of the index,
    /// which contains the digest of the manifest.
    pub fn signed_digests(&self) -> Vec<OciDigest> {
        let index = self.index.as_ref().map(|index| index.digest);
        [self.digest].into_iter().chain(index).collect()
    }

    /// Returns the manifest of an artifact; `None` for an index.
    pub fn image(&self) -> Option<&ImageManifest> {
        match &self.parsed {
            OciManifest::Image(image) => Some(image),
            OciManifest::Index(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blob() -> Value {
        json!({"mediaType": "application/wasm", "digest": OciDigest::of_bytes(b"x"), "size": 1})
    }

    fn image() -> Value {
        json!({"schemaVersion": 2, "mediaType": IMAGE_MANIFEST, "config": blob(), "layers": [blob()]})
    }

    fn parse(value: &Value, header: Option<&str>) -> Result<OciManifest, ManifestFault> {
        OciManifest::parse(value.to_string().as_bytes(), header)
    }

    #[test]
    fn manifest_parse_accepts_one_media_type_only() {
        assert!(parse(&image(), Some(IMAGE_MANIFEST)).is_ok());
        assert!(parse(&image(), None).is_ok());
        let mut untyped = image();
        untyped.as_object_mut().unwrap().remove("mediaType");
        assert!(parse(&untyped, Some(IMAGE_MANIFEST)).is_ok());
        for header in [None, Some("text/html"), Some(IMAGE_INDEX)] {
            assert!(parse(&untyped, header).is_err(), "{header:?}");
        }
        // The header and the content must agree.
        assert!(matches!(
            parse(&image(), Some(IMAGE_INDEX)),
            Err(ManifestFault::Content(_))
        ));
    }

    #[test]
    fn manifest_parse_refuses_ambiguous_and_unsupported_content() {
        let index = json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": []});
        assert!(parse(&index, None).is_ok());
        for (base, key, value) in [
            (image(), "manifests", json!([])),
            (image(), "schemaVersion", json!(1)),
            (image(), "layers", json!(vec![blob(); 65])),
            (
                image(),
                "layers",
                json!([{"mediaType": "a", "digest": "sha512:00", "size": 1}]),
            ),
            (
                image(),
                "layers",
                json!([{"mediaType": "a", "digest": "sha256:00", "size": 1}]),
            ),
            (
                image(),
                "layers",
                json!([{"mediaType": "a", "digest": OciDigest::of_bytes(b""), "size": -1}]),
            ),
            (image(), "config", json!(null)),
            (index.clone(), "layers", json!([])),
            (index.clone(), "config", blob()),
            (index.clone(), "manifests", json!(vec![blob(); 1001])),
        ] {
            let mut changed = base.clone();
            changed
                .as_object_mut()
                .unwrap()
                .insert(key.to_owned(), value);
            assert!(parse(&changed, None).is_err(), "{key}");
        }
        let many: serde_json::Map<_, _> = (0..257)
            .map(|number| (format!("k{number}"), json!("v")))
            .collect();
        let mut annotated = image();
        annotated
            .as_object_mut()
            .unwrap()
            .insert("annotations".to_owned(), many.into());
        assert_eq!(
            parse(&annotated, None),
            Err(ManifestFault::Limit("annotations", 256))
        );
        assert!(OciManifest::parse(b"<html>", None).is_err());
        let deep = format!("{{\"schemaVersion\":2,\"x\":{}", "[".repeat(100_000));
        assert!(OciManifest::parse(deep.as_bytes(), Some(IMAGE_MANIFEST)).is_err());
    }

    #[test]
    fn index_prefers_wasi_of_the_second_generation() {
        let entry = |os: &str, architecture: &str| {
            json!({"mediaType": IMAGE_MANIFEST, "digest": OciDigest::of_bytes(os.as_bytes()), "size": 1,
                   "platform": {"os": os, "architecture": architecture}})
        };
        let index = |manifests: Value| {
            let value = json!({"schemaVersion": 2, "manifests": manifests});
            serde_json::from_value::<ImageIndex>(value).unwrap()
        };
        let chosen = index(json!([
            entry("linux", "amd64"),
            entry("wasip1", "wasm"),
            entry("wasip2", "wasm")
        ]));
        assert_eq!(
            chosen.wasm_manifest().unwrap().digest,
            OciDigest::of_bytes(b"wasip2")
        );
        let chosen = index(json!([entry("linux", "amd64"), entry("wasip1", "wasm")]));
        assert_eq!(
            chosen.wasm_manifest().unwrap().digest,
            OciDigest::of_bytes(b"wasip1")
        );
        assert_eq!(
            index(json!([entry("linux", "amd64")])).wasm_manifest(),
            None
        );
        let only =
            json!([{"mediaType": IMAGE_MANIFEST, "digest": OciDigest::of_bytes(b""), "size": 1}]);
        assert!(index(only).wasm_manifest().is_some());
    }
}
