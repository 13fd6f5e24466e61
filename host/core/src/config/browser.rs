//! Settings of the browser tools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{OutOfRangeError, limits};
use crate::network::HostPattern;

/// The browser of the browser tools. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct BrowserSettings {
    /// Lists the browser tools for models. Default: they are found by tool search.
    pub list_tools: bool,
    /// The path of the browser: Chromium or one that is made of it. Default: an installed one.
    pub program: Option<String>,
    /// The name of a profile that keeps cookies and logins. Default: a profile in memory, forgotten with the browser.
    pub profile: Option<String>,
    /// Seconds without calls after which the browser is stopped. Default: 600.
    #[schemars(range(min = 1, max = 86_400))]
    pub idle_seconds: Option<u64>,
    /// Width of the window in pixels. Default: 1280.
    #[schemars(range(min = 200, max = 8000))]
    pub width: Option<u64>,
    /// Height of the window in pixels. Default: 800.
    #[schemars(range(min = 200, max = 8000))]
    pub height: Option<u64>,
    /// Maximum memory of the browser and its pages, in MiB.
    #[schemars(range(min = 256))]
    pub max_memory_mb: Option<u64>,
    /// The stored secrets that may be entered into pages, each with the hosts for which that is allowed.
    pub secrets: BTreeMap<String, Vec<String>>,
}

const IDLE_SECONDS: (u64, u64) = (1, 86_400);
const PIXELS: (u64, u64) = (200, 8000);
const MEMORY_MB: (u64, u64) = (256, 1 << 24);

/// Default time without calls in seconds: a person may think for a while between two steps.
const DEFAULT_IDLE_SECONDS: u64 = 600;

/// Maximum length of a profile's name.
const PROFILE_MAX: usize = 64;

impl BrowserSettings {
    /// Validates the block. The error names the key and the reason.
    pub fn check(&self) -> Result<(), String> {
        let range = |key: &str, value, range| {
            let checked: Result<(), OutOfRangeError> =
                limits::check(|| format!("browser.{key}"), value, range);
            checked.map_err(|error| error.to_string())
        };
        range("idleSeconds", self.idle_seconds, IDLE_SECONDS)?;
        range("width", self.width, PIXELS)?;
        range("height", self.height, PIXELS)?;
        range("maxMemoryMb", self.max_memory_mb, MEMORY_MB)?;
        if let Some(name) = &self.profile {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if name.is_empty() || name.len() > PROFILE_MAX || !name.bytes().all(is_safe) {
                return Err(format!(
                    "browser.profile: `{}` is not valid: use 1 to {PROFILE_MAX} letters, digits, - and _",
                    crate::text::visible(name)
                ));
            }
        }
        if self
            .program
            .as_ref()
            .is_some_and(|path| !std::path::Path::new(path).is_absolute())
        {
            return Err("browser.program: use an absolute path".to_owned());
        }
        self.secret_hosts().map(drop)
    }

    /// Returns the secrets that may be entered into pages, each with the hosts for which that is allowed.
    ///
    /// # Errors
    ///
    /// Fails for a host pattern that is not valid, and for a pattern that matches every host, or every host of a
    /// top-level domain.
    pub fn secret_hosts(&self) -> Result<Vec<(String, Vec<HostPattern>)>, String> {
        let secrets = self.secrets.iter().map(|(name, hosts)| {
            let hosts = hosts.iter().map(|host| {
                if host == "*" {
                    return Err(format!(
                        "browser.secrets.{name}: name the hosts; `*` is not supported"
                    ));
                }
                let pattern = host
                    .parse::<HostPattern>()
                    .map_err(|error| format!("browser.secrets.{name}: {error}"))?;
                if pattern.is_below_top_level_domain() {
                    return Err(format!(
                        "browser.secrets.{name}: `{host}` includes the sites of strangers; name the site, such as `*.example.com`"
                    ));
                }
                Ok(pattern)
            });
            Ok((name.clone(), hosts.collect::<Result<Vec<_>, String>>()?))
        });
        secrets.collect()
    }

    /// Returns the time in seconds without calls after which the browser is stopped.
    pub fn idle_seconds(&self) -> u64 {
        self.idle_seconds.unwrap_or(DEFAULT_IDLE_SECONDS)
    }

    /// Returns width and height of the window in pixels.
    pub fn window(&self) -> (u32, u32) {
        let pixels = |value: Option<u64>, default| value.map_or(default, |value| value as u32);
        (pixels(self.width, 1280), pixels(self.height, 800))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: serde_json::Value) -> Result<(), String> {
        serde_json::from_value::<BrowserSettings>(yaml)
            .unwrap()
            .check()
    }

    #[test]
    fn browser_settings_are_checked() {
        use serde_json::json;
        check(json!({"profile": "work_1", "program": "/usr/bin/chromium", "width": 200})).unwrap();
        check(json!({"secrets": {"PASSWORD": ["https://shop.example"]}})).unwrap();
        check(json!({"secrets": {"PASSWORD": ["*.shop.example", "localhost"]}})).unwrap();
        for (bad, says) in [
            (json!({"profile": "../x"}), "browser.profile"),
            (json!({"program": "chromium"}), "absolute path"),
            (json!({"width": 10}), "browser.width"),
            (json!({"idleSeconds": 0}), "browser.idleSeconds"),
            (
                json!({"secrets": {"PASSWORD": ["*"]}}),
                "browser.secrets.PASSWORD",
            ),
            (
                json!({"secrets": {"PASSWORD": ["*.com"]}}),
                "includes the sites of strangers",
            ),
            (
                json!({"secrets": {"PASSWORD": ["https://*.co:443"]}}),
                "includes the sites of strangers",
            ),
            (
                json!({"secrets": {"PASSWORD": ["a b"]}}),
                "browser.secrets.PASSWORD",
            ),
        ] {
            let error = check(bad.clone()).unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }
}
