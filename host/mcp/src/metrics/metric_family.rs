//! Metrics of other components, such as a cache, that are exposed together with the server's own.
//!
//! Out of scope: collecting the values.

use std::sync::Arc;

/// A metric family in the Prometheus format.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// Name, with the unit and `_total` as Prometheus requires.
    pub name: &'static str,
    /// Help text of one line.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Current values: a single one, or several that differ in a label.
    pub values: Vec<(Option<MetricLabel>, f64)>,
}

/// Label name and value, such as `result` and `missed`. Both are written unescaped.
pub type MetricLabel = (&'static str, &'static str);

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows while the server runs.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// Source of the current metrics. Called for each scrape.
pub type MetricSource = Arc<dyn Fn() -> Vec<MetricFamily> + Send + Sync>;

impl MetricFamily {
    /// Creates a metric with a single value.
    pub fn one(name: &'static str, kind: MetricKind, value: f64, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind,
            values: vec![(None, value)],
        }
    }
}

impl MetricKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}
