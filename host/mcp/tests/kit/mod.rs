//! A server with the test's own tools, and a client that implements the protocol line by line.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_core::approval::NoApprovalStore;
use mimir_core::audit::AuditError;
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::{
    ApprovalAnswer, Approver, AuditEvent, AuditSink, BoxFuture, Card, Clock, Pipeline, Policy,
    Redactor, Registry, Tool, ToolError,
};
use mimir_mcp::client::McpServers;
use mimir_mcp::{ApprovalOptions, ToolServer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

mod deployment;
mod tools;
mod wire;

pub use deployment::{Network, NetworkPeer};
pub use tools::{fake, text_result, tool};
pub use wire::Wire;

/// The system clock.
struct Now;

impl Clock for Now {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
    fn instant(&self) -> Instant {
        Instant::now()
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// An audit log in memory.
#[derive(Default)]
pub struct Memory(Mutex<Vec<Value>>);

impl Memory {
    /// Returns the codes of the ended calls; null for successful ones.
    pub fn codes(&self) -> Vec<Value> {
        let events = self.0.lock();
        let calls = events.iter().filter(|event| event["event"] == "call");
        calls.map(|event| event["code"].clone()).collect()
    }
}

impl Memory {
    /// Returns the events of the calls.
    pub fn calls(&self) -> Vec<Value> {
        let events = self.0.lock();
        let calls = events.iter().filter(|event| event["event"] == "call");
        calls.cloned().collect()
    }

    /// Returns the trace contexts of the calls; null for calls without one.
    pub fn traces(&self) -> Vec<Value> {
        let events = self.0.lock();
        let calls = events.iter().filter(|event| event["event"] == "call");
        calls.map(|event| event["trace"].clone()).collect()
    }

    /// Returns the users of the calls.
    pub fn users(&self) -> Vec<String> {
        let events = self.0.lock();
        let calls = events.iter().filter(|event| event["event"] == "call");
        let users = calls.filter_map(|event| event["user"].as_str());
        users.map(str::to_owned).collect()
    }

    /// Returns the server requests during calls, and the error codes of denied ones.
    pub fn effects(&self) -> Vec<(String, Value)> {
        let events = self.0.lock();
        let effects = events.iter().filter(|event| event["event"] == "effect");
        let word = |event: &Value| event["subject"].as_str().unwrap_or_default().to_owned();
        effects
            .map(|event| (word(event), event["code"].clone()))
            .collect()
    }
}

impl AuditSink for Memory {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let event = serde_json::to_value(event).unwrap();
        self.0.lock().push(event);
        Ok(())
    }
}

/// Approver that cannot ask anyone.
struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let remedy = "Ask on a terminal.".to_owned();
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

/// A server with its audit log and the other state of a test.
pub struct TestServer {
    pub server: ToolServer,
    pub pipeline: Pipeline,
    pub audit: Arc<Memory>,
    pub refused: Arc<Mutex<Vec<ToolError>>>,
}

impl TestServer {
    /// Creates a server with these tools and this time limit for approvals.
    pub fn with_timeout(tools: Vec<Tool>, timeout: Duration) -> Self {
        Self::before(tools, timeout, None)
    }

    /// Creates a server with these tools, in front of these MCP servers.
    pub fn before(tools: Vec<Tool>, timeout: Duration, servers: Option<Arc<McpServers>>) -> Self {
        let audit = Arc::new(Memory::default());
        let ports = PipelinePorts {
            approver: Arc::new(NoApprover),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::clone(&audit) as Arc<_>,
            clock: Arc::new(Now),
            runner: Arc::new(mimir_core::command::NoCommandRunner),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        let pipeline = Pipeline::new(snapshot(tools), ports);
        let asking = ApprovalOptions {
            next: Arc::new(NoApprover),
            timeout: Some(timeout),
            clock: Arc::new(Now),
        };
        let refused = Arc::<Mutex<Vec<ToolError>>>::default();
        let hears = Arc::clone(&refused);
        let on_refusal = Arc::new(move |_: &str, error: &ToolError| {
            hears.lock().push(error.clone());
        });
        Self {
            server: ToolServer::with_servers(pipeline.clone(), asking, on_refusal, servers),
            pipeline,
            audit,
            refused,
        }
    }

    /// Creates a server with these tools and a long time limit for approvals.
    pub fn new(tools: Vec<Tool>) -> Self {
        Self::with_timeout(tools, Duration::from_secs(60))
    }

    /// Replaces the tools and the settings.
    pub fn replace_under(&self, tools: Vec<Tool>, settings: Value) {
        self.pipeline.replace(snapshot_with(tools, settings));
        self.server.refresh();
    }

    /// Replaces the tools.
    pub fn replace(&self, tools: Vec<Tool>) {
        self.pipeline.replace(snapshot(tools));
        self.server.refresh();
    }

    /// Connects a client that has sent nothing yet; also returns the server's task.
    pub fn connect(&self) -> (Wire, JoinHandle<Result<(), mimir_mcp::ServeError>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        let server = self.server.clone();
        let served =
            tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
        (Wire::new(ours), served)
    }

    /// Connects a client with these capabilities, and performs the handshake.
    pub async fn client(&self, capabilities: Value) -> Wire {
        let (mut wire, _) = self.connect();
        wire.handshake("2025-11-25", capabilities).await;
        wire
    }

    /// Waits until this number of calls has been recorded.
    pub async fn recorded(&self, calls: usize) -> Vec<Value> {
        for _ in 0..3000 {
            let codes = self.audit.codes();
            if codes.len() >= calls {
                return codes;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("recorded: {:?}", self.audit.codes());
    }
}

fn snapshot(tools: Vec<Tool>) -> PipelineSnapshot {
    snapshot_with(tools, json!({}))
}

fn snapshot_with(tools: Vec<Tool>, settings: Value) -> PipelineSnapshot {
    let config = serde_json::from_value(settings).unwrap();
    PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    }
}
