//! Running calls: messages, cancellation, and many calls in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimir_core::Tool;
use mimir_core::call::{CallProgress, LogLevel, LogLine};
use serde_json::{Value, json};

use crate::kit::{TestServer, fake, text_result, tool};

/// Returns a tool that never ends on its own, and flags for its start and its end.
fn endless_tool(name: &str) -> (Tool, Arc<AtomicBool>, Arc<AtomicUsize>) {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (ended, begun) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (ends, begins) = (Arc::clone(&ended), Arc::clone(&begun));
    let backend = fake(move |_| {
        let ends = Ends(Arc::clone(&ends));
        begins.fetch_add(1, Ordering::SeqCst);
        async move {
            let _ends = ends;
            std::future::pending().await
        }
    });
    (tool(name, backend), ended, begun)
}

async fn wait_until(condition: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !condition() {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "the condition was not met in time"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    since.elapsed()
}

fn talker() -> Tool {
    let line = |level, text: &str| LogLine {
        level,
        text: text.into(),
    };
    let backend = fake(move |call| async move {
        let observer = call.observer();
        for done in [1, 1, 0, 2, 4] {
            observer.progress(CallProgress {
                done,
                total: Some(4),
                message: Some(format!("step {done}")),
            });
        }
        observer.log(line(LogLevel::Info, "by the way"));
        observer.log(line(LogLevel::Error, "oh no"));
        text_result("done")
    });
    tool("talker", backend)
}

#[tokio::test]
async fn progress_is_sent_on_request_and_only_increases() {
    let test_server = TestServer::new(vec![talker()]);
    let mut wire = test_server.client(json!({})).await;
    let params = json!({"name": "talker", "_meta": {"progressToken": "t"}});
    wire.request("tools/call", params).await;
    let progress_updates = wire.received.iter();
    let progress_updates =
        progress_updates.filter(|message| message["method"] == "notifications/progress");
    let progress_updates: Vec<_> = progress_updates
        .map(|message| message["params"].clone())
        .collect();
    let at = |n: f64| json!({"progressToken": "t", "progress": n, "total": 4.0, "message": format!("step {n}")});
    assert_eq!(progress_updates, [at(1.0), at(2.0), at(4.0)]);

    wire.received.clear();
    wire.call("talker", json!({})).await;
    let progress_updates = wire.received.iter();
    assert!(
        !progress_updates
            .map(|message| &message["method"])
            .any(|method| method == "notifications/progress")
    );
}

#[tokio::test]
async fn logs_follow_the_level_and_precede_the_result() {
    let test_server = TestServer::new(vec![talker()]);
    let mut wire = test_server.client(json!({})).await;
    for (level, expected) in [
        (None, vec!["oh no"]),
        (Some("debug"), vec!["by the way", "oh no"]),
        (Some("critical"), vec![]),
    ] {
        if let Some(level) = level {
            let set = wire
                .request("logging/setLevel", json!({"level": level}))
                .await;
            assert_eq!(set["result"], json!({}));
        }
        wire.received.clear();
        wire.call("talker", json!({})).await;
        let lines = wire.received.iter().map(|message| {
            assert_eq!(message["method"], "notifications/message");
            assert_eq!(message["params"]["logger"], "talker");
            message["params"]["data"].as_str().unwrap()
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{level:?}");
    }
    let nonsense = wire
        .request("logging/setLevel", json!({"level": "loud"}))
        .await;
    assert!(nonsense["error"].is_object(), "{nonsense}");
}

#[tokio::test]
async fn call_cancelled_is_stopped_and_gets_no_answer() {
    let (slow, ended, begun) = endless_tool("slow");
    let test_server = TestServer::new(vec![slow, talker()]);
    let mut wire = test_server.client(json!({})).await;
    let id = wire.send("tools/call", json!({"name": "slow"})).await;
    wait_until(|| begun.load(Ordering::SeqCst) == 1).await;
    let params = json!({"requestId": id, "reason": "changed my mind"});
    wire.notify("notifications/cancelled", params).await;
    let took = wait_until(|| ended.load(Ordering::SeqCst)).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(test_server.recorded(1).await, ["CANCELLED"]);
    // The connection continues, and the answer never arrives.
    wire.request("ping", json!({})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    wire.request("ping", json!({})).await;
    assert!(wire.received.is_empty(), "{:?}", wire.received);
}

#[tokio::test]
async fn client_disconnect_stops_only_its_own_calls() {
    let (slow, ended, begun) = endless_tool("slow");
    let brief = tool("brief", fake(|_| async { text_result("done") }));
    let test_server = TestServer::new(vec![slow, brief]);
    let mut other = test_server.client(json!({})).await;
    let (mut wire, served) = test_server.connect();
    wire.handshake("2025-06-18", json!({})).await;
    wire.send("tools/call", json!({"name": "slow"})).await;
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(wire);
    served.await.unwrap().unwrap();
    assert!(ended.load(Ordering::SeqCst));
    assert_eq!(
        test_server.audit.codes(),
        ["CANCELLED"],
        "recorded when it has ended"
    );
    assert_eq!(other.call("brief", json!({})).await["isError"], false);
}

#[tokio::test]
async fn calls_get_a_grace_period_when_input_ends() {
    let brief = fake(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        text_result("in time")
    });
    let test_server = TestServer::new(vec![tool("brief", brief)]);
    let (ours, theirs) = tokio::io::duplex(4096);
    let (mut from, mut to) = tokio::io::split(ours);
    let (reader, writer) = tokio::io::split(theirs);
    let server = test_server.server.clone();
    let served =
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"brief"}}"#;
    to.write_all(format!("{hello}\n{call}\n").as_bytes())
        .await
        .unwrap();
    to.shutdown().await.unwrap();
    let mut all = String::new();
    from.read_to_string(&mut all).await.unwrap();
    assert!(all.contains("in time"), "{all}");
    served.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_answers_match_with_a_thousand_in_parallel() {
    let echo = fake(|call| async move {
        tokio::task::yield_now().await;
        text_result(&call.arguments()["n"].to_string())
    });
    let test_server = TestServer::new(vec![tool("echo", echo)]);
    let mut wire = test_server.client(json!({})).await;
    let (mut sent, mut open) = (Vec::new(), 0);
    for n in 0..1000 {
        let params = json!({"name": "echo", "arguments": {"n": n}});
        sent.push((n, wire.send("tools/call", params).await));
        open += 1;
        // The pipe has a limited capacity, so the client has to read while it sends.
        if open == 200 {
            for (n, id) in sent.drain(..100) {
                let answer = wire.response_to(id).await;
                assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
            }
            open -= 100;
        }
    }
    for (n, id) in sent {
        let answer = wire.response_to(id).await;
        assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
    }
    assert_eq!(test_server.recorded(1000).await.len(), 1000);
}

#[tokio::test]
async fn call_with_a_flood_of_messages_is_not_slowed_down() {
    let flood = fake(|call| async move {
        for n in 0..200_000 {
            call.observer().progress(CallProgress {
                done: n,
                total: None,
                message: None,
            });
        }
        text_result("done")
    });
    let test_server = TestServer::new(vec![tool("flood", flood)]);
    let mut wire = test_server.client(json!({})).await;
    let params = json!({"name": "flood", "_meta": {"progressToken": 7}});
    let answer = wire.request("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!(wire.received.len() < 20_000, "{}", wire.received.len());
    let progress = wire
        .received
        .iter()
        .map(|progress_updates| &progress_updates["params"]["progress"]);
    let progress: Vec<f64> = progress.map(|done| done.as_f64().unwrap()).collect();
    assert!(progress.is_sorted(), "{progress:?}");
    assert_eq!(
        progress.last(),
        Some(&199_999.0),
        "the latest progress arrives before the result"
    );
}

#[tokio::test]
async fn audit_has_the_trace_context_of_a_call() {
    let test_server = TestServer::new(vec![tool("quick", fake(|_| async { text_result("done") }))]);
    let mut wire = test_server.client(json!({})).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for issued in [trace, "00-0af7-b7ad-01", "not a trace\n"] {
        let params = json!({"name": "quick", "_meta": {"traceparent": issued}});
        wire.request("tools/call", params).await;
    }
    wire.call("quick", json!({})).await;
    test_server.recorded(4).await;
    let expected = json!([trace, null, null, null]);
    assert_eq!(Value::Array(test_server.audit.traces()), expected);
}
