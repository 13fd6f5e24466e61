//! Location of stored conversations, and the taint stored with them.

use crate::kit;
use std::fs;
use std::path::Path;

use crate::kit::run;
use crate::kit::script::{Script, calls, says};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with user settings, in addition to the scripted model.
fn home(script: &Script, api: &str, settings: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    let url = &script.url;
    let block = format!(
        "model: local/m\nproviders:\n  local:\n    api: {api}\n    url: {url}\n    prices: {{m: {{input: 10, output: 100}}}}\n{settings}"
    );
    fs::write(user.join("config.yml"), block).unwrap();
    fs::write(home.path().join("notes.txt"), "the answer is 42\n").unwrap();
    home
}

/// The exit code and the events of a run.
fn events(home: &Path, task: &str, more: &[&str]) -> (i32, Vec<Value>) {
    let mut args = vec!["run", task, "--json"];
    args.extend(more);
    let (code, out, err) = run(home, &args);
    let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}\n{err}"));
    (code, out.lines().map(event).collect())
}

fn end(events: &[Value]) -> &Value {
    let last = events.last().unwrap();
    assert_eq!(last["event"], "end");
    last
}

/// A conversation file, which is stored among the user's own files.
fn kept(home: &Path, id: &str) -> String {
    let all = fs::read_dir(kit::config(home).join("workspaces")).unwrap();
    let mut all = all.map(|entry| entry.unwrap().path().join(format!("{id}.json")));
    fs::read_to_string(all.find(|path| path.exists()).unwrap()).unwrap()
}

#[test]
fn conversation_file_stores_the_taint_label() {
    let script = Script::start(vec![
        calls("read_file", json!({"path": "notes.txt"})),
        says("It is 42."),
    ]);
    let labels = "tools: {read_file: {labels: {outputTrust: untrusted}}}\n";
    let home = home(&script, "openai", labels);
    let (code, events) = events(home.path(), "what?", &[]);
    assert_eq!(code, 0, "{events:#?}");
    let text = kept(home.path(), end(&events)["conversation"].as_str().unwrap());
    assert!(text.contains("It is 42."));
    let talk: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&talk["read"]["trust"], &talk["read"]["origin"]),
        (&json!("untrusted"), &json!("built-in:read_file")),
        "{text}"
    );
}

#[cfg(unix)]
#[test]
fn conversations_are_never_stored_in_the_checkout() {
    let script = Script::start(vec![says("done")]);
    let home = home(&script, "openai", "");
    let outside = tempfile::tempdir().unwrap();
    for n in 0..120 {
        fs::write(outside.path().join(format!("{n:012x}-1-1.json")), "{}").unwrap();
    }
    let state = home.path().join(".mimir/state");
    fs::create_dir_all(&state).unwrap();
    std::os::unix::fs::symlink(outside.path(), state.join("chats")).unwrap();
    let (code, events) = events(home.path(), "what?", &[]);
    assert_eq!(code, 0, "{events:#?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 120);
    // A committed conversation is not a stored one.
    fs::remove_file(state.join("chats")).unwrap();
    fs::create_dir(state.join("chats")).unwrap();
    let id = "00000000000f-1-1";
    let talk = json!({"id": id, "model": "m", "messages": [], "spent": {}}).to_string();
    fs::write(state.join(format!("chats/{id}.json")), talk).unwrap();
    let (code, _, err) = run(home.path(), &["chat", "--resume", id]);
    assert_ne!(code, 0);
    assert!(err.contains("unknown conversation"), "{err}");
}
