//! The messages between the server of a client and the worker that runs the client's call.
//!
//! A call is sent to the subject of one worker, with a reply subject of its own. The worker answers with frames, the
//! last of which ends the call. While the call runs, a frame arrives at least each [`HEARTBEAT`]. Cancellations and
//! answers to questions are sent to the control subject of the worker.

use std::time::Duration;

use bytes::Bytes;
use mimir_core::call::{CallProgress, LogLevel, LogLine};
use mimir_core::command::CommandStream;
use mimir_core::upstream_request::{UpstreamRequest, UpstreamRequestKind};
use mimir_core::wire::{CallMessage, ErrorMessage, OutcomeMessage, ToolMessage};
use mimir_core::{ApprovalAnswer, Card};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod parts;

pub(crate) use parts::{PartJoiner, PartTable, split};

/// Interval between the frames of a running call.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// A call for a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForwardedCall {
    /// The call.
    pub call: CallMessage,
    /// Id of the node that sends it. When its lease ends, the call is cancelled.
    pub front: String,
    /// True if the client can answer approval questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_ask: bool,
    /// True if the client must answer each question itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub separate_answers: bool,
    /// The requests of upstream servers that the client supports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<RequestKind>,
}

/// The order to make a background call of a call that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeepOrder {
    /// Id of the background call.
    pub id: String,
    /// Digest of the owner's name.
    pub owner: String,
    /// The tool.
    pub tool: String,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: u64,
}

/// A kind of upstream request in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RequestKind {
    Form,
    Page,
    Model,
    Roots,
}

impl RequestKind {
    pub(crate) const ALL: [Self; 4] = [Self::Form, Self::Page, Self::Model, Self::Roots];
}

impl From<RequestKind> for UpstreamRequestKind {
    fn from(kind: RequestKind) -> Self {
        match kind {
            RequestKind::Form => Self::Form,
            RequestKind::Page => Self::Page,
            RequestKind::Model => Self::Model,
            RequestKind::Roots => Self::Roots,
        }
    }
}

impl From<UpstreamRequestKind> for RequestKind {
    fn from(kind: UpstreamRequestKind) -> Self {
        match kind {
            UpstreamRequestKind::Form => Self::Form,
            UpstreamRequestKind::Page => Self::Page,
            UpstreamRequestKind::Model => Self::Model,
            UpstreamRequestKind::Roots => Self::Roots,
        }
    }
}

/// A request of an upstream server in messages.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestMessage {
    name: String,
    kind: RequestKind,
    params: Value,
}

impl From<UpstreamRequest> for RequestMessage {
    fn from(request: UpstreamRequest) -> Self {
        Self {
            name: request.name,
            kind: request.kind.into(),
            params: request.params,
        }
    }
}

impl From<RequestMessage> for UpstreamRequest {
    fn from(message: RequestMessage) -> Self {
        Self {
            name: message.name,
            kind: message.kind.into(),
            params: message.params,
        }
    }
}

/// Progress in messages.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgressMessage {
    done: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl ProgressMessage {
    /// Returns the text for people.
    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl From<CallProgress> for ProgressMessage {
    fn from(progress: CallProgress) -> Self {
        Self {
            done: progress.done,
            total: progress.total,
            message: progress.message,
        }
    }
}

impl From<ProgressMessage> for CallProgress {
    fn from(message: ProgressMessage) -> Self {
        Self {
            done: message.done,
            total: message.total,
            message: message.message,
        }
    }
}

/// A level of a log line in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelMessage {
    Debug,
    Info,
    Warn,
    Error,
}

/// A log line in messages.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogMessage {
    level: LevelMessage,
    text: String,
}

impl From<LogLine> for LogMessage {
    fn from(line: LogLine) -> Self {
        let level = match line.level {
            LogLevel::Debug => LevelMessage::Debug,
            LogLevel::Info => LevelMessage::Info,
            LogLevel::Warn => LevelMessage::Warn,
            LogLevel::Error => LevelMessage::Error,
        };
        Self {
            level,
            text: line.text,
        }
    }
}

impl From<LogMessage> for LogLine {
    fn from(message: LogMessage) -> Self {
        let level = match message.level {
            LevelMessage::Debug => LogLevel::Debug,
            LevelMessage::Info => LogLevel::Info,
            LevelMessage::Warn => LogLevel::Warn,
            LevelMessage::Error => LogLevel::Error,
        };
        Self {
            level,
            text: message.text,
        }
    }
}

