//! The reason for the end of a connection to a server, and the server's last output.
//!
//! Out of scope: closing the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::ToolError;
use mimir_core::redact::{REACH, Redactor};
use mimir_core::text::{self, prefix, visible};
use parking_lot::Mutex;

use super::sandbox_hint;
use super::status::ServerObserver;

/// Number of stderr lines that are stored for the error about the end of the server.
const STDERR_LINES: usize = 3;

/// Number of stored stderr lines that report something as not found.
const NOT_FOUND_LINES: usize = 5;

/// Maximum length of a quote from the server in a message, in characters.
pub(super) const MAX_SERVER_TEXT_CHARS: usize = 500;

/// The reason why a connection ended, as far as known.
pub(super) struct CloseReason {
    pub(super) server: String,
    observer: Arc<dyn ServerObserver>,
    /// Masks secrets in the server's other output, which goes to logs, messages and the disk.
    pub(super) redactor: Redactor,
    why: Mutex<Option<ToolError>>,
    stderr_lines: Mutex<Vec<String>>,
    /// Lines that report something as not found.
    not_found: Mutex<Vec<String>>,
    invalid_line_logged: AtomicBool,
    pub(super) flood: AtomicBool,
}

impl CloseReason {
    /// Creates an unknown reason. `observer` receives the lines of the server's stderr.
    pub(super) fn new(
        server: &str,
        redactor: Redactor,
        observer: Arc<dyn ServerObserver>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            observer,
            redactor,
            why: Mutex::default(),
            stderr_lines: Mutex::default(),
            not_found: Mutex::default(),
            invalid_line_logged: AtomicBool::default(),
            flood: AtomicBool::default(),
        })
    }

    /// Returns the reason with the server's last output, if it is known.
    pub(super) fn known_error(&self) -> Option<ToolError> {
        let mut error = self.why.lock().clone()?;
        self.append_stderr(&mut error);
        Some(error)
    }

    /// Returns a server's text for display. Secrets are masked before the text is cut to `max_chars` characters.
    pub(super) fn mask_text(&self, server_text: &str, max_chars: usize) -> String {
        let mut text = visible(prefix(server_text, max_chars + REACH));
        self.redactor.mask_text(&mut text);
        prefix(&text, max_chars).to_owned()
    }

    /// Sets the reason, unless one is set already.
    pub(super) fn set_reason(&self, error: ToolError) {
        let mut why = self.why.lock();
        why.get_or_insert(error);
    }

    /// Sets the reason: a message was larger than `limit` bytes.
    pub(super) fn set_message_too_long(&self, limit: u64) {
        let limit = text::bytes(limit);
        let server = &self.server;
        let message =
            format!("the server `{server}` was stopped: it sent a message larger than {limit}");
        self.set_reason(ToolError::limit_exceeded(message));
    }

    /// Sets the reason: a message had too many values.
    pub(super) fn set_too_many_values(&self) {
        let server = &self.server;
        let message =
            format!("the server `{server}` was stopped: it sent a message with too many values");
        self.set_reason(ToolError::limit_exceeded(message));
    }

    /// Sets the reason: the server sent too many requests.
    pub(super) fn set_too_many_requests(&self) {
        let server = &self.server;
        let message = format!("the server `{server}` was stopped: it sent too many requests");
        self.set_reason(ToolError::limit_exceeded(message));
    }

    /// Records that notifications were dropped: one of them may have announced a change of the tools. Logs the first
    /// time.
    pub(super) fn warn_of_flood(&self) {
        if !self.flood.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                server = self.server,
                "the server sends too many notifications: most are dropped"
            );
        }
    }

    /// Logs a line that is not a valid message, but only the first one.
    pub(super) fn warn_of_invalid_line(&self, line: &[u8], error: &serde_json::Error) {
        if !self.invalid_line_logged.swap(true, Ordering::AcqRel) {
            // Only the beginning of the line is converted to text, however long it is.
            let head = &line[..line.len().min(MAX_SERVER_TEXT_CHARS * 4 + REACH)];
            let line = self.mask_text(&String::from_utf8_lossy(head), MAX_SERVER_TEXT_CHARS);
            let error = self.mask_text(&error.to_string(), MAX_SERVER_TEXT_CHARS);
            tracing::warn!(server = self.server, %error, "the server wrote a line that is not a valid message: {line}");
        }
    }

    /// Records a line of stderr, masked.
    pub(super) fn record_stderr_line(&self, line: &str) {
        tracing::info!(server = self.server, "{line}");
        self.observer.log_line(&self.server, line);
        if sandbox_hint::is_not_found_line(line) {
            let mut not_found = self.not_found.lock();
            if not_found.len() < NOT_FOUND_LINES {
                not_found.push(line.to_owned());
            }
        }
        let mut lines = self.stderr_lines.lock();
        if lines.len() == STDERR_LINES {
            lines.remove(0);
        }
        lines.push(line.to_owned());
    }

    /// Returns the lines that report something as not found.
    pub(super) fn not_found_lines(&self) -> Vec<String> {
        let not_found = self.not_found.lock();
        not_found.clone()
    }

    /// Returns the reason as an error with the server's last output. `fallback` completes the sentence "the server
    /// `NAME` …" if the reason is unknown.
    pub(super) fn error(&self, fallback: &str) -> ToolError {
        let why = self.why.lock().clone();
        let mut error = why.unwrap_or_else(|| {
            ToolError::execution(format!("the server `{}` {fallback}", self.server))
        });
        self.append_stderr(&mut error);
        error
    }

    /// Inserts the last output into an error that was created before it arrived.
    pub(super) fn append_stderr(&self, error: &mut ToolError) {
        const SEPARATOR: &str = "; its last output: ";
        let lines = self.stderr_lines.lock();
        if !lines.is_empty() && !error.message.contains(SEPARATOR) {
            let lines = lines.join(" / ");
            error.message.push_str(SEPARATOR);
            error
                .message
                .push_str(prefix(&lines, MAX_SERVER_TEXT_CHARS));
        }
    }
}
