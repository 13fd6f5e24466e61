//! Running calls in consoles: the socket of a console, and `mimir top` in a terminal, driven by tmux.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::agent::Agent;
use crate::kit::command_workspace::CommandWorkspace;
use crate::kit::tmux::Tmux;
use crate::kit::{config, mimir, run};

/// A console that only listens.
fn listen(config: &Path) -> (PathBuf, UnixListener) {
    let folder = config.join("live");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let name = format!("{}-0123456789abcdef.sock", std::process::id());
    let path = folder.join(name);
    let listener = UnixListener::bind(&path).unwrap();
    (path, listener)
}

/// The messages of the next process that connects, until it ends.
fn messages(listener: &UnixListener) -> Vec<Value> {
    let (stream, _) = listener.accept().unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

#[test]
fn live_calls_reach_a_console_and_commands_do_not_reach_its_socket() {
    let fixture = CommandWorkspace::with("sandbox: process");
    let (socket, listener) = listen(&fixture.path().join("user"));
    let messages = std::thread::spawn(move || messages(&listener));
    let folder = socket.parent().unwrap().display().to_string();
    let socket = socket.display().to_string();
    let command = format!(
        "ls '{folder}' 2>&1; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\"); print(\"reached\")' 2>&1; echo shown"
    );
    let output = fixture.output(&command);
    assert!(
        !output.contains(".sock\n") && !output.contains("reached"),
        "{output}"
    );
    let messages = messages.join().unwrap();
    assert_eq!(messages[0]["hello"]["name"], "call");
    let events = messages
        .iter()
        .filter_map(|message| message["events"].as_array());
    let events: Vec<&Value> = events.flatten().collect();
    let of_kind = |kind: &str| events.iter().find(|event| event["kind"] == kind).copied();
    let started = of_kind("started").unwrap();
    assert_eq!(started["tool"], "exec");
    assert!(started["arguments"].as_str().unwrap().contains("reached"));
    assert_eq!(of_kind("decided").unwrap()["decision"], "ask");
    assert_eq!(of_kind("effect").unwrap()["effect"], "command");
    let finished = of_kind("finished").unwrap();
    assert_eq!(
        (&finished["id"], &finished["ok"]),
        (&started["id"], &json!(true))
    );
    let is_shown = |event: &&&Value| {
        event["kind"] == "output" && event["text"].as_str().unwrap().contains("shown")
    };
    assert!(events.iter().any(|event| is_shown(&event)), "{events:#?}");
}

#[test]
fn file_tools_do_not_reach_the_sockets_of_consoles() {
    let home = workspace("");
    let (socket, _listener) = listen(&config(home.path()));
    let folder = socket.parent().unwrap();
    std::os::unix::fs::symlink(folder, home.path().join("link")).unwrap();
    for (tool, path) in [
        ("list_directory", folder.to_path_buf()),
        ("list_directory", "link".into()),
        ("read_file", socket.clone()),
        ("delete_file", socket.clone()),
        (
            "delete_file",
            Path::new("link").join(socket.file_name().unwrap()),
        ),
        ("write_file", folder.join("1-0123456789abcdef.sock")),
    ] {
        let arguments = json!({"path": path, "content": "x"}).to_string();
        let arguments = match tool {
            "write_file" => arguments,
            _ => json!({ "path": path }).to_string(),
        };
        let (code, out, err) = run(
            home.path(),
            &["call", "--approve", "always", tool, &arguments],
        );
        assert_ne!(code, 0, "{tool} {path:?}: {out}{err}");
        assert!(!out.contains(".sock"), "{tool} {path:?}: {out}");
    }
    assert!(socket.exists());
}

#[test]
fn top_needs_a_terminal() {
    let home = workspace("");
    let (code, _, err) = run(home.path(), &["top"]);
    assert!(
        code == 2 && err.contains("needs a terminal") && err.contains("mimir console"),
        "{err}"
    );
}

fn workspace(settings: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    let own = config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), settings).unwrap();
    home
}

/// `mimir top` in a terminal of this size. After it ends, the terminal shows its exit code.
fn open(home: &Path, size: (u16, u16), variables: &str) -> Tmux {
    let alone = mimir(home, &[]);
    let set = alone.get_envs();
    let set = set.filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    let set: String = set
        .map(|(name, value)| format!("{name}='{value}' "))
        .collect();
    let binary = env!("CARGO_BIN_EXE_mimir");
    let script = format!("{set}{variables} '{binary}' top; echo \"ended $?\"; read wait");
    let tmux = Tmux::start(home, size, &script);
    tmux.wait_for_text("Calls:");
    tmux
}

