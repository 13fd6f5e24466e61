//! Keywords about plain values: bounds of numbers, `enum`, `const` and `type`.

use serde_json::{Map, Value, json};

use super::combinations::null_map;
use super::{NUMBER_FORMATS, TYPES};

/// Copies the bounds of numbers. OpenAPI 3.0 has one bound for each side, with a flag that excludes the bound itself.
pub(super) fn copy_bounds(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    let number = |key: &str| map.get(key).filter(|value| value.is_number());
    if let Some(factor) = number("multipleOf") {
        out.insert("multipleOf".to_owned(), factor.clone());
    }
    for (inclusive, exclusive, sign) in [
        ("minimum", "exclusiveMinimum", 1.0),
        ("maximum", "exclusiveMaximum", -1.0),
    ] {
        let rank = |value: &Value| sign * value.as_f64().unwrap_or_default();
        match (number(inclusive), number(exclusive)) {
            // The tighter of both.
            (Some(bound), other) if other.is_none_or(|other| rank(bound) > rank(other)) => {
                out.insert(inclusive.to_owned(), bound.clone());
            }
            (_, Some(bound)) => {
                out.insert(inclusive.to_owned(), bound.clone());
                out.insert(exclusive.to_owned(), true.into());
            }
            _ => {}
        }
    }
}

/// Converts `enum` and `const`.
pub(super) fn convert_values(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    let mut values = match map.get("enum") {
        Some(Value::Array(values)) if !values.is_empty() => Some(values.clone()),
        _ => None,
    };
    if let Some(value) = map.get("const") {
        values = Some(vec![value.clone()]);
    }
    if let Some(values) = values {
        if values.iter().any(Value::is_null) {
            out.insert("nullable".to_owned(), true.into());
        }
        out.insert("enum".to_owned(), values.into());
    }
}

/// Converts the type, which is one word in OpenAPI 3.0.
pub(super) fn convert_type(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    let kinds: Vec<&str> = match map.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let known: Vec<&str> = kinds
        .iter()
        .copied()
        .filter(|kind| TYPES.contains(kind))
        .collect();
    let is_nullable = kinds.contains(&"null");
    if known.is_empty() {
        if is_nullable {
            out.extend(null_map());
        }
        return;
    }
    if known
        .iter()
        .any(|kind| matches!(*kind, "integer" | "number"))
    {
        let is_defined = |format: &Value| NUMBER_FORMATS.iter().any(|known| format == known);
        if out.get("format").is_some_and(|format| !is_defined(format)) {
            out.remove("format");
        }
    }
    let add_type = |out: &mut Map<String, Value>, kind: &str| {
        out.insert("type".to_owned(), kind.into());
        if is_nullable {
            out.insert("nullable".to_owned(), true.into());
        }
        if kind == "array" {
            // Required in OpenAPI 3.0.
            out.entry("items").or_insert_with(|| json!({}));
        }
    };
    if let [kind] = known[..] {
        return add_type(out, kind);
    }
    // Moved, because copies in nested arrays would multiply.
    let mut array_items = known
        .contains(&"array")
        .then(|| out.remove("items"))
        .flatten();
    let any: Vec<Value> = known
        .into_iter()
        .map(|kind| {
            let mut one = Map::new();
            add_type(&mut one, kind);
            if kind == "array"
                && let Some(items) = array_items.take()
            {
                one.insert("items".to_owned(), items);
            }
            Value::Object(one)
        })
        .collect();
    let has_choice = out.contains_key("anyOf");
    match out.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(all) => all.push(json!({ "anyOf": any })),
        None if has_choice => {
            out.insert("allOf".to_owned(), json!([{ "anyOf": any }]));
        }
        None => drop(out.insert("anyOf".to_owned(), any.into())),
    }
}
