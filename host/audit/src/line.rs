//! The format of a line: the event, followed by the link to the previous line.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{LineHash, LogHead};

/// Initial capacity for a line: enough for a typical line, and slightly below the size that allocators cache per
/// thread.
const TYPICAL_LINE_BYTES: usize = 768;

/// Maximum number of bytes that [`UnsealedLine::seal`] adds: two names, a number, a hash.
pub(super) const MAX_SEAL_BYTES: usize = 112;

/// Maximum number of a line: the largest integer that every JSON parser represents exactly.
pub(super) const SEQ_MAX: u64 = (1 << 53) - 1;

/// A line without its link to the chain. It is encoded and hashed before the lock is taken, because both are expensive.
pub struct LineDraft {
    text: Vec<u8>,
    digest: Sha256,
}

impl LineDraft {
    /// Encodes and hashes an event: a struct or a map that is not empty.
    ///
    /// ```
    /// # use mimir_audit::{ChainLink, LineDraft, LogHead};
    /// let mut lines = Vec::new();
    /// let draft = LineDraft::new(&serde_json::json!({"event": "call"}))?;
    /// let head = draft.seal(&LogHead::START, &mut lines)?;
    /// let link = ChainLink::read(lines.trim_ascii_end());
    /// assert_eq!(link.map(|link| link.seq), Some(head.seq));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new(event: &impl Serialize) -> io::Result<Self> {
        let mut text = Vec::with_capacity(TYPICAL_LINE_BYTES);
        serde_json::to_writer(&mut text, event)?;
        // The brace is added back when the line is sealed.
        text.pop();
        let digest = Sha256::new_with_prefix(&text);
        Ok(Self { text, digest })
    }

    /// Maximum length of the finished line in bytes, with its line end.
    pub fn max_len(&self) -> usize {
        self.text.len() + MAX_SEAL_BYTES
    }

    /// Appends the line to `lines`, with its link to `tip` and a line end. Returns the new tip.
    pub fn seal(&self, tip: &LogHead, lines: &mut Vec<u8>) -> io::Result<LogHead> {
        self.unsealed().seal(tip, lines)
    }

    /// Borrows the draft.
    pub(super) fn unsealed(&self) -> UnsealedLine<'_> {
        UnsealedLine {
            text: &self.text,
            digest: self.digest.clone(),
        }
    }
}

/// A line without its link to the chain, with borrowed text.
pub(super) struct UnsealedLine<'a> {
    pub(super) text: &'a [u8],
    /// The hash state of the text so far.
    pub(super) digest: Sha256,
}

impl UnsealedLine<'_> {
    /// Maximum length of the finished line.
    pub(super) fn len(&self) -> u64 {
        (self.text.len() + MAX_SEAL_BYTES) as u64
    }

    /// Appends the line to `lines`, with its link to `tip` and a line end. Returns the new tip.
    pub(super) fn seal(self, tip: &LogHead, lines: &mut Vec<u8>) -> io::Result<LogHead> {
        let Self { text, mut digest } = self;
        let seq = tip.seq.saturating_add(1);
        lines.extend_from_slice(text);
        let start = lines.len();
        write!(lines, r#","seq":{seq},"prev":"{}"}}"#, tip.hash)?;
        digest.update(&lines[start..]);
        lines.push(b'\n');
        let hash = LineHash::from(digest);
        Ok(LogHead { seq, hash })
    }
}

/// The link of a line to the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLink {
    /// The number of the line.
    pub seq: u64,
    /// The hash of the previous line.
    pub prev: LineHash,
}

