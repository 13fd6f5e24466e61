//! Schemas in the form for models and MCP clients.

use serde_json::{Map, Value};

use super::Schema;

/// Keywords whose value is one schema, a list of schemas (or one), and schemas by name.
const ONE: [&str; 4] = [
    "additionalProperties",
    "additionalItems",
    "contains",
    "items",
];
const LISTS: [&str; 5] = ["items", "prefixItems", "allOf", "anyOf", "oneOf"];
const NAMED: [&str; 3] = ["properties", "$defs", "definitions"];

impl Schema {
    /// The schema in the form for a model: the root has the type `object`, and numbers have no `format`.
    pub fn for_models(&self) -> Value {
        for_models(self.to_value())
    }
}

/// Converts a schema to the form for a model; anything but an object gives an empty one.
pub fn for_models(mut schema: Value) -> Value {
    without_number_formats(&mut schema);
    let mut object = match schema {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.entry("type").or_insert_with(|| "object".into());
    Value::Object(object)
}

/// The direct subschemas of a schema.
pub fn children(map: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut all = Vec::new();
    for (key, value) in map {
        let key = key.as_str();
        if LISTS.contains(&key) && value.is_array() {
            all.extend(value.as_array_mut().into_iter().flatten());
        } else if NAMED.contains(&key) {
            all.extend(
                value
                    .as_object_mut()
                    .into_iter()
                    .flat_map(|named| named.values_mut()),
            );
        } else if ONE.contains(&key) {
            all.push(value);
        }
    }
    all
}

/// Removes formats of numbers that JSON Schema does not define, such as `uint64`: clients warn about each of them.
fn without_number_formats(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    let number = |kind: &Value| kind == "integer" || kind == "number";
    let numeric = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(number),
        Some(kind) => number(kind),
        None => false,
    };
    if numeric {
        map.remove("format");
    }
    for inner in children(map) {
        without_number_formats(inner);
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
