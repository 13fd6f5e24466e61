//! What a caller gets: the result or the error, how far it can be trusted, and what it cost.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ToolError;
use crate::tokens;

/// Bytes as they travel in JSON.
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
    /// A file that the call made.
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

    /// How many bytes of payload it holds.
    pub fn len(&self) -> usize {
        match self {
            Content::Text { text } => text.len(),
            Content::Image { data, .. }
            | Content::Audio { data, .. }
            | Content::File { data, .. } => data.len(),
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a successful call gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// The parts, in order.
    pub content: Vec<Content>,
    /// The structured result; matches the tool's output schema when there is one. It is missing then only if no
    /// form of it that is safe to show matches: the masked value is a text part in that case.
    pub structured: Option<Value>,
    /// The exit code of what the tool ran, if it ran something.
    pub exit_code: Option<i32>,
}

/// How many bytes the value has as JSON text.
pub fn json_len(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither the value nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Who stands behind a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// Written by mimir.
    System,
    /// Written by the person, or from the person's own workspace.
    User,
    /// From a place that the person vouches for.
    Verified,
    /// From anywhere else: never to be followed as an instruction.
    Untrusted,
}

/// How far a text may travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataClass {
    /// Anyone may see it.
    Public,
    /// Meant for this workspace.
    Internal,
    /// Personal or business data.
    Sensitive,
    /// Credentials.
    Secret,
}

/// What is known about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Label {
    /// Who stands behind it.
    pub trust: TrustLevel,
    /// How far it may travel.
    pub data_class: DataClass,
    /// Where it comes from: a source and a tool.
    pub origin: String,
}

impl Label {
    /// The worse of both, with the origin of the one that makes it so.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let (trust, data_class) = (
            self.trust.max(other.trust),
            self.data_class.max(other.data_class),
        );
        let is_all = (self.trust, self.data_class) == (trust, data_class);
        Self {
            trust,
            data_class,
            origin: if is_all { self.origin } else { other.origin },
        }
    }

    /// What is taken to be true of something whose label is lost.
    pub fn worst(origin: impl Into<String>) -> Self {
        Self {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Sensitive,
            origin: origin.into(),
        }
    }
}

/// What a call cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Wall clock in milliseconds, from the call's coming in to its end, refusals included; human time excluded.
    pub duration_ms: f64,
    /// Units of fuel used, where the backend meters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Most bytes of linear memory held at once, where the backend meters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Bytes of arguments.
    pub bytes_in: u64,
    /// Bytes of result as it left the tool.
    pub bytes_out: u64,
    /// About how many tokens the text of the result is to a model, as [`crate::tokens::about`] has it: what is left of
    /// it after limits and masking, and the message of a failure.
    pub tokens: u64,
}

/// The end of every call. Only the pipeline makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub(crate) result: Result<Output, ToolError>,
    pub(crate) label: Label,
    pub(crate) truncated: bool,
    pub(crate) redactions: u32,
    pub(crate) receipt: Receipt,
}

impl Outcome {
    /// The result, or why there is none.
    pub fn result(&self) -> Result<&Output, &ToolError> {
        self.result.as_ref()
    }

    /// Whether the tool did what it was asked.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// How far the result can be trusted.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Whether anything was cut off.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// How many secrets were masked.
    pub fn redactions(&self) -> u32 {
        self.redactions
    }

    /// What it cost.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// About how many tokens this result is to a model: of what is structured and of details, where those are what it
    /// gets to read.
    pub(crate) fn tokens(result: &Result<Output, ToolError>) -> u64 {
        let told = |value: &Option<Value>| {
            let text = value.as_ref().map(Value::to_string);
            text.map_or(0, |text| tokens::about(&text))
        };
        let output = match result {
            Ok(output) => output,
            Err(error) => return tokens::about(&error.message) + told(&error.details),
        };
        let text = |part: &Content| match part {
            Content::Text { text } => Some(tokens::about(text)),
            Content::File { data, .. } => Some(std::str::from_utf8(data).map_or(0, tokens::about)),
            // What a picture takes is each provider's to say.
            Content::Image { .. } | Content::Audio { .. } => None,
        };
        let parts = output.content.iter().filter_map(text).sum();
        let is_text = |part: &Content| matches!(part, Content::Text { .. });
        match output.content.iter().any(is_text) {
            true => parts,
            false => parts + told(&output.structured),
        }
    }

    /// All text parts, joined by line ends; of an error, its message.
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
struct Wire<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    content: &'a [Content],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ToolError>,
    label: &'a Label,
    truncated: bool,
    redactions: u32,
    receipt: &'a Receipt,
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let output = self.result.as_ref().ok();
        Wire {
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
