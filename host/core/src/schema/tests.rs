use std::time::{Duration, Instant};

use super::*;

/// Creates a chain of definitions, each with two references to the next, under `keyword`.
fn doubling(keyword: &str, levels: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(format!("d{level}"), json!({keyword: [next, next]}));
    }
    defs.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
}

/// Creates a number inside `levels` nested lists.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!([value]))
}

/// Runs `work`, which must end within a minute.
fn finishes_in_time<T>(label: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    let elapsed = started.elapsed();
    eprintln!("{label}: {elapsed:?}");
    assert!(
        elapsed < Duration::from_secs(60),
        "{label} took {elapsed:?}"
    );
    result
}

#[test]
fn schema_exponential_unfolding_is_rejected() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = doubling(keyword, 24).to_string();
        let error = finishes_in_time(keyword, || Schema::parse(&schema)).unwrap_err();
        assert!(error.to_string().contains("unfold"), "{error}");
        assert!(Schema::parse(&doubling(keyword, 6).to_string()).is_ok());
    }
    for circular in [
        json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}}),
        json!({"type": "object", "allOf": [{"$ref": "#"}]}),
    ] {
        let error = Schema::parse(&circular.to_string()).unwrap_err();
        assert!(error.to_string().contains("leads back"), "{error}");
    }
}

#[test]
fn schema_long_reference_chain_is_rejected() {
    let mut defs = serde_json::Map::new();
    for level in 0..50_000 {
        defs.insert(
            format!("d{level}"),
            json!({"$ref": format!("#/$defs/d{}", level + 1)}),
        );
    }
    defs.insert("d50000".into(), json!({}));
    let schema = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs});
    let error = finishes_in_time("chain", || Schema::parse(&schema.to_string())).unwrap_err();
    assert!(error.to_string().contains("nested schemas"), "{error}");
}

#[test]
fn schema_validation_of_doubling_levels_is_limited() {
    let mut defs = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"items": {"$ref": format!("#/$defs/d{}", level + 1)}});
        defs.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
    }
    defs.insert("d40".into(), json!({"type": "string"}));
    let schema =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let schema = Schema::parse(&schema.to_string()).unwrap();
    let check = |value| finishes_in_time("levels", || schema.validate("it", &value));
    assert_eq!(
        check(json!({"a": deep(40)})).unwrap_err().code,
        ToolErrorCode::LimitExceeded
    );
    assert!(check(json!({"a": []})).is_ok());
}

#[test]
fn schema_recursive_alternatives_check_deep_values_in_time() {
    let recursive = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            {"type": "array", "items": {"$ref": "#/$defs/tree"}, "minItems": 1},
        ]}},
    });
    let schema = Schema::parse(&recursive.to_string()).unwrap();
    let check = |value| finishes_in_time("recursive", || schema.validate("it", &value));
    // At few levels, the failure names its path. At many levels, the value is still rejected.
    let shallow = check(json!({"a": deep(3)})).unwrap_err();
    assert!(shallow.message.contains("/a"), "{shallow}");
    let too_deep = check(json!({"a": deep(60)})).unwrap_err();
    assert_eq!(too_deep.code, ToolErrorCode::InvalidInput);
    assert!(
        too_deep.message.contains("listing the failures"),
        "{too_deep}"
    );
    let valid = (0..60).fold(json!("leaf"), |value, _| json!([value]));
    assert!(check(json!({"a": valid})).is_ok());
}

#[test]
fn schema_unevaluated_properties_work_is_limited() {
    let mut schema = json!({"properties": {"a": {}}});
    for _ in 0..40 {
        schema = json!({"allOf": [schema, {}], "unevaluatedProperties": false});
    }
    let schema = Schema::parse(&schema.to_string()).unwrap();
    let error = finishes_in_time("unevaluated", || {
        schema.validate("it", &json!({"a": 1, "b": 2}))
    })
    .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded);
}

#[test]
fn schema_backtracking_patterns_terminate() {
    let schema = r#"{"type":"object","additionalProperties":{"pattern":"^(?=(a+)+$)(a+)+b$"}}"#;
    let schema = Schema::parse(schema).unwrap();
    for count in [30, 3_000, 30_000] {
        let many: serde_json::Map<_, _> = (0..count)
            .map(|n| (n.to_string(), json!("a".repeat(40 + n % 500) + "!")))
            .collect();
        assert!(
            finishes_in_time("patterns", || schema.validate("it", &Value::Object(many))).is_err()
        );
    }
}

