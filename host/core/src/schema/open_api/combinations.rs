//! Combinations of converted schemas: keywords that apply together, choices, and `nullable`.

use serde_json::{Map, Value, json};

/// Adds a keyword. If the schema has it already, both apply.
pub(super) fn add_keyword(out: &mut Map<String, Value>, key: &str, value: Value) {
    if out.contains_key(key) {
        add_to_all(out, Map::from_iter([(key.to_owned(), value)]));
    } else {
        out.insert(key.to_owned(), value);
    }
}

/// Adds a schema that applies, too.
fn add_to_all(out: &mut Map<String, Value>, schema: Map<String, Value>) {
    let schema = Value::Object(schema);
    match out.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(all) => all.push(schema),
        None => drop(out.insert("allOf".to_owned(), json!([schema]))),
    }
}

/// Merges a converted choice with the schema `map` that contains it, whose texts win. If they share other keywords,
/// both apply.
pub(super) fn add_choice(
    map: &Map<String, Value>,
    out: &mut Map<String, Value>,
    mut choice: Map<String, Value>,
) {
    // These keywords are added after the choice.
    let has_later = ["type", "enum", "const", "not"]
        .iter()
        .any(|key| map.contains_key(*key));
    let is_text = |key: &str| matches!(key, "title" | "description" | "default" | "example");
    let is_shared = |key: &String| out.contains_key(key) && !is_text(key.as_str());
    if has_later || choice.keys().any(is_shared) {
        return add_to_all(out, choice);
    }
    choice.retain(|key, _| !out.contains_key(key));
    out.extend(choice);
}

/// Merges the target of a reference with the keywords beside it, which apply, too.
pub(super) fn with_reference(mut out: Map<String, Value>, target: Value) -> Value {
    let mut target = match target {
        Value::Object(target) => target,
        other => return other,
    };
    let is_annotation = |key: &String| matches!(key.as_str(), "title" | "description" | "default");
    if out.keys().all(is_annotation) {
        // The texts beside the reference are about this use of the target.
        target.extend(out);
        return Value::Object(target);
    }
    match out.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(all) => all.push(Value::Object(target)),
        None => drop(out.insert("allOf".to_owned(), json!([target]))),
    }
    Value::Object(out)
}

/// Returns the schema of the value `null` alone.
pub(super) fn null_map() -> Map<String, Value> {
    Map::from_iter([
        ("nullable".to_owned(), true.into()),
        ("enum".to_owned(), json!([null])),
    ])
}

pub(super) fn null_schema() -> Value {
    Value::Object(null_map())
}

/// Converts a choice with `null` to a choice of the others, each of which may be null. If there is only one other, its
/// keywords are returned.
pub(super) fn nullable_choice(key: &str, choices: Vec<Value>) -> Map<String, Value> {
    let null = null_schema();
    let mut others: Vec<Value> = choices
        .into_iter()
        .filter(|choice| *choice != null)
        .collect();
    let is_typed = |choice: &Value| {
        let narrower = ["enum", "allOf", "anyOf", "oneOf", "not"];
        choice.get("type").is_some() && narrower.iter().all(|key| choice.get(*key).is_none())
    };
    if others.is_empty() || !others.iter().all(is_typed) {
        // `nullable` only extends a type, so that the value null needs a choice of its own.
        others.push(null);
        return Map::from_iter([(key.to_owned(), others.into())]);
    }
    if key == "oneOf" && others.len() > 1 {
        // Of several nullable choices, null would match more than one.
        if let Some(first) = others[0].as_object_mut() {
            first.insert("nullable".to_owned(), true.into());
        }
        return Map::from_iter([(key.to_owned(), others.into())]);
    }
    for other in &mut others {
        if let Some(other) = other.as_object_mut() {
            other.insert("nullable".to_owned(), true.into());
        }
    }
    match (others.len(), others.pop()) {
        (1, Some(Value::Object(only))) => only,
        (_, last) => {
            others.extend(last);
            Map::from_iter([(key.to_owned(), others.into())])
        }
    }
}
