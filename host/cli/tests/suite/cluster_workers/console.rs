//! Questions of workers that wait for the console of a server.

use serde_json::{Value, json};

use super::{Deployment, call, eventually, home_in, outcome, text};
use crate::kit::mimir;

/// Runs a command with the cluster. Returns its output.
fn run_in_cluster(deployment: &Deployment, args: &[&str]) -> String {
    let mut command = mimir(&home_in(&deployment.folder, "front"), args);
    let output = command
        .env("MIMIR_NATS", deployment.nats.url())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn open_questions(deployment: &Deployment) -> Vec<Value> {
    let out = run_in_cluster(deployment, &["approvals", "pending", "--json"]);
    let out: Value = serde_json::from_str(&out).unwrap();
    out["questions"].as_array().unwrap().clone()
}

#[test]
#[ignore = "needs nats-server"]
fn question_of_a_worker_waits_while_a_server_has_a_console() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let delete = || json!({"path": "notes.md"});
    let plain = deployment.serve("");
    let refused = call(&plain, "delete_file", delete());
    assert_eq!(outcome(&refused)["code"], "APPROVAL_DENIED", "{refused}");
    drop(plain);
    let serving = deployment.serve_with("", &["--console"]);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "delete_file", delete()));
        eventually("the question is open", || {
            !open_questions(&deployment).is_empty()
        });
        let question = open_questions(&deployment)[0].clone();
        assert_eq!(question["card"]["facts"]["client"], "test 1", "{question}");
        let id = question["id"].as_str().unwrap();
        run_in_cluster(&deployment, &["approvals", "answer", id, "once", "--yes"]);
        let result = calling.join().unwrap();
        assert_eq!(result["isError"], false, "{}", text(&result));
    });
    assert!(!deployment.files().join("notes.md").exists());
}
