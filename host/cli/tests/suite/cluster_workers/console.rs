//! The console of a server whose calls run on workers: questions, the record of the cluster, and its nodes.

use std::fs;

use serde_json::{Value, json};

use super::{Deployment, call, eventually, home_in, outcome, text, waiting_command};
use crate::console::{body_of, log_in, send};
use crate::kit::mimir;
use crate::serve_http::Serving;

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

/// A person who is logged in at the console of a server.
pub struct ConsoleClient<'a> {
    serving: &'a Serving,
    path: String,
    cookie: String,
}

impl<'a> ConsoleClient<'a> {
    pub fn of(serving: &'a Serving) -> Self {
        let (path, cookie) = log_in(serving.console_link());
        Self {
            serving,
            path,
            cookie,
        }
    }

    pub fn get(&self, what: &str) -> Value {
        let path = format!("{}api/{what}", self.path);
        let (status, response) = send(self.serving.address, "GET", &path, &[&self.cookie], "");
        assert_eq!(status, 200, "{what}: {response}");
        body_of(&response)
    }

    pub fn post(&self, what: &str, body: &Value) -> (u16, Value) {
        let path = format!("{}api/{what}", self.path);
        let body = body.to_string();
        let (status, response) = send(self.serving.address, "POST", &path, &[&self.cookie], &body);
        (status, body_of(&response))
    }

    /// Returns the recorded calls of a tool, newest first.
    fn calls(&self, tool: &str) -> Vec<Value> {
        let page = self.get(&format!("record?event=call&tool={tool}"));
        page["entries"].as_array().unwrap().clone()
    }

    fn story(&self, call: &Value) -> Value {
        self.get(&format!("record/calls/{}", call["id"].as_str().unwrap()))
    }
}

/// Returns the texts of a story.
fn texts_of(story: &Value) -> String {
    let steps = story["story"].as_array().unwrap().iter();
    let texts = steps.map(|step| format!("{}: {}\n", step["title"], step["text"]));
    texts.collect()
}

