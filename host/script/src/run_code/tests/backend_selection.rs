//! Selection of the backend for code, with fake engines and sandboxes.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::approval::NoApprovalStore;
use mimir_core::audit::AuditError;
use mimir_core::backend::{BoxFuture, ResourceUsage};
use mimir_core::call::CallObserver;
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{
    CommandOutput, CommandProgram, CommandRunner, CommandTarget, ParsedProgram,
};
use mimir_core::pipeline::{PermittedCommand, PipelinePorts, PipelineSnapshot};
use mimir_core::{
    ApprovalAnswer, Approved, Approver, AuditEvent, AuditSink, Call, CallContext, Card, Outcome,
    Pipeline, Policy, Redactor, Registry, RequestId, ToolError, ToolErrorCode,
};
use mimir_wasm::SystemClock;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::command_output;
use crate::run_code::{CodeEngine, CodeResult, CodeSnippet, run_code};

/// An engine that supports Python only.
struct Python(i32);

impl CodeEngine for Python {
    fn languages(&self) -> &[CodeLanguage] {
        &[CodeLanguage::Python]
    }

    fn lacks(&self, _: CodeLanguage) -> &'static str {
        "there are no sockets"
    }

    fn run<'a>(
        &'a self,
        call: &'a Approved,
        snippet: &'a CodeSnippet,
    ) -> BoxFuture<'a, CodeResult> {
        assert!(!call.rights().files.is_empty());
        let ran = CodeResult {
            result: Ok(command_output(self.0, &snippet.code, "")),
            usage: ResourceUsage {
                fuel: Some(7),
                ..ResourceUsage::default()
            },
            session: None,
        };
        Box::pin(std::future::ready(ran))
    }
}

/// Available sandboxes, and the backends of the commands that ran.
#[derive(Default)]
struct Sandboxes {
    available: Vec<&'static str>,
    ran: Mutex<Vec<CommandTarget>>,
}

fn name(target: CommandTarget) -> &'static str {
    match target {
        CommandTarget::Default => "usual",
        CommandTarget::HostPrograms => "process",
        CommandTarget::Container(_) | CommandTarget::Image(_) => "container",
    }
}

impl CommandRunner for Sandboxes {
    fn parse_program(&self, _: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        Ok(ParsedProgram::default())
    }

    fn root(&self) -> Option<&str> {
        None
    }

    fn sandbox_name<'a>(
        &'a self,
        target: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        let sandbox = if self.available.contains(&name(target)) {
            Ok(name(target))
        } else {
            let message = format!("no `{program}` in {}", name(target));
            Err(ToolError::new(ToolErrorCode::Unavailable, message))
        };
        Box::pin(std::future::ready(sandbox))
    }

    fn run(
        &self,
        command: PermittedCommand,
        _: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, Result<CommandOutput, ToolError>> {
        self.ran.lock().push(command.command().target);
        Box::pin(std::future::ready(Ok(command_output(
            0,
            "by a command",
            "",
        ))))
    }
}

/// Answers no to each approval, and records nothing.
struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::No))
    }
}

impl AuditSink for NoApprover {
    fn record(&self, _: &AuditEvent) -> Result<(), AuditError> {
        Ok(())
    }
}

async fn call(
    engines: Vec<Arc<dyn CodeEngine>>,
    available: &[&'static str],
    arguments: Value,
) -> (Outcome, Vec<CommandTarget>) {
    let sandboxes = Arc::new(Sandboxes {
        available: available.to_vec(),
        ran: Mutex::default(),
    });
    let snapshot = PipelineSnapshot {
        registry: Registry::new(vec![run_code(engines).unwrap()], Vec::new()),
        policy: Policy::default(),
    };
    let ports = PipelinePorts {
        approver: Arc::new(NoApprover),
        approval_store: Arc::new(NoApprovalStore),
        vault: Arc::new(Redactor::new()),
        audit: Arc::new(NoApprover),
        clock: Arc::new(SystemClock),
        runner: Arc::clone(&sandboxes) as _,
        model: Arc::new(mimir_core::language_model::NoLanguageModel),
    };
    let context = CallContext {
        request_id: RequestId::new(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1)),
        session_id: "session".to_owned(),
        conversation_id: None,
        user: None,
    };
    let outcome = Pipeline::new(snapshot, ports)
        .call(Call::new("run_code", arguments, context))
        .await;
    let ran = sandboxes.ran.lock().clone();
    (outcome, ran)
}

fn structured(outcome: &Outcome) -> Value {
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    output.structured.clone().unwrap()
}

#[tokio::test]
async fn backend_auto_uses_the_first_available() {
    let engines = || vec![Arc::new(Python(0)) as Arc<dyn CodeEngine>];
    let code = |language| json!({"language": language, "code": "print(1)"});
    let all = ["process", "container"];

    let (outcome, ran) = call(engines(), &all, code("python")).await;
    assert_eq!(structured(&outcome)["backend"], "wasm");
    assert_eq!(structured(&outcome).get("note"), None);
    assert_eq!((outcome.receipt().fuel, ran.len()), (Some(7), 0));

    let (outcome, ran) = call(engines(), &all, code("bash")).await;
    let report = structured(&outcome);
    assert_eq!(report["backend"], "process");
    assert_eq!(report["note"], "no engine runs bash in WebAssembly here");
    assert_eq!(ran, [CommandTarget::HostPrograms]);

    let (outcome, ran) = call(engines(), &["container"], code("javascript")).await;
    let report = structured(&outcome);
    assert_eq!(report["backend"], "container");
    let note = report["note"].as_str().unwrap();
    assert!(note.contains("process: no `node` in process"), "{note}");
    assert_eq!(ran, [CommandTarget::Container(CodeLanguage::Javascript)]);

    let (outcome, ran) = call(Vec::new(), &[], code("python")).await;
    let error = outcome.result().unwrap_err();
    assert_eq!((error.code, ran.len()), (ToolErrorCode::Unavailable, 0));
    assert!(error.message.contains("container: no `python3`"), "{error}");
    assert!(
        error.remedies[0].contains("sandbox.images: {python: IMAGE}"),
        "{error:?}"
    );
}

#[tokio::test]
async fn backend_explicit_has_no_fallback() {
    let (outcome, ran) = call(
        Vec::new(),
        &["process", "container"],
        json!({"language": "bash", "code": "x", "backend": "wasm"}),
    )
    .await;
    let error = outcome.result().unwrap_err();
    assert_eq!((error.code, ran.len()), (ToolErrorCode::Unavailable, 0));
    assert!(error.remedies[0].contains("backend: process"), "{error:?}");

    let (outcome, ran) = call(
        vec![Arc::new(Python(0))],
        &["container"],
        json!({"language": "python", "code": "x", "backend": "process"}),
    )
    .await;
    let error = outcome.result().unwrap_err();
    assert_eq!((error.code, ran.len()), (ToolErrorCode::Unavailable, 0));
}

#[tokio::test]
async fn backend_note_lists_engine_limits_on_failure() {
    let (outcome, _) = call(
        vec![Arc::new(Python(1))],
        &[],
        json!({"language": "python", "code": "x"}),
    )
    .await;
    let report = structured(&outcome);
    assert_eq!(
        (&report["exitCode"], &report["note"]),
        (&json!(1), &json!("there are no sockets"))
    );
}
