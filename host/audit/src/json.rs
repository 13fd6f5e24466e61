//! Fast JSON encoding of an event, with the same output as its `Serialize`. Each call writes one, and most of it needs
//! no escaping: field names, tool names, digits.

use std::io::Write;

use serde::Serialize;
use serde_json::Result;

use super::AuditEvent;
use mimir_core::audit::Rfc3339Time;

/// A JSON object under construction.
struct JsonObjectWriter<'a>(&'a mut Vec<u8>);

impl JsonObjectWriter<'_> {
    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// Writes any value.
    fn value(&mut self, key: &str, value: Option<impl Serialize>) -> Result<()> {
        let Some(value) = value else {
            return Ok(());
        };
        self.key(key);
        serde_json::to_writer(&mut *self.0, &value)
    }

    /// Writes a string.
    fn text(&mut self, key: &str, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) if is_plain(text) => self.plain(key, text),
            text => return self.value(key, text),
        }
        Ok(())
    }

    /// Writes a string that needs no escaping.
    fn plain(&mut self, key: &str, text: &str) {
        self.key(key);
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
    }
}

/// Returns true if a text needs no escaping in JSON. Checking all bytes is faster than stopping at the first match.
fn is_plain(text: &str) -> bool {
    let odd = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    !text.bytes().fold(false, |found, byte| found | odd(byte))
}

/// Maps an empty text to `None`.
fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Appends an event as JSON to `out`.
pub(super) fn write(event: &AuditEvent, out: &mut Vec<u8>) -> Result<()> {
    let AuditEvent {
        time,
        event: kind,
        id,
        session,
        user,
        tool,
        subject,
        detail,
        parent,
        trace,
        source,
        digest,
        decision,
        rule,
        answer,
        waited_ms,
        arguments,
        ok,
        code,
        duration_ms,
        fuel,
        peak_memory,
        bytes_in,
        bytes_out,
        tokens,
        secrets_found,
        truncated,
    } = event;
    let time = Rfc3339Time::try_from(*time)?;
    write!(out, "{{\"time\":\"{time}\"").map_err(serde_json::Error::io)?;
    let mut object = JsonObjectWriter(out);
    object.plain("event", kind.as_str());
    object.text("id", non_empty(id))?;
    object.text("session", non_empty(session))?;
    object.text("user", user.as_deref())?;
    object.text("tool", non_empty(tool))?;
    object.text("subject", subject.as_deref())?;
    object.text("detail", detail.as_deref())?;
    object.text("parent", parent.as_deref())?;
    object.text("trace", trace.as_deref())?;
    object.value("source", source.as_ref())?;
    object.text("digest", digest.as_deref())?;
    object.value("decision", decision.as_ref())?;
    object.text("rule", rule.as_deref())?;
    object.text("answer", *answer)?;
    object.value("waitedMs", *waited_ms)?;
    object.value("arguments", arguments.as_ref())?;
    object.value("ok", Some(ok))?;
    object.value("code", code.as_ref())?;
    object.value("durationMs", *duration_ms)?;
    object.value("fuel", *fuel)?;
    object.value("peakMemory", *peak_memory)?;
    object.value("bytesIn", *bytes_in)?;
    object.value("bytesOut", *bytes_out)?;
    object.value("tokens", *tokens)?;
    object.value("secretsFound", *secrets_found)?;
    object.value("truncated", truncated.then_some(true))?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;
    use crate::EventKind;
    use mimir_core::decision::Decision;
    use mimir_core::error::ToolErrorCode;
    use mimir_core::tool::ToolSource;

    #[test]
    fn json_output_equals_serde_json() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let bare = AuditEvent::new(EventKind::Call, time);
        let text = |text: &str| Some(text.to_owned());
        let full = AuditEvent {
            id: "01-2-3".to_owned(),
            session: "a \"session\"\n".to_owned(),
            user: text("käthe\u{7f}"),
            tool: "tool".to_owned(),
            subject: text("C:\\x"),
            detail: text(""),
            parent: text("\u{1b}[31m"),
            trace: text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            source: Some(ToolSource::BuiltIn),
            digest: text("00ff"),
            decision: Some(Decision::Ask),
            rule: text("policy.rules[0]: ask"),
            answer: Some("once"),
            waited_ms: Some(0),
            arguments: Some(json!({"a": [1, "\"", null]})),
            ok: false,
            code: Some(ToolErrorCode::Cancelled),
            duration_ms: Some(0.1 + 0.2),
            fuel: Some(u64::MAX),
            peak_memory: Some(1),
            bytes_in: Some(2),
            bytes_out: Some(3),
            tokens: Some(1),
            secrets_found: Some(2),
            truncated: true,
            ..bare.clone()
        };
        for event in [bare, full] {
            let mut written = Vec::new();
            write(&event, &mut written).unwrap();
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written, serde_json::to_string(&event).unwrap());
        }
    }
}
