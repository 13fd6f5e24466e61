//! What a person has set about searches, as the host hands it over.

use mimir_sdk::prelude::*;
use mimir_sdk::serde_json;

/// The variable that holds the settings, as JSON. The host fills it from its block `webSearch`.
pub(super) const VARIABLE: &str = "WEB_SEARCH";

/// The block `webSearch`. The host has checked it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) provider: Provider,
    /// Where the provider is, and for a template with `{query}` and `{count}`.
    #[serde(default)]
    pub(super) url: Option<String>,
    /// The name of the secret, which is also the variable with its placeholder.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// `Name: value` with `{key}`.
    #[serde(default)]
    pub(super) header: Option<String>,
    /// JSON with `{query}` and `{count}` in its texts: then it is a POST.
    #[serde(default)]
    pub(super) body: Option<String>,
    /// Where the list of results is in the answer: names with dots between them.
    #[serde(default)]
    pub(super) results: Option<String>,
    #[serde(default)]
    pub(super) fields: Fields,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Provider {
    Brave,
    Tavily,
    Searxng,
    Template,
}

/// Where title, address and snippet are in each result.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

impl Default for Fields {
    fn default() -> Self {
        let own = str::to_owned;
        Self {
            title: own("title"),
            url: own("url"),
            snippet: own("snippet"),
        }
    }
}

impl Settings {
    /// What the host has handed over.
    pub(super) fn of_host() -> Result<Self> {
        let Ok(text) = std::env::var(VARIABLE) else {
            return Err(Error::unavailable(
                "no search provider is set; `webSearch.provider` in .mimir/config.yml names one: brave, tavily, searxng or template",
            ));
        };
        serde_json::from_str(&text)
            .map_err(|error| Error::unavailable(format_args!("webSearch: {error}")))
    }

    /// What stands for the key until the host sends it.
    pub(super) fn placeholder(&self) -> Option<String> {
        std::env::var(self.key.as_ref()?).ok()
    }
}
