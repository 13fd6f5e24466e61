//! Layout of WebAssembly components in registries: the CNCF wasm artifact, and older forms for reading.
//!
//! An artifact is a manifest with a config (`application/vnd.wasm.config.v0+json`) and one layer (`application/wasm`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use crate::client::{COMPONENT_MAX, NewArtifact, NewLayer};
use crate::digest::OciDigest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, OciManifest, PulledManifest};

/// Media type of the config.
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the layer.
pub const WASM_LAYER: &str = "application/wasm";

/// Annotation with the time of the build.
pub const CREATED_ANNOTATION: &str = "org.opencontainers.image.created";

/// Media types of layers that are read as a component: the current one, and those of earlier tools.
const COMPONENT_LAYERS: [&str; 5] = [
    WASM_LAYER,
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
    "application/vnd.wasm.component.v1+wasm",
    "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
];
/// Media types of layers with a policy beside the component, as wassette writes and reads them.
const POLICY_LAYERS: [&str; 4] = [
    "application/vnd.wasm.policy.v1+yaml",
    "application/vnd.wassette.policy+yaml",
    "application/x-yaml",
    "text/yaml",
];
/// Maximum number of policies of an artifact.
const MAX_POLICIES: usize = 4;
/// Maximum size of a policy, in bytes.
pub const POLICY_MAX: u64 = 256 << 10;
/// Maximum length of an annotation from the metadata, in bytes.
const ANNOTATION_MAX: usize = 4096;

/// Facts about a component for its config and annotations. Empty ones are left out.
#[derive(Debug, Clone, Default)]
pub struct ComponentFacts {
    /// The time of the build.
    pub created: Timestamp,
    /// `wasip1` or `wasip2`.
    pub os: WasiVersion,
    /// Names of exported interfaces.
    pub exports: Vec<String>,
    /// Names of imported interfaces.
    pub imports: Vec<String>,
    /// The world that the component targets.
    pub target: Option<String>,
    /// Name of the tool.
    pub title: Option<String>,
    /// Version of the tool.
    pub version: Option<String>,
    /// Description of the tool.
    pub description: Option<String>,
    /// URL of the source.
    pub source: Option<String>,
    /// Homepage.
    pub url: Option<String>,
    /// SPDX expression.
    pub licenses: Option<String>,
    /// Authors.
    pub authors: Option<String>,
    /// Revision of the source.
    pub revision: Option<String>,
    /// Further annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// Version of WASI that a component imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WasiVersion {
    /// Core modules.
    P1,
    /// Components.
    #[default]
    P2,
}

impl WasiVersion {
    /// Returns the operating system in a config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P1 => "wasip1",
            Self::P2 => "wasip2",
        }
    }
}

/// The layers of an artifact that mimir uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmLayers {
    /// The component.
    pub component: Descriptor,
    /// Policies that the artifact brings, at most [`POLICY_MAX`] bytes each. They are requests for rights and grant
    /// nothing.
    pub policies: Vec<Descriptor>,
}

