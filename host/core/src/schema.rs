//! JSON Schema 2020-12, stored as text and compiled on first use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde::ser::{self, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{ToolError, ToolErrorCode};

mod cost;
mod failures;
mod model_schema;
mod open_api;
mod shape;

pub use model_schema::{children, for_models};

use cost::ValidationMode;
use shape::SchemaShape;

/// A schema whose root is an object. It is compiled on the first validation, so that listing a thousand tools is cheap.
/// Serializes to the original text.
#[derive(Clone)]
pub struct Schema {
    text: Arc<str>,
    compiled: Arc<OnceLock<Result<CompiledSchema, String>>>,
}

/// A validator, with the structure of the schema for estimating costs.
struct CompiledSchema {
    validator: Validator,
    shape: SchemaShape,
}

/// Maximum number of failures that are counted.
const FAILURES_COUNTED_MAX: usize = 1_000;

/// Maximum length of a quoted instance in a message, in characters.
const QUOTED_MAX: usize = 200;

/// Maximum total size of the compiled patterns of a schema, in bytes. A pattern of a few characters can compile to
/// megabytes.
const PATTERNS_MAX: usize = 16 << 20;

/// Range of the maximum size of one compiled pattern, in bytes. Within it, patterns share [`PATTERNS_MAX`] equally.
const PATTERN_MAX: usize = 2 << 20;
const PATTERN_MIN: usize = 64 << 10;

impl Schema {
    /// Wraps the text of a schema without checking it.
    pub fn unchecked(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            compiled: Arc::default(),
        }
    }

    /// Parses and compiles a schema with an object at its root.
    pub fn parse(text: &str) -> Result<Self, InvalidSchema> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| InvalidSchema(format!("not JSON: {e}")))?;
        let Some(object) = value.as_object() else {
            return Err(InvalidSchema("not an object".into()));
        };
        if object.get("type").is_some_and(|kind| kind != "object") {
            return Err(InvalidSchema("the type of the root is not `object`".into()));
        }
        let schema = Self::unchecked(text);
        schema.compiled()?;
        Ok(schema)
    }

    /// Returns the schema as JSON text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the schema as a value; an empty object if the text is not valid JSON.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| json!({}))
    }

    /// Returns true if the root object may have a member of this name. Only a closed schema excludes members.
    pub fn allows_member(&self, name: &str) -> bool {
        let value = self.to_value();
        let is_named = value["properties"].get(name).is_some();
        let is_closed = value["additionalProperties"] == Value::Bool(false)
            && value.get("patternProperties").is_none()
            && !["allOf", "anyOf", "oneOf", "$ref"]
                .iter()
                .any(|key| value.get(key).is_some());
        is_named || !is_closed
    }

    fn compiled(&self) -> Result<&CompiledSchema, InvalidSchema> {
        self.compiled
            .get_or_init(|| {
                let value: Value = serde_json::from_str(&self.text).map_err(|e| e.to_string())?;
                // Analyzed first, because a schema that unfolds too far may also take too long to compile.
                let shape = SchemaShape::analyze(&value).map_err(|e| e.0)?;
                let share = PATTERNS_MAX / shape.patterns.max(1);
                let patterns = PatternOptions::fancy_regex()
                    .backtrack_limit(shape::BACKTRACK_LIMIT)
                    .size_limit(share.clamp(PATTERN_MIN, PATTERN_MAX));
                let validator = jsonschema::draft202012::options()
                    .with_pattern_options(patterns)
                    .build(&value)
                    .map_err(|e| crate::text::prefix(&e.to_string(), QUOTED_MAX).to_owned())?;
                Ok(CompiledSchema { validator, shape })
            })
            .as_ref()
            .map_err(|reason| InvalidSchema(reason.clone()))
    }

    /// Counts the failures of `value`, up to [`FAILURES_COUNTED_MAX`]. Returns the maximum if counting would take too
    /// long, or if the schema is not valid.
    pub(crate) fn count_failures(&self, value: &Value) -> usize {
        let Ok(CompiledSchema { validator, shape }) = self.compiled() else {
            return FAILURES_COUNTED_MAX;
        };
        match shape.mode_for(value) {
            ValidationMode::Skip => FAILURES_COUNTED_MAX,
            _ if validator.is_valid(value) => 0,
            ValidationMode::Decide => FAILURES_COUNTED_MAX,
            ValidationMode::ListFailures => validator
                .iter_errors(value)
                .take(FAILURES_COUNTED_MAX)
                .count(),
        }
    }

    /// Returns an upper bound of the steps of one validation of `value`.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        match self.compiled() {
            Ok(compiled) => compiled.shape.steps(value),
            Err(_) => 1,
        }
    }

    /// Validates `value`, which messages call `what`. The error lists the failures, each with its position as a JSON
    /// pointer.
    pub fn validate(&self, what: &str, value: &Value) -> Result<(), ToolError> {
        let CompiledSchema { validator, shape } = self
            .compiled()
            .map_err(|e| ToolError::new(ToolErrorCode::InvalidInput, e.to_string()))?;
        let mode = shape.mode_for(value);
        if mode == ValidationMode::Skip {
            return Err(ToolError::new(
                ToolErrorCode::LimitExceeded,
                format!(
                    "{what} would take too long to validate against the schema: nest less deeply, or pass less at a time"
                ),
            ));
        }
        if validator.is_valid(value) {
            return Ok(());
        }
        if mode == ValidationMode::Decide {
            return Err(ToolError::new(
                ToolErrorCode::InvalidInput,
                format!(
                    "{what} must match the schema, but does not; listing the failures would take too long, so pass less at a time to see them"
                ),
            ));
        }
        let errors = validator.iter_errors(value);
        Err(failures::mismatch_error(what, errors, &self.to_value()))
    }
}

/// Error of a text that is not a usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct InvalidSchema(String);

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(ser::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Not parsed, because most schemas are never used.
        let raw = Box::<RawValue>::deserialize(from)?;
        Ok(Self::unchecked(raw.get()))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests;
