//! Keys of the audit log, and of prompts that are not answered: a pipeline as in the program, with log files and an
//! approval timeout.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_audit::{AuditLog, FileAuditSink};
use mimir_core::approval::{Approver, ApproverChain, NoApprovalStore};
use mimir_core::call::{CallContext, RequestId};
use mimir_core::command::NoCommandRunner;
use mimir_core::config::Config;
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::{ApprovalAnswer, BoxFuture, Call, Card, Pipeline, Policy, Redactor, Registry};
use mimir_testkit::{Outcome, Testkit, ToolErrorCode, Value, json};
use mimir_wasm::SystemClock;

use super::{echo, only};

keys! {
    timeout: "approvals.timeoutMs" => an_answer_is_waited_for,
    log_args: "audit.logArgs" => arguments_are_kept,
    log_args_of_a_tool: "tools.*.audit.logArgs" => arguments_are_kept,
    on_failure: "audit.onFailure" => a_call_without_a_record,
    max_bytes: "audit.maxBytes" => a_file_is_full,
    keep: "audit.keep" => old_files_go,
}

/// A person who never answers.
struct Away;

impl Approver for Away {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::pending())
    }
}

/// A pipeline with the tools of a kit.
struct Program {
    kit: Testkit,
    pipeline: Pipeline,
    log: PathBuf,
}

impl Program {
    fn new(settings: &Value) -> Self {
        let kit = echo(json!({}));
        let config: Config = serde_json::from_value(settings.clone()).unwrap();
        let world = kit.pipeline().snapshot();
        let tools = world.registry.tools().iter().map(|tool| (**tool).clone());
        let world = PipelineSnapshot {
            registry: Registry::new(tools, vec![]),
            policy: Policy::new(&config, "the settings of the test").unwrap(),
        };
        let log = kit.path().join("state/audit.jsonl");
        let clock = Arc::new(SystemClock);
        let patience = Duration::from_millis(config.approvals.timeout_ms);
        let person = ApproverChain::new(vec![Arc::new(Away)], Some(patience), clock.clone());
        let ports = PipelinePorts {
            approver: Arc::new(person),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(FileAuditSink::new(&log, config.audit)),
            clock,
            runner: Arc::new(NoCommandRunner),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        Self {
            pipeline: Pipeline::new(world, ports),
            kit,
            log,
        }
    }

    /// Calls `echo`; `None` if it takes so long that it must be waiting for approval, also on a busy machine.
    fn call(&self, arguments: Value) -> Option<Outcome> {
        self.call_within(Duration::from_secs(5), arguments)
    }

    /// Calls `echo`; `None` if it takes longer than this time.
    fn call_within(&self, time: Duration, arguments: Value) -> Option<Outcome> {
        let context = CallContext {
            request_id: RequestId::new(SystemTime::now()),
            session_id: "keys".to_owned(),
            conversation_id: None,
            user: None,
        };
        let call = self.pipeline.call(Call::new("echo", arguments, context));
        let watched = async { tokio::time::timeout(time, call).await };
        self.kit.block_on(watched).ok()
    }

    /// Number of log files after this many calls.
    fn files(&self, calls: usize) -> usize {
        for _ in 0..calls {
            assert!(self.call(json!({})).unwrap().is_ok());
        }
        AuditLog::at(&self.log).snapshot().unwrap().files()
    }
}

fn an_answer_is_waited_for(key: &str) {
    let ask = |mut settings: Value, time: Duration| {
        settings["tools"] = json!({"echo": {"approval": "ask"}});
        Program::new(&settings).call_within(time, json!({}))
    };
    let waited = ask(json!({}), Duration::from_millis(500));
    assert_eq!(waited, None, "the default is minutes");
    let outcome = ask(only(key, "", json!(50)), Duration::from_secs(5)).unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    assert!(
        error.remedies[0].contains("0.05 s (approvals.timeoutMs)"),
        "{:?}",
        error.remedies
    );
}

fn arguments_are_kept(key: &str) {
    let kept = |settings: &Value| {
        let program = Program::new(settings);
        assert!(program.call(json!({"word": "foxglove"})).unwrap().is_ok());
        fs::read_to_string(&program.log)
            .unwrap()
            .contains("foxglove")
    };
    assert!(!kept(&json!({})));
    assert!(kept(&only(key, "echo", json!(true))));
    let mut silenced = json!({"audit": {"logArgs": true}});
    let no = only(key, "echo", json!(false));
    let blocks = silenced.as_object_mut().unwrap();
    blocks.extend(no.as_object().unwrap().clone());
    assert!(!kept(&silenced));
}

fn a_call_without_a_record(key: &str) {
    let unrecorded = |settings: &Value| {
        let program = Program::new(settings);
        // A file at the path of the log folder.
        fs::write(program.kit.path().join("state"), "in the way").unwrap();
        program.call(json!({})).unwrap()
    };
    for settings in [json!({}), only(key, "", json!("refuse"))] {
        let outcome = unrecorded(&settings);
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
        assert!(error.message.contains("audit.onFailure: run"), "{error}");
        assert_eq!(outcome.receipt().fuel, None, "it did not run");
    }
    assert!(unrecorded(&only(key, "", json!("run"))).is_ok());
}

/// A line is about 400 bytes, so this fills four files of the minimum size.
const CALLS: usize = 45;

fn a_file_is_full(key: &str) {
    assert_eq!(Program::new(&json!({})).files(CALLS), 1);
    assert!(Program::new(&only(key, "", json!(4096))).files(CALLS) > 2);
}

fn old_files_go(key: &str) {
    let mut settings = only(key, "", json!(1));
    settings["audit"]["maxBytes"] = json!(4096);
    assert_eq!(Program::new(&settings).files(CALLS), 2);
    settings["audit"]["keep"] = json!(20);
    assert!(Program::new(&settings).files(CALLS) > 2);
}
