//! Shows what a tool says while it runs: its log lines, and its progress once it takes a while.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mimir_core::call::{LogLevel, LogLine, Observer, Progress};

use crate::output::{BAD, FAINT, WARN, note, styled};

use super::lines::Lines;

/// Shorter calls need no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Watches one call.
pub struct Watcher {
    tool: String,
    start: Instant,
    bar: Option<Mutex<Option<ProgressBar>>>,
    lines: Lines,
}

impl Watcher {
    /// A watcher of a call of `tool`. A bar is shown on a terminal only.
    pub fn new(tool: &str) -> Self {
        Self {
            tool: mimir_core::text::visible(tool),
            start: Instant::now(),
            bar: std::io::stderr().is_terminal().then(Mutex::default),
            lines: Lines::default(),
        }
    }

    /// Shows the last lines and takes the bar away.
    pub fn finish(&self) {
        self.lines.finish();
        if let Some(bar) = self.slot().and_then(|mut slot| slot.take()) {
            bar.finish_and_clear();
        }
    }

    fn slot(&self) -> Option<std::sync::MutexGuard<'_, Option<ProgressBar>>> {
        let bar = self.bar.as_ref()?;
        Some(bar.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Watcher {
    fn progress(&self, progress: Progress) {
        let Some(mut slot) = self.slot().filter(|_| self.start.elapsed() >= PATIENCE) else {
            return;
        };
        let bar = slot.get_or_insert_with(|| {
            let bar = match progress.total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::new_spinner(),
            };
            if let Ok(style) = ProgressStyle::with_template(match progress.total {
                Some(_) => "{bar:30} {pos}/{len} {msg}",
                None => "{spinner} {pos} {msg}",
            }) {
                bar.set_style(style);
            }
            bar
        });
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.done);
        if let Some(message) = &progress.message {
            bar.set_message(mimir_core::text::visible(message));
        }
    }

    fn log(&self, line: LogLine) {
        let style = match line.level {
            // For the tool's author, who asks for it.
            LogLevel::Debug => {
                tracing::debug!(tool = self.tool, "{}", line.text);
                return;
            }
            LogLevel::Info => FAINT,
            LogLevel::Warn => WARN,
            LogLevel::Error => BAD,
        };
        let text = format!(
            "{} {}",
            styled(style, format_args!("{}:", self.tool)),
            line.text
        );
        let bar = self.slot().and_then(|slot| slot.clone());
        self.lines.push(move || match bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        });
    }
}
