//! Paired measurements and their results: rows of ours, a reference and their ratio.
//!
//! Out of scope: the measured operations.

use std::fmt;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};
use tokio::runtime::Runtime;

/// Time for running an operation a number of times, sequentially.
pub fn timed(runtime: &Runtime, times: u64, mut once: impl AsyncFnMut()) -> Duration {
    runtime.block_on(async {
        let start = Instant::now();
        for _ in 0..times {
            once().await;
        }
        start.elapsed()
    })
}

/// Bound of a ratio.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// No bound.
    Open,
}

impl Budget {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Budget::AtMost(max) => ratio <= max,
            Budget::AtLeast(min) => ratio >= min,
            Budget::Open => true,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::AtMost(max) => write!(f, "≤ {max}"),
            Budget::AtLeast(min) => write!(f, "≥ {min}"),
            Budget::Open => f.write_str("–"),
        }
    }
}

/// One line of the result.
pub struct Row {
    /// Name of the measurement.
    pub name: String,
    /// Our value, with its unit.
    pub ours: String,
    /// The reference: name, value and unit.
    pub reference: String,
    /// Our value relative to the reference.
    pub ratio: f64,
    /// Bound of the ratio.
    pub budget: Budget,
}

impl Row {
    fn verdict(&self) -> &'static str {
        match self.budget {
            Budget::Open => "",
            _ if self.budget.is_met(self.ratio) => "ok",
            _ => "MISSED",
        }
    }
}

/// Duration of the measurement of a pair, and the length of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Runs of one side before the other's turn. More than one for operations that are too short for the clock, or
    /// that need to warm up.
    pub turn: u64,
    /// Number of criterion's samples; at least ten.
    pub samples: usize,
    /// Measuring time of our side; that of the reference comes on top.
    pub time: Duration,
}

/// Medians of one run of each, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub ours: f64,
    pub reference: f64,
}

impl Pair {
    pub fn ratio(self) -> f64 {
        self.ours / self.reference
    }
}

/// Takes measurements and records the results.
pub struct Report {
    criterion: Criterion,
    rows: Vec<Row>,
}

impl Report {
    pub fn new() -> Self {
        // Ten thousand resamples are as good as the default of a hundred thousand, and much faster.
        let criterion = Criterion::default().without_plots().nresamples(10_000);
        Self {
            criterion: criterion.warm_up_time(Duration::from_millis(300)),
            rows: Vec::new(),
        }
    }

    /// Runs the two sides in turns, reference first. Each takes the number of runs and returns their time. Turns
    /// cancel out the noise of a shared machine: both sides are slowed equally.
    pub fn pair(
        &mut self,
        name: &str,
        pace: Pace,
        mut ours: impl FnMut(u64) -> Duration,
        mut reference: impl FnMut(u64) -> Duration,
    ) -> Pair {
        reference(pace.turn);
        ours(pace.turn);
        let mut turns = (Vec::new(), Vec::new());
        let mut group = self.criterion.benchmark_group(name);
        group
            .sample_size(pace.samples)
            .measurement_time(pace.time)
            .sampling_mode(SamplingMode::Flat);
        group.bench_function("ours", |bencher| {
            bencher.iter_custom(|times| {
                let mut total = Duration::ZERO;
                let mut left = times;
                while left > 0 {
                    let turn = left.min(pace.turn);
                    let (other, own) = (reference(turn), ours(turn));
                    // A turn that is cut short by the count is not a sample, unless none is longer: on a slow machine.
                    if turn == pace.turn.min(times) {
                        turns.0.push(own.as_secs_f64() / turn as f64);
                        turns.1.push(other.as_secs_f64() / turn as f64);
                    }
                    total += own;
                    left -= turn;
                }
                total
            });
        });
        group.finish();
        assert!(!turns.0.is_empty(), "{name}: no turn was ever whole");
        Pair {
            ours: median(&mut turns.0),
            reference: median(&mut turns.1),
        }
    }

    /// Records a row and prints it.
    pub fn row(&mut self, row: Row) {
        let Row {
            name,
            ours,
            reference,
            ratio,
            budget,
        } = &row;
        let verdict = row.verdict();
        println!(
            "bench {name}: ours {ours}, reference {reference}, ratio {ratio:.2} (budget {budget}) {verdict}\n"
        );
        self.rows.push(row);
    }

    /// Prints the reason for skipping a measurement.
    pub fn skip(&self, name: &str, why: &str) {
        println!("bench {name}: skipped, {why}\n");
    }

    /// Prints additional information about the rows.
    pub fn note(&self, text: impl fmt::Display) {
        println!("  {text}\n");
    }

    /// Prints all rows as Markdown; false if one misses its budget.
    pub fn finish(self) -> bool {
        println!("| what | mimir | reference | ratio | budget | |\n|---|---|---|---|---|---|");
        for row in &self.rows {
            let Row {
                name,
                ours,
                reference,
                ratio,
                budget,
            } = row;
            println!(
                "| {name} | {ours} | {reference} | {ratio:.2} | {budget} | {} |",
                row.verdict()
            );
        }
        self.rows.iter().all(|row| row.budget.is_met(row.ratio))
    }
}

/// The median; 0 for an empty slice.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Formats a time in a suitable unit.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Formats bytes in a suitable unit.
pub fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1024.0 * 1024.0 => format!("{:.0} KB", b / 1024.0),
        b => format!("{:.1} MB", b / 1024.0 / 1024.0),
    }
}
