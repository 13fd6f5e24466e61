//! Functions over bytes: a direct call has the same result as a call by values.

use serde_json::{Value, json};

use super::super::testkit::{CompiledFixture, build};
use super::super::{LiftError, LiftedOutput};

/// The functions of every shape that is called directly, and of some that are not: name, parameters, result, the core
/// code, and true if the call is direct. A result in memory is at address 16, `result` with its tag.
const FUNCTIONS: &[(&str, &str, &str, &str, bool)] = &[
    ("none-b", "", "list<u8>", MADE, true),
    ("none-r", "", "result<list<u8>, string>", FAILED, true),
    ("s-b", "a: string", "list<u8>", FIRST, true),
    ("s-r", "a: string", "result<list<u8>, string>", JUDGED, true),
    ("i-b", "a: u32", "list<u8>", COUNTED, true),
    (
        "i-r",
        "a: u32",
        "result<list<u8>, string>",
        COUNTED_OK,
        true,
    ),
    ("l-b", "a: u64", "list<u8>", COUNTED_LONG, true),
    (
        "l-r",
        "a: u64",
        "result<list<u8>, string>",
        COUNTED_LONG_OK,
        true,
    ),
    ("b-none", "a: list<u8>", "", "(param i32 i32)", true),
    ("b-b", "a: list<u8>", "list<u8>", FIRST, true),
    ("b-s", "a: list<u8>", "string", FIRST, true),
    (
        "b-i",
        "a: list<u8>",
        "u32",
        "(param i32 i32) (result i32) (local.get 1)",
        true,
    ),
    (
        "b-l",
        "a: list<u8>",
        "u64",
        "(param i32 i32) (result i64) (i64.const -1)",
        true,
    ),
    (
        "b-t",
        "a: list<u8>",
        "bool",
        "(param i32 i32) (result i32) (local.get 1)",
        true,
    ),
    (
        "b-r",
        "a: list<u8>",
        "result<list<u8>, string>",
        JUDGED,
        true,
    ),
    (
        "b-rs",
        "a: list<u8>",
        "result<string, string>",
        JUDGED,
        true,
    ),
    ("bb-b", "a: list<u8>, b: list<u8>", "list<u8>", SECOND, true),
    ("bb-t", "a: list<u8>, b: list<u8>", "bool", COMPARED, true),
    (
        "bb-r",
        "a: list<u8>, b: list<u8>",
        "result<list<u8>, string>",
        SECOND_JUDGED,
        true,
    ),
    ("bs-b", "a: list<u8>, b: string", "list<u8>", SECOND, true),
    (
        "bs-r",
        "a: list<u8>, b: string",
        "result<list<u8>, string>",
        SECOND_JUDGED,
        true,
    ),
    (
        "sb-none",
        "a: string, b: list<u8>",
        "",
        "(param i32 i32 i32 i32)",
        true,
    ),
    ("sb-b", "a: string, b: list<u8>", "list<u8>", SECOND, true),
    (
        "sb-r",
        "a: string, b: list<u8>",
        "result<list<u8>, string>",
        SECOND_JUDGED,
        true,
    ),
    ("bb-s", "a: list<u8>, b: list<u8>", "string", SECOND, false),
    ("b-o", "a: list<u8>", "option<list<u8>>", SOME, false),
];

const MADE: &str = "(result i32) (call $pair (i32.const 0) (i32.const 5))";
const FAILED: &str = "(result i32) (call $tagged (i32.const 1) (i32.const 0) (i32.const 0))";
const FIRST: &str = "(param i32 i32) (result i32) (call $pair (local.get 0) (local.get 1))";
const SECOND: &str =
    "(param i32 i32 i32 i32) (result i32) (call $pair (local.get 2) (local.get 3))";
const SOME: &str = "(param i32 i32) (result i32)
    (call $tagged (i32.const 1) (local.get 0) (local.get 1))";
/// An odd number of bytes is the second case.
const JUDGED: &str = "(param i32 i32) (result i32)
    (call $tagged (i32.and (local.get 1) (i32.const 1)) (local.get 0) (local.get 1))";
const SECOND_JUDGED: &str = "(param i32 i32 i32 i32) (result i32)
    (call $tagged (i32.and (local.get 3) (i32.const 1)) (local.get 2) (local.get 3))";
