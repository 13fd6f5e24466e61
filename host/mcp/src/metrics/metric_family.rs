//! Metrics of other components, such as a cache, that are exposed together with the server's own.
//!
//! Out of scope: collecting the values.

use std::borrow::Cow;
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
    /// Current values: a single one, or several that differ in their labels.
    pub samples: Vec<MetricSample>,
}

/// The value of a metric for some labels.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// The labels.
    pub labels: Vec<MetricLabel>,
    /// The value.
    pub value: MetricValue,
}

/// Label name and value, such as `result` and `missed`.
pub type MetricLabel = (&'static str, Cow<'static, str>);

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// The value of a counter or a gauge.
    Number(f64),
    /// The values of a histogram.
    Histogram {
        /// The upper bounds.
        bounds: &'static [f64],
        /// Counts of the values up to each bound and above the bound before it, and of those above the last bound.
        counts: Vec<u64>,
        /// The sum of all values.
        sum: f64,
    },
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows while the server runs.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values by bounds.
    Histogram,
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
            samples: vec![MetricSample {
                labels: Vec::new(),
                value: MetricValue::Number(value),
            }],
        }
    }
}

impl MetricSample {
    /// Creates the sample of a counter or a gauge with one label.
    pub fn number(label: &'static str, text: &'static str, value: f64) -> Self {
        Self {
            labels: vec![(label, Cow::Borrowed(text))],
            value: MetricValue::Number(value),
        }
    }
}

impl MetricKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}
