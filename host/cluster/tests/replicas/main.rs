//! Tests of pipelines that share sessions, limits and the audit log over a NATS server. Each has a connection of its own,
//! as a process has.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failure fails the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_nats::jetstream::stream::StorageType;
use mimir_cluster::{
    ClusterConnection, ClusterNode, ConnectionOptions, NatsState, NodeDescription, NodeRole,
};
use mimir_core::approval::NoApprovalStore;
use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::call_switch::NoCallSwitch;
use mimir_core::command::NoCommandRunner;
use mimir_core::config::{AuditSettings, Config};
use mimir_core::language_model::NoLanguageModel;
use mimir_core::needs::Needs;
use mimir_core::outcome::ToolOutput;
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::schema::Schema;
use mimir_core::shared_counter::SharedCounter;
use mimir_core::shared_state::SharedStateHandle;
use mimir_core::tool::{ToolDefinition, ToolTrust};
use mimir_core::{
    ApprovalAnswer, Approved, Approver, Call, CallContext, Card, Clock, Content, Decision, Outcome,
    Pipeline, PipelineConnections, Policy, Redactor, Registry, RiskLevel, Tool, ToolErrorCode,
    ToolGroup, ToolHints, ToolName, ToolOrigin, ToolSource,
};
use serde_json::{Value, json};

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../../../tests/kit/nats_server.rs"]
mod nats_server;

use nats_server::NatsServer;

struct SystemClock;

impl Clock for SystemClock {
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

/// Answers each question with "this session", and counts the questions.
#[derive(Default)]
struct AnswersForSession(AtomicUsize);

impl Approver for AnswersForSession {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(ApprovalAnswer::Session))
    }
}

/// Counts its calls, and those that run at once. Each takes a moment.
#[derive(Default)]
struct CountingBackend {
    calls: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    delay: Duration,
}

impl Backend for CountingBackend {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            RawResult::from(Ok(ToolOutput {
                content: vec![Content::text("done")],
                ..ToolOutput::default()
            }))
        })
    }
}

fn tool(name: &str, backend: &Arc<CountingBackend>) -> Tool {
    Tool::new(
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "a tool".into(),
            group: ToolGroup::System,
            input_schema: Schema::parse(r#"{"type":"object"}"#).unwrap(),
            output_schema: None,
            approval: Decision::Allow,
            silent: false,
            risk: RiskLevel::Low,
            hints: ToolHints::default(),
            needs: Needs::default(),
        },
        ToolSource::Custom,
        Arc::new(ToolOrigin {
            plugin: name.into(),
            location: format!("{name}.wasm"),
            digest: "00".into(),
            ..ToolOrigin::default()
        }),
        ToolTrust::Trusted,
        Arc::clone(backend) as Arc<dyn Backend>,
    )
}

/// One process of the deployment.
struct Replica {
    pipeline: Pipeline,
    approver: Arc<AnswersForSession>,
    state: SharedStateHandle,
    _node: ClusterNode,
}

impl Replica {
    async fn start(server: &NatsServer, tools: Vec<Tool>, config: Value) -> Self {
        let options = ConnectionOptions {
            servers: server.url(),
            ..ConnectionOptions::default()
        };
        let connection = ClusterConnection::connect_node(options).await.unwrap();
        let description = NodeDescription {
            role: NodeRole::Front,
            host: "test".to_owned(),
            workspace: None,
            labels: Default::default(),
            capacity: 0,
            tools: None,
        };
        let node = ClusterNode::start(connection.clone(), description)
            .await
            .unwrap();
        let approver = Arc::new(AnswersForSession::default());
        let config: Config = serde_json::from_value(config).unwrap();
        let snapshot = PipelineSnapshot {
            registry: Registry::new(tools, Vec::new()),
            policy: Policy::new(&config, "config.yml").unwrap(),
        };
        let pipeline = Pipeline::new(
            snapshot,
            PipelinePorts {
                approver: Arc::clone(&approver) as Arc<dyn Approver>,
                approval_store: Arc::new(NoApprovalStore),
                vault: Arc::new(Redactor::new()),
                audit: Arc::new(node.audit_sink(AuditSettings::default())),
                clock: Arc::new(SystemClock),
                runner: Arc::new(NoCommandRunner),
                model: Arc::new(NoLanguageModel),
            },
        );
        let state: SharedStateHandle = Arc::new(NatsState::new(connection));
        pipeline.connect(PipelineConnections {
            switch: Arc::new(NoCallSwitch),
            state: Some(Arc::clone(&state)),
            remote: None,
        });
        Self {
            pipeline,
            approver,
            state,
            _node: node,
        }
    }

