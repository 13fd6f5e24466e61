//! Servers behind mimir, well-behaved and misbehaving. Each is a task of the test at the other end of a pipe, in place
//! of a program.

mod cached_results;
mod client_requests;
mod faults;
mod library;
mod lifecycle;
mod notifications;
mod pins;
mod remote_tasks;
mod requests;
mod startup;
mod stores;

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mimir_core::backend::BoxFuture;
use mimir_core::config::Config;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher, ProgramHandle};
use mimir_core::{Outcome, Tool, ToolError};
use mimir_mcp::client::{McpServers, ServerDeps, ServerObserver};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::kit::TestServer;
use stores::OneSecretVault;
pub use stores::{MemoryDescriptions, Recorder};

/// Reaction of a server to a tool call.
#[derive(Debug, Clone)]
pub enum CallReaction {
    /// Returns this result.
    Answers(Value),
    /// Returns this error.
    Fails(Value),
    /// Returns this error, or this result with an error, or the state of a new task if the call has a `task`.
    TaskOnly(Value),
    /// Never responds.
    Nothing,
    /// Responds after a delay.
    Late(Duration),
    /// Responds twice.
    Twice,
    /// Sends this number of notifications, then responds.
    Floods(usize),
    /// Sends requests without end, and reads no response.
    Demands(&'static str),
    /// Exits.
    Crashes,
    /// Returns a text of this number of bytes.
    Huge(usize),
    /// Reports progress this many times, the last time right before the response.
    Reports(usize),
    /// Sends this request with these params this many times, and returns all the responses.
    Asks(&'static str, Value, usize),
    /// Returns these results, one after the other.
    Rounds(Vec<Value>),
    /// Writes invalid lines, then responds.
    Prints,
    /// Writes this text, with `ID` replaced by the call's id.
    Raw(String),
}

/// A scripted server.
#[derive(Clone)]
pub struct Script {
    pub tools: Arc<Mutex<Vec<Value>>>,
    pub reaction: CallReaction,
    /// Exits before it has sent anything.
    pub exits_at_start: Arc<AtomicBool>,
    /// Its stderr output before such an exit.
    pub exit_stderr: Arc<Mutex<String>>,
    /// Delay of the tool list.
    pub slow_list: Arc<Mutex<Duration>>,
    /// Size in bytes of each page of tools, if it always has one more page.
    pub pages: usize,
    /// Delay of the handshake response.
    pub slow_start: Duration,
    /// Delay between the arrival of a message and the return of mimir's call that wrote it.
    pub slow_flush: Duration,
    /// Continues to run when its input is closed, and when it is asked to terminate.
    pub stubborn: bool,
    /// Received messages.
    pub received: Arc<Mutex<Vec<Value>>>,
    /// Number of starts, and number of kills.
    pub started: Arc<AtomicUsize>,
    pub killed: Arc<AtomicUsize>,
    pub ended: Arc<AtomicUsize>,
    /// Launch parameters of the last start.
    pub launch: Arc<Mutex<Option<LaunchSpec>>>,
    /// Makes it send `notification`, by default a notification of changed tools.
    pub notify: Arc<Notify>,
    pub notification: Arc<Mutex<Value>>,
    /// Additional capabilities, and responses to other requests.
    pub capabilities: Value,
    pub responses: Arc<Mutex<HashMap<&'static str, Value>>>,
    /// Uses the protocol without a handshake.
    pub modern: bool,
    /// Does not support `server/discover`.
    pub legacy: bool,
    /// Protocol version that it declares, whatever was requested.
    pub protocol_version: Option<Value>,
}

/// Returns a tool as a server lists it.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("the tool {name}"), "inputSchema": {"type": "object"}})
}

/// Returns a result with one text.
pub fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

impl Script {
    pub fn new(reaction: CallReaction) -> Self {
        Self {
            tools: Arc::new(Mutex::new(vec![tool("go")])),
            reaction,
            exits_at_start: Arc::default(),
            exit_stderr: Arc::new(Mutex::new("no such module: \x1b[31mleft-pad\n".to_owned())),
            slow_list: Arc::default(),
            pages: 0,
            slow_start: Duration::ZERO,
            slow_flush: Duration::ZERO,
            stubborn: false,
            received: Arc::default(),
            started: Arc::default(),
            killed: Arc::default(),
            ended: Arc::default(),
            launch: Arc::default(),
            notify: Arc::default(),
            notification: Arc::new(Mutex::new(
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            )),
            capabilities: json!({}),
            responses: Arc::default(),
            modern: false,
            legacy: false,
            protocol_version: None,
        }
    }

