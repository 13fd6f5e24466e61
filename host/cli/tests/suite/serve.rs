//! `mimir serve`: the binary as an agent starts it.

use crate::kit;
use crate::kit::plugin;
use std::fs;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
#[cfg(unix)]
use std::process::Command;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kit::agent::Agent;
use crate::kit::{mimir, run};
use serde_json::{Value, json};

/// A workspace with a file.
fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let (code, _, output) = run(home.path(), &["init"]);
    assert_eq!(code, 0, "{output}");
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    home
}

fn calls(home: &Path) -> Vec<Value> {
    let (code, out, output) = run(home, &["audit", "show", "--json"]);
    assert_eq!(code, 0, "{output}");
    let all: Value = serde_json::from_str(&out).unwrap();
    let events = all.as_array().or(all["events"].as_array()).unwrap();
    let calls = events.iter().filter(|event| event["event"] == "call");
    calls.cloned().collect()
}

fn code(result: &Value) -> &Value {
    &result["_meta"]["mimir/outcome"]["code"]
}

#[test]
fn serve_lists_and_calls_tools_until_client_leaves() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    let hello = agent.hello(json!({}));
    assert_eq!(hello["result"]["serverInfo"]["name"], "mimir");
    let listed = agent.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    assert!(named("read_file").is_some() && named("delete_file").is_some());
    assert_eq!(
        named("read_file").unwrap()["annotations"]["readOnlyHint"],
        true
    );
    let read = agent.call("read_file", json!({"path": "notes.md"}));
    assert_eq!(read["isError"], false, "{read}");
    assert!(
        read["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("the milk")
    );
    assert!(
        read["_meta"]["mimir/outcome"]["receipt"]["fuel"]
            .as_u64()
            .unwrap()
            > 0
    );
    let (status, output) = agent.wait_for_exit();
    assert_eq!((status, output.as_str()), (Some(0), ""));
    let calls = calls(home.path());
    assert_eq!((calls.len(), &calls[0]["tool"]), (1, &json!("read_file")));
    let (code, ..) = run(home.path(), &["audit", "verify"]);
    assert_eq!(code, 0);
}

#[test]
fn serve_lists_its_tools_before_new_components_are_compiled() {
    let home = workspace();
    let tools = home.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("prob.wasm"), plugin::search()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Created by the program, and writable only for its user.
    let cache = folder.path().join("cache");
    let mut command = mimir(home.path(), &["serve"]);
    command.env("MIMIR_CACHE_DIR", &cache);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent::attach(command.stderr(Stdio::piped()).spawn().unwrap());
    agent.hello(json!({}));
    let names = |agent: &mut Agent| -> Vec<String> {
        let listed = agent.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let first = names(&mut agent);
    for name in ["read_file", "exec", "run_code", "web_fetch"] {
        assert!(first.iter().any(|known| known == name), "{first:?}");
    }
    // A call does not fail because its tool is still being compiled.
    let called = agent.request(
        "tools/call",
        json!({"name": "prob_search", "arguments": {}}),
    );
    assert!(called["result"]["isError"].is_boolean(), "{called}");
    // The client is notified about the new tool; it would not be if the first list had waited for it.
    agent.next_with_method("notifications/tools/list_changed");
    let then = names(&mut agent);
    assert!(then.iter().any(|name| name == "prob_search"), "{then:?}");
    agent.wait_for_exit();
    // The next session knows it from the start, even under another name.
    fs::rename(tools.join("prob.wasm"), tools.join("other.wasm")).unwrap();
    let mut command = mimir(home.path(), &["serve"]);
    command.env("MIMIR_CACHE_DIR", &cache);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent::attach(command.stderr(Stdio::piped()).spawn().unwrap());
    agent.hello(json!({}));
    let again = names(&mut agent);
    assert!(again.iter().any(|name| name == "prob_search"), "{again:?}");
    agent.wait_for_exit();
}

#[test]
fn serve_accepts_the_new_protocol_generation() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    let params = json!({
        "name": "read_file",
        "arguments": {"path": "notes.md"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let read = agent.request("tools/call", params)["result"].take();
    assert_eq!(read["resultType"], "complete", "{read}");
    assert!(
        read["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("the milk")
    );
}

#[test]
fn serve_adds_and_removes_tools_with_their_file() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    agent.request("ping", json!({}));
    let file = home.path().join(".mimir/tools/prob.wasm");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, plugin::search()).unwrap();
    agent.next_with_method("notifications/tools/list_changed");
    let names = |agent: &mut Agent| {
        let listed = agent.request("tools/list", json!({}));
        listed["result"]["tools"].to_string()
    };
    assert!(names(&mut agent).contains("prob_search"));
    // It has no grant, and this client cannot ask a person.
    let refused = agent.call("prob_search", json!({"mode": "glob", "query": "*"}));
    assert_eq!(code(&refused), "APPROVAL_DENIED", "{refused}");
    fs::remove_file(&file).unwrap();
    agent.next_with_method("notifications/tools/list_changed");
    assert!(!names(&mut agent).contains("prob_search"));
    let (_, output) = agent.wait_for_exit();
    assert!(
        output.contains("mimir tools trust prob"),
        "the person reads the way: {output}"
    );
    assert!(output.contains("on a terminal"), "{output}");
}

#[test]
fn serve_applies_a_policy_change_at_once() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    assert_eq!(
        agent.call("read_file", json!({"path": "notes.md"}))["isError"],
        false
    );
    let config = home.path().join(".mimir/config.yml");
    fs::write(config, "policy: {deny: [read_file]}\n").unwrap();
    agent.next_with_method("notifications/tools/list_changed");
    let denied = agent.call("read_file", json!({"path": "notes.md"}));
    assert_eq!(code(&denied), "POLICY_DENIED", "{denied}");
}

#[test]
fn serve_asks_for_approval_by_elicitation() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({"elicitation": {}}));
    for (answer, stays) in [("no", true), ("once", false)] {
        let params = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
        let id = agent.send("tools/call", params);
        let question = agent.next_with_method("elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("may `delete_file` run?"), "{message}");
        let offered = &question["params"]["requestedSchema"]["properties"]["answer"]["enum"];
        assert_eq!(
            offered,
            &json!(["once", "edit", "no"]),
            "each deletion is its own"
        );
        agent.answer(
            &question,
            json!({"action": "accept", "content": {"answer": answer}}),
        );
        agent.response_to(id);
        assert_eq!(home.path().join("notes.md").exists(), stays, "{answer}");
    }
}

