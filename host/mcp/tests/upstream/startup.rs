//! Starts of servers: handshakes, retries after failures, and calls that wait for a start.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::{CallReaction, MemoryDescriptions, Script, Upstream, outcome_text, text};

fn dead() -> Script {
    let script = Script::new(CallReaction::Answers(text("hello")));
    script.exits_at_start.store(true, Ordering::SeqCst);
    script
}

#[tokio::test]
async fn start_is_retried_by_a_call_of_a_prefixed_name() {
    let script = dead();
    let descriptions: Arc<MemoryDescriptions> = Arc::default();
    let process = || {
        let servers = json!({"s": {"command": "s"}, "bare": {"command": "s", "prefix": ""}});
        Upstream::on(Arc::clone(&descriptions), servers, &[("s", &script)])
    };
    assert_eq!(process().servers.load().await.quarantined.len(), 2);
    let started = || script.started.load(Ordering::SeqCst);
    assert_eq!(started(), 2);
    let found = process().servers.load_for("mcp_s_go").await;
    assert!(found.quarantined[1].reason.contains("left-pad"));
    // A name without a prefix restarts no server.
    assert_eq!(started(), 3);
    process().servers.load_for("read_flie").await;
    assert_eq!(started(), 3);
    script.exits_at_start.store(false, Ordering::SeqCst);
    let found = process().servers.load_for("mcp_s_go").await;
    assert_eq!(found.tools.len(), 1);
}

#[tokio::test]
async fn start_backoff_error_has_the_original_reason() {
    let script = dead();
    let upstream = Upstream::one(&script);
    upstream.servers.load().await;
    let error = upstream.servers.test("s").await.unwrap().unwrap_err();
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    for part in ["not be restarted for another", "left-pad"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn start_is_retried_after_a_while() {
    let script = dead();
    let descriptions: Arc<MemoryDescriptions> = Arc::default();
    let servers = json!({"s": {"command": "s"}});
    let upstream = Upstream::on(Arc::clone(&descriptions), servers, &[("s", &script)]);
    let announced = parking_lot::Mutex::new(0);
    let mends = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let started = script.started.load(Ordering::SeqCst);
        // A listing does not retry it.
        assert_eq!((started, *announced.lock()), (1, 1));
        descriptions.clear();
        script.exits_at_start.store(false, Ordering::SeqCst);
    };
    let again = Duration::from_millis(50);
    let asks = upstream.servers.load_all(again, |_| *announced.lock() += 1);
    let both = async { tokio::join!(mends, asks) };
    let ended = tokio::time::timeout(Duration::from_secs(30), both).await;
    assert!(ended.is_ok(), "the failed server was not retried");
    assert_eq!(upstream.servers.known().tools.len(), 1);
}

#[tokio::test]
async fn call_waits_for_the_server_that_may_have_the_tool() {
    let mut script = Script::new(CallReaction::Answers(text("here")));
    script.slow_start = Duration::from_millis(300);
    let upstream = Upstream::one(&script);
    let keeps = async {
        loop {
            upstream.servers.changed().await;
            upstream.test_server.replace(upstream.tools().await);
        }
    };
    let calls = async {
        let mut wire = upstream.test_server.client(json!({})).await;
        let answer = wire.call("mcp_s_go", json!({})).await;
        assert!(answer.to_string().contains("here"), "{answer}");
        // A call of a tool that no server can have does not wait.
        let begun = Instant::now();
        let other = json!({"name": "mcp_other_go", "arguments": {}});
        let id = wire.send("tools/call", other).await;
        let answer = wire.response_to(id).await;
        assert_eq!(answer["error"]["data"]["code"], "NOT_FOUND", "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(15));
    };
    tokio::select! {
        () = keeps => {}
        () = calls => {}
    }
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn call_waits_until_listed_tools_are_in_effect() {
    let script = Script::new(CallReaction::Answers(text("here")));
    let upstream = Upstream::one(&script);
    // The server is known, and the pipeline does not have its tools yet.
    let tools = upstream.tools().await;
    let mut wire = upstream.test_server.client(json!({})).await;
    let params = json!({"name": "mcp_s_go", "arguments": {}});
    let id = wire.send("tools/call", params).await;
    // Gives the call time to look for its tool. If it has not yet, it finds the tool below.
    wire.request("ping", json!({})).await;
    upstream.test_server.replace(tools);
    let answer = wire.response_to(id).await;
    assert!(answer.to_string().contains("here"), "{answer}");
}

#[tokio::test]
async fn server_listed_by_another_process_is_announced() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    let descriptions: Arc<MemoryDescriptions> = Arc::default();
    let process = || {
        let servers = json!({"s": {"command": "s"}});
        Upstream::on(Arc::clone(&descriptions), servers, &[("s", &script)]).servers
    };
    let (first, other) = (process(), process());
    assert_eq!(first.known().unseen, 1);
    other.load().await;
    // Listing starts nothing, because the tools are known by now.
    assert_eq!(first.load().await.tools.len(), 1);
    assert_eq!(script.started.load(Ordering::SeqCst), 1);
    assert_eq!(first.changes(), 1);
    first.changed().await;
    // Known from the first lookup on: no change.
    let third = process();
    assert_eq!((third.known().tools.len(), third.changes()), (1, 0));
}

#[tokio::test]
async fn handshake_requests_a_version_with_handshakes() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    Upstream::one(&script).open().await;
    let version = &script.received("initialize")[0]["params"]["protocolVersion"];
    assert_eq!(*version, "2025-11-25");
    // A server that responds with a version without a handshake is used with that version's rules.
    let mut odd = Script::new(CallReaction::Answers(text("hello")));
    odd.protocol_version = Some(json!("2026-07-28"));
    let upstream = Upstream::one(&odd).open().await;
    assert_eq!(
        outcome_text(&upstream.call("mcp_s_go", json!({})).await),
        "hello"
    );
    assert_eq!(odd.received("server/discover").len(), 1);
}

#[tokio::test]
async fn handshake_invalid_answer_is_explained() {
    let mut script = Script::new(CallReaction::Answers(text("never")));
    script.protocol_version = Some(json!(7));
    script.capabilities = json!({"tools": 5});
    let error = Upstream::one(&script).servers.test("s").await.unwrap();
    let error = error.unwrap_err();
    // The other generation is tried, too, and its response is not valid either.
    for part in ["initialize", "integer `7`"] {
        assert!(error.message.contains(part), "{error}");
    }
    assert!(!error.message.contains("CustomResult"), "{error}");
}

#[tokio::test]
async fn call_invalid_answer_fails_at_once() {
    for (line, part) in [
        (
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1e400,"message":"no"}}"#,
            "number out of range",
        ),
        (r#"{"jsonrpc":"2.0","id":ID}"#, "neither a `result`"),
        (r#"{"id":ID,"result":{"content":[]}}"#, "no `jsonrpc"),
        (
            r#"{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}"#,
            "\"1.0\"",
        ),
    ] {
        let script = Script::new(CallReaction::Raw(line.to_owned()));
        let upstream = Upstream::one(&script).open().await;
        let begun = Instant::now();
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ExecutionError, "{error}");
        assert!(error.message.contains(part), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{part}");
    }
}