    async fn call(&self, tool: &str, session: &str) -> Outcome {
        let mut context = CallContext::new_session(SystemTime::now());
        context.session_id = session.to_owned();
        self.pipeline
            .call(Call::new(tool, json!({}), context))
            .await
    }
}

fn code(outcome: &Outcome) -> Option<ToolErrorCode> {
    outcome.result().err().map(|error| error.code)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn replicas_share_labels_and_approvals_of_sessions() {
    let server = NatsServer::start();
    let backend = Arc::new(CountingBackend::default());
    let mut sending = tool("sending", &backend);
    sending.definition.needs.model = true;
    sending.granted = sending.definition.needs.clone();
    let tools = vec![sending, tool("reader", &backend)];
    let config = json!({"tools": {"reader": {"labels": {"outputTrust": "untrusted"}}}});
    let one = Replica::start(&server, tools.clone(), config.clone()).await;
    let other = Replica::start(&server, tools, config).await;
    assert_eq!(code(&one.call("reader", "s").await), None);
    assert_eq!(one.approver.0.load(Ordering::SeqCst), 0);
    // What one replica has read, the other one asks about; what the other one is told, counts in the first.
    assert_eq!(code(&other.call("sending", "s").await), None);
    assert_eq!(other.approver.0.load(Ordering::SeqCst), 1);
    assert_eq!(code(&one.call("sending", "s").await), None);
    assert_eq!(one.approver.0.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn replicas_share_limits_and_counters() {
    let server = NatsServer::start();
    let counted = Arc::new(CountingBackend::default());
    let slow = Arc::new(CountingBackend {
        delay: Duration::from_millis(50),
        ..CountingBackend::default()
    });
    let tools = vec![tool("counted", &counted), tool("slow", &slow)];
    let config = json!({"tools": {
        "counted": {"limits": {"callsPerMinute": 20}},
        "slow": {"limits": {"concurrent": 2}},
    }});
    let one = Replica::start(&server, tools.clone(), config.clone()).await;
    let other = Replica::start(&server, tools, config).await;
    let calls = (0..30).map(|number| {
        let replica = if number % 2 == 0 { &one } else { &other };
        replica.call("counted", "s")
    });
    let outcomes = futures::future::join_all(calls).await;
    let limited = Some(ToolErrorCode::LimitExceeded);
    let refused = outcomes.iter().filter(|outcome| code(outcome) == limited);
    assert_eq!(refused.count(), 10);
    assert_eq!(counted.calls.load(Ordering::SeqCst), 20);
    let calls = (0..12).map(|number| {
        let replica = if number % 2 == 0 { &one } else { &other };
        replica.call("slow", "s")
    });
    let outcomes = futures::future::join_all(calls).await;
    for outcome in &outcomes {
        assert!(outcome.is_ok(), "{}", outcome.text());
    }
    assert_eq!(slow.most.load(Ordering::SeqCst), 2);
    let counter =
        |replica: &Replica| SharedCounter::new(Arc::clone(&replica.state), &["money", "s"], None);
    let [first, second] = [counter(&one), counter(&other)];
    let adding = (0..20).map(|number| {
        let counter = if number % 2 == 0 { &first } else { &second };
        counter.add(7, 100)
    });
    let added = futures::future::join_all(adding).await;
    assert_eq!(added.iter().filter(|added| **added == Ok(true)).count(), 14);
    assert_eq!(second.value().await, Ok(98));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn replica_limits_hold_after_a_restart_of_the_server() {
    let mut server = NatsServer::start();
    let backend = Arc::new(CountingBackend::default());
    let config = json!({"tools": {"counted": {"limits": {"callsPerMinute": 2}}}});
    let replica = Replica::start(&server, vec![tool("counted", &backend)], config).await;
    for _ in 0..2 {
        assert!(replica.call("counted", "s").await.is_ok());
    }
    server.restart();
    let outcome = loop {
        let outcome = replica.call("counted", "s").await;
        if code(&outcome) != Some(ToolErrorCode::Unavailable) {
            break outcome;
        }
        // The connection is restored after a pause.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(code(&outcome), Some(ToolErrorCode::LimitExceeded));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn replica_streams_in_memory_of_older_versions_are_kept_until_they_are_lost() {
    let mut server = NatsServer::start();
    let client = async_nats::connect(server.url()).await.unwrap();
    let older = async_nats::jetstream::stream::Config {
        name: "KV_MIMIR_LIMITS".to_owned(),
        subjects: vec!["$KV.MIMIR_LIMITS.>".to_owned()],
        max_messages_per_subject: 1,
        storage: StorageType::Memory,
        allow_message_ttl: true,
        deny_delete: true,
        allow_rollup: true,
        ..Default::default()
    };
    let jetstream = async_nats::jetstream::new(client);
    jetstream.create_stream(older).await.unwrap();
    let storage = async || {
        let stream = jetstream.get_stream("KV_MIMIR_LIMITS").await;
        stream.unwrap().cached_info().config.storage
    };
    let connect = async |url: String| {
        let options = ConnectionOptions {
            servers: url,
            ..ConnectionOptions::default()
        };
        ClusterConnection::connect(options).await.unwrap()
    };
    let set_up = connect(server.url()).await.create_streams(None).await;
    let limits = set_up.unwrap();
    assert!(limits.iter().any(|stream| stream.existed));
    assert_eq!(storage().await, StorageType::Memory);
    server.restart();
    let set_up = connect(server.url()).await.create_streams(None).await;
    let created = set_up.unwrap();
    let created: Vec<_> = created.iter().filter(|stream| !stream.existed).collect();
    assert_eq!(created.len(), 1, "{created:?}");
    assert_eq!(storage().await, StorageType::File);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn replica_without_its_server_refuses_calls_and_recovers() {
    let mut server = NatsServer::start();
    let backend = Arc::new(CountingBackend::default());
    let replica = Replica::start(&server, vec![tool("writer", &backend)], json!({})).await;
    assert!(replica.call("writer", "s").await.is_ok());
    server.kill();
    let outcome = replica.call("writer", "s").await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    assert_eq!(backend.calls.load(Ordering::SeqCst), 1);
    server.restart();
    // The connection is restored after a pause.
    while !replica.call("writer", "s").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(backend.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; prints a measurement"]
async fn replica_latency() {
    let server = NatsServer::start();
    let backend = Arc::new(CountingBackend::default());
    let mut reader = tool("reader", &backend);
    reader.definition.hints.read_only = true;
    let tools = vec![reader, tool("writer", &backend)];
    let replica = Replica::start(&server, tools, json!({})).await;
    for name in ["reader", "writer"] {
        let mut times = Vec::new();
        for _ in 0..500 {
            let began = Instant::now();
            assert!(replica.call(name, "s").await.is_ok());
            times.push(began.elapsed());
        }
        times.sort();
        println!("{name}: p50 {:?}, p99 {:?}", times[250], times[495]);
    }
}
