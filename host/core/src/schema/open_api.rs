//! Conversion of schemas to the Schema Object of OpenAPI 3.0 (`openApi3`), an older dialect of JSON Schema.
//!
//! OpenAPI 3.0 has `nullable` instead of the type `null`, no `const`, flags instead of exclusive bounds, and ignores
//! the keywords beside a `$ref`. References are replaced by their targets, so that the result can be embedded anywhere.
//! Keywords without a counterpart are left out: the result then accepts more than the schema, which still decides about
//! calls.

use serde_json::{Map, Value, json};

use super::Schema;
use crate::outcome::json_len;

mod combinations;
mod keywords;

use combinations::{add_choice, add_keyword, null_schema, nullable_choice, with_reference};
use keywords::{convert_type, convert_values, copy_bounds};

/// Maximum nesting depth of the result. Deeper schemas are replaced by one that accepts anything.
const DEPTH_MAX: usize = 32;

/// Maximum number of converted subschemas. References can unfold without bounds.
const SUBSCHEMAS_MAX: usize = 5_000;

/// Maximum size of the result in bytes, approximately. The rest accepts anything.
const BYTES_MAX: usize = 4 << 20;

/// Keywords whose subschemas count separately.
const PARTS: [&str; 10] = [
    "$defs",
    "additionalProperties",
    "allOf",
    "anyOf",
    "definitions",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "properties",
];

/// Keywords with a text.
const TEXTS: [&str; 4] = ["title", "description", "format", "pattern"];
/// Keywords with a count.
const COUNTS: [&str; 6] = [
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
];
/// Keywords with a flag.
const FLAGS: [&str; 4] = ["uniqueItems", "readOnly", "writeOnly", "deprecated"];
/// Keywords with a list of schemas.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Formats of numbers in OpenAPI.
const NUMBER_FORMATS: [&str; 4] = ["int32", "int64", "float", "double"];
/// Types in OpenAPI.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

impl Schema {
    /// Converts the schema to the Schema Object of OpenAPI 3.0. Its root has the type `object`.
    ///
    /// ```
    /// let schema = mimir_core::Schema::unchecked(r#"{"properties": {"a": {"type": ["string", "null"]}}}"#);
    /// let expected = serde_json::json!({
    ///     "type": "object",
    ///     "properties": {"a": {"type": "string", "nullable": true}},
    /// });
    /// assert_eq!(schema.for_open_api(), expected);
    /// ```
    pub fn for_open_api(&self) -> Value {
        let root = self.to_value();
        let mut conversion = OpenApiConversion {
            root: &root,
            followed: Vec::new(),
            subschemas: 0,
            bytes: 0,
            cuts: 0,
        };
        let mut converted = conversion.schema(&root, 0);
        if let Some(object) = converted.as_object_mut() {
            object.entry("type").or_insert_with(|| "object".into());
        }
        converted
    }
}

struct OpenApiConversion<'a> {
    root: &'a Value,
    /// The references that are being followed. One that occurs again is recursive.
    followed: Vec<&'a str>,
    subschemas: usize,
    bytes: usize,
    /// Number of subschemas that were replaced because of a limit.
    cuts: usize,
}

