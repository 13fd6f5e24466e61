//! Streams share their content.
//!
//! As published, each command in a loop that reads a file copies the rest of the file, and each `read` decodes it
//! again: 20,000 lines take eight seconds. The types of two fields are replaced by those of `../../bash/shared.rs`.

use super::SourceEdit;

pub const EDITS: &[SourceEdit] = &[
    (
        "src/stream.rs",
        "    bytes: Vec<u8>,\n    text: String,\n",
        1,
        "    bytes: crate::shared::Shared<Vec<u8>>,\n    text: crate::shared::Shared<String>,\n",
    ),
    (
        "src/stream.rs",
        "Self { bytes, text }",
        5,
        "Self { bytes: bytes.into(), text: text.into() }",
    ),
    ("src/stream.rs", "bytes: Vec::new(),", 1, "bytes: crate::shared::Shared::new(),"),
    ("src/stream.rs", "text: String::new(),", 1, "text: crate::shared::Shared::new(),"),
    ("src/stream.rs", "        self.bytes\n", 1, "        self.bytes.into_whole()\n"),
    (
        "src/stream.rs",
        "self.text = String::from_utf8_lossy(&self.bytes).into_owned();",
        1,
        "self.text = String::from_utf8_lossy(&self.bytes).into_owned().into();",
    ),
    (
        "src/stream.rs",
        "bytes: text.as_bytes().to_vec(),\n            text,",
        1,
        "bytes: text.as_bytes().to_vec().into(),\n            text: text.into(),",
    ),
    ("src/stream.rs", "value.text.clone()", 1, "value.text.to_string()"),
    // Invalid UTF-8 is replaced, each run by three bytes. If the text has the same length as the bytes, each run had
    // three bytes, so every character outside of a run has the same offset in both.
    (
        "src/stream.rs",
        "Self::from(self.bytes[self.bytes.len().min(start)..].to_vec())",
        1,
        "let start = self.bytes.len().min(start);
        if self.text.len() == self.bytes.len() && self.text.is_char_boundary(start) {
            return Self { bytes: self.bytes.without_first(start), text: self.text.without_first(start) };
        }
        Self::from(self.bytes[start..].to_vec())",
    ),
    (
        "src/interpreter/mod.rs",
        "self.pipeline_stdin = Some(bytes[used..].into());",
        1,
        "self.pipeline_stdin = Some(data.suffix_from(used));",
    ),
];
