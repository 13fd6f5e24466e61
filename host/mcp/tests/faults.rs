//! What breaks the protocol breaks no server.

use std::time::Duration;

use serde_json::json;

use crate::kit::{Room, fake, said, tool};

fn room() -> Room {
    Room::new(vec![tool("one", fake(|_| async { said("done") }))])
}

#[tokio::test]
async fn garbage_ends_nothing_before_the_handshake_or_after() {
    let room = room();
    let (mut wire, _) = room.connect();
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
    wire.hello("2025-06-18", json!({})).await;
    for line in garbage {
        wire.line(line).await;
    }
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
    // What is JSON and no message is a fault of whoever sent it, and says so without a name.
    let answers = wire
        .heard
        .iter()
        .filter(|message| message["error"]["code"] == -32600);
    assert!(answers.count() > 0, "{:?}", wire.heard);
}

#[tokio::test]
async fn a_request_without_a_handshake_is_answered_with_what_is_missing() {
    let room = room();
    let (mut wire, _) = room.connect();
    let early = wire.request("tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32602, "{early}");
    wire.notify("notifications/initialized", json!({})).await;
    wire.hello("2025-06-18", json!({})).await;
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn a_message_that_is_too_long_is_left_out_and_the_next_one_heard() {
    let room = room();
    let mut wire = room.client(json!({})).await;
    // In parts: no client holds it all either.
    let part = "x".repeat(1 << 20);
    for _ in 0..17 {
        wire.part(&part).await;
    }
    wire.line("").await;
    assert_eq!(
        wire.call("one", json!({})).await["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn a_wrong_call_is_a_fault_of_the_request() {
    let room = room();
    let mut wire = room.client(json!({})).await;
    for params in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "one", "arguments": [1]}),
    ] {
        let answer = wire.request("tools/call", params.clone()).await;
        assert!(answer["error"].is_object(), "{params}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_never_says_anything_is_not_waited_for() {
    let room = room();
    let (wire, served) = room.connect();
    drop(wire);
    tokio::time::timeout(Duration::from_secs(5), served)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn who_is_asked_to_stop_stops_what_runs() {
    let slow = fake(|_| std::future::pending());
    let room = Room::new(vec![tool("slow", slow)]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let server = room.server.clone();
    let served = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        server.serve(reader, writer, stop).await
    });
    let mut wire = crate::kit::Wire::new(ours);
    wire.hello("2025-06-18", json!({})).await;
    wire.send("tools/call", json!({"name": "slow"})).await;
    wire.request("ping", json!({})).await;
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(3), served)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(room.audit.codes(), ["CANCELLED"]);
}
