//! Properties of an object schema, formatted for display.

use serde_json::Value;

/// A property of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolParameter {
    /// Key of the property.
    pub name: String,
    /// Short form of the type, such as `string`, `integer[]` or `grep | glob`.
    pub kind: String,
    /// True if the property is required.
    pub required: bool,
    /// Description, default and bounds on one line.
    pub about: String,
}

/// Maximum depth of references and alternatives, because a schema may refer to itself.
const MAX_DEPTH: u32 = 6;

impl ToolParameter {
    /// Returns the properties of `schema`, required ones first.
    pub fn all(schema: &Value) -> Vec<Self> {
        let required = |name: &String| {
            schema["required"]
                .as_array()
                .is_some_and(|all| all.iter().any(|value| value == name))
        };
        let mut parameters: Vec<Self> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| Self {
                name: name.clone(),
                kind: kind(schema, property, MAX_DEPTH),
                required: required(name),
                about: about(property),
            })
            .collect();
        parameters.sort_by_key(|parameter| !parameter.required);
        parameters
    }
}

fn about(property: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(text) = property["description"].as_str() {
        parts.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
        parts.push(format!("[default: {default}]"));
    }
    for (key, name) in [
        ("minimum", "from"),
        ("maximum", "to"),
        ("maxLength", "characters at most"),
        ("maxItems", "items at most"),
    ] {
        if let Some(bound) = property.get(key) {
            parts.push(format!("[{name} {bound}]"));
        }
    }
    parts.join(" ")
}

fn kind(root: &Value, schema: &Value, depth: u32) -> String {
    if depth == 0 {
        return "…".to_owned();
    }
    if let Some(target) = schema["$ref"]
        .as_str()
        .and_then(|at| root.pointer(at.strip_prefix('#')?))
    {
        return kind(root, target, depth - 1);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(parts) = schema[key].as_array() {
            return joined(parts.iter().map(|part| kind(root, part, depth - 1)));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return joined(values.iter().map(constant));
    }
    if let Some(value) = schema.get("const") {
        return constant(value);
    }
    let of_type = |name: &str| match name {
        "array" => format!("{}[]", kind(root, &schema["items"], depth - 1)),
        name => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => of_type(name),
        Value::Array(names) => joined(names.iter().filter_map(Value::as_str).map(of_type)),
        _ => "any".to_owned(),
    }
}

fn constant(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats alternatives. `null` is left out, because optional properties are marked elsewhere.
fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = Vec::new();
    for part in parts.filter(|part| part != "null") {
        if !names.contains(&part) {
            names.push(part);
        }
    }
    names.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameter_types_are_shown_in_short_form() {
        let root = json!({"$defs": {"Mode": {"enum": ["grep", "glob"]}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}}});
        let short = |schema: Value| kind(&root, &schema, MAX_DEPTH);
        assert_eq!(short(json!({"type": ["integer", "null"]})), "integer");
        assert_eq!(
            short(json!({"type": "array", "items": {"type": "string"}})),
            "string[]"
        );
        assert_eq!(
            short(json!({"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]})),
            "grep | glob"
        );
        assert_eq!(short(json!({"$ref": "#/$defs/Loop"})), "…");
        assert_eq!(short(json!({})), "any");
    }

    #[test]
    fn parameters_list_required_ones_first() {
        let schema = json!({
            "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string", "description": "two\nlines"}},
            "required": ["b"],
        });
        let all = ToolParameter::all(&schema);
        assert_eq!(
            (all[0].name.as_str(), all[0].required, all[0].about.as_str()),
            ("b", true, "two lines")
        );
        assert_eq!(all[1].about, "[default: \"x\"]");
    }
}