#[test]
fn schema_huge_patterns_are_rejected() {
    let schema = |pattern: &str, count: usize| {
        let member = |n: usize| (format!("k{n}"), json!({"pattern": format!("{pattern}{n}")}));
        let members: serde_json::Map<_, _> = (0..count).map(member).collect();
        Schema::parse(&json!({"type": "object", "properties": members}).to_string())
    };
    assert!(schema("^[\\p{L}\\p{N} _-]{1,20}$", 1).is_ok());
    assert!(schema("^[a-z0-9-]{1,63}(\\.[a-z]+)?$", 1_000).is_ok());
    let error = finishes_in_time("large", || schema("(\\p{L}{50}){50}", 1_000)).unwrap_err();
    assert!(error.to_string().contains("not a usable"), "{error}");
}

/// The deepest allowed nesting fits on the stack of a runtime thread.
#[test]
fn schema_deep_values_fit_on_the_stack() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let mut nested = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
        for _ in 0..3 {
            nested = json!({ keyword: [nested] });
        }
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": nested}});
        let schema = Schema::parse(&schema.to_string()).unwrap();
        let check = move |levels| schema.validate("it", &json!({"a": deep(levels)}));
        let thread = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || [100, 101, 102, 126].map(|levels| check(levels).unwrap_err().code));
        let codes = thread.unwrap().join().unwrap();
        assert!(codes.contains(&ToolErrorCode::InvalidInput), "{codes:?}");
        assert!(codes.contains(&ToolErrorCode::LimitExceeded), "{codes:?}");
    }
}

