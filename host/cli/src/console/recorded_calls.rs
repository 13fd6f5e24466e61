//! Calls in the audit log, as charts and rules need them.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use mimir_core::ToolError;
use serde::Deserialize;
use serde_json::Value;

use mimir::setup::HostSetup;

use super::record::{snapshot, unreadable};

/// A line of the log about a call.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedCall {
    /// The event; only calls are passed on.
    event: String,
    /// The id.
    pub id: String,
    /// The time of arrival.
    #[serde(deserialize_with = "lenient_time")]
    pub time: Timestamp,
    /// The session.
    pub session: String,
    /// The user.
    pub user: Option<String>,
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
            tool: String::new(),
            parent: None,
            decision: None,
            rule: None,
            answer: None,
            ok: false,
            code: None,
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
    /// Returns true if a rule or a person refused the call.
    pub fn is_refused(&self) -> bool {
        !self.ok
            && matches!(
                self.code.as_deref(),
                Some("POLICY_DENIED" | "APPROVAL_DENIED" | "PERMISSION_DENIED")
            )
    }

    /// Returns true if a person was asked.
    pub fn was_asked(&self) -> bool {
        matches!(
            self.answer.as_deref(),
            Some("once" | "session" | "always" | "edit" | "no" | "nobody" | "beforehand")
        )
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
const LONGEST_CALL: SignedDuration = SignedDuration::from_hours(24);

/// Passes the calls since a time to `visit`, those that ended last first, until it breaks.
pub fn visit_calls(
    setup: &HostSetup,
    since: Timestamp,
    mut visit: impl FnMut(AuditedCall) -> ControlFlow<()>,
) -> Result<(), ToolError> {
    let stop = since.checked_sub(LONGEST_CALL).unwrap_or(Timestamp::MIN);
    let visited = snapshot(setup)?.lines_newest_first(|line| {
        let is_call =
            std::str::from_utf8(line).is_ok_and(|text| text.contains("\"event\":\"call\""));
        if !is_call {
            return ControlFlow::Continue(());
        }
        let Ok(call) = serde_json::from_slice::<AuditedCall>(line) else {
            return ControlFlow::Continue(());
        };
        if call.event != "call" {
            return ControlFlow::Continue(());
        }
        if call.time < stop {
            return ControlFlow::Break(());
        }
        if call.time < since {
            return ControlFlow::Continue(());
        }
        visit(call)
    });
    visited.map_err(|error| unreadable(setup, &error))
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
        assert!(call.is_refused() && !call.was_asked());
        assert_eq!(call.time, "2026-01-02T03:04:05.678Z".parse().unwrap());
    }
}