#[test]
#[ignore = "needs nats-server"]
fn console_shows_the_record_of_all_workers() {
    let mut deployment = Deployment::start();
    let _workers = [
        deployment.worker(&[]),
        deployment.worker(&["--label", "disk=fast"]),
    ];
    let serving = deployment.serve_with("", &["--console"]);
    let console = ConsoleClient::of(&serving);
    let state = console.get("state");
    assert_eq!(state["cluster"]["pool"], true, "{state}");
    for number in 0..8 {
        let path = format!("{number}.md");
        call(
            &serving,
            "write_file",
            json!({"path": path, "content": "x"}),
        );
    }
    call(&serving, "read_file", json!({"path": "../outside"}));
    let written = console.calls("write_file");
    assert_eq!(written.len(), 8, "{written:#?}");
    let positions: Vec<u64> = written
        .iter()
        .map(|line| line["position"].as_u64().unwrap())
        .collect();
    assert!(
        positions.is_sorted_by(|one, other| one > other),
        "{positions:?}"
    );
    assert!(
        written.iter().all(|line| line["node"]["role"] == "worker"),
        "{written:#?}"
    );
    // Page by page, without a line twice.
    let mut paged = Vec::new();
    let mut before = String::new();
    loop {
        let page = console.get(&format!(
            "record?event=call&tool=write_file&limit=3{before}"
        ));
        paged.extend(
            page["entries"]
                .as_array()
                .unwrap()
                .iter()
                .map(|line| line["id"].clone()),
        );
        match page["next"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    let ids: Vec<Value> = written.iter().map(|line| line["id"].clone()).collect();
    assert_eq!(paged, ids);
    let refused = console.get("record?event=call&tool=read_file");
    assert_eq!(refused["entries"][0]["code"], "INVALID_PATH", "{refused}");
    // The story says who took the call and who ran it, and where its change can be undone.
    let story = console.story(&written[0]);
    let texts = texts_of(&story);
    assert!(texts.contains("this server on "), "{texts}");
    assert!(texts.contains(" ran it"), "{texts}");
    let id = written[0]["id"].as_str().unwrap();
    assert_eq!(
        story["undoElsewhere"]["command"],
        format!("mimir undo {id}"),
        "{story}"
    );
    assert_eq!(
        story["undoElsewhere"]["node"], written[0]["node"]["id"],
        "{story}"
    );
    let read = call(&serving, "read_file", json!({"path": "0.md"}));
    assert_eq!(read["isError"], false, "{read}");
    let read = console.story(&console.calls("read_file")[0]);
    assert_eq!(read["undoElsewhere"], Value::Null, "{read}");
    let (status, _) = console.post(&format!("undo/{id}"), &json!({}));
    assert_eq!(status, 404, "the server has no copy to undo it from");
    let charts = console.get("record/charts?days=1");
    assert_eq!(charts["byTool"][0]["tool"], "write_file", "{charts}");
    assert_eq!(charts["byTool"][0]["calls"], 8, "{charts}");
    let report = console.get("record/verify");
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(
        report["messages"].as_u64(),
        report["head"]["sequence"].as_u64(),
        "{report}"
    );
    eventually("the story says that the log is intact", || {
        console.story(&written[0])["chain"]["state"] == "intact"
    });
}

#[test]
#[ignore = "needs nats-server"]
fn console_lists_workers_and_the_calls_of_a_lost_one() {
    let mut deployment = Deployment::start();
    let first = deployment.worker(&["--label", "disk=fast"]);
    let serving = deployment.serve_with("", &["--console"]);
    let console = ConsoleClient::of(&serving);
    let nodes = |role: &str| -> Vec<Value> {
        let listed = console.get("workers");
        let nodes = listed["nodes"].as_array().unwrap().iter();
        nodes.filter(|node| node["role"] == role).cloned().collect()
    };
    // Until then, it compiles its tools.
    eventually("the worker is ready", || {
        nodes("worker")[0]["state"] == "ready"
    });
    let workers = nodes("worker");
    assert_eq!(workers.len(), 1, "{workers:#?}");
    assert_eq!(workers[0]["labels"]["disk"], "fast", "{workers:#?}");
    assert!(workers[0]["clockSkewMs"].is_i64(), "{workers:#?}");
    let servers = nodes("front");
    assert!(
        servers.len() == 1 && servers[0]["isSelf"] == true,
        "{servers:#?}"
    );
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", waiting_command()));
        eventually("the command runs", || deployment.effects() == 1);
        let begun = console.get("record?event=announced");
        assert_eq!(begun["entries"][0]["tool"], "exec", "{begun}");
        first.signal("-KILL");
        calling.join().unwrap();
    });
    let lost = console.calls("exec");
    assert_eq!(lost.len(), 1, "{lost:#?}");
    assert_eq!(lost[0]["mayHaveRun"], true, "{lost:#?}");
    assert_eq!(lost[0]["node"]["id"], workers[0]["id"], "{lost:#?}");
    let texts = texts_of(&console.story(&lost[0]));
    assert!(texts.contains("was lost while it ran the call"), "{texts}");
    assert!(texts.contains("May have run"), "{texts}");
    eventually("the worker is listed as lost", || {
        let listed = console.get("workers");
        listed["lost"][0]["id"] == workers[0]["id"]
    });
}

