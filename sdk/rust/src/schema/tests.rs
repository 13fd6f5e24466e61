use serde::{Deserialize, Serialize};

use super::*;

/// Says hello
/// to somebody.
///
/// - politely
/// - once
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema matters")]
struct Greet {
    /// Who is
    /// greeted.
    zed_name: String,
    how: Option<Manner>,
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Manner {
    Kindly,
    VeryKindly,
}

#[derive(Serialize, JsonSchema)]
struct Tree {
    leaves: Vec<Tree>,
}

#[test]
fn schema_root_is_an_object_without_extras() {
    let (schema, description) = input::<Greet>();
    assert_eq!(description, "Says hello to somebody.\n\n- politely\n- once");
    assert_eq!(schema["type"], "object");
    for key in ["$schema", "title", "description"] {
        assert!(schema.get(key).is_none(), "{key}: {schema}");
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["zedName"]));
}

#[test]
fn schema_properties_keep_their_order_and_docs() {
    let (schema, _) = input::<Greet>();
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(
        properties.keys().collect::<Vec<_>>(),
        ["zedName", "how", "times"]
    );
    assert_eq!(properties["zedName"]["description"], "Who is greeted.");
    assert_eq!(properties["times"]["default"], 1);
    assert!(properties["times"].get("format").is_none());
}

#[test]
fn schema_inlines_subschemas_unless_recursive() {
    let (schema, _) = input::<Greet>();
    assert!(!schema.to_string().contains("$ref"), "{schema}");
    assert!(schema.to_string().contains("very-kindly"), "{schema}");
    assert!(output::<Tree>().to_string().contains("$ref"));
}

#[test]
fn tool_names_are_snake_case() {
    for (name, snake) in [
        ("WordCount", "word_count"),
        ("HTTPFetch", "http_fetch"),
        ("Utf8Check", "utf8_check"),
        ("already_snake", "already_snake"),
        ("A", "a"),
        ("Sha256", "sha256"),
        ("Odd__Name_", "odd_name"),
        ("List_of_u32", "list_of_u32"),
    ] {
        assert_eq!(snake_case(name), snake);
    }
}

#[test]
fn doc_comments_keep_lines_of_code_and_lists() {
    let text = "One\ntwo.\n\n```\na\nb\n```\nEnd\nof it.\n1. first\n2. second";
    assert_eq!(
        unwrap_lines(text),
        "One two.\n\n```\na\nb\n```\nEnd of it.\n1. first\n2. second"
    );
}
