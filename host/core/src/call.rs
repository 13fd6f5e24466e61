//! A call as it comes in, before anybody has judged it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approver;
use crate::clock::{Deadline, Watch};
use crate::outcome::Outcome;
use crate::paths::PathRules;
use crate::pipeline::Floor;
use crate::tool::{Tool, ToolName};
use crate::wish::Client;

/// Names one call. Sorts by time, and is unique on a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(String);

impl RequestId {
    /// Room for the time, a process and a few million calls.
    const USUAL: usize = 32;

    /// The id of a call that comes in at `now`.
    pub fn new(now: SystemTime) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let millis = now.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis());
        // Asking the system every time would cost as much as all the rest.
        static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
        let process = *PROCESS;
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(Self::USUAL);
        push_hex(&mut id, u64::try_from(millis).unwrap_or(u64::MAX), 12);
        id.push('-');
        push_hex(&mut id, process.into(), 1);
        id.push('-');
        push_hex(&mut id, count, 1);
        Self(id)
    }

    /// Whether a text could be one.
    pub fn is_one(text: &str) -> bool {
        let hex = |part: &str, least| {
            (least..=16).contains(&part.len())
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let three = [parts.next(), parts.next(), parts.next()];
        matches!(three, [Some(time), Some(process), Some(count)]
            if hex(time, 12) && hex(process, 1) && hex(count, 1))
            && parts.next().is_none()
    }

    /// The id as text: lower-case hex digits and `-`, so it can be a file name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds a number in hex, with zeros up to `least` digits. Formatting takes longer, and each call has a name.
fn push_hex(text: &mut String, number: u64, least: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 16];
    for (at, digit) in hex.iter_mut().rev().enumerate() {
        *digit = DIGITS[(number >> (4 * at)) as usize & 15];
    }
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(4).max(least);
    let hex = &hex[hex.len() - needed as usize..];
    // They are ASCII.
    text.push_str(std::str::from_utf8(hex).unwrap_or_default());
}

/// Who calls, and from where. Nothing here is secret: the tool sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// This call.
    pub request_id: RequestId,
    /// The session that it belongs to.
    pub session_id: String,
    /// The conversation, where the front-end has one.
    pub conversation_id: Option<String>,
    /// The user, where the front-end knows one.
    pub user: Option<String>,
}

/// Progress of a long call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// How much is done, in the tool's own unit.
    pub done: u64,
    /// Of how much.
    pub total: Option<u64>,
    /// One line for a person.
    pub message: Option<String>,
}

/// What a tool says while it runs: progress and log lines, bounded and free of control characters.
pub trait Observer: Send + Sync {
    /// The tool reports progress.
    fn progress(&self, progress: Progress);
    /// The tool logs a line, or writes one to stdout or stderr.
    fn log(&self, line: LogLine);
    /// Who is asked about this call and what it does, instead of whom the pipeline asks: the person whose client
    /// made it.
    fn person(&self) -> Option<&dyn Approver> {
        None
    }
    /// The W3C trace context of the request that made this call (`traceparent`), for the record.
    fn trace(&self) -> Option<&str> {
        None
    }
    /// The client that made this call, where a server behind the tool may want something of it.
    fn client(&self) -> Option<&dyn Client> {
        None
    }
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the tool's author.
    Debug,
    /// For anyone who follows along.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// One line that a tool logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The text, without its line end.
    pub text: String,
}

/// An observer who looks away.
pub struct Unobserved;

impl Observer for Unobserved {
    fn progress(&self, _: Progress) {}
    fn log(&self, _: LogLine) {}
}

/// A tool call as a front-end hands it in.
#[derive(Clone)]
pub struct Call {
    /// Name or alias.
    pub tool: String,
    /// The arguments, a JSON object.
    pub arguments: Value,
    /// Who calls.
    pub context: CallContext,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// The call in the middle of which this one was made.
    pub parent: Option<Parent>,
}

impl Call {
    /// A call from outside, watched by nobody.
    pub fn new(tool: impl Into<String>, arguments: Value, context: CallContext) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            context,
            observer: Arc::new(Unobserved),
            parent: None,
        }
    }

    /// How many calls this one is nested in.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth + 1)
    }
}

/// A tool that calls another one: the name, and the build that has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// The tool's canonical name.
    pub tool: ToolName,
    /// sha256 of what runs it.
    pub digest: String,
}

impl Caller {
    /// This tool as a caller.
    pub fn of(tool: &Tool) -> Self {
        Self {
            tool: tool.name().clone(),
            digest: tool.origin.digest.clone(),
        }
    }
}

/// What a nested call inherits from the call around it.
#[derive(Clone)]
pub struct Parent {
    /// The calling tool.
    pub tool: ToolName,
    /// It and the tools in the middle of whose calls it was called, the outermost first.
    pub callers: Vec<Caller>,
    /// How deep the calling tool's own call was.
    pub depth: u32,
    /// The time that the outer call has; it stands still while a person is asked.
    pub deadline: Deadline,
    /// How long the outer call has been under way; it stands still just so.
    pub watch: Watch,
    /// What the calling tool may not reach or change; the nested call may not either.
    pub paths: PathRules,
    /// What the nested calls have brought in; the calling tool's result is no better than that.
    pub floor: Arc<Floor>,
}

impl Parent {
    /// A call in the middle of the calling tool's own has ended: what it has read, that one has.
    pub fn has_read(&self, outcome: &Outcome) {
        self.floor.note(outcome.label());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_others_write_them() {
        for number in [0, 1, 15, 16, 255, 0x0123_4567_89ab_cdef, u64::MAX] {
            let mut text = String::new();
            push_hex(&mut text, number, 1);
            assert_eq!(text, format!("{number:x}"));
            text.clear();
            push_hex(&mut text, number, 12);
            assert_eq!(text, format!("{number:012x}"));
        }
    }

    #[test]
    fn an_id_is_told_from_other_names() {
        let id = RequestId::new(SystemTime::now());
        assert!(RequestId::is_one(id.as_str()), "{id}");
        for other in [
            "",
            "a-1",
            "plan-2024-05",
            "0123456789ab-1",
            "0123456789ab-1-",
            "0123456789ab-1-2-3",
            "0123456789AB-1-2",
            "0123456789ab-1-../x",
        ] {
            assert!(!RequestId::is_one(other), "{other}");
        }
    }
}
