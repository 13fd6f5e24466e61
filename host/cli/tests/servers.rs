//! Servers of other people: which of them start, what is shown of them, and what is taken over of what agents write.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that goes wrong ends where it goes wrong"
)]

mod kit;

#[path = "kit/greeter.rs"]
mod greeter;

use std::fs;

use greeter::{json_of, starts, workspace};
use kit::{mimir, run};
use serde_json::json;

/// Adds the greeter under this name.
fn add(home: &std::path::Path, name: &str, more: &[&str]) {
    // What a server is that another test has asked is known.
    let own = format!("HOME_IS={}", home.display());
    let words = ["mcp", "add", name, "--env", &own];
    let words = [&words[..], more, &["--", "sh", "server.sh"]].concat();
    let (code, _, err) = run(home, &words);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_wrong_name_starts_no_server_that_cannot_have_it() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    add(home, "one", &[]);
    add(home, "two", &[]);
    let (code, wrong) = json_of(home, &["call", "read_flie", "path=x"]);
    assert_ne!(code, 0, "{wrong}");
    assert_eq!(wrong["error"]["code"], "NOT_FOUND", "{wrong}");
    assert_eq!(starts(home), 0);
    // It is started for its own, and the other one is not.
    let (_, refused) = json_of(home, &["call", "mcp_two_greet", "name=x"]);
    assert_eq!(refused["error"]["code"], "APPROVAL_DENIED", "{refused}");
    assert_eq!(starts(home), 1);
    let (_, listed) = json_of(home, &["mcp", "list"]);
    let tools: Vec<_> = listed["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["tools"])
        .collect();
    assert_eq!(tools, [&json!(null), &json!(1)]);
    // One without a prefix may have any name.
    add(home, "bare", &["--prefix", ""]);
    json_of(home, &["call", "no_such_thing"]);
    assert_eq!(starts(home), 2);
}

#[test]
fn a_list_shows_no_credentials() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let config = json!({"mcp": {"servers": {
        "web": {"url": "https://h.example/mcp?api_key=abcdefgh1&x=1"},
        "sh": {"command": "sh", "args": ["server.sh", "--password=hunter2hunter2", "--api-key", "hunter2", "postgres://me:hunter2hunter2@db/x"]},
    }}});
    fs::write(home.join(".mimir/config.yml"), config.to_string()).unwrap();
    let (_, _, err) = run(home, &["policy", "accept", "--yes"]);
    for args in [&["mcp", "list"][..], &["mcp", "list", "--json"]] {
        let (code, out, more) = run(home, args);
        assert_eq!(code, 0, "{err}{more}");
        assert!(
            out.contains("https://h.example/mcp?api_key=") && out.contains("REDACTED"),
            "{err}{out}{more}"
        );
        for secret in ["abcdefgh1", "hunter2"] {
            assert!(
                !out.contains(secret) && !more.contains(secret),
                "{secret}: {out}{more}"
            );
        }
    }
}

#[test]
fn what_an_agent_fills_in_is_filled_in_and_secrets_are_named() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let theirs = json!({
        "inputs": [{"id": "pin", "type": "promptString", "password": true}],
        "servers": {
            "greeter": {"command": "sh", "args": ["${workspaceFolder}/server.sh"],
                "env": {"WHO": "${GREETED:-nobody}", "HIDDEN": "${env:IS_SET_FOR_THIS}"}},
            "keyed": {"command": "sh", "args": ["x"], "envFile": "${workspaceFolder}/.env", "env": {"PIN": "${input:pin}"}},
            "open": {"command": "sh", "args": ["--token=${env:MY_TOKEN}"]},
        },
    });
    fs::create_dir(home.join(".vscode")).unwrap();
    fs::write(home.join(".vscode/mcp.json"), theirs.to_string()).unwrap();
    fs::write(home.join(".env"), "API_KEY=hunter2hunter2\nMODE=fast\n").unwrap();
    let import = ["mcp", "import", "--from", "vscode", "--yes"];
    let output = mimir(home, &import)
        .env("IS_SET_FOR_THIS", "seen")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{err}");
    for words in [
        "mimir secrets set PIN",
        "mimir secrets set API_KEY",
        "the secret `MY_TOKEN`",
    ] {
        assert!(err.contains(words), "{words}: {err}");
    }
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let config = config.rsplit_once("\nmcp:").unwrap().1;
    for secret in ["hunter2", "workspaceFolder", "input:", ":-", "open:"] {
        assert!(
            !config.contains(secret) && !err.contains("hunter2"),
            "{secret}: {config}{err}"
        );
    }
    assert!(
        config.contains("${API_KEY}") && config.contains("fast"),
        "{config}"
    );
    assert!(!err.contains("will not start so"), "{err}");
    // It starts where the agent would have started it.
    let (code, tested) = json_of(home, &["mcp", "test", "greeter"]);
    assert_eq!(code, 0, "{tested}");
    assert!(
        config.contains("seen") && config.contains("nobody"),
        "{config}"
    );
}
