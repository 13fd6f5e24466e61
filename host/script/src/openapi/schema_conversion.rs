//! Conversion of OpenAPI schemas to JSON Schema 2020-12.
//!
//! The result accepts everything that the original accepts, and possibly more: the server validates the request again.
//! References are replaced by their targets up to a bounded depth; what is deeper, recursive, or not understood accepts
//! any value.

use std::collections::HashSet;

use mimir_core::{Schema, text};
use serde_json::{Map, Value, json};

use super::document::{ApiDocument, SpecVersion};
use super::schema_values::{is_usable_name, shorten, small_json, unique_values, visible_name};

/// Size of a tool's schema in bytes that the conversion aims at, because models read it.
const MAX_SCHEMA_BYTES: usize = 12 << 10;

/// Maximum size of a tool's schema in bytes.
const MAX_WIDE_SCHEMA_BYTES: usize = 256 << 10;

/// Numbers of levels that are kept, each tried if the schema with the one before is too large.
const DEPTHS: [usize; 6] = [12, 6, 4, 3, 2, 1];

/// Maximum number of schemas that one conversion visits. As text, more of them need more than `MAX_SCHEMA_BYTES`.
const MAX_VISITED: usize = 2_000;

/// Maximum number of the values of `enum`.
const MAX_ENUM_VALUES: usize = 200;

/// Number of values of `enum` that take as much work as a schema.
const VALUES_PER_VISIT: usize = 8;

/// Maximum size in bytes of the value of `default` or `const`.
const MAX_VALUE_BYTES: usize = 200;

/// Maximum number of required members that are read.
const MAX_REQUIRED: usize = 1_000;

/// Types of JSON Schema.
const TYPES: [&str; 7] = [
    "string", "number", "integer", "boolean", "object", "array", "null",
];

/// Keywords whose value is a count.
const COUNTS: [&str; 6] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// Bounds of one conversion.
#[derive(Debug, Clone, Copy)]
struct ConversionBounds {
    depth: usize,
    description: usize,
    patterns: bool,
}

/// Converts the schemas of a document.
pub(crate) struct SchemaConverter<'a> {
    document: &'a ApiDocument,
    bounds: ConversionBounds,
    /// The references that lead to the current schema.
    open: Vec<&'a str>,
    visited: usize,
}

impl<'a> SchemaConverter<'a> {
    /// Builds the schema of a tool's arguments with ever smaller bounds until it is small enough and valid. `build`
    /// creates it with a converter.
    ///
    /// # Errors
    ///
    /// Returns the reason if it is never valid or small enough, or if the document has needed too much work.
    pub(crate) fn fit(
        document: &'a ApiDocument,
        mut build: impl FnMut(&mut Self) -> Value,
    ) -> Result<Value, String> {
        for patterns in [true, false] {
            for depth in DEPTHS {
                let description = if depth > 4 { 400 } else { 120 };
                let mut converter = Self {
                    document,
                    bounds: ConversionBounds {
                        depth,
                        description,
                        patterns,
                    },
                    open: Vec::new(),
                    visited: 0,
                };
                let schema = build(&mut converter);
                if !document.spend_work(converter.visited) {
                    return Err("the document describes too much: choose fewer operations with `--include`, such as `--include tag:NAME`".to_owned());
                }
                let is_last = depth == 1;
                if converter.is_full() && !is_last {
                    continue;
                }
                let text = schema.to_string();
                if text.len() > MAX_SCHEMA_BYTES && !is_last {
                    continue;
                }
                if text.len() > MAX_WIDE_SCHEMA_BYTES {
                    return Err(format!(
                        "its arguments need a schema of more than {}",
                        text::bytes(MAX_WIDE_SCHEMA_BYTES as u64)
                    ));
                }
                if Schema::parse(&text).is_ok() {
                    return Ok(schema);
                }
                break;
            }
        }
        Err("its arguments have no valid schema".to_owned())
    }

    /// Returns true if the conversion has visited as many schemas as it may. The rest accepts any value.
    fn is_full(&self) -> bool {
        self.visited > MAX_VISITED
    }

    /// Converts a schema.
    pub(crate) fn convert(&mut self, schema: &'a Value) -> Value {
        self.convert_at(schema, 0)
    }

    /// Shortens the description of a schema or a parameter, and makes invisible characters visible.
    pub(crate) fn describe(&self, description: &str) -> String {
        shorten(description, self.bounds.description)
    }

