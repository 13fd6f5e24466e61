use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};

mod agent_stops;
mod announcements;
mod approvals;
mod arguments;
mod ended_sessions;
mod interrupts;
mod leaks;
mod live_calls;
mod masks;
mod model;
mod reach;
mod remote_calls;
mod repeated;
mod replicas;
mod restore;
mod roles;
mod storage;
mod taint;
mod traces;

use super::*;
use crate::approval::{ApprovalAnswer, Card, NoApprovalStore};
use crate::audit::{AuditError, AuditEvent};
use crate::backend::{Backend, BoxFuture, RawResult, ToolAssessment};
use crate::call::{CallContext, RequestId};
use crate::command::NoCommandRunner;
use crate::config::Config;
use crate::decision::Decision;
use crate::error::ToolErrorCode;
use crate::needs::Needs;
use crate::outcome::{Content, ToolOutput, TrustLevel};
use crate::redact::Redactor;
use crate::schema::Schema;
use crate::tool::{
    RiskLevel, Tool, ToolDefinition, ToolGroup, ToolHints, ToolName, ToolOrigin, ToolSource,
    ToolTrust,
};

mod slots;

/// A backend that counts its calls and returns what a test has set.
#[derive(Default)]
struct Fake {
    output: ToolOutput,
    assess: Option<Decision>,
    assess_each_time: bool,
    hang: bool,
    nested: Option<&'static str>,
    unavailable: bool,
    calls: AtomicUsize,
}

impl Backend for Fake {
    fn check_available(&self) -> Result<(), ToolError> {
        match self.unavailable {
            true => Err(ToolError::unavailable("its server has failed")),
            false => Ok(()),
        }
    }

    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if self.hang {
                std::future::pending::<()>().await;
            }
            if let Some(tool) = self.nested {
                let calls = call
                    .granted_nested_caller()
                    .unwrap_or_else(|| call.nested());
                return match calls.call(tool, json!({})).await {
                    Ok(outcome) => RawResult::from(outcome.result().cloned().map_err(Clone::clone)),
                    Err(error) => RawResult::failed(error),
                };
            }
            RawResult::from(Ok(self.output.clone()))
        })
    }

    fn assess<'a>(
        &'a self,
        _: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<ToolAssessment>, ToolError>> {
        let assessment = self.assess.map(|approval| ToolAssessment {
            approval,
            risk: RiskLevel::High,
            summary: "does \u{1b}[31mthings".into(),
            risks: vec![],
            scope: Some("https://a.example".into()),
            each_time: self.assess_each_time,
        });
        Box::pin(std::future::ready(Ok(assessment)))
    }
}

/// Creates a harmless tool that returns `done`.
pub(crate) fn tool(name: &str) -> Tool {
    let output = ToolOutput {
        content: vec![Content::text("done")],
        ..ToolOutput::default()
    };
    with(
        name,
        Fake {
            output,
            ..Fake::default()
        },
    )
}

fn with(name: &str, backend: Fake) -> Tool {
    let assesses = backend.assess.is_some();
    Tool::new(
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            title: None,
            description: "a tool".into(),
            group: ToolGroup::System,
            input_schema: Schema::parse(
                r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#,
            )
            .unwrap(),
            output_schema: None,
            approval: Decision::Allow,
            silent: false,
            risk: RiskLevel::Low,
            hints: ToolHints::default(),
            needs: Needs::default(),
        },
        ToolSource::Custom,
        Arc::new(ToolOrigin {
            declares_needs: true,
            plugin: name.into(),
            version: "1.0.0".into(),
            location: format!("{name}.wasm"),
            digest: "00".into(),
            ..ToolOrigin::default()
        }),
        ToolTrust::Harmless,
        Arc::new(backend),
    )
    .with_assessor(assesses)
}

struct Fixed(ApprovalAnswer, AtomicUsize);

impl crate::approval::Approver for Fixed {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        assert!(
            !card.summary.contains('\u{1b}'),
            "the card has an escape sequence"
        );
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[derive(Default)]
struct Memory {
    events: Mutex<Vec<Value>>,
    full: bool,
}

impl AuditSink for Memory {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        if self.full {
            return Err(AuditError {
                place: "memory".into(),
                source: std::io::Error::from(std::io::ErrorKind::StorageFull),
            });
        }
        self.events
            .lock()
            .push(serde_json::to_value(event).unwrap());
        Ok(())
    }
}

struct Std;

