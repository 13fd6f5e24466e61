//! All text of a server that a model may read, as lines for the person who decides whether to trust it.

use mimir_core::Tool;
use serde_json::Value;

use super::{FAINT, WARN, styled};

/// Number of schema levels that are shown as separate lines. Deeper levels are shown as JSON.
const MAX_DEPTH: usize = 6;

/// Returns the texts of a tool: its title, its description, and all texts of its schemas. Control characters were
/// escaped when the text was received.
pub fn tool_texts(tool: &Tool) -> Vec<String> {
    let definition = &tool.definition;
    let mut lines = Vec::new();
    if let Some(title) = &definition.title {
        lines.push(format!("title: {title}"));
    }
    lines.extend(definition.description.lines().map(str::to_owned));
    let schemas = [
        ("takes", Some(&definition.input_schema)),
        ("gives", definition.output_schema.as_ref()),
    ];
    for (direction, schema) in schemas {
        if let Some(schema) = schema {
            walk(direction, &schema.to_value(), MAX_DEPTH, &mut lines);
        }
    }
    lines
}

/// Returns the texts of a tool and its warnings, with colours.
pub fn shown(tool: &Tool) -> Vec<String> {
    let lines = tool_texts(tool).into_iter();
    let lines = lines.map(|line| styled(FAINT, mimir_core::text::visible(&line)));
    let flags = tool.flags.iter();
    let flags =
        flags.map(|flag| styled(WARN, format_args!("! {}", mimir_core::text::visible(flag))));
    lines.chain(flags).collect()
}

/// Returns the texts of a prompt or a resource.
pub fn entry_texts(kind: &str, entry: &Value) -> Vec<String> {
    let name = entry["name"]
        .as_str()
        .or_else(|| entry["uri"].as_str())
        .unwrap_or_default();
    let mut lines = vec![format!("{kind} {name}")];
    if let Value::Object(map) = entry {
        let rest = map.iter().filter(|(key, _)| *key != "name");
        lines.extend(rest.map(|(key, value)| format!("  {key}: {}", plain(value))));
    }
    lines
}

/// Schema keys that are shown separately.
const KNOWN: [&str; 5] = ["type", "description", "properties", "items", "required"];

fn walk(path: &str, schema: &Value, levels: usize, lines: &mut Vec<String>) {
    let Value::Object(map) = schema else { return };
    let properties = map.get("properties").and_then(Value::as_object);
    let required = map.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if levels == MAX_DEPTH {
        let description = map
            .get("description")
            .map(|words| format!(": {}", plain(words)));
        let rest = other_keys(map);
        if description.is_some() || !rest.is_empty() {
            lines.push(format!("  {path}{}{rest}", description.unwrap_or_default()));
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let property_path = format!("{path} {name}");
        let requirement = if required.contains(&name.as_str()) {
            ", required"
        } else {
            ""
        };
        line(&property_path, requirement, property, lines);
        deeper(&property_path, property, levels, lines);
    }
    if let Some(items) = map.get("items") {
        let property_path = format!("{path}[]");
        if items.get("description").is_some()
            || items
                .as_object()
                .is_some_and(|map| !other_keys(map).is_empty())
        {
            line(&property_path, "", items, lines);
        }
        deeper(&property_path, items, levels, lines);
    }
    // `required` may contain text that is not the name of a property, and a model reads it.
    let others = required
        .into_iter()
        .filter(|name| !properties.is_some_and(|all| all.contains_key(*name)));
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        lines.push(format!("  {path}, required: {}", others.join(", ")));
    }
}

/// Adds the line of a property: its type, its description, and the rest of its schema.
fn line(path: &str, requirement: &str, schema: &Value, lines: &mut Vec<String>) {
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Null => "any".to_owned(),
        other => other.to_string(),
    };
    let description = match &schema["description"] {
        Value::Null => String::new(),
        words => format!(": {}", plain(words)),
    };
    let rest = schema.as_object().map(other_keys).unwrap_or_default();
    lines.push(format!("  {path} ({kind}{requirement}){description}{rest}"));
}

/// Formats the keys of a schema that are not shown separately.
fn other_keys(map: &serde_json::Map<String, Value>) -> String {
    let others = map.iter().filter(|(key, value)| {
        // A known dialect and a boolean contain no text of the server.
        let dialect = *key == "$schema" && value.as_str().is_some_and(is_dialect);
        !KNOWN.contains(&key.as_str()) && !value.is_boolean() && !dialect
    });
    let others: Vec<String> = others
        .map(|(key, value)| format!("{key}: {}", plain(value)))
        .collect();
    if others.is_empty() {
        String::new()
    } else {
        format!(" [{}]", others.join("; "))
    }
}

/// Published dialects of JSON Schema, without the scheme and the empty fragment.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
];

fn is_dialect(uri: &str) -> bool {
    let rest = uri
        .strip_prefix("https://")
        .or_else(|| uri.strip_prefix("http://"));
    rest.is_some_and(|rest| DIALECTS.contains(&rest.strip_suffix('#').unwrap_or(rest)))
}

fn deeper(path: &str, schema: &Value, levels: usize, lines: &mut Vec<String>) {
    match levels {
        1 => lines.push(format!("  {path}: {schema}")),
        levels => walk(path, schema, levels - 1, lines),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', " ⏎ "),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// All strings of a value, keys included.
    fn strings(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::String(text) => all.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| strings(item, all)),
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                all.push(key.clone());
                strings(value, all);
            }),
            _ => {}
        }
    }

    #[test]
    fn server_card_shows_every_text_of_a_schema() {
        let mut deep = json!({"type": "string", "description": "DEEPEST"});
        for level in 0..8 {
            deep = json!({"type": "object", "description": format!("LEVEL-{level}"), "properties": {format!("p{level}"): deep}});
        }
        let schema = json!({
            "type": "object", "description": "OUTERMOST", "title": "TITLED",
            "required": ["a", "NOT-A-PROPERTY"],
            "properties": {
                "a": {"type": "string", "description": "FIRST", "default": "DEFAULT", "enum": ["ONE", "TWO"]},
                "b": {"type": "array", "items": {"type": "object", "description": "ITEM", "properties": {"c": {"title": "INNER", "const": "CONST"}}}},
                "d": {"anyOf": [{"description": "EITHER"}, {"examples": ["EXAMPLE"]}]},
                "deep": deep,
            },
            "$defs": {"x": {"description": "DEFINED"}}, "x-note": "EXTENSION",
            "$schema": "http://json-schema.org/draft-07/schema# DIALECT",
        });
        let mut lines = Vec::new();
        walk("takes", &schema, MAX_DEPTH, &mut lines);
        let card = lines.join("\n");
        let mut all = Vec::new();
        strings(&schema, &mut all);
        let structure = [
            "type",
            "object",
            "string",
            "array",
            "properties",
            "items",
            "required",
            "description",
        ];
        for word in all
            .iter()
            .filter(|word| !structure.contains(&word.as_str()))
        {
            assert!(card.contains(word.as_str()), "{word}: {card}");
        }
        for dialect in [
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            let mut lines = Vec::new();
            walk(
                "takes",
                &json!({ "$schema": dialect }),
                MAX_DEPTH,
                &mut lines,
            );
            assert!(lines.is_empty(), "{lines:?}");
        }
    }
}
