//! Metrics of other components, such as a cache, that are exposed together with the server's own.
//!
//! Out of scope: collecting the values.

use std::sync::Arc;

/// A metric family in the Prometheus format.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name with its unit and `_total` where Prometheus requires it.
    pub name: &'static str,
    /// Help text, in one line.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: FigureKind,
    /// Current values: a single one, or several that differ in a label.
    pub values: Vec<(Option<Label>, f64)>,
}

/// Label name and value, such as `result` and `missed`. Both are written unescaped.
pub type Label = (&'static str, &'static str);

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// Only grows while the server runs.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// Returns the current metrics. Called for each scrape.
pub type Figures = Arc<dyn Fn() -> Vec<Figure> + Send + Sync>;

impl Figure {
    /// Creates a metric with a single value.
    pub fn one(name: &'static str, kind: FigureKind, value: f64, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind,
            values: vec![(None, value)],
        }
    }
}

impl FigureKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}