#[test]
#[ignore = "needs nats-server"]
fn console_of_a_workspace_hides_other_workspaces() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let serving = deployment.serve_with("", &["--console"]);
    call(&serving, "read_file", json!({"path": "notes.md"}));
    // A server of another workspace in the same cluster.
    let home = home_in(&deployment.folder, "other");
    fs::create_dir_all(home.join(".mimir")).unwrap();
    let url = deployment.nats.url();
    let other = Serving::start(
        &home,
        &["--nats", &url, "--workspace-name", "other", "--console"],
    );
    call(&other, "list_directory", json!({"path": "."}));
    let (main, foreign) = (ConsoleClient::of(&serving), ConsoleClient::of(&other));
    assert_eq!(main.calls("read_file").len(), 1);
    assert_eq!(main.calls("list_directory").len(), 0);
    assert_eq!(foreign.calls("list_directory").len(), 1);
    assert_eq!(foreign.calls("read_file").len(), 0);
    eventually("the other server knows all nodes", || {
        let own = foreign.get("workers");
        own["nodes"].as_array().unwrap().len() == 1 && own["otherNodes"] == 2
    });
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "delete_file", json!({"path": "notes.md"})));
        eventually("the question is open", || {
            !open_questions(&deployment).is_empty()
        });
        let question = open_questions(&deployment)[0].clone();
        assert_eq!(foreign.get("questions")["questions"], json!([]));
        let id = question["id"].as_str().unwrap();
        let body = json!({"fingerprint": question["card"]["fingerprint"], "answer": "once"});
        let answer = format!("questions/{id}/answer");
        let (status, refused) = foreign.post(&answer, &body);
        assert_eq!(status, 409, "{refused}");
        assert_eq!(main.get("questions")["questions"][0]["id"], id);
        let (status, answered) = main.post(&answer, &body);
        assert_eq!(status, 200, "{answered}");
        let result = calling.join().unwrap();
        assert_eq!(result["isError"], false, "{}", text(&result));
    });
    // The answer is in the log of the cluster.
    let answers = main.get("record?event=approval");
    assert!(
        !answers["entries"].as_array().unwrap().is_empty(),
        "{answers}"
    );
}

const ASKED_COMMANDS: &str = "sandbox: {mode: none}\n";

#[test]
#[ignore = "needs nats-server"]
fn console_revokes_an_approval_of_the_cluster_and_ends_its_call() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker_with(ASKED_COMMANDS, &[]);
    let serving = deployment.serve_with(ASKED_COMMANDS, &["--console"]);
    let console = ConsoleClient::of(&serving);
    let begun = deployment.files().join("begun");
    let command = |seconds: u32| json!({"command": format!("touch begun; sleep {seconds}")});
    let answer_next = |answer: &str| {
        eventually("the question is open", || {
            !open_questions(&deployment).is_empty()
        });
        let question = open_questions(&deployment)[0].clone();
        let id = question["id"].as_str().unwrap();
        run_in_cluster(&deployment, &["approvals", "answer", id, answer, "--yes"]);
    };
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", command(0)));
        answer_next("always");
        let result = calling.join().unwrap();
        assert_eq!(result["isError"], false, "{}", text(&result));
    });
    fs::remove_file(&begun).unwrap();
    eventually("the approval is listed", || {
        console.get("policy")["approvals"][0]["id"].is_string()
    });
    let policy = console.get("policy");
    let id = policy["approvals"][0]["id"].as_str().unwrap();
    let revoke = format!("approvals/{id}/revoke");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", command(600)));
        eventually("the command runs", || begun.exists());
        let (status, response) = console.post(&revoke, &json!({}));
        assert_eq!(status, 204, "{response}");
        let result = calling.join().unwrap();
        assert!(
            text(&result).contains("was revoked during the call"),
            "{result}"
        );
    });
    let (status, response) = console.post(&revoke, &json!({}));
    assert_eq!(status, 404, "{response}");
    eventually("the list has no approval", || {
        console.get("policy")["approvals"] == json!([])
    });
    let recorded = console.get("record?event=revoke");
    let detail = recorded["entries"][0]["detail"].as_str().unwrap();
    assert!(detail.contains(" at the console"), "{recorded}");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", command(0)));
        answer_next("no");
        let refused = calling.join().unwrap();
        assert_eq!(outcome(&refused)["code"], "APPROVAL_DENIED", "{refused}");
    });
}
