//! Calls in the audit log, as charts and rules need them.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_core::ToolError;
use mimir_core::audit::OutcomeKind;
use mimir_core::client_name::ClientName;
use serde::Deserialize;
use serde_json::Value;

use mimir::setup::HostSetup;

use super::call_subject::{shortened, subject_of_arguments};
use super::record_source::{RecordSource, SearchedLines};

/// Beginnings of the subjects of effects that may change something.
const CHANGING_EFFECTS: [&str; 5] = ["run ", "POST ", "PUT ", "PATCH ", "DELETE "];

/// A line of the log about a call, or about an effect of a call.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedCall {
    /// The event: a call or an effect.
    pub(super) event: String,
    /// The id.
    pub id: String,
    /// The time of arrival.
    #[serde(deserialize_with = "lenient_time")]
    pub time: Timestamp,
    /// The session.
    pub session: String,
    /// The user.
    pub user: Option<String>,
    /// The program that made the call, as it names itself. Lines of earlier versions lack it.
    pub client: Option<String>,
    /// The tool.
    pub tool: String,
    /// The tool that made this nested call.
    pub parent: Option<String>,
    /// The decision of the rules.
    pub decision: Option<String>,
    /// The rule behind the decision.
    pub rule: Option<String>,
    /// The person's answer, or the kind of the stored approval.
    pub answer: Option<String>,
    /// True if the tool succeeded.
    pub ok: bool,
    /// The error code.
    pub code: Option<String>,
    /// The cause of the end of the call, if the code does not tell it.
    pub stop: Option<String>,
    /// True if untrusted content was a reason of the decision.
    pub tainted: bool,
    /// The calls whose untrusted content the session had read.
    pub untrusted_reads: Vec<String>,
    /// The subject of an effect.
    pub subject: Option<String>,
    /// The run time.
    pub duration_ms: Option<f64>,
    /// The estimated tokens of the result.
    pub tokens: u64,
    /// The trust level of the result, if it is untrusted.
    pub trust: Option<String>,
    /// The source of the tool.
    pub source: String,
    /// The digest of the tool's build.
    pub digest: String,
    /// The shortened arguments, if they are recorded.
    pub arguments: Option<Value>,
}

impl Default for AuditedCall {
    fn default() -> Self {
        Self {
            event: String::new(),
            id: String::new(),
            time: Timestamp::UNIX_EPOCH,
            session: String::new(),
            user: None,
            client: None,
            tool: String::new(),
            parent: None,
            decision: None,
            rule: None,
            answer: None,
            ok: false,
            code: None,
            stop: None,
            tainted: false,
            untrusted_reads: Vec::new(),
            subject: None,
            duration_ms: None,
            tokens: 0,
            trust: None,
            source: String::new(),
            digest: String::new(),
            arguments: None,
        }
    }
}

fn lenient_time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(from)?;
    Ok(text.parse().unwrap_or(Timestamp::UNIX_EPOCH))
}

impl AuditedCall {
    /// Parses a line. Returns `None` if it is about neither a call nor an effect.
    pub fn read(line: &[u8]) -> Option<Self> {
        let call: Self = serde_json::from_slice(line).ok()?;
        matches!(call.event.as_str(), "call" | "effect").then_some(call)
    }

    /// Returns the outcome.
    pub fn outcome(&self) -> OutcomeKind {
        OutcomeKind::from_record(self.ok, self.code.as_deref(), self.stop.as_deref())
    }

    /// Returns true for a line about an effect of a call.
    pub fn is_effect(&self) -> bool {
        self.event == "effect"
    }

    /// Returns true if untrusted content was a reason of the decision. Lines of earlier versions say so only if that reason
    /// was the decisive one.
    pub fn is_tainted(&self) -> bool {
        let rule = self.rule.as_deref().unwrap_or_default();
        self.tainted || rule.starts_with("taint: untrusted")
    }

    /// Returns true for an effect that may have changed something: a command, or a request that does not only read.
    pub fn is_change(&self) -> bool {
        let subject = self.subject.as_deref().unwrap_or_default();
        let mut changing = CHANGING_EFFECTS.iter();
        self.is_effect() && self.ok && changing.any(|start| subject.starts_with(start))
    }

    /// Returns true if the rules asked or refused, or the call did not run.
    pub fn was_asked_or_refused(&self) -> bool {
        let decision = self.decision.as_deref();
        let outcome = self.outcome();
        decision.is_some_and(|decision| decision != "allow")
            || self.was_asked()
            || matches!(outcome, OutcomeKind::Refused | OutcomeKind::Stopped)
    }

    /// Returns the page, the file or the command that the line names.
    pub fn subject(&self) -> Option<String> {
        let named = self.arguments.as_ref().and_then(subject_of_arguments);
        named.or_else(|| self.subject.as_deref().map(shortened))
    }

    /// Returns the program that made the call, as it names itself, as one short line.
    pub fn shown_client(&self) -> Option<String> {
        let name = ClientName::new(self.client.as_deref()?)?;
        Some(name.to_string())
    }

    /// Returns true if a person was asked. A call that ended while it waited has no answer.
    pub fn was_asked(&self) -> bool {
        match self.answer.as_deref() {
            Some(answer) => matches!(
                answer,
                "once" | "session" | "always" | "edit" | "no" | "nobody" | "beforehand"
            ),
            None => !self.is_effect() && self.decision.as_deref() == Some("ask"),
        }
    }

