//! How a connection to a server ends, and the words that a server has said until then.
//!
//! Never here: the end itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mimir_core::redact::{REACH, Redactor};
use mimir_core::text::{self, prefix, visible};
use mimir_core::{Code, ToolError};

use super::hidden;

/// Lines of a server's stderr that are kept for the message that says why it ended.
const LAST_WORDS: usize = 3;

/// Lines in which a server says that it does not find something, that are kept.
const ABSENCES: usize = 5;

/// Characters of a server's own words in a message of ours.
pub(super) const WORDS_MOST: usize = 500;

/// Why a connection ended, as far as anybody found out.
#[derive(Default)]
pub(super) struct End {
    pub(super) server: String,
    /// Knows the secrets: what a server says beside results goes to logs, to messages and onto the disk.
    pub(super) redactor: Redactor,
    why: Mutex<Option<ToolError>>,
    words: Mutex<Vec<String>>,
    /// What it said that it does not find.
    absences: Mutex<Vec<String>>,
    strange: AtomicBool,
    pub(super) flood: AtomicBool,
}

impl End {
    pub(super) fn new(server: &str, redactor: Redactor) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            redactor,
            ..Self::default()
        })
    }

    /// Words of theirs that can be shown: masked before they are cut, and not read far behind the cut.
    pub(super) fn words(&self, theirs: &str, most: usize) -> String {
        let mut words = visible(prefix(theirs, most + REACH));
        self.redactor.text(&mut words);
        prefix(&words, most).to_owned()
    }

    /// The first reason is the one.
    pub(super) fn because(&self, error: ToolError) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(error);
    }

    pub(super) fn because_too_long(&self, most: u64) {
        let most = text::bytes(most);
        let server = &self.server;
        let message =
            format!("the server `{server}` sent a message of more than {most} and was stopped");
        self.because(ToolError::new(Code::LimitExceeded, message));
    }

    pub(super) fn because_too_dense(&self) {
        let server = &self.server;
        let message =
            format!("the server `{server}` sent a message of too many parts and was stopped");
        self.because(ToolError::new(Code::LimitExceeded, message));
    }

    pub(super) fn because_too_many_requests(&self) {
        let server = &self.server;
        let message =
            format!("the server `{server}` flooded mimir with requests of its own and was stopped");
        self.because(ToolError::new(Code::LimitExceeded, message));
    }

    /// More notifications came than are heard. Among them may have been that its tools have changed.
    pub(super) fn flooded(&self) {
        if !self.flood.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                server = self.server,
                "the server floods mimir with notifications; most are not heard"
            );
        }
    }

    /// A line that is no message. One such line is told.
    pub(super) fn strange(&self, line: &[u8], error: &serde_json::Error) {
        if !self.strange.swap(true, Ordering::AcqRel) {
            // What is not looked at is not made a text of, however long it is.
            let head = &line[..line.len().min(WORDS_MOST * 4 + REACH)];
            let line = self.words(&String::from_utf8_lossy(head), WORDS_MOST);
            let error = self.words(&error.to_string(), WORDS_MOST);
            tracing::warn!(server = self.server, %error, "the server writes what is no message: {line}");
        }
    }

    /// A line of its stderr, masked.
    pub(super) fn said(&self, line: &str) {
        tracing::info!(server = self.server, "{line}");
        if hidden::is_absence(line) {
            let mut absences = self.absences.lock().unwrap_or_else(PoisonError::into_inner);
            if absences.len() < ABSENCES {
                absences.push(line.to_owned());
            }
        }
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() == LAST_WORDS {
            words.remove(0);
        }
        words.push(line.to_owned());
    }

    /// The lines in which it said that it does not find something.
    pub(super) fn absences(&self) -> Vec<String> {
        let absences = self.absences.lock().unwrap_or_else(PoisonError::into_inner);
        absences.clone()
    }

    /// Why it ended, with the last words that it said; `else_` where nobody knows.
    pub(super) fn error(&self, else_: &str) -> ToolError {
        let why = self
            .why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut error = why.unwrap_or_else(|| {
            ToolError::new(
                Code::ExecutionError,
                format!("the server `{}` {else_}", self.server),
            )
        });
        self.heard(&mut error);
        error
    }

    /// Puts the last words that it said into an error that was made before they were heard.
    pub(super) fn heard(&self, error: &mut ToolError) {
        const BEFORE: &str = "; its last words: ";
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if !words.is_empty() && !error.message.contains(BEFORE) {
            let words = words.join(" / ");
            error.message.push_str(BEFORE);
            error.message.push_str(prefix(&words, WORDS_MOST));
        }
    }
}
