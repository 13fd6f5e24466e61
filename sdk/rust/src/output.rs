//! Results of tools: text, structured content, images, audio, files.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::bindings::mimir::tool::types as wit;
use crate::error::{Error, Result};
use crate::schema;

/// The result of a call, with any number of content parts.
///
/// ```
/// use mimir_sdk::Output;
///
/// let output = Output::text("Two pages").image("image/png", vec![0x89, 0x50]).exit_code(0);
/// assert_eq!(output.texts().collect::<Vec<_>>(), ["Two pages"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Output {
    content: Vec<wit::Content>,
    structured: Option<Value>,
    exit_code: Option<i32>,
}

impl Output {
    /// Creates an empty result.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a result with one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().and_text(text)
    }

    /// Adds a text part.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.content.push(wit::Content::Text(text.into()));
        self
    }

    /// Adds an image.
    #[must_use]
    pub fn image(mut self, mime_type: impl Into<String>, data: Vec<u8>) -> Self {
        self.content.push(wit::Content::Image(wit::Media {
            mime_type: mime_type.into(),
            data,
        }));
        self
    }

    /// Adds audio.
    #[must_use]
    pub fn audio(mut self, mime_type: impl Into<String>, data: Vec<u8>) -> Self {
        self.content.push(wit::Content::Audio(wit::Media {
            mime_type: mime_type.into(),
            data,
        }));
        self
    }

    /// Adds a file for the caller.
    #[must_use]
    pub fn artifact(
        mut self,
        name: impl Into<String>,
        mime_type: impl Into<String>,
        data: Vec<u8>,
    ) -> Self {
        let (name, mime_type) = (name.into(), mime_type.into());
        self.content.push(wit::Content::File(wit::Artifact {
            name,
            mime_type,
            data,
        }));
        self
    }

    /// Sets the structured content. Prefer [`Json`], which also declares an output schema.
    #[must_use]
    pub fn structured(mut self, value: Value) -> Self {
        self.structured = Some(value);
        self
    }

    /// Sets the exit code, for a tool that runs a program.
    #[must_use]
    pub fn exit_code(mut self, code: i32) -> Self {
        self.exit_code = Some(code);
        self
    }

    /// The text parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|part| match part {
            wit::Content::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The structured content.
    pub fn structured_value(&self) -> Option<&Value> {
        self.structured.as_ref()
    }
}

impl From<Output> for wit::Output {
    fn from(output: Output) -> Self {
        Self {
            content: output.content,
            structured: output.structured.map(|value| value.to_string()),
            exit_code: output.exit_code,
        }
    }
}

impl From<wit::Output> for Output {
    fn from(output: wit::Output) -> Self {
        Self {
            content: output.content,
            structured: output
                .structured
                .and_then(|text| serde_json::from_str(&text).ok()),
            exit_code: output.exit_code,
        }
    }
}

/// A type that a tool can return.
pub trait IntoOutput {
    /// Returns the JSON Schema of the structured content; `None` for types without a schema.
    fn schema() -> Option<Value> {
        None
    }

    /// Converts the value to an [`Output`].
    fn into_output(self) -> Result<Output>;
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for () {
    fn into_output(self) -> Result<Output> {
        Ok(Output::new())
    }
}

/// Structured content with an output schema. The text part is compact JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json<T>(
    /// The value, whose type defines the output schema.
    pub T,
);

impl<T> Json<T> {
    /// Replaces the JSON text with one that reads better.
    pub fn worded(self, text: impl Into<String>) -> Worded<T> {
        Worded {
            value: self.0,
            text: text.into(),
        }
    }
}

/// Structured content with an output schema and a custom text part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worded<T> {
    /// The structured content, whose type defines the output schema.
    pub value: T,
    /// The text for the model.
    pub text: String,
}

impl<T: Serialize + JsonSchema> IntoOutput for Json<T> {
    fn schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_output(self) -> Result<Output> {
        let value = to_value(&self.0)?;
        Ok(Output::text(value.to_string()).structured(value))
    }
}

impl<T: Serialize + JsonSchema> IntoOutput for Worded<T> {
    fn schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self.text).structured(to_value(&self.value)?))
    }
}

fn to_value(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|e| Error::execution(format_args!("the result cannot be written as JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Sum {
        total: u32,
    }

    #[test]
    fn json_output_has_text_and_a_schema() {
        let output = Json(Sum { total: 3 }).into_output().unwrap();
        assert_eq!(output.texts().collect::<String>(), r#"{"total":3}"#);
        assert_eq!(output.structured_value().unwrap()["total"], 3);
        assert_eq!(Json::<Sum>::schema().unwrap()["required"][0], "total");
    }

    #[test]
    fn json_output_text_can_be_replaced() {
        let output = Json(Sum { total: 3 })
            .worded("three")
            .into_output()
            .unwrap();
        assert_eq!(output.texts().collect::<String>(), "three");
        assert_eq!(output.structured_value().unwrap()["total"], 3);
    }

    #[test]
    fn json_output_that_cannot_serialize_is_an_error() {
        let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(to_value(&odd).is_err());
    }
}
