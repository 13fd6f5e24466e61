//! Settings of web searches, as the host passes them.

use mimir_sdk::prelude::*;
use mimir_sdk::serde_json;

/// Environment variable that holds the settings, as JSON. The host fills it from its block `webSearch`.
pub(super) const VARIABLE: &str = "WEB_SEARCH";

/// The block `webSearch`, checked by the host.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) provider: Provider,
    /// URL of the provider; for a template with `{query}` and `{count}`.
    #[serde(default)]
    pub(super) url: Option<String>,
    /// Name of the secret, which is also the variable that holds its placeholder.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// Header with the key: `Name: value` with `{key}`.
    #[serde(default)]
    pub(super) header: Option<String>,
    /// JSON body with `{query}` and `{count}` in its strings. If set, the request is a POST.
    #[serde(default)]
    pub(super) body: Option<String>,
    /// Path of the result list in the response: names separated by dots.
    #[serde(default)]
    pub(super) results: Option<String>,
    #[serde(default)]
    pub(super) fields: Fields,
}

/// The search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Provider {
    Brave,
    Tavily,
    Searxng,
    Template,
}

/// Paths of the title, URL and snippet in each result.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

impl Default for Fields {
    fn default() -> Self {
        let owned = str::to_owned;
        Self {
            title: owned("title"),
            url: owned("url"),
            snippet: owned("snippet"),
        }
    }
}

impl Settings {
    /// Reads the settings that the host passes in [`VARIABLE`].
    pub(super) fn from_env() -> Result<Self> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Err(Error::unavailable(
                "no search provider is configured; set `webSearch.provider` in .mimir/config.yml to brave, tavily, searxng or template",
            ));
        };
        serde_json::from_str(&text)
            .map_err(|error| Error::unavailable(format_args!("webSearch: {error}")))
    }

    /// Placeholder that the host replaces with the key when it sends the request.
    pub(super) fn placeholder(&self) -> Option<String> {
        std::env::var(self.key.as_ref()?).ok()
    }
}