impl<'a> OpenApiConversion<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Value {
        self.subschemas += 1;
        if depth <= DEPTH_MAX && self.subschemas <= SUBSCHEMAS_MAX && self.bytes <= BYTES_MAX {
            self.bytes = self.bytes.saturating_add(own_bytes(schema));
        }
        if depth > DEPTH_MAX || self.subschemas > SUBSCHEMAS_MAX || self.bytes > BYTES_MAX {
            self.cuts += 1;
            return json!({});
        }
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return json!({"not": {}}),
            _ => return json!({}),
        };
        let mut out = Map::new();
        self.copy_annotations(map, &mut out);
        copy_bounds(map, &mut out);
        self.convert_members(map, &mut out, depth);
        self.convert_items(map, &mut out, depth);
        self.convert_combinations(map, &mut out, depth);
        convert_values(map, &mut out);
        convert_type(map, &mut out);
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = self.reference(reference, depth);
            return with_reference(out, target);
        }
        Value::Object(out)
    }

    fn copy_annotations(&self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        for key in TEXTS {
            if let Some(text) = map.get(key).filter(|text| text.is_string()) {
                out.insert(key.to_owned(), text.clone());
            }
        }
        if map.get("contentEncoding") == Some(&json!("base64")) {
            out.insert("format".to_owned(), "byte".into());
        }
        for key in COUNTS {
            if let Some(count) = map.get(key).filter(|count| count.is_u64()) {
                out.insert(key.to_owned(), count.clone());
            }
        }
        for key in FLAGS {
            if let Some(flag) = map.get(key).filter(|flag| flag.is_boolean()) {
                out.insert(key.to_owned(), flag.clone());
            }
        }
        if let Some(default) = map.get("default") {
            out.insert("default".to_owned(), default.clone());
        }
        let examples = map.get("examples").and_then(Value::as_array);
        if let Some(example) = examples.and_then(|examples| examples.first()) {
            out.insert("example".to_owned(), example.clone());
        }
    }

    fn convert_members(
        &mut self,
        map: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) {
        if let Some(Value::Object(members)) = map.get("properties") {
            let members: Map<String, Value> = members
                .iter()
                .map(|(name, member)| (name.clone(), self.schema(member, depth + 1)))
                .collect();
            out.insert("properties".to_owned(), members.into());
        }
        let names = map.get("required").and_then(Value::as_array);
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            out.insert("required".to_owned(), names.clone().into());
        }
        // Members whose names match a pattern may have any value where names cannot be described.
        let has_patterns = map.get("patternProperties").is_some_and(is_not_empty);
        match map.get("additionalProperties") {
            Some(Value::Bool(flag)) => {
                let flag = *flag || has_patterns;
                out.insert("additionalProperties".to_owned(), flag.into());
            }
            Some(others) if !has_patterns => {
                let others = self.schema(others, depth + 1);
                out.insert("additionalProperties".to_owned(), others);
            }
            _ => {}
        }
    }

    fn convert_items(
        &mut self,
        map: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) {
        let first = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(list)), _) | (None, Some(Value::Array(list))) => list.as_slice(),
            _ => &[],
        };
        let others = map.get("items").filter(|items| !items.is_array());
        if first.is_empty() {
            if let Some(items) = others {
                let items = self.schema(items, depth + 1);
                out.insert("items".to_owned(), items);
            }
            return;
        }
        // OpenAPI 3.0 does not distinguish positions: each item has one of the schemas.
        let mut any: Vec<Value> = first
            .iter()
            .map(|item| self.schema(item, depth + 2))
            .collect();
        match others {
            Some(Value::Bool(false)) => {
                out.entry("maxItems").or_insert_with(|| first.len().into());
            }
            Some(others) => any.push(self.schema(others, depth + 2)),
            None => any.push(json!({})),
        }
        out.insert("items".to_owned(), json!({ "anyOf": any }));
    }

    fn convert_combinations(
        &mut self,
        map: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) {
        for key in LISTS {
            let Some(Value::Array(list)) = map.get(key) else {
                continue;
            };
            let cuts = self.cuts;
            let converted = list
                .iter()
                .map(|schema| self.schema(schema, depth + 1))
                .collect::<Vec<_>>();
            if converted.is_empty() {
                continue;
            }
            // A member that accepts more could match together with another one.
            let is_lossless =
                self.cuts == cuts && list.iter().all(|member| is_exact(member, depth));
            let key = match key {
                "oneOf" if !is_lossless => "anyOf",
                key => key,
            };
            if key == "allOf" || !converted.contains(&null_schema()) {
                add_keyword(out, key, converted.into());
                continue;
            }
            add_choice(map, out, nullable_choice(key, converted));
        }
        // The opposite of a schema that accepts more would accept less.
        if let Some(not) = map.get("not").filter(|not| is_exact(not, depth)) {
            let cuts = self.cuts;
            let not = self.schema(not, depth + 1);
            if self.cuts == cuts {
                out.insert("not".to_owned(), not);
            }
        }
    }

    /// Converts the target of a reference. A recursive reference and one that leads nowhere accept anything.
    fn reference(&mut self, reference: &'a str, depth: usize) -> Value {
        let pointer = reference.strip_prefix('#').map(decode_pointer);
        let target = pointer.and_then(|pointer| self.root.pointer(&pointer));
        let Some(target) = target.filter(|_| !self.followed.contains(&reference)) else {
            return json!({});
        };
        self.followed.push(reference);
        let converted = self.schema(target, depth + 1);
        self.followed.pop();
        converted
    }
}

/// Returns the approximate size of a schema without its subschemas.
fn own_bytes(schema: &Value) -> usize {
    let Value::Object(map) = schema else {
        return 0;
    };
    let keyword_bytes = |(key, value): (&String, &Value)| {
        let value_bytes = match value {
            Value::Object(members) if key == "properties" => {
                members.keys().map(String::len).sum::<usize>()
            }
            _ if PARTS.contains(&key.as_str()) => 0,
            value => json_len(value),
        };
        key.len() + value_bytes
    };
    map.iter().map(keyword_bytes).sum::<usize>()
}

/// Returns true if the conversion of a schema accepts the same values as the schema. False if this is not certain.
fn is_exact(schema: &Value, depth: usize) -> bool {
    let map = match schema {
        Value::Object(map) if depth <= DEPTH_MAX => map,
        other => return other.is_boolean(),
    };
    let is_inner_exact = |inner: &Value| is_exact(inner, depth + 1);
    let has_values = map.contains_key("enum") || map.contains_key("const");
    let is_type =
        |kind: &Value| TYPES.iter().any(|known| kind == known) || (kind == "null" && !has_values);
    if map.contains_key("enum") && map.contains_key("const") {
        return false;
    }
    map.iter().all(|(key, value)| match key.as_str() {
        "title" | "description" => true,
        "type" => match value {
            Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_type),
            kind => is_type(kind),
        },
        "enum" => value
            .as_array()
            .is_some_and(|values| !values.is_empty() && !values.iter().any(Value::is_null)),
        "const" => !value.is_null(),
        "pattern" => value.is_string(),
        "uniqueItems" => value.is_boolean(),
        "multipleOf" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            value.is_number()
        }
        "required" => value.is_array(),
        "properties" => value
            .as_object()
            .is_some_and(|members| members.values().all(is_inner_exact)),
        "items" | "additionalProperties" | "not" => is_inner_exact(value),
        "allOf" | "anyOf" | "oneOf" => value
            .as_array()
            .is_some_and(|list| !list.is_empty() && list.iter().all(is_inner_exact)),
        key => COUNTS.contains(&key) && value.is_u64(),
    })
}

fn is_not_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

/// Decodes the percent-encoding of a fragment. Its JSON pointer has escapes of its own.
fn decode_pointer(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
