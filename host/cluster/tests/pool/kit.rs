//! Workers and servers of clients in one process, each with a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use mimir_cluster::{
    CallRunner, CallWorker, ClusterAuditSink, ClusterBackgroundCalls, ClusterConnection,
    ClusterNode, ConnectionOptions, NodeDescription, NodeRole, NodeWorkspace, PoolOptions,
    RemoteToolList, WorkerLoad, WorkerPool,
};
use mimir_core::audit::{AuditEvent, AuditSink as _, EventKind};
use mimir_core::backend::BoxFuture;
use mimir_core::call::{CallObserver, CallProgress, LogLevel, LogLine};
use mimir_core::command::CommandStream;
use mimir_core::config::AuditSettings;
use mimir_core::remote_pipeline::RemotePipeline as _;
use mimir_core::wire::OutcomeMessage;
use mimir_core::{
    ApprovalAnswer, Approver, Call, CallContext, Card, Outcome, RequestId, ToolError, ToolErrorCode,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::nats_server::NatsServer;

/// Returns a call in a session of its own.
pub fn call(tool: &str, arguments: Value) -> Call {
    Call::new(tool, arguments, CallContext::new_session(SystemTime::now()))
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(crate::PATIENCE, wait).await;
    assert!(waited.is_ok(), "{what}: not within {:?}", crate::PATIENCE);
}

async fn connect(servers: String) -> ClusterConnection {
    let options = ConnectionOptions {
        servers,
        ..ConnectionOptions::default()
    };
    ClusterConnection::connect_node(options).await.unwrap()
}

fn description(role: NodeRole, capacity: u32) -> NodeDescription {
    NodeDescription {
        role,
        host: "test".to_owned(),
        workspace: Some(NodeWorkspace {
            name: "main".to_owned(),
            facts: Default::default(),
        }),
        labels: Default::default(),
        capacity,
        tools: Some("none".to_owned()),
    }
}

/// A process that runs calls.
pub struct Worker {
    pub worker: CallWorker,
    pub node: ClusterNode,
    pub runner: Arc<FakeRunner>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Worker {
    pub async fn start(server: &NatsServer, capacity: u32) -> Self {
        Self::start_at(server.url(), capacity).await
    }

    /// Starts a worker that reaches the server under this address.
    pub async fn start_at(url: String, capacity: u32) -> Self {
        // Of its own, so that all its tasks can be ended at once.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let connection = runtime.spawn(connect(url)).await.unwrap();
        let description = description(NodeRole::Worker, capacity);
        let node = ClusterNode::start(connection.clone(), description)
            .await
            .unwrap();
        let runner = Arc::new(FakeRunner::new(node.audit_sink(AuditSettings::default())));
        let entered = runtime.enter();
        let shared = Arc::clone(&runner) as Arc<dyn CallRunner>;
        let worker = CallWorker::start(connection, node.clone(), shared, capacity);
        drop(entered);
        Self {
            worker,
            node,
            runner,
            runtime: Some(runtime),
        }
    }

    pub fn load(&self) -> WorkerLoad {
        self.worker.load()
    }

    pub async fn wait_for(&self, what: &str, condition: impl Fn(&FakeRunner) -> bool) {
        eventually(what, || condition(&self.runner)).await;
    }

    pub async fn wait_until_idle(&self) {
        eventually("the worker is idle", || self.load().calls == 0).await;
    }

    /// Ends everything of this process that others could notice, without a word.
    pub fn lose(mut self) {
        self.runner.is_lost.store(true, Ordering::Relaxed);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A process that serves clients.
pub struct Front {
    pub pool: WorkerPool,
    pub node: ClusterNode,
    pub connection: ClusterConnection,
}

impl Front {
    pub async fn start(server: &NatsServer) -> Self {
        Self::start_at(server.url()).await
    }

    /// Starts a server of clients that reaches the NATS server under this address.
    pub async fn start_at(url: String) -> Self {
        let connection = connect(url).await;
        let description = description(NodeRole::Front, 0);
        let node = ClusterNode::start(connection.clone(), description)
            .await
            .unwrap();
        let options = PoolOptions {
            workspace: "main".to_owned(),
            allow_any_content: false,
            labels: Arc::new(|_| Default::default()),
        };
        let pool = WorkerPool::start(connection.clone(), node.clone(), options)
            .await
            .unwrap();
        Self {
            pool,
            node,
            connection,
        }
    }

    /// Returns access to background calls.
    pub fn background_calls(&self) -> ClusterBackgroundCalls {
        ClusterBackgroundCalls::new(self.node.clone(), self.pool.clone())
    }
}

/// A call of a tool that asks.
pub struct AskingCall {
    pub observer: Arc<TestObserver>,
    pub request_id: RequestId,
    pub task: JoinHandle<Result<Outcome, ToolError>>,
}

impl AskingCall {
    /// Calls the tool `ask`, and waits for its question.
    pub async fn begin(front: &Front) -> Self {
        let asking = Self::begin_tool(front, "ask");
        asking.observer.wait_until_asked().await;
        asking
    }

    /// Calls a tool that asks.
    pub fn begin_tool(front: &Front, tool: &str) -> Self {
        let observer = Arc::new(TestObserver::default());
        let mut call = call(tool, json!({}));
        call.observer = Arc::clone(&observer) as Arc<_>;
        let (request_id, pool) = (call.context.request_id.clone(), front.pool.clone());
        let task = tokio::spawn(async move { pool.call(call, None).await });
        Self {
            observer,
            request_id,
            task,
        }
    }

    /// Calls the tool like [`Self::begin`]. Also returns the subject for the frames of the worker, which `client` reads from
    /// the messages to all workers.
    pub async fn begin_observed(front: &Front, client: &async_nats::Client) -> (Self, String) {
        let mut calls = client.subscribe("mimir.worker.*.call").await.unwrap();
        client.flush().await.unwrap();
        let asking = Self::begin(front).await;
        let reply = calls.next().await.unwrap().reply.unwrap();
        (asking, reply.to_string())
    }

    /// Gives the answer of the person, and returns the outcome.
    pub async fn answer(self, answer: ApprovalAnswer) -> Outcome {
        self.observer.answer(answer);
        self.task.await.unwrap().unwrap()
    }
}

/// Returns all lines of the audit log.
pub async fn read_audit(server: &NatsServer) -> Vec<Value> {
    let client = async_nats::connect(server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let stream = jetstream.get_stream("MIMIR_AUDIT").await.unwrap();
    let info = stream.get_info().await.unwrap();
    let mut lines = Vec::new();
    for sequence in info.state.first_sequence..=info.state.last_sequence {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
    }
    lines
}

/// An observer that records all reports, and whose person answers through [`Self::answer`].
pub struct TestObserver {
    pub reports: Mutex<Vec<String>>,
    asked: watch::Sender<u32>,
    answer: watch::Sender<Option<ApprovalAnswer>>,
}

impl Default for TestObserver {
    fn default() -> Self {
        Self {
            reports: Mutex::default(),
            asked: watch::Sender::new(0),
            answer: watch::Sender::new(None),
        }
    }
}

impl TestObserver {
    pub async fn wait_until_asked(&self) {
        self.asked
            .subscribe()
            .wait_for(|asked| *asked > 0)
            .await
            .unwrap();
    }

    /// Returns the number of questions so far.
    pub fn asked(&self) -> u32 {
        *self.asked.borrow()
    }

    pub fn answer(&self, answer: ApprovalAnswer) {
        self.answer.send_replace(Some(answer));
    }
}

impl CallObserver for TestObserver {
    fn progress(&self, progress: CallProgress) {
        self.reports.lock().push(progress.done.to_string());
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        let text = progress.message.unwrap_or_default();
        assert_eq!(stream == CommandStream::Stderr, text == "err");
        self.reports.lock().push(text);
    }

    fn log(&self, line: LogLine) {
        assert_eq!(line.level, LogLevel::Warn);
        self.reports.lock().push(line.text);
    }

    fn approver(&self) -> Option<&dyn Approver> {
        Some(self)
    }
}

impl Approver for TestObserver {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            assert_eq!(card.tool, "ask");
            self.asked.send_modify(|asked| *asked += 1);
            let mut answers = self.answer.subscribe();
            let answer = answers.wait_for(Option::is_some).await.unwrap();
            answer.clone().unwrap()
        })
    }
}

/// Runs calls like a pipeline would: announces those that write, and records all outcomes.
pub struct FakeRunner {
    audit: ClusterAuditSink,
    gate: watch::Sender<bool>,
    /// Number of runs, of runs of `write` that passed the gate, and of runs that were dropped.
    pub runs: AtomicU32,
    pub writes: AtomicU32,
    pub dropped: AtomicU32,
    /// Number of reports of runs of `flood`.
    pub reports: AtomicU32,
    /// True if nothing is recorded any more.
    is_lost: AtomicBool,
}

/// Records a run that is dropped before its end, and counts it.
struct DropRecorder<'a> {
    runner: &'a FakeRunner,
    event: Option<AuditEvent>,
}

impl Drop for DropRecorder<'_> {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.ok = false;
            event.code = Some(ToolErrorCode::Cancelled);
            self.runner.dropped.fetch_add(1, Ordering::Relaxed);
            if !self.runner.is_lost.load(Ordering::Relaxed) {
                // The line is handed to the log before the future is returned.
                drop(self.runner.audit.record_with_others(&event));
            }
        }
    }
}

