//! Events of running calls, as consoles receive them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::audit::OutcomeKind;
use crate::call::{LogLevel, RequestId};
use crate::command::CommandStream;
use crate::decision::{Decision, DecisionReason};
use crate::error::ToolErrorCode;
use crate::outcome::{ContentLabel, Receipt};
use crate::text;
use crate::tool::ToolSource;

/// A step of a running call. Contains no secrets and no control characters; its texts are bounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum LiveCallEvent {
    /// The call has arrived.
    Started(Box<StartedCall>),
    /// The rules were evaluated, or a person has answered.
    Decided {
        /// The id of the call.
        id: RequestId,
        /// The decision of the rules.
        decision: Decision,
        /// The rule behind the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The reasons of all rules that applied.
        #[serde(default)]
        reasons: Vec<DecisionReason>,
        /// The state of the call after the decision.
        state: LiveCallState,
        /// The time since which the call is in this state, if it has waited for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// The run time before that, in milliseconds, without the time for which the call has waited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_ms: Option<f64>,
    },
    /// A person has edited the arguments. The rules are evaluated again.
    Edited {
        /// The id of the call.
        id: RequestId,
        /// The masked new arguments as JSON, or the reason in parentheses why they are not shown.
        arguments: String,
        /// True if the arguments were cut.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        arguments_truncated: bool,
    },
    /// An action outside the tool's sandbox was checked, and is carried out unless it was denied.
    Effect {
        /// The id of the call.
        id: RequestId,
        /// The time.
        at: Timestamp,
        /// The kind.
        effect: LiveEffect,
        /// The name of the effect without its content, such as `GET https://example.com`.
        subject: String,
        /// The decision: that of the rules, or `deny` if the effect was refused for any reason.
        decision: Decision,
    },
    /// The tool has reported its progress.
    Progress {
        /// The id of the call.
        id: RequestId,
        /// The completed part, in the tool's own unit.
        done: u64,
        /// The total, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// A message, on one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The tool or its program has written output.
    Output {
        /// The id of the call.
        id: RequestId,
        /// The stream.
        stream: LiveStream,
        /// The level of a log line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<LogLevel>,
        /// The text, at most [`Self::MAX_OUTPUT`] bytes.
        text: String,
    },
    /// The call has ended.
    Finished(Box<LiveCallEnd>),
    /// The process that ran the call has ended or is unreachable, before the call had ended.
    Lost {
        /// The id of the call.
        id: RequestId,
    },
}

impl LiveCallEvent {
    /// Maximum length of the arguments as text, in bytes.
    pub const MAX_ARGUMENTS: usize = 16 << 10;

    /// Maximum length of a piece of output, in bytes.
    pub const MAX_OUTPUT: usize = 4 << 10;

    /// Maximum length of other texts, in bytes.
    pub const MAX_TEXT: usize = 1 << 10;

    /// Maximum number of reasons of a decision.
    pub const MAX_REASONS: usize = 64;

    /// Returns the id of the call.
    pub fn id(&self) -> &RequestId {
        match self {
            Self::Started(call) => &call.id,
            Self::Finished(call) => &call.id,
            Self::Decided { id, .. }
            | Self::Edited { id, .. }
            | Self::Effect { id, .. }
            | Self::Progress { id, .. }
            | Self::Output { id, .. }
            | Self::Lost { id } => id,
        }
    }

    /// Returns an event of another process with its texts cut and cleaned again, and with the process that has sent it.
    #[must_use]
    pub fn cleaned(mut self, process: &LiveProcess) -> Self {
        match &mut self {
            Self::Started(call) => {
                call.process = process.clone();
                let lines = [&mut call.session, &mut call.tool];
                let optional = [
                    &mut call.user,
                    &mut call.client,
                    &mut call.location,
                    &mut call.trace,
                ];
                let optional = optional.into_iter().flatten();
                lines.into_iter().chain(optional).for_each(clean_line);
                clean_text(&mut call.arguments, Self::MAX_ARGUMENTS);
            }
            Self::Decided { rule, reasons, .. } => {
                rule.iter_mut().for_each(clean_line);
                reasons.truncate(Self::MAX_REASONS);
                for reason in reasons {
                    let lines = [&mut reason.rule, &mut reason.source, &mut reason.text];
                    lines.into_iter().for_each(clean_line);
                }
            }
            Self::Edited { arguments, .. } => clean_text(arguments, Self::MAX_ARGUMENTS),
            Self::Effect { subject, .. } => clean_line(subject),
            Self::Progress { message, .. } => message.iter_mut().for_each(clean_line),
            Self::Output { text, .. } => clean_text(text, Self::MAX_OUTPUT),
            Self::Finished(call) => {
                call.message.iter_mut().for_each(clean_line);
                call.undo.iter_mut().for_each(clean_line);
                if let Some(label) = &mut call.label {
                    clean_line(&mut label.origin);
                }
            }
            Self::Lost { .. } => {}
        }
        self
    }
}

fn clean_line(line: &mut String) {
    let visible = text::visible(text::prefix_bytes(line, LiveCallEvent::MAX_TEXT));
    *line = text::prefix_bytes(&visible, LiveCallEvent::MAX_TEXT).to_owned();
}

fn clean_text(text: &mut String, max: usize) {
    let cut = text::prefix_bytes(text, max).to_owned();
    *text = text::sanitize(cut);
    text.truncate(text.floor_char_boundary(max));
}

/// The process that runs a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveProcess {
    /// The command, such as `serve`.
    pub name: String,
    /// The process id.
    pub pid: u32,
}

impl fmt::Display for LiveProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mimir {} ({})", self.name, self.pid)
    }
}

/// A call that has arrived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedCall {
    /// The id of the call.
    pub id: RequestId,
    /// The time of arrival.
    pub at: Timestamp,
    /// The process.
    pub process: LiveProcess,
    /// The session.
    pub session: String,
    /// The user, if the front end has users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The name of the client, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tool.
    pub tool: String,
    /// The source of the tool, if the tool exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ToolSource>,
    /// The file or server of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The id of the call that makes this nested call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RequestId>,
    /// The masked arguments as JSON, or the reason in parentheses why they are not shown.
    pub arguments: String,
    /// True if the arguments were cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arguments_truncated: bool,
    /// The trace context that the client sent, as W3C's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveCallEnd {
    /// The id of the call.
    pub id: RequestId,
    /// The time.
    pub at: Timestamp,
    /// True if the call succeeded.
    pub ok: bool,
    /// The outcome in one word, as in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeKind>,
    /// The error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ToolErrorCode>,
    /// The error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The cost of the call.
    pub receipt: Receipt,
    /// The label of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<ContentLabel>,
    /// The id of the record with which the changes of the call can be undone, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// The state of a call that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveCallState {
    /// The call waits for a person.
    Waiting,
    /// The call is checked or runs.
    Running,
}

/// The kind of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveEffect {
    /// A command.
    Command,
    /// A request to another host or to the client.
    Request,
    /// A changed file.
    File,
    /// A stored value of the plugin.
    Storage,
    /// A secret that was inserted into a request.
    Secret,
    /// A question to the language model.
    Model,
}

/// The stream of a piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Log lines.
    Log,
}

impl From<CommandStream> for LiveStream {
    fn from(stream: CommandStream) -> Self {
        match stream {
            CommandStream::Stdout => Self::Stdout,
            CommandStream::Stderr => Self::Stderr,
        }
    }
}
