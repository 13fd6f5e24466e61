//! Tools in the world `near:agent` of ironclaw.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use mimir_core::ToolErrorCode;
use mimir_core::grants::named_host;
use mimir_core::needs::{Needs, SecretNeed};
use mimir_testkit::json;

use super::{failure, grant, kit};

#[test]
fn near_agent_tool_describes_itself_and_runs() {
    let kit = kit("near_agent").workspace(|folder| {
        std::fs::write(folder.join("notes.txt"), "secret notes").unwrap();
    });
    assert_eq!(kit.quarantined().len(), 0, "{:?}", kit.quarantined());
    let tools = kit.tools();
    assert_eq!(tools[0].name().as_str(), "near_agent");
    assert_eq!(
        tools[0].definition.description,
        "Does what its argument says."
    );
    let outcome = kit.call("near_agent", json!({ "action": "time" }));
    let output = outcome.result().unwrap();
    assert!(
        output.structured.as_ref().unwrap()["millis"]
            .as_u64()
            .unwrap()
            > 1_700_000_000_000
    );
    assert!(kit.log().iter().any(|line| line.text.contains("time")));
    assert_eq!(
        kit.call("near_agent", json!({ "action": "secret" })).text(),
        "false"
    );
}

#[test]
fn near_agent_tool_gets_nothing_that_was_not_granted() {
    let kit = kit("near_agent").workspace(|folder| {
        std::fs::write(folder.join("notes.txt"), "secret notes").unwrap();
    });
    for (action, expected) in [
        ("read", "no such file"),
        ("fetch", "was not granted `127.0.0.1`"),
        ("invoke", "was not granted calls of `other`"),
    ] {
        let (code, message) = failure(&kit, "near_agent", json!({ "action": action }));
        assert_ne!(code, ToolErrorCode::InvalidInput, "{action}: {message}");
        assert!(message.contains(expected), "{action}: {message}");
    }
    let (code, _) = failure(&kit, "near_agent", json!({ "action": "other" }));
    assert_eq!(code, ToolErrorCode::InvalidInput);
    // Nothing is proven: the host interface could reach the network, folders and other tools.
    assert!(kit.tools()[0].origin.proofs.is_empty());
}

#[test]
fn near_agent_requests_carry_a_secret_that_the_tool_never_sees() {
    const VALUE: &str = "a-token-of-the-user";
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = server.local_addr().unwrap().to_string();
    let received = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for stream in server.incoming().take(1) {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            // The server repeats what it got.
            let body = request.clone();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
            requests.push(request);
        }
        requests
    });
    let kit = kit("near_agent").secret("AGENT_TOKEN", VALUE);
    grant(
        &kit,
        Needs {
            hosts: vec![named_host(&host.parse().unwrap())],
            secrets: vec![SecretNeed {
                name: "AGENT_TOKEN".to_owned(),
                host: host.clone(),
                header: "authorization".to_owned(),
                reason: "a test".to_owned(),
            }],
            ..Needs::default()
        },
    );
    let url = format!("http://{host}/");
    let arguments = json!({ "action": "authorized", "url": url });
    let outcome = kit.call("near_agent", arguments);
    assert!(outcome.is_ok(), "{}", outcome.text());
    let requests = received.join().unwrap();
    assert!(requests[0].contains(&format!("authorization: Bearer {VALUE}")));
    assert!(outcome.text().starts_with("true "), "{}", outcome.text());
    assert!(!outcome.text().contains(VALUE), "{}", outcome.text());
}
