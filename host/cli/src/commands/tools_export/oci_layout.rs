//! An OCI image layout: a folder with the same manifest and blobs that `mimir tools push` writes to a registry.

use std::collections::BTreeMap;

use mimir_core::ToolError;
use mimir_registry::wasm_artifact;
use mimir_registry::{Descriptor, ImageIndex, ImageManifest, NewArtifact, OciDigest};
use serde::Serialize;
use serde_json::{Value, json};

use super::export_files::ExportFile;
use super::exported_plugin::ExportedPlugin;
use crate::args::ToolsExportArgs;

/// Media types of manifests and indexes.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Annotation of the index with the tag of a manifest.
const TAG: &str = "org.opencontainers.image.ref.name";

/// Annotation by which the MCP registry checks that an artifact belongs to a server.
const SERVER_NAME: &str = "io.modelcontextprotocol.server.name";

/// Builds the files of the layout.
pub fn build(
    plugin: &ExportedPlugin,
    args: &ToolsExportArgs,
) -> Result<(Vec<ExportFile>, Value), ToolError> {
    let mut facts = plugin.facts.clone();
    if let Some(name) = &args.server_name {
        facts
            .annotations
            .insert(SERVER_NAME.to_owned(), name.clone());
    }
    let artifact = wasm_artifact::pack(&plugin.component, &facts);
    layout(artifact, &plugin.version)
}

fn layout(artifact: NewArtifact, tag: &str) -> Result<(Vec<ExportFile>, Value), ToolError> {
    let mut files = vec![ExportFile::new(
        "oci-layout",
        "{\"imageLayoutVersion\":\"1.0.0\"}\n",
    )];
    let (config_type, config) = artifact.config;
    let config = add_blob(&mut files, config_type, config, BTreeMap::new());
    let mut layers = Vec::new();
    for layer in artifact.layers {
        layers.push(add_blob(
            &mut files,
            layer.media_type,
            layer.bytes,
            layer.annotations,
        ));
    }
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: artifact.artifact_type,
        config,
        layers,
        subject: None,
        annotations: artifact.annotations,
    };
    let tags = BTreeMap::from([(TAG.to_owned(), tag.to_owned())]);
    let manifest = add_blob(&mut files, MANIFEST.to_owned(), to_json(&manifest)?, tags);
    let digest = manifest.digest.to_string();
    let index = ImageIndex {
        schema_version: 2,
        media_type: Some(INDEX.to_owned()),
        manifests: vec![manifest],
        annotations: BTreeMap::new(),
    };
    files.push(ExportFile::new("index.json", to_json(&index)?));
    Ok((files, json!({ "manifest": digest, "tag": tag })))
}

/// Adds a blob to the files, and returns its descriptor.
fn add_blob(
    files: &mut Vec<ExportFile>,
    media_type: String,
    bytes: Vec<u8>,
    annotations: BTreeMap<String, String>,
) -> Descriptor {
    let digest = OciDigest::of_bytes(&bytes);
    let size = bytes.len() as u64;
    files.push(ExportFile::new(
        format!("blobs/sha256/{}", digest.hex()),
        bytes,
    ));
    Descriptor {
        media_type,
        digest,
        size,
        annotations,
        artifact_type: None,
        platform: None,
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, ToolError> {
    serde_json::to_vec(value).map_err(ToolError::internal)
}
