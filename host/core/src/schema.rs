//! JSON Schema 2020-12: kept as text, compiled when a call needs it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde::ser::{self, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Code, ToolError};

/// A schema whose root is an object. Compiling waits for the first validation, so that listing
/// a thousand tools compiles nothing. As JSON it is the schema itself, in its own spelling.
#[derive(Clone)]
pub struct Schema {
    text: Arc<str>,
    compiled: Arc<OnceLock<Result<Validator, String>>>,
}

/// More failures than this help nobody; the first ones name the cause.
const MOST_FAILURES: usize = 20;

/// More ways not to match are not told apart.
const MOST_COUNTED: usize = 1_000;

/// The longest part of an instance that a message repeats.
const SHOWN: usize = 200;

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
        schema.validator()?;
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

    fn validator(&self) -> Result<&Validator, BadSchema> {
        self.compiled
            .get_or_init(|| {
                let value: Value = serde_json::from_str(&self.text).map_err(|e| e.to_string())?;
                jsonschema::draft202012::options()
                    .build(&value)
                    .map_err(|e| crate::text::prefix(&e.to_string(), SHOWN).to_owned())
            })
            .as_ref()
            .map_err(|reason| BadSchema(reason.clone()))
    }

    /// In how many ways `value` does not match, as far as that is counted; a schema that is none matches nothing.
    pub(crate) fn faults(&self, value: &Value) -> usize {
        match self.validator() {
            Ok(validator) if validator.is_valid(value) => 0,
            Ok(validator) => validator.iter_errors(value).take(MOST_COUNTED).count(),
            Err(_) => MOST_COUNTED,
        }
    }

    /// Checks `value` and names every failure with its place, as a JSON pointer.
    pub fn validate(&self, what: &str, value: &Value) -> Result<(), ToolError> {
        let validator = self
            .validator()
            .map_err(|e| ToolError::new(Code::InvalidInput, e.to_string()))?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let failures: Vec<Failure> = validator
            .iter_errors(value)
            .take(MOST_FAILURES)
            .map(|error| Failure {
                path: crate::text::prefix(error.instance_path().as_str(), SHOWN).to_owned(),
                message: crate::text::prefix(&error.to_string(), SHOWN).to_owned(),
            })
            .collect();
        let mut message = format!("{what} must match the schema:");
        for failure in &failures {
            let path = if failure.path.is_empty() {
                "/"
            } else {
                &failure.path
            };
            message.push_str(&format!(" {path}: {};", failure.message));
        }
        message.pop();
        Err(ToolError::new(Code::InvalidInput, message)
            .with_details(json!({ "failures": failures })))
    }
}

/// One place where a value does not match.
#[derive(Debug, Clone, Serialize)]
struct Failure {
    path: String,
    message: String,
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
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema::parse(
            r#"{"type":"object","properties":{"n":{"type":"integer"},"a":{"type":"array","items":{"type":"string"}}},"required":["n"]}"#,
        )
        .unwrap()
    }

    #[test]
    fn every_failure_has_its_path() {
        let error = schema()
            .validate("arguments", &json!({"n": "x", "a": ["ok", 3]}))
            .unwrap_err();
        assert_eq!(error.code, Code::InvalidInput);
        assert!(
            error.message.contains("/n:") && error.message.contains("/a/1:"),
            "{error}"
        );
        assert_eq!(
            error.details.unwrap()["failures"].as_array().unwrap().len(),
            2
        );
        assert!(schema().validate("arguments", &json!({"n": 1})).is_ok());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in [
            "",
            "[]",
            "{\"type\":\"string\"}",
            "{\"type\":\"object\",\"properties\":3}",
        ] {
            assert!(Schema::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn references_are_never_fetched() {
        let remote = r#"{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}"#;
        assert!(Schema::parse(remote).is_err());
        assert!(
            Schema::parse(&remote.replace("http://127.0.0.1:1/x.json", "file:///etc/passwd"))
                .is_err()
        );
    }
}
