//! Catalogs of tools: JSON files that name components in registries, for `mimir tools search`.
//!
//! A catalog only suggests: what it says about a component is checked when the component is added.

use std::path::Path;
use std::time::Duration;

use mimir_core::config::is_catalog_file;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_net::RequestLimits;
use mimir_registry::{OciDigest, OciManifest, OciReference};
use serde::{Deserialize, Serialize};

use super::{Registries, named_target_client};
use crate::file_error::file_error;
use crate::setup::HostSetup;

/// Artifact type and media type of a catalog in a registry.
pub const CATALOG_MEDIA_TYPE: &str = "application/vnd.mimir.catalog.v1+json";

/// Maximum size of a catalog in bytes.
pub const MAX_CATALOG_SIZE: u64 = 4 << 20;

/// Time limit of a catalog. A search asks several, and must not wait long for one.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Format version of catalogs.
const VERSION: u32 = 1;

/// A catalog of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCatalog {
    /// Format version, always 1.
    pub version: u32,
    /// Title of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tools.
    pub tools: Vec<CatalogTool>,
}

/// A tool in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogTool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    #[serde(default)]
    pub description: String,
    /// Reference of the component, with its registry.
    pub reference: String,
    /// Digest of the manifest. If set, exactly this build is suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<OciDigest>,
    /// Search words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl ToolCatalog {
    /// Parses and checks a catalog.
    ///
    /// # Errors
    ///
    /// Fails with the position of the fault, or with the tool whose reference is not valid.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let catalog: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if catalog.version != VERSION {
            return Err(format!(
                "its version is {}, but this mimir supports {VERSION}",
                catalog.version
            ));
        }
        for tool in &catalog.tools {
            let name = mimir_core::text::visible(mimir_core::text::prefix(&tool.name, 100));
            if tool.name.trim().is_empty() {
                return Err("a tool has no name".to_owned());
            }
            tool.reference()
                .map_err(|error| format!("the tool `{name}`: {}", error.message))?;
        }
        Ok(catalog)
    }
}

impl CatalogTool {
    /// Returns the reference of the component, pinned to the digest if the catalog states one.
    pub fn reference(&self) -> Result<OciReference, ToolError> {
        let reference: OciReference = self.reference.parse().map_err(ToolError::from)?;
        Ok(match self.digest {
            Some(digest) => reference.with_digest(digest),
            None => reference,
        })
    }
}

/// Fetches a catalog of the settings: a file, an https URL, or an artifact of a registry, whose signature must satisfy
/// the trust policy.
pub async fn fetch_catalog(
    setup: &HostSetup,
    registries: &Registries,
    entry: &str,
) -> Result<ToolCatalog, ToolError> {
    let text = if is_catalog_file(entry) {
        let path = setup.workspace.root().join(entry);
        read_file(&path)?
    } else if entry.contains("://") && !entry.starts_with("oci://") {
        download(setup, entry).await?
    } else {
        pull(registries, &entry.parse().map_err(ToolError::from)?).await?
    };
    ToolCatalog::parse(&text).map_err(|why| {
        ToolError::invalid_input(format!(
            "the catalog {} is not valid: {}",
            mimir_core::text::visible(entry),
            mimir_core::text::visible(&why)
        ))
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, ToolError> {
    let text = files::read(path, LinkPolicy::Follow, MAX_CATALOG_SIZE);
    text.map_err(|error| file_error("read the catalog", path, &error))
}

async fn download(setup: &HostSetup, url: &str) -> Result<Vec<u8>, ToolError> {
    if !url.starts_with("https://") && !is_loopback(url) {
        let url = mimir_core::text::visible(url);
        return Err(ToolError::invalid_input(format!(
            "the catalog {url} is not fetched: expected an https URL, because others could change a catalog on its way"
        )));
    }
    let policy = setup.settings.policy()?;
    let limits = RequestLimits {
        whole: TIMEOUT,
        body_bytes: MAX_CATALOG_SIZE,
        ..RequestLimits::default()
    };
    let client = named_target_client(&policy, setup.workspace.root(), limits)?;
    let response = client.get(url).await?;
    if !response.status.is_success() {
        let (origin, status) = (response.target.origin(), response.status);
        let message = format!("{origin} returned {status} instead of a catalog");
        return Err(ToolError::new(ToolErrorCode::Network, message));
    }
    Ok(response.body.into())
}

fn is_loopback(url: &str) -> bool {
    let rest = url.strip_prefix("http://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    matches!(host, "localhost" | "[::1]")
        || host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback())
}

async fn pull(registries: &Registries, reference: &OciReference) -> Result<Vec<u8>, ToolError> {
    let artifact = tokio::time::timeout(TIMEOUT, registries.inspect(reference)).await;
    let artifact = artifact.map_err(|_| {
        let message = format!("{} did not answer in time", reference.registry());
        ToolError::new(ToolErrorCode::Timeout, message)
    })??;
    let layer = match &artifact.manifest.parsed {
        OciManifest::Image(manifest) => {
            let mut layers = manifest.layers.iter();
            layers.find(|layer| layer.media_type == CATALOG_MEDIA_TYPE)
        }
        OciManifest::Index(_) => None,
    };
    let Some(layer) = layer else {
        return Err(ToolError::invalid_input(format!(
            "{reference} is not a catalog: expected a layer of the type {CATALOG_MEDIA_TYPE}; `mimir tools push FILE.json REF` pushes one"
        )));
    };
    let client = registries.client();
    let text = client.read_blob(reference, layer, MAX_CATALOG_SIZE).await;
    text.map_err(ToolError::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn catalogs_are_checked_when_they_are_parsed() {
        let parse = |value: serde_json::Value| ToolCatalog::parse(value.to_string().as_bytes());
        let tool = json!({"name": "weather", "reference": "registry.example.com/acme/weather:1"});
        let catalog = parse(json!({"version": 1, "tools": [tool]})).unwrap();
        assert_eq!(catalog.tools[0].description, "");
        let digest = format!("sha256:{}", "ab".repeat(32));
        let mut pinned = tool.clone();
        pinned["digest"] = json!(digest);
        let catalog = parse(json!({"version": 1, "name": "Acme", "tools": [pinned]})).unwrap();
        let reference = catalog.tools[0].reference().unwrap().to_string();
        assert!(reference.ends_with(&format!("@{digest}")), "{reference}");
        for (bad, reason) in [
            (json!({"version": 2, "tools": []}), "version"),
            (json!({"tools": []}), "version"),
            (json!({"version": 1, "tools": [{"name": "x"}]}), "reference"),
            (
                json!({"version": 1, "tools": [{"name": "x", "reference": "weather"}]}),
                "`x`",
            ),
            (
                json!({"version": 1, "tools": [{"name": " ", "reference": tool["reference"]}]}),
                "no name",
            ),
        ] {
            let error = parse(bad.clone()).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }

    #[test]
    fn catalogs_over_plain_http_are_fetched_from_this_machine_only() {
        for url in [
            "http://localhost:8080/c",
            "http://127.0.0.1/c",
            "http://[::1]:1/c",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://127.0.0.1.example.com/c",
            "http://example.com/127.0.0.1",
            "http://10.0.0.1/c",
            "http://user@localhost.example.com/c",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
