//! Several servers behind one address: sessions, questions, pending calls and tasks of clients whose requests arrive at
//! any of them, also when one has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use mimir_core::Tool;
use mimir_core::background_calls::BackgroundCalls;
use mimir_core::memory_state::MemoryState;
use mimir_mcp::{HttpOptions, HttpService, ReadinessCheck, ReplicaSet};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower_service::Service as _;

use crate::approvals::careful;
use crate::kit::{Network, NetworkPeer, TestServer, fake, text_result, tool};
use crate::modern::modern;
use crate::web::{Answer, LEGACY, MODERN, message, send};

/// Time limit for everything; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One of several servers.
pub struct Replica {
    pub http: HttpService,
    pub server: TestServer,
    peer: Arc<NetworkPeer>,
}

/// Servers with the same tools, and what they share.
pub struct Deployment {
    pub replicas: Vec<Replica>,
    pub network: Arc<Network>,
    state: Arc<MemoryState>,
}

const NODES: [&str; 3] = ["a", "b", "c"];

impl Deployment {
    async fn start(tools: impl Fn() -> Vec<Tool>) -> Self {
        Self::start_with(tools, None).await
    }

    /// Starts servers whose tasks become background calls, if there are any.
    pub async fn start_with(
        tools: impl Fn() -> Vec<Tool>,
        background: Option<Arc<dyn BackgroundCalls>>,
    ) -> Self {
        let network = Arc::<Network>::default();
        let state = Arc::<MemoryState>::default();
        let mut replicas = Vec::new();
        for node in NODES {
            let peer = network.join(node);
            let shared = Arc::clone(&state) as Arc<_>;
            let set = ReplicaSet::join(Arc::clone(&peer) as Arc<_>, shared);
            let set = set.await.unwrap();
            if let Some(background) = &background {
                set.keep_tasks(Arc::clone(background));
            }
            let server = TestServer::new(tools());
            let options = HttpOptions {
                replicas: Some(set),
                ..HttpOptions::default()
            };
            let http = server.server.http(options).unwrap();
            replicas.push(Replica { http, server, peer });
        }
        Self {
            replicas,
            network,
            state,
        }
    }

    pub fn http(&self, at: usize) -> &HttpService {
        &self.replicas[at].http
    }
}

/// Begins a session at a server.
async fn begin(http: &HttpService, capabilities: Value) -> String {
    let params = json!({"protocolVersion": LEGACY, "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"}});
    let answer = send(http, Method::POST, &[], message("initialize", params)).await;
    let session = answer.headers["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = in_session(http, &session, initialized.to_string()).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{}", accepted.body);
    session
}

fn of(session: &str) -> [(&str, &str); 2] {
    [
        ("mcp-session-id", session),
        ("mcp-protocol-version", LEGACY),
    ]
}

/// Sends a message in a session, and waits for the complete response.
async fn in_session(http: &HttpService, session: &str, body: String) -> Answer {
    send(http, Method::POST, &of(session), body).await
}

async fn call_in(http: &HttpService, session: &str, name: &str) -> Answer {
    let params = json!({"name": name, "arguments": {"n": 1}});
    in_session(http, session, message("tools/call", params)).await
}

fn text(answer: &Answer) -> String {
    let result = answer.message();
    let text = &result["result"]["content"][0]["text"];
    text.as_str()
        .unwrap_or_else(|| panic!("{result}"))
        .to_owned()
}

/// A response whose events are read one by one.
struct Events {
    body: BoxBody<Bytes, std::convert::Infallible>,
    text: String,
}

