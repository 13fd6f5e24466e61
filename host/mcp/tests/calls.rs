//! Running calls: their messages, their cancellation, and many in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mimir_core::Tool;
use mimir_core::call::{CallProgress, LogLevel, LogLine};
use serde_json::{Value, json};

use crate::kit::{Room, fake, said, tool};

/// Returns a tool that never ends on its own, and flags for its start and its end.
fn endless(name: &str) -> (Tool, Arc<AtomicBool>, Arc<AtomicUsize>) {
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

async fn until(is_so: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !is_so() {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "it never came to that"
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
        said("done")
    });
    tool("talker", backend)
}

#[tokio::test]
async fn progress_is_sent_on_request_and_only_increases() {
    let room = Room::new(vec![talker()]);
    let mut wire = room.client(json!({})).await;
    let params = json!({"name": "talker", "_meta": {"progressToken": "t"}});
    wire.request("tools/call", params).await;
    let told = wire.heard.iter();
    let told = told.filter(|message| message["method"] == "notifications/progress");
    let told: Vec<_> = told.map(|message| message["params"].clone()).collect();
    let at = |n: f64| json!({"progressToken": "t", "progress": n, "total": 4.0, "message": format!("step {n}")});
    assert_eq!(told, [at(1.0), at(2.0), at(4.0)]);

    wire.heard.clear();
    wire.call("talker", json!({})).await;
    let told = wire.heard.iter();
    assert!(
        !told
            .map(|message| &message["method"])
            .any(|method| method == "notifications/progress")
    );
}

#[tokio::test]
async fn logs_follow_the_level_and_precede_the_result() {
    let room = Room::new(vec![talker()]);
    let mut wire = room.client(json!({})).await;
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
        wire.heard.clear();
        wire.call("talker", json!({})).await;
        let lines = wire.heard.iter().map(|message| {
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
    let (slow, ended, begun) = endless("slow");
    let room = Room::new(vec![slow, talker()]);
    let mut wire = room.client(json!({})).await;
    let id = wire.send("tools/call", json!({"name": "slow"})).await;
    until(|| begun.load(Ordering::SeqCst) == 1).await;
    let params = json!({"requestId": id, "reason": "changed my mind"});
    wire.notify("notifications/cancelled", params).await;
    let took = until(|| ended.load(Ordering::SeqCst)).await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(room.recorded(1).await, ["CANCELLED"]);
    // The connection continues, and the answer never arrives.
    wire.request("ping", json!({})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    wire.request("ping", json!({})).await;
    assert!(wire.heard.is_empty(), "{:?}", wire.heard);
}

#[tokio::test]
async fn client_disconnect_stops_only_its_own_calls() {
    let (slow, ended, begun) = endless("slow");
    let brief = tool("brief", fake(|_| async { said("done") }));
    let room = Room::new(vec![slow, brief]);
    let mut other = room.client(json!({})).await;
    let (mut wire, served) = room.connect();
    wire.hello("2025-06-18", json!({})).await;
    wire.send("tools/call", json!({"name": "slow"})).await;
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(wire);
    served.await.unwrap().unwrap();
    assert!(ended.load(Ordering::SeqCst));
    assert_eq!(
        room.audit.codes(),
        ["CANCELLED"],
        "recorded when it has ended"
    );
    assert_eq!(other.call("brief", json!({})).await["isError"], false);
}

#[tokio::test]
async fn calls_get_a_grace_period_when_input_ends() {
    let brief = fake(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        said("in time")
    });
    let room = Room::new(vec![tool("brief", brief)]);
    let (ours, theirs) = tokio::io::duplex(4096);
    let (mut from, mut to) = tokio::io::split(ours);
    let (reader, writer) = tokio::io::split(theirs);
    let server = room.server.clone();
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
        said(&call.arguments()["n"].to_string())
    });
    let room = Room::new(vec![tool("echo", echo)]);
    let mut wire = room.client(json!({})).await;
    let (mut sent, mut open) = (Vec::new(), 0);
    for n in 0..1000 {
        let params = json!({"name": "echo", "arguments": {"n": n}});
        sent.push((n, wire.send("tools/call", params).await));
        open += 1;
        // The pipe has a limited capacity: a client has to read while it sends.
        if open == 200 {
            for (n, id) in sent.drain(..100) {
                let answer = wire.answered(id).await;
                assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
            }
            open -= 100;
        }
    }
    for (n, id) in sent {
        let answer = wire.answered(id).await;
        assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
    }
    assert_eq!(room.recorded(1000).await.len(), 1000);
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
        said("done")
    });
    let room = Room::new(vec![tool("flood", flood)]);
    let mut wire = room.client(json!({})).await;
    let params = json!({"name": "flood", "_meta": {"progressToken": 7}});
    let answer = wire.request("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!(wire.heard.len() < 20_000, "{}", wire.heard.len());
    let progress = wire.heard.iter().map(|told| &told["params"]["progress"]);
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
    let room = Room::new(vec![tool("quick", fake(|_| async { said("done") }))]);
    let mut wire = room.client(json!({})).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for given in [trace, "00-0af7-b7ad-01", "not a trace\n"] {
        let params = json!({"name": "quick", "_meta": {"traceparent": given}});
        wire.request("tools/call", params).await;
    }
    wire.call("quick", json!({})).await;
    room.recorded(4).await;
    let expected = json!([trace, null, null, null]);
    assert_eq!(Value::Array(room.audit.traces()), expected);
}
