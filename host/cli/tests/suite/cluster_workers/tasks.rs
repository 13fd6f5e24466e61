//! Tasks of clients when the server that made them is killed.

use std::fs;

use serde_json::{Value, json};

use super::{Deployment, eventually, outcome, recorded, text, waiting_command};
use crate::serve_http::{Serving, message};

/// Sends a request of a client that supports tasks. Returns the response.
fn request(serving: &Serving, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    let answer = serving.post(&headers, &message(1, method, params));
    answer.message(1)
}

/// Calls a tool, which becomes a task. Returns its name.
fn start_task(serving: &Serving, arguments: Value) -> String {
    let params = json!({"name": "exec", "arguments": arguments});
    let created = request(serving, "tools/call", "exec", params);
    let task = created["result"]["taskId"].as_str();
    task.unwrap_or_else(|| panic!("not a task: {created}"))
        .to_owned()
}

fn task_request(serving: &Serving, method: &str, task: &str) -> Value {
    request(serving, method, task, json!({"taskId": task}))
}

/// Waits until a task has this state.
fn wait_for(serving: &Serving, task: &str, expected: &str) -> Value {
    let state = || task_request(serving, "tasks/get", task)["result"].take();
    eventually(expected, || state()["status"] == expected);
    state()
}

#[test]
#[ignore = "needs nats-server"]
fn task_of_a_killed_server_has_its_result_at_another() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let (first, second) = (deployment.serve(""), deployment.serve(""));
    let task = start_task(&first, waiting_command());
    assert_eq!(wait_for(&second, &task, "working")["taskId"], task.as_str());
    drop(first);
    assert_eq!(wait_for(&second, &task, "working")["taskId"], task.as_str());
    // The worker stops other calls some seconds after their server is lost.
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert_eq!(wait_for(&second, &task, "working")["taskId"], task.as_str());
    fs::write(deployment.files().join("go"), "").unwrap();
    let done = wait_for(&second, &task, "completed");
    assert_eq!(done["result"]["isError"], false, "{done}");
    let third = deployment.serve("");
    let done = wait_for(&third, &task, "completed");
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert_eq!(deployment.effects(), 2);
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["ok"], true, "{lines:#?}");
}

#[test]
#[ignore = "needs nats-server"]
fn task_of_a_killed_server_is_cancelled_at_another() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let (first, second) = (deployment.serve(""), deployment.serve(""));
    let task = start_task(&first, waiting_command());
    eventually("the command runs", || deployment.effects() == 1);
    drop(first);
    let cancelled = task_request(&second, "tasks/cancel", &task);
    assert!(cancelled["error"].is_null(), "{cancelled}");
    wait_for(&second, &task, "cancelled");
    fs::write(deployment.files().join("go"), "").unwrap();
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["code"], "CANCELLED", "{lines:#?}");
    assert_eq!(deployment.effects(), 1, "the command was stopped");
    let changed = format!("{task}x");
    let unknown = task_request(&second, "tasks/get", &changed);
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
#[ignore = "needs nats-server"]
fn task_without_server_and_worker_may_have_run() {
    let mut deployment = Deployment::start();
    let worker = deployment.worker(&[]);
    let (first, second) = (deployment.serve(""), deployment.serve(""));
    let task = start_task(&first, waiting_command());
    eventually("the command runs", || deployment.effects() == 1);
    drop(first);
    worker.signal("-KILL");
    let lost = wait_for(&second, &task, "completed");
    let lost = &lost["result"];
    assert_eq!(outcome(lost)["code"], "UNAVAILABLE", "{lost}");
    assert_eq!(outcome(lost)["details"]["mayHaveRun"], true, "{lost}");
    assert!(text(lost).contains("check before"), "{lost}");
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["mayHaveRun"], true, "{lines:#?}");
}