impl Events {
    async fn open(http: &HttpService, session: &str, method: Method, body: String) -> Self {
        let request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", LEGACY)
            .body(Full::new(Bytes::from(body)));
        let response = http.clone().call(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Self {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// Returns the next message, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let data = line.strip_prefix("data: ").map(str::to_owned);
                self.text = rest.to_owned();
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .unwrap();
            let data = frame?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

/// Returns a tool that returns the id of its session.
fn whoami() -> Tool {
    tool(
        "whoami",
        fake(|call| async move { text_result(&call.context().session_id) }),
    )
}

fn accepted(question: &Value, answer: &str) -> String {
    let result = json!({"action": "accept", "content": {"answer": answer}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}

#[tokio::test]
async fn replicas_continue_the_session_of_a_killed_one() {
    let deployment = Deployment::start(|| vec![whoami()]).await;
    let session = begin(deployment.http(0), json!({})).await;
    let first = text(&call_in(deployment.http(0), &session, "whoami").await);
    // Another replica forwards to the one that holds the session.
    assert_eq!(
        text(&call_in(deployment.http(1), &session, "whoami").await),
        first
    );
    assert_eq!(deployment.replicas[1].peer.sent.lock().len(), 1);
    assert_eq!(deployment.replicas[0].server.recorded(2).await.len(), 2);
    deployment.network.kill("a");
    for at in [1, 2, 1, 2] {
        let same = text(&call_in(deployment.http(at), &session, "whoami").await);
        assert_eq!(same, first, "the session of the pipeline is the same");
    }
    let counts = [1, 2].map(|at| deployment.replicas[at].server.audit.codes().len());
    assert!(
        counts == [4, 0] || counts == [0, 4],
        "one holds it: {counts:?}"
    );
}

#[tokio::test]
async fn replicas_reject_session_ids_that_were_changed() {
    let deployment = Deployment::start(|| vec![whoami()]).await;
    let session = begin(deployment.http(0), json!({})).await;
    let (sealed, seal) = session.rsplit_once('.').unwrap();
    let (key, payload) = sealed.split_once('.').unwrap();
    let turned: String = payload.chars().rev().collect();
    for bad in [
        format!("{key}.{turned}.{seal}"),
        format!("{key}.{payload}."),
        format!("{key}x.{payload}.{seal}"),
        format!("{session}.{seal}"),
        session.replacen('s', "c", 1),
        "x".repeat(9_000),
        "0b9d6bb6-8f5b-4a3f-9a3e-6a4f5e6a7b8c".to_owned(),
    ] {
        for at in [0, 1] {
            let refused = call_in(deployment.http(at), &bad, "whoami").await;
            assert_eq!(refused.status, StatusCode::NOT_FOUND, "{bad}");
        }
    }
}

#[tokio::test]
async fn replicas_end_a_session_everywhere() {
    let deployment = Deployment::start(|| vec![whoami()]).await;
    let session = begin(deployment.http(0), json!({})).await;
    let ended = send(
        deployment.http(1),
        Method::DELETE,
        &of(&session),
        String::new(),
    )
    .await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{}", ended.body);
    for _ in 0..2 {
        for at in 0..NODES.len() {
            let refused = call_in(deployment.http(at), &session, "whoami").await;
            assert_eq!(refused.status, StatusCode::NOT_FOUND, "at {at}");
        }
        deployment.network.kill("a");
    }
}

#[tokio::test]
async fn replicas_without_shared_state_continue_no_session() {
    let deployment = Deployment::start(|| vec![whoami()]).await;
    let session = begin(deployment.http(0), json!({})).await;
    deployment.state.set_unreachable(true);
    assert!(!text(&call_in(deployment.http(0), &session, "whoami").await).is_empty());
    deployment.network.kill("a");
    let refused = call_in(deployment.http(1), &session, "whoami").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    deployment.state.set_unreachable(false);
    assert!(!text(&call_in(deployment.http(1), &session, "whoami").await).is_empty());
}

#[tokio::test]
async fn replicas_pass_the_answer_to_the_one_that_asked() {
    let (careful, runs) = careful_everywhere();
    let deployment = Deployment::start(careful).await;
    let session = begin(deployment.http(0), json!({"elicitation": {}})).await;
    let call = message(
        "tools/call",
        json!({"name": "careful", "arguments": {"n": 1}}),
    );
    let mut events = Events::open(deployment.http(1), &session, Method::POST, call).await;
    let question = events.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    // The same number from another replica is not the answer.
    let id = question["id"].as_str().unwrap();
    let other = json!({"id": id.replace("~a", "~b")});
    for (at, wrong) in [(1, &other), (2, &other), (0, &json!({"id": 0}))] {
        let taken = in_session(deployment.http(at), &session, accepted(wrong, "once")).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED, "{}", taken.body);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let taken = in_session(deployment.http(2), &session, accepted(&question, "once")).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{}", taken.body);
    let done = events.next().await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], r#"{"n":1}"#, "{done}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replicas_ignore_the_answer_to_a_killed_one() {
    let (careful, runs) = careful_everywhere();
    let deployment = Deployment::start(careful).await;
    let session = begin(deployment.http(0), json!({"elicitation": {}})).await;
    let call = || {
        message(
            "tools/call",
            json!({"name": "careful", "arguments": {"n": 1}}),
        )
    };
    let mut old = Events::open(deployment.http(0), &session, Method::POST, call()).await;
    let old_question = old.next().await.unwrap();
    deployment.network.kill("a");
    // The session continues elsewhere, with a question of the same number.
    let mut new = Events::open(deployment.http(1), &session, Method::POST, call()).await;
    let question = new.next().await.unwrap();
    assert_ne!(question["id"], old_question["id"]);
    let taken = in_session(
        deployment.http(1),
        &session,
        accepted(&old_question, "once"),
    )
    .await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "that was not the answer");
    in_session(deployment.http(2), &session, accepted(&question, "no")).await;
    let refused = new.next().await.unwrap();
    let code = &refused["result"]["_meta"]["mimir/outcome"]["code"];
    assert_eq!(code, "APPROVAL_DENIED", "{refused}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn replicas_pass_cancellations_to_the_one_that_runs_the_call() {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let waits = move || {
        let begins = Arc::clone(&begins);
        let run = fake(move |_| {
            begins.notify_one();
            std::future::pending()
        });
        vec![tool("waits", run)]
    };
    let deployment = Deployment::start(waits).await;
    let session = begin(deployment.http(0), json!({})).await;
    let call = message("tools/call", json!({"name": "waits", "arguments": {}}));
    let events = Events::open(deployment.http(1), &session, Method::POST, call).await;
    began.notified().await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "enough"}});
    let taken = in_session(deployment.http(2), &session, cancelled.to_string()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(
        deployment.replicas[0].server.recorded(1).await,
        ["CANCELLED"]
    );
    drop(events);
}

#[tokio::test]
async fn replicas_answer_the_resumption_of_a_stream_of_a_killed_one() {
    let deployment = Deployment::start(|| vec![whoami()]).await;
    let session = begin(deployment.http(0), json!({})).await;
    let called = call_in(deployment.http(0), &session, "whoami").await;
    let last = called
        .body
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("id: "));
    let last = last.unwrap_or_else(|| panic!("{}", called.body));
    assert!(last.ends_with("~a"), "{last}");
    deployment.network.kill("a");
    call_in(deployment.http(1), &session, "whoami").await;
    let [session, version] = of(&session);
    let headers = [session, version, ("last-event-id", last)];
    let resumed = send(deployment.http(1), Method::GET, &headers, String::new());
    let resumed = tokio::time::timeout(PATIENCE, resumed).await.unwrap();
    assert_eq!(
        (resumed.status, resumed.body.as_str()),
        (StatusCode::OK, "")
    );
}

/// Returns `careful` for each server, with a common number of runs.
fn careful_everywhere() -> (impl Fn() -> Vec<Tool>, Arc<AtomicUsize>) {
    let total = Arc::<AtomicUsize>::default();
    let counts = Arc::clone(&total);
    let tools = move || {
        let counts = Arc::clone(&counts);
        let backend = fake(move |call| {
            counts.fetch_add(1, Ordering::SeqCst);
            async move { text_result(&call.arguments().to_string()) }
        });
        let mut everywhere = careful().0;
        everywhere.backend = Arc::new(backend);
        vec![everywhere]
    };
    (tools, total)
}

/// Sends a request of the protocol without sessions.
pub async fn request(
    http: &HttpService,
    method: &str,
    params: Value,
    capabilities: Value,
) -> Value {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let task = params["taskId"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    match (name.as_str(), task.as_str()) {
        ("", "") => {}
        ("", task) => headers.push(("mcp-name", task)),
        (name, _) => headers.push(("mcp-name", name)),
    }
    let body = message(method, modern(params, capabilities));
    send(http, Method::POST, &headers, body).await.message()
}

fn resumption(state: &Value, answer: &str) -> Value {
    let content = json!({"action": "accept", "content": {"answer": answer}});
    json!({"name": "careful", "arguments": {"n": 1}, "requestState": state,
        "inputResponses": {"approval": content}})
}

async fn ask(http: &HttpService) -> Value {
    let params = json!({"name": "careful", "arguments": {"n": 1}});
    let pending = request(
        http,
        "tools/call",
        params,
        json!({"elicitation": {"form": {}}}),
    )
    .await;
    assert_eq!(
        pending["result"]["resultType"], "input_required",
        "{pending}"
    );
    pending["result"]["requestState"].clone()
}

async fn resume(http: &HttpService, state: &Value, answer: &str) -> Value {
    let params = resumption(state, answer);
    request(
        http,
        "tools/call",
        params,
        json!({"elicitation": {"form": {}}}),
    )
    .await
}

#[tokio::test]
async fn replicas_resume_the_pending_call_of_another_once() {
    let (careful, runs) = careful_everywhere();
    let deployment = Deployment::start(careful).await;
    let state = ask(deployment.http(0)).await;
    // Both at once, at different replicas.
    let both = tokio::join!(
        resume(deployment.http(1), &state, "once"),
        resume(deployment.http(2), &state, "once")
    );
    let texts = [&both.0, &both.1].map(|answer| answer["result"]["content"][0]["text"].clone());
    assert!(texts.contains(&json!(r#"{"n":1}"#)), "{both:?}");
    let errors = [&both.0, &both.1].map(|answer| answer["error"]["code"].clone());
    assert!(errors.contains(&json!(-32602)), "the other one: {both:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let again = resume(deployment.http(0), &state, "once").await;
    assert_eq!(again["error"]["code"], -32602, "{again}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replicas_tell_that_the_pending_call_of_a_killed_one_did_not_run() {
    let (careful, runs) = careful_everywhere();
    let deployment = Deployment::start(careful).await;
    let state = ask(deployment.http(0)).await;
    let forged = Value::String(state.as_str().unwrap().replacen("c-", "t-", 1));
    deployment.network.kill("a");
    let lost = resume(deployment.http(1), &state, "once").await;
    let outcome = &lost["result"]["_meta"]["mimir/outcome"];
    assert_eq!(lost["result"]["isError"], true, "{lost}");
    assert_eq!(outcome["code"], "UNAVAILABLE", "{lost}");
    assert_eq!(outcome["details"]["mayHaveRun"], false, "{lost}");
    let unknown = resume(deployment.http(1), &forged, "once").await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

pub fn task_capabilities() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

pub async fn task_request(http: &HttpService, method: &str, task: &Value) -> Value {
    request(http, method, json!({ "taskId": task }), task_capabilities()).await
}

#[tokio::test]
async fn replicas_answer_for_the_tasks_of_others() {
    let end = Arc::new(Notify::new());
    let ends = Arc::clone(&end);
    let slow = move || {
        let end = Arc::clone(&ends);
        let run = fake(move |_| {
            let end = Arc::clone(&end);
            async move {
                end.notified().await;
                text_result("done")
            }
        });
        vec![tool("slow", run)]
    };
    let deployment = Deployment::start(slow).await;
    let params = || json!({"name": "slow", "arguments": {}});
    let start = || {
        request(
            deployment.http(0),
            "tools/call",
            params(),
            task_capabilities(),
        )
    };
    let (one, two, three) = (start().await, start().await, start().await);
    let tasks = [&one, &two, &three].map(|created| created["result"]["taskId"].clone());
    let cancelled = task_request(deployment.http(1), "tasks/cancel", &tasks[0]).await;
    assert!(cancelled["error"].is_null(), "{cancelled}");
    assert_eq!(
        deployment.replicas[0].server.recorded(1).await,
        ["CANCELLED"]
    );
    end.notify_one();
    deployment.replicas[0].server.recorded(2).await;
    let mut states = Vec::new();
    for task in &tasks {
        let state = task_request(deployment.http(2), "tasks/get", task).await;
        states.push(state["result"]["status"].clone());
    }
    states.sort_by_key(Value::to_string);
    assert_eq!(states, ["cancelled", "completed", "working"]);
    deployment.network.kill("a");
    let lost = task_request(deployment.http(2), "tasks/get", &tasks[1]).await;
    let outcome = &lost["result"]["result"]["_meta"]["mimir/outcome"];
    assert_eq!(lost["result"]["status"], "completed", "{lost}");
    assert_eq!(outcome["code"], "UNAVAILABLE", "{lost}");
    assert_eq!(outcome["details"]["mayHaveRun"], true, "{lost}");
    let unknown = task_request(deployment.http(2), "tasks/get", &json!("t-x.y.z")).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn replicas_reject_messages_without_the_common_key() {
    let (careful, runs) = careful_everywhere();
    let deployment = Deployment::start(careful).await;
    let session = begin(deployment.http(0), json!({})).await;
    call_in(deployment.http(1), &session, "careful").await;
    let (_, sent) = deployment.replicas[1].peer.sent.lock()[0].clone();
    let runs_before = runs.load(Ordering::SeqCst);
    for at in [0, 10, sent.len() / 2, sent.len() - 1] {
        let mut changed = sent.clone();
        changed[at] ^= 1;
        for message in [changed, sent[..at].to_vec()] {
            let head = deployment.replicas[2].peer.deliver("a", message).await;
            let head: Value = serde_json::from_slice(&head).unwrap();
            assert_eq!(head["status"], 404, "at {at}: {head}");
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), runs_before);
}

#[tokio::test]
async fn readiness_names_the_conditions_that_are_not_met() {
    let test_server = TestServer::new(vec![]);
    let reason = Arc::new(Mutex::new(None));
    let told = Arc::clone(&reason);
    let options = HttpOptions {
        token: Some("secret".into()),
        readiness: vec![ReadinessCheck::new("state", move || {
            told.lock().map_or(Ok(()), Err)
        })],
        ..HttpOptions::default()
    };
    let http = test_server.server.http(options).unwrap();
    let get = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "localhost");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = http.clone().call(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(
        get("/readyz").await,
        (StatusCode::OK, "{\"ready\":true}\n".to_owned())
    );
    *reason.lock() = Some("the shared state cannot be reached");
    let (status, body) = get("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let body: Value = serde_json::from_str(&body).unwrap();
    let expected = json!({"check": "state", "reason": "the shared state cannot be reached"});
    assert_eq!(body["reasons"], json!([expected]));
    *reason.lock() = None;
    http.begin_drain();
    let (status, body) = get("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("draining"), "{body}");
    assert_eq!(
        get("/healthz").await.0,
        StatusCode::OK,
        "the process is alive"
    );
}

#[tokio::test]
async fn trace_context_of_the_request_wins_over_the_headers() {
    let test_server = TestServer::new(vec![whoami()]);
    let http = test_server.server.http(HttpOptions::default()).unwrap();
    let trace = |span: &str| format!("00-0af7651916cd43dd8448eb211c80319c-{span}-01");
    let (header, meta) = (trace("b7ad6b7169203331"), trace("00f067aa0ba902b7"));
    for in_meta in [None, Some(meta.as_str()), Some("not a trace")] {
        let mut params = modern(json!({"name": "whoami", "arguments": {}}), json!({}));
        if let Some(meta) = in_meta {
            params["_meta"]["traceparent"] = json!(meta);
        }
        let headers = [
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "whoami"),
            ("traceparent", header.as_str()),
        ];
        send(&http, Method::POST, &headers, message("tools/call", params)).await;
    }
    test_server.recorded(3).await;
    let expected = json!([header, meta, header]);
    assert_eq!(Value::Array(test_server.audit.traces()), expected);
}
