//! `mimir stop` and `mimir start`.

use std::fs;

use serde_json::{Value, json};

use crate::kit::agent::Agent;
#[cfg(target_os = "linux")]
use crate::kit::command_workspace::CommandWorkspace;
use crate::kit::{config, run};

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    home
}

fn refusal(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn stop_refuses_all_calls_until_start() {
    let home = workspace();
    let home = home.path();
    let call = ["call", "read_file", "path=notes.md"];
    assert_eq!(run(home, &call).0, 0);
    let (code, _, err) = run(home, &["stop"]);
    assert!(code == 2 && err.contains("--all"), "{err}");
    let (code, _, err) = run(home, &["stop", "--all", "--reason", "leaked key"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("all your calls on this machine are refused"),
        "{err}"
    );
    let (code, out, err) = run(home, &call);
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        err.contains("leaked key") && err.contains("mimir start"),
        "{err}"
    );
    let (code, out, _) = run(home, &["doctor"]);
    assert!(code == 1 && out.contains("leaked key"), "{out}");
    // An order without a reason leaves the one in force to its author.
    let (code, _, err) = run(home, &["stop", "--all"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("are refused already") && err.contains("reason: leaked key"),
        "{err}"
    );
    // Without a terminal, a person has to say so.
    let (code, _, err) = run(home, &["start"]);
    assert!(code == 3 && err.contains("mimir start --yes"), "{err}");
    assert_eq!(run(home, &call).0, 1);
    let (code, _, err) = run(home, &["start", "--yes"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(run(home, &call).0, 0);
    let (code, _, err) = run(home, &["start"]);
    assert!(code == 0 && err.contains("allowed already"), "{err}");
    let (_, out, _) = run(home, &["audit", "show", "--json"]);
    assert!(
        out.contains("all calls are refused, by") && out.contains("calls are allowed again, by"),
        "{out}"
    );
    assert!(out.contains("all calls are still refused, by"), "{out}");
    assert!(
        out.contains("UNAVAILABLE"),
        "the refused calls are recorded: {out}"
    );
}

#[test]
fn stop_works_with_a_broken_config_and_outside_of_a_workspace() {
    let home = tempfile::tempdir().unwrap();
    let own = config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), "policy: [").unwrap();
    let (code, _, err) = run(home.path(), &["stop", "--all"]);
    assert_eq!(code, 0, "{err}");
    assert!(own.join("stop.json").exists());
    let (code, out, _) = run(home.path(), &["start", "--yes", "--json"]);
    assert_eq!(code, 0, "{out}");
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["started"], true);
    assert!(!own.join("stop.json").exists());
}

#[test]
fn stop_reaches_a_running_server() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({"elicitation": {}}));
    let read = json!({"path": "notes.md"});
    assert_eq!(agent.call("read_file", read.clone())["isError"], false);
    // A call that waits for its user runs, too.
    let waiting = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let waiting = agent.send("tools/call", waiting);
    agent.next_with_method("elicitation/create");
    assert_eq!(
        run(home.path(), &["stop", "--all", "--reason", "incident"]).0,
        0
    );
    let ended = agent.response_to(waiting)["result"].clone();
    assert!(refusal(&ended).contains("incident"), "{ended}");
    assert!(home.path().join("notes.md").exists());
    let refused = agent.call("read_file", read.clone());
    assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "UNAVAILABLE");
    assert_eq!(run(home.path(), &["start", "--yes"]).0, 0);
    assert_eq!(agent.call("read_file", read)["isError"], false);
}

#[cfg(target_os = "linux")]
#[test]
fn stop_is_out_of_reach_of_commands_in_the_sandbox() {
    let fixture = CommandWorkspace::with("");
    let order = fixture.path().join("user/stop.json");
    // A command can neither give the order nor withdraw it.
    let (_, output) = fixture.exec(&format!("echo '{{}}' > '{}'; echo done", order.display()));
    assert!(!order.exists(), "{output:#}");
    let (code, output) = fixture.mimir(&["stop", "--all"]);
    assert_eq!(code, 0, "{output:#}");
    let (code, output) = fixture.exec("true");
    assert_eq!(code, 1, "{output:#}");
    assert_eq!(output["error"]["code"], "UNAVAILABLE");
    let (code, output) =
        fixture.mimir(&["call", "write_file", "path=../user/stop.json", "content={}"]);
    assert_ne!(code, 0, "{output:#}");
    let (code, _) = fixture.mimir(&["start", "--yes"]);
    assert_eq!(code, 0);
    let program = crate::kit::program();
    let (_, output) = fixture.exec(&format!("'{program}' stop --all; echo done"));
    assert!(!order.exists(), "{output:#}");
}
