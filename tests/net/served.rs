//! A background server of a session, as `web_fetch` reaches it: only by a declared port, and only from this session.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use mimir_core::audit::EventKind;
use mimir_core::outcome::TrustLevel;
use mimir_kit::{builtins, in_session};
use mimir_testkit::{Approve, Outcome, Testkit, ToolErrorCode, Value, json};

/// A kit in which commands run without approval, without a person for other prompts.
fn kit(more: Value) -> Testkit {
    let mut settings = json!({
        "execApprovals": {"mode": "full"},
        "tools": {
            "exec": {"approval": "allow"},
            "exec_stop": {"approval": "allow", "labels": {"acceptsUntrusted": true}},
            // Each response is untrusted content, which these tests are not about.
            "web_fetch": {"labels": {"acceptsUntrusted": true}},
        },
    });
    if let (Some(all), Value::Object(more)) = (settings.as_object_mut(), more) {
        all.extend(more);
    }
    let kit = Testkit::with_bundled(builtins()).unwrap();
    let kit = kit.approve(Approve::Nobody).settings(settings).unwrap();
    kit.workspace(|root| std::fs::write(root.join("page.txt"), "from the session").unwrap())
}

/// Starts a background server in the workspace, and waits until it listens.
fn serve(kit: &Testkit, session: &str, port: u16, ports: &[u16]) -> u64 {
    let command = format!("exec python3 -m http.server {port}");
    let arguments = json!({"command": command, "background": true, "ports": ports});
    let outcome = in_session(kit, session, "exec", arguments);
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    let job = output.structured.as_ref().unwrap()["job"].as_u64().unwrap();
    let wait = format!(
        "for i in $(seq 100); do python3 -c 'import socket; socket.create_connection((\"localhost\", {port}), 1)' \
         2>/dev/null && exit; sleep 0.1; done; exit 1"
    );
    let outcome = in_session(kit, session, "exec", json!({ "command": wait }));
    assert!(outcome.result().is_ok(), "{}", outcome.text());
    job
}

fn fetch(kit: &Testkit, session: &str, url: &str) -> Outcome {
    in_session(kit, session, "web_fetch", json!({ "url": url }))
}

fn code(outcome: &Outcome) -> Option<ToolErrorCode> {
    outcome.result().err().map(|error| error.code)
}

#[test]
fn web_fetch_named_port_works_only_in_its_session() {
    let kit = kit(json!({}));
    let job = serve(&kit, "one", 8123, &[8123]);
    serve(&kit, "one", 8124, &[]);
    for host in ["localhost", "127.0.0.1"] {
        let outcome = fetch(&kit, "one", &format!("http://{host}:8123/page.txt"));
        assert!(
            outcome.text().contains("from the session"),
            "{}",
            outcome.text()
        );
    }
    assert!(kit.cards().is_empty(), "no approval is needed");
    let effects = kit
        .events()
        .into_iter()
        .filter(|event| event.event == EventKind::Effect);
    let recorded = effects.filter_map(|event| event.subject);
    assert!(
        recorded
            .into_iter()
            .any(|subject| subject == "GET http://localhost:8123")
    );
    // Another session, an undeclared port, and a port of this machine.
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let machine = here.local_addr().unwrap().port();
    for (session, port) in [("other", 8123), ("one", 8124), ("one", machine)] {
        let outcome = fetch(&kit, session, &format!("http://localhost:{port}/page.txt"));
        assert_eq!(
            code(&outcome),
            Some(ToolErrorCode::PolicyDenied),
            "{session} {port}: {}",
            outcome.text()
        );
    }
    here.set_nonblocking(true).unwrap();
    assert!(here.accept().is_err(), "nothing of this machine is reached");
    let stopped = in_session(&kit, "one", "exec_stop", json!({ "job": job }));
    assert!(stopped.result().is_ok(), "{}", stopped.text());
    let outcome = fetch(&kit, "one", "http://localhost:8123/page.txt");
    assert_eq!(
        code(&outcome),
        Some(ToolErrorCode::PolicyDenied),
        "{}",
        outcome.text()
    );
}

#[test]
fn web_fetch_get_from_named_port_ignores_taint() {
    let tools = json!({"exec": {"approval": "allow"}});
    let kit = kit(json!({ "tools": tools }));
    serve(&kit, "one", 8125, &[8125]);
    let url = "http://localhost:8125/page.txt";
    for _ in 0..2 {
        let outcome = fetch(&kit, "one", url);
        assert!(
            outcome.text().contains("from the session"),
            "{}",
            outcome.text()
        );
        assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
    }
    assert!(kit.cards().is_empty(), "no approval is needed");
    let post = json!({"url": url, "method": "POST", "body": "x"});
    let outcome = in_session(&kit, "one", "web_fetch", post);
    assert_eq!(code(&outcome), Some(ToolErrorCode::ApprovalDenied));
}

#[test]
fn web_fetch_named_port_prefers_session_over_host() {
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in here.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nmachine";
            let _ = stream.write_all(answer);
        }
    });
    // A person has also allowed this port of the machine.
    let kit = kit(json!({"network": {"allowedHosts": [format!("localhost:{port}")]}}));
    let url = format!("http://localhost:{port}/page.txt");
    let before = fetch(&kit, "one", &url);
    assert!(before.text().contains("machine"), "{}", before.text());
    serve(&kit, "two", port, &[port]);
    assert!(fetch(&kit, "two", &url).text().contains("from the session"));
    // The port is declared, but no process listens on it.
    let named = json!({"command": "exec sleep 60", "background": true, "ports": [port]});
    assert!(in_session(&kit, "three", "exec", named).result().is_ok());
    std::thread::sleep(Duration::from_millis(10));
    let outcome = fetch(&kit, "three", &url);
    assert_eq!(
        code(&outcome),
        Some(ToolErrorCode::Network),
        "{}",
        outcome.text()
    );
}

#[test]
fn web_fetch_named_port_obeys_network_settings() {
    for network in [json!({"mode": "none"}), json!({"blockedPorts": [8123]})] {
        let kit = kit(json!({ "network": network }));
        serve(&kit, "one", 8123, &[8123]);
        let outcome = fetch(&kit, "one", "http://localhost:8123/page.txt");
        assert_eq!(
            code(&outcome),
            Some(ToolErrorCode::PolicyDenied),
            "{}",
            outcome.text()
        );
    }
}

#[test]
fn exec_ports_need_background_mode() {
    let kit = kit(json!({}));
    let outcome = in_session(
        &kit,
        "one",
        "exec",
        json!({"command": "true", "ports": [8123]}),
    );
    assert_eq!(code(&outcome), Some(ToolErrorCode::InvalidInput));
    let output = outcome.text();
    assert!(output.contains("background: true"), "{output}");
}
