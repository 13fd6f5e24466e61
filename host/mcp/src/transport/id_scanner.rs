//! Extracts the id of a message that cannot be parsed, so that the error response can name it.

use rmcp::model::RequestId;

/// Maximum length in bytes of a token that is examined.
const MAX_TOKEN_BYTES: usize = 256;

/// Scans invalid JSON, chunk by chunk, for the members of the outermost object. Memory use is constant, independent of
/// length and depth.
#[derive(Default)]
pub(super) struct MessageIdScanner {
    id: Option<RequestId>,
    /// Set if a `method` was seen, and if a `result` or `error` was seen.
    method: bool,
    answer: bool,
    depth: usize,
    /// Set inside a string, and directly after a backslash.
    text: bool,
    escaped: bool,
    /// The string or number that is being read.
    token: Vec<u8>,
    /// Member name of the value that is being read.
    name: Option<Vec<u8>>,
    over: bool,
}

impl MessageIdScanner {
    /// Scans a text.
    pub(super) fn from_text(text: &[u8]) -> Self {
        let mut traces = Self::default();
        traces.read(text);
        traces
    }

    /// Scans the next chunk.
    pub(super) fn read(&mut self, part: &[u8]) {
        for byte in part {
            if self.over {
                return;
            }
            match self.text {
                true => self.in_text(*byte),
                false => self.between(*byte),
            }
        }
    }

    /// Returns the id if the message is a request.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.method)
    }

    /// Returns the id if the message is a response to one of our requests.
    pub(super) fn response_id(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.answer && !self.method)
    }

    fn in_text(&mut self, byte: u8) {
        self.keep(byte);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.text = false,
            _ => {}
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.token.clear();
                self.keep(byte);
                self.text = true;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.value();
                self.depth = self.depth.saturating_sub(1);
                self.over = self.depth == 0;
            }
            b':' if self.depth == 1 => {
                let name = std::mem::take(&mut self.token);
                self.method |= name == br#""method""#;
                self.answer |= name == br#""result""# || name == br#""error""#;
                self.name = Some(name);
            }
            b',' => {
                self.value();
                if self.depth == 1 {
                    self.token.clear();
                    self.name = None;
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    /// Records the end of a value. A truncated value has no end, because it might have continued.
    fn value(&mut self) {
        if self.depth == 1 && self.id.is_none() && self.name.as_deref() == Some(br#""id""#) {
            self.id = serde_json::from_slice(&self.token).ok();
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_TOKEN_BYTES {
            self.token.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_scanner_finds_unambiguous_ids() {
        let asked = |text: &str| MessageIdScanner::from_text(text.as_bytes()).request_id();
        let number = |id| Some(RequestId::Number(id));
        let lone = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":9,"p":"\ud83d"}}"#;
        assert_eq!(asked(lone), number(7));
        let last = r#"{"method":"m","params":{"p":"}\",\"id\":1 \ud83d"},"id" : 8 }"#;
        assert_eq!(asked(last), number(8));
        let named = r#"{"method":"m","id":"a\"b",,"#;
        assert_eq!(asked(named), Some(RequestId::String("a\"b".into())));
        for none in [
            "",
            "garbage",
            // It may have been 70 before it was cut off.
            r#"{"method":"m","id":7"#,
            r#"{"method":"m","id":[7],"#,
            r#"[{"method":"m","id":7,"#,
            // The id belongs to one of our requests.
            r#"{"id":7,"result":{"p":"\ud83d"}}"#,
        ] {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(asked(&"[".repeat(200_000)), None);
        let answer = r#"{"id":7,"result":{"p":"\ud83d"}}"#;
        assert_eq!(
            MessageIdScanner::from_text(answer.as_bytes()).response_id(),
            number(7)
        );
    }

    #[test]
    fn id_scanner_works_across_chunks() {
        let mut traces = MessageIdScanner::default();
        for byte in br#"{"method":"m","id":42,"x":"#.chunks(1) {
            traces.read(byte);
        }
        assert_eq!(traces.request_id(), Some(RequestId::Number(42)));
    }
}
