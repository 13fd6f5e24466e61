//! A figure that somebody else counts, told with the server's own: what a cache holds, say.
//!
//! Never here: what is counted, and by whom.

use std::sync::Arc;

/// A figure as Prometheus reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name, with its unit and `_total` as Prometheus has it.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// Whether it ever falls.
    pub kind: FigureKind,
    /// What it is now: one value, or several that a label tells apart.
    pub values: Vec<(Option<Label>, f64)>,
}

/// A name and what it is, such as `result` and `missed`. Both are written as they are.
pub type Label = (&'static str, &'static str);

/// What kind of figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// It only grows while the server runs.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// Gives the figures of now. Asked for each time somebody looks.
pub type Figures = Arc<dyn Fn() -> Vec<Figure> + Send + Sync>;

impl Figure {
    /// A figure of one value.
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
