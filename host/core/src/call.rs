//! Calls as front ends submit them, before any check.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approver;
use crate::audit::RequestOrigin;
use crate::client_name::ClientName;
use crate::clock::{Deadline, Stopwatch};
use crate::command::CommandStream;
use crate::outcome::Outcome;
use crate::paths::PathRules;
use crate::pipeline::TaintFloor;
use crate::tool::{Tool, ToolName};
use crate::trace_context::TraceContext;
use crate::upstream_request::UpstreamRequestHandler;

/// The id of a call. Ids sort by time and are unique, also across machines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RequestId(String);

impl RequestId {
    /// Capacity for the time, the random part of a process and a counter of up to a few million.
    const INITIAL_CAPACITY: usize = 32;

    /// Creates a unique id for a call that arrives at `now`.
    pub fn new(now: SystemTime) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let millis = now.duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis());
        // Random, because processes in different containers may have the same id.
        static PROCESS: LazyLock<u32> = LazyLock::new(|| {
            let bits = RandomState::new().hash_one(std::process::id());
            (bits >> 32) as u32
        });
        let process = *PROCESS;
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(Self::INITIAL_CAPACITY);
        push_hex(&mut id, u64::try_from(millis).unwrap_or(u64::MAX), 12);
        id.push('-');
        push_hex(&mut id, process.into(), 1);
        id.push('-');
        push_hex(&mut id, count, 1);
        Self(id)
    }

    /// Returns true if a text is a valid request id.
    pub fn is_valid(text: &str) -> bool {
        let is_hex = |part: &str, min_digits| {
            (min_digits..=16).contains(&part.len())
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let first_three = [parts.next(), parts.next(), parts.next()];
        matches!(first_three, [Some(time), Some(process), Some(count)]
            if is_hex(time, 12) && is_hex(process, 1) && is_hex(count, 1))
            && parts.next().is_none()
    }

    /// Parses an id that another process has created.
    pub fn parse(text: &str) -> Option<Self> {
        Self::is_valid(text).then(|| Self(text.to_owned()))
    }

    /// Returns the id as text: lower-case hex digits and `-`, so that it is a valid file name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RequestId {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or("not the id of a call: expected `TIME-PROCESS-COUNT` in hex")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends a number in hex, zero-padded to `min_digits`. Faster than `format!`, because every call needs an id.
fn push_hex(text: &mut String, number: u64, min_digits: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 16];
    for (at, digit) in hex.iter_mut().rev().enumerate() {
        *digit = DIGITS[(number >> (4 * at)) as usize & 15];
    }
    let needed = (u64::BITS - number.leading_zeros())
        .div_ceil(4)
        .max(min_digits);
    let hex = &hex[hex.len() - needed as usize..];
    // All bytes are ASCII.
    text.push_str(std::str::from_utf8(hex).unwrap_or_default());
}

/// The origin of a call. The tool can read it, so it must not contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// The id of the call.
    pub request_id: RequestId,
    /// The id of the call's session.
    pub session_id: String,
    /// The id of the conversation, if the front end has conversations.
    pub conversation_id: Option<String>,
    /// The user, if the front end has users.
    pub user: Option<String>,
}

impl CallContext {
    /// Creates the context of a call without a user, in a new session.
    pub fn new_session(time: SystemTime) -> Self {
        let request_id = RequestId::new(time);
        Self {
            session_id: request_id.to_string(),
            request_id,
            conversation_id: None,
            user: None,
        }
    }
}

/// Progress of a long call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallProgress {
    /// The completed part, in the tool's own unit.
    pub done: u64,
    /// The total, if known.
    pub total: Option<u64>,
    /// A message for display, on one line.
    pub message: Option<String>,
}

impl CallProgress {
    /// Creates the report of a call that waits for a person's answer about `tool`.
    pub fn waiting(tool: &str) -> Self {
        Self {
            done: 0,
            total: None,
            message: Some(format!("waiting for an answer: {tool}")),
        }
    }
}

