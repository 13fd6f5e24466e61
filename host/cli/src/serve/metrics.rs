//! Metrics of the cache of compiled code.
//!
//! Out of scope: counting.

use std::sync::Arc;

use mimir_mcp::MetricKind::{Counter, Gauge};
use mimir_mcp::{MetricFamily, MetricSource};
use mimir_wasm::{CacheState, WasmHost};

/// Returns a source of the metrics of this host's cache.
pub fn cache_metrics(host: &Arc<WasmHost>) -> MetricSource {
    let host = Arc::clone(host);
    Arc::new(move || collect_metrics(&host))
}

fn collect_metrics(host: &WasmHost) -> Vec<MetricFamily> {
    let counts = host.code_counts();
    let value = |count: u64| count as f64;
    let lookups = MetricFamily {
        name: "mimir_code_cache_lookups_total",
        help: "Lookups of compiled code in the cache, by result: mapped and read are hits.",
        kind: Counter,
        values: vec![
            (Some(("result", "mapped")), value(counts.mapped)),
            (Some(("result", "read")), value(counts.read)),
            (Some(("result", "missed")), value(counts.missed)),
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
