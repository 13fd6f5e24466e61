//! Messages between a mimir process and a console: one JSON text a line.

use mimir_core::RequestId;
use mimir_core::call_monitor::{LiveCallEvent, LiveProcess};
use mimir_core::call_switch::StopNotice;
use serde::{Deserialize, Serialize};

/// Maximum length of a line, in bytes. Senders stay far below it.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Length of a line from which on further events are sent in another one, in bytes. The longest event has less than half
/// of [`MAX_LINE`].
const FULL_LINE: usize = 128 << 10;

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
    /// The sessions whose calls are refused: all of them, after each change.
    Stops(Vec<StopNotice>),
}

/// An order of a console to a process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ConsoleOrder {
    /// Cancel a call.
    Cancel {
        /// The call.
        id: RequestId,
        /// The person.
        by: String,
    },
    /// Refuse the calls of the session that the order names.
    Stop(StopNotice),
    /// Accept the calls of a session again.
    Start {
        /// The session, as consoles show it.
        session: String,
    },
}

/// Returns a message as a line.
pub(super) fn to_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns events as lines, each with the number of its events.
pub(super) fn event_lines(events: &[LiveCallEvent]) -> Vec<(Vec<u8>, usize)> {
    const BEGIN: &[u8] = br#"{"events":["#;
    const END: &[u8] = b"]}\n";
    let mut lines = Vec::new();
    let mut line = BEGIN.to_vec();
    let mut count = 0;
    for event in events {
        if count > 0 {
            line.push(b',');
        }
        let before = line.len();
        if serde_json::to_writer(&mut line, event).is_err() {
            line.truncate(before.saturating_sub(usize::from(count > 0)));
            continue;
        }
        count += 1;
        if line.len() >= FULL_LINE {
            line.extend_from_slice(END);
            lines.push((std::mem::replace(&mut line, BEGIN.to_vec()), count));
            count = 0;
        }
    }
    if count > 0 {
        line.extend_from_slice(END);
        lines.push((line, count));
    }
    lines
}
