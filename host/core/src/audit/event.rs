//! One event.

use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::call::CallContext;
use crate::decision::Decision;
use crate::error::Code;
use crate::outcome::Outcome;
use crate::text;
use crate::tool::{Source, Tool};

use super::Kind;

/// One line of the record. Never content; arguments only where the config allows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When it happened, or the call came in, RFC 3339 in UTC.
    #[serde(serialize_with = "rfc3339")]
    pub time: SystemTime,
    /// What happened.
    pub event: Kind,
    /// The call, where there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The session that it belongs to, where there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The user, where the front-end knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool's canonical name, or what was asked for if there is no such tool; empty if it is about none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// What it is about if that is no tool, or more than a tool: a pattern, a host, the name of a secret, a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// One plain sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The tool that made this call in the middle of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The trace context that the client of a call sent, as W3C's `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Where the tool comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// sha256 of what ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What the rules said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The rule whose word it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What a person answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// How long the person took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The arguments, where the config allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Whether it was done: a tool did what it was asked, a grant was given.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Of a call: wall clock in milliseconds, human time excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Units of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Most bytes of memory held at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Of a call: bytes of arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// Of a call: bytes of result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Of a call: about how many tokens its result is to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The number of secrets that were masked in the result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_found: Option<u64>,
    /// Whether the result was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Longest name of a tool that does not exist, as the record keeps it.
const NAME_MAX: usize = 64;

/// Longest subject and longest sentence, in characters: a line of the log is read by people.
const SUBJECT_MAX: usize = 256;
const DETAIL_MAX: usize = 1000;

impl Event {
    /// Something that happened and was done. What it is about comes with [`with_subject`](Self::with_subject),
    /// [`with_detail`](Self::with_detail), [`in_call`](Self::in_call) and the fields.
    pub fn of(kind: Kind, time: SystemTime) -> Self {
        Self {
            time,
            event: kind,
            id: String::new(),
            session: String::new(),
            user: None,
            tool: String::new(),
            subject: None,
            detail: None,
            parent: None,
            trace: None,
            source: None,
            digest: None,
            decision: None,
            rule: None,
            answer: None,
            waited_ms: None,
            arguments: None,
            ok: true,
            code: None,
            duration_ms: None,
            fuel: None,
            peak_memory: None,
            bytes_in: None,
            bytes_out: None,
            tokens: None,
            secrets_found: None,
            truncated: false,
        }
    }

    /// A call that has just come in, and is not done yet.
    pub fn call(time: SystemTime, context: &CallContext, tool: &str) -> Self {
        Self {
            tool: text::prefix(tool, NAME_MAX).to_owned(),
            ok: false,
            ..Self::of(Kind::Call, time).in_call(context)
        }
    }

    /// The call, session and user that it belongs to.
    #[must_use]
    pub fn in_call(mut self, context: &CallContext) -> Self {
        self.id = context.request_id.to_string();
        self.session = context.session_id.clone();
        self.user = context.user.clone();
        self
    }

    /// The tool that it is about.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.tool = text::prefix(tool, NAME_MAX).to_owned();
        self
    }

    /// The tool that it is about, where it comes from and what its build is.
    #[must_use]
    pub fn of_tool(mut self, tool: &Tool) -> Self {
        self.tool = tool.name().to_string();
        self.source = Some(tool.source);
        self.digest = Some(tool.origin.digest.clone());
        self
    }

    /// What it is about. Never content, never a secret's value.
    #[must_use]
    pub fn with_subject(mut self, subject: &str) -> Self {
        self.subject = Some(text::prefix(subject, SUBJECT_MAX).to_owned());
        self
    }

    /// One plain sentence. Never content, never a secret's value.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.detail = Some(text::prefix(detail, DETAIL_MAX).to_owned());
        self
    }

    /// It was asked for and not done.
    #[must_use]
    pub fn refused(mut self, code: Code) -> Self {
        self.ok = false;
        self.code = Some(code);
        self
    }

    /// Fills in how it ended.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        let receipt = outcome.receipt();
        self.ok = outcome.is_ok();
        self.code = outcome.result().err().map(|error| error.code);
        self.duration_ms = Some(receipt.duration_ms);
        self.fuel = receipt.fuel;
        self.peak_memory = receipt.peak_memory;
        self.bytes_out = Some(receipt.bytes_out);
        self.tokens = Some(receipt.tokens);
        let found = u64::from(outcome.redactions());
        self.secrets_found = (found > 0).then_some(found);
        self.truncated = outcome.truncated();
    }
}

/// A time as the log has it.
pub(super) struct Rfc3339(jiff::Timestamp);

impl TryFrom<SystemTime> for Rfc3339 {
    type Error = serde_json::Error;

    fn try_from(time: SystemTime) -> Result<Self, Self::Error> {
        let time = jiff::Timestamp::try_from(time).map_err(serde::ser::Error::custom)?;
        Ok(Self(time))
    }
}

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

/// Writes a time as the log has it.
pub(super) fn rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let time = Rfc3339::try_from(*time).map_err(serde::ser::Error::custom)?;
    to.collect_str(&time)
}
