//! Tasks: calls that go on after the response to their request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::approvals::careful;
use crate::kit::{TestServer, Wire, fake, text_result, tool};
use crate::modern::modern;

fn tasks() -> Value {
    json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Returns a server with the tool `slow`, which ends when it is notified, and its number of runs.
fn slow_server() -> (TestServer, Arc<Notify>, Arc<AtomicUsize>) {
    let (end, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (waits, counts) = (Arc::clone(&end), Arc::clone(&ended));
    let slow = tool(
        "slow",
        fake(move |_| {
            let (waits, counts) = (Arc::clone(&waits), Arc::clone(&counts));
            async move {
                waits.notified().await;
                counts.fetch_add(1, Ordering::SeqCst);
                text_result("done")
            }
        }),
    );
    (TestServer::new(vec![slow, careful().0]), end, ended)
}

async fn start(wire: &mut Wire, capabilities: Value) -> Value {
    let params = modern(json!({"name": "slow", "arguments": {}}), capabilities);
    wire.request("tools/call", params).await["result"].take()
}

async fn request(wire: &mut Wire, method: &str, task: &Value) -> Value {
    let params = modern(json!({"taskId": task["taskId"]}), tasks());
    wire.request(method, params).await
}

/// Waits until the task has this state.
async fn state(wire: &mut Wire, task: &Value, expected: &str) -> Value {
    for _ in 0..500 {
        let state = request(wire, "tasks/get", task).await["result"].take();
        assert_eq!(state["resultType"], "complete", "{state}");
        if state["status"] == expected {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the task is never {expected}");
}

#[tokio::test]
async fn task_is_made_of_a_slow_call_and_keeps_its_result() {
    let (server, end, _) = slow_server();
    let (mut wire, _) = server.connect();
    let discovered = wire
        .request("server/discover", modern(json!({}), json!({})))
        .await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert!(
        extensions["io.modelcontextprotocol/tasks"].is_object(),
        "{discovered}"
    );
    let task = start(&mut wire, tasks()).await;
    assert_eq!(task["resultType"], "task", "{task}");
    assert_eq!(
        state(&mut wire, &task, "working").await["taskId"],
        task["taskId"]
    );
    end.notify_one();
    let done = state(&mut wire, &task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "done");
    // The result is kept, and a late cancellation does not change it.
    let cancelled = request(&mut wire, "tasks/cancel", &task).await;
    assert_eq!(cancelled["result"], json!({"resultType": "complete"}));
    state(&mut wire, &task, "completed").await;
    assert_eq!(server.recorded(1).await, [Value::Null]);
}

#[tokio::test]
async fn task_is_not_made_for_a_client_without_tasks() {
    let (server, end, _) = slow_server();
    let (mut wire, _) = server.connect();
    let params = modern(json!({"name": "slow", "arguments": {}}), json!({}));
    let id = wire.send("tools/call", params).await;
    // Longer than a call with tasks would wait.
    tokio::time::sleep(Duration::from_millis(700)).await;
    end.notify_one();
    let done = wire.response_to(id).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    let params = modern(json!({"taskId": "x"}), json!({}));
    let refused = wire.request("tasks/get", params).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[tokio::test]
async fn task_is_cancelled_once_and_visible_only_to_its_client() {
    let (server, end, ended) = slow_server();
    let (mut wire, _) = server.connect();
    let task = start(&mut wire, tasks()).await;
    let (mut other, _) = server.connect();
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = request(&mut other, method, &task).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    request(&mut wire, "tasks/cancel", &task).await;
    state(&mut wire, &task, "cancelled").await;
    end.notify_one();
    assert_eq!(server.recorded(1).await, ["CANCELLED"]);
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn task_ends_with_the_connection_of_its_client() {
    let (server, _, ended) = slow_server();
    let (mut wire, served) = server.connect();
    start(&mut wire, tasks()).await;
    drop(wire);
    let _ = served.await;
    assert_eq!(server.recorded(1).await, ["CANCELLED"]);
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}