impl FakeRunner {
    fn new(audit: ClusterAuditSink) -> Self {
        Self {
            audit,
            gate: watch::Sender::new(false),
            runs: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            dropped: AtomicU32::new(0),
            reports: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
        }
    }

    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    async fn pass_gate(&self) {
        self.gate.subscribe().wait_for(|open| *open).await.unwrap();
    }

    fn text(text: &str) -> Value {
        json!({"output": {"content": [{"type": "text", "text": text}]}})
    }

    async fn ask(call: &Call) -> Value {
        match call.observer.approver() {
            Some(approver) => {
                let answer = approver.ask(&card()).await;
                Self::text(answer.as_str())
            }
            None => Self::text("cannot ask"),
        }
    }

    async fn execute(&self, call: &Call, role: Option<&str>) -> Value {
        let observer = &call.observer;
        match call.tool.as_str() {
            "echo" | "noted" => Self::text(call.arguments["text"].as_str().unwrap_or_default()),
            "fail" => {
                let mut error = ToolError::new(ToolErrorCode::InvalidPath, "outside");
                error = error.with_details(json!({"path": "../x", "role": role}));
                let error = error.with_remedies(["choose another path".to_owned()]);
                let message = OutcomeMessage::failed(error);
                serde_json::to_value(message).unwrap()
            }
            "report" => {
                let progress = |done, message: Option<&str>| CallProgress {
                    done,
                    total: None,
                    message: message.map(str::to_owned),
                };
                (0..200).for_each(|number| observer.progress(progress(number, None)));
                observer.output(CommandStream::Stdout, progress(1, Some("out")));
                observer.output(CommandStream::Stderr, progress(1, Some("err")));
                observer.log(LogLine {
                    level: LogLevel::Warn,
                    text: "log".to_owned(),
                });
                Self::text("reported")
            }
            "ask" => Self::ask(call).await,
            "askLater" => {
                self.pass_gate().await;
                Self::ask(call).await
            }
            "flood" => loop {
                let done = self.reports.fetch_add(1, Ordering::Relaxed).into();
                observer.progress(CallProgress {
                    done,
                    total: None,
                    message: None,
                });
                tokio::task::yield_now().await;
            },
            "long" => {
                self.pass_gate().await;
                Self::text(&"x".repeat(3 << 20))
            }
            "hang" => std::future::pending().await,
            "gate" | "write" => {
                self.pass_gate().await;
                Self::text("passed")
            }
            other => panic!("unknown tool {other}"),
        }
    }
}