    pub fn received(&self, method: &str) -> Vec<Value> {
        let received = self.received.lock();
        received
            .iter()
            .filter(|one| one["method"] == method)
            .cloned()
            .collect()
    }

    /// Waits until at least this number of messages of a method has been received. Returns them.
    pub async fn wait_for_received(&self, method: &str, count: usize) -> Vec<Value> {
        for _ in 0..3000 {
            let received = self.received(method);
            if received.len() >= count {
                return received;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", self.received.lock());
    }

    async fn serve(self, from: DuplexStream, mut to: DuplexStream, mut err: DuplexStream) {
        if self.exits_at_start.load(Ordering::SeqCst) {
            let words = self.exit_stderr.lock().clone();
            let _ = err.write_all(words.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            return;
        }
        let mut lines = BufReader::new(from).lines();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = self.notify.notified() => {
                    let notification = self.notification.lock().clone();
                    send(&mut to, &notification).await;
                    continue;
                }
            };
            let Ok(Some(line)) = line else { break };
            let message: Value = serde_json::from_str(&line).unwrap();
            self.received.lock().push(message.clone());
            let id = message["id"].clone();
            let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
            match message["method"].as_str() {
                Some("initialize") if self.modern => {
                    let error = json!({"code": -32601, "message": "no handshakes"});
                    send(
                        &mut to,
                        &json!({"jsonrpc": "2.0", "id": id, "error": error}),
                    )
                    .await;
                }
                Some("server/discover") if self.legacy => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    send(&mut to, &refusal).await;
                }
                Some("server/discover") => {
                    let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                        "capabilities": self.capabilities(), "ttlMs": 0, "cacheScope": "private"});
                    send(&mut to, &answer(result)).await;
                }
                Some("initialize") => {
                    tokio::time::sleep(self.slow_start).await;
                    let result = json!({
                        "protocolVersion": match &self.protocol_version {
                            Some(version) => version.clone(),
                            None => message["params"]["protocolVersion"].clone(),
                        },
                        "capabilities": self.capabilities(),
                        "serverInfo": {"name": "script", "version": "1.2.3"},
                    });
                    send(&mut to, &answer(result)).await;
                }
                Some("tools/list") => {
                    let slow = *self.slow_list.lock();
                    tokio::time::sleep(slow).await;
                    let tools = self.tools.lock().clone();
                    let mut result = json!({ "tools": tools });
                    if self.pages > 0 {
                        let at = self.received("tools/list").len();
                        result["tools"][0]["name"] = json!(format!("go{at}"));
                        result["tools"][0]["_meta"] = json!("x".repeat(self.pages));
                        result["nextCursor"] = json!("on");
                    }
                    send(&mut to, &answer(result)).await;
                }
                Some("tools/call") => {
                    let ended = self.call(&message, &mut to, &mut lines).await;
                    if ended {
                        return;
                    }
                }
                Some(method) => {
                    let responses = self.responses.lock().get(method).cloned();
                    if let Some(result) = responses {
                        send(&mut to, &answer(result)).await;
                    }
                }
                None => {}
            }
        }
        if self.stubborn {
            std::future::pending::<()>().await;
        }
    }

    fn capabilities(&self) -> Value {
        let mut all = json!({"tools": {"listChanged": !self.modern}});
        for (key, value) in self.capabilities.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    }

    /// Handles a call. Returns true if the server ends with it.
    async fn call(
        &self,
        message: &Value,
        to: &mut DuplexStream,
        lines: &mut tokio::io::Lines<BufReader<DuplexStream>>,
    ) -> bool {
        let id = message["id"].clone();
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match &self.reaction {
            CallReaction::Answers(result) => send(to, &answer(result.clone())).await,
            CallReaction::Fails(error) => {
                send(to, &json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            CallReaction::TaskOnly(error) => {
                let reply = if message["params"]["task"].is_object() {
                    answer(
                        json!({"task": {"taskId": "t1", "status": "working", "ttl": 60_000,
                        "createdAt": "2026-11-29T00:00:00Z", "lastUpdatedAt": "2026-11-29T00:00:00Z"}}),
                    )
                } else if error["isError"] == true {
                    answer(error.clone())
                } else {
                    json!({"jsonrpc": "2.0", "id": id, "error": error})
                };
                send(to, &reply).await;
            }
            CallReaction::Nothing => {}
            CallReaction::Late(after) => {
                tokio::time::sleep(*after).await;
                send(to, &answer(text("late"))).await;
            }
            CallReaction::Twice => {
                send(to, &answer(text("first"))).await;
                send(to, &answer(text("second"))).await;
            }
            CallReaction::Floods(count) => {
                for at in 0..*count {
                    let log = json!({"level": "info", "data": format!("line {at}")});
                    let note =
                        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log});
                    send(to, &note).await;
                }
                send(to, &answer(text("after the flood"))).await;
            }
            // Responses are not read, so they pile up on the other side.
            CallReaction::Demands(method) => {
                for at in 0_u64.. {
                    let request = json!({"jsonrpc": "2.0", "id": at, "method": method});
                    let line = format!("{request}\n");
                    if to.write_all(line.as_bytes()).await.is_err() {
                        return true;
                    }
                }
            }
            CallReaction::Crashes => return true,
            CallReaction::Raw(words) => {
                let line = format!("{}\n", words.replace("ID", &id.to_string()));
                to.write_all(line.as_bytes()).await.unwrap();
            }
            CallReaction::Huge(bytes) => send(to, &answer(text(&"x".repeat(*bytes)))).await,
            CallReaction::Reports(count) => {
                let token = &message["params"]["_meta"]["progressToken"];
                for at in 1..=*count {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let params = json!({"progressToken": token, "progress": at, "total": count, "message": "on\u{1b}[2J it"});
                    let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                    send(to, &note).await;
                }
                send(to, &answer(text("done"))).await;
            }
            CallReaction::Asks(method, params, times) => {
                let mut responses = Vec::new();
                for at in 0..*times {
                    let request = json!({"jsonrpc": "2.0", "id": format!("mine-{at}"), "method": method, "params": params});
                    send(to, &request).await;
                    responses.push(lines.next_line().await.unwrap().unwrap());
                }
                send(to, &answer(text(&format!("[{}]", responses.join(","))))).await;
            }
            CallReaction::Rounds(results) => {
                let at = self.received("tools/call").len() - 1;
                let mut result = results[at % results.len()].clone();
                if result["content"] == "told" {
                    result["content"] =
                        json!([{"type": "text", "text": message["params"].to_string()}]);
                }
                send(to, &answer(result)).await;
            }
            CallReaction::Prints => {
                to.write_all(b"Server listening...\n\n{\"oops\": \n")
                    .await
                    .unwrap();
                send(to, &answer(text("said"))).await;
            }
        }
        false
    }
}

