//! Components that export `wasi:http/incoming-handler`.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_testkit::{Approve, json};

use super::{failure, kit, limited, result};

#[test]
fn http_server_answers_a_request() {
    let kit = kit("http_server");
    assert_eq!(kit.quarantined().len(), 0, "{:?}", kit.quarantined());
    let answer = result(
        &kit,
        "request",
        json!({ "path": "/hello?a=1", "headers": { "X-Id": "7" } }),
    );
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["headers"]["content-type"], "text/plain");
    assert_eq!(answer["body"], "get=true path=/hello?a=1 id=7");
    let large = "x".repeat(90_000);
    let answer = result(
        &kit,
        "request",
        json!({ "method": "POST", "path": "/echo", "body": large }),
    );
    assert_eq!(
        (&answer["status"], &answer["body"]),
        (&json!(201), &json!(large))
    );
    let bytes = json!({ "method": "PUT", "path": "/echo", "bodyBase64": "AP8=" });
    assert_eq!(result(&kit, "request", bytes)["bodyBase64"], "AP8=");
    // A body that the component does not finish ends with its handler.
    let open = result(&kit, "request", json!({ "path": "/open" }));
    assert_eq!(open["body"], "partial");
    // An answer with an error status is an answer.
    let missing = result(&kit, "request", json!({ "path": "/other" }));
    assert_eq!(missing["status"], 404);
}

#[test]
fn http_server_without_network_imports_is_harmless() {
    // Every approval is denied.
    let kit = kit("http_server").approve(Approve::Never);
    let answer = result(&kit, "request", json!({ "path": "/hello" }));
    assert_eq!(answer["status"], 200);
    let tools = kit.tools();
    let origin = &tools[0].origin;
    assert!(
        origin
            .imports
            .iter()
            .any(|import| import.starts_with("wasi:http/types@0.2")),
        "{:?}",
        origin.imports
    );
    assert!(
        origin
            .proofs
            .iter()
            .any(|proof| proof == "cannot reach the network"),
        "{:?}",
        origin.proofs
    );
}

#[test]
fn http_server_failures_are_clear() {
    let kit = kit("http_server");
    for (path, expected) in [
        ("/panic", "on purpose"),
        ("/error", "configuration-error"),
        ("/silent", "without a response"),
    ] {
        let (code, message) = failure(&kit, "request", json!({ "path": path }));
        assert_eq!(code, ToolErrorCode::ExecutionError, "{path}: {message}");
        assert!(message.contains(expected), "{path}: {message}");
    }
    let (code, message) = failure(&kit, "request", json!({ "path": "elsewhere" }));
    assert_eq!(code, ToolErrorCode::InvalidInput, "{message}");
}

#[test]
fn http_server_is_stopped_at_every_limit() {
    let kit = limited(
        "http_server",
        json!({ "timeMs": 5_000, "outputBytes": 50_000 }),
    );
    let start = Instant::now();
    let (code, message) = failure(&kit, "request", json!({ "path": "/endless" }));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let (code, message) = failure(&kit, "request", json!({ "path": "/spin" }));
    assert_eq!(code, ToolErrorCode::Timeout, "{message}");
    let kit = limited(
        "http_server",
        json!({ "timeMs": 60_000, "fuel": 50_000_000 }),
    );
    let (code, message) = failure(&kit, "request", json!({ "path": "/spin" }));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
}
