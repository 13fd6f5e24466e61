//! Outcomes of calls: the result or the error, with its label and cost.

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
    /// An image.
    Image {
        /// The file.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
        /// Its media type.
        mime_type: String,
    },
    /// Audio.
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
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }
    }

    /// Returns the size of the payload in bytes.
    pub fn len(&self) -> usize {
        match self {
            Content::Text { text } => text.len(),
            Content::Image { data, .. }
            | Content::Audio { data, .. }
            | Content::File { data, .. } => data.len(),
        }
    }

    /// Returns true if the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The output of a successful call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// The parts, in order.
    pub content: Vec<Content>,
    /// The structured result, which matches the tool's output schema, if any. If the masked value does not match, it is
    /// a text part instead, and this is `None`.
    pub structured: Option<Value>,
    /// The exit code of the program that the tool ran, if any.
    pub exit_code: Option<i32>,
}

/// Returns the size of a value as JSON text, in bytes.
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
    // Serializing a `Value` to this writer cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The trust level of a text, determined by its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// Written by mimir.
    System,
    /// Written by the user, or from the user's workspace.
    User,
    /// From a source that the user has verified.
    Verified,
    /// From any other source. Models must not follow instructions in it.
    Untrusted,
}

/// The confidentiality of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataClass {
    /// Public.
    Public,
    /// For use in this workspace.
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

    /// Creates the label that is assumed for content without a known label: untrusted and sensitive.
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
    /// Wall clock in milliseconds, from the arrival of the call to its end, excluding time spent on approvals. Also set
    /// for refused calls.
    pub duration_ms: f64,
    /// Units of fuel used, if the backend meters them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Peak linear memory in bytes, if the backend meters it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Size of the arguments in bytes.
    pub bytes_in: u64,
    /// Size of the tool's raw result in bytes.
    pub bytes_out: u64,
    /// Estimated number of tokens of the result or the error for a model, after limits and masking; see
    /// [`crate::token_estimate::estimate_tokens`].
    pub tokens: u64,
    /// Number of attempts, if the call was retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// True if this is the result of an earlier call with the same arguments, and the tool did not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// The outcome of a call. Only pipelines create outcomes, of this process or of another one
/// ([`OutcomeMessage`](crate::wire::OutcomeMessage)).
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub(crate) result: Result<ToolOutput, ToolError>,
    pub(crate) label: ContentLabel,
    /// The source of untrusted content in the result.
    pub(crate) source: ContentSource,
    pub(crate) truncated: bool,
    pub(crate) redactions: u32,
    pub(crate) receipt: Receipt,
}

impl Outcome {
    /// Returns the result or the error.
    pub fn result(&self) -> Result<&ToolOutput, &ToolError> {
        self.result.as_ref()
    }

    /// Returns true if the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns the label of the result.
    pub fn label(&self) -> &ContentLabel {
        &self.label
    }

    /// Returns true if the result was truncated.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the number of masked secrets.
    pub fn redactions(&self) -> u32 {
        self.redactions
    }

    /// Returns the cost of the call.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Estimates the number of tokens of a result or an error for a model: texts and files, structured content if there
    /// is no text, and the details of errors.
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
            // The token cost of images and audio depends on the provider.
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

    /// Returns all text parts, joined by line feeds, or the error message.
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
