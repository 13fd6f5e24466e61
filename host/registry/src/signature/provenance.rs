//! SLSA provenance: how an artifact was built. It is shown, and decides nothing.

use mimir_core::text::{prefix, visible};
use serde::Serialize;
use serde_json::Value;

use super::Signer;
use super::statement::InTotoStatement;
use crate::digest::OciDigest;

/// Prefix of the types of provenance statements.
const PREDICATE: &str = "https://slsa.dev/provenance/";
/// Maximum length in bytes of a value.
const MAX_VALUE: usize = 300;

/// The statement about the build of an artifact. Values are made visible and shortened for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<String>,
    /// The kind of build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_type: Option<String>,
    /// The repository of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The commit of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The trusted signer of the statement; `None` if the trust policy knows none, and the statement proves nothing.
    pub signer: Option<Signer>,
}

impl Provenance {
    /// Reads the payload of an envelope; `None` if it is not a provenance statement about this manifest.
    pub(super) fn read(payload: &[u8], manifest: &OciDigest) -> Option<Self> {
        let statement = InTotoStatement::parse(payload).ok()?;
        if !statement.predicate_type.starts_with(PREDICATE) || !statement.is_about(manifest) {
            return None;
        }
        let predicate: Value = serde_json::from_str(statement.predicate?.get()).ok()?;
        let text = |pointers: &[&str]| {
            let mut found = pointers
                .iter()
                .filter_map(|pointer| predicate.pointer(pointer));
            let value = found.find_map(Value::as_str)?;
            Some(visible(prefix(value, MAX_VALUE)))
        };
        // Version 1 first, then 0.2.
        Some(Self {
            builder: text(&["/runDetails/builder/id", "/builder/id"]),
            build_type: text(&["/buildDefinition/buildType", "/buildType"]),
            source: text(&[
                "/buildDefinition/externalParameters/workflow/repository",
                "/buildDefinition/resolvedDependencies/0/uri",
                "/invocation/configSource/uri",
                "/materials/0/uri",
            ]),
            commit: text(&[
                "/buildDefinition/resolvedDependencies/0/digest/gitCommit",
                "/buildDefinition/resolvedDependencies/0/digest/sha1",
                "/invocation/configSource/digest/sha1",
                "/materials/0/digest/sha1",
            ]),
            signer: None,
        })
    }
}
