//! Reading of OpenAPI documents in JSON or YAML, and their references.

use std::cell::Cell;
use std::fmt;

use mimir_core::{ToolError, text};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::yaml;

/// Maximum size of a document in bytes. The largest public ones have 15 MB.
pub const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// Maximum number of references that lead from one to the next.
const MAX_REFERENCE_CHAIN: usize = 16;

/// Maximum length of a reference in bytes.
const MAX_REFERENCE_BYTES: usize = 4_096;

/// Work that the conversion of a document may take, in visited schemas. Small documents can describe more work than
/// any machine has time for, because many operations can refer to the same schema.
const MAX_WORK: usize = 10_000_000;

/// Methods of operations. `trace` is not supported, because it echoes secrets.
pub(crate) const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// Version of the specification that a document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecVersion {
    Swagger2,
    OpenApi30,
    OpenApi31,
}

/// A parsed document.
#[derive(Debug)]
pub(crate) struct ApiDocument {
    pub(crate) root: Value,
    pub(crate) version: SpecVersion,
    /// The work that is left, in visited schemas.
    work_left: Cell<usize>,
}

fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::invalid_input(message.into())
}

impl ApiDocument {
    /// Parses a document. `name` is used in messages.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self, ToolError> {
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            return Err(ToolError::limit_exceeded(format!(
                "{name} is too large: expected at most {}",
                text::bytes(MAX_DOCUMENT_BYTES)
            )));
        }
        let content = std::str::from_utf8(bytes)
            .map_err(|_| invalid(format!("{name} is not UTF-8: expected JSON or YAML")))?;
        let content = content.trim_start_matches('\u{feff}');
        let root = if content.trim_start().starts_with('{') {
            match serde_json::from_str(content) {
                Ok(root) => root,
                // YAML may begin with a brace, too.
                Err(error) => parse_yaml(name, content)
                    .map_err(|_| invalid(format!("{name} is not valid JSON: {error}")))?,
            }
        } else {
            parse_yaml(name, content)?
        };
        let version = |key: &str| root[key].as_str().unwrap_or_default();
        let version = match (version("openapi"), version("swagger")) {
            (v, _) if v == "3.0" || v.starts_with("3.0.") => SpecVersion::OpenApi30,
            (v, _) if v == "3.1" || v.starts_with("3.1.") || v.starts_with("3.2.") => {
                SpecVersion::OpenApi31
            }
            (_, "2.0") => SpecVersion::Swagger2,
            (v, w) => {
                let found = text::visible(text::prefix(if v.is_empty() { w } else { v }, 20));
                let found = if found.is_empty() {
                    "neither `openapi` nor `swagger` names a version".to_owned()
                } else {
                    format!("it has version {found}")
                };
                return Err(invalid(format!(
                    "{name} is not a supported OpenAPI document: {found}; expected OpenAPI 3.0, 3.1 or Swagger 2.0"
                )));
            }
        };
        if !root["paths"].is_object() {
            return Err(invalid(format!(
                "{name} has no operations: expected the key `paths` with an object"
            )));
        }
        Ok(Self {
            root,
            version,
            work_left: Cell::new(MAX_WORK),
        })
    }

    /// Subtracts work from what is left for this document. Returns false if nothing is left.
    pub(crate) fn spend_work(&self, visited: usize) -> bool {
        self.work_left
            .set(self.work_left.get().saturating_sub(visited));
        self.work_left.get() > 0
    }

    /// Returns the work that was spent.
    #[cfg(test)]
    pub(crate) fn spent_work(&self) -> usize {
        MAX_WORK - self.work_left.get()
    }

    /// Follows the references of a value within the document. `None` for references that lead elsewhere or nowhere.
    pub(crate) fn resolve<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        let mut value = value;
        for _ in 0..MAX_REFERENCE_CHAIN {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.lookup(reference)?,
                None => return Some(value),
            }
        }
        None
    }

    /// Returns the target of one reference.
    pub(crate) fn lookup(&self, reference: &str) -> Option<&Value> {
        if reference.len() > MAX_REFERENCE_BYTES {
            return None;
        }
        let pointer = reference.strip_prefix('#')?;
        match self.root.pointer(pointer) {
            Some(target) => Some(target),
            None => self.root.pointer(&decode_percent(pointer)),
        }
    }

    /// Returns true for Swagger 2.0.
    pub(crate) fn is_swagger(&self) -> bool {
        self.version == SpecVersion::Swagger2
    }
}

