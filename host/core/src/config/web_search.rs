//! Settings of web searches, and the resulting needs of `web_search`.
//!
//! The component of `web_search` builds the requests, but only the settings written by a person determine their host
//! and secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::needs::{HostNeed, SecretNeed};
use crate::network::RequestTarget;
use crate::tool::{Tool, ToolSource};

/// The provider of web searches. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebSearchSettings {
    /// `brave`, `tavily`, `searxng`, or `template` for any other provider that responds with JSON.
    pub provider: WebSearchProvider,
    /// The URL of a SearXNG instance, or the URL template with `{query}` and `{count}` (number of results).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of the secret with the API key, as stored by `mimir secrets set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The header with the API key, such as `X-API-Key: {key}`. Default: `Authorization: Bearer {key}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// For `template`: the JSON body of a POST request, with `{query}` and `{count}` in its strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// For `template`: the path of the result list in the response, as names joined by dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
    /// For `template`: the paths of title, URL and snippet in each result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<WebSearchFields>,
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebSearchProvider {
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// A SearXNG instance, possibly on this machine.
    Searxng,
    /// Any other provider, with a template.
    Template,
}

/// The paths of the fields of a result, as names joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchFields {
    /// The title.
    pub title: String,
    /// The URL.
    pub url: String,
    /// The snippet.
    pub snippet: String,
}

impl Default for WebSearchFields {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            title: text("title"),
            url: text("url"),
            snippet: text("snippet"),
        }
    }
}

/// The variable with which a tool requests the search provider. Its value is the block as JSON.
pub const SEARCH_VARIABLE: &str = "WEB_SEARCH";

/// A validated search provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSearchEndpoint {
    /// The block as JSON.
    pub settings: String,
    /// The host.
    pub host: HostNeed,
    /// The API key.
    pub secret: Option<SecretNeed>,
}

impl WebSearchProvider {
    /// Returns the URL of a provider with a fixed URL.
    const fn fixed_url(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Searxng | Self::Template => None,
        }
    }

    /// Returns the default header with the API key.
    const fn default_header(self) -> &'static str {
        match self {
            Self::Brave => "X-Subscription-Token: {key}",
            Self::Tavily | Self::Searxng | Self::Template => "Authorization: Bearer {key}",
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Searxng => "searxng",
            Self::Template => "template",
        }
    }
}

impl WebSearchSettings {
    /// Validates the block. The error names the invalid key and the reason.
    pub fn check(&self) -> Result<WebSearchEndpoint, String> {
        self.check_keys()?;
        let target = self.parse_target()?;
        let origin = target.origin().to_string();
        let posts = self.body.is_some() || self.provider == WebSearchProvider::Tavily;
        let secret = match &self.key {
            None => None,
            Some(name) => Some(SecretNeed {
                name: name.clone(),
                host: origin.clone(),
                header: self.header_name()?,
                reason: "to authenticate".to_owned(),
            }),
        };
        let method = if posts { "POST" } else { "GET" };
        Ok(WebSearchEndpoint {
            settings: serde_json::to_string(self).map_err(|error| error.to_string())?,
            secret,
            host: HostNeed {
                host: origin,
                methods: vec![method.to_owned()],
                reason: format!("to search by {}", self.provider.as_str()),
            },
        })
    }