/// Receives the progress and the log lines of a running tool. They are bounded and have no control characters.
pub trait CallObserver: Send + Sync {
    /// Receives a progress report.
    fn progress(&self, progress: CallProgress);
    /// Receives a progress report whose message is a piece of the output of a program. An observer that forwards
    /// reports forwards the stream, too: the pieces of each stream are masked as one text.
    fn output(&self, _: CommandStream, progress: CallProgress) {
        self.progress(progress);
    }
    /// Receives a line that the tool logged, or wrote to stdout or stderr.
    fn log(&self, line: LogLine);
    /// Receives, at intervals, that the call still waits for a person's answer about `tool`, so that its client does not
    /// give up.
    fn waiting(&self, tool: &str) {
        let _ = tool;
    }
    /// Returns the approver for this call and its effects, such as the client's user. `None` uses the pipeline's.
    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
    /// Returns the W3C trace context (`traceparent`) of the request that made this call, for the audit log.
    fn trace(&self) -> Option<&str> {
        None
    }
    /// Returns the trace context of the request that made this call, for requests that the call makes.
    fn trace_context(&self) -> Option<&TraceContext> {
        None
    }
    /// Returns the request of an MCP client that made this call, for traces.
    fn request_origin(&self) -> Option<&RequestOrigin> {
        None
    }
    /// Returns the name of the program that made this call, for people.
    fn client_name(&self) -> Option<&ClientName> {
        None
    }
    /// Returns the handler for requests that upstream MCP servers send to the client that made this call.
    fn upstream_handler(&self) -> Option<&dyn UpstreamRequestHandler> {
        None
    }
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for the tool's author.
    Debug,
    /// Information about the run.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

/// One line that a tool logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// The level.
    pub level: LogLevel,
    /// The text, without its line end.
    pub text: String,
}

/// An observer that ignores everything.
pub struct NoObserver;

impl CallObserver for NoObserver {
    fn progress(&self, _: CallProgress) {}
    fn log(&self, _: LogLine) {}
}

/// The clients whose calls belong to the session of a call.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum SessionSharing {
    /// One client.
    #[default]
    OneClient,
    /// Any client of one user, whose identity is known.
    OneUser,
    /// Any client, perhaps of several people, whom nothing tells apart. An answer for such a session would count for
    /// people who were not asked about.
    AnyClient,
}

impl SessionSharing {
    /// Returns true if all calls of the session come from one client.
    pub fn is_one_client(&self) -> bool {
        *self == Self::OneClient
    }
}

/// A tool call as a front end submits it.
#[derive(Clone)]
pub struct Call {
    /// The name or an alias of the tool.
    pub tool: String,
    /// The arguments, a JSON object.
    pub arguments: Value,
    /// The origin of the call.
    pub context: CallContext,
    /// Receives progress and log lines.
    pub observer: Arc<dyn CallObserver>,
    /// The calling tool's call, for nested calls.
    pub parent: Option<ParentCall>,
    /// Id of the user on whose behalf the call is made, for limits per user. Nested calls have that of their parent.
    pub caller: Option<Arc<str>>,
    /// The clients that share the session. Set by front ends for each call. Nested calls have the session of their parent.
    pub sharing: SessionSharing,
}

impl Call {
    /// Creates a top-level call without an observer.
    pub fn new(tool: impl Into<String>, arguments: Value, context: CallContext) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            context,
            observer: Arc::new(NoObserver),
            parent: None,
            caller: None,
            sharing: SessionSharing::OneClient,
        }
    }

    /// Returns the nesting depth: 0 for a top-level call.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth + 1)
    }
}

/// Name and build of a tool that calls another tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallingTool {
    /// The tool's canonical name.
    pub tool: ToolName,
    /// sha256 of the component or program that runs it.
    pub digest: String,
}

impl CallingTool {
    /// Returns the name and the build of a tool.
    pub fn from_tool(tool: &Tool) -> Self {
        Self {
            tool: tool.name().clone(),
            digest: tool.origin.digest.clone(),
        }
    }
}

/// The context that a nested call inherits from the call that made it.
#[derive(Clone)]
pub struct ParentCall {
    /// The calling tool.
    pub tool: ToolName,
    /// The calling tool and the tools that called it, the outermost first.
    pub callers: Vec<CallingTool>,
    /// Nesting depth of the outer call.
    pub depth: u32,
    /// The deadline of the outer call, paused while an approval is pending.
    pub deadline: Deadline,
    /// The running time of the outer call, paused while an approval is pending.
    pub stopwatch: Stopwatch,
    /// The path rules of the calling tool, which apply to the nested call, too.
    pub paths: PathRules,
    /// The worst label of the nested calls' results. The outer call's result gets at least this label.
    pub taint_floor: Arc<TaintFloor>,
    /// Set when a person is asked while the outermost call runs.
    pub asked: Arc<AtomicBool>,
    /// Id of the user on whose behalf the outermost call is made.
    pub caller: Option<Arc<str>>,
    /// The user in the context of the outer call.
    pub user: Option<String>,
    /// The id of the outer call.
    pub request_id: RequestId,
}

impl ParentCall {
    /// Adds the label of a nested call's outcome, which the calling tool has read.
    pub fn record_read(&self, outcome: &Outcome) {
        self.taint_floor.add_outcome(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_hex_matches_the_std_hex_format() {
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
    fn request_id_validation_rejects_other_text() {
        let id = RequestId::new(SystemTime::now());
        assert!(RequestId::is_valid(id.as_str()), "{id}");
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
            assert!(!RequestId::is_valid(other), "{other}");
        }
    }
}
