//! Requests to the backend, and the roles that they need.

use serde::Deserialize;
use serde_json::Value;

use crate::user::ConsoleRole;

/// A request to the backend, as its route and body say. Ids and names are those that the client sent: limited in length and
/// characters, but otherwise unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum ConsoleRequest {
    /// `GET api/state`: an object with `workspace`, `stop` and `cluster`. Version, user, role and time are added to it.
    State,
    /// `GET api/calls`.
    Calls,
    /// `POST api/calls/ID/cancel`.
    CancelCall {
        /// Id of the call.
        id: String,
    },
    /// `GET api/agents`.
    Agents,
    /// `POST api/agents/stop`.
    StopAgent {
        /// Id of the agent's process.
        pid: u32,
        /// Session of the agent.
        session: String,
        /// Reason that the agent is shown.
        reason: Option<String>,
    },
    /// `POST api/agents/start`.
    StartAgent {
        /// Id of the agent's process.
        pid: u32,
        /// Session of the agent.
        session: String,
    },
    /// `POST api/stop`.
    StopAll {
        /// Reason that callers are shown.
        reason: Option<String>,
    },
    /// `POST api/start`.
    StartAll,
    /// `GET api/questions`.
    Questions,
    /// `POST api/questions/ID/answer`.
    AnswerQuestion {
        /// Id of the question.
        id: String,
        /// The answer, with the fingerprint of the card that the person saw.
        answer: QuestionAnswer,
    },
    /// `POST api/questions/ID/matches`.
    QuestionMatches {
        /// Id of the question.
        id: String,
        /// Patterns to test instead of the offered ones.
        pattern: Option<Vec<String>>,
    },
    /// `GET api/record`.
    Record(RecordFilter),
    /// `GET api/record/calls/ID`.
    CallStory {
        /// Id of the call.
        id: String,
    },
    /// `GET api/record/verify`.
    VerifyRecord,
    /// `GET api/record/charts`.
    Charts {
        /// Period until now, from 1 to 90 days.
        days: u32,
    },
    /// `GET api/tools`.
    Tools,
    /// `GET api/tools/NAME`.
    ToolDetails {
        /// Name of the tool.
        name: String,
    },
    /// `POST api/tools/NAME/switch`.
    SwitchTool {
        /// Name of the tool.
        name: String,
        /// True to switch the tool on.
        on: bool,
    },
    /// `POST api/tools/NAME/trust`.
    TrustTool {
        /// Name of the tool.
        name: String,
        /// Digest of the version that the person saw.
        digest: String,
    },
    /// `GET api/servers`.
    Servers,
    /// `POST api/servers/NAME/start`, `stop` or `restart`.
    ControlServer {
        /// Name of the MCP server.
        name: String,
        /// Change of its state.
        action: ServerAction,
    },
    /// `GET api/sessions`.
    Sessions,
    /// `GET api/workers`.
    Workers,
    /// `GET api/memory`.
    Memory,
    /// `GET api/packages`.
    Packages,
    /// `GET api/undo`.
    UndoRecords,
    /// `GET api/undo/ID`.
    UndoDetails {
        /// Id of the undo record.
        id: String,
    },
    /// `POST api/undo/ID`.
    Undo {
        /// Id of the undo record.
        id: String,
    },
    /// `GET api/policy`.
    Policy,
    /// `POST api/policy/explain`.
    ExplainCall {
        /// Name of the tool.
        tool: String,
        /// Arguments of the example call.
        arguments: Value,
        /// Edit that is assumed.
        edit: Option<PolicyEdit>,
    },
    /// `POST api/policy/what-if`.
    WhatIf {
        /// Edit that is assumed.
        edit: PolicyEdit,
        /// Period until now, from 1 to 90 days.
        days: u32,
    },
    /// `POST api/policy/propose`.
    ProposeEdit {
        /// Edit whose diff is wanted.
        edit: PolicyEdit,
    },
    /// `POST api/policy/apply`.
    ApplyEdit {
        /// Edit to write.
        edit: PolicyEdit,
        /// Digest of the file from which the person's diff was made.
        digest: String,
    },
    /// `GET api/policy/least-privilege`.
    LeastPrivilege,
    /// `POST api/approvals/ID/revoke`.
    RevokeApproval {
        /// Id of the stored approval.
        id: String,
    },
}

