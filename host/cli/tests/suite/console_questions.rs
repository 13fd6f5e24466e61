//! Questions of processes that cannot ask a person: they wait for a console of the workspace while one is open.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::console::{RunningConsole, body_of, log_in, send};
use crate::kit::agent::Agent;
use crate::kit::{config, mimir, run};
use crate::serve_http::Serving;

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    fs::create_dir_all(config(home.path())).unwrap();
    home
}

/// Waits for an open question, and returns it as `mimir approvals pending` shows it.
fn wait_for_question(home: &Path) -> Value {
    loop {
        let (code, out, err) = run(home, &["approvals", "pending", "--json"]);
        assert_eq!(code, 0, "{out}{err}");
        let out: Value = serde_json::from_str(&out).unwrap();
        if let Some(question) = out["questions"].as_array().unwrap().first() {
            return question.clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn answer(home: &Path, answer: &str) {
    let question = wait_for_question(home);
    let id = question["id"].as_str().unwrap();
    let (code, out, err) = run(home, &["approvals", "answer", id, answer, "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
}

const DELETE: [&str; 3] = ["call", "delete_file", "path=notes.md"];

/// Starts `mimir call` without a terminal.
fn start_call(home: &Path) -> Child {
    mimir(home, &DELETE)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end_of(call: Child) -> (i32, String) {
    let output = call.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let code = output.status.code().unwrap();
    (code, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn console_answers_the_question_of_a_command_without_a_terminal() {
    let home = workspace();
    let (code, _, err) = run(home.path(), &DELETE);
    assert!(code != 0 && err.contains("`mimir console`"), "{err}");
    let console = RunningConsole::of(home.path());
    let call = start_call(home.path());
    let question = wait_for_question(home.path());
    let facts = &question["card"]["facts"];
    assert_eq!(facts["client"], "mimir call", "{question}");
    answer(home.path(), "once");
    let (code, text) = end_of(call);
    assert_eq!(code, 0, "{text}");
    assert!(!home.path().join("notes.md").exists());
    fs::write(home.path().join("notes.md"), "again\n").unwrap();
    // A question that was answered in advance is not asked.
    let never = [&DELETE[..], &["--approve", "never"]].concat();
    let (code, _, err) = run(home.path(), &never);
    assert!(code != 0 && err.contains("--approve never"), "{err}");
    assert!(!err.contains("mimir console"), "{err}");
    // The console of another workspace cannot answer.
    let other = workspace();
    let elsewhere = mimir(other.path(), &DELETE)
        .env("MIMIR_CONFIG_DIR", config(home.path()))
        .output()
        .unwrap();
    assert_eq!(elsewhere.status.code(), Some(code), "{elsewhere:?}");
    // The console is closed while a question waits.
    let call = start_call(home.path());
    wait_for_question(home.path());
    drop(console);
    let (code, text) = end_of(call);
    assert!(
        code != 0 && text.contains("No terminal is available"),
        "{text}"
    );
    assert!(home.path().join("notes.md").exists());
}

#[test]
fn console_answers_the_question_of_a_client_without_forms_and_names_it() {
    let home = workspace();
    let console = RunningConsole::of(home.path());
    let (path, cookie) = log_in(&console.link);
    let get = |list: &str| {
        let path = format!("{path}api/{list}");
        let (status, response) = send(console.address, "GET", &path, &[&cookie], "");
        assert_eq!(status, 200, "{response}");
        body_of(&response)
    };
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let delete = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let call = agent.send("tools/call", delete.clone());
    let pending = wait_for_question(home.path());
    let question = get("questions")["questions"][0].clone();
    assert_eq!(question["id"], pending["id"], "{question}");
    assert_eq!(question["client"], "test 1", "{question}");
    let shown = loop {
        let calls = get("calls");
        if let Some(call) = calls["calls"].as_array().and_then(|calls| calls.first()) {
            break call.clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(shown["client"], "test 1", "{shown}");
    assert_eq!(shown["process"]["name"], "serve", "{shown}");
    let id = question["id"].as_str().unwrap();
    let body = json!({"fingerprint": question["card"]["fingerprint"], "answer": "once"});
    let url = format!("{path}api/questions/{id}/answer");
    // Not before the difference was shown.
    let (status, response) = send(console.address, "POST", &url, &[&cookie], &body.to_string());
    assert_eq!(status, 409, "{response}");
    let preview = get("questions")["questions"][0]["preview"].clone();
    assert_eq!(preview["diff"][0]["path"], "notes.md", "{preview}");
    let mut body = body;
    body["preview"] = preview["digest"].clone();
    let (status, response) = send(console.address, "POST", &url, &[&cookie], &body.to_string());
    assert_eq!(status, 200, "{response}");
    let result = agent.response_to(call)["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    assert!(!home.path().join("notes.md").exists());
    for (filter, found) in [
        ("text=test%201", 1),
        ("client=TEST", 1),
        ("client=mimir", 0),
    ] {
        let record = get(&format!("record?event=call&{filter}"));
        let entries = record["entries"].as_array().unwrap();
        assert_eq!(entries.len(), found, "{filter}: {record}");
        assert!(entries.iter().all(|entry| entry["client"] == "test 1"));
    }
    assert_eq!(
        get("record/charts?days=1")["bySession"][0]["client"],
        "test 1"
    );
    // Closed while a question waits, and before the next one.
    fs::write(home.path().join("notes.md"), "again\n").unwrap();
    let call = agent.send("tools/call", delete.clone());
    wait_for_question(home.path());
    drop(console);
    let code = |result: &Value| result["result"]["_meta"]["mimir/outcome"]["code"].clone();
    assert_eq!(code(&agent.response_to(call)), "APPROVAL_DENIED");
    let call = agent.send("tools/call", delete);
    assert_eq!(code(&agent.response_to(call)), "APPROVAL_DENIED");
    assert!(home.path().join("notes.md").exists());
}

#[test]
fn console_of_a_server_answers_questions_of_the_workspace() {
    let home = workspace();
    let serving = Serving::start(home.path(), &["--console"]);
    let call = start_call(home.path());
    answer(home.path(), "no");
    let (code, text) = end_of(call);
    assert!(code != 0 && text.contains("a person said no"), "{text}");
    drop(serving);
    assert_ne!(run(home.path(), &DELETE).0, 0);
    assert!(home.path().join("notes.md").exists());
}