async fn send(to: &mut DuplexStream, message: &Value) {
    // The reader may be gone.
    let _ = to.write_all(format!("{message}\n").as_bytes()).await;
}

/// The process handle of a script.
struct ScriptProcess {
    task: tokio::task::JoinHandle<()>,
    script: Script,
}

impl ProgramHandle for ScriptProcess {
    fn wait(&mut self) -> BoxFuture<'_, Result<i32, ToolError>> {
        Box::pin(async {
            let _ = (&mut self.task).await;
            self.script.ended.fetch_add(1, Ordering::SeqCst);
            // The task has ended: a second wait must return at once.
            self.task = tokio::spawn(async {});
            Ok(7)
        })
    }
    fn terminate(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !self.script.stubborn {
                self.task.abort();
            }
        })
    }
    fn kill(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.script.killed.fetch_add(1, Ordering::SeqCst);
            self.task.abort();
        })
    }
}

impl Drop for ScriptProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A pipe whose content has arrived some time before flushing it returns.
struct SlowFlush {
    pipe: DuplexStream,
    delay: Duration,
    pending: Option<Pin<Box<Sleep>>>,
}

impl AsyncWrite for SlowFlush {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let delay = self.delay;
        if !delay.is_zero() {
            let pending = self.pending.get_or_insert_with(|| Box::pin(sleep(delay)));
            ready!(pending.as_mut().poll(context));
            self.pending = None;
        }
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

/// Starts scripts, by the first word of the command line.
struct Scripts(HashMap<String, Script>);

impl ProcessLauncher for Scripts {
    fn launch(&self, launch: LaunchSpec) -> BoxFuture<'_, Result<LaunchedProgram, ToolError>> {
        let script = self.0[&launch.args[0]].clone();
        script.started.fetch_add(1, Ordering::SeqCst);
        *script.launch.lock() = Some(launch);
        let (pipe, from) = tokio::io::duplex(64 << 10);
        let stdin = SlowFlush {
            pipe,
            delay: script.slow_flush,
            pending: None,
        };
        let (to, stdout) = tokio::io::duplex(64 << 10);
        let (err, stderr) = tokio::io::duplex(64 << 10);
        let task = tokio::spawn(script.clone().serve(from, to, err));
        Box::pin(std::future::ready(Ok(LaunchedProgram {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            handle: Box::new(ScriptProcess { task, script }),
        })))
    }
}