/// A call that takes long.
fn start_call(home: &Path) -> std::process::Child {
    let arguments = json!({"command": "echo begun; sleep 600"}).to_string();
    let mut command = mimir(home, &["call", "--approve", "always", "exec", &arguments]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "needs tmux"]
fn top_shows_a_call_and_cancels_it() {
    let home = workspace("");
    // This call begins before the screen is opened, the other one after it.
    let early = start_call(home.path());
    let tmux = open(home.path(), (80, 24), "NO_COLOR=1 ");
    tmux.wait_for_text("> > exec");
    let late = start_call(home.path());
    tmux.wait("two calls", |screen| screen.matches(" exec ").count() == 2);
    tmux.keys(&["Enter"]);
    tmux.wait("the arguments", |screen| {
        screen.contains("arguments") && screen.contains("sleep 600")
    });
    tmux.keys(&["q"]);
    tmux.wait_for_text("q quit");
    tmux.keys(&["c"]);
    tmux.wait_for_text("1 running");
    tmux.keys(&["Home"]);
    tmux.wait_for_text("begun");
    tmux.keys(&["c"]);
    tmux.wait_for_text("0 running");
    for call in [early, late] {
        let output = call.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(
            err.contains("[CANCELLED]") && err.contains("was cancelled by"),
            "{err}"
        );
    }
    let (_, out, _) = run(home.path(), &["audit", "show", "--json"]);
    assert_eq!(out.matches("cancelled by ").count(), 2, "{out}");
    tmux.keys(&["q"]);
    tmux.wait_for_text("ended 0");
    let left = fs::read_dir(config(home.path()).join("live")).unwrap();
    assert_eq!(left.count(), 0, "the socket is removed");
}

#[test]
#[ignore = "needs tmux"]
fn top_answers_a_question_and_stops_all_calls() {
    let home = workspace("approvals: {unattended: wait}\n");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let tmux = open(home.path(), (80, 24), "");
    let params = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let call = agent.send("tools/call", params.clone());
    // The call is listed first, and its question and the change that it would make after it.
    tmux.wait("the question", |screen| {
        screen.contains("> ? delete_file") && screen.contains("notes.md +0")
    });
    tmux.keys(&["o"]);
    let card = tmux.wait_for_text("may `delete_file` run?");
    assert!(card.contains("notes.md"), "{card}");
    tmux.wait_for_text("would delete");
    assert!(home.path().join("notes.md").exists());
    // A card that has just appeared takes no answer.
    tmux.wait("the answer", |screen| {
        if !screen.contains("may `delete_file` run?") {
            return true;
        }
        tmux.keys(&["o"]);
        false
    });
    assert_eq!(agent.response_to(call)["result"]["isError"], false);
    assert!(!home.path().join("notes.md").exists());
    let (_, out, _) = run(home.path(), &["audit", "show", "--json"]);
    assert!(out.contains(r#""answer":"once""#), "{out}");
    tmux.keys(&["x", "n"]);
    tmux.wait_for_text("nothing was stopped");
    tmux.keys(&["x", "y"]);
    tmux.wait_for_text("ALL CALLS ARE STOPPED");
    let call = agent.send("tools/call", params);
    let refused = agent.response_to(call)["result"].clone();
    assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "UNAVAILABLE");
    tmux.keys(&["C-c"]);
    tmux.wait_for_text("ended 130");
    assert_eq!(run(home.path(), &["start", "--yes"]).0, 0);
}

#[test]
#[ignore = "needs tmux"]
fn top_stops_an_agent_undoes_its_change_and_starts_again() {
    let home = workspace("approvals: {unattended: wait}\ntools: {write_file: {approval: allow}}\n");
    let mut agent = Agent::start(home.path());
    agent.hello(json!({}));
    let tmux = open(home.path(), (80, 24), "NO_COLOR=1 ");
    let write = |text: &str| json!({"path": "notes.md", "content": text});
    // The server looks for screens once a second, and earlier calls are not shown.
    let list = json!({"path": "."});
    while !tmux.screen().contains("list_directory") {
        agent.call("list_directory", list.clone());
        std::thread::sleep(Duration::from_millis(100));
    }
    let done = agent.call("write_file", write("overwritten"));
    assert_eq!(done["isError"], false, "{done}");
    tmux.wait("the call", |screen| screen.contains("write_file"));
    tmux.keys(&["t", "y"]);
    tmux.wait_for_text("STOPPED: test 1");
    let refused = agent.call("write_file", write("again"));
    assert_eq!(refused["_meta"]["mimir/outcome"]["code"], "UNAVAILABLE");
    tmux.keys(&["t"]);
    tmux.wait_for_text("Let `test 1` work again? y/n");
    tmux.keys(&["y"]);
    tmux.wait("the start", |screen| !screen.contains("STOPPED"));
    let path = json!({"path": "notes.md"});
    assert_eq!(agent.call("read_file", path)["isError"], false);
    // The newest call is first: the read, the refused write, and the one that has changed the file.
    tmux.wait_for_text("read_file");
    tmux.keys(&["Home", "Down", "Down", "u"]);
    tmux.wait_for_text("Undo the changes of `write_file` to notes.md? y/n");
    tmux.keys(&["y"]);
    tmux.wait_for_text("were undone");
    let notes = fs::read_to_string(home.path().join("notes.md")).unwrap();
    assert_eq!(notes, "remember the milk\n");
    tmux.keys(&["x", "y"]);
    tmux.wait_for_text("ALL CALLS ARE STOPPED");
    tmux.keys(&["x"]);
    tmux.wait_for_text("stopped already");
    tmux.keys(&["S", "y"]);
    tmux.wait("the start", |screen| !screen.contains("ALL CALLS"));
    let (_, out, _) = run(home.path(), &["audit", "show", "--json"]);
    assert!(out.contains("in `mimir top`"), "{out}");
    tmux.keys(&["q"]);
    tmux.wait_for_text("ended 0");
}

#[test]
#[ignore = "needs tmux"]
fn top_works_in_tiny_terminals() {
    let home = workspace("");
    let mut call = start_call(home.path());
    let tmux = open(home.path(), (20, 6), "");
    tmux.wait_for_text("exec");
    tmux.keys(&["Enter"]);
    for (width, height) in [
        ("10", "2"),
        ("4", "1"),
        ("1", "1"),
        ("200", "50"),
        ("80", "24"),
    ] {
        tmux.run(&["resize-window", "-x", width, "-y", height]);
        tmux.keys(&["Down", "Up"]);
    }
    tmux.wait_for_text("sleep 600");
    tmux.keys(&["q"]);
    tmux.wait_for_text("q quit");
    tmux.keys(&["q"]);
    tmux.wait_for_text("ended 0");
    call.kill().unwrap();
    call.wait().unwrap();
}
