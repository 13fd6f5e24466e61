//! Settings of the embeddings endpoint, and the resulting needs of `memory_search` and `search_code`.
//!
//! The tools build the requests, but only the settings written by a person determine their host and secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::needs::{HostNeed, SecretNeed};
use crate::network::RequestTarget;
use crate::tool::{Tool, ToolSource};

/// The embeddings endpoint, for finding memories and code by meaning. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EmbeddingsSettings {
    /// The URL of the endpoint without `/embeddings`, such as `https://api.openai.com/v1` or a URL on this machine.
    pub url: String,
    /// The model that computes the vectors.
    pub model: String,
    /// The name of the secret with the API key, as stored by `mimir secrets set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Number of dimensions of the vectors, for models that support several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub dimensions: Option<u32>,
}

/// The variable with which a tool requests the endpoint. Its value is the block as JSON.
pub const EMBEDDINGS_VARIABLE: &str = "EMBEDDINGS";

/// Maximum number of dimensions. With more, the vectors of a large memory would not fit into a stored value.
const DIMENSIONS_MAX: u32 = 4096;

/// Maximum length of a model's name, in bytes.
const MODEL_MAX: usize = 200;

/// A validated embeddings endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingsEndpoint {
    /// The block as JSON.
    pub settings: String,
    /// The host.
    pub host: HostNeed,
    /// The API key.
    pub secret: Option<SecretNeed>,
}

impl EmbeddingsSettings {
    /// Validates the block. The error names the invalid key and the reason.
    pub fn check(&self) -> Result<EmbeddingsEndpoint, String> {
        let target =
            RequestTarget::parse(&self.url).map_err(|error| format!("embeddings.url: {error}"))?;
        if self.url.contains(['?', '#']) {
            return Err(
                "embeddings.url must not have a query or a fragment: `/embeddings` is appended to it"
                    .to_owned(),
            );
        }
        let model = self.model.trim();
        if model.is_empty() || model.len() > MODEL_MAX || model.chars().any(char::is_control) {
            return Err("embeddings.model is not a valid model name".to_owned());
        }
        if let Some(dimensions) = self.dimensions
            && !(1..=DIMENSIONS_MAX).contains(&dimensions)
        {
            return Err(format!(
                "embeddings.dimensions: {dimensions} is out of range: expected 1 to {DIMENSIONS_MAX}"
            ));
        }
        let origin = target.origin().to_string();
        let secret = match &self.key {
            None => None,
            Some(name)
                if super::web_search::is_secret_name(name) && name != EMBEDDINGS_VARIABLE =>
            {
                Some(SecretNeed {
                    name: name.clone(),
                    host: origin.clone(),
                    header: "Authorization".to_owned(),
                    reason: "to authenticate".to_owned(),
                })
            }
            Some(name) => {
                return Err(format!(
                    "embeddings.key: `{}` is not a valid name of a secret: use letters, digits and _; store the value itself with `mimir secrets set`",
                    crate::text::visible(crate::text::prefix(name, 8))
                ));
            }
        };
        Ok(EmbeddingsEndpoint {
            settings: serde_json::to_string(self).map_err(|error| error.to_string())?,
            secret,
            host: HostNeed {
                host: origin,
                methods: vec!["POST".to_owned()],
                reason: "to compare texts by meaning".to_owned(),
            },
        })
    }
}

impl EmbeddingsEndpoint {
    /// Sets the host and the secret of a built-in tool that uses the endpoint. Other tools declare hosts themselves.
    pub fn add_needs_to(&self, tool: &mut Tool) {
        if !uses_embeddings(tool) {
            return;
        }
        for needs in [&mut tool.definition.needs, &mut tool.granted] {
            needs.hosts = vec![self.host.clone()];
            needs.secrets = self.secret.iter().cloned().collect();
        }
    }
}

/// Returns true for built-in tools that use the embeddings endpoint.
pub(crate) fn uses_embeddings(tool: &Tool) -> bool {
    let mut variables = tool.definition.needs.variables.iter();
    tool.source == ToolSource::BuiltIn && variables.any(|name| name == EMBEDDINGS_VARIABLE)
}

impl Config {
    /// Returns the embeddings endpoint if it is set and valid.
    pub fn embeddings(&self) -> Option<EmbeddingsEndpoint> {
        self.embeddings.as_ref()?.check().ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(block: Value) -> Result<EmbeddingsEndpoint, String> {
        let settings: EmbeddingsSettings =
            serde_json::from_value(block).map_err(|error| error.to_string())?;
        settings.check()
    }

    #[test]
    fn embeddings_endpoint_yields_one_host_and_one_header() {
        let endpoint = check(
            json!({"url": "http://LOCALHOST:8888/v1", "model": "m", "key": "K", "dimensions": 256}),
        );
        let endpoint = endpoint.unwrap();
        assert_eq!(endpoint.host.host, "http://localhost:8888");
        assert_eq!(endpoint.host.methods, ["POST"]);
        assert!(endpoint.host.pattern().is_ok());
        let secret = endpoint.secret.unwrap();
        assert_eq!(
            (secret.host.as_str(), secret.header.as_str()),
            ("http://localhost:8888", "Authorization")
        );
        let read: Value = serde_json::from_str(&endpoint.settings).unwrap();
        assert_eq!(read["url"], "http://LOCALHOST:8888/v1");
    }

    #[test]
    fn embeddings_invalid_settings_are_rejected_with_a_reason() {
        let url = "https://e.example/v1";
        for (block, words) in [
            (json!({"model": "m"}), "missing field `url`"),
            (json!({"url": url}), "missing field `model`"),
            (json!({"url": "e.example", "model": "m"}), "embeddings.url"),
            (
                json!({"url": "ftp://e.example", "model": "m"}),
                "embeddings.url",
            ),
            (
                json!({"url": "https://e.example/?a=b", "model": "m"}),
                "a query or a fragment",
            ),
            (json!({"url": url, "model": " "}), "embeddings.model"),
            (
                json!({"url": url, "model": "m", "key": "sk-0123 4"}),
                "is not a valid name of a secret",
            ),
            (
                json!({"url": url, "model": "m", "key": "EMBEDDINGS"}),
                "is not a valid name of a secret",
            ),
            (
                json!({"url": url, "model": "m", "dimensions": 0}),
                "expected 1 to 4096",
            ),
            (
                json!({"url": url, "model": "m", "dimensions": 9999}),
                "expected 1 to 4096",
            ),
            (
                json!({"url": url, "model": "m", "secret": "K"}),
                "unknown field",
            ),
        ] {
            let error = check(block.clone()).unwrap_err();
            assert!(error.contains(words), "{block}: {error}");
        }
    }
}
