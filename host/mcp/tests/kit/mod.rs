//! A server with tools of the test's own, and a client that speaks the protocol line by line.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use mimir_core::approval::NoLedger;
use mimir_core::audit::AuditError;
use mimir_core::pipeline::{Ports, World};
use mimir_core::{
    Answer, Approver, AuditSink, BoxFuture, Card, Clock, Event, Pipeline, Policy, Redactor,
    Registry, Tool, ToolError,
};
use mimir_mcp::client::Servers;
use mimir_mcp::{Asking, Server};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

mod tools;
mod wire;

pub use tools::{fake, said, tool};
pub use wire::Wire;

/// The time of this machine.
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

/// A record in memory.
#[derive(Default)]
pub struct Memory(Mutex<Vec<Value>>);

impl Memory {
    /// The codes of the calls that have ended; null for one that went well.
    pub fn codes(&self) -> Vec<Value> {
        let events = self.0.lock().unwrap();
        let calls = events.iter().filter(|event| event["event"] == "call");
        calls.map(|event| event["code"].clone()).collect()
    }
}

impl Memory {
    /// The trace contexts of the calls; null for one that has none.
    pub fn traces(&self) -> Vec<Value> {
        let events = self.0.lock().unwrap();
        let calls = events.iter().filter(|event| event["event"] == "call");
        calls.map(|event| event["trace"].clone()).collect()
    }

    /// Whose calls there were.
    pub fn users(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let calls = events.iter().filter(|event| event["event"] == "call");
        let users = calls.filter_map(|event| event["user"].as_str());
        users.map(str::to_owned).collect()
    }

    /// What calls wanted in their middle, and the codes of what was refused of it.
    pub fn wishes(&self) -> Vec<(String, Value)> {
        let events = self.0.lock().unwrap();
        let effects = events.iter().filter(|event| event["event"] == "effect");
        let word = |event: &Value| event["subject"].as_str().unwrap_or_default().to_owned();
        effects
            .map(|event| (word(event), event["code"].clone()))
            .collect()
    }
}

impl AuditSink for Memory {
    fn record(&self, event: &Event) -> Result<(), AuditError> {
        let event = serde_json::to_value(event).unwrap();
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

/// There is nobody else to ask.
struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, Answer> {
        let way_out = "Ask on a terminal.".to_owned();
        Box::pin(std::future::ready(Answer::Nobody { way_out }))
    }
}

/// A server and what it does beside answering.
pub struct Room {
    pub server: Server,
    pub pipeline: Pipeline,
    pub audit: Arc<Memory>,
    pub refused: Arc<Mutex<Vec<ToolError>>>,
}

impl Room {
    /// A room with these tools, where a person has this long to answer.
    pub fn with_patience(tools: Vec<Tool>, patience: Duration) -> Self {
        Self::before(tools, patience, None)
    }

    /// The same before servers.
    pub fn before(tools: Vec<Tool>, patience: Duration, servers: Option<Arc<Servers>>) -> Self {
        let audit = Arc::new(Memory::default());
        let ports = Ports {
            approver: Arc::new(Nobody),
            ledger: Arc::new(NoLedger),
            vault: Arc::new(Redactor::new()),
            audit: Arc::clone(&audit) as Arc<_>,
            clock: Arc::new(Now),
            runner: Arc::new(mimir_core::command::NoRunner),
            model: Arc::new(mimir_core::model::NoModel),
        };
        let pipeline = Pipeline::new(world(tools), ports);
        let asking = Asking {
            next: Arc::new(Nobody),
            timeout: Some(patience),
            clock: Arc::new(Now),
        };
        let refused = Arc::<Mutex<Vec<ToolError>>>::default();
        let hears = Arc::clone(&refused);
        let on_refusal = Arc::new(move |_: &str, error: &ToolError| {
            hears.lock().unwrap().push(error.clone());
        });
        Self {
            server: Server::before(pipeline.clone(), asking, on_refusal, servers),
            pipeline,
            audit,
            refused,
        }
    }

    /// A room with these tools and a patient person.
    pub fn new(tools: Vec<Tool>) -> Self {
        Self::with_patience(tools, Duration::from_secs(60))
    }

    /// Puts other tools in place, under these settings.
    pub fn replace_under(&self, tools: Vec<Tool>, settings: Value) {
        self.pipeline.replace(world_under(tools, settings));
        self.server.refresh();
    }

    /// Puts other tools in place.
    pub fn replace(&self, tools: Vec<Tool>) {
        self.pipeline.replace(world(tools));
        self.server.refresh();
    }

    /// A client that has said nothing yet, and the server's end of the connection.
    pub fn connect(&self) -> (Wire, JoinHandle<Result<(), mimir_mcp::ServeError>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        let server = self.server.clone();
        let served =
            tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
        (Wire::new(ours), served)
    }

    /// A client with these capabilities that has shaken hands.
    pub async fn client(&self, capabilities: Value) -> Wire {
        let (mut wire, _) = self.connect();
        wire.hello("2025-11-25", capabilities).await;
        wire
    }

    /// Waits until so many calls have been recorded.
    pub async fn recorded(&self, calls: usize) -> Vec<Value> {
        for _ in 0..500 {
            let codes = self.audit.codes();
            if codes.len() >= calls {
                return codes;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("recorded: {:?}", self.audit.codes());
    }
}

fn world(tools: Vec<Tool>) -> World {
    world_under(tools, json!({}))
}

fn world_under(tools: Vec<Tool>, settings: Value) -> World {
    let config = serde_json::from_value(settings).unwrap();
    World {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    }
}
