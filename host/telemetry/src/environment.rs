//! The standard environment variables of OpenTelemetry that mimir supports.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Settings from environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtelVariables {
    /// True if `OTEL_SDK_DISABLED` is `true`.
    pub disabled: bool,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: BTreeMap<String, String>,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub attributes: BTreeMap<String, String>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds.
    pub interval_ms: Option<u64>,
    /// The signals whose exporter is set to `none`: `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`,
    /// `OTEL_LOGS_EXPORTER`.
    pub off: Vec<&'static str>,
    /// The faults of variables, one line each.
    pub problems: Vec<String>,
}

impl OtelVariables {
    /// Reads the variables. Empty ones count as unset.
    ///
    /// ```
    /// let variables = mimir_telemetry::OtelVariables::read(|name| match name {
    ///     "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4318".to_owned()),
    ///     "OTEL_RESOURCE_ATTRIBUTES" => Some("team=a%2Cb, zone=eu".to_owned()),
    ///     _ => None,
    /// });
    /// assert_eq!(variables.endpoint.as_deref(), Some("http://127.0.0.1:4318"));
    /// assert_eq!(variables.attributes["team"], "a,b");
    /// ```
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let mut problems = Vec::new();
        let mut pairs = |name: &str| match variable(name).map(|text| parse_pairs(&text)) {
            Some(Some(pairs)) => pairs,
            Some(None) => {
                problems.push(format!("{name} is ignored: expected NAME=VALUE,NAME=VALUE"));
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        };
        let headers = pairs("OTEL_EXPORTER_OTLP_HEADERS");
        let attributes = pairs("OTEL_RESOURCE_ATTRIBUTES");
        let interval = variable("OTEL_METRIC_EXPORT_INTERVAL").map(|text| text.trim().parse());
        if matches!(interval, Some(Err(_))) {
            problems
                .push("OTEL_METRIC_EXPORT_INTERVAL is ignored: expected milliseconds".to_owned());
        }
        if variable("OTEL_EXPORTER_OTLP_PROTOCOL").is_some_and(|name| name.trim() == "grpc") {
            problems.push(
                "OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported, JSON over HTTP is sent; set the endpoint to the \
                 HTTP port of the collector, usually 4318"
                    .to_owned(),
            );
        }
        let off = [
            ("traces", "OTEL_TRACES_EXPORTER"),
            ("metrics", "OTEL_METRICS_EXPORTER"),
            ("logs", "OTEL_LOGS_EXPORTER"),
        ];
        let is_off = |name: &str| variable(name).is_some_and(|value| value.trim() == "none");
        let off = off.into_iter().filter(|(_, name)| is_off(name));
        Self {
            disabled: variable("OTEL_SDK_DISABLED")
                .is_some_and(|value| value.trim().eq_ignore_ascii_case("true")),
            endpoint: variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| url.trim().to_owned()),
            headers,
            service_name: variable("OTEL_SERVICE_NAME"),
            attributes,
            interval_ms: interval.and_then(Result::ok),
            off: off.map(|(signal, _)| signal).collect(),
            problems,
        }
    }
}

/// Parses a list as in the header `baggage`: pairs with percent-encoded values. `None` if it is not valid.
fn parse_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            let name = name.trim();
            (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> OtelVariables {
        OtelVariables::read(|name| {
            let mut all = set.iter();
            all.find_map(|(known, value)| (*known == name).then(|| (*value).to_owned()))
        })
    }

    #[test]
    fn otel_variables_are_read_and_wrong_ones_reported() {
        assert_eq!(
            read(&[("OTEL_SERVICE_NAME", " ")]),
            OtelVariables::default()
        );
        let all = read(&[
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,x=1"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
            ("OTEL_LOGS_EXPORTER", "none"),
        ]);
        assert!(all.disabled);
        assert_eq!(all.headers["api-key"], "a b");
        assert_eq!((all.interval_ms, &all.off[..]), (Some(5000), &["logs"][..]));
        let wrong = read(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret-value"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]);
        assert_eq!(wrong.problems.len(), 3, "{:?}", wrong.problems);
        assert!(!wrong.problems.join(" ").contains("secret-value"));
    }
}
