//! Settings of language models and their providers.
//!
//! Only settings written by a person determine where conversations and API keys are sent. Even a model on this machine
//! is used only if the settings name it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::name_suggestions::did_you_mean;
use crate::network::{RequestTarget, UrlScheme};
use crate::text::{prefix, visible};

/// A model provider. An entry with `url` or `api` replaces the whole entry of a weaker file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ProviderSettings {
    /// The API of the endpoint. Default: the API of the well-known provider with this name.
    pub api: Option<ProviderApi>,
    /// The base URL of the API. Default: the URL of the well-known provider. Required for a model on this machine.
    pub url: Option<String>,
    /// The name of the secret with the API key.
    pub key: Option<String>,
    /// Prices by model name. `*` applies to all other models.
    pub prices: BTreeMap<String, TokenPrice>,
    /// Models that read images, by model name: true or false. `*` applies to all other models. Default: known by the
    /// model's name; images are not sent to unknown models.
    pub vision: BTreeMap<String, bool>,
}

/// The API of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderApi {
    /// OpenAI's Chat Completions API, and compatible APIs.
    Openai,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Anthropic,
    /// The OpenAI-compatible API of Google's Gemini.
    Gemini,
    /// The OpenAI-compatible API of Ollama.
    Ollama,
}

/// The price of a million tokens, in dollars or any other currency. Use the same currency for all prices and limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TokenPrice {
    /// Price of input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Price of output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Price of input tokens that the provider reads from its cache. Default: the price of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    /// Price of input tokens that the provider writes to its cache. Default: 1.25 times the price of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

impl TokenPrice {
    /// Creates a price without own prices of cached tokens.
    pub const fn new(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cache_read: None,
            cache_write: None,
        }
    }

    /// Returns the price of a million tokens read from the provider's cache.
    pub fn cache_read(&self) -> f64 {
        self.cache_read.unwrap_or(self.input)
    }

    /// Returns the price of a million tokens written to the provider's cache.
    pub fn cache_write(&self) -> f64 {
        self.cache_write.unwrap_or(self.input * CACHE_WRITE_FACTOR)
    }
}

/// A model chosen from the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenModel {
    /// The name of the provider in the settings.
    pub provider: String,
    /// The name of the model at the provider.
    pub model: String,
    /// The API of the provider.
    pub api: ProviderApi,
    /// The base URL, with a trailing `/`.
    pub url: String,
    /// The name of the secret with the API key.
    pub key: Option<String>,
    /// The price, if known.
    pub price: Option<TokenPrice>,
    /// True if the model reads images; `None` if the settings do not say so.
    pub vision: Option<bool>,
}

/// Maximum length of a provider's name.
const NAME_MAX: usize = 40;

/// Maximum price of a million tokens.
const PRICE_MAX: f64 = 1e6;

/// Usual price of tokens that are written to a cache, relative to other input tokens.
const CACHE_WRITE_FACTOR: f64 = 1.25;

impl ProviderApi {
    /// All APIs.
    pub const ALL: [ProviderApi; 5] = [
        ProviderApi::Openai,
        ProviderApi::Responses,
        ProviderApi::Anthropic,
        ProviderApi::Gemini,
        ProviderApi::Ollama,
    ];

    /// Returns the spelling in the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            ProviderApi::Openai => "openai",
            ProviderApi::Responses => "responses",
            ProviderApi::Anthropic => "anthropic",
            ProviderApi::Gemini => "gemini",
            ProviderApi::Ollama => "ollama",
        }
    }

    /// Returns the base URL of the well-known provider and the default name of the secret. `None` for Ollama, which
    /// runs on a machine of the user's choice.
    const fn default_endpoint(self) -> Option<(&'static str, &'static str)> {
        match self {
            ProviderApi::Openai | ProviderApi::Responses => {
                Some(("https://api.openai.com/v1/", "OPENAI_API_KEY"))
            }
            ProviderApi::Anthropic => Some(("https://api.anthropic.com/v1/", "ANTHROPIC_API_KEY")),
            ProviderApi::Gemini => Some((
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                "GEMINI_API_KEY",
            )),
            ProviderApi::Ollama => None,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.as_str() == name)
    }
}

