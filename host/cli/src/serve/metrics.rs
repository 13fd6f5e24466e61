//! Metrics of calls and of the cache of compiled code.
//!
//! Out of scope: counting.

use std::sync::Arc;

use mimir_mcp::MetricKind::{Counter, Gauge, Histogram};
use mimir_mcp::{MetricFamily, MetricSample, MetricSource, MetricValue};
use mimir_telemetry::{InstrumentKind, MetricSnapshot, SeriesValue};
use mimir_wasm::{CacheState, WasmHost};

/// Returns a source of the metrics of calls, and of this host's cache.
pub fn server_metrics(host: &Arc<WasmHost>) -> MetricSource {
    let host = Arc::clone(host);
    Arc::new(move || {
        let calls = mimir::telemetry::metrics();
        let calls = calls.into_iter().map(call_metrics);
        calls.chain(cache_metrics(&host)).collect()
    })
}

/// Converts a metric of telemetry.
fn call_metrics(snapshot: MetricSnapshot) -> MetricFamily {
    let definition = snapshot.instrument.definition();
    let samples = snapshot.series.into_iter().map(|series| {
        let labels = series.attributes.into_iter();
        MetricSample {
            labels: labels
                .map(|(attribute, text)| (attribute.label(), text))
                .collect(),
            value: match series.value {
                SeriesValue::Number(number) => MetricValue::Number(number),
                SeriesValue::Histogram(histogram) => MetricValue::Histogram {
                    bounds: histogram.bounds,
                    counts: histogram.counts,
                    sum: histogram.sum,
                },
            },
        }
    });
    MetricFamily {
        name: definition.prometheus,
        help: definition.help,
        kind: match definition.kind {
            InstrumentKind::Counter => Counter,
            InstrumentKind::Gauge => Gauge,
            InstrumentKind::Histogram(_) => Histogram,
        },
        samples: samples.collect(),
    }
}

fn cache_metrics(host: &WasmHost) -> Vec<MetricFamily> {
    let counts = host.code_counts();
    let value = |count: u64| count as f64;
    let lookups = MetricFamily {
        name: "mimir_code_cache_lookups_total",
        help: "Lookups of compiled code in the cache, by result: mapped and read are hits.",
        kind: Counter,
        samples: vec![
            MetricSample::number("result", "mapped", value(counts.mapped)),
            MetricSample::number("result", "read", value(counts.read)),
            MetricSample::number("result", "missed", value(counts.missed)),
        ],
    };
    let mut metrics = vec![
        lookups,
        MetricFamily::one(
            "mimir_code_cache_loaded_bytes_total",
            Counter,
            value(counts.bytes),
            "Bytes of compiled code loaded from the cache.",
        ),
        MetricFamily::one(
            "mimir_compilations_total",
            Counter,
            value(counts.compiled),
            "Components compiled.",
        ),
        MetricFamily::one(
            "mimir_compile_seconds_total",
            Counter,
            counts.compiling.as_secs_f64(),
            "Time spent compiling components.",
        ),
    ];
    // A cache that is off or not usable has no size.
    let size = match host.cache_state() {
        CacheState::Good { entries, bytes } => Some((entries, bytes)),
        CacheState::Absent => Some((0, 0)),
        CacheState::Off | CacheState::Bad { .. } => None,
    };
    if let Some((entries, bytes)) = size {
        metrics.push(MetricFamily::one(
            "mimir_cache_entries",
            Gauge,
            value(entries),
            "Entries in the cache folder: compiled code and component metadata.",
        ));
        metrics.push(MetricFamily::one(
            "mimir_cache_bytes",
            Gauge,
            value(bytes),
            "Size of the cache folder in bytes.",
        ));
    }
    metrics
}