/// Packs a component as a CNCF wasm artifact. The same input gives the same bytes.
///
/// ```
/// use mimir_registry::wasm_artifact::{ComponentFacts, pack};
///
/// let facts = ComponentFacts { title: Some("weather".to_owned()), ..ComponentFacts::default() };
/// let artifact = pack(b"\0asm\x0d\0\x01\0", &facts);
/// assert_eq!(artifact.config.0, "application/vnd.wasm.config.v0+json");
/// assert_eq!(artifact.annotations["org.opencontainers.image.title"], "weather");
/// ```
pub fn pack(component: &[u8], facts: &ComponentFacts) -> NewArtifact {
    let mut config = json!({
        "created": facts.created.to_string(),
        "architecture": "wasm",
        "os": facts.os.as_str(),
        "layerDigests": [OciDigest::of_bytes(component)],
    });
    let author = facts.authors.as_ref().map(|authors| json!(authors));
    let interfaces = (facts.os == WasiVersion::P2).then(|| {
        json!({
            "exports": facts.exports,
            "imports": facts.imports,
            "target": facts.target,
        })
    });
    for (key, value) in [("author", author), ("component", interfaces)] {
        if let (Some(config), Some(value)) = (config.as_object_mut(), value) {
            config.insert(key.to_owned(), value);
        }
    }
    let mut annotations = facts.annotations.clone();
    let created = facts.created.to_string();
    for (key, value) in [
        ("created", Some(&created)),
        ("title", facts.title.as_ref()),
        ("version", facts.version.as_ref()),
        ("description", facts.description.as_ref()),
        ("source", facts.source.as_ref()),
        ("url", facts.url.as_ref()),
        ("licenses", facts.licenses.as_ref()),
        ("authors", facts.authors.as_ref()),
        ("revision", facts.revision.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = mimir_core::text::prefix_bytes(value, ANNOTATION_MAX);
            annotations.insert(format!("org.opencontainers.image.{key}"), value.to_owned());
        }
    }
    let layer = NewLayer {
        media_type: WASM_LAYER.to_owned(),
        bytes: component.to_vec(),
        annotations: BTreeMap::new(),
    };
    NewArtifact {
        artifact_type: None,
        config: (WASM_CONFIG.to_owned(), config.to_string().into_bytes()),
        layers: vec![layer],
        annotations,
    }
}

/// Finds the component and the policies in a manifest. Fails unless there is exactly one component of an accepted size.
pub fn find_component(manifest: &PulledManifest) -> Result<WasmLayers, RegistryError> {
    let artifact = |why: String| RegistryError::Artifact { why };
    let image = match &manifest.parsed {
        OciManifest::Image(image) => image,
        OciManifest::Index(index) => {
            let platforms = index.manifests.iter().filter_map(|entry| {
                let platform = entry.platform.as_ref()?;
                Some(format!("{}/{}", platform.os, platform.architecture))
            });
            return Err(artifact(format!(
                "it is an index without a manifest for `wasm` ({}); use the reference of a WebAssembly component",
                listed(platforms)
            )));
        }
    };
    let of_types = |types: &[&str]| -> Vec<&Descriptor> {
        let layers = image.layers.iter();
        layers
            .filter(|layer| types.contains(&layer.media_type.as_str()))
            .collect()
    };
    let components = of_types(&COMPONENT_LAYERS);
    let policies = of_types(&POLICY_LAYERS);
    let component = match &components[..] {
        [component] => *component,
        [] => {
            let types = image.layers.iter().map(|layer| layer.media_type.clone());
            return Err(artifact(format!(
                "it does not have a WebAssembly component: expected a layer of type `{WASM_LAYER}`, found {}; use the \
                 reference of a component",
                listed(types)
            )));
        }
        several => {
            return Err(artifact(format!(
                "it has {} WebAssembly layers, expected one; push each component as an artifact of its own",
                several.len()
            )));
        }
    };
    if component.size > COMPONENT_MAX {
        return Err(artifact(format!(
            "its component has {}, at most {} are supported",
            mimir_core::text::bytes(component.size),
            mimir_core::text::bytes(COMPONENT_MAX)
        )));
    }
    if policies.len() > MAX_POLICIES || policies.iter().any(|policy| policy.size > POLICY_MAX) {
        return Err(artifact(format!(
            "its policies are too many or too large, at most {MAX_POLICIES} of {} are supported",
            mimir_core::text::bytes(POLICY_MAX)
        )));
    }
    Ok(WasmLayers {
        component: component.clone(),
        policies: policies.into_iter().cloned().collect(),
    })
}

