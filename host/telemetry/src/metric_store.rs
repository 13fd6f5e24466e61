//! The values of all metrics since the start of the process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::instruments::{Instrument, InstrumentKind, MetricAttribute};

/// Attributes of a series, in a fixed order.
pub type AttributeSet = Vec<(MetricAttribute, Cow<'static, str>)>;

/// The current value of a gauge.
#[derive(Debug, Clone)]
pub struct GaugeReading {
    /// The metric.
    pub instrument: Instrument,
    /// The attributes.
    pub attributes: AttributeSet,
    /// The value.
    pub value: f64,
}

/// Source of the current values of gauges. Called for each export.
pub type GaugeSource = Arc<dyn Fn() -> Vec<GaugeReading> + Send + Sync>;

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum SeriesValue {
    /// A counter or a gauge.
    Number(f64),
    /// A histogram.
    Histogram(HistogramValue),
}

/// Counts of values by bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramValue {
    /// The upper bounds.
    pub bounds: &'static [f64],
    /// Counts of the values up to each bound and above the bound before it, and of those above the last bound.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
}

/// A series: attributes and value.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeries {
    /// The attributes.
    pub attributes: AttributeSet,
    /// The value.
    pub value: SeriesValue,
}

/// All series of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSnapshot {
    /// The metric.
    pub instrument: Instrument,
    /// The series.
    pub series: Vec<MetricSeries>,
}

/// Maximum number of series of one metric. Further ones are counted as one.
const MAX_SERIES: usize = 1000;

pub(crate) struct MetricStore {
    /// The start of all counters and histograms.
    pub(crate) started: SystemTime,
    series: Mutex<[BTreeMap<AttributeSet, SeriesValue>; Instrument::ALL.len()]>,
    gauges: Mutex<Vec<GaugeSource>>,
}

impl MetricStore {
    pub(crate) fn new(started: SystemTime) -> Self {
        Self {
            started,
            series: Mutex::default(),
            gauges: Mutex::default(),
        }
    }

    pub(crate) fn add_gauges(&self, source: GaugeSource) {
        self.gauges.lock().push(source);
    }

    /// Adds to a counter, or a value to a histogram.
    pub(crate) fn add(&self, instrument: Instrument, attributes: AttributeSet, value: f64) {
        let mut all = self.series.lock();
        let series = &mut all[instrument.index()];
        let attributes = if series.len() < MAX_SERIES || series.contains_key(&attributes) {
            attributes
        } else {
            vec![(MetricAttribute::Overflow, Cow::Borrowed("true"))]
        };
        let current =
            series
                .entry(attributes)
                .or_insert_with(|| match instrument.definition().kind {
                    InstrumentKind::Counter | InstrumentKind::Gauge => SeriesValue::Number(0.0),
                    InstrumentKind::Histogram(bounds) => SeriesValue::Histogram(HistogramValue {
                        bounds,
                        counts: vec![0; bounds.len() + 1],
                        sum: 0.0,
                    }),
                });
        match current {
            SeriesValue::Number(number) => *number += value,
            SeriesValue::Histogram(histogram) => histogram.add(value),
        }
    }

    /// Adds one to a counter.
    pub(crate) fn count(&self, instrument: Instrument, attributes: AttributeSet) {
        self.add(instrument, attributes, 1.0);
    }

    /// Returns the values of all metrics that have one.
    pub(crate) fn snapshot(&self) -> Vec<MetricSnapshot> {
        let sources = self.gauges.lock().clone();
        // Not under a lock: sources belong to others.
        let readings: Vec<GaugeReading> = sources.iter().flat_map(|source| source()).collect();
        let all = self.series.lock();
        let snapshots = Instrument::ALL.into_iter().map(|instrument| {
            let stored = all[instrument.index()].iter();
            let stored = stored.map(|(attributes, value)| MetricSeries {
                attributes: attributes.clone(),
                value: value.clone(),
            });
            let read = readings.iter();
            let read = read.filter(|reading| reading.instrument == instrument);
            let read = read.map(|reading| MetricSeries {
                attributes: reading.attributes.clone(),
                value: SeriesValue::Number(reading.value),
            });
            MetricSnapshot {
                instrument,
                series: stored.chain(read).collect(),
            }
        });
        snapshots
            .filter(|snapshot| !snapshot.series.is_empty())
            .collect()
    }
}

impl HistogramValue {
    fn add(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum += value;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> AttributeSet {
        vec![(MetricAttribute::Tool, name.to_owned().into())]
    }

    #[test]
    fn histograms_count_values_up_to_their_bounds() {
        let store = MetricStore::new(SystemTime::UNIX_EPOCH);
        for value in [0.01, 0.010_1, 1000.0] {
            store.add(Instrument::McpOperationDuration, tool("a"), value);
        }
        let [snapshot] = &store.snapshot()[..] else {
            panic!("one metric")
        };
        let SeriesValue::Histogram(histogram) = &snapshot.series[0].value else {
            panic!("{snapshot:?}")
        };
        assert_eq!(histogram.counts[..2], [1, 1]);
        assert_eq!(histogram.counts.last(), Some(&1));
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn series_above_the_limit_are_counted_as_one() {
        let store = MetricStore::new(SystemTime::UNIX_EPOCH);
        for number in 0..MAX_SERIES + 5 {
            store.count(Instrument::Effects, tool(&format!("t{number}")));
        }
        store.count(Instrument::Effects, tool("t0"));
        let snapshot = store.snapshot();
        let series = &snapshot[0].series;
        assert_eq!(series.len(), MAX_SERIES + 1);
        let value = |attributes: AttributeSet| {
            let mut all = series.iter();
            all.find(|one| one.attributes == attributes)
                .map(|one| one.value.clone())
        };
        assert_eq!(value(tool("t0")), Some(SeriesValue::Number(2.0)));
        let overflow = vec![(MetricAttribute::Overflow, "true".into())];
        assert_eq!(value(overflow), Some(SeriesValue::Number(5.0)));
    }

    #[test]
    fn gauges_are_read_for_each_snapshot() {
        let store = MetricStore::new(SystemTime::UNIX_EPOCH);
        store.add_gauges(Arc::new(|| {
            vec![GaugeReading {
                instrument: Instrument::ActiveCalls,
                attributes: Vec::new(),
                value: 3.0,
            }]
        }));
        let value = &store.snapshot()[0].series[0].value;
        assert_eq!(*value, SeriesValue::Number(3.0));
    }
}