/// Servers, and the pipeline in front of them.
pub struct Upstream {
    pub servers: Arc<McpServers>,
    pub test_server: TestServer,
}

impl Upstream {
    /// Creates servers with these settings; `scripts` are started by their commands.
    pub fn on(
        descriptions: Arc<MemoryDescriptions>,
        servers: Value,
        scripts: &[(&str, &Script)],
    ) -> Self {
        Self::with_observer(descriptions, servers, scripts, Arc::new(()))
    }

    /// Creates servers with these settings, whose states and logs are recorded.
    pub fn observed(servers: Value, scripts: &[(&str, &Script)], recorder: Arc<Recorder>) -> Self {
        Self::with_observer(Arc::default(), servers, scripts, recorder)
    }

    fn with_observer(
        descriptions: Arc<MemoryDescriptions>,
        servers: Value,
        scripts: &[(&str, &Script)],
        observer: Arc<dyn ServerObserver>,
    ) -> Self {
        let scripts = scripts.iter();
        let scripts = scripts.map(|(name, script)| ((*name).to_owned(), (*script).clone()));
        let secret = [("KEY".to_owned(), "s3cr3t-value-of-the-key".to_owned())];
        let mcp_servers = McpServers::new(ServerDeps {
            links: Default::default(),
            observer,
            refused: Default::default(),
            launcher: Arc::new(Scripts(scripts.collect())),
            vault: Arc::new(OneSecretVault(secret)),
            store: descriptions,
            root: Arc::from(std::path::Path::new("/work space")),
            client: Arc::new(|_, _| panic!("no server is reached over HTTP")),
            logins: Arc::new(crate::logins::Memory::default()),
        });
        let config: Config = serde_json::from_value(json!({"mcp": {"servers": servers}})).unwrap();
        mcp_servers.set(&config);
        Self::over(Arc::new(mcp_servers))
    }

    /// Creates a pipeline without secrets in front of these servers.
    pub fn over(servers: Arc<McpServers>) -> Self {
        let patience = Duration::from_secs(60);
        Self {
            test_server: TestServer::before(Vec::new(), patience, Some(Arc::clone(&servers))),
            servers,
        }
    }

    /// Creates one server `s`, started by the command `s`.
    pub fn one(script: &Script) -> Self {
        Self::on(
            Arc::default(),
            json!({"s": {"command": "s"}}),
            &[("s", script)],
        )
    }

    /// Returns the tools of the server as approved by the user.
    pub async fn tools(&self) -> Vec<Tool> {
        let mut tools = self.servers.load().await.tools;
        for tool in &mut tools {
            tool.trust = mimir_core::tool::ToolTrust::Trusted;
            tool.definition.approval = mimir_core::Decision::Allow;
            let listed = &mut Arc::make_mut(&mut tool.origin).listed;
            listed.iter_mut().for_each(|entry| entry.is_seen = true);
        }
        tools
    }

    /// Installs the tools of the server in the pipeline.
    pub async fn open(self) -> Self {
        self.test_server.replace(self.tools().await);
        self
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.test_server.pipeline.call(call(tool, arguments)).await
    }
}

pub fn call(tool: &str, arguments: Value) -> mimir_core::Call {
    let id = mimir_core::RequestId::new(std::time::SystemTime::now());
    let context = mimir_core::CallContext {
        // A session per call, so that the taint of one call does not affect the next.
        session_id: id.to_string(),
        request_id: id,
        conversation_id: None,
        user: None,
    };
    mimir_core::Call::new(tool, arguments, context)
}

/// Returns the first text of a result, or the code and message of a failure.
pub fn outcome_text(outcome: &Outcome) -> String {
    match outcome.result() {
        Ok(output) => match output.content.first() {
            Some(mimir_core::Content::Text { text }) => text.clone(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}
