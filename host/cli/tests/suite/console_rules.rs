//! Rules at the console: a server's edits rules only, that of its own user every setting, and both revoke approvals.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::console::{RunningConsole, address_of, body_of, log_in, send};
use crate::kit::scripts::workspace;
use crate::kit::{config, eventually, mimir, run};
use crate::serve_http::Serving;

/// A page that is logged in.
struct RulesPage {
    address: SocketAddr,
    path: String,
    cookie: String,
}

impl RulesPage {
    fn open(link: &str) -> Self {
        let (path, cookie) = log_in(link);
        Self {
            address: address_of(link),
            path,
            cookie,
        }
    }

    fn request(&self, method: &str, name: &str, body: &Value) -> (u16, Value) {
        let path = format!("{}api/{name}", self.path);
        let body = match method {
            "GET" => String::new(),
            _ => body.to_string(),
        };
        let (status, response) = send(self.address, method, &path, &[&self.cookie], &body);
        (status, body_of(&response))
    }

    /// Applies an edit to the file of the user as it is.
    fn apply(&self, key: &str, yaml: &str) -> (u16, Value) {
        let (_, policy) = self.request("GET", "policy", &Value::Null);
        let files = policy["files"].as_array().unwrap();
        let user = files.iter().find(|file| file["name"] == "user").unwrap();
        let edit = json!({ "file": "user", "changes": [{ "key": key, "yaml": yaml }] });
        let body = json!({ "edit": edit, "digest": user["digest"] });
        self.request("POST", "policy/apply", &body)
    }
}

const SETTINGS: &str = "# mine\ntools: {exec: {approval: ask}}\n";

fn write_settings(home: &Path, text: &str) {
    fs::create_dir_all(config(home)).unwrap();
    fs::write(config(home).join("config.yml"), text).unwrap();
}

fn settings(home: &Path) -> String {
    fs::read_to_string(config(home).join("config.yml")).unwrap()
}

#[test]
fn console_of_a_server_writes_rules_only() {
    let home = workspace(&[]);
    write_settings(home.path(), SETTINGS);
    let serving = Serving::start(home.path(), &["--console"]);
    let page = RulesPage::open(serving.console_link());
    for (key, yaml) in [
        ("mcp.servers.x", "{command: sh}"),
        ("console.roles.admin", "['group:all']"),
        ("sandbox", "none"),
    ] {
        let (status, response) = page.apply(key, yaml);
        let message = response["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(status, 403, "{key}: {response}");
        assert!(message.contains("the server's operator"), "{message}");
    }
    assert_eq!(settings(home.path()), SETTINGS);
    let (status, response) = page.apply("tools.exec.approval", "deny");
    assert_eq!(status, 200, "{response}");
    assert!(settings(home.path()).contains("deny"));
}

#[test]
fn console_of_a_user_writes_every_setting() {
    let home = workspace(&[]);
    write_settings(home.path(), SETTINGS);
    let console = RunningConsole::of(home.path());
    let page = RulesPage::open(&console.link);
    let (status, response) = page.apply("mcp.servers.x", "{command: sh}");
    assert_eq!(status, 200, "{response}");
    assert!(settings(home.path()).contains("command: sh"));
}

/// Starts `mimir call exec` with a command.
fn start_command(home: &Path, command: &str) -> std::process::Child {
    let argument = format!("command={command}");
    mimir(home, &["call", "exec", &argument])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Approves a command for good, revokes the approval at the page while a call runs by it, and asks for it once more.
fn revoke_at(page: &RulesPage, home: &Path) {
    let begun = home.join("begun");
    let call = start_command(home, "touch begun; sleep 0");
    let mut id = String::new();
    eventually("a question", || {
        let (code, out, err) = run(home, &["approvals", "pending", "--json"]);
        assert_eq!(code, 0, "{err}");
        let pending: Value = serde_json::from_str(&out).unwrap();
        id = pending["questions"][0]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        !id.is_empty()
    });
    let answer = ["approvals", "answer", &id, "always", "--yes"];
    let (code, _, err) = run(home, &answer);
    assert_eq!(code, 0, "{err}");
    let ended = call.wait_with_output().unwrap();
    assert!(ended.status.success() && begun.exists(), "{ended:?}");
    fs::remove_file(&begun).unwrap();
    let call = start_command(home, "touch begun; sleep 600");
    eventually("the command runs", || begun.exists());
    let (_, policy) = page.request("GET", "policy", &Value::Null);
    let approval = policy["approvals"][0]["id"].as_str().unwrap();
    let revoke = format!("approvals/{approval}/revoke");
    let (status, response) = page.request("POST", &revoke, &json!({}));
    assert_eq!(status, 204, "{response}");
    let ended = call.wait_with_output().unwrap();
    let text = [ended.stdout, ended.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        !ended.status.success() && text.contains("was revoked during the call"),
        "{text}"
    );
    let (status, response) = page.request("POST", &revoke, &json!({}));
    assert_eq!(status, 404, "{response}");
    assert_eq!(response["error"]["code"], "NOT_FOUND", "{response}");
    let (_, out, _) = run(home, &["audit", "show", "--json"]);
    assert!(out.contains("1 remembered approvals, by "), "{out}");
}

const ASKED_COMMANDS: &str = "sandbox: {mode: none}\n";

#[test]
fn console_of_a_user_revokes_an_approval_and_ends_its_call() {
    let home = workspace(&[]);
    write_settings(home.path(), ASKED_COMMANDS);
    let console = RunningConsole::of(home.path());
    revoke_at(&RulesPage::open(&console.link), home.path());
}

#[test]
fn console_of_a_server_revokes_an_approval_and_ends_its_call() {
    let home = workspace(&[]);
    write_settings(home.path(), ASKED_COMMANDS);
    let serving = Serving::start(home.path(), &["--console"]);
    revoke_at(&RulesPage::open(serving.console_link()), home.path());
}
