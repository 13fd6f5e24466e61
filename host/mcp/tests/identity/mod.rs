//! The server behind an identity provider: accepted and rejected tokens.

mod expiry;
mod login_kit;
mod logins;
mod provider;
mod roles;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use mimir_core::Tool;
use mimir_mcp::{HttpOptions, HttpService, IdentityOptions};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::approvals::careful;
use crate::kit::{TestServer, fake, text_result, tool};
use crate::logins::reach;
use provider::{Key, Provider, at, hmac, unsigned};

/// Resource of the tokens.
pub const RESOURCE: &str = "https://tools.example/team/mcp";

/// Returns the messages in a body, which may be a stream of events.
fn event_messages(body: &str) -> impl DoubleEndedIterator<Item = Value> {
    let lines = body
        .lines()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line));
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// A response.
struct ReceivedResponse {
    status: u16,
    asks: String,
    session: Option<String>,
    body: String,
}

impl ReceivedResponse {
    async fn of<B>(answer: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let header = |name: &str| {
            let value = answer.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let (asks, session) = (header("www-authenticate"), header("mcp-session-id"));
        Self {
            status: answer.status().as_u16(),
            asks: asks.unwrap_or_default(),
            session,
            body: String::from_utf8(
                answer
                    .into_body()
                    .collect()
                    .await
                    .unwrap()
                    .to_bytes()
                    .into(),
            )
            .unwrap(),
        }
    }
}

/// A server behind the test's identity provider.
struct ProtectedServer {
    http: HttpService,
    test_server: TestServer,
}

impl ProtectedServer {
    fn before(provider: &Provider) -> Self {
        let (careful, _) = careful();
        let tools = vec![tool("go", fake(|_| async { text_result("done") })), careful];
        Self::with(provider, tools)
    }

    fn with(provider: &Provider, tools: Vec<Tool>) -> Self {
        let test_server = TestServer::new(tools);
        let identity = IdentityOptions {
            issuer: provider.site.url.clone(),
            resource: RESOURCE.to_owned(),
            audiences: Vec::new(),
            scopes: vec!["mimir".to_owned()],
            client_id: None,
            client_secret: None,
            groups_claim: "groups".to_owned(),
            clients: Arc::new(reach),
        };
        let options = HttpOptions {
            identity: Some(identity),
            ..HttpOptions::default()
        };
        let http = test_server.server.http(options).unwrap();
        Self { http, test_server }
    }

    /// Posts a message of a client that has no session. Returns the body of the response.
    async fn post_modern(&self, token: &str, capabilities: Value, mut message: Value) -> String {
        message["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let token = format!("Bearer {token}");
        let mut headers = vec![
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", message["method"].as_str().unwrap()),
        ];
        if let Some(name) = message["params"]["name"].as_str() {
            headers.push(("mcp-name", name));
        }
        self.send("/mcp", &headers, message.clone()).await.body
    }

    async fn send(&self, path: &str, headers: &[(&str, &str)], body: Value) -> ReceivedResponse {
        let mut request = Request::builder().uri(path).header("host", "tools.example");
        request = match body {
            Value::Null => request.method("GET"),
            _ => request.method("POST"),
        };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        ReceivedResponse::of(self.http.clone().call(request).await.unwrap()).await
    }

    /// Sends a message with this token, in this session if there is one.
    async fn post(&self, token: &str, session: Option<&str>, message: Value) -> ReceivedResponse {
        let token = format!("Bearer {token}");
        let mut headers = vec![
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.send("/mcp", &headers, message).await
    }

    async fn handshake(&self, token: &str) -> ReceivedResponse {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        self.post(token, None, hello).await
    }
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
}

#[tokio::test]
async fn identity_accepts_tokens_of_each_algorithm() {
    for key in [Key::rsa(), Key::ec(), Key::ed()] {
        let provider = Provider::new(vec![key.jwk("k")]).await;
        let gate = ProtectedServer::before(&provider);
        let token = key.token("k", &provider.claims(&json!({})));
        let got = gate.handshake(&token).await;
        assert_eq!(got.status, 200, "{} {}", key.algorithm(), got.body);
        let session = got.session.unwrap();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        gate.post(&token, Some(&session), ready).await;
        let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "go", "arguments": {}}});
        let got = gate.post(&token, Some(&session), call).await;
        assert!(got.body.contains("done"), "{}", got.body);
        assert_eq!(gate.test_server.audit.users(), ["alice"]);
        // Scopes in another claim, an audience among others, clocks that differ, and a key without an id.
        for over in [
            json!({"scope": null, "scp": ["x", "mimir"]}),
            json!({"scope": null, "scp": "mimir"}),
            json!({"aud": ["https://other.example", RESOURCE]}),
            json!({"exp": at(-10), "nbf": at(10)}),
        ] {
            let token = key.token("k", &provider.claims(&over));
            assert_eq!(gate.handshake(&token).await.status, 200, "{over}");
        }
    }
}