fn card() -> Card {
    let card = json!({
        "fingerprint": "00", "tool": "ask", "source": "built-in", "location": "built-in", "digest": "00",
        "arguments": "{}", "summary": "asks", "risk": "low", "risks": [], "grants": [], "reasons": [],
        "editable": false,
    });
    serde_json::from_value(card).unwrap()
}

impl CallRunner for FakeRunner {
    fn run<'a>(&'a self, call: Call, role: Option<&'a str>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut event = AuditEvent::new(EventKind::Call, SystemTime::now());
            event.id = call.context.request_id.to_string();
            event.tool = call.tool.clone();
            if call.tool == "write" {
                self.audit.announce(&event).await.unwrap();
            }
            self.runs.fetch_add(1, Ordering::Relaxed);
            let mut drops = DropRecorder {
                runner: self,
                event: Some(event.clone()),
            };
            let mut message = self.execute(&call, role).await;
            drops.event = None;
            if call.tool == "write" {
                self.writes.fetch_add(1, Ordering::Relaxed);
            }
            let members = message.as_object_mut().unwrap();
            for (key, value) in [
                (
                    "label",
                    json!({"trust": "system", "dataClass": "public", "origin": "test"}),
                ),
                ("source", json!("other")),
                (
                    "receipt",
                    json!({"durationMs": 0.0, "bytesIn": 0, "bytesOut": 0, "tokens": 0}),
                ),
            ] {
                members.entry(key).or_insert(value);
            }
            // Without a record, so that only the way to the worker is measured.
            let recorded = match call.tool.as_str() {
                "echo" => Ok(()),
                _ => self.audit.record_with_others(&event).await,
            };
            let message = match recorded {
                Ok(()) => serde_json::from_value(message).unwrap(),
                Err(error) => OutcomeMessage::failed(ToolError::unavailable(error)),
            };
            message.into()
        })
    }

    fn end_session(&self, _: &str) {}

    fn catalogue(&self) -> RemoteToolList {
        RemoteToolList {
            digest: "none".to_owned(),
            tools: Vec::new(),
        }
    }
}