    /// Checks that the provider supports the keys.
    fn check_keys(&self) -> Result<(), String> {
        let provider = self.provider.as_str();
        let has_fixed_url = self.provider.fixed_url().is_some();
        let is_template = self.provider == WebSearchProvider::Template;
        for (key, is_set, is_supported) in [
            ("url", self.url.is_some(), !has_fixed_url),
            ("header", self.header.is_some(), !has_fixed_url),
            ("body", self.body.is_some(), is_template),
            ("results", self.results.is_some(), is_template),
            ("fields", self.fields.is_some(), is_template),
        ] {
            if is_set && !is_supported {
                return Err(format!(
                    "webSearch.{key} is not supported by {provider}; remove it"
                ));
            }
        }
        match &self.key {
            None if has_fixed_url => Err(format!(
                "webSearch.key is missing: {provider} requires a key; store it with `mimir secrets set NAME`, and write NAME here"
            )),
            None if self.header.is_some() => Err(
                "webSearch.header is only used with an API key; name its secret in webSearch.key"
                    .to_owned(),
            ),
            Some(name) if !is_secret_name(name) => Err(format!(
                "webSearch.key: `{}` is not a valid name of a secret: use letters, digits and _; store the value itself with `mimir secrets set`",
                crate::text::visible(crate::text::prefix(name, 8))
            )),
            _ => Ok(()),
        }
    }

    /// Parses the target of the requests.
    fn parse_target(&self) -> Result<RequestTarget, String> {
        let written = match (self.provider.fixed_url(), &self.url) {
            (Some(fixed_url), _) => fixed_url,
            (None, Some(url)) => url,
            (None, None) => {
                let provider = self.provider.as_str();
                return Err(format!(
                    "webSearch.url is missing: {provider} has no default address"
                ));
            }
        };
        if self.provider == WebSearchProvider::Template {
            let body = self.body.as_deref().unwrap_or_default();
            if !written.contains("{query}") && !body.contains("{query}") {
                return Err("webSearch.url or webSearch.body must contain {query}".to_owned());
            }
            if self.body.is_some() {
                serde_json::from_str::<serde_json::Value>(body)
                    .map_err(|error| format!("webSearch.body is not valid JSON: {error}"))?;
            }
        }
        // The query must not choose the host.
        let parse_with = |word| {
            let text = written.replace("{query}", word).replace("{count}", "1");
            RequestTarget::parse(&text).map_err(|error| format!("webSearch.url: {error}"))
        };
        let (target, with_other_query) = (parse_with("a")?, parse_with("b")?);
        if target.origin() != with_other_query.origin() {
            return Err("webSearch.url: {query} must not be part of the host".to_owned());
        }
        Ok(target)
    }

    /// Returns the name of the header with the API key.
    fn header_name(&self) -> Result<String, String> {
        let line = self
            .header
            .as_deref()
            .unwrap_or(self.provider.default_header());
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let name = name.trim();
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let is_valid = !name.is_empty() && name.chars().all(is_name_char);
        if !is_valid || !value.contains("{key}") || value.chars().any(char::is_control) {
            return Err("webSearch.header is not of the form `X-API-Key: {key}`".to_owned());
        }
        Ok(name.to_owned())
    }
}

/// Returns true if `name` is a valid name of a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let has_valid_chars = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    has_valid_start && has_valid_chars && name != SEARCH_VARIABLE
}

impl WebSearchEndpoint {
    /// Sets the host and the secret of a built-in tool that uses the provider. Other tools declare hosts themselves.
    pub fn add_needs_to(&self, tool: &mut Tool) {
        if !uses_web_search(tool) {
            return;
        }
        for needs in [&mut tool.definition.needs, &mut tool.granted] {
            needs.hosts = vec![self.host.clone()];
            needs.secrets = self.secret.iter().cloned().collect();
        }
    }
}

/// Returns true for built-in tools that use the search provider.
pub(crate) fn uses_web_search(tool: &Tool) -> bool {
    let mut variables = tool.definition.needs.variables.iter();
    tool.source == ToolSource::BuiltIn && variables.any(|name| name == SEARCH_VARIABLE)
}

impl Config {
    /// Returns the search provider, if a valid one is set.
    pub fn web_search(&self) -> Option<WebSearchEndpoint> {
        self.web_search.as_ref()?.check().ok()
    }