#[test]
fn serve_applies_a_user_config_change_while_running() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let write = json!({"path": "notes.md", "content": "new"});
    assert_eq!(
        code(&agent.call("write_file", write.clone())),
        "APPROVAL_DENIED"
    );
    let own = kit::config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(
        own.join("config.yml"),
        "tools: {write_file: {approval: allow}}\n",
    )
    .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while code(&agent.call("write_file", write.clone())) != &Value::Null {
        assert!(Instant::now() < end, "it never counts");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_dir_all(own).unwrap();
}

#[test]
fn serve_survives_invalid_messages() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    for line in [
        "",
        "garbage",
        "[]",
        "{\"jsonrpc\":\"2.0\"}",
        "\u{1b}[2J",
        "{\"id\":",
    ] {
        agent.line(line);
    }
    agent.hello(json!({}));
    agent.line("more garbage");
    let read = agent.call("read_file", json!({"path": "notes.md"}));
    assert_eq!(read["isError"], false);
}

#[test]
fn serve_answers_and_records_a_hundred_concurrent_calls() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let params = json!({"name": "read_file", "arguments": {"path": "notes.md"}});
    let ids: Vec<u64> = (0..100)
        .map(|_| agent.send("tools/call", params.clone()))
        .collect();
    for id in ids {
        let answer = agent.response_to(id);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert_eq!(agent.wait_for_exit().0, Some(0));
    assert_eq!(calls(home.path()).len(), 100);
    assert_eq!(run(home.path(), &["audit", "verify"]).0, 0);
}

#[test]
fn serve_truncates_or_refuses_a_huge_result() {
    let home = workspace();
    fs::write(
        home.path().join("huge.txt"),
        "all work and no play\n".repeat(200_000),
    )
    .unwrap();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let read = agent.call("read_file", json!({"path": "huge.txt"}));
    let facts = &read["_meta"]["mimir/outcome"];
    let text = read["content"][0]["text"].as_str().unwrap();
    assert!(text.len() < 400_000, "{}", text.len());
    assert!(
        facts["truncated"] == true || code(&read) == "LIMIT_EXCEEDED",
        "{facts}"
    );
}

