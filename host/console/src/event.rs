//! Events from the backend to all open pages.

use futures::stream::BoxStream;
use serde::Serialize;

/// Events from a backend, in the order in which they happened. The stream ends with the backend.
pub type ConsoleEvents = BoxStream<'static, ConsoleEvent>;

/// Kind of an event, which is also its name on the event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleEventKind {
    /// Something happened to a running call. Sent in batches.
    Call,
    /// A question is new or has changed.
    Question,
    /// A question was answered or has expired.
    QuestionEnded,
    /// The audit record has a new line. Sent in batches.
    Record,
    /// All calls were stopped, or may run again: the stop object or null.
    Stop,
    /// A list of the console has changed and should be reloaded: `{"what": "tools"}`.
    Changed,
}

impl ConsoleEventKind {
    /// Returns the name on the event stream.
    pub fn as_str(self) -> &'static str {
        match self {
            ConsoleEventKind::Call => "call",
            ConsoleEventKind::Question => "question",
            ConsoleEventKind::QuestionEnded => "question-ended",
            ConsoleEventKind::Record => "record",
            ConsoleEventKind::Stop => "stop",
            ConsoleEventKind::Changed => "changed",
        }
    }

    /// Returns true for kinds that are collected for a short time and sent as an array. The others are sent at once.
    pub(crate) fn is_batched(self) -> bool {
        matches!(self, ConsoleEventKind::Call | ConsoleEventKind::Record)
    }
}

/// An event for all open pages.
#[derive(Debug, Clone)]
pub struct ConsoleEvent {
    /// Kind.
    pub kind: ConsoleEventKind,
    /// One JSON value without line breaks. Of batched kinds, an element of the array.
    pub data: String,
}

impl ConsoleEvent {
    /// Creates an event from a value that serializes to JSON.
    ///
    /// ```
    /// use mimir_console::{ConsoleEvent, ConsoleEventKind};
    ///
    /// let what = serde_json::json!({"what": "tools"});
    /// let event = ConsoleEvent::new(ConsoleEventKind::Changed, &what)?;
    /// assert_eq!(event.data, r#"{"what":"tools"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn new(kind: ConsoleEventKind, data: &impl Serialize) -> Result<Self, serde_json::Error> {
        let data = serde_json::to_string(data)?;
        Ok(Self { kind, data })
    }
}