impl ConsoleRequest {
    /// Returns the least role that may make this request.
    pub fn required_role(&self) -> ConsoleRole {
        match self {
            ConsoleRequest::State
            | ConsoleRequest::Calls
            | ConsoleRequest::Agents
            | ConsoleRequest::Questions
            | ConsoleRequest::QuestionMatches { .. }
            | ConsoleRequest::Record(_)
            | ConsoleRequest::CallStory { .. }
            | ConsoleRequest::VerifyRecord
            | ConsoleRequest::Charts { .. }
            | ConsoleRequest::Tools
            | ConsoleRequest::ToolDetails { .. }
            | ConsoleRequest::Servers
            | ConsoleRequest::Sessions
            | ConsoleRequest::Workers
            | ConsoleRequest::Memory
            | ConsoleRequest::Packages
            | ConsoleRequest::UndoRecords
            | ConsoleRequest::UndoDetails { .. }
            | ConsoleRequest::Policy
            | ConsoleRequest::ExplainCall { .. }
            | ConsoleRequest::WhatIf { .. }
            | ConsoleRequest::LeastPrivilege => ConsoleRole::Viewer,
            ConsoleRequest::AnswerQuestion { .. }
            | ConsoleRequest::CancelCall { .. }
            | ConsoleRequest::StopAgent { .. }
            | ConsoleRequest::StartAgent { .. }
            | ConsoleRequest::RevokeApproval { .. } => ConsoleRole::Approver,
            ConsoleRequest::StopAll { .. }
            | ConsoleRequest::StartAll
            | ConsoleRequest::SwitchTool { .. }
            | ConsoleRequest::TrustTool { .. }
            | ConsoleRequest::ControlServer { .. }
            | ConsoleRequest::Undo { .. }
            // The difference shows lines of the settings file, which may have passwords.
            | ConsoleRequest::ProposeEdit { .. }
            | ConsoleRequest::ApplyEdit { .. } => ConsoleRole::Admin,
        }
    }
}

/// Answer of a person to a question.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionAnswer {
    /// Fingerprint of the card that the person saw. The answer counts only for this card.
    pub fingerprint: String,
    /// The answer.
    pub answer: QuestionAnswerKind,
    /// Digest of the preview that the person saw. An answer that allows the call counts only for this difference.
    #[serde(default)]
    pub preview: Option<String>,
    /// Arguments that replace those of the call, for [`QuestionAnswerKind::Edit`].
    #[serde(default)]
    pub arguments: Option<Value>,
    /// Reason that the model is shown, for [`QuestionAnswerKind::No`].
    #[serde(default)]
    pub reason: Option<String>,
    /// Command patterns instead of the offered ones; must not cover more than those.
    #[serde(default, deserialize_with = "one_or_many")]
    pub pattern: Option<Vec<String>>,
}

/// Kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionAnswerKind {
    /// Allows this call.
    Once,
    /// Allows this call and the like for the rest of the session.
    Session,
    /// Allows this call and the like from now on.
    Always,
    /// Allows the call with other arguments.
    Edit,
    /// Refuses this call.
    No,
}

/// Conditions for lines of the audit record. All must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Name of the tool.
    pub tool: Option<String>,
    /// Outcome of the call or effect: ok, refused, stopped, limited, unavailable or failed.
    pub outcome: Option<String>,
    /// Error code of the call or effect, in any case.
    pub code: Option<String>,
    /// Decision of the policy.
    pub decision: Option<String>,
    /// Name of the event.
    pub event: Option<String>,
    /// Session.
    pub session: Option<String>,
    /// Part of the name of the agent that made the call, in any case.
    pub client: Option<String>,
    /// Host that was contacted.
    pub host: Option<String>,
    /// File that was read or changed.
    pub file: Option<String>,
    /// Text anywhere in the line.
    pub text: Option<String>,
    /// Earliest time, RFC 3339.
    pub since: Option<String>,
    /// Time after the last one, RFC 3339.
    pub until: Option<String>,
    /// Sequence number after the last one, for the next page.
    pub before: Option<u64>,
    /// Maximum number of lines, from 1 to 200. Does not apply to exports.
    pub limit: usize,
}

/// Change of the state of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAction {
    /// Start the server.
    Start,
    /// Stop the server.
    Stop,
    /// Stop the server and start it again.
    Restart,
}

/// Edit of a settings file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyEdit {
    /// File to edit.
    pub file: PolicyEditFile,
    /// Changes, in this order.
    pub changes: Vec<PolicyChange>,
}

/// Settings file that the console can edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEditFile {
    /// Settings of the user.
    User,
    /// Settings of the project.
    Project,
}

/// Change of a setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WrittenChange")]
pub struct PolicyChange {
    /// Path of the key, as for `mimir config set`.
    pub key: String,
    /// New value; null removes the key.
    pub value: Value,
    /// New value as YAML, as for `mimir config set`, in place of `value`.
    pub yaml: Option<String>,
}

/// A change of a setting in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChange {
    key: String,
    /// `None` if it is missing, which is not the same as null.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    #[serde(default)]
    yaml: Option<String>,
}

impl TryFrom<WrittenChange> for PolicyChange {
    type Error = &'static str;

    fn try_from(change: WrittenChange) -> Result<Self, Self::Error> {
        if change.value.is_none() && change.yaml.is_none() {
            return Err("a change needs `value` or `yaml`: null removes the key");
        }
        Ok(Self {
            key: change.key,
            value: change.value.unwrap_or_default(),
            yaml: change.yaml,
        })
    }
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads one text or a list of texts.
pub(crate) fn one_or_many<'de, D>(deserializer: D) -> Result<Option<Vec<String>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<OneOrMany>::deserialize(deserializer)? {
        None => None,
        Some(OneOrMany::One(text)) => Some(vec![text]),
        Some(OneOrMany::Many(texts)) => Some(texts),
    })
}
