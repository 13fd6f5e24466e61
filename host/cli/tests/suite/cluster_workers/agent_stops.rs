//! An agent that is stopped at the console of one server of a cluster, and its calls at the others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::console::ConsoleClient;
use super::{
    Deployment, SETTINGS, call, eventually, home_in, outcome, recorded, text, waiting_command,
    write_settings,
};
use crate::serve_http::Serving;

/// Starts a server with a console in a folder of its own.
fn server(deployment: &Deployment, name: &str, options: &[&str]) -> Serving {
    let home = home_in(&deployment.folder, name);
    fs::create_dir_all(home.join(".mimir")).unwrap();
    fs::write(home.join("notes.md"), "remember the milk\n").unwrap();
    write_settings(&home, SETTINGS);
    let url = deployment.nats.url();
    let fixed = ["--nats", &url, "--workspace-name", "main", "--console"];
    Serving::start(&home, &[&fixed, options].concat())
}

fn read(serving: &Serving) -> Value {
    call(serving, "read_file", json!({"path": "notes.md"}))
}

fn is_ok(result: &Value) -> bool {
    result["isError"] == false
}

/// Returns the agents of a server: at most one, because all clients without a login are one agent.
fn agent(console: &ConsoleClient) -> Option<Value> {
    let agents = console.get("agents");
    assert!(agents["agents"].as_array().unwrap().len() <= 1, "{agents}");
    agents["agents"].get(0).cloned()
}

fn is_shown_as_stopped(console: &ConsoleClient) -> bool {
    agent(console).is_some_and(|agent| agent["stop"]["reason"] == "wild")
}

/// Gives an order about the agent of a server.
fn order(console: &ConsoleClient, what: &str) {
    let agent = agent(console).unwrap();
    let mut body = json!({"pid": agent["process"]["pid"], "session": agent["session"]});
    if what == "stop" {
        body["reason"] = json!("wild");
    }
    let (status, response) = console.post(&format!("agents/{what}"), &body);
    assert_eq!(status, 204, "{response}");
}

fn assert_refused(result: &Value) {
    assert_eq!(outcome(result)["code"], "UNAVAILABLE", "{result}");
    assert!(
        outcome(result)["details"]["stoppedBy"].is_string(),
        "{result}"
    );
    assert!(text(result).contains(": wild"), "{result}");
}

/// Calls a waiting command at one server, and stops its agent at the console of another one.
fn stop_running_call(console: &ConsoleClient, caller: &Serving, folder: &Path) {
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(caller, "exec", waiting_command()));
        eventually("the command runs", || folder.join("effects").exists());
        order(console, "stop");
        assert_refused(&calling.join().unwrap());
    });
}

#[test]
#[ignore = "needs nats-server"]
fn agent_stop_holds_at_all_servers_of_a_cluster() {
    let deployment = Deployment::start();
    let one = server(&deployment, "one", &[]);
    let other = server(&deployment, "other", &[]);
    let (console, other_console) = (ConsoleClient::of(&one), ConsoleClient::of(&other));
    // Earlier calls are not shown.
    eventually("the agent is known", || {
        assert!(is_ok(&read(&one)));
        agent(&console).is_some()
    });
    stop_running_call(&console, &other, &home_in(&deployment.folder, "other"));
    let later = server(&deployment, "later", &[]);
    let later_console = ConsoleClient::of(&later);
    for serving in [&one, &other, &later] {
        assert_refused(&read(serving));
    }
    for console in [&console, &other_console, &later_console] {
        eventually("the console shows the order", || {
            is_shown_as_stopped(console)
        });
        let sessions = console.get("sessions");
        let stops = sessions["sessions"].as_array().unwrap().iter();
        let stops: Vec<_> = stops
            .filter(|row| row["stop"]["reason"] == "wild")
            .collect();
        assert_eq!(stops.len(), 1, "{sessions}");
    }
    order(&later_console, "start");
    for (serving, console) in [(&one, &console), (&other, &other_console)] {
        eventually("the agent may work again", || is_ok(&read(serving)));
        eventually("the console shows it", || {
            agent(console).is_some_and(|agent| agent["stop"].is_null())
        });
    }
    eventually("the agent may work again", || is_ok(&read(&later)));
}

#[test]
#[ignore = "needs nats-server"]
fn agent_stop_ends_the_call_of_a_worker_for_another_server() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let one = server(&deployment, "one", &["--pool"]);
    let other = server(&deployment, "other", &["--pool"]);
    let console = ConsoleClient::of(&one);
    eventually("the agent is known", || {
        is_ok(&read(&one)) && agent(&console).is_some()
    });
    eventually("the other server is ready", || is_ok(&read(&other)));
    stop_running_call(&console, &other, &deployment.files());
    for serving in [&one, &other] {
        assert_refused(&read(serving));
    }
    eventually("the console shows the order", || {
        is_shown_as_stopped(&console)
    });
    order(&console, "start");
    for serving in [&one, &other] {
        eventually("the agent may work again", || is_ok(&read(serving)));
    }
    eventually("the call is on record", || {
        !recorded(&deployment, "exec").is_empty()
    });
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
}
