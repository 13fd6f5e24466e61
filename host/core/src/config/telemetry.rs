//! Settings of telemetry and alarms: where they are sent. The settings of a project must not send them elsewhere.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::network::{HostPattern, RequestTarget};

/// Export of traces, metrics and logs to an OpenTelemetry collector. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TelemetrySettings {
    /// The URL of the collector's OTLP/HTTP port without `/v1/traces`, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Headers of each request. `${NAME}` is replaced by the secret `NAME`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The exported signals. Logs are summaries of audit events, and warnings of mimir itself.
    #[serde(default = "default_signals")]
    pub signals: Vec<TelemetrySignal>,
    /// Time between two exports of metrics, in milliseconds.
    #[serde(default)]
    #[schemars(range(min = 1000, max = 3_600_000))]
    pub interval_ms: Option<u64>,
    /// Share of traces that are exported, from 0 to 1. Traces that a client has begun keep the client's choice.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub sample_ratio: Option<f64>,
    /// Resource attributes, such as `deployment.environment.name: production`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Hosts to which requests of tools carry the trace context of the call (`traceparent`), unless the tool sets one.
    #[serde(default)]
    pub propagate_to: Vec<HostPattern>,
}

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TelemetrySignal {
    /// Spans of calls.
    Traces,
    /// Counters and histograms.
    Metrics,
    /// Log records.
    Logs,
}

/// Alarms about canary secrets. The block replaces the whole block of a weaker file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AlertSettings {
    /// The URL to which alarms are posted as JSON.
    pub webhook: String,
    /// Headers of each request. `${NAME}` is replaced by the secret `NAME`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The range of the time between two exports of metrics, in milliseconds.
const INTERVAL_RANGE: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

/// Maximum number of headers and of resource attributes, and maximum length of a value.
const MAX_PAIRS: usize = 64;
const MAX_VALUE_LENGTH: usize = 1024;

fn default_signals() -> Vec<TelemetrySignal> {
    vec![TelemetrySignal::Traces, TelemetrySignal::Metrics]
}

impl TelemetrySettings {
    /// Creates settings with default values for an endpoint.
    pub fn new(endpoint: String) -> Self {
        Self {
            endpoint,
            headers: BTreeMap::new(),
            signals: default_signals(),
            interval_ms: None,
            sample_ratio: None,
            attributes: BTreeMap::new(),
            propagate_to: Vec::new(),
        }
    }

    /// Validates the block. The error names the invalid key and the reason.
    pub fn check(&self) -> Result<(), String> {
        check_url("telemetry.endpoint", &self.endpoint)?;
        if self.endpoint.contains(['?', '#']) {
            return Err(
                "telemetry.endpoint must not have a query or a fragment: `/v1/traces` is appended to it"
                    .to_owned(),
            );
        }
        check_headers("telemetry.headers", &self.headers)?;
        if let Some(interval) = self.interval_ms
            && !INTERVAL_RANGE.contains(&interval)
        {
            return Err(format!(
                "telemetry.intervalMs: {interval} is out of range: expected {} to {}",
                INTERVAL_RANGE.start(),
                INTERVAL_RANGE.end()
            ));
        }
        if let Some(ratio) = self.sample_ratio
            && !(0.0..=1.0).contains(&ratio)
        {
            return Err(format!(
                "telemetry.sampleRatio: {ratio} is out of range: expected 0 to 1"
            ));
        }
        let is_valid =
            |text: &str| text.len() <= MAX_VALUE_LENGTH && !text.contains(char::is_control);
        let mut attributes = self.attributes.iter();
        if self.attributes.len() > MAX_PAIRS
            || !attributes
                .all(|(name, value)| !name.is_empty() && is_valid(name) && is_valid(value))
        {
            return Err(format!(
                "telemetry.attributes: expected at most {MAX_PAIRS} attributes, each of at most {MAX_VALUE_LENGTH} bytes \
                 without control characters"
            ));
        }
        Ok(())
    }
}

