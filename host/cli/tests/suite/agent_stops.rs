//! One of several agents that is stopped at the console: over stdio, over HTTP, and from `mimir top`.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::console::{RunningConsole, body_of, log_in, send};
use crate::kit::agent::Agent;
use crate::kit::{config, run};
use crate::serve_http::{Serving, message};

const WAIT: Duration = Duration::from_secs(60);

fn workspace(settings: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    let own = config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), settings).unwrap();
    home
}

/// A person at the console.
struct Person {
    console: RunningConsole,
    path: String,
    cookie: String,
}

impl Person {
    fn at(console: RunningConsole) -> Self {
        let (path, cookie) = log_in(&console.link);
        Self {
            console,
            path,
            cookie,
        }
    }

    fn send(&self, method: &str, what: &str, body: &Value) -> (u16, String) {
        let path = format!("{}api/{what}", self.path);
        let body = body.to_string();
        send(self.console.address, method, &path, &[&self.cookie], &body)
    }

    fn get(&self, what: &str) -> Value {
        let (status, response) = self.send("GET", what, &Value::Null);
        assert_eq!(status, 200, "{response}");
        body_of(&response)
    }

    /// Waits for an agent of which `check` is true.
    fn agent(&self, check: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + WAIT;
        loop {
            let agents = self.get("agents");
            let agents = agents["agents"].as_array().unwrap();
            if let Some(agent) = agents.iter().find(|agent| check(agent)) {
                return agent.clone();
            }
            assert!(Instant::now() < until, "{agents:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn order(agent: &Value, reason: Option<&str>) -> Value {
    json!({"pid": agent["process"]["pid"], "session": agent["session"], "reason": reason})
}

fn code(result: &Value) -> &str {
    result["_meta"]["mimir/outcome"]["code"]
        .as_str()
        .unwrap_or("ok")
}

fn read(agent: &mut Agent) -> Value {
    agent.call("read_file", json!({"path": "notes.md"}))
}

fn agent_in(home: &Path) -> Agent {
    let mut agent = Agent::start(home);
    agent.hello(json!({}));
    agent
}

#[test]
fn agent_stop_ends_a_wild_agent_and_leaves_the_other_one() {
    let home = workspace("approvals: {unattended: wait}\n");
    let person = Person::at(RunningConsole::of(home.path()));
    let (mut wild, mut tame) = (agent_in(home.path()), agent_in(home.path()));
    assert_eq!(code(&read(&mut tame)), "ok");
    // A call that waits for a person ends, too.
    let delete = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let waiting = wild.send("tools/call", delete);
    let pid = wild.child.id();
    let agent = person.agent(|agent| agent["process"]["pid"] == pid && agent["waiting"] == 1);
    assert_eq!(agent["client"], "test 1");
    let (status, response) = person.send("POST", "agents/stop", &order(&agent, Some("wild")));
    assert_eq!(status, 204, "{response}");
    let ended = wild.response_to(waiting)["result"].clone();
    assert_eq!(code(&ended), "UNAVAILABLE");
    let refused = read(&mut wild);
    assert_eq!(code(&refused), "UNAVAILABLE");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("all calls of this agent are stopped by") && text.contains(": wild"),
        "{text}"
    );
    assert_eq!(code(&read(&mut tame)), "ok");
    let agent = person.agent(|agent| agent["process"]["pid"] == pid && agent["stop"].is_object());
    assert_eq!(agent["stop"]["reason"], "wild");
    let sessions = person.get("sessions");
    let sessions = sessions["sessions"].as_array().unwrap();
    let session = sessions.iter().find(|row| row["process"]["pid"] == pid);
    assert_eq!(session.unwrap()["stop"]["reason"], "wild");
    // A console that is opened later knows it.
    let later = Person::at(RunningConsole::of(home.path()));
    let agent = later.agent(|agent| agent["process"]["pid"] == pid && agent["stop"].is_object());
    let (status, response) = later.send("POST", "agents/start", &order(&agent, None));
    assert_eq!(status, 204, "{response}");
    person.agent(|agent| agent["process"]["pid"] == pid && agent["stop"].is_null());
    assert_eq!(code(&read(&mut wild)), "ok");
    let (_, out, _) = run(home.path(), &["audit", "show", "--json"]);
    for detail in ["are refused, by ", ": wild", "are allowed again, by "] {
        assert!(out.contains(detail), "{detail}: {out}");
    }
}

#[test]
fn agent_stop_of_one_http_session_leaves_the_others() {
    let home = workspace("");
    let serving = Serving::start(home.path(), &[]);
    let person = Person::at(RunningConsole::of(home.path()));
    let sessions = [serving.hello(json!({})), serving.hello(json!({}))];
    let call = |session: &str, id: u64| {
        let headers = [
            ("mcp-session-id", session),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let read = json!({"name": "read_file", "arguments": {"path": "notes.md"}});
        let answer = serving.post(&headers, &message(id, "tools/call", read));
        answer.message(id)["result"].clone()
    };
    // A process looks for consoles once a second, and earlier calls are not shown.
    let agent = loop {
        assert_eq!(code(&call(&sessions[0], 2)), "ok");
        if let Some(agent) = person.get("agents")["agents"].get(0) {
            break agent.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let (status, _) = person.send("POST", "agents/stop", &order(&agent, None));
    assert_eq!(status, 204);
    person.agent(|agent| agent["stop"].is_object());
    assert_eq!(code(&call(&sessions[0], 3)), "UNAVAILABLE");
    assert_eq!(code(&call(&sessions[1], 4)), "ok");
}

#[test]
fn agent_stop_refuses_agents_that_are_unknown() {
    let home = workspace("");
    let person = Person::at(RunningConsole::of(home.path()));
    for body in [
        json!({"pid": 1, "session": "none"}),
        json!({"pid": std::process::id(), "session": "\u{202e}<b>"}),
    ] {
        for what in ["agents/stop", "agents/start"] {
            let (status, response) = person.send("POST", what, &body);
            assert_eq!(status, 404, "{response}");
            assert!(!response.contains('\u{202e}'), "{response}");
        }
    }
    for body in [
        json!({"pid": -1, "session": "x"}),
        json!({"pid": 1}),
        json!({"pid": 1, "session": "x".repeat(5_000)}),
        json!({"pid": 1, "session": "x", "all": true}),
    ] {
        let (status, response) = person.send("POST", "agents/stop", &body);
        assert_eq!(status, 400, "{response}");
    }
}

#[test]
fn waiting_call_sends_progress_to_its_client() {
    let home = workspace("approvals: {unattended: wait}\n");
    let mut agent = agent_in(home.path());
    let _console = RunningConsole::of(home.path());
    let params = json!({
        "name": "delete_file",
        "arguments": {"path": "notes.md"},
        "_meta": {"progressToken": "t1"},
    });
    agent.send("tools/call", params);
    let first = agent.next_with_method("notifications/progress");
    let second = agent.next_with_method("notifications/progress");
    for progress in [&first, &second] {
        assert_eq!(progress["params"]["progressToken"], "t1");
        assert_eq!(
            progress["params"]["message"],
            "waiting for an answer: delete_file"
        );
    }
    let done = |progress: &Value| progress["params"]["progress"].as_f64().unwrap();
    assert!(done(&second) > done(&first));
}