impl Clock for Std {
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

struct Bench {
    pipeline: Pipeline,
    audit: Arc<Memory>,
    approver: Arc<Fixed>,
}

fn bench(tools: Vec<Tool>, config: Value, answer: ApprovalAnswer) -> Bench {
    let config: Config = serde_json::from_value(config).unwrap();
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    };
    let audit = Arc::new(Memory::default());
    let approver = Arc::new(Fixed(answer, AtomicUsize::new(0)));
    let ports = PipelinePorts {
        approver: approver.clone(),
        approval_store: Arc::new(NoApprovalStore),
        vault: Arc::new(Redactor::new()),
        audit: audit.clone(),
        clock: Arc::new(Std),
        runner: Arc::new(NoCommandRunner),
        model: Arc::new(crate::language_model::NoLanguageModel),
    };
    Bench {
        pipeline: Pipeline::new(snapshot, ports),
        audit,
        approver,
    }
}

fn call(tool: &str, arguments: Value) -> Call {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: "session".into(),
        conversation_id: None,
        user: None,
    };
    Call::new(tool, arguments, context)
}

fn code(outcome: &Outcome) -> Option<ToolErrorCode> {
    outcome.result().err().map(|error| error.code)
}

#[tokio::test]
async fn call_succeeds_and_is_audited() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("sample", json!({"n": 1}))).await;
    assert_eq!(outcome.text(), "done");
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
    assert_eq!(outcome.receipt().bytes_in, 7);
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["tool"], "sample");
    assert_eq!(events[0]["ok"], true);
    assert!(
        events[0].get("arguments").is_none(),
        "arguments were recorded although the config does not allow it"
    );
    assert_eq!(
        bench.approver.1.load(Ordering::SeqCst),
        0,
        "a person was asked"
    );
}

#[tokio::test]
async fn call_refusals_are_outcomes_and_are_audited() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let bench = bench(
        vec![tool("sample"), asking],
        json!({"policy": {"deny": ["sample"]}}),
        ApprovalAnswer::No,
    );
    for (name, arguments, expected) in [
        ("missing", json!({}), ToolErrorCode::NotFound),
        ("asking", json!({"n": "x"}), ToolErrorCode::InvalidInput),
        ("asking", json!([]), ToolErrorCode::InvalidInput),
        ("sample", json!({}), ToolErrorCode::PolicyDenied),
        ("asking", json!({}), ToolErrorCode::ApprovalDenied),
    ] {
        let outcome = bench.pipeline.call(call(name, arguments)).await;
        assert_eq!(code(&outcome), Some(expected), "{name}");
        assert_eq!(outcome.label().trust, TrustLevel::System);
    }
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 5);
    assert!(
        events
            .iter()
            .all(|event| event["ok"] == false && event["code"].is_string())
    );
}

