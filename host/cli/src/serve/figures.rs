//! What whoever watches a server is told of the cache of compiled code.
//!
//! Never here: what is counted.

use std::sync::Arc;

use mimir_mcp::FigureKind::{Counter, Gauge};
use mimir_mcp::{Figure, Figures};
use mimir_wasm::{CacheState, WasmHost};

/// The figures of this host's cache, whenever they are asked for.
pub fn figures(host: &Arc<WasmHost>) -> Figures {
    let host = Arc::clone(host);
    Arc::new(move || of(&host))
}

fn of(host: &WasmHost) -> Vec<Figure> {
    let counts = host.code_counts();
    let value = |count: u64| count as f64;
    let looks = Figure {
        name: "mimir_code_cache_lookups_total",
        help: "Looks for compiled code in the cache, by what came of them: mapped and read were hits.",
        kind: Counter,
        values: vec![
            (Some(("result", "mapped")), value(counts.mapped)),
            (Some(("result", "read")), value(counts.read)),
            (Some(("result", "missed")), value(counts.missed)),
        ],
    };
    let mut figures = vec![
        looks,
        Figure::one(
            "mimir_code_cache_loaded_bytes_total",
            Counter,
            value(counts.bytes),
            "Bytes of compiled code that were taken from the cache.",
        ),
        Figure::one(
            "mimir_compilations_total",
            Counter,
            value(counts.compiled),
            "Components that were compiled.",
        ),
        Figure::one(
            "mimir_compile_seconds_total",
            Counter,
            counts.compiling.as_secs_f64(),
            "Time that components took to be compiled.",
        ),
    ];
    // A cache that is off or cannot be used has no size.
    let size = match host.cache_state() {
        CacheState::Good { entries, bytes } => Some((entries, bytes)),
        CacheState::Absent => Some((0, 0)),
        CacheState::Off | CacheState::Bad { .. } => None,
    };
    if let Some((entries, bytes)) = size {
        figures.push(Figure::one(
            "mimir_cache_entries",
            Gauge,
            value(entries),
            "Entries of the cache folder: compiled code and what was learnt about components.",
        ));
        figures.push(Figure::one(
            "mimir_cache_bytes",
            Gauge,
            value(bytes),
            "Bytes of the cache folder.",
        ));
    }
    figures
}