fn decode_percent(pointer: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), pointer.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match decoded {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_yaml(name: &str, content: &str) -> Result<Value, ToolError> {
    yaml::check_yaml(content).map_err(|rejection| invalid(format!("{name}:{rejection}")))?;
    let YamlJson(value) = serde_yaml::from_str(content).map_err(|error| {
        let error = text::visible(text::prefix(&error.to_string(), 300));
        invalid(format!("{name} is not valid YAML: {error}"))
    })?;
    if !value.is_object() {
        return Err(invalid(format!(
            "{name} is not an OpenAPI document: expected an object in JSON or YAML"
        )));
    }
    Ok(value)
}

/// A JSON value in YAML. Numbers and booleans become names of members, such as the status 200 in `responses`, and integers
/// that are too large become floating-point numbers.
struct YamlJson(Value);

impl<'de> Deserialize<'de> for YamlJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(YamlJsonVisitor).map(Self)
    }
}

struct YamlJsonVisitor;

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

impl<'de> Visitor<'de> for YamlJsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without tags")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(float(number as f64))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(float(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(YamlJson(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((YamlJson(key), YamlJson(value))) = members.next_entry()? {
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_document_has_a_supported_version() {
        for (good, version) in [
            ("openapi: 3.0.3\npaths: {}\n", SpecVersion::OpenApi30),
            (
                "{\"openapi\": \"3.1.0\", \"paths\": {}}",
                SpecVersion::OpenApi31,
            ),
            ("swagger: '2.0'\npaths: {}\n", SpecVersion::Swagger2),
        ] {
            assert_eq!(
                ApiDocument::parse("a", good.as_bytes()).unwrap().version,
                version
            );
        }
        for (bad, why) in [
            ("openapi: 4.0.0\npaths: {}", "version 4.0.0"),
            ("paths: {}", "neither"),
            ("openapi: 3.0.0", "no operations"),
            ("- 1", "expected an object"),
            ("{\"openapi\": ", "not valid JSON"),
        ] {
            let error = ApiDocument::parse("a", bad.as_bytes()).unwrap_err();
            assert!(error.message.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn openapi_document_bounds_size_nesting_and_aliases() {
        let large = vec![b' '; usize::try_from(MAX_DOCUMENT_BYTES).unwrap() + 1];
        let error = ApiDocument::parse("a", &large).unwrap_err();
        assert_eq!(error.code, mimir_core::ToolErrorCode::LimitExceeded);
        let deep_json = format!("{{\"a\": {}", "[".repeat(1_000_000));
        assert!(ApiDocument::parse("a", deep_json.as_bytes()).is_err());
        let mut bomb = String::from("openapi: 3.0.0\na0: &a0 some words\n");
        for level in 1..40 {
            let below = level - 1;
            bomb.push_str(&format!("a{level}: &a{level} [*a{below}, *a{below}]\n"));
        }
        let error = ApiDocument::parse("a", bomb.as_bytes()).unwrap_err();
        assert!(error.message.contains("aliases"), "{error}");
    }

    #[test]
    fn openapi_references_end_in_the_document() {
        let text = "openapi: 3.0.0\npaths: {/a: {get: {x: 1}}}\na: {$ref: '#/b'}\nb: {$ref: '#/paths/~1a/get'}\n\
            loop: {$ref: '#/loop'}\nlarge: [18446744073709552000, -9223372036854776000, 1.5, ~, yes]\nfar: {$ref: 'other.yml#/a'}\ncode: {200: {ok: true}}\n";
        let document = ApiDocument::parse("a", text.as_bytes()).unwrap();
        assert_eq!(document.resolve(&document.root["a"]).unwrap()["x"], 1);
        for none in ["loop", "far"] {
            assert_eq!(document.resolve(&document.root[none]), None, "{none}");
        }
        assert_eq!(document.lookup("#/paths/%7E1a/get").unwrap()["x"], 1);
        assert_eq!(document.root["code"]["200"]["ok"], true);
        let large = serde_json::json!([
            18_446_744_073_709_552_000.0,
            -9_223_372_036_854_776_000.0,
            1.5,
            null,
            "yes"
        ]);
        assert_eq!(document.root["large"], large);
    }
}
