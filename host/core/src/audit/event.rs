//! Audit events: the lines of the audit log.

use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::call::CallContext;
use crate::decision::Decision;
use crate::error::ToolErrorCode;
use crate::outcome::{Outcome, TrustLevel};
use crate::text;
use crate::tool::{Tool, ToolSource};

use super::{CallSpan, CanaryDirection, EventKind, StopCause};

/// One line of the audit log. Contains no content, and arguments only if the settings allow it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The time of the event or of the call's arrival, RFC 3339 in UTC.
    #[serde(serialize_with = "rfc3339")]
    pub time: SystemTime,
    /// The kind.
    pub event: EventKind,
    /// The id of the call, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The session, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The user, if the front end has users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The role of the user, if users have roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// For a call: the name and version of the program that made it, as that program gives them, masked. Proves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tool's canonical name, or the requested name if there is no such tool; empty if no tool is involved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The subject in addition to the tool: a pattern, a host, the name of a secret, a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Details, as one plain sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The tool that made this nested call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The trace context that the client of a call sent, as W3C's `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The source of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ToolSource>,
    /// sha256 of the tool's build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The decision of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The rule behind the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// True if untrusted content that the session had read was a reason of the decision, even if another rule decided.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
    /// The ids of the calls whose untrusted content the session had read at the time of the decision: the first ones and
    /// the newest. Only those that are known to this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untrusted_reads: Vec<String>,
    /// The person's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// The time until the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The arguments, if the settings allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// True if the operation succeeded: the tool completed, the grant was given.
    pub ok: bool,
    /// The error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ToolErrorCode>,
    /// The cause of the end of the call, if the code does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopCause>,
    /// For a call: wall clock in milliseconds, excluding time spent on approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Units of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Peak memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// For a call: size of the arguments in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// For a call: size of the raw result in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// For a call: estimated number of tokens of the result for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// For a call: number of secrets that were masked in the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_found: Option<u64>,
    /// True if the result was truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// For a call that was retried: number of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// True if the result of an earlier call was returned, and the tool did not run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// For a call: the trust level of its result, if that is untrusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustLevel>,
    /// For a canary: the way on which it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<CanaryDirection>,
    /// The span of the event, if the log exports traces. Not recorded.
    #[serde(skip)]
    pub span: Option<Box<CallSpan>>,
}

/// Maximum length of a recorded tool name, in characters. A model can request any name.
const NAME_MAX: usize = 64;

/// Maximum length of subject and detail, in characters, so that log lines stay readable.
const SUBJECT_MAX: usize = 256;
const DETAIL_MAX: usize = 1000;

impl AuditEvent {
    /// Creates the event of a successful operation, without details.
    pub fn new(kind: EventKind, time: SystemTime) -> Self {
        Self {
            time,
            event: kind,
            id: String::new(),
            session: String::new(),
            user: None,
            role: None,
            client: None,
            tool: String::new(),
            subject: None,
            detail: None,
            parent: None,
            trace: None,
            source: None,
            digest: None,
            decision: None,
            rule: None,
            tainted: false,
            untrusted_reads: Vec::new(),
            answer: None,
            waited_ms: None,
            arguments: None,
            ok: true,
            code: None,
            stop: None,
            duration_ms: None,
            fuel: None,
            peak_memory: None,
            bytes_in: None,
            bytes_out: None,
            tokens: None,
            secrets_found: None,
            truncated: false,
            attempts: None,
            cached: false,
            trust: None,
            direction: None,
            span: None,
        }
    }

    /// Creates the event of a call that has arrived and is not completed.
    pub fn call(time: SystemTime, context: &CallContext, tool: &str) -> Self {
        Self {
            tool: text::prefix(tool, NAME_MAX).to_owned(),
            ok: false,
            ..Self::new(EventKind::Call, time).with_context(context)
        }
    }

    /// Sets the call, the session and the user.
    #[must_use]
    pub fn with_context(mut self, context: &CallContext) -> Self {
        self.id = context.request_id.to_string();
        self.session = context.session_id.clone();
        self.user = context.user.clone();
        self
    }

    /// Sets the tool.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.tool = text::prefix(tool, NAME_MAX).to_owned();
        self
    }

    /// Sets the tool with its source and build.
    #[must_use]
    pub fn with_tool_origin(mut self, tool: &Tool) -> Self {
        self.tool = tool.name().to_string();
        self.source = Some(tool.source);
        self.digest = Some(tool.origin.digest.clone());
        self
    }

    /// Sets the subject, which must contain neither content nor the value of a secret.
    #[must_use]
    pub fn with_subject(mut self, subject: &str) -> Self {
        self.subject = Some(text::prefix(subject, SUBJECT_MAX).to_owned());
        self
    }

    /// Sets the detail, one plain sentence, which must contain neither content nor the value of a secret.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.detail = Some(text::prefix(detail, DETAIL_MAX).to_owned());
        self
    }

    /// Marks the event as refused.
    #[must_use]
    pub fn refused(mut self, code: ToolErrorCode) -> Self {
        self.ok = false;
        self.code = Some(code);
        self
    }

    /// Sets the fields about the outcome of a call.
    pub(crate) fn set_outcome(&mut self, outcome: &Outcome) {
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
        self.attempts = receipt.attempts;
        self.cached = receipt.cached;
        self.trust = Some(outcome.label().trust).filter(|trust| *trust == TrustLevel::Untrusted);
    }
}

/// Serializes a time as RFC 3339 with milliseconds, the format of the log.
pub fn rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let time = jiff::Timestamp::try_from(*time).map_err(serde::ser::Error::custom)?;
    to.collect_str(&format_args!("{time:.3}"))
}
