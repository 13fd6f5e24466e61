//! Components with async functions and streams, which run on the second engine: every limit holds there as well.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_testkit::{Testkit, Value, json};

use super::{failure, kit, limited, result};

/// Maximum time for a call with a limit of three seconds, on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

#[test]
fn async_functions_and_streams_are_tools() {
    let kit = kit("async_functions");
    let word = json!({ "text": "grüße" });
    assert_eq!(result(&kit, "shout", word)["result"], "GRÜSSE");
    let (code, message) = failure(&kit, "fails", json!({}));
    assert_eq!(
        (code, message.as_str()),
        (ToolErrorCode::ExecutionError, "as asked")
    );
    // The stream is written after the function has returned.
    let lines = result(&kit, "lines", json!({ "count": 3 }));
    assert_eq!(lines["result"], "bGluZSAwCmxpbmUgMQpsaW5lIDIK");
    assert_eq!(result(&kit, "lines", json!({ "count": 0 }))["result"], "");
    assert_eq!(
        result(&kit, "upper", json!({ "text": "YWJj" }))["result"],
        "QUJD"
    );
    let (_, message) = failure(&kit, "upper", json!({ "text": "" }));
    assert_eq!(message, "nothing to do");
    let skipped = kit.quarantined();
    assert!(
        skipped
            .iter()
            .any(|it| it.location.contains("pair") && it.reason.contains("stream")),
        "{skipped:?}"
    );
}

#[test]
fn async_streams_of_values_are_arrays() {
    let kit = kit("async_functions");
    let counted = result(&kit, "count", json!({ "to": 10_000 }));
    let counted = counted["result"].as_array().unwrap();
    assert_eq!((counted.len(), &counted[9_999]), (10_000, &json!(9_999)));
    let empty = result(&kit, "count", json!({ "to": 0 }));
    assert_eq!(empty["result"], json!([]));
    let words = result(&kit, "split", json!({ "text": "a ü z" }));
    assert_eq!(words["result"], json!(["a", "ü", "z"]));
    let (_, message) = failure(&kit, "split", json!({ "text": "" }));
    assert_eq!(message, "nothing to split");
    let numbers = json!({ "numbers": [1, 2, u32::MAX] });
    assert_eq!(result(&kit, "sum", numbers)["result"], 4_294_967_298_u64);
    let (code, message) = failure(&kit, "sum", json!({ "numbers": [1, -1] }));
    assert_eq!(code, ToolErrorCode::InvalidInput, "{message}");
    assert!(message.contains("/numbers/1"), "{message}");
    let skipped = kit.quarantined();
    let records = skipped.iter().find(|it| it.location.contains("records"));
    assert!(records.is_some_and(|it| it.reason.contains("scalars")));
}

#[test]
fn async_futures_are_awaited() {
    let kit = kit("async_functions");
    let later = result(&kit, "later", json!({ "text": "Grüße" }));
    assert_eq!(later["result"], "Grüße");
    let received = result(&kit, "receive", json!({ "text": "ready" }));
    assert_eq!(received["result"], "ready");
    // A result in a future is the result of the tool.
    let later = result(&kit, "later_or_not", json!({ "text": "a" }));
    assert_eq!(later["result"], "a");
    let (_, message) = failure(&kit, "later_or_not", json!({ "text": "" }));
    assert_eq!(message, "no text");
    assert!(kit.call("later_done", json!({ "works": true })).is_ok());
    let (code, message) = failure(&kit, "later_done", json!({ "works": false }));
    assert_eq!(code, ToolErrorCode::ExecutionError);
    assert_eq!(message, "as asked");
    let (code, message) = failure(&kit, "never", json!({}));
    assert_eq!(code, ToolErrorCode::Timeout, "{message}");
    let limited = limited("async_functions", json!({ "outputBytes": 1_000 }));
    let long = json!({ "text": "x".repeat(5_000) });
    let (code, message) = failure(&limited, "later", long);
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
}

#[test]
fn async_functions_without_end_are_stopped() {
    let kit = kit("async_functions");
    for tool in ["spin", "yield_forever", "wait_forever"] {
        let start = Instant::now();
        let (code, message) = failure(&kit, tool, json!({}));
        assert!(start.elapsed() < BOUND, "{tool}: {:?}", start.elapsed());
        // A function that waits for nothing is found out at once.
        let expected = if tool == "wait_forever" {
            ToolErrorCode::ExecutionError
        } else {
            ToolErrorCode::Timeout
        };
        assert_eq!(code, expected, "{tool}: {message}");
    }
    let kit = limited(
        "async_functions",
        json!({ "timeMs": 60_000, "fuel": 50_000_000 }),
    );
    let (code, message) = failure(&kit, "spin", json!({}));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
}

