//! Events of a task on the terminal: the model's text goes to stdout as it streams in, activity to stderr.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mimir_agent::{AgentEvent, AgentEventSink, ToolCall};
use mimir_core::call::CallObserver;
use mimir_core::text::{prefix, sanitize, visible};
use mimir_core::{BoxFuture, Outcome};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::output::stderr_queue::is_output_held;
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN, note, styled};
use crate::terminal::{CallWatcher, is_question_open};

/// Maximum number of characters of arguments, and of an error message, on a line.
const MAX_LINE_CHARS: usize = 100;

/// Prints the events of a task on the terminal.
pub struct TerminalEventSink {
    /// True if text is printed as it streams in; otherwise the caller prints the final answer.
    streams: bool,
    /// True if the last printed text did not end with a line break.
    is_line_open: Mutex<bool>,
    watchers: Mutex<HashMap<String, Arc<CallWatcher>>>,
    running_calls: AtomicUsize,
    stop: Notify,
}

impl TerminalEventSink {
    /// Creates a sink that streams text if stdout is a terminal. Otherwise the caller prints the final answer.
    pub fn new() -> Self {
        Self {
            streams: io::stdout().is_terminal(),
            is_line_open: Mutex::new(false),
            watchers: Mutex::default(),
            running_calls: AtomicUsize::new(0),
            stop: Notify::new(),
        }
    }

    /// Returns true if text is printed as it streams in.
    pub fn streams(&self) -> bool {
        self.streams
    }

    /// Cancels the running calls. Returns true if there were any.
    pub fn stop_calls(&self) -> bool {
        let any = self.running_calls.load(Ordering::Relaxed) > 0;
        if any {
            self.stop.notify_waiters();
        }
        any
    }

    /// Ends an unfinished line.
    pub fn end_line(&self) {
        let mut is_line_open = self.is_line_open.lock();
        if std::mem::take(&mut *is_line_open) {
            let mut out = anstream::stdout();
            let _ = out.write_all(b"\n").and_then(|()| out.flush());
        }
        drop(is_line_open);
        if !is_output_held() && is_question_open() {
            note("");
        }
    }

    /// Ends all progress output, including that of dropped calls.
    pub fn close(&self) {
        for (_, watcher) in self.watchers.lock().drain() {
            watcher.finish();
        }
        self.end_line();
    }

    fn print_text(&self, text: &str) {
        if !self.streams || text.is_empty() {
            return;
        }
        // Escapes the model's text, so that it cannot control the terminal.
        let text = sanitize(text.to_owned());
        let mut out = anstream::stdout();
        // Errors are ignored: a closed stdout does not stop the task.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        *self.is_line_open.lock() = !text.ends_with('\n');
    }

    fn print_note(&self, line: impl std::fmt::Display) {
        self.end_line();
        note(line);
    }

    fn print_result(&self, name: &str, outcome: Option<&Outcome>, text: &str) {
        let name = visible(prefix(name, MAX_LINE_CHARS));
        let Some(outcome) = outcome else {
            let text = visible(prefix(text, MAX_LINE_CHARS));
            return self.print_note(format_args!("{} {name}: {text}", styled(WARN, "✗")));
        };
        let duration = outcome.receipt().duration_ms;
        match outcome.result() {
            Ok(output) => {
                let size = mimir_core::text::bytes(outcome.receipt().bytes_out);
                let tokens = outcome.receipt().tokens;
                let mut summary = format!("{duration:.0} ms, {size}, ~{tokens} tokens");
                if outcome.receipt().cached {
                    summary.push_str(", from an earlier call");
                }
                if let Some(attempts) = outcome.receipt().attempts {
                    summary.push_str(&format!(", {attempts} attempts"));
                }
                // The call succeeded, but the command that the tool ran may have failed.
                match output.exit_code.filter(|code| *code != 0) {
                    Some(code) => self.print_note(format_args!(
                        "{} {name} {} {}",
                        styled(WARN, "✗"),
                        styled(WARN, format_args!("exit code {code}")),
                        styled(FAINT, summary)
                    )),
                    None => self.print_note(format_args!(
                        "{} {name} {}",
                        styled(GOOD, "✓"),
                        styled(FAINT, summary)
                    )),
                }
            }
            Err(error) => {
                let message = visible(prefix(&error.message, 3 * MAX_LINE_CHARS));
                self.print_note(format_args!(
                    "{} {name}: {message} {}",
                    styled(BAD, "✗"),
                    styled(FAINT, format_args!("[{}]", error.code))
                ));
                crate::output::outcome::print_remedies(error);
            }
        }
    }
}

impl AgentEventSink for TerminalEventSink {
    fn handle_event(&self, event: AgentEvent<'_>) {
        match event {
            AgentEvent::Text { text } => self.print_text(text),
            AgentEvent::Turn { .. } | AgentEvent::Answered { .. } => self.end_line(),
            AgentEvent::Retry {
                reason,
                after_ms,
                received,
            } => {
                let discarded = if received {
                    "; its partial answer is discarded"
                } else {
                    ""
                };
                let reason = visible(reason);
                let when = match after_ms / 1_000 {
                    0 => "now".to_owned(),
                    seconds => format!("in {seconds} s"),
                };
                self.print_note(format_args!(
                    "{} {reason}{discarded}; trying again {when}",
                    styled(WARN, "retry:")
                ));
            }
            AgentEvent::LeftOut { messages } => self.print_note(styled(
                FAINT,
                format_args!("(long conversation: {messages} older messages are left out)"),
            )),
            AgentEvent::Compacted {
                messages,
                before_tokens,
                after_tokens,
            } => self.print_note(styled(
                FAINT,
                format_args!(
                    "(long conversation: {messages} older messages were summarised, ~{before_tokens} tokens are now ~{after_tokens})"
                ),
            )),
            AgentEvent::CompactionFailed { reason } => {
                let reason = visible(reason);
                self.print_note(format_args!(
                    "{} {reason}",
                    styled(WARN, "the conversation was not summarised:")
                ));
            }
            AgentEvent::Call {
                name, arguments, ..
            } => {
                self.running_calls.fetch_add(1, Ordering::Relaxed);
                let arguments = visible(arguments);
                let shown = prefix(&arguments, MAX_LINE_CHARS);
                let cut = if shown.len() < arguments.len() {
                    "…"
                } else {
                    ""
                };
                self.print_note(format_args!(
                    "{} {} {}",
                    styled(FAINT, "→"),
                    styled(STRONG, visible(prefix(name, MAX_LINE_CHARS))),
                    styled(FAINT, format_args!("{shown}{cut}"))
                ));
            }
            AgentEvent::Result {
                id,
                name,
                outcome,
                text,
                ..
            } => {
                if let Some(watcher) = self.watchers.lock().remove(id) {
                    self.running_calls.fetch_sub(1, Ordering::Relaxed);
                    watcher.finish();
                }
                self.print_result(name, outcome, text);
            }
        }
    }

    fn observer(&self, call: &ToolCall) -> Arc<dyn CallObserver> {
        let watcher = Arc::new(CallWatcher::new(prefix(&call.name, MAX_LINE_CHARS)));
        self.watchers
            .lock()
            .insert(call.id.clone(), Arc::clone(&watcher));
        watcher
    }

    fn calls_stop_requested(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop.notified())
    }
}