/// A frame from a worker about one call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum WorkerFrame {
    /// The worker has accepted the call, and still runs it.
    Running,
    /// The call reports progress.
    Progress(ProgressMessage),
    /// A program of the call has written to stdout or stderr.
    Output {
        is_error: bool,
        progress: ProgressMessage,
    },
    /// The call has logged a line.
    Log(LogMessage),
    /// A person is asked. The answer is sent as [`ControlMessage::Answer`].
    Question { id: u64, card: Box<Card> },
    /// The question needs no answer any more.
    QuestionEnded { id: u64 },
    /// An upstream server has requests to the client. The answers are sent as [`ControlMessage::UpstreamAnswers`].
    Upstream {
        id: u64,
        requests: Vec<RequestMessage>,
    },
    /// The answer to [`ControlMessage::Keep`]: true if the call is a background call from now on.
    Kept { stored: bool },
    /// The call has ended, and its outcome is on record.
    Done(Box<OutcomeMessage>),
    /// The worker has stopped the call, and recorded it as cancelled.
    Stopped,
    /// Another process has closed the node under which the worker accepted the call. The audit log decides about it.
    Closed,
    /// The call has ended, and its outcome is on record, but the worker has not kept the result.
    Ended,
    /// The worker has no capacity. The call has not run and never will.
    Busy { retry_after_ms: u64 },
    /// The worker has accepted the call and given it up before it ran. It never will.
    GivenUp,
    /// The worker does not run the call, and never will under this reply subject.
    NotRunning,
}

impl WorkerFrame {
    /// Returns true if the frame may be dropped: it only reports what the call does.
    pub(crate) fn is_report(&self) -> bool {
        matches!(
            self,
            WorkerFrame::Progress(_) | WorkerFrame::Output { .. } | WorkerFrame::Log(_)
        )
    }

    /// Returns the frame for output of a program.
    pub(crate) fn output(stream: CommandStream, progress: CallProgress) -> Self {
        WorkerFrame::Output {
            is_error: matches!(stream, CommandStream::Stderr),
            progress: progress.into(),
        }
    }
}

/// A message about a call that was sent before, or about a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ControlMessage {
    /// The client no longer waits for the call with this reply subject.
    Cancel { call: String },
    /// Makes a background call of the call: the worker runs it also if the server is lost, stores its outcome, and answers
    /// with [`WorkerFrame::Kept`]. The server sends this until it has the answer.
    Keep {
        call: String,
        order: KeepOrder,
        /// Stream sequence of the last line of the worker before it got the call.
        recorded: u64,
    },
    /// Asks whether the call runs: the worker answers to its reply subject. It also repeats its open questions, except
    /// those in `asked`: either the question or the answer was lost with a connection, or is on its way.
    Probe {
        call: String,
        /// The questions that the client has not answered yet. Servers of earlier versions do not name them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Vec<u64>>,
    },
    /// The client's answer to a question.
    Answer {
        call: String,
        id: u64,
        answer: ApprovalAnswer,
    },
    /// The client's answers to upstream requests.
    UpstreamAnswers {
        call: String,
        id: u64,
        answers: Result<Vec<Value>, ErrorMessage>,
    },
    /// A session has ended.
    EndSession { session: String },
    /// Asks for the tools. The worker answers with a [`RemoteToolList`].
    ListTools,
}

/// The tools of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoteToolList {
    /// Digest of the tools, as in the entry of the node.
    pub digest: String,
    /// The tools.
    pub tools: Vec<ToolMessage>,
}

/// Encodes a message, in parts if the server does not accept it as a whole.
pub(crate) fn encode(message: &impl Serialize, max_payload: usize) -> Vec<Bytes> {
    match serde_json::to_vec(message) {
        Ok(json) => split(&json, max_payload),
        // All keys of maps are texts, so this cannot happen.
        Err(error) => {
            tracing::error!(%error, "a message cannot be encoded");
            Vec::new()
        }
    }
}

/// Decodes a message. `None` if it is not valid, which is logged.
pub(crate) fn decode<T: DeserializeOwned>(message: &[u8]) -> Option<T> {
    match serde_json::from_slice(message) {
        Ok(decoded) => Some(decoded),
        Err(error) => {
            tracing::warn!(%error, "a message of the cluster is not valid");
            None
        }
    }
}
