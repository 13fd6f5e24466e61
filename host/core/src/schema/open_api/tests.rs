//! Tests of the conversion of schemas to OpenAPI 3.0.

use super::*;

fn convert(member: Value) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"a": member},
        "$defs": {
            "name": {"type": "string", "minLength": 1},
            "tree": {"type": "object", "properties": {
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
            "a/b c": {"type": "boolean"},
        },
    });
    let converted = Schema::unchecked(schema.to_string()).for_open_api();
    assert!(converted.get("$defs").is_none());
    converted["properties"]["a"].clone()
}

#[test]
fn open_api_has_nullable_instead_of_null() {
    for (schema, expected) in [
        (
            json!({"type": ["string", "null"]}),
            json!({"type": "string", "nullable": true}),
        ),
        (
            json!({"type": "null"}),
            json!({"enum": [null], "nullable": true}),
        ),
        (
            json!({"type": ["string", "integer", "null"]}),
            json!({"anyOf": [
                {"type": "string", "nullable": true},
                {"type": "integer", "nullable": true}]}),
        ),
        (
            json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "d"}),
            json!({"type": "integer", "minimum": 1, "nullable": true, "description": "d"}),
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "integer", "nullable": true}, {"type": "string"}]}),
        ),
        (
            json!({"anyOf": [{"enum": [1, 2]}, {"type": "null"}]}),
            json!({"anyOf": [{"enum": [1, 2]}, {"enum": [null], "nullable": true}]}),
        ),
        (
            json!({"type": ["string", "null"], "enum": ["x", null]}),
            json!({"type": "string", "enum": ["x", null], "nullable": true}),
        ),
    ] {
        assert_eq!(convert(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn open_api_never_accepts_less() {
    for (schema, expected) in [
        (json!({"not": {"type": "string", "format": "x"}}), json!({})),
        (
            json!({"not": {"type": "string"}}),
            json!({"not": {"type": "string"}}),
        ),
        (
            json!({"oneOf": [{"type": "object", "propertyNames": {"maxLength": 2}}, {"type": "object"}]}),
            json!({"anyOf": [{"type": "object"}, {"type": "object"}]}),
        ),
        (
            json!({"description": "outer",
                "anyOf": [{"type": "integer", "description": "inner"}, {"type": "null"}]}),
            json!({"description": "outer", "type": "integer", "nullable": true}),
        ),
        (
            json!({"minimum": 1, "anyOf": [{"type": "integer", "minimum": 2}, {"type": "null"}]}),
            json!({"minimum": 1, "allOf": [{"type": "integer", "minimum": 2, "nullable": true}]}),
        ),
    ] {
        assert_eq!(convert(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn open_api_has_older_forms_of_values_and_bounds() {
    for (schema, expected) in [
        (json!({"const": "x"}), json!({"enum": ["x"]})),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "maximum": 9, "exclusiveMaximum": 10}),
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9}),
        ),
        (
            json!({"type": "integer", "format": "uint64", "minimum": 0, "exclusiveMinimum": 0}),
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!({"type": "integer", "format": "int32"}),
        ),
        (
            json!({"type": "array"}),
            json!({"type": "array", "items": {}}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
            json!({"type": "array", "maxItems": 2,
                "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
        ),
        (
            json!({"type": "string", "contentEncoding": "base64", "examples": ["QQ==", "Qg=="]}),
            json!({"type": "string", "format": "byte", "example": "QQ=="}),
        ),
        (json!(true), json!({})),
        (json!(false), json!({"not": {}})),
        (
            json!({"type": "object", "required": [], "patternProperties": {"^x": {}}, "additionalProperties": false,
                "propertyNames": {"maxLength": 2}, "if": {}, "then": {}}),
            json!({"type": "object", "additionalProperties": true}),
        ),
    ] {
        assert_eq!(convert(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn open_api_has_the_targets_of_references() {
    for (schema, expected) in [
        (
            json!({"$ref": "#/$defs/name"}),
            json!({"type": "string", "minLength": 1}),
        ),
        (
            json!({"$ref": "#/$defs/a~1b%20c"}),
            json!({"type": "boolean"}),
        ),
        (
            json!({"$ref": "#/$defs/name", "description": "d"}),
            json!({"type": "string", "minLength": 1, "description": "d"}),
        ),
        (
            json!({"$ref": "#/$defs/name", "maxLength": 3}),
            json!({"maxLength": 3, "allOf": [{"type": "string", "minLength": 1}]}),
        ),
        (json!({"$ref": "#/$defs/missing"}), json!({})),
        (
            json!({"$ref": "#/$defs/tree"}),
            json!({"type": "object", "properties": {"children": {"type": "array", "items": {}}}}),
        ),
    ] {
        assert_eq!(convert(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn open_api_conversion_is_bounded() {
    let mut definitions = json!({"a0": {"type": "string"}});
    for n in 1..40 {
        let inner = json!({"$ref": format!("#/$defs/a{}", n - 1)});
        definitions[format!("a{n}")] =
            json!({"type": "object", "properties": {"x": inner, "y": inner}});
    }
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a39"}}, "$defs": definitions});
    let converted = Schema::unchecked(schema.to_string()).for_open_api();
    assert!(converted.to_string().len() < 1_000_000);

    // A long text that is used often.
    let members: Map<String, Value> = (0..1_000)
        .map(|n| (format!("m{n}"), json!({"$ref": "#/$defs/long"})))
        .collect();
    let long = json!({"type": "string", "description": "x".repeat(100_000)});
    let schema = json!({"type": "object", "properties": members, "$defs": {"long": long}});
    let converted = Schema::unchecked(schema.to_string()).for_open_api();
    assert!(converted.to_string().len() < 2 * BYTES_MAX);
}
