//! `mimir approvals pending` and `mimir approvals answer`: questions of a running server, answered in another process.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::agent::Agent;
use crate::kit::{config, run};

fn workspace(settings: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    let own = config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), settings).unwrap();
    home
}

fn questions(home: &Path) -> Vec<Value> {
    let (code, out, err) = run(home, &["approvals", "pending", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let out: Value = serde_json::from_str(&out).unwrap();
    out["questions"].as_array().unwrap().clone()
}

/// The id of the open question about this tool.
fn wait_for_question(home: &Path) -> String {
    loop {
        if let Some(question) = questions(home).first() {
            return question["id"].as_str().unwrap().to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn answer(home: &Path, words: &[&str]) -> (i32, String) {
    let (code, out, err) = run(home, &[&["approvals", "answer"], words].concat());
    (code, out + &err)
}

fn delete(agent: &mut Agent) -> u64 {
    let params = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    agent.send("tools/call", params)
}

#[test]
fn question_of_a_form_can_be_answered_in_a_shell() {
    let home = workspace("");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({"elicitation": {}}));
    assert_eq!(questions(home.path()), Vec::<Value>::new());
    let call = delete(&mut agent);
    let form = agent.next_with_method("elicitation/create");
    let id = wait_for_question(home.path());
    let (code, out, _) = run(home.path(), &["approvals", "pending"]);
    assert!(
        code == 0 && out.contains(&id) && out.contains("delete_file"),
        "{out}"
    );
    let (code, text) = answer(home.path(), &[&id, "once"]);
    assert!(code == 3 && text.contains("--yes"), "{text}");
    assert!(
        text.contains("may `delete_file` run?") && text.contains("notes.md"),
        "{text}"
    );
    let (code, text) = answer(home.path(), &[&id, "always", "--yes"]);
    assert!(code == 2 && text.contains("its own approval"), "{text}");
    let (code, text) = answer(
        home.path(),
        &[&id[..6], "once", "--yes", "--reason", "checked"],
    );
    assert_eq!(code, 0, "{text}");
    let result = agent.response_to(call)["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    assert!(!home.path().join("notes.md").exists());
    // The form is still open in this client. Its answer comes too late, and so does another one in a shell.
    agent.answer(
        &form,
        json!({"action": "accept", "content": {"answer": "no"}}),
    );
    let (code, text) = answer(home.path(), &[&id, "no", "--yes"]);
    assert!(code == 1 && text.contains("answered with `once`"), "{text}");
    let (_, out, _) = run(
        home.path(),
        &["audit", "show", "--json", "--event", "approval"],
    );
    assert!(out.contains("checked"), "{out}");
}

#[test]
fn question_without_a_form_waits_if_the_settings_say_so() {
    let home = workspace("");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let call = delete(&mut agent);
    let refused = agent.response_to(call)["result"].clone();
    assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    drop(agent);
    let home = workspace("approvals: {unattended: wait}\n");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let call = delete(&mut agent);
    let id = wait_for_question(home.path());
    let (code, text) = answer(home.path(), &[&id, "no", "--yes"]);
    assert_eq!(code, 0, "{text}");
    let refused = agent.response_to(call)["result"].clone();
    assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    assert!(home.path().join("notes.md").exists());
    let call = delete(&mut agent);
    let id = wait_for_question(home.path());
    assert_eq!(answer(home.path(), &[&id, "once", "--yes"]).0, 0);
    assert_eq!(agent.response_to(call)["result"]["isError"], false);
    let (code, text) = answer(home.path(), &["ffffffffffffffff", "once", "--yes"]);
    assert!(code == 1 && text.contains("no question"), "{text}");
}

#[test]
fn question_of_an_ended_server_is_not_listed() {
    let home = workspace("approvals: {unattended: wait}\n");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    delete(&mut agent);
    let id = wait_for_question(home.path());
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    assert_eq!(questions(home.path()), Vec::<Value>::new());
    let (code, text) = answer(home.path(), &[&id, "once", "--yes"]);
    assert!(code == 1 && text.contains("has ended"), "{text}");
}

#[test]
fn question_about_a_dangerous_command_takes_no_lasting_answer() {
    let home = workspace("approvals: {unattended: wait}\n");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    for _ in 0..2 {
        let arguments = json!({"command": "rm -rf src"});
        let params = json!({"name": "exec", "arguments": arguments});
        let call = agent.send("tools/call", params);
        let id = wait_for_question(home.path());
        for lasting in ["session", "always"] {
            let (code, text) = answer(home.path(), &[&id, lasting, "--yes"]);
            assert!(code == 2 && text.contains("its own approval"), "{text}");
        }
        assert_eq!(answer(home.path(), &[&id, "no", "--yes"]).0, 0);
        let refused = agent.response_to(call)["result"].clone();
        assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED");
    }
}