#[tokio::test]
async fn unavailable_tool_fails_without_a_question() {
    let backend = Fake {
        unavailable: true,
        ..Fake::default()
    };
    let mut asking = with("asking", backend);
    asking.definition.approval = Decision::Ask;
    let bench = bench(vec![asking], json!({}), ApprovalAnswer::Once);
    let outcome = bench.pipeline.call(call("asking", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 0);
    assert_eq!(bench.audit.events.lock().len(), 1);
}

#[tokio::test]
async fn assessor_asks_although_the_policy_allows() {
    let backend = Fake {
        assess: Some(Decision::Ask),
        ..Fake::default()
    };
    let bench = bench(
        vec![with("sample", backend)],
        json!({}),
        ApprovalAnswer::Once,
    );
    assert!(bench.pipeline.call(call("sample", json!({}))).await.is_ok());
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn call_times_out_and_a_dropped_call_is_audited() {
    let hanging = || {
        let backend = Fake {
            hang: true,
            ..Fake::default()
        };
        vec![with("sample", backend)]
    };
    let slow = bench(
        hanging(),
        json!({"limits": {"timeMs": 20}}),
        ApprovalAnswer::No,
    );
    assert_eq!(
        code(&slow.pipeline.call(call("sample", json!({}))).await),
        Some(ToolErrorCode::Timeout)
    );

    let dropped = bench(hanging(), json!({}), ApprovalAnswer::No);
    let work = dropped.pipeline.call(call("sample", json!({})));
    assert!(
        tokio::time::timeout(Duration::from_millis(20), work)
            .await
            .is_err()
    );
    let events = dropped.audit.events.lock();
    assert_eq!(events[0]["code"], "CANCELLED");
}

#[tokio::test]
async fn call_result_is_withheld_if_the_audit_fails() {
    let mut bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let ports = PipelinePorts {
        audit: Arc::new(Memory {
            full: true,
            ..Memory::default()
        }),
        ..bench.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: Registry::new([tool("sample")], vec![]),
        policy: Policy::default(),
    };
    bench.pipeline = Pipeline::new(snapshot, ports);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
}

#[tokio::test]
async fn nested_call_needs_a_grant_and_is_depth_limited() {
    let nesting = |name: &str, target: &'static str, granted: bool| {
        let backend = Fake {
            nested: Some(target),
            ..Fake::default()
        };
        let mut tool = with(name, backend);
        tool.trust = ToolTrust::Trusted;
        if granted {
            tool.definition.needs.tools = vec![target.into()];
            tool.granted = tool.definition.needs.clone();
        }
        tool
    };
    let bench = bench(
        vec![
            tool("sample"),
            nesting("good", "sample", true),
            nesting("bad", "sample", false),
            nesting("cycle", "cycle", true),
        ],
        json!({}),
        ApprovalAnswer::No,
    );
    assert_eq!(
        bench.pipeline.call(call("good", json!({}))).await.text(),
        "done"
    );
    let bad = bench.pipeline.call(call("bad", json!({}))).await;
    assert_eq!(code(&bad), Some(ToolErrorCode::PermissionDenied));
    let cycle = bench.pipeline.call(call("cycle", json!({}))).await;
    assert_eq!(code(&cycle), Some(ToolErrorCode::LimitExceeded));
    let parents = bench.audit.events.lock();
    assert!(
        parents
            .iter()
            .any(|event| event["tool"] == "sample" && event["parent"] == "good")
    );
}

#[tokio::test]
async fn run_code_nested_calls_have_the_models_rights() {
    let runs_code = |source: ToolSource| {
        let mut tool = with(
            "run_code",
            Fake {
                nested: Some("sample"),
                ..Fake::default()
            },
        );
        tool.source = source;
        tool.trust = ToolTrust::Trusted;
        tool
    };
    let asks = || {
        let mut asking = tool("sample");
        asking.definition.approval = Decision::Ask;
        asking
    };
    let bench_of = |source, target| {
        bench(
            vec![runs_code(source), target],
            json!({}),
            ApprovalAnswer::No,
        )
    };
    let calls = bench_of(ToolSource::BuiltIn, tool("sample"));
    for (arguments, good) in [
        (json!({}), true),
        (json!({"tools": ["sample"]}), true),
        (json!({"tools": ["other"]}), false),
        (json!({"tools": []}), false),
    ] {
        let outcome = calls.pipeline.call(call("run_code", arguments.clone()));
        let outcome = outcome.await;
        let refused = code(&outcome) == Some(ToolErrorCode::PermissionDenied);
        assert_eq!((outcome.is_ok(), refused), (good, !good), "{arguments}");
    }
    let is_nested = |event: &&Value| event["tool"] == "sample" && event["parent"] == "run_code";
    let nested = {
        let events = calls.audit.events.lock();
        events.iter().filter(is_nested).count()
    };
    assert_eq!(nested, 2);
    // A call that asks a person when the model makes it also asks when the model's code makes it.
    let refused = bench_of(ToolSource::BuiltIn, asks());
    let outcome = refused.pipeline.call(call("run_code", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::ApprovalDenied));
    // A plugin of that name has only its granted rights.
    let plugin = bench_of(ToolSource::Custom, tool("sample"));
    let outcome = plugin.pipeline.call(call("run_code", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PermissionDenied));
}

#[tokio::test]
async fn output_schema_mismatch_is_an_execution_error() {
    let promising = |structured: Option<Value>| {
        let output = ToolOutput {
            structured,
            ..ToolOutput::default()
        };
        let mut tool = with(
            "sample",
            Fake {
                output,
                ..Fake::default()
            },
        );
        let schema = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#;
        tool.definition.output_schema = Some(Schema::parse(schema).unwrap());
        tool
    };
    for (structured, good) in [
        (Some(json!({"a": "x"})), true),
        (Some(json!({"a": 1})), false),
        (None, false),
    ] {
        let bench = bench(vec![promising(structured)], json!({}), ApprovalAnswer::No);
        let outcome = bench.pipeline.call(call("sample", json!({}))).await;
        assert_eq!(outcome.is_ok(), good);
        if !good {
            assert_eq!(code(&outcome), Some(ToolErrorCode::ExecutionError));
        }
    }
    let long = Some(json!({"a": "x".repeat(200_000)}));
    let bench = bench(vec![promising(long)], json!({}), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert!(
        outcome.truncated() && outcome.is_ok(),
        "a cut string no longer matches the schema"
    );
}

#[tokio::test]
async fn calls_per_minute_are_limited() {
    let bench = bench(
        vec![tool("sample")],
        json!({"limits": {"callsPerMinute": 2}}),
        ApprovalAnswer::No,
    );
    for expected in [None, None, Some(ToolErrorCode::LimitExceeded)] {
        assert_eq!(
            code(&bench.pipeline.call(call("sample", json!({}))).await),
            expected
        );
    }
}
