//! Shows the log lines of a running tool, and its progress if the call takes noticeably long.

use std::sync::OnceLock;

use parking_lot::Mutex;

use mimir_core::call::{CallObserver, CallProgress, LogLevel, LogLine};
use mimir_core::client_name::ClientName;
use mimir_core::text::visible;

use crate::output::progress::ProgressLine;
use crate::output::{BAD, FAINT, WARN, note, styled};

use super::line_printer::LinePrinter;

/// The name of this process, for questions and consoles.
static CLIENT_NAME: OnceLock<ClientName> = OnceLock::new();

/// Sets the command that this process runs, such as `call`. Only the first call has an effect.
pub fn set_command_name(command: &str) {
    if let Some(name) = ClientName::new(&format!("mimir {command}")) {
        let _ = CLIENT_NAME.set(name);
    }
}

/// Observer that prints the log lines and the progress of one call.
pub struct CallWatcher {
    tool: String,
    progress: Mutex<Option<ProgressLine>>,
    lines: LinePrinter,
}

impl CallWatcher {
    /// Creates a watcher for a call of `tool`. On a terminal, a line shows the elapsed time of a long call.
    pub fn new(tool: &str) -> Self {
        let tool = visible(tool);
        Self {
            progress: Mutex::new(ProgressLine::spinner(tool.clone())),
            tool,
            lines: LinePrinter::default(),
        }
    }

    /// Prints the remaining log lines and removes the progress line.
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
            match (progress.total, message) {
                (None, Some(message)) => line.add_message(&self.tool, message),
                (total, message) => line.progress(progress.done, total, message),
            }
        }
    }

    fn client_name(&self) -> Option<&ClientName> {
        CLIENT_NAME.get()
    }

    fn log(&self, line: LogLine) {
        let style = match line.level {
            // Shown with `MIMIR_LOG=debug`, for the tool's author.
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
