//! Components with async functions and streams, which run on the second engine: every limit holds there as well.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_testkit::{Value, json};

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