impl ProviderSettings {
    /// Merges the blocks of several files, the strongest last. A block with `url` or `api` replaces all blocks before
    /// it, so that the secret of one file is never sent to the address of another.
    pub fn merge<'a>(blocks: impl Iterator<Item = &'a Self>) -> Self {
        let mut merged = Self::default();
        for block in blocks {
            if block.url.is_some() || block.api.is_some() {
                merged = block.clone();
                continue;
            }
            if block.key.is_some() {
                merged.key.clone_from(&block.key);
            }
            let prices = block.prices.iter();
            merged
                .prices
                .extend(prices.map(|(model, price)| (model.clone(), *price)));
            let vision = block.vision.iter();
            merged
                .vision
                .extend(vision.map(|(model, reads)| (model.clone(), *reads)));
        }
        merged
    }

    /// Checks the entry. The error names the invalid key and the reason.
    pub fn check(&self, name: &str) -> Result<(), String> {
        self.resolve_endpoint(name).map(drop)
    }

    /// Returns the API, the base URL and the name of the secret.
    fn resolve_endpoint(
        &self,
        name: &str,
    ) -> Result<(ProviderApi, String, Option<String>), String> {
        let key_path = format!("providers.{}", visible(prefix(name, NAME_MAX)));
        let is_name_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name_char) {
            return Err(format!(
                "{key_path}: a provider's name must have 1 to {NAME_MAX} letters, digits, `_`, `-` and `.`"
            ));
        }
        for (model, price) in &self.prices {
            let is_valid = |number: f64| (0.0..=PRICE_MAX).contains(&number);
            let all = [
                price.input,
                price.output,
                price.cache_read(),
                price.cache_write(),
            ];
            if !all.into_iter().all(is_valid) {
                let model = visible(prefix(model, NAME_MAX));
                return Err(format!(
                    "{key_path}.prices.{model}: a price must be a number from 0 to {PRICE_MAX}, for a million tokens"
                ));
            }
        }
        let Some(api) = self.api.or_else(|| ProviderApi::from_name(name)) else {
            return Err(format!(
                "{key_path}.api is missing: set it to openai (if you are not sure), responses, anthropic, gemini or ollama"
            ));
        };
        let is_key_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        if let Some(key) = &self.key
            && (key.is_empty() || key.len() > 64 || !key.bytes().all(is_key_char))
        {
            return Err(format!(
                "{key_path}.key is not a valid name of a secret: use letters, digits and _; store the value itself with `mimir secrets set`"
            ));
        }
        let (url, key) = match (&self.url, api.default_endpoint()) {
            // The default secret is only sent to the default URL.
            (Some(url), _) => (url.as_str(), self.key.clone()),
            (None, Some((url, key))) => {
                let key = self.key.clone().unwrap_or_else(|| key.to_owned());
                (url, Some(key))
            }
            (None, None) => {
                return Err(format!(
                    "{key_path}.url is missing: set it to the base URL of the API, such as http://127.0.0.1:11434/v1/"
                ));
            }
        };
        let target =
            RequestTarget::parse(url).map_err(|error| format!("{key_path}.url: {error}"))?;
        let parsed = target.url();
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(format!(
                "{key_path}.url has a query or a fragment: give the base URL alone"
            ));
        }
        if let (Some(_), UrlScheme::Http) = (&key, target.scheme())
            && !target.host().is_this_machine()
        {
            return Err(format!(
                "{key_path}.url uses http, which would send the key unencrypted; use https"
            ));
        }
        let mut url = parsed.to_string();
        if !url.ends_with('/') {
            url.push('/');
        }
        Ok((api, url, key))
    }
}