impl AlertSettings {
    /// Validates the block. The error names the invalid key and the reason.
    pub fn check(&self) -> Result<(), String> {
        check_url("alerts.webhook", &self.webhook)?;
        check_headers("alerts.headers", &self.headers)
    }
}

fn check_url(key: &str, url: &str) -> Result<(), String> {
    RequestTarget::parse(url)
        .map(|_| ())
        .map_err(|error| format!("{key}: {error}"))
}

/// Checks names and values. The error does not quote a value, which may be a secret.
fn check_headers(key: &str, headers: &BTreeMap<String, String>) -> Result<(), String> {
    if headers.len() > MAX_PAIRS {
        return Err(format!("{key}: expected at most {MAX_PAIRS} headers"));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for (name, value) in headers {
        let shown = crate::text::visible(crate::text::prefix(name, 64));
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!("{key}: `{shown}` is not a valid header name"));
        }
        let reserved = [
            "host",
            "content-type",
            "content-length",
            "transfer-encoding",
        ];
        if reserved.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!(
                "{key}: `{shown}` is set by mimir and cannot be replaced"
            ));
        }
        if value.len() > MAX_VALUE_LENGTH || !value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        {
            return Err(format!(
                "{key}: the value of `{shown}` is not valid: expected at most {MAX_VALUE_LENGTH} printable ASCII characters"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(block: Value) -> Result<(), String> {
        let settings: TelemetrySettings =
            serde_json::from_value(block).map_err(|error| error.to_string())?;
        settings.check()
    }

    #[test]
    fn telemetry_settings_are_checked() {
        let url = "http://127.0.0.1:4318";
        let valid = json!({
            "endpoint": url, "headers": {"Authorization": "Bearer ${TOKEN}"}, "signals": ["logs"],
            "intervalMs": 1000, "sampleRatio": 0.5, "attributes": {"deployment.environment.name": "test"},
            "propagateTo": ["api.example.com", "*.internal.example:8443"],
        });
        assert_eq!(check(valid), Ok(()));
        for (block, words) in [
            (json!({}), "missing field `endpoint`"),
            (json!({"endpoint": "collector"}), "telemetry.endpoint"),
            (json!({"endpoint": "ftp://a.example"}), "telemetry.endpoint"),
            (
                json!({"endpoint": "http://a.example/?x"}),
                "a query or a fragment",
            ),
            (
                json!({"endpoint": url, "signals": ["profiles"]}),
                "unknown variant",
            ),
            (
                json!({"endpoint": url, "intervalMs": 10}),
                "expected 1000 to 3600000",
            ),
            (
                json!({"endpoint": url, "sampleRatio": 2}),
                "expected 0 to 1",
            ),
            (
                json!({"endpoint": url, "headers": {"a b": "x"}}),
                "not a valid header name",
            ),
            (
                json!({"endpoint": url, "headers": {"Host": "x"}}),
                "set by mimir",
            ),
            (
                json!({"endpoint": url, "headers": {"a": "x\ny"}}),
                "printable ASCII",
            ),
            (
                json!({"endpoint": url, "attributes": {"a": "x\ny"}}),
                "control characters",
            ),
            (json!({"endpoint": url, "propagateTo": ["a b"]}), ""),
            (json!({"endpoint": url, "token": "x"}), "unknown field"),
        ] {
            let error = check(block.clone()).unwrap_err();
            assert!(error.contains(words), "{block}: {error}");
        }
    }

    #[test]
    fn alert_settings_are_checked() {
        let check = |block: Value| {
            let settings: AlertSettings =
                serde_json::from_value(block).map_err(|error| error.to_string())?;
            settings.check()
        };
        assert_eq!(
            check(json!({"webhook": "https://hooks.example/x?y=1"})),
            Ok(())
        );
        let error = check(json!({"webhook": "hooks.example"})).unwrap_err();
        assert!(error.contains("alerts.webhook"), "{error}");
        let error = check(json!({"webhook": "https://a.example", "headers": {"": "secret"}}));
        assert!(!error.unwrap_err().contains("secret"));
    }
}