#[test]
fn schema_recursive_wide_and_meta_schemas_are_accepted() {
    let any = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/json"}}, "$defs": {"json": {"anyOf": [
        {"type": ["null", "boolean", "number", "string"]},
        {"type": "array", "items": {"$ref": "#/$defs/json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
    ]}}});
    let schema = Schema::parse(&any.to_string()).unwrap();
    assert!(schema.validate("it", &json!({"a": deep(126)})).is_ok());
    let wide: Vec<Value> = (0..100_000).map(|n| json!({"n": n})).collect();
    assert!(finishes_in_time("wide", || schema.validate("it", &json!({"a": wide}))).is_ok());
    for document in [
        json!({"$id": "https://example.com/x.json", "type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}),
        json!({"$id": "https://example.com/x.json", "type": "object", "properties": {"a": {"$ref": "x.json#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}),
        json!({"$id": "tool.json", "type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"$id": "T0", "type": ["string", "object"], "properties": {"b": {"$ref": "T0"}}}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#text"}}, "$defs": {"x": {"$anchor": "text", "type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"type": "string"}}}),
    ] {
        let schema =
            Schema::parse(&document.to_string()).unwrap_or_else(|e| panic!("{e}: {document}"));
        assert!(schema.validate("it", &json!({"a": "x"})).is_ok());
        assert!(
            schema.validate("it", &json!({"a": 1})).is_err(),
            "{document}"
        );
    }
    let meta = json!({"type": "object", "properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}});
    let meta = Schema::parse(&meta.to_string()).unwrap();
    assert!(
        meta.validate("it", &json!({"a": {"type": "string"}}))
            .is_ok()
    );
    assert!(meta.validate("it", &json!({"a": {"type": 3}})).is_err());
}

fn schema() -> Schema {
    Schema::parse(
        r#"{"type":"object","properties":{"n":{"type":"integer"},"a":{"type":"array","items":{"type":"string"}}},"required":["n"]}"#,
    )
    .unwrap()
}

#[test]
fn schema_failures_name_their_paths() {
    let error = schema()
        .validate("arguments", &json!({"n": "x", "a": ["ok", 3]}))
        .unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidInput);
    assert!(
        error.message.contains("/n:") && error.message.contains("/a/1:"),
        "{error}"
    );
    assert_eq!(
        error.details.unwrap()["failures"].as_array().unwrap().len(),
        2
    );
    assert!(schema().validate("arguments", &json!({"n": 1})).is_ok());
}

#[test]
fn schema_invalid_text_is_rejected() {
    for bad in [
        "",
        "[]",
        "{\"type\":\"string\"}",
        "{\"type\":\"object\",\"properties\":3}",
    ] {
        assert!(Schema::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn schema_remote_references_are_rejected() {
    let remote = r#"{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x.json"}}}"#;
    assert!(Schema::parse(remote).is_err());
    assert!(
        Schema::parse(&remote.replace("http://127.0.0.1:1/x.json", "file:///etc/passwd")).is_err()
    );
}

#[test]
fn schema_failure_explains_the_closest_alternative() {
    let failure_of = |schema: Value, value: Value| {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let schema = Schema::parse(&schema.to_string()).unwrap();
        schema
            .validate("the arguments", &json!({"a": value}))
            .unwrap_err()
            .message
    };
    // An enum whose values have descriptions, as schemars writes it.
    let mode = json!({"oneOf": [
        {"type": "string", "const": "grep", "description": "x"},
        {"type": "string", "const": "glob"},
        {"type": "string", "const": "regex"},
    ]});
    let failure = failure_of(mode, json!("bogus"));
    assert!(
        failure.contains(r#"/a: must be one of "grep", "glob", "regex""#),
        "{failure}"
    );
    let many: Vec<String> = (0..12).map(|n| format!("v{n}")).collect();
    let failure = failure_of(json!({"enum": many}), json!("bogus"));
    assert!(
        failure.contains("\"v11\"") && !failure.contains("candidates"),
        "{failure}"
    );
    // For a lifted result, the tag selects the intended alternative.
    let result = json!({"oneOf": [
        {"type": "object", "properties": {"tag": {"const": "ok"}, "value": {"type": "string"}}, "required": ["tag", "value"]},
        {"type": "object", "properties": {"tag": {"const": "err"}, "value": {"type": "integer", "maximum": 255}}, "required": ["tag", "value"]},
    ]});
    let failure = failure_of(result.clone(), json!({"tag": "err", "value": 256}));
    assert!(failure.contains("/a/value: 256"), "{failure}");
    let failure = failure_of(result.clone(), json!({"tag": "ok"}));
    assert!(failure.contains("/a: \"value\" is a required"), "{failure}");
    let failure = failure_of(result, json!({"tag": "bogus", "value": 1}));
    assert!(
        failure.contains(r#"/a/tag: must be one of "ok", "err""#),
        "{failure}"
    );
    // A value or null, and nested alternatives.
    let inner = json!({"anyOf": [{"type": "null"}, {"anyOf": [
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"type": "array"},
    ]}]});
    let failure = failure_of(inner.clone(), json!({"n": "x"}));
    assert!(failure.contains("/a/n:"), "{failure}");
    let failure = failure_of(inner, json!("text"));
    assert!(failure.contains("/a: \"text\" is not of type"), "{failure}");
}

#[test]
fn schema_further_failures_are_counted() {
    let schema = r#"{"type":"object","additionalProperties":{"type":"string"}}"#;
    let many: serde_json::Map<_, _> = (0..57).map(|n| (format!("k{n}"), json!(n))).collect();
    let error = Schema::parse(schema)
        .unwrap()
        .validate("the arguments", &Value::Object(many))
        .unwrap_err();
    assert!(error.message.ends_with("and 37 more"), "{error}");
}

#[test]
fn schema_failure_names_a_misspelt_property() {
    let item = json!({
        "type": "object", "required": ["text"],
        "properties": {"text": {"type": "string"}, "tax": {"type": "string"}},
    });
    let schema = json!({"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"}, "tax": {"type": "string"}, "items": {"type": "array", "items": item},
    }});
    let schema = Schema::parse(&schema.to_string()).unwrap();
    let failure = |value: Value| schema.validate("it", &value).unwrap_err().message;
    let hint = "`txt` is unknown: did you mean \"text\"?";
    assert!(failure(json!({"txt": "a"})).contains(hint));
    let nested = failure(json!({"text": "a", "items": [{"txt": "a"}]}));
    assert!(
        nested.contains(hint) && nested.contains("/items/0"),
        "{nested}"
    );
    for other in [json!({"tax": "a"}), json!({"zzz": 1}), json!({})] {
        let message = failure(other);
        assert!(!message.contains("did you mean"), "{message}");
    }
}

#[test]
fn schema_failure_of_an_unknown_property_lists_the_known_ones() {
    let item = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "items": {"type": "array", "items": item}, "max": {"type": "integer"}, "text": {"type": "string"},
    }});
    let schema = Schema::parse(&schema.to_string()).unwrap();
    let failure = |value: Value| {
        schema
            .validate("the arguments", &value)
            .unwrap_err()
            .message
    };
    assert_eq!(
        failure(json!({"txt": "a", "zzz": 1})),
        "the arguments must match the schema: the arguments: `txt` is unknown. Did you mean `text`? Known: `items`, \
         `max` and `text`; the arguments: `zzz` is unknown."
    );
    assert_eq!(
        failure(json!({"items": [{"a": 1}]})),
        "the arguments must match the schema: /items/0: `a` is unknown. No names are allowed here"
    );
    let many: serde_json::Map<_, _> = (0..57).map(|n| (format!("k{n}"), json!(n))).collect();
    let message = failure(Value::Object(many));
    assert!(message.ends_with("and 1 more"), "{message}");
}

#[test]
fn schema_failure_at_the_root_names_the_value() {
    let error = schema().validate("the result", &json!({})).unwrap_err();
    assert_eq!(
        error.message,
        "the result must match the schema: the result: \"n\" is a required property"
    );
    assert_eq!(error.details.unwrap()["failures"][0]["path"], "");
}
