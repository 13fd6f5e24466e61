//! Third-party MCP servers at the console: trust of a changed tool, and calls that go on after a switch.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::console::{RunningConsole, address_of, body_of, log_in, send};
use crate::kit::agent::Agent;
use crate::kit::greeter::{self, json_of, starts};
use crate::kit::run;

/// A page that is logged in.
struct ServersPage {
    _console: RunningConsole,
    address: SocketAddr,
    path: String,
    cookie: String,
}

impl ServersPage {
    fn open(home: &Path) -> Self {
        let console = RunningConsole::of(home);
        let address = address_of(&console.link);
        let (path, cookie) = log_in(&console.link);
        Self {
            _console: console,
            address,
            path,
            cookie,
        }
    }

    fn get(&self, name: &str) -> Value {
        let path = format!("{}api/{name}", self.path);
        let (status, response) = send(self.address, "GET", &path, &[&self.cookie], "");
        assert_eq!(status, 200, "{response}");
        body_of(&response)
    }

    fn post(&self, name: &str, body: &Value) {
        let path = format!("{}api/{name}", self.path);
        let body = body.to_string();
        let (status, response) = send(self.address, "POST", &path, &[&self.cookie], &body);
        assert!(status < 300, "{response}");
    }
}

/// Adds the greeter as the server `one`, and trusts it.
fn add_trusted(home: &Path) {
    let own = format!("HOME_IS={}", home.display());
    let add = ["mcp", "add", "one", "--env", &own, "--", "sh", "server.sh"];
    assert_eq!(run(home, &add).0, 0);
    let (_, tested) = json_of(home, &["mcp", "test", "one"]);
    let digest = tested["digest"].as_str().unwrap();
    let trust = ["mcp", "trust", "one", "--allow", "all", "--approve", digest];
    let (code, _, err) = run(home, &trust);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn console_tells_what_trust_in_a_changed_tool_of_a_server_leads_to() {
    let folder = greeter::workspace("Greets somebody.");
    let home = folder.path();
    add_trusted(home);
    greeter::write(home, "Reads secrets.");
    json_of(home, &["mcp", "test", "one"]);
    let page = ServersPage::open(home);
    let tool = page.get("tools/mcp_one_greet");
    let text = tool["trustState"]["text"].as_str().unwrap();
    assert!(text.contains("each call is refused until"), "{text}");
    let call = ["call", "mcp_one_greet", "name=x"];
    let (_, refused) = json_of(home, &call);
    assert_eq!(refused["error"]["code"], "POLICY_DENIED", "{refused}");
    // The setting of the earlier review applies to the new version.
    assert_eq!(
        (&tool["approval"], &tool["ownDefault"]),
        (&json!("allow"), &json!("ask")),
        "{tool}"
    );
    let then = tool["ifTrusted"].as_str().unwrap();
    assert!(then.contains("run without a question"), "{then}");
    page.post(
        "tools/mcp_one_greet/trust",
        &json!({ "digest": tool["digest"] }),
    );
    let (code, called) = json_of(home, &call);
    assert_eq!(code, 0, "{called}");
    // The list and the details count the same calls.
    let tools = page.get("tools");
    let mut rows = tools["tools"].as_array().unwrap().iter();
    let row = rows.find(|row| row["name"] == "mcp_one_greet").unwrap();
    let tool = page.get("tools/mcp_one_greet");
    assert_eq!(tool["calls30d"], row["calls30d"], "{tool}");
    assert_eq!(tool["lastUsed"], row["lastUsed"], "{tool}");
}

#[test]
fn console_switch_of_a_tool_ends_no_call_of_a_server() {
    let folder = greeter::workspace("Greets somebody.");
    let home = folder.path();
    let script = fs::read_to_string(home.join("server.sh")).unwrap();
    let waits = "touch called; while ! test -e go; do sleep 0.05; done\n      home=";
    let script = script.replace("home=", waits);
    fs::write(home.join("server.sh"), script).unwrap();
    add_trusted(home);
    let page = ServersPage::open(home);
    let mut agent = Agent::start(home);
    agent.hello(json!({}));
    let greet = json!({"name": "mcp_one_greet", "arguments": {"name": "x"}});
    let call = agent.send("tools/call", greet);
    for _ in 0..3_000 {
        if home.join("called").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(home.join("called").exists(), "the server was not called");
    let begun = starts(home);
    page.post("tools/list_directory/switch", &json!({ "on": false }));
    // The process has the new settings when it refuses the tool.
    let listed = |agent: &mut Agent| {
        let tools = agent.request("tools/list", json!({}));
        tools.to_string().contains("\"list_directory\"")
    };
    let mut attempts = 0;
    while listed(&mut agent) {
        attempts += 1;
        assert!(attempts < 3_000, "the switch does not count");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::write(home.join("go"), "").unwrap();
    let answer = agent.response_to(call).to_string();
    assert!(answer.contains("hello from"), "{answer}");
    assert_eq!(starts(home), begun, "the server was started again");
    let servers = page.get("servers");
    let server = &servers["servers"][0];
    assert_eq!(server["state"], "running", "{server}");
    assert!(server["error"].is_null(), "{server}");
}
