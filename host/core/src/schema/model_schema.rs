//! Conversion of schemas for models and MCP clients.

use serde_json::{Map, Value};

use super::Schema;

/// Keywords whose value may be a schema.
const ONE: [&str; 4] = [
    "additionalProperties",
    "additionalItems",
    "contains",
    "items",
];
/// Keywords whose value may be a list of schemas.
const LISTS: [&str; 5] = ["items", "prefixItems", "allOf", "anyOf", "oneOf"];
/// Keywords whose value is an object with schemas by name.
const NAMED: [&str; 3] = ["properties", "$defs", "definitions"];

impl Schema {
    /// Converts the schema for models; see [`for_models`].
    pub fn for_models(&self) -> Value {
        for_models(self.to_value())
    }
}

/// Converts a schema for models: the root gets the type `object`, and numbers lose their `format`. Anything but a JSON
/// object becomes an empty schema.
pub fn for_models(mut schema: Value) -> Value {
    remove_number_formats(&mut schema);
    let mut object = match schema {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.entry("type").or_insert_with(|| "object".into());
    Value::Object(object)
}

/// Returns the direct subschemas of a schema.
pub fn children(map: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut subschemas = Vec::new();
    for (key, value) in map {
        let key = key.as_str();
        if LISTS.contains(&key) && value.is_array() {
            subschemas.extend(value.as_array_mut().into_iter().flatten());
        } else if NAMED.contains(&key) {
            subschemas.extend(
                value
                    .as_object_mut()
                    .into_iter()
                    .flat_map(|named| named.values_mut()),
            );
        } else if ONE.contains(&key) {
            subschemas.push(value);
        }
    }
    subschemas
}

/// Removes the formats of numbers. JSON Schema does not define formats such as `uint64`, so clients warn about them.
fn remove_number_formats(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let is_number = |kind: &Value| kind == "integer" || kind == "number";
    let is_numeric = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_number),
        Some(kind) => is_number(kind),
        None => false,
    };
    if is_numeric {
        map.remove("format");
    }
    for inner in children(map) {
        remove_number_formats(inner);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn model_schema_omits_number_formats() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer", "format": "uint64", "minimum": 0},
            "b": {"type": ["integer", "null"], "format": "int32"},
            "c": {"type": "string", "format": "date-time"},
            "format": {"type": "array", "items": {"type": "number", "format": "double"}}}});
        let schema = for_models(schema);
        let expected = json!({"type": "object", "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"type": ["integer", "null"]},
            "c": {"type": "string", "format": "date-time"},
            "format": {"type": "array", "items": {"type": "number"}}}});
        assert_eq!(schema, expected);
    }
}
