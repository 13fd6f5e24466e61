//! Protocol violations of clients, which must not break the server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::{TestServer, fake, text_result, tool};

fn test_server() -> TestServer {
    TestServer::new(vec![tool("one", fake(|_| async { text_result("done") }))])
}

#[tokio::test]
async fn faults_garbage_does_not_end_the_connection() {
    let test_server = test_server();
    let (mut wire, _) = test_server.connect();
    let garbage = [
        "",
        "garbage",
        "{\"jsonrpc\":",
        "\u{0}\u{1}\u{2}",
        "[]",
        "42",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nonsense"}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":78,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"1.0","id":79,"method":"ping"}"#,
        r#"{"id":[],"method":7}"#,
    ];
    for line in garbage {
        wire.line(line).await;
    }
    wire.line(&"x".repeat(1 << 20)).await;
    wire.handshake("2025-06-18", json!({})).await;
    for line in garbage {
        wire.line(line).await;
    }
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
    // JSON that is not a message gets an error response with a null id.
    let answers = wire
        .received
        .iter()
        .filter(|message| message["error"]["code"] == -32600);
    assert!(answers.count() > 0, "{:?}", wire.received);
}

#[tokio::test]
async fn faults_request_without_handshake_is_explained() {
    let test_server = test_server();
    let (mut wire, _) = test_server.connect();
    let early = wire.request("tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32602, "{early}");
    wire.notify("notifications/initialized", json!({})).await;
    wire.handshake("2025-06-18", json!({})).await;
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn faults_too_long_message_is_skipped() {
    let test_server = test_server();
    let mut wire = test_server.client(json!({})).await;
    // In parts, because a client need not hold all of it either.
    let part = "x".repeat(1 << 20);
    wire.part(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"x":""#)
        .await;
    for _ in 0..17 {
        wire.part(&part).await;
    }
    // Some clients write the id last.
    wire.line(r#""},"id":"long"}"#).await;
    let answer = wire.next().await;
    assert_eq!(answer["id"], "long", "{answer}");
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn faults_invalid_call_is_an_invalid_params_error() {
    let test_server = test_server();
    let mut wire = test_server.client(json!({})).await;
    for params in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "one", "arguments": [1]}),
        json!({"name": "one", "arguments": "{}"}),
        json!({"name": "one", "_meta": 5}),
        json!([1]),
    ] {
        let answer = wire.request("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        let head = "the params of `tools/call` do not match the protocol: ";
        assert!(message.starts_with(head), "{message}");
    }
    let level = json!({"level": "loud"});
    let answer = wire.request("logging/setLevel", level).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // Before the handshake, too.
    let (mut wire, _) = test_server.connect();
    let answer = wire.request("initialize", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("missing field"), "{message}");
}

#[tokio::test]
async fn faults_unreadable_request_is_answered_with_its_id() {
    let test_server = test_server();
    let mut wire = test_server.client(json!({})).await;
    let deep = "[".repeat(200_000);
    for (line, id, code) in [
        (
            r#"{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{"name":"one","arguments":{"path":"\ud83d"}}}"#,
            json!(71),
            -32700,
        ),
        (
            r#"{"jsonrpc":"2.0","id":72,"method":"ping","#,
            json!(72),
            -32700,
        ),
        ("garbage", Value::Null, -32700),
        (deep.as_str(), Value::Null, -32700),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            Value::Null,
            -32600,
        ),
        (
            r#"{"jsonrpc":"1.0","id":73,"method":"ping"}"#,
            json!(73),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#,
            Value::Null,
            -32600,
        ),
    ] {
        wire.line(line).await;
        let answer = wire.next().await;
        let cut = line.get(..80).unwrap_or(line);
        assert_eq!(answer["error"]["code"], code, "{cut}: {answer}");
        assert_eq!(answer.get("id"), Some(&id), "{cut}: {answer}");
    }
    // A notification is never answered.
    wire.line(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}"#)
        .await;
    let pong = wire.request("ping", json!({})).await;
    assert_eq!(pong["result"], json!({}), "{:?}", wire.received);
    assert!(wire.received.is_empty(), "{:?}", wire.received);
}

#[tokio::test]
async fn faults_unreadable_answer_denies_the_call() {
    let (careful, runs) = crate::approvals::careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(json!({"elicitation": {}})).await;
    let id = wire.send("tools/call", json!({"name": "careful"})).await;
    let question = wire.next_with_method("elicitation/create").await;
    let name = &question["id"];
    wire.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{name},"result":{{"action":"accept","x":"\ud83d"}}}}"#
    ))
    .await;
    let result = wire.response_to(id).await["result"].take();
    assert_eq!(
        result["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED",
        "{result}"
    );
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn faults_silent_client_does_not_block_shutdown() {
    let test_server = test_server();
    let (wire, served) = test_server.connect();
    drop(wire);
    tokio::time::timeout(Duration::from_secs(30), served)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn faults_stop_ends_running_calls() {
    let slow = fake(|_| std::future::pending());
    let test_server = TestServer::new(vec![tool("slow", slow)]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let server = test_server.server.clone();
    let served = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        server.serve(reader, writer, stop).await
    });
    let mut wire = crate::kit::Wire::new(ours);
    wire.handshake("2025-06-18", json!({})).await;
    wire.send("tools/call", json!({"name": "slow"})).await;
    wire.request("ping", json!({})).await;
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(30), served)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(test_server.audit.codes(), ["CANCELLED"]);
}
