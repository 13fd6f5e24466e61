//! JSON Schema 2020-12: kept as text, compiled when a call needs it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde::ser::{self, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Code, ToolError};

mod cost;
mod failures;
mod models;
mod shape;

pub use models::{children, for_models};

use cost::Verdict;
use shape::Shape;

/// A schema whose root is an object. Compiling waits for the first validation, so that listing
/// a thousand tools compiles nothing. As JSON it is the schema itself, in its own spelling.
#[derive(Clone)]
pub struct Schema {
    text: Arc<str>,
    compiled: Arc<OnceLock<Result<Compiled, String>>>,
}

/// What checks values, and what tells how long that takes.
struct Compiled {
    validator: Validator,
    shape: Shape,
}

/// More ways not to match are not told apart.
const MOST_COUNTED: usize = 1_000;

/// The longest part of an instance that a message repeats.
const SHOWN: usize = 200;

/// The compiled forms of all patterns, in bytes: they are kept as long as the schema, and a few characters can be
/// megabytes.
const PATTERNS_MOST: usize = 16 << 20;

/// What one of them may have of that, and has where there are many.
const PATTERN_MOST: usize = 2 << 20;
const PATTERN_LEAST: usize = 64 << 10;

impl Schema {
    /// Takes a schema's text without looking at it. For text that was checked before.
    pub fn unchecked(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            compiled: Arc::default(),
        }
    }

    /// Checks that the text is a schema with an object at its root.
    pub fn parse(text: &str) -> Result<Self, BadSchema> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| BadSchema(format!("not JSON: {e}")))?;
        let Some(object) = value.as_object() else {
            return Err(BadSchema("not an object".into()));
        };
        if object.get("type").is_some_and(|kind| kind != "object") {
            return Err(BadSchema("the root has another type than `object`".into()));
        }
        let schema = Self::unchecked(text);
        schema.compiled()?;
        Ok(schema)
    }

    /// The schema as JSON text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The schema as a value.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| json!({}))
    }

    /// Whether a member of this name could be there: only a schema that closes its object says no.
    pub fn takes(&self, name: &str) -> bool {
        let value = self.to_value();
        let named = value["properties"].get(name).is_some();
        let closed = value["additionalProperties"] == Value::Bool(false)
            && value.get("patternProperties").is_none()
            && !["allOf", "anyOf", "oneOf", "$ref"]
                .iter()
                .any(|key| value.get(key).is_some());
        named || !closed
    }

    fn compiled(&self) -> Result<&Compiled, BadSchema> {
        self.compiled
            .get_or_init(|| {
                let value: Value = serde_json::from_str(&self.text).map_err(|e| e.to_string())?;
                // First: what unfolds to too much may take as long to compile.
                let shape = Shape::of(&value).map_err(|e| e.0)?;
                let each = PATTERNS_MOST / shape.patterns.max(1);
                let patterns = PatternOptions::fancy_regex()
                    .backtrack_limit(shape::BACKTRACK)
                    .size_limit(each.clamp(PATTERN_LEAST, PATTERN_MOST));
                let validator = jsonschema::draft202012::options()
                    .with_pattern_options(patterns)
                    .build(&value)
                    .map_err(|e| crate::text::prefix(&e.to_string(), SHOWN).to_owned())?;
                Ok(Compiled { validator, shape })
            })
            .as_ref()
            .map_err(|reason| BadSchema(reason.clone()))
    }

    /// In how many ways `value` does not match, as far as that is counted; a schema that is none matches nothing.
    pub(crate) fn faults(&self, value: &Value) -> usize {
        let Ok(Compiled { validator, shape }) = self.compiled() else {
            return MOST_COUNTED;
        };
        match shape.verdict(value) {
            Verdict::Leave => MOST_COUNTED,
            _ if validator.is_valid(value) => 0,
            Verdict::Decide => MOST_COUNTED,
            Verdict::Name => validator.iter_errors(value).take(MOST_COUNTED).count(),
        }
    }

    /// Steps that one check of `value` takes, at most.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        match self.compiled() {
            Ok(compiled) => compiled.shape.steps(value),
            Err(_) => 1,
        }
    }

    /// Checks `value` and names every failure with its place, as a JSON pointer.
    pub fn validate(&self, what: &str, value: &Value) -> Result<(), ToolError> {
        let Compiled { validator, shape } = self
            .compiled()
            .map_err(|e| ToolError::new(Code::InvalidInput, e.to_string()))?;
        let verdict = shape.verdict(value);
        if verdict == Verdict::Leave {
            return Err(ToolError::new(
                Code::LimitExceeded,
                format!(
                    "{what} would take too long to check against the schema; nest less deeply, or pass less at a time"
                ),
            ));
        }
        if validator.is_valid(value) {
            return Ok(());
        }
        if verdict == Verdict::Decide {
            return Err(ToolError::new(
                Code::InvalidInput,
                format!(
                    "{what} must match the schema: somewhere it does not; where would take too long to say, so try with less"
                ),
            ));
        }
        Err(failures::error(what, validator.iter_errors(value)))
    }
}

/// Text that is no usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct BadSchema(String);

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(ser::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Skipped over and not taken apart: most are never asked for.
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
