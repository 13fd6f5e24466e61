//! Shows the output of a running tool: its log lines, and its progress once it takes a while.

use parking_lot::Mutex;

use mimir_core::call::{CallObserver, CallProgress, LogLevel, LogLine};
use mimir_core::text::visible;

use crate::output::progress::ProgressLine;
use crate::output::{BAD, FAINT, WARN, note, styled};

use super::line_printer::LinePrinter;

/// Watches a call.
pub struct CallWatcher {
    tool: String,
    progress: Mutex<Option<ProgressLine>>,
    lines: LinePrinter,
}

impl CallWatcher {
    /// Creates a watcher of a call of `tool`. On a terminal, a long call has a line with the elapsed time.
    pub fn new(tool: &str) -> Self {
        let tool = visible(tool);
        Self {
            progress: Mutex::new(ProgressLine::spinner(tool.clone())),
            tool,
            lines: LinePrinter::default(),
        }
    }

    /// Shows the last lines and removes the progress line.
    pub fn finish(&self) {
        self.lines.finish();
        drop(self.line().take());
    }

    fn line(&self) -> parking_lot::MutexGuard<'_, Option<ProgressLine>> {
        self.progress.lock()
    }
}

impl CallObserver for CallWatcher {
    fn progress(&self, progress: CallProgress) {
        if let Some(line) = &*self.line() {
            let message = progress.message.as_deref().map(visible);
            line.progress(progress.done, progress.total, message);
        }
    }

    fn log(&self, line: LogLine) {
        let style = match line.level {
            // Debug output for the tool's author, on request.
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
        self.lines.push(move || note(text));
    }
}
