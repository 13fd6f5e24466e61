//! Tools of a component's exports: names, schemas, documentation, and skipped exports.

use mimir_core::schema::Schema;
use serde_json::{Value, json};

use super::super::testkit::{PAD, build, echoes, lifted};
use super::super::{LiftedTool, LiftedTools};
use super::echo;

fn input(tool: &LiftedTool) -> Value {
    tool.input_schema.to_value()
}

fn output(tool: &LiftedTool) -> Option<Value> {
    tool.output_schema.as_ref().map(|schema| schema.to_value())
}

#[test]
fn schemas_are_exact() {
    let echo = echo();
    let property = |name: &str| input(echo.tool(name))["properties"]["value"].clone();
    assert_eq!(
        property("echo_u64"),
        json!({ "type": "integer", "minimum": 0, "maximum": 18_446_744_073_709_551_615_u64 })
    );
    assert_eq!(
        property("echo_s64"),
        json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
    );
    assert_eq!(
        property("echo_char"),
        json!({ "type": "string", "minLength": 1, "maxLength": 1 })
    );
    assert_eq!(
        property("echo_alias_bytes"),
        json!({ "type": "string", "contentEncoding": "base64" })
    );
    assert_eq!(
        property("echo_fixed")["items"],
        json!({ "type": "integer", "minimum": 0, "maximum": 65535 })
    );
    assert_eq!(
        property("echo_color"),
        json!({ "type": "string", "enum": ["red", "dark-green", "string"] })
    );
    let point = json!({
        "type": "object",
        "properties": {
            "x": { "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX },
            "y-axis": { "anyOf": [
                { "anyOf": [{ "type": "number" }, { "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] }] },
                { "type": "null" }
            ] }
        },
        "required": ["x"],
        "additionalProperties": false
    });
    assert_eq!(property("echo_point"), point);
    // Used three times, described once.
    let line = input(echo.tool("echo_line"));
    assert_eq!(line["$defs"], json!({ "point": point }));
    let used = json!({ "$ref": "#/$defs/point" });
    let fields = &line["properties"]["value"]["properties"];
    assert_eq!(
        (&fields["start"], &fields["through"]["items"]),
        (&used, &used)
    );
    let root = input(echo.tool("echo_bool"));
    assert_eq!(root["required"], json!(["value", "pad"]));
    assert_eq!(root["additionalProperties"], json!(false));
}

#[test]
fn schemas_are_valid() {
    let echo = echo();
    for tool in &echo.tools.tools {
        for schema in std::iter::once(input(tool)).chain(output(tool)) {
            jsonschema::draft202012::new(&schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
        }
    }
    assert!(echo.tools.skipped.is_empty());
    let text = serde_json::to_string(&echo.tools).unwrap();
    assert_eq!(
        serde_json::from_str::<LiftedTools>(&text).unwrap(),
        echo.tools
    );
}

#[test]
fn results_become_objects() {
    let tools = lifted(&build(
        "package t:t;
        world w {
            record answer { text: string }
            export a-record: func() -> answer;
            export a-number: func() -> u8;
            export nothing: func();
            export fallible: func() -> result<answer, string>;
            export done: func() -> result<_, string>;
        }",
        &(echoes([])
            + r#"(func (export "a-record") (result i32) (i32.const 0))
            (func (export "a-number") (result i32) (i32.const 0))
            (func (export "nothing"))
            (func (export "fallible") (result i32) (i32.const 0))
            (func (export "done") (result i32) (i32.const 0))"#),
    ));
    let outputs: Vec<Option<Value>> = tools.tools.iter().map(output).collect();
    let answer = json!({
        "type": "object", "properties": { "text": { "type": "string" } },
        "required": ["text"], "additionalProperties": false
    });
    let number = json!({
        "type": "object",
        "properties": { "result": { "type": "integer", "minimum": 0, "maximum": 255 } },
        "required": ["result"], "additionalProperties": false
    });
    assert_eq!(
        outputs,
        [Some(answer.clone()), Some(number), None, Some(answer), None]
    );
    assert_eq!(input(&tools.tools[0])["properties"], json!({}));
}

/// Adds a custom section to a component.
fn with_section(mut component: Vec<u8>, name: &str, content: &[u8]) -> Vec<u8> {
    let leb = |mut value: usize| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let body = [leb(name.len()), name.as_bytes().to_vec(), content.to_vec()].concat();
    component.push(0);
    component.extend(leb(body.len()));
    component.extend(body);
    component
}

#[test]
fn docs_become_descriptions() {
    let component = build(
        "package t:t@1.0.0;
        interface api {
            record point { x: s32, y: s32 }
            enum unit { cm, inch }
            variant size { any, at-most(u32) }
            measure: func(at: point, unit: unit, size: size) -> u32;
            silent: func();
        }
        world w { export api; }",
        &(echoes([])
            + r#"(func (export "t:t/api@1.0.0#measure") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
            (func (export "t:t/api@1.0.0#silent"))"#),
    );
    let docs = br#"{"interfaces":{"api":{
        "funcs":{"measure":{"docs":"Measures at a point.\u001b[31m"}},
        "types":{
            "point":{"docs":"A place.","items":{"x":"Across."}},
            "unit":{"docs":"Of length.","items":{"inch":"2.54 cm."}},
            "size":{"items":{"at-most":"An upper bound."}}}}}}"#;
    let tools = lifted(&with_section(
        component,
        "package-docs",
        &[b"\x01", docs.as_slice()].concat(),
    ));
    let [measure, silent] = tools.tools.as_slice() else {
        panic!("{tools:?}");
    };
    assert_eq!(measure.description, "Measures at a point.");
    assert_eq!(
        silent.description,
        "Calls the function `silent` of `t:t/api@1.0.0`."
    );
    let properties = &input(measure)["properties"];
    assert_eq!(properties["at"]["description"], "A place.");
    assert_eq!(
        properties["at"]["properties"]["x"]["description"],
        "Across."
    );
    assert_eq!(
        properties["unit"]["description"],
        "Of length.\n`inch`: 2.54 cm."
    );
    assert_eq!(
        properties["size"]["anyOf"][1]["description"],
        "An upper bound."
    );
}

#[test]
fn names_are_unique_and_export_paths_unchanged() {
    let tools = lifted(&build(
        "package t:t;
        interface one { go: func(); stop: func(); }
        interface two { go: func(); }
        world w { export one; export two; export inline: interface { go: func(); } export eval-it: func(); }",
        r#"(func (export "t:t/one#go")) (func (export "t:t/one#stop")) (func (export "t:t/two#go"))
        (func (export "inline#go")) (func (export "eval-it"))"#,
    ));
    let mut names: Vec<(String, String)> = tools
        .tools
        .iter()
        .map(|tool| (tool.name.to_string(), tool.export.to_string()))
        .collect();
    names.sort();
    let expected = [
        ("eval_it", "eval-it"),
        ("inline_go", "inline#go"),
        ("one_go", "t:t/one#go"),
        ("stop", "t:t/one#stop"),
        ("two_go", "t:t/two#go"),
    ];
    assert_eq!(
        names,
        expected.map(|(name, path)| (name.to_owned(), path.to_owned()))
    );
}

#[test]
fn types_without_json_form_are_skipped_with_a_reason() {
    let component = wat::parse_str(
        r#"(component
            (type $thing (resource (rep i32)))
            (export $named "thing" (type $thing))
            (type $s (stream u8))
            (core module $m
                (func (export "one") (param i32)) (func (export "none")) (func (export "make") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $use (param "it" (borrow $named)) (canon lift (core func $i "one")))
            (export "use" (func $use))
            (func $make (result (own $named)) (canon lift (core func $i "make")))
            (export "[constructor]thing" (func $make))
            (func $flow (param "it" $s) (canon lift (core func $i "one")))
            (export "flow" (func $flow))
            (func $plain (canon lift (core func $i "none")))
            (export "plain" (func $plain))
            (instance $run (export "run" (func $plain)))
            (export "side" (instance $run))
            (component $inner)
            (export "inner" (component $inner)))"#,
    )
    .unwrap();
    let tools = lifted(&component);
    let names: Vec<&str> = tools.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["flow", "plain", "run"]);
    let reasons: Vec<String> = tools
        .skipped
        .iter()
        .map(|it| format!("{}: {}", it.export, it.reason))
        .collect();
    let expected = [
        "inner: is not a function",
        "[constructor]thing: uses a resource",
        "use: uses a resource",
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, start) in reasons.iter().zip(expected) {
        assert!(reason.starts_with(start), "{reason}");
    }
}

#[test]
fn types_shared_are_described_once_and_endless_ones_skipped() {
    // Records are described once each, however often they are used.
    let records: String = (1..=40)
        .map(|level| format!("record r{level} {{ a: r{0}, b: r{0} }}\n", level - 1))
        .collect();
    let wit = |records: &str, last: usize| {
        format!(
            "package t:t; world w {{ record r0 {{ x: u8 }} {records}
            export f: func(v: option<list<r{last}>>); }}"
        )
    };
    let core = echoes([]) + r#"(func (export "f") (param i32 i32 i32))"#;
    let levels: String = records.lines().take(12).collect();
    let tools = lifted(&build(&wit(&levels, 12), &core));
    let schema = input(&tools.tools[0]);
    assert_eq!(schema["$defs"].as_object().unwrap().len(), 12);
    assert!(tools.tools[0].input_schema.as_str().len() < 8_000);

    // Tuples have no names for `$defs`; this one represents four thousand numbers.
    let mut tuples = String::from("(type $t0 u64)");
    for level in 1..=12 {
        tuples.push_str(&format!("(type $t{level} (tuple $t{0} $t{0}))", level - 1));
    }
    let component = wat::parse_str(format!(
        r#"(component {tuples}
            (core module $m (memory (export "memory") 1) (func (export "one") (param i32)) (func (export "none"))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable))
            (core instance $i (instantiate $m))
            (func $many (param "it" $t12)
                (canon lift (core func $i "one") (memory $i "memory") (realloc (func $i "realloc"))))
            (export "many" (func $many))
            (func $plain (canon lift (core func $i "none")))
            (export "plain" (func $plain)))"#
    ))
    .unwrap();
    let tools = lifted(&component);
    assert_eq!(tools.tools.len(), 1);
    assert!(
        tools.skipped[0].reason.contains("too large"),
        "{:?}",
        tools.skipped
    );
}

