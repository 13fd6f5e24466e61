//! Progress of a download: an animated line on a terminal, a single plain line elsewhere.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::output::note;
use crate::output::progress::ProgressLine;

/// A progress line, removed when dropped.
pub struct StepProgress {
    line: Option<ProgressLine>,
    message: String,
    steps: AtomicU64,
}

impl StepProgress {
    /// Shows the progress line. `description` describes the work, without a full stop.
    pub fn begin(description: &str) -> Self {
        let description = mimir_core::text::visible(description);
        if !std::io::stderr().is_terminal() {
            note(format_args!("{description} …"));
        }
        Self {
            line: ProgressLine::spinner(description.clone()),
            message: format!("requests, {description}"),
            steps: AtomicU64::new(0),
        }
    }
}

impl mimir::interface::Progress for StepProgress {
    fn step(&self) {
        let done = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(line) = &self.line {
            line.progress(done, None, Some(self.message.clone()));
        }
    }
}
