//! The bodies of requests to a collector.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::attributes::{AttributeValue, Attributes, key_value};
use crate::instruments::InstrumentKind;
use crate::log_record::LogRecord;
use crate::metric_store::{MetricSeries, MetricSnapshot, SeriesValue};
use crate::span::{Span, nanos};

/// Attributes of the process that sends telemetry.
#[derive(Debug, Clone, Default)]
pub struct TelemetryResource(pub Attributes);

/// Temporality of sums and histograms: since the start of the process.
const CUMULATIVE: u8 = 2;

impl TelemetryResource {
    /// Returns the body of a request to `/v1/traces`.
    pub(crate) fn traces(&self, spans: &[Span]) -> Vec<u8> {
        let spans: Value = spans.iter().map(Span::to_json).collect();
        let scope = json!({ "scope": scope(), "spans": spans });
        body(json!({ "resourceSpans": [{ "resource": self.to_json(), "scopeSpans": [scope] }] }))
    }

    /// Returns the body of a request to `/v1/logs`.
    pub(crate) fn logs(&self, records: &[LogRecord]) -> Vec<u8> {
        let records: Value = records.iter().map(LogRecord::to_json).collect();
        let scope = json!({ "scope": scope(), "logRecords": records });
        body(json!({ "resourceLogs": [{ "resource": self.to_json(), "scopeLogs": [scope] }] }))
    }

    /// Returns the body of a request to `/v1/metrics`.
    pub(crate) fn metrics(
        &self,
        snapshots: &[MetricSnapshot],
        started: SystemTime,
        now: SystemTime,
    ) -> Vec<u8> {
        let times = (nanos(started), nanos(now));
        let metrics: Value = snapshots
            .iter()
            .map(|snapshot| metric(snapshot, &times))
            .collect();
        let scope = json!({ "scope": scope(), "metrics": metrics });
        body(
            json!({ "resourceMetrics": [{ "resource": self.to_json(), "scopeMetrics": [scope] }] }),
        )
    }

    fn to_json(&self) -> Value {
        json!({ "attributes": self.0.to_json() })
    }
}

fn scope() -> Value {
    json!({ "name": "mimir", "version": env!("CARGO_PKG_VERSION") })
}

fn body(value: Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn metric(snapshot: &MetricSnapshot, times: &(String, String)) -> Value {
    let definition = snapshot.instrument.definition();
    let series = snapshot.series.iter();
    let points: Value = series.map(|series| data_point(series, times)).collect();
    let mut metric = json!({
        "name": definition.name,
        "description": definition.help,
        "unit": definition.unit,
    });
    match definition.kind {
        InstrumentKind::Counter => {
            metric["sum"] = json!({
                "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
            });
        }
        InstrumentKind::Gauge => metric["gauge"] = json!({ "dataPoints": points }),
        InstrumentKind::Histogram(_) => {
            metric["histogram"] =
                json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
        }
    }
    metric
}

fn data_point(series: &MetricSeries, (started, now): &(String, String)) -> Value {
    let attributes: Value = series
        .attributes
        .iter()
        .map(|(attribute, text)| key_value(attribute.name(), &AttributeValue::Text(text.clone())))
        .collect();
    let mut point = json!({
        "attributes": attributes, "startTimeUnixNano": started, "timeUnixNano": now,
    });
    match &series.value {
        SeriesValue::Number(number) => point["asDouble"] = json!(number),
        SeriesValue::Histogram(histogram) => {
            let counts = histogram.counts.iter();
            point["count"] = histogram.count().to_string().into();
            point["sum"] = json!(histogram.sum);
            point["explicitBounds"] = json!(histogram.bounds);
            point["bucketCounts"] = counts.map(|count| Value::from(count.to_string())).collect();
        }
    }
    point
}
