//! Requests that were started with a token end when it expires.

use std::time::{Duration, Instant};

use super::*;

/// Time for which a token is accepted after its expiry, because clocks differ.
const LEEWAY: i64 = 30;

/// Upper bound for an end by expiry.
const SOON: Duration = Duration::from_secs(20);

/// A server whose tool never ends, and a token that expires in about four seconds.
async fn scene() -> (ProtectedServer, Provider, String) {
    let key = Key::ed();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = ProtectedServer::with(
        &provider,
        vec![tool("endless", fake(|_| std::future::pending()))],
    );
    let claims = provider.claims(&json!({"exp": at(4 - LEEWAY)}));
    let token = format!("Bearer {}", key.token("k", &claims));
    (gate, provider, token)
}

fn call(meta: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "endless", "arguments": {}, "_meta": meta}})
}

const BOTH: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
];

#[tokio::test]
async fn identity_stream_ends_with_its_token() {
    let (gate, _provider, token) = scene().await;
    let session = gate
        .handshake(token.trim_start_matches("Bearer "))
        .await
        .session;
    let session = session.unwrap();
    let of = [
        ("authorization", token.as_str()),
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        BOTH[0],
        BOTH[1],
    ];
    let since = Instant::now();
    let stream_response = gate.send("/mcp", &of, Value::Null);
    let called = gate.send("/mcp", &of, call(json!({})));
    let both = async { tokio::join!(stream_response, called) };
    let (stream_response, called) = tokio::time::timeout(SOON, both).await.unwrap();
    assert!(since.elapsed() > Duration::from_millis(500), "it was open");
    assert_eq!((stream_response.status, called.status), (200, 200));
    assert!(!called.body.contains("result"), "{}", called.body);
    // With another token it could be resumed: the call belongs to its session.
    assert!(gate.test_server.audit.codes().is_empty());
    let after = gate.send("/mcp", &of, list()).await;
    assert_eq!(after.status, 401, "{}", after.body);
}

#[tokio::test]
async fn identity_call_without_session_ends_with_its_token() {
    let (gate, _provider, token) = scene().await;
    let headers = [
        ("authorization", token.as_str()),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "endless"),
        BOTH[0],
        BOTH[1],
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let called = gate.send("/mcp", &headers, call(meta));
    let called = tokio::time::timeout(SOON, called).await.unwrap();
    assert_eq!(called.status, 401, "{}", called.body);
    assert!(called.asks.contains("invalid_token") && called.body.contains("it has expired"));
    assert_eq!(gate.test_server.recorded(1).await, ["CANCELLED"]);
}
