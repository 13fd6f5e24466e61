//! Settings of the embeddings endpoint, as the host passes them.

use mimir_sdk::prelude::*;
use mimir_sdk::serde_json;
use url::Url;

/// Environment variable that holds the settings, as JSON. The host fills it from its block `embeddings`.
pub(crate) const VARIABLE: &str = "EMBEDDINGS";

/// The block `embeddings`, checked by the host.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Settings {
    /// URL of the endpoint, without its last segment.
    pub(super) url: String,
    pub(super) model: String,
    /// Name of the secret, which is also the variable that holds its placeholder.
    #[serde(default)]
    key: Option<String>,
    /// Dimensions of a vector, for models with a choice.
    #[serde(default)]
    pub(super) dimensions: Option<u32>,
}

impl Settings {
    /// Reads the settings from the host, if an endpoint is configured.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Error::unavailable(format_args!("embeddings: {error}")))
    }

    /// URL to post to.
    pub(super) fn endpoint(&self) -> Result<Url> {
        let base = format!("{}/", self.url.trim_end_matches('/'));
        let url = Url::parse(&base).and_then(|base| base.join("embeddings"));
        url.map_err(|error| Error::unavailable(format_args!("embeddings.url: {error}")))
    }

    /// Placeholder that the host replaces with the key when it sends the request.
    pub(super) fn placeholder(&self) -> Option<String> {
        std::env::var(self.key.as_ref()?).ok()
    }

    #[cfg(test)]
    pub(crate) fn new(url: &str, model: &str) -> Self {
        Self {
            url: url.to_owned(),
            model: model.to_owned(),
            key: None,
            dimensions: None,
        }
    }
}