#[test]
fn async_memory_output_and_handles_are_bounded() {
    let limits = json!({ "timeMs": 30_000, "outputBytes": 100_000 });
    let kit = limited("async_functions", limits);
    for (tool, expected) in [
        ("endless", "limits.outputBytes"),
        ("endless_count", "limits.outputBytes"),
        ("grow", "limits.memoryMb"),
        ("streams", "more handles"),
    ] {
        let start = Instant::now();
        let (code, message) = failure(&kit, tool, json!({}));
        assert!(start.elapsed() < BOUND, "{tool}: {:?}", start.elapsed());
        assert_eq!(code, ToolErrorCode::LimitExceeded, "{tool}: {message}");
        assert!(message.contains(expected), "{tool}: {message}");
    }
}

#[test]
fn async_calls_do_not_disturb_others() {
    let kit = kit("async_functions");
    let spinning = kit.start("spin", json!({}));
    let honest: Vec<_> = (0..4)
        .map(|number| kit.start("shout", json!({ "text": format!("n{number}") })))
        .collect();
    kit.block_on(async {
        let spinning = tokio::spawn(spinning);
        for (number, call) in honest.into_iter().map(tokio::spawn).enumerate() {
            let outcome = call.await.unwrap();
            let output = outcome.result().unwrap().structured.clone();
            assert_eq!(output.unwrap()["result"], Value::from(format!("N{number}")));
        }
        assert!(spinning.await.unwrap().result().is_err());
    });
}

/// Calls a function of another instance in a loop, without waiting. Each call blocks.
const TASK_FLOOD: &str = r#"(component
    (component $inner
        (core module $memory (memory (export "m") 1))
        (core instance $memory (instantiate $memory))
        (core func $new (canon waitable-set.new))
        (core func $wait (canon waitable-set.wait (memory $memory "m")))
        (core module $code
            (import "" "new" (func $new (result i32)))
            (import "" "wait" (func $wait (param i32 i32) (result i32)))
            (func (export "block") (drop (call $wait (call $new) (i32.const 0)))))
        (core instance $code (instantiate $code (with "" (instance
            (export "new" (func $new)) (export "wait" (func $wait))))))
        (type $async (func async))
        (func (export "block") (type $async) (canon lift (core func $code "block"))))
    (component $outer
        (type $async (func async))
        (import "block" (func $block (type $async)))
        (core func $block (canon lower (func $block) async))
        (core module $code
            (import "" "block" (func $block (result i32)))
            (func (export "flood") (result i32) (local $count i32)
                (loop $again
                    (drop (call $block))
                    (local.set $count (i32.add (local.get $count) (i32.const 1)))
                    (br_if $again (i32.lt_u (local.get $count) (i32.const 1000000))))
                (local.get $count)))
        (core instance $code (instantiate $code (with "" (instance (export "block" (func $block))))))
        (func (export "flood") (result u32) (canon lift (core func $code "flood"))))
    (instance $inner (instantiate $inner))
    (instance $outer (instantiate $outer (with "block" (func $inner "block"))))
    (export "flood" (func $outer "flood")))"#;

#[test]
fn async_tasks_are_bounded_and_release_their_stacks() {
    let flood = wat::parse_str(TASK_FLOOD).unwrap();
    let kit = Testkit::from_bytes("flood", &flood).unwrap();
    kit.add(super::guest("async_functions")).unwrap();
    // More calls than the pool has stacks, if each call left one behind.
    for _ in 0..40 {
        let start = Instant::now();
        let (code, message) = failure(&kit, "flood", json!({}));
        assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
        assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    }
    assert_eq!(result(&kit, "shout", json!({ "text": "a" }))["result"], "A");
}

/// A component that returns a stream, whose other end it keeps and never writes to.
const ENDLESS_STREAM: &str = r#"(component
  (type $s (stream u8))
  (core func $new (canon stream.new $s))
  (core module $m (import "" "new" (func $new (result i64)))
    (func (export "f") (result i32) (i32.wrap_i64 (call $new))))
  (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
  (func $f (result $s) (canon lift (core func $i "f")))
  (export "hang" (func $f)))"#;

#[test]
fn async_call_that_waits_for_itself_is_explained() {
    let component = wat::parse_str(ENDLESS_STREAM).unwrap();
    let kit = Testkit::from_bytes("hang", &component).unwrap();
    let kit = kit
        .settings(json!({ "limits": { "timeMs": 300 } }))
        .unwrap();
    let (code, message) = failure(&kit, "hang", json!({}));
    assert_eq!(code, ToolErrorCode::Timeout, "{message}");
    assert!(
        message.contains("stream or function that never ends"),
        "{message}"
    );
}
