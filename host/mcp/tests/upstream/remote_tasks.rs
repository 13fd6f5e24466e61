//! Tasks of servers behind mimir.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolErrorCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{CallReaction, Script, Upstream, outcome_text, text};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn task(result_type: &str, status: &str) -> Value {
    json!({
        "resultType": result_type, "taskId": "t1", "status": status, "ttlMs": null, "pollIntervalMs": 100,
        "createdAt": "2026-11-29T00:00:00Z", "lastUpdatedAt": "2026-11-29T00:00:00Z",
    })
}

/// Returns a server whose calls become tasks.
fn script() -> Script {
    let mut script = Script::new(CallReaction::Answers(task("task", "working")));
    script.modern = true;
    script.capabilities = json!({"extensions": {EXTENSION: {}}});
    let mut responses = script.responses.lock();
    responses.insert("tasks/get", task("complete", "working"));
    responses.insert("tasks/cancel", json!({"resultType": "complete"}));
    drop(responses);
    script
}

/// Waits until the server has received this many requests of a method.
async fn received(script: &Script, method: &str, count: usize) -> Vec<Value> {
    for _ in 0..500 {
        let received = script.received(method);
        if received.len() >= count {
            return received;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{method} is not received {count} times");
}

/// Starts a call. The server ends with the returned upstream.
async fn start(
    script: &Script,
    settings: Value,
) -> (Arc<Upstream>, JoinHandle<mimir_core::Outcome>) {
    let mut server = json!({"command": "s"});
    for (key, value) in settings.as_object().unwrap() {
        server[key] = value.clone();
    }
    let upstream = Upstream::on(Default::default(), json!({ "s": server }), &[("s", script)]);
    let upstream = Arc::new(upstream.open().await);
    let called = Arc::clone(&upstream);
    let call = tokio::spawn(async move { called.call("mcp_s_go", json!({})).await });
    (upstream, call)
}

#[tokio::test]
async fn remote_task_is_polled_until_it_completes() {
    let script = script();
    let (_upstream, call) = start(&script, json!({})).await;
    let polls = received(&script, "tasks/get", 2).await;
    assert_eq!(polls[0]["params"]["taskId"], "t1");
    let declared = |request: &Value| {
        let meta = request["params"]["_meta"].to_string();
        meta.contains(EXTENSION)
    };
    assert!(declared(&script.received("tools/call")[0]) && declared(&polls[0]));
    let mut done = task("complete", "completed");
    done["result"] = text("computed");
    script.responses.lock().insert("tasks/get", done);
    assert_eq!(outcome_text(&call.await.unwrap()), "computed");
    assert!(script.received("tasks/cancel").is_empty());
}

#[tokio::test]
async fn remote_task_that_fails_reports_its_error() {
    for (status, key, value, expected) in [
        (
            "failed",
            "error",
            json!({"code": -32603, "message": "disk full"}),
            "disk full",
        ),
        ("failed", "error", json!({}), "without a valid error"),
        (
            "completed",
            "result",
            json!({"content": 1}),
            "without a valid result",
        ),
        ("cancelled", "result", json!(null), "cancelled its task"),
    ] {
        let script = script();
        let mut ended = task("complete", status);
        ended[key] = value;
        script.responses.lock().insert("tasks/get", ended);
        let (_upstream, call) = start(&script, json!({})).await;
        let outcome = call.await.unwrap();
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ExecutionError, "{error}");
        assert!(error.message.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn remote_task_is_cancelled_when_its_time_is_over() {
    let script = script();
    let (_upstream, call) = start(&script, json!({"timeoutMs": 1000})).await;
    let outcome = call.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Timeout, "{error}");
    let cancelled = received(&script, "tasks/cancel", 1).await;
    assert_eq!(cancelled[0]["params"]["taskId"], "t1");
}

#[tokio::test]
async fn remote_task_questions_are_answered_once() {
    let script = script();
    let mut asking = task("complete", "input_required");
    asking["inputRequests"] = json!({"q": {"method": "elicitation/create", "params": {
        "mode": "form", "message": "Name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }}});
    let acknowledged = json!({"resultType": "complete"});
    let responses = [("tasks/get", asking), ("tasks/update", acknowledged)];
    script.responses.lock().extend(responses);
    let (_upstream, call) = start(&script, json!({})).await;
    // The client of the call has no forms, so the question is cancelled.
    let updates = received(&script, "tasks/update", 1).await;
    let answers = &updates[0]["params"]["inputResponses"];
    assert_eq!(answers["q"]["action"], "cancel", "{updates:?}");
    let polls = script.received("tasks/get").len();
    received(&script, "tasks/get", polls + 2).await;
    assert_eq!(script.received("tasks/update").len(), 1);
    let mut done = task("complete", "completed");
    done["result"] = text("nameless");
    script.responses.lock().insert("tasks/get", done);
    assert_eq!(outcome_text(&call.await.unwrap()), "nameless");
}

/// The error of a server of version 2025-11-25 for a plain call of a tool that must be a task.
fn augmentation_required() -> Value {
    json!({"code": -32601, "message": "Tool go requires task augmentation (taskSupport: 'required')"})
}

/// Returns the same error in the form of the TypeScript SDK.
fn augmentation_required_as_result() -> Value {
    let message = augmentation_required()["message"].clone();
    let mut result = text(&format!("MCP error -32601: {}", message.as_str().unwrap()));
    result["isError"] = true.into();
    result
}

#[tokio::test]
async fn remote_tool_that_requires_a_task_is_called_as_one() {
    for error in [augmentation_required(), augmentation_required_as_result()] {
        let script = Script::new(CallReaction::TaskOnly(error));
        let result = text("researched");
        script.responses.lock().insert("tasks/result", result);
        let (_upstream, call) = start(&script, json!({})).await;
        assert_eq!(outcome_text(&call.await.unwrap()), "researched");
        let calls = script.received("tools/call");
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0]["params"]["task"], Value::Null);
        assert!(calls[1]["params"]["task"]["ttl"].is_u64(), "{calls:?}");
        for member in ["name", "arguments"] {
            assert_eq!(calls[0]["params"][member], calls[1]["params"][member]);
        }
        let waits = script.received("tasks/result");
        assert_eq!(waits[0]["params"]["taskId"], "t1");
        assert!(script.received("tasks/cancel").is_empty());
    }
}

#[tokio::test]
async fn remote_tool_that_requires_a_task_is_cancelled_when_its_time_is_over() {
    let script = Script::new(CallReaction::TaskOnly(augmentation_required()));
    let (_upstream, call) = start(&script, json!({"timeoutMs": 1000})).await;
    let outcome = call.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Timeout, "{error}");
    let cancelled = received(&script, "tasks/cancel", 1).await;
    assert_eq!(cancelled[0]["params"]["taskId"], "t1");
}

#[tokio::test]
async fn remote_tool_is_called_again_only_if_the_protocol_allows_it() {
    let failing = |error: Value| CallReaction::Fails(error);
    let unknown = json!({"code": -32601, "message": "no such method"});
    let older = Some(json!("2025-06-18"));
    let mut unrelated = augmentation_required_as_result();
    unrelated["content"][0]["text"] = "MCP error -32601: no such task".into();
    for (reaction, version) in [
        (failing(augmentation_required()), older),
        (failing(unknown), None),
        (CallReaction::Answers(unrelated), None),
    ] {
        let mut script = Script::new(reaction);
        script.protocol_version = version;
        let (_upstream, call) = start(&script, json!({})).await;
        let outcome = call.await.unwrap();
        assert!(outcome_text(&outcome).contains("-32601"));
        assert_eq!(script.received("tools/call").len(), 1);
    }
    // A server that creates no task.
    let reaction = CallReaction::Answers(augmentation_required_as_result());
    let script = Script::new(reaction);
    let (_upstream, call) = start(&script, json!({})).await;
    let outcome = call.await.unwrap();
    assert!(outcome_text(&outcome).contains("requires task augmentation"));
    assert_eq!(script.received("tools/call").len(), 2);
}
