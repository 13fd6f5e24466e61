//! The JSON types that a property of a schema accepts, and the conversion of a text to one of them.

use serde_json::Value;

/// Types that a property accepts according to its schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PropertyType {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    null: bool,
    object: bool,
    array: Option<Box<PropertyType>>,
}

/// Maximum depth of references and alternatives, because a schema may refer to itself.
const MAX_DEPTH: u32 = 8;

impl PropertyType {
    /// Returns the types of the property `key`; `None` if the schema neither has the property nor allows additional
    /// ones.
    pub fn of_property(schema: &Value, key: &str) -> Option<Self> {
        let mut types = Self::default();
        if let Some(property) = schema["properties"].get(key) {
            types.add(schema, property, MAX_DEPTH);
            return Some(types);
        }
        match &schema["additionalProperties"] {
            Value::Bool(false) => None,
            Value::Object(_) => {
                types.add(schema, &schema["additionalProperties"], MAX_DEPTH);
                Some(types)
            }
            _ => Some(types),
        }
    }

    /// Returns true if the property accepts an array.
    pub fn is_array(&self) -> bool {
        self.array.is_some()
    }

    fn add(&mut self, root: &Value, schema: &Value, depth: u32) {
        if depth == 0 {
            return;
        }
        if let Some(target) = schema["$ref"]
            .as_str()
            .and_then(|at| root.pointer(at.strip_prefix('#')?))
        {
            self.add(root, target, depth - 1);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for part in schema[key].as_array().into_iter().flatten() {
                self.add(root, part, depth - 1);
            }
        }
        match &schema["type"] {
            Value::String(name) => self.add_type(root, schema, name, depth),
            Value::Array(names) => {
                for name in names.iter().filter_map(Value::as_str) {
                    self.add_type(root, schema, name, depth);
                }
            }
            _ => {
                let constants = schema["enum"].as_array().into_iter().flatten();
                for value in constants.chain(schema.get("const")) {
                    let name = match value {
                        Value::Null => "null",
                        Value::Bool(_) => "boolean",
                        Value::Number(_) => "number",
                        Value::String(_) => "string",
                        Value::Array(_) => "array",
                        Value::Object(_) => "object",
                    };
                    self.add_type(root, schema, name, depth);
                }
            }
        }
    }

    fn add_type(&mut self, root: &Value, schema: &Value, name: &str, depth: u32) {
        match name {
            "string" => self.string = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "object" => self.object = true,
            "array" => {
                let items = self.array.get_or_insert_default();
                items.add(root, &schema["items"], depth - 1);
            }
            _ => {}
        }
    }

    /// Converts a text to the accepted type that fits best. A text that fits no type stays a string, so that validation
    /// reports the path and the expected type.
    pub fn parse_value(&self, text: String) -> Value {
        if let Some(items) = &self.array {
            return match serde_json::from_str(&text) {
                Ok(value @ Value::Array(_)) => value,
                _ if self.string => Value::String(text),
                _ => Value::Array(vec![items.parse_value(text)]),
            };
        }
        match serde_json::from_str(&text) {
            Ok(value @ Value::Bool(_)) if self.boolean => value,
            Ok(Value::Number(number)) if self.number || (self.integer && !number.is_f64()) => {
                Value::Number(number)
            }
            Ok(value @ Value::Object(_)) if self.object => value,
            Ok(Value::Null) if self.null && !self.string => Value::Null,
            _ => Value::String(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(property: Value, text: &str) -> Value {
        let schema = json!({"properties": {"k": property}, "$defs": {"Mode": {"enum": ["a", 1]}, "Loop": {"$ref": "#/$defs/Loop"}}});
        PropertyType::of_property(&schema, "k")
            .unwrap()
            .parse_value(text.to_owned())
    }

    #[test]
    fn property_values_parse_by_schema_type() {
        assert_eq!(read(json!({"type": "string"}), "12"), json!("12"));
        assert_eq!(read(json!({"type": "integer"}), "-12"), json!(-12));
        assert_eq!(
            read(json!({"type": "integer"}), "18446744073709551615"),
            json!(u64::MAX)
        );
        assert_eq!(read(json!({"type": "number"}), "1.5"), json!(1.5));
        assert_eq!(read(json!({"type": "boolean"}), "false"), json!(false));
        assert_eq!(read(json!({"type": "null"}), "null"), json!(null));
        assert_eq!(
            read(json!({"type": "object"}), "{\"a\":1}"),
            json!({"a": 1})
        );
        assert_eq!(
            read(json!({"type": "array", "items": {"type": "integer"}}), "3"),
            json!([3])
        );
    }

    #[test]
    fn property_values_that_do_not_match_stay_text() {
        assert_eq!(read(json!({"type": "integer"}), "1.5"), json!("1.5"));
        assert_eq!(read(json!({"type": "boolean"}), "yes"), json!("yes"));
        assert_eq!(read(json!({"type": "integer"}), ""), json!(""));
    }

    #[test]
    fn property_type_resolves_unions_and_references() {
        assert_eq!(read(json!({"type": ["integer", "null"]}), "7"), json!(7));
        assert_eq!(
            read(json!({"type": ["string", "null"]}), "null"),
            json!("null")
        );
        assert_eq!(
            read(
                json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
                "true"
            ),
            json!(true)
        );
        assert_eq!(read(json!({"$ref": "#/$defs/Mode"}), "1"), json!(1));
        assert_eq!(read(json!({"$ref": "#/$defs/Mode"}), "a"), json!("a"));
        assert_eq!(read(json!({"$ref": "#/$defs/Loop"}), "a"), json!("a"));
        let list =
            json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]});
        assert_eq!(read(list, "7"), json!(["7"]));
    }

    #[test]
    fn property_type_of_unknown_keys_uses_additional_properties() {
        assert_eq!(
            PropertyType::of_property(&json!({"additionalProperties": false}), "x"),
            None
        );
        let typed =
            PropertyType::of_property(&json!({"additionalProperties": {"type": "integer"}}), "x")
                .unwrap();
        assert_eq!(typed.parse_value("4".into()), json!(4));
        assert_eq!(
            PropertyType::of_property(&json!({}), "x")
                .unwrap()
                .parse_value("4".into()),
            json!("4")
        );
    }
}