impl ChainLink {
    /// Parses the link at the end of a line, which is passed without its line end. Returns `None` if the line has no
    /// link.
    pub fn read(line: &[u8]) -> Option<Self> {
        const PREV: &[u8] = br#","prev":""#;
        const SEQ: &[u8] = br#","seq":"#;
        let rest = line.strip_prefix(b"{")?.strip_suffix(br#""}"#)?;
        let (rest, prev) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
        let rest = rest.strip_suffix(PREV)?;
        let digits = rest.iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let (rest, seq) = rest.split_at(rest.len() - digits);
        rest.strip_suffix(SEQ)?;
        let text = std::str::from_utf8(seq).ok()?;
        let seq: u64 = text.parse().ok()?;
        // Numbers with leading zeros are rejected.
        if text.starts_with('0') || seq > SEQ_MAX {
            return None;
        }
        Some(Self {
            seq,
            prev: LineHash::read(prev)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use mimir_core::audit::{AuditEvent, EventKind, StopCause};
    use mimir_core::decision::Decision;
    use mimir_core::error::ToolErrorCode;
    use mimir_core::tool::ToolSource;
    use serde_json::json;

    use super::*;

    #[test]
    fn line_of_an_event_keeps_its_json_form() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let bare = AuditEvent::new(EventKind::Call, time);
        let text = |text: &str| Some(text.to_owned());
        let full = AuditEvent {
            id: "01-2-3".to_owned(),
            session: "a \"session\"\n".to_owned(),
            user: text("käthe\u{7f}"),
            client: text("agent 1.0"),
            tool: "tool".to_owned(),
            subject: text("C:\\x"),
            detail: text(""),
            parent: text("\u{1b}[31m"),
            trace: text("00-0af7"),
            source: Some(ToolSource::BuiltIn),
            digest: text("00ff"),
            decision: Some(Decision::Ask),
            rule: text("policy.rules[0]: ask"),
            tainted: true,
            untrusted_reads: vec!["01-2-2".to_owned()],
            answer: Some("once"),
            waited_ms: Some(0),
            arguments: Some(json!({"a": [1, "\"", null]})),
            ok: false,
            code: Some(ToolErrorCode::Cancelled),
            stop: Some(StopCause::KillSwitch),
            duration_ms: Some(0.5),
            fuel: Some(u64::MAX),
            peak_memory: Some(1),
            bytes_in: Some(2),
            bytes_out: Some(3),
            tokens: Some(1),
            secrets_found: Some(2),
            truncated: true,
            ..bare.clone()
        };
        let assert_text = |event: &AuditEvent, expected: &str| {
            let draft = LineDraft::new(event).unwrap();
            assert_eq!(String::from_utf8_lossy(&draft.text), expected);
        };
        assert_text(
            &bare,
            r#"{"time":"2023-11-14T22:13:20.123Z","event":"call","ok":true"#,
        );
        assert_text(
            &full,
            concat!(
                r#"{"time":"2023-11-14T22:13:20.123Z","event":"call","id":"01-2-3","#,
                r#""session":"a \"session\"\n","user":"käthe"#,
                "\u{7f}",
                r#"","client":"agent 1.0","tool":"tool","subject":"C:\\x","detail":"","parent":"\u001b[31m","#,
                r#""trace":"00-0af7","source":"built-in","digest":"00ff","decision":"ask","#,
                r#""rule":"policy.rules[0]: ask","tainted":true,"untrustedReads":["01-2-2"],"#,
                r#""answer":"once","waitedMs":0,"#,
                r#""arguments":{"a":[1,"\"",null]},"ok":false,"code":"CANCELLED","stop":"kill-switch","#,
                r#""durationMs":0.5,"fuel":18446744073709551615,"peakMemory":1,"bytesIn":2,"#,
                r#""bytesOut":3,"tokens":1,"secretsFound":2,"truncated":true"#,
            ),
        );
    }

    #[test]
    fn line_has_the_sequence_and_previous_hash() {
        let tip = LogHead {
            seq: 41,
            hash: LineHash::digest_line(b"before"),
        };
        let draft = LineDraft::new(&json!({"event": "call", "tool": "x\",\"seq\":7"})).unwrap();
        let max_length = draft.unsealed().len();
        let mut line = vec![];
        let next = draft.unsealed().seal(&tip, &mut line).unwrap();
        assert!(line.len() as u64 <= max_length);
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!((next.seq, next.hash), (42, LineHash::digest_line(line)));
        let link = ChainLink::read(line).unwrap();
        assert_eq!((link.seq, link.prev), (42, tip.hash));
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert_eq!(value["seq"], 42);
        assert_eq!(value["tool"], "x\",\"seq\":7");
    }

    #[test]
    fn line_that_is_invalid_has_no_chain_link() {
        let zero = LineHash::ZERO;
        for bad in [
            String::new(),
            "{}".to_owned(),
            r#"{"event":"call"}"#.to_owned(),
            format!(r#"{{"a":1,"seq":,"prev":"{zero}"}}"#),
            format!(r#"{{"a":1,"seq":01,"prev":"{zero}"}}"#),
            format!(r#"{{"a":1,"seq":9007199254740992,"prev":"{zero}"}}"#),
            format!(r#"{{"a":1,"seq":99999999999999999999,"prev":"{zero}"}}"#),
            format!(r#"{{"a":1,"seq":1,"prev":"{}"}}"#, "G".repeat(64)),
            format!(r#""a":1,"seq":1,"prev":"{zero}"}}"#),
        ] {
            assert_eq!(ChainLink::read(bad.as_bytes()), None, "{bad}");
        }
    }
}
