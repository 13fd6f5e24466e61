//! Extraction of the id from a message that cannot be parsed, for the error response.

use rmcp::model::RequestId;

/// Maximum length of an examined token in bytes.
const MAX_TOKEN_BYTES: usize = 256;

/// Scans possibly invalid JSON, chunk by chunk, for members of the outermost object, in constant memory.
#[derive(Default)]
pub(super) struct MessageIdScanner {
    id: Option<RequestId>,
    /// True if a `method` was seen. `is_response` is true if a `result` or `error` was seen.
    method: bool,
    is_response: bool,
    depth: usize,
    /// True inside a string. `escaped` is true directly after a backslash.
    in_string: bool,
    escaped: bool,
    /// The current string or number.
    token: Vec<u8>,
    /// Member name of the current value.
    name: Option<Vec<u8>>,
    finished: bool,
}

impl MessageIdScanner {
    /// Scans a text.
    pub(super) fn from_text(text: &[u8]) -> Self {
        let mut scanner = Self::default();
        scanner.scan(text);
        scanner
    }

    /// Scans the next chunk.
    pub(super) fn scan(&mut self, chunk: &[u8]) {
        for byte in chunk {
            if self.finished {
                return;
            }
            if self.in_string {
                self.read_in_string(*byte)
            } else {
                self.read_outside_string(*byte)
            }
        }
    }

    /// Returns the id if the message is a request.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.method)
    }

    /// Returns the id if the message is a response to one of our requests.
    pub(super) fn response_id(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.is_response && !self.method)
    }

    fn read_in_string(&mut self, byte: u8) {
        self.push_token_byte(byte);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn read_outside_string(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.token.clear();
                self.push_token_byte(byte);
                self.in_string = true;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
                self.finished = self.depth == 0;
            }
            b':' if self.depth == 1 => {
                let name = std::mem::take(&mut self.token);
                self.method |= name == br#""method""#;
                self.is_response |= name == br#""result""# || name == br#""error""#;
                self.name = Some(name);
            }
            b',' => {
                self.end_value();
                if self.depth == 1 {
                    self.token.clear();
                    self.name = None;
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.push_token_byte(byte),
        }
    }

    /// Takes the id from a complete value. A truncated value is ignored.
    fn end_value(&mut self) {
        if self.depth == 1 && self.id.is_none() && self.name.as_deref() == Some(br#""id""#) {
            self.id = serde_json::from_slice(&self.token).ok();
        }
    }

    fn push_token_byte(&mut self, byte: u8) {
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
        let id_of = |text: &str| MessageIdScanner::from_text(text.as_bytes()).request_id();
        let number = |id| Some(RequestId::Number(id));
        let lone = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":9,"p":"\ud83d"}}"#;
        assert_eq!(id_of(lone), number(7));
        let last = r#"{"method":"m","params":{"p":"}\",\"id\":1 \ud83d"},"id" : 8 }"#;
        assert_eq!(id_of(last), number(8));
        let named = r#"{"method":"m","id":"a\"b",,"#;
        assert_eq!(id_of(named), Some(RequestId::String("a\"b".into())));
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
            assert_eq!(id_of(none), None, "{none}");
        }
        assert_eq!(id_of(&"[".repeat(200_000)), None);
        let response = r#"{"id":7,"result":{"p":"\ud83d"}}"#;
        assert_eq!(
            MessageIdScanner::from_text(response.as_bytes()).response_id(),
            number(7)
        );
    }

    #[test]
    fn id_scanner_works_across_chunks() {
        let mut scanner = MessageIdScanner::default();
        for byte in br#"{"method":"m","id":42,"x":"#.chunks(1) {
            scanner.scan(byte);
        }
        assert_eq!(scanner.request_id(), Some(RequestId::Number(42)));
    }
}
