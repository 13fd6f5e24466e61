//! The end of a call: the result or the error, its label, and its cost.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ToolError;
use crate::pipeline::ContentSource;
use crate::token_estimate;

/// Serializes bytes as base64.
mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

/// One part of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum Content {
    /// Text for the model.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// The file.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
        /// Its media type.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// The file.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
        /// Its media type.
        mime_type: String,
    },
    /// A file created by the call.
    File {
        /// The file.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
        /// Its media type.
        mime_type: String,
        /// Its name, without a path.
        name: String,
    },
}

impl Content {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }
    }

    /// The size of the payload in bytes.
    pub fn len(&self) -> usize {
        match self {
            Content::Text { text } => text.len(),
            Content::Image { data, .. }
            | Content::Audio { data, .. }
            | Content::File { data, .. } => data.len(),
        }
    }

    /// Returns true if it has no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The output of a successful call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// The parts, in order.
    pub content: Vec<Content>,
    /// The structured result. It matches the output schema if the tool has one; if masking would break that, it is
    /// missing, and the masked value is a text part instead.
    pub structured: Option<Value>,
    /// The exit code of the program that the tool ran, if any.
    pub exit_code: Option<i32>,
}

/// The size of a value as JSON text, in bytes.
pub fn json_len(value: &Value) -> usize {
    struct LengthCounter(usize);
    impl std::io::Write for LengthCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = LengthCounter(0);
    // Neither the value nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The trust level of a text, by its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// Written by mimir.
    System,
    /// Written by the person, or from the person's own workspace.
    User,
    /// From a source that the person vouches for.
    Verified,
    /// From anywhere else: never to be followed as an instruction.
    Untrusted,
}

/// The confidentiality of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataClass {
    /// Public.
    Public,
    /// Meant for this workspace.
    Internal,
    /// Personal or business data.
    Sensitive,
    /// Credentials.
    Secret,
}

/// The trust level, the data class and the origin of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentLabel {
    /// The trust level.
    pub trust: TrustLevel,
    /// The data class.
    pub data_class: DataClass,
    /// The origin: a source and a tool.
    pub origin: String,
}

impl ContentLabel {
    /// Combines two labels: the worse trust and the worse data class of both. The origin is that of `self` unless
    /// `other` makes it worse.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let (trust, data_class) = (
            self.trust.max(other.trust),
            self.data_class.max(other.data_class),
        );
        let is_unchanged = (self.trust, self.data_class) == (trust, data_class);
        Self {
            trust,
            data_class,
            origin: if is_unchanged {
                self.origin
            } else {
                other.origin
            },
        }
    }

    /// The label assumed for content whose label is lost.
    pub fn worst(origin: impl Into<String>) -> Self {
        Self {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Sensitive,
            origin: origin.into(),
        }
    }
}

/// The cost of a call.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Wall clock in milliseconds, from the arrival of the call to its end, also if refused; excluding the time for
    /// approvals.
    pub duration_ms: f64,
    /// Units of fuel used, if the backend meters them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Peak linear memory in bytes, if the backend meters it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Bytes of arguments.
    pub bytes_in: u64,
    /// Bytes of the tool's raw result.
    pub bytes_out: u64,
    /// Estimated tokens of the result's text for a model (see [`crate::token_estimate::estimate_tokens`]), after limits
    /// and masking; for a failure, those of its message.
    pub tokens: u64,
}

/// The end of every call. Only the pipeline makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub(crate) result: Result<ToolOutput, ToolError>,
    pub(crate) label: ContentLabel,
    /// The source of its untrusted content.
    pub(crate) source: ContentSource,
    pub(crate) truncated: bool,
    pub(crate) redactions: u32,
    pub(crate) receipt: Receipt,
}

impl Outcome {
    /// The result or the error.
    pub fn result(&self) -> Result<&ToolOutput, &ToolError> {
        self.result.as_ref()
    }

    /// Returns true if the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The label of the result.
    pub fn label(&self) -> &ContentLabel {
        &self.label
    }

    /// Returns true if the result was truncated.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// The number of masked secrets.
    pub fn redactions(&self) -> u32 {
        self.redactions
    }

    /// The cost of the call.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Estimates the tokens of this result for a model; includes structured content and details if the model reads
    /// those.
    pub(crate) fn tokens(result: &Result<ToolOutput, ToolError>) -> u64 {
        let json_tokens = |value: &Option<Value>| {
            let text = value.as_ref().map(Value::to_string);
            text.map_or(0, |text| token_estimate::estimate_tokens(&text))
        };
        let output = match result {
            Ok(output) => output,
            Err(error) => {
                return token_estimate::estimate_tokens(&error.message)
                    + json_tokens(&error.details);
            }
        };
        let part_tokens = |part: &Content| match part {
            Content::Text { text } => Some(token_estimate::estimate_tokens(text)),
            Content::File { data, .. } => {
                Some(std::str::from_utf8(data).map_or(0, token_estimate::estimate_tokens))
            }
            // The token cost of a picture depends on the provider.
            Content::Image { .. } | Content::Audio { .. } => None,
        };
        let parts = output.content.iter().filter_map(part_tokens).sum();
        let is_text = |part: &Content| matches!(part, Content::Text { .. });
        if output.content.iter().any(is_text) {
            parts
        } else {
            parts + json_tokens(&output.structured)
        }
    }

    /// All text parts, joined by line ends; for an error, its message.
    pub fn text(&self) -> String {
        match &self.result {
            Ok(output) => {
                let texts: Vec<&str> = output
                    .content
                    .iter()
                    .filter_map(|part| match part {
                        Content::Text { text } => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                texts.join("\n")
            }
            Err(error) => error.message.clone(),
        }
    }
}

/// The JSON form that `mimir call --json`, MCP's `_meta` and the library share.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeJson<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    content: &'a [Content],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ToolError>,
    label: &'a ContentLabel,
    truncated: bool,
    redactions: u32,
    receipt: &'a Receipt,
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let output = self.result.as_ref().ok();
        OutcomeJson {
            ok: self.is_ok(),
            content: output.map_or(&[], |o| o.content.as_slice()),
            structured: output.and_then(|o| o.structured.as_ref()),
            exit_code: output.and_then(|o| o.exit_code),
            error: self.result.as_ref().err(),
            label: &self.label,
            truncated: self.truncated,
            redactions: self.redactions,
            receipt: &self.receipt,
        }
        .serialize(to)
    }
}