#[test]
fn exports_are_limited() {
    let exports: String = (0..1_000)
        .map(|n| format!("(export \"f{n}\" (func $f))"))
        .collect();
    let component = wat::parse_str(format!(
        r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f"))) {exports})"#
    ))
    .unwrap();
    let tools = lifted(&component);
    assert_eq!(tools.tools.len(), 256);
    assert_eq!(tools.skipped.len(), 33);
    assert_eq!(tools.skipped[32].export, "712 more exports");
}

#[test]
fn schemas_of_listed_tools_can_be_parsed_again() {
    let nested = |open: &str, depth| {
        let ty = format!("{}u32{}", open.repeat(depth), ">".repeat(depth));
        let wit = format!(
            "package a:b; world w {{ export f: func(p: {PAD}, x: {ty}) -> tuple<{PAD}, {ty}>; \
             export g: func(p: {PAD}, x: u8) -> tuple<{PAD}, u8>; }}"
        );
        lifted(&build(&wit, &echoes(["f", "g"])))
    };
    for open in ["list<", "option<", "tuple<u8, ", "result<"] {
        let found: Vec<_> = (1..9).map(|tens| nested(open, 10 * tens)).collect();
        for tool in found.iter().flat_map(|lifted| &lifted.tools) {
            for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
                assert!(Schema::parse(schema.as_str()).is_ok(), "{open}");
            }
        }
        assert_eq!(found[0].tools.len(), 2, "{open}");
        if let Some(skipped) = found[7].skipped.first() {
            assert!(
                skipped.reason.contains("nested too deep"),
                "{}",
                skipped.reason
            );
        }
    }
    assert_eq!(nested("option<", 60).tools.len(), 1);
}

