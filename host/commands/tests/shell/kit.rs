//! A pipeline with the tool `exec` that runs nothing, and returns the decision about a command.

use std::sync::Arc;
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

/// The path at which commands see the workspace.
pub const ROOT: &str = "/home/me/work";

/// A command port that only reads programs.
struct Reads;

impl CommandRunner for Reads {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Ok(mimir_commands::shell::read_script(program)?)
    }
    fn root(&self) -> Option<&str> {
        Some(ROOT)
    }
}

struct Idle;

impl Backend for Idle {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(std::future::ready(RawResult::failed(ToolError::new(
            ToolErrorCode::Internal,
            "it ran",
        ))))
    }
}

impl Approver for Idle {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::No))
    }
}

impl AuditSink for Idle {
    fn record(&self, _: &AuditEvent) -> Result<(), AuditError> {
        Ok(())
    }
}

impl Clock for Idle {
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
        Arc::new(Idle),
    )
}

/// Returns the decision about commands.
pub struct Judge {
    pipeline: Pipeline,
    runtime: tokio::runtime::Runtime,
}

impl Judge {
    /// Creates a judge with these settings.
    pub fn new(settings: Value) -> Self {
        let config: Config = serde_json::from_value(settings).unwrap();
        let world = PipelineSnapshot {
            registry: Registry::new([exec()], vec![]),
            policy: Policy::new(&config, "config.yml").unwrap(),
        };
        let ports = PipelinePorts {
            approver: Arc::new(Idle),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(Idle),
            clock: Arc::new(Idle),
            runner: Arc::new(Reads),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        Self {
            pipeline: Pipeline::new(world, ports),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        }
    }

    /// Creates a judge with empty settings.
    pub fn plain() -> Self {
        Self::new(json!({}))
    }

    /// Creates a judge with a list of allowed patterns.
    pub fn list(patterns: &[&str]) -> Self {
        let approvals: Vec<Value> = patterns
            .iter()
            .map(|pattern| json!({"pattern": pattern}))
            .collect();
        Self::new(json!({"execApprovals": {"mode": "allowlist", "approvals": approvals}}))
    }

    /// Explains the decision about these arguments.
    pub fn explain(&self, arguments: Value) -> CallExplanation {
        let context = CallContext {
            request_id: RequestId::new(SystemTime::UNIX_EPOCH),
            session_id: "session".into(),
            conversation_id: None,
            user: None,
        };
        let call = Call::new("exec", arguments, context);
        self.runtime.block_on(self.pipeline.explain(call)).unwrap()
    }

    /// Returns the decision about a text.
    pub fn says(&self, command: &str) -> Decision {
        self.explain(json!({ "command": command }))
            .evaluation
            .decision()
    }

    /// Checks that none of the commands is allowed.
    pub fn none_through(&self, commands: &[&str]) {
        let allows = |text: &&&str| self.says(text) == Decision::Allow;
        let through: Vec<_> = commands.iter().filter(allows).collect();
        assert!(through.is_empty(), "{through:#?}");
    }

    /// Checks the decision about each command, and reports the reason for each mismatch.
    pub fn all(&self, expected: Decision, commands: &[&str]) {
        let mut wrong = Vec::new();
        for command in commands {
            let explanation = self.explain(json!({ "command": command }));
            let decision = explanation.evaluation.decision();
            if decision != expected {
                let reasons = explanation.evaluation.reasons();
                let reasons: Vec<_> = reasons
                    .map(|one| format!("{}: {} ({})", one.decision.as_str(), one.text, one.rule))
                    .collect();
                wrong.push(format!(
                    "{} not {}: {command}\n    {}",
                    decision.as_str(),
                    expected.as_str(),
                    reasons.join("\n    ")
                ));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}
