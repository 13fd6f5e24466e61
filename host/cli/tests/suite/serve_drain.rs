//! `mimir serve --http` after SIGTERM: the responses to running calls of both protocol generations.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::{self, eventually};
use crate::serve_http::{Serving, call_without_session, message};

/// Settings with which commands need no approval.
const SETTINGS: &str = "\
execApprovals: {mode: full}
sandbox: {mode: none}
tools: {exec: {approval: allow}}
";

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = kit::config(home.path());
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.yml"), SETTINGS).unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    home
}

/// Parameters of a call of a command that leaves a line, and waits for the file `go`.
fn waiting_call() -> Value {
    let command = "echo begun >> effects; while [ ! -e go ]; do sleep 0.05; done; echo ended";
    json!({"name": "exec", "arguments": {"command": command}})
}

/// Calls the command in a session. Returns the result.
pub fn call_in_session(serving: &Serving, session: &str, params: Value) -> Value {
    let headers = [
        ("mcp-session-id", session),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let answer = serving.post(&headers, &message(2, "tools/call", params));
    assert_eq!(answer.status(), 200, "{}", answer.0);
    answer.message(2)["result"].take()
}

/// Waits until this number of commands runs.
fn wait_for_commands(folder: &Path, count: usize) {
    eventually("the commands run", || {
        let effects = fs::read_to_string(folder.join("effects"));
        effects.is_ok_and(|effects| effects.lines().count() == count)
    });
}

/// Starts a call of each generation in `folder`, ends the server, and returns the results. `go` is called when the server
/// has begun to end.
pub fn results_after_sigterm(serving: &Serving, folder: &Path, go: impl FnOnce()) -> [Value; 2] {
    let session = serving.hello(json!({}));
    std::thread::scope(|scope| {
        let calls = [
            scope.spawn(|| {
                let answer = call_without_session(serving, waiting_call());
                assert_eq!(answer.status(), 200, "{}", answer.0);
                answer.message(1)["result"].take()
            }),
            scope.spawn(|| call_in_session(serving, &session, waiting_call())),
        ];
        wait_for_commands(folder, 2);
        serving.terminate();
        go();
        calls.map(|call| call.join().unwrap())
    })
}

#[test]
fn serve_http_delivers_results_of_running_calls_after_sigterm() {
    let home = workspace();
    let mut serving = Serving::start(home.path(), &["--drain-timeout", "60"]);
    let results = results_after_sigterm(&serving, home.path(), || {
        eventually("the server is not ready", || {
            let answer = serving.get("/readyz");
            answer.contains(" 503 ") && answer.contains("draining")
        });
        fs::write(home.path().join("go"), "").unwrap();
    });
    for result in results {
        assert_eq!(result["isError"], false, "{result}");
        assert!(result.to_string().contains("ended"), "{result}");
    }
    let (code, output) = serving.wait();
    assert_eq!(code, Some(0), "{output}");
    assert!(
        output.contains("waits up to 60 s for 2 requests"),
        "{output}"
    );
    assert!(output.contains("the server has ended"), "{output}");
    assert!(!output.contains("UNAVAILABLE"), "{output}");
    let (_, shown, _) = kit::run(home.path(), &["audit", "show", "--json"]);
    assert!(!shown.contains("CANCELLED"), "{shown}");
}

#[test]
fn serve_http_answers_calls_beyond_the_drain_time_with_unavailable() {
    let home = workspace();
    let mut serving = Serving::start(home.path(), &["--drain-timeout", "1"]);
    for result in results_after_sigterm(&serving, home.path(), || {}) {
        let outcome = &result["_meta"]["mimir/outcome"];
        assert_eq!(outcome["code"], "UNAVAILABLE", "{result}");
        assert_eq!(outcome["details"]["mayHaveRun"], true, "{result}");
        assert_eq!(result["isError"], true, "{result}");
    }
    let (code, output) = serving.wait();
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("2 requests did not end"), "{output}");
    assert_eq!(kit::run(home.path(), &["audit", "verify"]).0, 0);
}
