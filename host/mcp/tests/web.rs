//! The server over HTTP, called as a service: misbehaving clients, and limits. Sockets, host names and tokens are
//! tested with the listener of the binary.

mod sessions;
mod shutdown;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use mimir_core::Tool;
use mimir_mcp::{HttpOptions, HttpService, MetricFamily, MetricKind, MetricSample, MetricValue};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use crate::kit::{TestServer, fake, text_result, tool};

pub const MODERN: &str = "2026-07-28";
pub const LEGACY: &str = "2025-11-25";

/// A complete response.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// Returns its message, whatever the content type.
    pub fn message(&self) -> Value {
        let lines = self.body.lines();
        let mut lines = lines.map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let message = lines.find_map(|line| serde_json::from_str::<Value>(line).ok());
        message.unwrap_or_else(|| panic!("{} {}", self.status, self.body))
    }
}

/// Sends a request, and waits for the complete response.
pub async fn send(
    http: &HttpService,
    method: Method,
    headers: &[(&str, &str)],
    body: String,
) -> Answer {
    let (parts, body) = respond(http, method, headers, body).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// Sends a request, and returns the response before its body is read.
async fn respond(
    http: &HttpService,
    method: Method,
    headers: &[(&str, &str)],
    body: String,
) -> Response<BoxBody<Bytes, Infallible>> {
    let mut request = Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    http.clone().call(request).await.unwrap()
}

pub fn message(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// Calls a tool in the generation without sessions, as a client that declares this version.
async fn call(http: &HttpService, name: &str, n: u64, version: &str) -> Answer {
    let client = json!({"name": "test", "version": "1"});
    let more = json!({"arguments": {"n": n}});
    let about = json!({"clientInfo": client, "clientCapabilities": {}});
    call_as(http, name, more, version, about).await
}

/// Calls a tool as a client that describes itself so.
async fn call_as(
    http: &HttpService,
    name: &str,
    more: Value,
    version: &str,
    about: Value,
) -> Answer {
    let mut meta = json!({"io.modelcontextprotocol/protocolVersion": version});
    for (name, value) in about.as_object().unwrap() {
        meta[format!("io.modelcontextprotocol/{name}")] = value.clone();
    }
    let mut params = json!({"name": name, "_meta": meta});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let headers = [
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    send(http, Method::POST, &headers, message("tools/call", params)).await
}

/// Performs the handshake: returns the session, or an error response.
async fn handshake(http: &HttpService) -> Result<String, Answer> {
    let params = json!({"protocolVersion": LEGACY, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let answer = send(http, Method::POST, &[], message("initialize", params)).await;
    let session = answer.headers.get("mcp-session-id").cloned();
    match session {
        Some(session) => Ok(session.to_str().unwrap().to_owned()),
        None => Err(answer),
    }
}

/// Starts a session.
async fn begin(http: &HttpService) -> String {
    handshake(http).await.map_err(|answer| answer.body).unwrap()
}

/// Returns the headers of a request in a session.
fn session_headers(session: &str) -> [(&str, &str); 2] {
    [
        ("mcp-session-id", session),
        ("mcp-protocol-version", LEGACY),
    ]
}

fn busy(answer: &Answer) {
    assert_eq!(
        answer.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "{}",
        answer.body
    );
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.body.contains("too many"), "{}", answer.body);
}

/// Returns a tool that returns its number once it gets a permit.
fn waits() -> (Tool, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let passes = Arc::clone(&gate);
    let waits = fake(move |call| {
        let gate = Arc::clone(&passes);
        async move {
            let _pass = gate.acquire().await.unwrap();
            text_result(&call.arguments()["n"].to_string())
        }
    });
    (tool("waits", waits), gate)
}

fn web(tools: Vec<Tool>) -> (TestServer, HttpService) {
    let test_server = TestServer::new(tools);
    // The default limit of parallel calls of a tool would interfere: here all run at once.
    let http = test_server.server.http(HttpOptions::default()).unwrap();
    (test_server, http)
}

/// Returns the current metrics.
async fn metrics(http: &HttpService) -> String {
    let request = Request::builder()
        .uri("/metrics")
        .header("host", "localhost");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let answer = http.clone().call(request).await.unwrap();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(text.to_vec()).unwrap()
}

#[tokio::test]
async fn http_counts_denials_and_explains_invalid_calls() {
    let (careful, _) = crate::approvals::careful();
    let (_room, http) = web(vec![careful]);
    call(&http, "careful", 1, MODERN).await;
    let text = metrics(&http).await;
    let line = "mimir_denials_total{code=\"APPROVAL_DENIED\"} 1";
    assert!(text.lines().any(|other| other == line), "{text}");
    let session = begin(&http).await;
    let of = session_headers(&session);
    let wrong = message("tools/call", json!({"name": "careful", "arguments": "{}"}));
    let answer = send(&http, Method::POST, &of, wrong).await.message();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn http_requests_without_a_session_are_one_session_of_their_principal() {
    let names = fake(|call| {
        let session = text_result(&call.context().session_id);
        async move { session }
    });
    let (_room, http) = web(vec![tool("names", names)]);
    let mut sessions = Vec::new();
    // Whatever version they declare.
    for version in [MODERN, LEGACY, LEGACY] {
        let answer = call(&http, "names", 1, version).await.message();
        let text = answer["result"]["content"][0]["text"].as_str();
        sessions.push(text.unwrap_or_else(|| panic!("{answer}")).to_owned());
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
}

#[tokio::test]
async fn http_client_without_a_session_is_offered_no_answer_for_one() {
    let (careful, runs) = crate::approvals::careful();
    let (_room, http) = web(vec![careful]);
    let call = async |client: &str, more: Value| {
        let mut params = json!({"arguments": {"n": 1}});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let about = json!({
            "clientInfo": {"name": client, "version": "1"},
            "clientCapabilities": {"elicitation": {}},
        });
        let answer = call_as(&http, "careful", params, MODERN, about).await;
        answer.message()["result"].take()
    };
    let pending = call("alice", json!({})).await;
    let form = &pending["inputRequests"]["approval"]["params"]["requestedSchema"];
    let offered = json!(["once", "always", "edit", "no"]);
    assert_eq!(form["properties"]["answer"]["enum"], offered, "{pending}");
    let answer = |pending: &Value, answer: &str| {
        let form = json!({"action": "accept", "content": {"answer": answer}});
        json!({"requestState": pending["requestState"], "inputResponses": {"approval": form}})
    };
    let again = call("alice", answer(&pending, "session")).await;
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 0);
    let done = call("alice", answer(&again, "once")).await;
    assert_ne!(done["resultType"], "input_required", "{done}");
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 1);
    let other = call("bob", json!({})).await;
    assert_eq!(other["resultType"], "input_required", "{other}");
}

#[tokio::test]
async fn http_client_that_gives_no_name_has_none_on_record() {
    let (room, http) = web(vec![tool("one", fake(|_| async { text_result("done") }))]);
    for version in [MODERN, LEGACY] {
        let about = json!({"clientCapabilities": {}});
        call_as(&http, "one", json!({"arguments": {}}), version, about).await;
    }
    call(&http, "one", 1, MODERN).await;
    let calls = room.audit.calls();
    let clients: Vec<&Value> = calls.iter().map(|call| &call["client"]).collect();
    assert_eq!(clients, [&Value::Null, &Value::Null, &json!("test 1")]);
}

/// Waits until this number of calls is in progress.
async fn under_way(http: &HttpService, calls: usize) {
    let line = format!("mimir_calls_under_way {calls}");
    for _ in 0..2_000 {
        if metrics(http).await.lines().any(|other| other == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the metrics never contain `{line}`");
}

/// The limit of concurrent calls.
const CALLS: u64 = 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_call_limit_rejects_calls_beyond_it() {
    let (one, gate) = waits();
    let (test_server, http) = web(vec![one]);
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            let http = http.clone();
            tokio::spawn(async move { call(&http, "waits", n, MODERN).await })
        })
        .collect();
    under_way(&http, CALLS as usize).await;
    busy(&call(&http, "waits", CALLS, MODERN).await);
    gate.add_permits(8);
    for (n, call) in (0..CALLS).zip(calls) {
        let answer = call.await.unwrap();
        let text = &answer.message()["result"]["content"][0]["text"];
        assert_eq!(text, &n.to_string(), "{}", answer.body);
    }
    let after = call(&http, "waits", 7, MODERN).await.message();
    assert_eq!(after["result"]["content"][0]["text"], "7");
    let codes = test_server.recorded(CALLS as usize + 1).await;
    assert!(codes.iter().all(Value::is_null), "{codes:?}");
}

#[tokio::test]
async fn http_disconnect_cancels_the_call() {
    let (one, _gate) = waits();
    let (test_server, http) = web(vec![one]);
    let pending_call = {
        let http = http.clone();
        tokio::spawn(async move { call(&http, "waits", 1, MODERN).await })
    };
    under_way(&http, 1).await;
    pending_call.abort();
    assert_eq!(test_server.recorded(1).await, ["CANCELLED"]);
    under_way(&http, 0).await;

    // In a session, a broken stream may be resumed: the call ends with its session.
    let session = begin(&http).await;
    let headers = session_headers(&session);
    let params = json!({"name": "waits", "arguments": {"n": 2}});
    let pending_call = send(&http, Method::POST, &headers, message("tools/call", params));
    let pending_call = tokio::time::timeout(Duration::from_secs(1), pending_call).await;
    assert!(pending_call.is_err(), "it waits");
    under_way(&http, 1).await;
    assert_eq!(test_server.audit.codes().len(), 1, "it continues");
    let since = Instant::now();
    send(&http, Method::DELETE, &headers, String::new()).await;
    assert_eq!(test_server.recorded(2).await, ["CANCELLED", "CANCELLED"]);
    // At once, and not after an idle timeout.
    let took = since.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn http_rejects_invalid_requests_with_the_reason() {
    let quick = tool("quick", fake(|_| async { text_result("done") }));
    let (_room, http) = web(vec![quick]);
    let session = begin(&http).await;
    let of = session_headers(&session);
    let list = message("tools/list", json!({}));
    // Batches were removed from the protocol.
    for (body, code) in [
        (format!("[{list},{list}]"), -32600),
        ("[]".into(), -32600),
        ("5".into(), -32600),
        ("{\"id\":1".into(), -32700),
        (String::new(), -32700),
    ] {
        let answer = send(&http, Method::POST, &of, body.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.headers["content-type"], "application/json");
        let error = answer.message();
        assert_eq!(error["error"]["code"], code, "{body}: {error}");
        assert!(error["id"].is_null(), "{error}");
    }
    let unknown = [of[0], ("mcp-protocol-version", "1999-01-01")];
    let answer = send(&http, Method::POST, &unknown, list.clone()).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.body);
    // A client with an unsupported version gets the supported ones.
    let answer = call(&http, "quick", 1, "2099-01-01").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let error = &answer.message()["error"];
    assert_eq!(error["code"], -32022, "{error}");
    assert!(error["data"].to_string().contains(MODERN), "{error}");
    // Headers, on which intermediaries rely, must match the message.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "quick", "arguments": {}, "_meta": meta});
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "harmless"),
    ];
    let answer = send(&http, Method::POST, &headers, message("tools/call", params)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.message()["error"]["code"], -32020, "{}", answer.body);
    for method in [Method::PUT, Method::PATCH] {
        let answer = send(&http, method, &of, list.clone()).await;
        assert_eq!(
            answer.status,
            StatusCode::METHOD_NOT_ALLOWED,
            "{}",
            answer.body
        );
    }
    // None of these requests has ended the session.
    let listed = send(&http, Method::POST, &of, list).await.message();
    assert_eq!(listed["result"]["tools"][0]["name"], "quick", "{listed}");
    let done = call(&http, "quick", 1, MODERN).await.message();
    assert_eq!(done["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn http_metrics_include_those_of_other_components() {
    let test_server = TestServer::new(vec![]);
    let looks = MetricFamily {
        name: "shelf_looks_total",
        help: "Looks at the shelf.",
        kind: MetricKind::Counter,
        samples: vec![
            MetricSample::number("result", "found", 3.0),
            MetricSample::number("result", "mis\"sed", 0.5),
        ],
    };
    let depth = MetricFamily {
        name: "shelf_depth",
        help: "Depth.",
        kind: MetricKind::Histogram,
        samples: vec![MetricSample {
            labels: vec![("wood", "oak".into())],
            value: MetricValue::Histogram {
                bounds: &[0.5, 1.0],
                counts: vec![1, 0, 2],
                sum: 9.5,
            },
        }],
    };
    let extra_metrics = move || {
        vec![
            looks.clone(),
            depth.clone(),
            MetricFamily::one("shelf_books", MetricKind::Gauge, 7.0, "Books."),
        ]
    };
    let options = HttpOptions {
        extra_metrics: Some(Arc::new(extra_metrics)),
        ..HttpOptions::default()
    };
    let http = test_server.server.http(options).unwrap();
    let text = metrics(&http).await;
    let expected = "# HELP shelf_looks_total Looks at the shelf.\n# TYPE shelf_looks_total counter\nshelf_looks_total{result=\"found\"} 3\nshelf_looks_total{result=\"mis\\\"sed\"} 0.5\n# HELP shelf_depth Depth.\n# TYPE shelf_depth histogram\nshelf_depth_bucket{wood=\"oak\",le=\"0.5\"} 1\nshelf_depth_bucket{wood=\"oak\",le=\"1\"} 1\nshelf_depth_bucket{wood=\"oak\",le=\"+Inf\"} 3\nshelf_depth_sum{wood=\"oak\"} 9.5\nshelf_depth_count{wood=\"oak\"} 3\n# HELP shelf_books Books.\n# TYPE shelf_books gauge\nshelf_books 7\n";
    assert!(text.contains(expected), "{text}");
}

/// Sends a request of a web page; `headers` are added.
async fn of_page(
    http: &HttpService,
    method: Method,
    origin: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let all: Vec<_> = std::iter::once(("origin", origin))
        .chain(headers.iter().copied())
        .collect();
    let body = match method {
        Method::POST => message("ping", json!({})),
        _ => String::new(),
    };
    send(http, method, &all, body).await
}

#[tokio::test]
async fn cors_accepts_allowed_pages_only() {
    const PAGE: &str = "https://app.example";
    let test_server = TestServer::new(vec![]);
    let options = HttpOptions {
        origins: vec![PAGE.into()],
        token: Some("secret".into()),
        ..HttpOptions::default()
    };
    let http = test_server.server.http(options).unwrap();
    let asks = [
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type,mcp-param-city,x-other",
        ),
        ("access-control-request-private-network", "true"),
    ];
    // A preflight carries no token.
    let answer = of_page(&http, Method::OPTIONS, PAGE, &asks).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.body);
    let header = |answer: &Answer, name: &str| {
        let value = answer
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    };
    assert_eq!(header(&answer, "access-control-allow-origin"), PAGE);
    assert_eq!(
        header(&answer, "access-control-allow-methods"),
        "GET, POST, DELETE"
    );
    let allowed = header(&answer, "access-control-allow-headers");
    let allowed: Vec<&str> = allowed.split(", ").collect();
    for name in [
        "authorization",
        "content-type",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-param-city",
    ] {
        assert!(allowed.contains(&name), "{name}: {allowed:?}");
    }
    assert!(!allowed.contains(&"x-other"), "{allowed:?}");
    assert_eq!(
        header(&answer, "access-control-allow-private-network"),
        "true"
    );
    assert_eq!(header(&answer, "vary"), "Origin");
    assert!(
        answer
            .headers
            .get("access-control-allow-credentials")
            .is_none()
    );

    // The page can read responses, even one about a missing token.
    let bearer = [("authorization", "Bearer secret")];
    for (headers, status) in [
        (&[][..], StatusCode::UNAUTHORIZED),
        (&bearer[..], StatusCode::OK),
    ] {
        let params = json!({"protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let all: Vec<_> = headers.iter().copied().chain([("origin", PAGE)]).collect();
        let answer = send(&http, Method::POST, &all, message("initialize", params)).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(header(&answer, "access-control-allow-origin"), PAGE);
        assert!(header(&answer, "access-control-expose-headers").contains("mcp-session-id"));
        assert_eq!(header(&answer, "vary"), "Origin");
    }

    // Another page gets nothing, and neither does its preflight.
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
    ] {
        for method in [Method::OPTIONS, Method::POST] {
            let answer = of_page(&http, method, origin, &[&asks[..], &bearer].concat()).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{origin}");
            let mut names = answer.headers.keys().map(|name| name.as_str().to_owned());
            assert!(
                !names.any(|name| name.starts_with("access-control-")),
                "{origin}"
            );
        }
    }
    // Without an origin there are no CORS headers, and `OPTIONS` alone is not a preflight.
    let answer = send(&http, Method::OPTIONS, &bearer, String::new()).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(answer.headers.get("access-control-allow-origin").is_none());
}

#[tokio::test]
async fn http_session_end_returns_no_content() {
    let (_room, http) = web(vec![]);
    let session = begin(&http).await;
    let of = session_headers(&session);
    let ended = send(&http, Method::DELETE, &of, String::new()).await;
    assert_eq!(
        (ended.status, ended.body.as_str()),
        (StatusCode::NO_CONTENT, "")
    );
    let again = send(&http, Method::DELETE, &of, String::new()).await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
}

/// A body that fails with this error before its end.
struct Fails(std::io::ErrorKind);

impl http_body::Body for Fails {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        std::task::Poll::Ready(Some(Err(self.0.into())))
    }
}

#[tokio::test]
async fn http_incomplete_body_is_a_client_error() {
    let (_room, http) = web(vec![]);
    for (kind, status) in [
        (std::io::ErrorKind::TimedOut, StatusCode::REQUEST_TIMEOUT),
        (std::io::ErrorKind::UnexpectedEof, StatusCode::BAD_REQUEST),
    ] {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let request = request.body(Fails(kind)).unwrap();
        let answer = http.clone().call(request).await.unwrap();
        assert_eq!(answer.status(), status);
    }
}
