//! Messages between a mimir process and a console: one JSON text a line.

use mimir_core::RequestId;
use mimir_core::call_monitor::{LiveCallEvent, LiveProcess};
use serde::{Deserialize, Serialize};

/// Maximum length of a line, in bytes. Senders stay far below it.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Number of events in one message, so that a line stays below [`MAX_LINE`].
pub(super) const MAX_EVENTS: usize = 32;

/// A message of a process to a console.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PublisherMessage {
    /// The first message.
    Hello(LiveProcess),
    /// Steps of calls, in order.
    Events(Vec<LiveCallEvent>),
    /// Number of events that were dropped since the last such message.
    Dropped(u64),
}

/// A message of a console to a process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ConsoleMessage {
    /// Cancel a call.
    Cancel {
        /// The call.
        id: RequestId,
        /// The person.
        by: String,
    },
}

/// Returns a message as a line.
pub(super) fn to_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}