    fn convert_at(&mut self, schema: &'a Value, depth: usize) -> Value {
        self.visited += 1;
        let Some(object) = schema.as_object().filter(|_| !self.is_full()) else {
            return json!({});
        };
        let Some(reference) = object.get("$ref").and_then(Value::as_str) else {
            return self.convert_object(object, depth);
        };
        let name = reference.rsplit('/').next().unwrap_or_default();
        if self.open.contains(&reference) || self.open.len() > 64 {
            return json!({ "description": self.describe(&format!("Recursive: {name}")) });
        }
        let Some(target) = self.document.lookup(reference) else {
            return json!({});
        };
        self.open.push(reference);
        let mut converted = self.convert_at(target, depth);
        self.open.pop();
        // Only OpenAPI 3.1 allows keywords beside a reference; those of the description are useful in any version.
        if let Some(description) = object.get("description").and_then(Value::as_str) {
            converted["description"] = self.describe(description).into();
        }
        converted
    }

    fn convert_object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Value {
        let mut out = Map::new();
        let mut types = self.types(schema);
        let has_object_keys =
            schema.contains_key("properties") || schema.contains_key("additionalProperties");
        if types.is_empty() && has_object_keys {
            types.push("object");
        }
        match types.as_slice() {
            [] => {}
            [one] => {
                out.insert("type".to_owned(), (*one).into());
            }
            several => {
                out.insert("type".to_owned(), several.to_vec().into());
            }
        }
        if let Some(description) = self.description(schema) {
            out.insert("description".to_owned(), description.into());
        }
        self.copy_values(schema, &mut out);
        self.copy_numbers(schema, &mut out);
        if depth >= self.bounds.depth {
            return Value::Object(out);
        }
        self.convert_members(schema, depth, &mut out);
        if let Some(items) = schema.get("items") {
            out.insert("items".to_owned(), self.convert_at(items, depth + 1));
        }
        // Alternatives may overlap once their depth is limited, so that `oneOf` would reject valid values.
        for key in ["oneOf", "anyOf"] {
            let Some(alternatives) = schema.get(key).and_then(Value::as_array) else {
                continue;
            };
            let mut converted: Vec<Value> = Vec::new();
            for alternative in alternatives {
                converted.push(self.convert_at(alternative, depth + 1));
                if self.is_full() {
                    // The others accept any value.
                    converted.push(json!({}));
                    break;
                }
            }
            if is_nullable(schema) {
                converted.push(json!({"type": "null"}));
            }
            converted.dedup();
            let accepts_all = converted
                .iter()
                .any(|schema| schema.as_object().is_some_and(Map::is_empty));
            if !accepts_all && !converted.is_empty() && !out.contains_key("anyOf") {
                out.insert("anyOf".to_owned(), converted.into());
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            for part in parts {
                // Part of the same value, so the depth stays; the number of visited schemas is bounded.
                let part = self.convert_at(part, depth + 1);
                merge(&mut out, part);
                if self.is_full() {
                    break;
                }
            }
        }
        if let Some(name) = schema
            .get("discriminator")
            .and_then(|found| found.get("propertyName")?.as_str())
        {
            let name = text::visible(text::prefix(name, 100));
            let note = format!("`{name}` selects the variant.");
            let note = match out.get("description").and_then(Value::as_str) {
                Some(description) => format!("{description} {note}"),
                None => note,
            };
            out.insert("description".to_owned(), note.into());
        }
        Value::Object(out)
    }

    fn types(&self, schema: &'a Map<String, Value>) -> Vec<&'a str> {
        let is_type = |name: &&str| TYPES.contains(name);
        let mut types: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) if one == "file" => vec!["string"],
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => {
                let several = several.iter().take(2 * TYPES.len());
                several.filter_map(Value::as_str).collect()
            }
            _ => Vec::new(),
        };
        types.retain(is_type);
        if is_nullable(schema) && !types.is_empty() && !types.contains(&"null") {
            types.push("null");
        }
        let mut unique: Vec<&str> = Vec::new();
        for name in types {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        unique
    }

    fn description(&self, schema: &Map<String, Value>) -> Option<String> {
        let description = schema
            .get("description")
            .or_else(|| schema.get("title"))?
            .as_str()?;
        let description = self.describe(description);
        (!description.is_empty()).then_some(description)
    }

    fn copy_values(&mut self, schema: &Map<String, Value>, out: &mut Map<String, Value>) {
        if let Some(values) = schema.get("enum").and_then(Value::as_array)
            && values.len() <= MAX_ENUM_VALUES
        {
            self.visited += values.len() / VALUES_PER_VISIT;
            let unique = unique_values(values, is_nullable(schema)).unwrap_or_default();
            if !unique.is_empty() {
                out.insert("enum".to_owned(), unique.into());
            }
        }
        for key in ["const", "default"] {
            if let Some(value) = schema.get(key)
                && small_json(value, MAX_VALUE_BYTES).is_some()
            {
                out.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(format) = schema
            .get("format")
            .and_then(Value::as_str)
            .filter(|format| format.len() <= 40)
        {
            out.insert("format".to_owned(), format.into());
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && self.bounds.patterns
            && pattern.len() <= 500
        {
            out.insert("pattern".to_owned(), pattern.into());
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            out.insert("uniqueItems".to_owned(), true.into());
        }
        if schema.get("deprecated") == Some(&Value::Bool(true)) {
            out.insert("deprecated".to_owned(), true.into());
        }
    }

    fn copy_numbers(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) {
        for key in COUNTS {
            if let Some(count) = schema.get(key).and_then(Value::as_u64) {
                out.insert(key.to_owned(), count.into());
            }
        }
        if let Some(step) = schema
            .get("multipleOf")
            .filter(|step| step.as_f64().is_some_and(|step| step > 0.0))
        {
            out.insert("multipleOf".to_owned(), step.clone());
        }
        for (key, exclusive) in [
            ("minimum", "exclusiveMinimum"),
            ("maximum", "exclusiveMaximum"),
        ] {
            let limit = schema.get(key).filter(|limit| limit.is_number());
            match schema.get(exclusive) {
                // OpenAPI 3.0 has a flag beside the limit.
                Some(Value::Bool(true)) if self.document.version != SpecVersion::OpenApi31 => {
                    if let Some(limit) = limit {
                        out.insert(exclusive.to_owned(), limit.clone());
                    }
                    continue;
                }
                Some(number) if number.is_number() => {
                    out.insert(exclusive.to_owned(), number.clone());
                }
                _ => {}
            }
            if let Some(limit) = limit {
                out.insert(key.to_owned(), limit.clone());
            }
        }
    }

    fn convert_members(
        &mut self,
        schema: &'a Map<String, Value>,
        depth: usize,
        out: &mut Map<String, Value>,
    ) {
        let mut properties = Map::new();
        let mut read_only = HashSet::new();
        // False if members are left out, which are then accepted with any value.
        let mut is_complete = true;
        for (name, property) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if self.is_full() {
                is_complete = false;
                break;
            }
            let target = self.document.resolve(property).unwrap_or(property);
            if property["readOnly"] == true || target["readOnly"] == true {
                self.visited += 1;
                read_only.insert(name.as_str());
                continue;
            }
            if !is_usable_name(name) {
                self.visited += 1;
                is_complete = false;
                continue;
            }
            properties.insert(visible_name(name), self.convert_at(property, depth + 1));
        }
        let listed = schema.get("required").and_then(Value::as_array);
        let names = listed.into_iter().flatten().take(MAX_REQUIRED);
        let mut known = HashSet::new();
        let required: Vec<&str> = names
            .filter_map(Value::as_str)
            .filter(|name| !read_only.contains(name) && properties.contains_key(*name))
            .filter(|name| known.insert(*name))
            .collect();
        if !properties.is_empty() {
            out.insert("properties".to_owned(), properties.into());
        }
        if !required.is_empty() {
            out.insert("required".to_owned(), required.into());
        }
        match schema.get("additionalProperties") {
            // With `allOf`, the members of the other parts would be rejected, too.
            Some(Value::Bool(false))
                if !schema.contains_key("allOf") && read_only.is_empty() && is_complete =>
            {
                out.insert("additionalProperties".to_owned(), false.into());
            }
            Some(values @ Value::Object(_)) => {
                let values = self.convert_at(values, depth + 1);
                if values.as_object().is_some_and(|values| !values.is_empty()) {
                    out.insert("additionalProperties".to_owned(), values);
                }
            }
            _ => {}
        }
    }
}

fn is_nullable(schema: &Map<String, Value>) -> bool {
    ["nullable", "x-nullable"]
        .iter()
        .any(|key| schema.get(*key) == Some(&Value::Bool(true)))
}

/// Adds a part of `allOf`. Of two values for one keyword, the first stays, because the server checks both.
fn merge(out: &mut Map<String, Value>, part: Value) {
    let Value::Object(part) = part else {
        return;
    };
    for (key, value) in part {
        match (key.as_str(), out.get_mut(&key), value) {
            ("additionalProperties", ..) => {}
            ("properties", Some(Value::Object(known)), Value::Object(new)) => {
                for (name, schema) in new {
                    known.entry(name).or_insert(schema);
                }
            }
            ("required", Some(Value::Array(known)), Value::Array(new)) => {
                for name in new {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            (_, Some(_), _) => {}
            (_, None, value) => {
                out.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(schemas: Value, version: &str) -> Value {
        let text = json!({"openapi": version, "paths": {}, "components": {"schemas": schemas}})
            .to_string();
        let document = ApiDocument::parse("a", text.as_bytes()).unwrap();
        let root = &document.root["components"]["schemas"]["Root"];
        SchemaConverter::fit(
            &document,
            |converter| json!({"type": "object", "properties": {"body": converter.convert(root)}}),
        )
        .unwrap()["properties"]["body"]
            .take()
    }

    #[test]
    fn openapi_schema_keywords_become_those_of_2020_12() {
        let converted = convert(
            json!({"Root": {
                "type": "object",
                "required": ["id", "name", "missing", "name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": true},
                    "name": {"type": "string", "nullable": true, "enum": ["a", "b", "a"], "x-other": 1, "example": "a"},
                    "size": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "minLength": -1},
                    "either": {"oneOf": [{"type": "string"}, {"type": "integer"}], "nullable": true,
                        "discriminator": {"propertyName": "kind"}},
                    "map": {"additionalProperties": {"type": "string"}},
                }
            }}),
            "3.0.0",
        );
        assert_eq!(
            converted,
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": ["string", "null"], "enum": ["a", "b", null]},
                    "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
                    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}],
                        "description": "`kind` selects the variant."},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "required": ["name"],
            })
        );
        let newer = convert(
            json!({"Root": {"type": ["string", "null"], "exclusiveMinimum": 3, "const": "x"}}),
            "3.1.0",
        );
        assert_eq!(
            newer,
            json!({"type": ["string", "null"], "const": "x", "exclusiveMinimum": 3})
        );
    }

    #[test]
    fn openapi_schema_merges_all_of() {
        let converted = convert(
            json!({
                "Root": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}],
                    "description": "Both"},
                "Base": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false},
            }),
            "3.0.0",
        );
        assert_eq!(
            converted,
            json!({"description": "Both", "type": "object", "required": ["a", "b"],
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}})
        );
    }

    #[test]
    fn openapi_schema_bounds_recursion_and_size() {
        let tree = convert(
            json!({"Root": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Root"}}}}}),
            "3.0.0",
        );
        // The first level is not entered by reference.
        let inner = &tree["properties"]["children"]["items"]["properties"]["children"]["items"];
        assert_eq!(*inner, json!({"description": "Recursive: Root"}));
        // A chain in which each schema refers to the next ten times.
        let mut schemas = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
            let properties: Map<String, Value> = (0..10)
                .map(|name| (format!("p{name}"), next.clone()))
                .collect();
            schemas.insert(
                format!("L{level}"),
                json!({"type": "object", "properties": properties}),
            );
        }
        schemas.insert(
            "Root".to_owned(),
            json!({"$ref": "#/components/schemas/L0"}),
        );
        let chain = convert(schemas.into(), "3.0.0");
        assert!(
            chain.to_string().len() <= MAX_SCHEMA_BYTES,
            "{}",
            chain.to_string().len()
        );
        assert!(chain["properties"]["p9"]["type"] == "object", "{chain}");
        let looped = convert(
            json!({"Root": {"$ref": "#/components/schemas/Root"}}),
            "3.0.0",
        );
        assert_eq!(looped, json!({"description": "Recursive: Root"}));
    }

    #[test]
    fn openapi_schema_of_many_members_stays_open() {
        let properties: Map<String, Value> = (0..3 * MAX_VISITED)
            .map(|number| (format!("p{number}"), json!({})))
            .collect();
        let wide = convert(
            json!({"Root": {"properties": properties, "required": ["p0", "p5999"], "additionalProperties": false}}),
            "3.0.0",
        );
        let count = wide["properties"].as_object().unwrap().len();
        assert!(count <= MAX_VISITED, "{count}");
        assert_eq!(wide["required"], json!(["p0"]));
        assert!(wide.get("additionalProperties").is_none());
        // Alternatives that were not visited could accept anything.
        let alternatives: Vec<Value> = (0..2 * MAX_VISITED)
            .map(|number| json!({"const": number}))
            .collect();
        let wide = convert(json!({"Root": {"oneOf": alternatives}}), "3.0.0");
        assert_eq!(wide, json!({}));
    }

    #[test]
    fn openapi_schema_work_is_bounded_for_the_document() {
        let document = ApiDocument::parse("a", b"{\"openapi\": \"3.0.0\", \"paths\": {}}").unwrap();
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let convert = || SchemaConverter::fit(&document, |converter| converter.convert(&schema));
        assert_eq!(convert().unwrap(), schema);
        assert_eq!(document.spent_work(), 2);
        while document.spend_work(1_000_000) {}
        let reason = convert().unwrap_err();
        assert!(reason.contains("--include"), "{reason}");
    }

    #[test]
    fn openapi_schema_drops_what_cannot_be_compiled() {
        let converted = convert(
            json!({"Root": {"type": "string", "pattern": "(?<x", "maxLength": 3}}),
            "3.0.0",
        );
        assert_eq!(converted, json!({"type": "string", "maxLength": 3}));
        let odd = convert(
            json!({"Root": {"type": "any", "properties": 5, "required": "a", "enum": {}, "allOf": 1, "items": [1]}}),
            "3.0.0",
        );
        assert!(odd.is_object(), "{odd}");
    }
}