    /// Returns the arguments if they are complete: long ones are shortened in the log.
    pub fn complete_arguments(&self) -> Option<&Value> {
        self.arguments.as_ref().filter(|value| is_complete(value))
    }

    /// Describes the call in one line.
    pub fn summary(&self) -> String {
        match &self.arguments {
            Some(arguments) => {
                let text = mimir_core::text::visible(&arguments.to_string());
                let cut = mimir_core::text::prefix(&text, 160);
                let dots = if cut.len() < text.len() { "…" } else { "" };
                format!("{} {cut}{dots}", self.tool)
            }
            None => self.tool.clone(),
        }
    }
}

/// Returns false if a part of the value was left out when it was recorded.
fn is_complete(value: &Value) -> bool {
    match value {
        Value::String(text) => !(text.ends_with("more)") && text.contains("… (")),
        Value::Array(items) => items.iter().all(is_complete),
        Value::Object(map) => !map.contains_key("…") && map.values().all(is_complete),
        _ => true,
    }
}

/// Time by which a call may have begun before the line that was written last: calls are recorded when they end.
pub const LONGEST_CALL: SignedDuration = SignedDuration::from_hours(24);

/// Passes the calls since a time to `visit`, those that ended last first, until it breaks.
pub fn visit_calls(
    setup: &HostSetup,
    since: Timestamp,
    visit: impl FnMut(AuditedCall) -> ControlFlow<()>,
) -> Result<SearchedLines, ToolError> {
    visit_lines(setup, since, false, visit)
}

/// Like [`visit_calls`], and also passes the effects that were decided because of untrusted content, and those that may
/// have changed something.
pub fn visit_calls_and_notable_effects(
    setup: &HostSetup,
    since: Timestamp,
    visit: impl FnMut(AuditedCall) -> ControlFlow<()>,
) -> Result<SearchedLines, ToolError> {
    visit_lines(setup, since, true, visit)
}

/// Returns false for lines that are not about an effect that was decided because of untrusted content, or that may have
/// changed something.
pub fn is_notable_effect(line: &str) -> bool {
    let is_change = || {
        let subject = line.split_once("\"subject\":\"").map(|(_, rest)| rest);
        let mut changing = CHANGING_EFFECTS.iter();
        subject.is_some_and(|subject| changing.any(|start| subject.starts_with(start)))
    };
    line.contains("\"event\":\"effect\"")
        && (line.contains("\"tainted\":true")
            || line.contains("\"rule\":\"taint: untrusted")
            || is_change())
}

/// Passes calls to `visit`, and notable effects if they are wanted.
fn visit_lines(
    setup: &HostSetup,
    since: Timestamp,
    wants_effects: bool,
    mut visit: impl FnMut(AuditedCall) -> ControlFlow<()>,
) -> Result<SearchedLines, ToolError> {
    let stop = since.checked_sub(LONGEST_CALL).unwrap_or(Timestamp::MIN);
    RecordSource::open(setup)?.recent(|line| {
        let is_wanted = |line: &str| {
            line.contains("\"event\":\"call\"") || (wants_effects && is_notable_effect(line))
        };
        if !std::str::from_utf8(&line).is_ok_and(is_wanted) {
            return ControlFlow::Continue(());
        }
        // Only the name of the event decides: the text may be in another member.
        let Some(call) =
            AuditedCall::read(&line).filter(|call| call.event == "call" || wants_effects)
        else {
            return ControlFlow::Continue(());
        };
        if call.time < stop {
            return ControlFlow::Break(());
        }
        if call.time < since {
            return ControlFlow::Continue(());
        }
        visit(call)
    })
}

/// Returns the time `days` ago.
pub fn days_ago(days: u32) -> Timestamp {
    let period = SignedDuration::from_hours(24 * i64::from(days));
    Timestamp::now()
        .checked_sub(period)
        .unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn recorded_call_arguments_are_complete_unless_they_were_shortened() {
        let call = |arguments| AuditedCall {
            arguments: Some(mimir_core::audit::shorten_arguments(&arguments)),
            ..AuditedCall::default()
        };
        assert!(
            call(json!({"path": "a", "list": [1, "x"]}))
                .complete_arguments()
                .is_some()
        );
        assert!(
            call(json!({"content": "x".repeat(300)}))
                .complete_arguments()
                .is_none()
        );
        assert!(
            call(json!({"list": vec![1; 30]}))
                .complete_arguments()
                .is_none()
        );
        let wide: serde_json::Map<_, _> = (0..30).map(|n| (n.to_string(), json!(n))).collect();
        assert!(call(Value::Object(wide)).complete_arguments().is_none());
    }

    #[test]
    fn recorded_call_is_read_from_a_line() {
        let line = json!({
            "time": "2026-01-02T03:04:05.678Z", "event": "call", "id": "1-2-3", "tool": "t", "ok": false,
            "code": "POLICY_DENIED", "decision": "deny", "unknown": {"x": 1}, "seq": 1,
        });
        let call: AuditedCall = serde_json::from_value(line).unwrap();
        assert!(call.outcome() == OutcomeKind::Refused && !call.was_asked());
        assert_eq!(call.time, "2026-01-02T03:04:05.678Z".parse().unwrap());
    }
}
