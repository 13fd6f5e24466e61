//! Shows that something is downloaded: a line that moves on a terminal, one plain line elsewhere.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::output::note;
use crate::output::progress::ProgressLine;

/// The line. Dropping it removes it.
pub struct Progress {
    line: Option<ProgressLine>,
    message: String,
    steps: AtomicU64,
}

impl Progress {
    /// Begins; `doing` says what is done, without an end.
    pub fn begin(doing: &str) -> Self {
        let doing = mimir_core::text::visible(doing);
        if !std::io::stderr().is_terminal() {
            note(format_args!("{doing} …"));
        }
        Self {
            line: ProgressLine::spinner(doing.clone()),
            message: format!("requests, {doing}"),
            steps: AtomicU64::new(0),
        }
    }

    /// Advances the progress by one step.
    pub fn step(&self) {
        let done = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(line) = &self.line {
            line.progress(done, None, Some(self.message.clone()));
        }
    }
}
