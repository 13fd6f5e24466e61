//! Which endpoint makes vectors, as the host hands it over.

use mimir_sdk::prelude::*;
use mimir_sdk::serde_json;
use url::Url;

/// The variable that holds the settings, as JSON. The host fills it from its block `embeddings`.
pub(crate) const VARIABLE: &str = "EMBEDDINGS";

/// The block `embeddings`. The host has checked it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Settings {
    /// Where the endpoint is, without its last part.
    pub(super) url: String,
    pub(super) model: String,
    /// The name of the secret, which is also the variable with its placeholder.
    #[serde(default)]
    key: Option<String>,
    /// Numbers of a vector, where the model leaves a choice.
    #[serde(default)]
    pub(super) dimensions: Option<u32>,
}

impl Settings {
    /// What the host has handed over, if an endpoint is set.
    pub(crate) fn of_host() -> Result<Option<Self>> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Error::unavailable(format_args!("embeddings: {error}")))
    }

    /// Where is asked.
    pub(super) fn endpoint(&self) -> Result<Url> {
        let base = format!("{}/", self.url.trim_end_matches('/'));
        let url = Url::parse(&base).and_then(|base| base.join("embeddings"));
        url.map_err(|error| Error::unavailable(format_args!("embeddings.url: {error}")))
    }

    /// What stands for the key until the host sends it.
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