#[cfg(unix)]
#[test]
fn serve_cancels_calls_when_the_client_disconnects() {
    let home = workspace();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"}}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "delete_file", "arguments": {"path": "notes.md"}}});
    let mut command = mimir(home.path(), &["serve"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    writeln!(to, "{hello}\n{call}").unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(from.any(|line| line.unwrap().contains("elicitation/create")));
    let since = Instant::now();
    // Both ends are closed at once, as when a process is killed.
    drop((to, from));
    assert!(child.wait().unwrap().success());
    let took = since.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    let calls = calls(home.path());
    assert_eq!((calls.len(), &calls[0]["code"]), (1, &json!("CANCELLED")));
    assert!(home.path().join("notes.md").exists());
}

#[cfg(unix)]
#[test]
fn serve_records_pending_calls_on_a_signal() {
    // SIGTERM is the usual way for agents to stop a server, so it is not a failure.
    for (signal, expected) in [("-TERM", 0), ("-INT", 130)] {
        let home = workspace();
        let mut agent = Agent::start(home.path());
        agent.hello(json!({"elicitation": {}}));
        agent.send(
            "tools/call",
            json!({"name": "delete_file", "arguments": {"path": "notes.md"}}),
        );
        agent.next_with_method("elicitation/create");
        let pid = agent.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let open = agent.to.take();
        let (status, _) = agent.wait_for_exit();
        drop(open);
        assert_eq!(status, Some(expected));
        assert_eq!(calls(home.path())[0]["code"], "CANCELLED");
    }
}

#[cfg(unix)]
#[test]
fn serve_stopped_while_it_starts_has_not_failed() {
    for round in 0..5 {
        let home = workspace();
        // Made again before the tools are loaded.
        let state = home.path().join(".mimir/state");
        fs::remove_dir_all(&state).unwrap();
        let mut child = mimir(home.path(), &["serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !state.exists() {
            assert_eq!(child.try_wait().unwrap(), None);
        }
        let pid = child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(status.unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "round {round}: {status}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn serve_moves_the_protocol_streams_off_stdin_and_stdout() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let fd = |n: u32| {
        let path = format!("/proc/{}/fd/{n}", agent.child.id());
        fs::read_link(path).unwrap()
    };
    assert_eq!(fd(0), Path::new("/dev/null"));
    // Everything printed to stdout goes to stderr.
    assert_eq!(fd(1), fd(2));
}

#[cfg(unix)]
#[test]
fn serve_works_over_sockets_and_files() {
    let home = workspace();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "read_file", "arguments": {"path": "notes.md"}}});
    let text = format!("{hello}\n{call}\n");
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(script.path(), &text).unwrap();
    let answers = tempfile::NamedTempFile::new().unwrap();
    let status = mimir(home.path(), &["serve"])
        .stdin(fs::File::open(script.path()).unwrap())
        .stdout(fs::File::create(answers.path()).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    let heard = fs::read_to_string(answers.path()).unwrap();
    assert!(heard.contains("the milk"), "{heard}");

    // A socket pair, which Node uses for its children.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let input = std::os::fd::OwnedFd::from(theirs.try_clone().unwrap());
    let output = std::os::fd::OwnedFd::from(theirs);
    let mut command = mimir(home.path(), &["serve"]);
    let mut child = command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .spawn()
        .unwrap();
    drop(command);
    std::io::Write::write_all(&mut &ours, text.as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = String::new();
    std::io::Read::read_to_string(&mut &ours, &mut heard).unwrap();
    assert!(heard.contains("the milk"), "{heard}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn serve_continues_if_the_client_does_not_read_stderr() {
    let home = workspace();
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    // Each refusal writes advice to stderr: much more in total than a pipe holds.
    let params = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    for _ in 0..1000 {
        let answer = agent.request("tools/call", params.clone());
        assert_eq!(code(&answer["result"]), "APPROVAL_DENIED");
    }
}

#[test]
fn serve_reports_a_broken_config_only_on_stderr() {
    let home = workspace();
    fs::write(home.path().join(".mimir/config.yml"), "limits: {fuel: 0}\n").unwrap();
    let output = mimir(home.path(), &["serve", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // Windows cannot redirect stdout of this process yet: the error is there, before the protocol begins.
    #[cfg(unix)]
    assert!(output.stdout.is_empty());
    let text = if cfg!(windows) {
        [output.stdout, output.stderr].concat()
    } else {
        output.stderr
    };
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("limits"), "{text}");
}