#[test]
fn tools_are_limited_together_with_resources() {
    let count = 300;
    let resources =
        (0..count).map(|at| format!("resource r{at} {{ constructor(); get: func() -> u32; }}\n"));
    let wit = format!(
        "package test:many; interface all {{ {} last: func() -> u32; }} world w {{ export all; }}",
        resources.collect::<String>()
    );
    let functions = (0..count).map(|at| {
        format!(
            "(func (export \"test:many/all#[constructor]r{at}\") (result i32) i32.const 1)
            (func (export \"test:many/all#[method]r{at}.get\") (param i32) (result i32) i32.const 1)"
        )
    });
    let core = format!(
        "{} (func (export \"test:many/all#last\") (result i32) i32.const 1)",
        functions.collect::<String>()
    );
    let tools = lifted(&build(&wit, &core));
    assert_eq!(tools.tools.len(), 256);
    let resource = &tools.tools[0];
    assert_eq!(resource.resource.as_ref().unwrap().methods[0].action, "get");
    assert_eq!(tools.skipped[0].export, "test:many/all#r256");
    let reason = &tools.skipped[0].reason;
    assert!(reason.contains("limit of 256 tools"), "{reason}");
    let unnamed = &tools.skipped.last().unwrap().export;
    assert_eq!(unnamed, "13 more exports", "{:?}", tools.skipped);
}