#[tokio::test]
async fn identity_metadata_names_the_provider() {
    let provider = Provider::new(vec![Key::ec().jwk("k")]).await;
    let gate = ProtectedServer::before(&provider);
    let got = gate.send("/mcp", &[], list()).await;
    assert_eq!(got.status, 401);
    let place = "https://tools.example/.well-known/oauth-protected-resource/team/mcp";
    assert_eq!(
        got.asks,
        format!("Bearer resource_metadata=\"{place}\", scope=\"mimir\"")
    );
    for path in ["", "/team/mcp", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let got = gate.send(&path, &[], Value::Null).await;
        assert_eq!(got.status, 200, "{path}");
        let about: Value = serde_json::from_str(&got.body).unwrap();
        assert_eq!(about["resource"], RESOURCE);
        assert_eq!(about["authorization_servers"], json!([provider.site.url]));
        assert_eq!(about["scopes_supported"], json!(["mimir"]));
    }
    let other = "/.well-known/oauth-protected-resource/else";
    assert_eq!(gate.send(other, &[], Value::Null).await.status, 401);
    // Requests without a token do not cause requests for keys.
    assert_eq!(provider.site.all(), "[]");
}

#[tokio::test]
async fn identity_rejects_invalid_tokens() {
    let (key, other) = (Key::rsa(), Key::ec());
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = ProtectedServer::before(&provider);
    let claims = |over: Value| provider.claims(&over);
    let whole = key.token("k", &claims(json!({})));
    let mut parts = whole.split('.');
    let (head, body, signature) = (parts.next(), parts.next(), parts.next());
    let (head, body, signature) = (head.unwrap(), body.unwrap(), signature.unwrap());
    let none = unsigned(&json!({"alg": "none", "kid": "k"}), &claims(json!({})));
    let crit = unsigned(
        &json!({"alg": "RS256", "kid": "k", "crit": ["x"], "x": 1}),
        &claims(json!({})),
    );
    let forged = unsigned(
        &json!({"alg": "RS256", "kid": "k"}),
        &claims(json!({"sub": "root"})),
    );
    let public = key.jwk("k").to_string();
    for (what, token) in [
        ("ended", key.token("k", &claims(json!({"exp": at(-60)})))),
        ("early", key.token("k", &claims(json!({"nbf": at(60)})))),
        ("no end", key.token("k", &claims(json!({"exp": null})))),
        (
            "an expiry that is a string",
            key.token("k", &claims(json!({"exp": "9999999999"}))),
        ),
        (
            "a start that is a string",
            key.token("k", &claims(json!({"nbf": "x"}))),
        ),
        (
            "other audience",
            key.token("k", &claims(json!({"aud": "https://other.example"}))),
        ),
        ("no audience", key.token("k", &claims(json!({"aud": null})))),
        (
            "part of the audience",
            key.token("k", &claims(json!({"aud": "https://tools.example"}))),
        ),
        (
            "other issuer",
            key.token("k", &claims(json!({"iss": "https://evil.example"}))),
        ),
        (
            "two issuers",
            key.token("k", &claims(json!({"iss": [provider.site.url, "x"]}))),
        ),
        ("no issuer", key.token("k", &claims(json!({"iss": null})))),
        ("no subject", key.token("k", &claims(json!({"sub": null})))),
        ("empty subject", key.token("k", &claims(json!({"sub": ""})))),
        (
            "an ID token, by its nonce",
            key.token("k", &claims(json!({"nonce": "n"}))),
        ),
        (
            "an ID token, by its hash",
            key.token("k", &claims(json!({"at_hash": "h"}))),
        ),
        (
            "an event",
            key.token("k", &claims(json!({"events": {"x": {}}}))),
        ),
        (
            "another kind",
            key.token_as("logout+jwt", "k", &claims(json!({}))),
        ),
        ("none", format!("{none}.")),
        (
            "algorithm none with a signature",
            format!("{none}.{signature}"),
        ),
        (
            "a secret that is the public key",
            hmac(&key.public(), "k", &claims(json!({}))),
        ),
        (
            "the same as text",
            hmac(public.as_bytes(), "k", &claims(json!({}))),
        ),
        ("an unknown critical header", format!("{crit}.{signature}")),
        ("another body", format!("{forged}.{signature}")),
        ("no signature", format!("{head}.{body}.")),
        ("two parts", format!("{head}.{body}")),
        (
            "another key of that name",
            other.token("k", &claims(json!({}))),
        ),
        ("nonsense", "x".to_owned()),
        ("too long", "x".repeat(20_000)),
    ] {
        let got = gate.handshake(&token).await;
        assert_eq!(got.status, 401, "{what}: {}", got.body);
        assert!(
            got.asks.contains("error=\"invalid_token\""),
            "{what}: {}",
            got.asks
        );
        assert!(got.asks.contains("resource_metadata=\""), "{what}");
        assert!(!got.body.contains(signature), "{what}");
    }
    assert_eq!(gate.handshake(&whole).await.status, 200);
    let few = key.token("k", &claims(json!({"scope": "mimirs other"})));
    let got = gate.handshake(&few).await;
    assert_eq!(got.status, 403);
    assert!(got.asks.contains("insufficient_scope") && got.asks.contains("scope=\"mimir\""));
    for (name, value) in [("authorization", "Basic eDp5"), ("x-token", &whole)] {
        assert_eq!(
            gate.send("/mcp", &[(name, value)], list()).await.status,
            401
        );
    }
    let twice = [format!("Bearer {whole}"), format!("Bearer {whole}")];
    let twice = twice
        .each_ref()
        .map(|value| ("authorization", value.as_str()));
    assert_eq!(gate.send("/mcp", &twice, list()).await.status, 401);
    assert_eq!(gate.send("/metrics", &[], Value::Null).await.status, 401);
    assert_eq!(gate.send("/healthz", &[], Value::Null).await.status, 200);
}