const COMPARED: &str = "(param i32 i32 i32 i32) (result i32) (i32.eq (local.get 1) (local.get 3))";
const COUNTED: &str = "(param i32) (result i32) (call $pair (i32.const 0) (local.get 0))";
const COUNTED_OK: &str =
    "(param i32) (result i32) (call $tagged (i32.const 0) (i32.const 0) (local.get 0))";
const COUNTED_LONG: &str =
    "(param i64) (result i32) (call $pair (i32.const 0) (i32.wrap_i64 (local.get 0)))";
const COUNTED_LONG_OK: &str = "(param i64) (result i32)
    (call $tagged (i32.const 0) (i32.const 0) (i32.wrap_i64 (local.get 0)))";

/// Enough memory for several megabytes twice, and an allocator that never frees.
const CORE: &str = r#"
    (memory (export "memory") 512)
    (global $next (mut i32) (i32.const 1024))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (global.get $next))
        (global.set $next (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
    (func $pair (param i32 i32) (result i32)
        (i32.store (i32.const 16) (local.get 0))
        (i32.store (i32.const 20) (local.get 1))
        (i32.const 16))
    (func $tagged (param i32 i32 i32) (result i32)
        (i32.store (i32.const 16) (local.get 0))
        (i32.store (i32.const 20) (local.get 1))
        (i32.store (i32.const 24) (local.get 2))
        (i32.const 16))
"#;

fn component() -> CompiledFixture {
    let (mut wit, mut core) = (String::new(), CORE.to_owned());
    for (name, params, result, code, _) in FUNCTIONS {
        let arrow = if result.is_empty() { "" } else { " -> " };
        wit.push_str(&format!("export {name}: func({params}){arrow}{result};\n"));
        core.push_str(&format!("(func (export \"{name}\") {code})\n"));
    }
    CompiledFixture::new(&build(&format!("package t:t; world w {{ {wit} }}"), &core))
}

fn tool(name: &str) -> String {
    name.replace('-', "_")
}

fn argument(ty: &str, length: usize) -> Value {
    use base64::Engine as _;
    match ty {
        "u32" | "u64" => json!(length),
        "string" => json!("x".repeat(length)),
        _ => json!(base64::engine::general_purpose::STANDARD.encode(vec![b'y'; length])),
    }
}

#[tokio::test]
async fn direct_call_agrees_with_call_by_values() {
    let component = component();
    for (name, params, .., direct) in FUNCTIONS {
        let name = tool(name);
        let shape = component.shape(&name).await;
        assert!(shape.is_some() || !direct, "{name}");
        for lengths in [[0, 0], [1, 4], [4, 1], [4, 4], [1001, 70_000]] {
            let given = params
                .split(", ")
                .filter_map(|param| param.split_once(": "));
            let arguments = given.zip(lengths);
            let arguments: serde_json::Map<String, Value> = arguments
                .map(|((name, ty), length)| (name.to_owned(), argument(ty, length)))
                .collect();
            let arguments = Value::Object(arguments);
            let direct = component.call(&name, &arguments).await.unwrap();
            let long = component.call_by_values(&name, &arguments).await.unwrap();
            assert_eq!(direct, long, "{name} {lengths:?}");
            if let (LiftedOutput::Ok(Some(output)), Some(schema)) =
                (&direct, &component.tool(&name).output_schema)
            {
                assert!(schema.validate("the result", output).is_ok(), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn direct_call_returns_megabytes_as_bytes() {
    let component = component();
    let length = 6 << 20;
    let arguments = json!({ "a": argument("list<u8>", length) });
    let fuel = length + 4096;
    for (name, good) in [("b_b", true), ("b_r", true), ("b_o", false)] {
        // Data handed over is counted: a byte is a byte, or a value.
        let called = component.call_with_fuel(name, &arguments, fuel).await;
        match called {
            Ok(LiftedOutput::Ok(Some(output))) => {
                assert!(good, "{name}");
                assert_eq!(output["result"], arguments["a"], "{name}");
            }
            Err(LiftError::Trap(_)) => assert!(!good, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn direct_call_has_the_same_refusals_and_limits() {
    let component = component();
    for arguments in [json!({}), json!({ "a": "?" }), json!({ "a": "", "c": 1 })] {
        let refused = component.call("b_b", &arguments).await;
        assert!(matches!(refused, Err(LiftError::Arguments(_))));
    }
    // The memory ends before the list does.
    let beyond = component.call("i_b", &json!({ "a": 1 << 30 })).await;
    assert!(matches!(beyond, Err(LiftError::Trap(_))));
}
