//! The console of a server edits rules only; that of its own user edits every setting.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::console::{RunningConsole, address_of, body_of, log_in, send};
use crate::kit::config;
use crate::kit::scripts::workspace;
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

fn write_settings(home: &Path) {
    fs::create_dir_all(config(home)).unwrap();
    fs::write(config(home).join("config.yml"), SETTINGS).unwrap();
}

fn settings(home: &Path) -> String {
    fs::read_to_string(config(home).join("config.yml")).unwrap()
}

#[test]
fn console_of_a_server_writes_rules_only() {
    let home = workspace(&[]);
    write_settings(home.path());
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
    write_settings(home.path());
    let console = RunningConsole::of(home.path());
    let page = RulesPage::open(&console.link);
    let (status, response) = page.apply("mcp.servers.x", "{command: sh}");
    assert_eq!(status, 200, "{response}");
    assert!(settings(home.path()).contains("command: sh"));
}