    /// Adds the needs of the settings to the tools: the host and the secret of the search provider, or of the
    /// embeddings endpoint.
    pub fn add_configured_needs(&self, tools: &mut [Tool]) {
        if let Some(search) = self.web_search() {
            tools.iter_mut().for_each(|tool| search.add_needs_to(tool));
        }
        if let Some(embeddings) = self.embeddings() {
            tools
                .iter_mut()
                .for_each(|tool| embeddings.add_needs_to(tool));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(block: Value) -> Result<WebSearchEndpoint, String> {
        let settings: WebSearchSettings =
            serde_json::from_value(block).map_err(|error| error.to_string())?;
        settings.check()
    }

    #[test]
    fn web_search_provider_yields_one_host_and_one_header() {
        for (block, host, method, header) in [
            (
                json!({"provider": "brave", "key": "BRAVE_KEY"}),
                "https://api.search.brave.com",
                "GET",
                Some("X-Subscription-Token"),
            ),
            (
                json!({"provider": "tavily", "key": "TAVILY_KEY"}),
                "https://api.tavily.com",
                "POST",
                Some("Authorization"),
            ),
            (
                json!({"provider": "searxng", "url": "http://LOCALHOST:8888"}),
                "http://localhost:8888",
                "GET",
                None,
            ),
            (
                json!({"provider": "template", "url": "https://s.example/find?q={query}&n={count}",
                    "key": "K", "header": "X-Key: {key}", "results": "a.b", "fields": {"url": "link"}}),
                "https://s.example",
                "GET",
                Some("X-Key"),
            ),
            (
                json!({"provider": "template", "url": "https://s.example/", "body": "{\"q\": \"{query}\"}"}),
                "https://s.example",
                "POST",
                None,
            ),
        ] {
            let search = check(block.clone()).unwrap();
            assert_eq!(search.host.host, host, "{block}");
            assert_eq!(search.host.methods, [method], "{block}");
            assert!(search.host.pattern().is_ok(), "{block}");
            let secret = search.secret.as_ref();
            assert_eq!(secret.map(|need| need.header.as_str()), header, "{block}");
            assert!(secret.is_none_or(|need| need.host == host), "{block}");
        }
    }

    #[test]
    fn web_search_invalid_settings_are_rejected_with_a_reason() {
        for (block, words) in [
            (json!({"provider": "bing"}), "unknown variant `bing`"),
            (json!({"provider": "brave"}), "webSearch.key is missing"),
            (
                json!({"provider": "brave", "key": "BSA-0123 4"}),
                "is not a valid name of a secret",
            ),
            (
                json!({"provider": "brave", "key": "WEB_SEARCH"}),
                "is not a valid name of a secret",
            ),
            (
                json!({"provider": "brave", "key": "K", "url": "https://evil.example"}),
                "webSearch.url is not supported by brave",
            ),
            (
                json!({"provider": "searxng", "url": "https://a.example", "results": "x"}),
                "webSearch.results is not supported by searxng",
            ),
            (json!({"provider": "searxng"}), "webSearch.url is missing"),
            (
                json!({"provider": "searxng", "url": "ftp://a.example"}),
                "webSearch.url: `ftp` URLs",
            ),
            (
                json!({"provider": "template", "url": "https://a.example"}),
                "must contain {query}",
            ),
            (
                json!({"provider": "template", "url": "https://{query}.example/"}),
                "must not be part of the host",
            ),
            (
                json!({"provider": "template", "url": "https://a.example/", "body": "{query}"}),
                "is not valid JSON",
            ),
            (
                json!({"provider": "template", "url": "https://a.example/{query}", "header": "X: {key}"}),
                "name its secret in webSearch.key",
            ),
            (
                json!({"provider": "template", "url": "https://a.example/{query}", "key": "K", "header": "X-Key"}),
                "not of the form",
            ),
            (json!({"provider": "brave", "secret": "K"}), "unknown field"),
        ] {
            let error = check(block.clone()).unwrap_err();
            assert!(error.contains(words), "{block}: {error}");
        }
    }
}