#[tokio::test]
async fn identity_session_belongs_to_the_subject() {
    let key = Key::ed();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = ProtectedServer::before(&provider);
    let token = |sub: &str, more: i64| {
        key.token("k", &provider.claims(&json!({"sub": sub, "exp": at(more)})))
    };
    let got = gate.handshake(&token("alice", 60)).await;
    let session = got.session.unwrap();
    // A renewed token of the same subject.
    let got = gate.post(&token("alice", 90), Some(&session), list()).await;
    assert_eq!(got.status, 200, "{}", got.body);
    for other in ["bob", "Alice", "alice "] {
        let got = gate.post(&token(other, 60), Some(&session), list()).await;
        assert_eq!(got.status, 404, "{other}");
    }
}

#[tokio::test]
async fn identity_user_cannot_answer_always() {
    let key = Key::ec();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = ProtectedServer::before(&provider);
    let token = key.token("k", &provider.claims(&json!({})));
    let call = async |more: Value| {
        let mut params = json!({"name": "careful", "arguments": {"n": 1}});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let capabilities = json!({"elicitation": {"form": {}}});
        let body = gate.post_modern(&token, capabilities, message).await;
        let mut found = event_messages(&body).filter(|message| message["id"] == 1);
        found.next_back().unwrap_or_else(|| panic!("{body}"))["result"].take()
    };
    let pending = call(json!({})).await;
    let form = &pending["inputRequests"]["approval"]["params"]["requestedSchema"];
    let answers = json!(["once", "session", "edit", "no"]);
    assert_eq!(form["properties"]["answer"]["enum"], answers, "{pending}");
    let always = json!({"action": "accept", "content": {"answer": "always"}});
    let approved = call(
        json!({"requestState": pending["requestState"], "inputResponses": {"approval": always}}),
    );
    let approved = approved.await;
    assert_eq!(approved["resultType"], "input_required", "{approved}");
}

