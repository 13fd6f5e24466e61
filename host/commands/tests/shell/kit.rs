//! A pipeline with the tool `exec` that runs nothing, and only returns the decision about a command.

use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use mimir_core::approval::{ApprovalAnswer, NoApprovalStore};
use mimir_core::audit::{AuditError, AuditEvent, AuditSink};
use mimir_core::backend::{BoxFuture, RawResult};
use mimir_core::call::{Call, CallContext, RequestId};
use mimir_core::command::{CommandProgram, CommandRunner, ParsedProgram};
use mimir_core::config::Config;
use mimir_core::pipeline::{CallExplanation, Pipeline, PipelinePorts, PipelineSnapshot};
use mimir_core::{
    Approved, Approver, Backend, Card, Clock, Decision, Needs, Policy, Redactor, Registry,
    RiskLevel, Schema, Tool, ToolDefinition, ToolError, ToolErrorCode, ToolGroup, ToolHints,
    ToolName, ToolOrigin, ToolSource,
};
use serde_json::{Value, json};

/// Path of the workspace for commands.
pub const ROOT: &str = "/home/me/work";

/// A command runner that only parses programs.
struct ParsingRunner;

impl CommandRunner for ParsingRunner {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Ok(mimir_commands::shell::read_script(program)?)
    }
    fn root(&self) -> Option<&str> {
        Some(ROOT)
    }
}

/// Ports without function: every call fails, and every approval is refused.
struct IdlePorts;

impl Backend for IdlePorts {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(std::future::ready(RawResult::failed(ToolError::new(
            ToolErrorCode::Internal,
            "it ran",
        ))))
    }
}

/// An approver that refuses every call, and keeps the cards.
#[derive(Default)]
struct CardRecorder(Mutex<Vec<Card>>);

impl Approver for CardRecorder {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        self.0.lock().unwrap().push(card.clone());
        Box::pin(std::future::ready(ApprovalAnswer::No))
    }
}

impl AuditSink for IdlePorts {
    fn record(&self, _: &AuditEvent) -> Result<(), AuditError> {
        Ok(())
    }
}

impl Clock for IdlePorts {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn instant(&self) -> Instant {
        Instant::now()
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

fn exec() -> Tool {
    let definition = ToolDefinition {
        name: ToolName::new("exec").unwrap(),
        title: None,
        description: String::new(),
        group: ToolGroup::Runtime,
        input_schema: Schema::parse(r#"{"type":"object"}"#).unwrap(),
        output_schema: None,
        approval: Decision::Ask,
        silent: false,
        risk: RiskLevel::Medium,
        hints: ToolHints::default(),
        needs: Needs::default(),
    };
    Tool::new(
        definition,
        ToolSource::BuiltIn,
        Arc::new(ToolOrigin {
            plugin: "exec".into(),
            version: "1.0.0".into(),
            location: "built-in".into(),
            digest: "00".into(),
            declares_needs: true,
            ..ToolOrigin::default()
        }),
        mimir_core::tool::ToolTrust::Trusted,
        Arc::new(IdlePorts),
    )
}

fn exec_call(arguments: Value) -> Call {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::UNIX_EPOCH),
        session_id: "session".into(),
        conversation_id: None,
        user: None,
    };
    Call::new("exec", arguments, context)
}

/// Returns decisions about commands, from a pipeline that runs nothing.
pub struct DecisionTester {
    pipeline: Pipeline,
    cards: Arc<CardRecorder>,
    runtime: tokio::runtime::Runtime,
}

impl DecisionTester {
    /// Creates a tester with these settings.
    pub fn new(settings: Value) -> Self {
        let config: Config = serde_json::from_value(settings).unwrap();
        let snapshot = PipelineSnapshot {
            registry: Registry::new([exec()], vec![]),
            policy: Policy::new(&config, "config.yml").unwrap(),
        };
        let cards = Arc::new(CardRecorder::default());
        let ports = PipelinePorts {
            approver: cards.clone(),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(IdlePorts),
            clock: Arc::new(IdlePorts),
            runner: Arc::new(ParsingRunner),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        Self {
            pipeline: Pipeline::new(snapshot, ports),
            cards,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
        }
    }

    /// Creates a tester with empty settings.
    pub fn with_defaults() -> Self {
        Self::new(json!({}))
    }

    /// Creates a tester with a list of allowed patterns.
    pub fn with_allowlist(patterns: &[&str]) -> Self {
        let approvals: Vec<Value> = patterns
            .iter()
            .map(|pattern| json!({"pattern": pattern}))
            .collect();
        Self::new(json!({"execApprovals": {"mode": "allowlist", "approvals": approvals}}))
    }

    /// Explains the decision about these arguments.
    pub fn explain(&self, arguments: Value) -> CallExplanation {
        let call = exec_call(arguments);
        self.runtime.block_on(self.pipeline.explain(call)).unwrap()
    }

    /// Returns what the answer "always" to this shell text would store, and `None` if it is not offered.
    pub fn always(&self, command: &str) -> Option<String> {
        self.always_for(json!({ "command": command }))
    }

    /// Returns what the answer "always" to a call with these arguments would store, and `None` if it is not offered.
    pub fn always_for(&self, arguments: Value) -> Option<String> {
        let shown = arguments.to_string();
        self.runtime
            .block_on(self.pipeline.call(exec_call(arguments)));
        let card = self.cards.0.lock().unwrap().pop();
        let card = card.unwrap_or_else(|| panic!("no question about {shown}"));
        card.always.map(|always| always.text)
    }

    /// Returns the decision about a shell text.
    pub fn decision(&self, command: &str) -> Decision {
        self.explain(json!({ "command": command }))
            .evaluation
            .decision()
    }

    /// Checks that none of the commands is allowed.
    pub fn assert_none_allowed(&self, commands: &[&str]) {
        let is_allowed = |text: &&&str| self.decision(text) == Decision::Allow;
        let allowed: Vec<_> = commands.iter().filter(is_allowed).collect();
        assert!(allowed.is_empty(), "{allowed:#?}");
    }

    /// Checks the decision about each command, and reports the reason for each mismatch.
    pub fn assert_all(&self, expected: Decision, commands: &[&str]) {
        let mut mismatches = Vec::new();
        for command in commands {
            let explanation = self.explain(json!({ "command": command }));
            let decision = explanation.evaluation.decision();
            if decision != expected {
                let reasons = explanation.evaluation.reasons();
                let reasons: Vec<_> = reasons
                    .map(|reason| {
                        format!(
                            "{}: {} ({})",
                            reason.decision.as_str(),
                            reason.text,
                            reason.rule
                        )
                    })
                    .collect();
                mismatches.push(format!(
                    "{} not {}: {command}\n    {}",
                    decision.as_str(),
                    expected.as_str(),
                    reasons.join("\n    ")
                ));
            }
        }
        assert!(mismatches.is_empty(), "\n{}", mismatches.join("\n"));
    }
}