impl Config {
    /// Resolves the requested model, or else the model of the settings, in the form `PROVIDER/MODEL`. The error
    /// explains which key to set.
    pub fn chosen_model(&self, requested: Option<&str>) -> Result<ChosenModel, String> {
        let Some(name) = requested.or(self.model.as_deref()) else {
            return Err(
                "no model is set; write `model: PROVIDER/MODEL` into the settings, such as `model: anthropic/NAME`, or use --model".to_owned(),
            );
        };
        let shown = visible(prefix(name, 80));
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.trim().is_empty() => {
                (provider, model)
            }
            _ => {
                return Err(format!(
                    "`{shown}` is not a valid model: expected PROVIDER/MODEL, such as anthropic/NAME"
                ));
            }
        };
        let settings = self.providers.get(provider).cloned();
        let settings = match settings {
            Some(settings) => settings,
            None if ProviderApi::from_name(provider).is_some() => ProviderSettings::default(),
            None => {
                let known = self.providers.keys().map(String::as_str);
                let known = known.chain(ProviderApi::ALL.map(ProviderApi::as_str));
                let suggestion = did_you_mean(provider, known);
                let provider = visible(prefix(provider, NAME_MAX));
                return Err(format!(
                    "unknown provider `{provider}`.{suggestion} The settings define one under `providers.{provider}`"
                ));
            }
        };
        let (api, url, key) = settings.resolve_endpoint(provider)?;
        let price = settings.prices.get(model).or(settings.prices.get("*"));
        let vision = settings.vision.get(model).or(settings.vision.get("*"));
        Ok(ChosenModel {
            provider: provider.to_owned(),
            model: model.to_owned(),
            api,
            url,
            key,
            price: price.copied(),
            vision: vision.copied(),
        })
    }

    /// Collects the keys about models that differ from the weaker files, because conversations would be sent elsewhere.
    pub(super) fn collect_model_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        if let Some(model) = self.model.as_ref().filter(|_| self.model != below.model) {
            keys.push(format!("model: {}", visible(prefix(model, 80))));
        }
        for (name, provider) in &self.providers {
            if below.providers.get(name) != Some(provider) {
                keys.push(format!("providers.{}", visible(prefix(name, NAME_MAX))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(value: serde_json::Value) -> Config {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn model_well_known_provider_needs_no_settings() {
        let config = config(json!({"model": "anthropic/some/model"}));
        let chosen = config.chosen_model(None).unwrap();
        assert_eq!(
            (chosen.api, chosen.model.as_str()),
            (ProviderApi::Anthropic, "some/model")
        );
        assert_eq!(chosen.key.as_deref(), Some("ANTHROPIC_API_KEY"));
        assert!(chosen.url.starts_with("https://") && chosen.url.ends_with("/v1/"));
        let other = config.chosen_model(Some("openai/x")).unwrap();
        assert_eq!(other.key.as_deref(), Some("OPENAI_API_KEY"));
    }

    #[test]
    fn model_provider_with_another_url_gets_no_default_key() {
        let config = config(json!({"providers": {"openai": {"url": "https://other.example/v1"}}}));
        let chosen = config.chosen_model(Some("openai/x")).unwrap();
        assert_eq!(
            (chosen.url.as_str(), chosen.key),
            ("https://other.example/v1/", None)
        );
    }

    #[test]
    fn model_provider_key_is_not_combined_with_another_url() {
        let block = |value| serde_json::from_value::<ProviderSettings>(value).unwrap();
        let user = block(json!({"api": "openai", "url": "https://mine.example", "key": "MINE"}));
        let other = block(json!({"url": "https://theirs.example"}));
        let with_api = block(json!({"api": "anthropic"}));
        let prices = block(json!({"prices": {"m": {"input": 1, "output": 2}}}));
        for replacing in [&other, &with_api] {
            let merged = ProviderSettings::merge([&user, replacing].into_iter());
            assert_eq!(&merged, replacing);
        }
        let merged = ProviderSettings::merge([&user, &prices].into_iter());
        assert_eq!((merged.url, merged.key), (user.url, user.key));
        assert_eq!(merged.prices.len(), 1);
    }

    #[test]
    fn model_settings_errors_name_the_key_but_no_secret() {
        for (providers, model, words) in [
            (json!({}), "x", "PROVIDER/MODEL"),
            (json!({}), "/x", "PROVIDER/MODEL"),
            (json!({}), "anthropc/x", "`anthropic`"),
            (json!({}), "ollama/x", "providers.ollama.url is missing"),
            (
                json!({"mine": {"url": "https://h.example"}}),
                "mine/x",
                "providers.mine.api",
            ),
            (
                json!({"mine": {"api": "openai", "url": "ftp://h"}}),
                "mine/x",
                "providers.mine.url",
            ),
            (
                json!({"mine": {"api": "openai", "url": "http://h.example/v1", "key": "K"}}),
                "mine/x",
                "unencrypted",
            ),
            (
                json!({"openai": {"key": "sk-something secret"}}),
                "openai/x",
                "secrets set",
            ),
            (
                json!({"openai": {"prices": {"x": {"input": -1, "output": 0}}}}),
                "openai/x",
                "providers.openai.prices.x",
            ),
        ] {
            let config = config(json!({ "providers": providers }));
            let error = config.chosen_model(Some(model)).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("sk-something"), "{error}");
        }
        assert!(
            config(json!({}))
                .chosen_model(None)
                .unwrap_err()
                .contains("model:")
        );
    }

    #[test]
    fn model_provider_on_loopback_accepts_http_and_has_prices() {
        let config = config(json!({
            "model": "local/m",
            "providers": {"local": {"api": "openai", "url": "http://127.0.0.1:1/v1", "key": "K",
                "prices": {"m": {"input": 1, "output": 2}, "*": {"input": 9, "output": 9}}}},
        }));
        let chosen = config.chosen_model(None).unwrap();
        assert_eq!(chosen.price, Some(TokenPrice::new(1.0, 2.0)));
        let other = config.chosen_model(Some("local/other")).unwrap();
        assert_eq!(other.price.map(|price| price.input), Some(9.0));
    }
}