#[tokio::test]
async fn identity_keys_are_not_fetched_per_unknown_id() {
    let (key, next) = (Key::ec(), Key::ec());
    let provider = Provider::new(vec![key.jwk("one")]).await;
    let gate = Arc::new(ProtectedServer::before(&provider));
    let good = key.token("one", &provider.claims(&json!({})));
    assert_eq!(gate.handshake(&good).await.status, 200);
    let key_requests = || provider.site.requests_to("/keys").len();
    assert_eq!(key_requests(), 1);
    let made_up = (0..200).map(|at| {
        let token = next.token(&format!("two-{at}"), &provider.claims(&json!({})));
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.handshake(&token).await.status })
    });
    for status in made_up.collect::<Vec<_>>() {
        assert_eq!(status.await.unwrap(), 401);
    }
    assert!(key_requests() <= 2, "{}", key_requests());
    assert_eq!(gate.handshake(&good).await.status, 200);
    // Without a key id, the only key is used.
    let message = unsigned(&json!({"alg": "ES256"}), &json!({}));
    assert_eq!(gate.handshake(&format!("{message}.AA")).await.status, 401);
}

#[tokio::test]
async fn identity_key_fetch_survives_a_disconnect() {
    let key = Key::ec();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    let gate = Arc::new(ProtectedServer::before(&provider));
    let stranger = Key::ec().token("x", &provider.claims(&json!({})));
    let first = {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.handshake(&stranger).await.status })
    };
    while provider.site.requests_to("/").is_empty() {
        tokio::task::yield_now().await;
    }
    first.abort();
    let token = key.token("k", &provider.claims(&json!({})));
    assert_eq!(gate.handshake(&token).await.status, 200);
}

#[tokio::test]
async fn identity_rejects_all_tokens_without_keys() {
    let key = Key::ec();
    let provider = Provider::new(vec![key.jwk("k")]).await;
    *provider.keys.lock() = None;
    let gate = ProtectedServer::before(&provider);
    let token = key.token("k", &provider.claims(&json!({})));
    for _ in 0..3 {
        let got = gate.handshake(&token).await;
        assert_eq!((got.status, got.session), (503, None), "{}", got.body);
    }
    // A provider that is down is not contacted for each request.
    assert!(provider.site.requests_to("/").len() <= 4);
    // Keys of other kinds, or for another use, verify nothing.
    for twist in [
        json!({"use": "enc"}),
        json!({"alg": "ES384"}),
        json!({"kty": "oct", "k": "AAAA"}),
        json!({"crv": "P-384"}),
    ] {
        let mut jwk = key.jwk("k");
        for (name, value) in twist.as_object().unwrap() {
            jwk[name] = value.clone();
        }
        let provider = Provider::new(vec![json!({"kty": "later"}), jwk]).await;
        let gate = ProtectedServer::before(&provider);
        let token = key.token("k", &provider.claims(&json!({})));
        assert_eq!(gate.handshake(&token).await.status, 401, "{twist}");
    }
}

#[tokio::test]
async fn identity_rejects_invalid_settings() {
    let test_server = TestServer::new(Vec::new());
    for (issuer, resource) in [
        ("http://login.example", RESOURCE),
        ("login.example", RESOURCE),
        ("https://login.example", "tools"),
        ("https://login.example", "https://tools.example/#x"),
    ] {
        let identity = IdentityOptions {
            issuer: issuer.to_owned(),
            resource: resource.to_owned(),
            audiences: Vec::new(),
            scopes: Vec::new(),
            client_id: None,
            client_secret: None,
            groups_claim: String::new(),
            clients: Arc::new(reach),
        };
        let options = HttpOptions {
            identity: Some(identity),
            ..HttpOptions::default()
        };
        let error = test_server.server.http(options).err();
        assert!(error.is_some(), "{issuer} {resource}");
    }
}