/// Returns names from a registry for a message, shortened and escaped.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names
        .take(5)
        .map(|name| {
            format!(
                "`{}`",
                mimir_core::text::visible(mimir_core::text::prefix(&name, 80))
            )
        })
        .collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::manifest::ImageManifest;

    fn pulled(layers: &[(&str, u64)]) -> PulledManifest {
        let layer = |(media_type, size): &(&str, u64)| Descriptor {
            size: *size,
            ..Descriptor::of_bytes(media_type, media_type.as_bytes())
        };
        let image = ImageManifest {
            schema_version: 2,
            media_type: None,
            artifact_type: None,
            config: Descriptor::of_bytes(WASM_CONFIG, b"{}"),
            layers: layers.iter().map(layer).collect(),
            subject: None,
            annotations: BTreeMap::new(),
        };
        PulledManifest {
            digest: OciDigest::of_bytes(b""),
            bytes: vec![],
            parsed: OciManifest::Image(Box::new(image)),
            index: None,
        }
    }

    #[test]
    fn packed_component_has_the_config_of_the_cncf_layout() {
        let facts = ComponentFacts {
            created: "2026-01-02T03:04:05Z".parse().unwrap(),
            exports: vec!["mimir:plugin/tools@1.0.0".to_owned()],
            imports: vec!["wasi:cli/environment@0.2.0".to_owned()],
            target: Some("mimir:plugin/plugin@1.0.0".to_owned()),
            title: Some("weather".to_owned()),
            version: Some(String::new()),
            authors: Some("Acme".to_owned()),
            annotations: [("x.example".to_owned(), "y".to_owned())].into(),
            ..ComponentFacts::default()
        };
        let artifact = pack(b"component", &facts);
        let config: Value = serde_json::from_slice(&artifact.config.1).unwrap();
        let expected = json!({
            "created": "2026-01-02T03:04:05Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [OciDigest::of_bytes(b"component").to_string()],
            "author": "Acme",
            "component": {
                "exports": ["mimir:plugin/tools@1.0.0"],
                "imports": ["wasi:cli/environment@0.2.0"],
                "target": "mimir:plugin/plugin@1.0.0",
            },
        });
        assert_eq!(config, expected);
        let keys: Vec<&str> = artifact.annotations.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "org.opencontainers.image.authors",
                "org.opencontainers.image.created",
                "org.opencontainers.image.title",
                "x.example"
            ]
        );
        let [layer] = &artifact.layers[..] else {
            panic!("{artifact:?}");
        };
        assert_eq!(
            (layer.media_type.as_str(), &layer.bytes[..]),
            (WASM_LAYER, &b"component"[..])
        );
        let module = pack(
            b"m",
            &ComponentFacts {
                os: WasiVersion::P1,
                ..facts
            },
        );
        let config: Value = serde_json::from_slice(&module.config.1).unwrap();
        assert_eq!(
            (config.get("os"), config.get("component")),
            (Some(&json!("wasip1")), None)
        );
    }

    #[test]
    fn component_of_each_known_layout_is_found() {
        for media_type in COMPONENT_LAYERS {
            let found = find_component(&pulled(&[(media_type, 8)])).unwrap();
            assert_eq!(found.component.media_type, media_type);
            assert!(found.policies.is_empty());
        }
        let bundle = pulled(&[
            ("application/vnd.wassette.policy+yaml", 10),
            (WASM_LAYER, 8),
            ("application/octet-stream", 1),
        ]);
        let found = find_component(&bundle).unwrap();
        assert_eq!(found.component.media_type, WASM_LAYER);
        assert_eq!(found.policies.len(), 1);
    }

    #[test]
    fn artifact_without_exactly_one_component_is_refused() {
        for (layers, why) in [
            (&[][..], "found nothing"),
            (
                &[("application/vnd.oci.image.layer.v1.tar+gzip", 1)],
                "tar+gzip",
            ),
            (&[("text/yaml", 1)], "does not have"),
            (
                &[(WASM_LAYER, 1), (COMPONENT_LAYERS[1], 1)],
                "2 WebAssembly layers",
            ),
            (&[(WASM_LAYER, COMPONENT_MAX + 1)], "at most"),
            (
                &[(WASM_LAYER, 1), ("text/yaml", POLICY_MAX + 1)],
                "too large",
            ),
        ] {
            let error = find_component(&pulled(layers)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let hidden = find_component(&pulled(&[("a\u{1b}[2Jb", 1)])).unwrap_err();
        assert!(!hidden.to_string().contains('\u{1b}'));
    }
}
