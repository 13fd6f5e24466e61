//! Conversion of types and doc comments to names, descriptions and JSON Schemas.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Returns the schema of a tool's arguments and the doc comment of the type.
pub(crate) fn input<T: JsonSchema>() -> (Value, String) {
    let mut schema = settings().into_generator().into_root_schema_for::<T>();
    let description = match schema.remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    (finish(schema), description)
}

/// Returns the schema of a tool's structured content.
pub(crate) fn output<T: JsonSchema>() -> Value {
    let mut schema = settings()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.remove("description");
    finish(schema)
}

/// Returns settings for draft 2020-12 with inline subschemas, because models read a schema from top to bottom.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(tidy))
}

/// Removes keywords that only cost tokens, and unwraps doc comments.
fn tidy(schema: &mut Schema) {
    // Formats such as `uint32` are specific to schemars: no validator knows them, and some models' APIs reject them.
    if let Some(Value::String(format)) = schema.get("format")
        && (format.starts_with("int")
            || format.starts_with("uint")
            || format == "float"
            || format == "double")
    {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get("description") {
        let text = unwrap_lines(text);
        schema.insert("description".into(), text.into());
    }
}

/// Finishes the root of a schema: the contract requires `type: object`, and the title only costs tokens.
fn finish(mut schema: Schema) -> Value {
    schema.remove("title");
    schema.remove("$schema");
    let mut root = Map::new();
    root.insert("type".into(), "object".into());
    if let Some(own) = schema.as_object_mut() {
        root.append(own);
    }
    Value::Object(root)
}

/// Joins the lines of each paragraph; the lines of lists, quotes and code stay separate.
pub(crate) fn unwrap_lines(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut fenced, mut open) = (false, false);
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        let blank = line.trim().is_empty();
        match lines.last_mut() {
            Some(last) if open && !fence && !blank && !starts_block(line) => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push(line.trim_end().to_owned()),
        }
        fenced ^= fence;
        open = !fenced && !fence && !blank;
    }
    lines.join("\n").trim().to_owned()
}

fn starts_block(line: &str) -> bool {
    let start = line.trim_start();
    line.starts_with("    ")
        || ["- ", "* ", "#", ">", "|"]
            .iter()
            .any(|mark| start.starts_with(mark))
        || start
            .split_once(". ")
            .is_some_and(|(number, _)| number.parse::<u8>().is_ok())
}

/// `WordCount` becomes `word_count`, `HTTPFetch` `http_fetch`, `Utf8Check` `utf8_check`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (i, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            if !snake.is_empty() && !snake.ends_with('_') {
                snake.push('_');
            }
            continue;
        }
        if letter.is_ascii_uppercase() && i > 0 {
            let before = letters[i - 1];
            let word_ends = before.is_ascii_lowercase() || before.is_ascii_digit();
            let acronym_ends = before.is_ascii_uppercase()
                && letters.get(i + 1).is_some_and(char::is_ascii_lowercase);
            if (word_ends || acronym_ends) && !snake.ends_with('_') {
                snake.push('_');
            }
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests;
