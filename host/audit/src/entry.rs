//! A line of the log for display.

use std::time::SystemTime;

use mimir_core::audit::{EventKind, OutcomeKind};
use serde_json::Value;

use super::line::ChainLink;

/// A line of the log, made safe to show: an attacker may have changed it to anything.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry(Value);

impl AuditEntry {
    /// Parses a line without its line end. Returns `None` if it is not a line of the log.
    pub fn read(line: &[u8]) -> Option<Self> {
        ChainLink::read(line)?;
        let mut value = serde_json::from_slice(line).ok()?;
        mimir_core::text::escape_value(&mut value);
        Some(Self(value))
    }

    /// Returns the complete JSON value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the number of the line.
    pub fn seq(&self) -> u64 {
        self.0["seq"].as_u64().unwrap_or_default()
    }

    /// Returns a string member as one printable line, or an empty string if the member is missing.
    pub fn text(&self, name: &str) -> String {
        mimir_core::text::visible(self.0[name].as_str().unwrap_or_default())
    }

    /// Returns the outcome of the call or the effect, or of another event that can be refused. `None` for lines that the log
    /// itself has written, and for kinds of events that this version does not know.
    pub fn outcome(&self) -> Option<OutcomeKind> {
        let text = |name: &str| self.0[name].as_str();
        let event = text("event")?;
        let mut kinds = EventKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.as_str() == event)?;
        if kind.is_own() {
            return None;
        }
        let ok = self.0["ok"].as_bool()?;
        Some(OutcomeKind::from_record(ok, text("code"), text("stop")))
    }

    /// Returns the time of the event, if the line has a valid one.
    pub fn time(&self) -> Option<SystemTime> {
        let time: jiff::Timestamp = self.0["time"].as_str()?.parse().ok()?;
        Some(time.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::LogHead;
    use super::super::line::LineDraft;
    use super::*;
    use serde_json::json;

    #[test]
    fn entry_outcome_is_that_of_calls_and_effects() {
        let outcome = |event: Value| {
            let mut line = vec![];
            let draft = LineDraft::new(&event).unwrap();
            draft.unsealed().seal(&LogHead::START, &mut line).unwrap();
            let entry = AuditEntry::read(line.strip_suffix(b"\n").unwrap()).unwrap();
            entry.outcome().map(OutcomeKind::as_str)
        };
        for (event, expected) in [
            (json!({"event": "call", "ok": true}), Some("ok")),
            (
                json!({"event": "call", "decision": "ask", "answer": "no", "ok": false, "code": "APPROVAL_DENIED"}),
                Some("refused"),
            ),
            (
                json!({"event": "effect", "ok": false, "code": "POLICY_DENIED"}),
                Some("refused"),
            ),
            (
                json!({"event": "call", "ok": false, "code": "UNAVAILABLE", "stop": "kill-switch"}),
                Some("stopped"),
            ),
            (
                json!({"event": "call", "ok": false, "code": "NEWER"}),
                Some("failed"),
            ),
            (json!({"event": "announced", "ok": false}), None),
            (json!({"event": "rotated", "ok": true}), None),
            (json!({"event": "newer", "ok": false}), None),
            (json!({"event": "call", "ok": "no"}), None),
        ] {
            assert_eq!(outcome(event.clone()), expected, "{event}");
        }
    }

    #[test]
    fn entry_text_has_no_terminal_escapes() {
        let event = json!({"time": "2026-01-02T03:04:05.678Z", "tool": "a\u{1b}[31m\nb\u{202e}"});
        let mut line = vec![];
        let draft = LineDraft::new(&event).unwrap();
        draft.unsealed().seal(&LogHead::START, &mut line).unwrap();
        let entry = AuditEntry::read(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(entry.seq(), 1);
        assert_eq!(entry.text("tool"), r"a b\u{202e}");
        assert_eq!(entry.text("none"), "");
        assert!(entry.time().is_some());
        // JSON output escapes the other control characters.
        assert_eq!(entry.value()["tool"], "a\u{1b}[31m\nb\\u{202e}");
        assert_eq!(AuditEntry::read(b"{}"), None);
    }
}
