//! The record of every call: what is in an event, and the port to where it is kept.

use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::call::CallContext;
use crate::decision::Decision;
use crate::error::Code;
use crate::outcome::Outcome;
use crate::tool::Source;

mod file;

pub use file::FileAudit;

/// One line of the record. Never content; arguments only where the config allows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When the call came in, RFC 3339 in UTC.
    #[serde(serialize_with = "rfc3339")]
    pub time: SystemTime,
    /// What happened.
    pub event: &'static str,
    /// The call.
    pub id: String,
    /// The session that it belongs to.
    pub session: String,
    /// The user, where the front-end knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool's canonical name, or what was asked for if there is no such tool.
    pub tool: String,
    /// The tool that made this call in the middle of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
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
    /// Whether the tool did what it was asked.
    pub ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Wall clock in milliseconds, human time excluded.
    pub duration_ms: f64,
    /// Units of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Most bytes of memory held at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Bytes of arguments.
    pub bytes_in: u64,
    /// Bytes of result.
    pub bytes_out: u64,
    /// Whether the result was cut.
    pub truncated: bool,
}

/// Longest name of a tool that does not exist, as the record keeps it.
const NAME_MAX: usize = 64;

impl Event {
    /// A call that has just come in.
    pub fn call(time: SystemTime, context: &CallContext, tool: &str) -> Self {
        Self {
            time,
            event: "call",
            id: context.request_id.to_string(),
            session: context.session_id.clone(),
            user: context.user.clone(),
            tool: crate::text::prefix(tool, NAME_MAX).to_owned(),
            parent: None,
            source: None,
            digest: None,
            decision: None,
            rule: None,
            answer: None,
            waited_ms: None,
            arguments: None,
            ok: false,
            code: None,
            duration_ms: 0.0,
            fuel: None,
            peak_memory: None,
            bytes_in: 0,
            bytes_out: 0,
            truncated: false,
        }
    }

    /// Fills in how it ended.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        let receipt = outcome.receipt();
        self.ok = outcome.is_ok();
        self.code = outcome.result().err().map(|error| error.code);
        self.duration_ms = receipt.duration_ms;
        self.fuel = receipt.fuel;
        self.peak_memory = receipt.peak_memory;
        self.bytes_out = receipt.bytes_out;
        self.truncated = outcome.truncated();
    }
}

fn rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let time = jiff::Timestamp::try_from(*time).map_err(serde::ser::Error::custom)?;
    to.collect_str(&format_args!("{time:.3}"))
}

/// An event that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {place} cannot be written: {source}")]
pub struct AuditError {
    /// The log.
    pub place: String,
    /// Why.
    pub source: std::io::Error,
}

/// Where the record is kept.
pub trait AuditSink: Send + Sync {
    /// Whether an event could be kept now. Asked before a call takes effect: a call that cannot be
    /// recorded is not made.
    fn ready(&self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Keeps an event; returns when it is kept.
    fn record(&self, event: &Event) -> Result<(), AuditError>;

    /// Whether events carry the arguments.
    fn wants_arguments(&self) -> bool {
        false
    }
}
