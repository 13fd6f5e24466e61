//! What can be told of a message that cannot be read: whose answer it waits for.

use rmcp::model::RequestId;

/// The longest name that is looked at.
const TOKEN_MOST: usize = 256;

/// Looks for the names of the outermost object in a text that is no JSON, part by part. It takes no more memory for a
/// longer text, nor for a deeper one.
#[derive(Default)]
pub(super) struct Traces {
    id: Option<RequestId>,
    /// Whether it has a method, and whether it has what an answer has.
    method: bool,
    answer: bool,
    depth: usize,
    /// Whether a text is being read, and whether its next character stands for something else.
    text: bool,
    escaped: bool,
    /// The text or number that is being read.
    token: Vec<u8>,
    /// The name before the value that is being read.
    name: Option<Vec<u8>>,
    over: bool,
}

impl Traces {
    /// The traces in this text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut traces = Self::default();
        traces.read(text);
        traces
    }

    /// Reads on.
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

    /// The id of a request.
    pub(super) fn asked(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.method)
    }

    /// The id of an answer to a request of ours.
    pub(super) fn answered(&self) -> Option<RequestId> {
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

    /// The value that was being read has ended. What is cut off has not: it might be another.
    fn value(&mut self) {
        if self.depth == 1 && self.id.is_none() && self.name.as_deref() == Some(br#""id""#) {
            self.id = serde_json::from_slice(&self.token).ok();
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_MOST {
            self.token.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_where_it_can_be_told() {
        let asked = |text: &str| Traces::of(text.as_bytes()).asked();
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
            // It may have been 70.
            r#"{"method":"m","id":7"#,
            r#"{"method":"m","id":[7],"#,
            r#"[{"method":"m","id":7,"#,
            // A request of ours has that id.
            r#"{"id":7,"result":{"p":"\ud83d"}}"#,
        ] {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(asked(&"[".repeat(200_000)), None);
        let answer = r#"{"id":7,"result":{"p":"\ud83d"}}"#;
        assert_eq!(Traces::of(answer.as_bytes()).answered(), number(7));
    }

    #[test]
    fn parts_are_as_good_as_the_whole() {
        let mut traces = Traces::default();
        for byte in br#"{"method":"m","id":42,"x":"#.chunks(1) {
            traces.read(byte);
        }
        assert_eq!(traces.asked(), Some(RequestId::Number(42)));
    }
}
