//! mimir in this process, set up as on the command line: tools from a folder, rules, an audit log in a file.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use mimir_audit::{AuditLog, FileAuditSink, verify};
use mimir_core::approval::NoApprovalStore;
use mimir_core::config::Config;
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::redact::Redactor;
use mimir_core::{
    ApprovalAnswer, Approver, BoxFuture, Call, CallContext, Card, Decision, Outcome, Pipeline,
    Policy, Registry, RequestId,
};
use mimir_kit::{builtins, engines};
use mimir_process::SandboxRunner;
use mimir_script::ScriptFolder;
use mimir_wasm::{BundledComponent, HostOptions, SystemClock, Toolbox, WasmHost};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with tools, and a pipeline for it.
pub struct Subject {
    folder: TempDir,
    pipeline: Pipeline,
}

/// Approval handler for benches, where no person is available; the settings say what may run.
struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let remedy = String::new();
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

impl Subject {
    /// Creates a temporary workspace with these files as tools, each under its own name.
    pub async fn with_plugins(
        plugins: impl IntoIterator<Item = (String, Vec<u8>)>,
        config: Value,
    ) -> Self {
        let folder = folder();
        let workspace = folder.path().join("workspace");
        let tools = workspace.join(".mimir/tools");
        std::fs::create_dir_all(&tools).unwrap();
        for (name, bytes) in plugins {
            std::fs::write(tools.join(format!("{name}.wasm")), bytes).unwrap();
        }
        Self::at(folder, &workspace, Vec::new(), config).await
    }

    /// Creates a temporary workspace with this script.
    pub async fn with_script(name: &str, text: &str) -> Self {
        let folder = folder();
        let workspace = folder.path().join("workspace");
        let tools = workspace.join(".mimir/tools");
        std::fs::create_dir_all(&tools).unwrap();
        std::fs::write(tools.join(format!("{name}.yml")), text).unwrap();
        // No person can approve, and the script's output makes the session untrusted.
        let config = json!({"tools": {"run_code": {
            "approval": "allow",
            "labels": {"acceptsUntrusted": true},
        }}});
        Self::at(folder, &workspace, Vec::new(), config).await
    }

    /// Creates a subject with the built-in tools in an existing folder. mimir's own files are stored elsewhere.
    pub async fn with_builtins(workspace: &Path) -> Self {
        Self::with_builtins_in(folder(), workspace).await
    }

    /// Creates the same subject, with mimir's own files in `folder`, which may already contain them.
    pub async fn with_builtins_in(folder: TempDir, workspace: &Path) -> Self {
        Self::at(folder, workspace, builtins(), json!({})).await
    }

    async fn at(
        folder: TempDir,
        workspace: &Path,
        bundled: Vec<BundledComponent>,
        config: Value,
    ) -> Self {
        let mut options = HostOptions::new(workspace);
        options.cache_dir = Some(folder.path().join("cache"));
        let tools = workspace.join(".mimir/tools");
        let host = WasmHost::new(options);
        let toolbox = Toolbox::new(Arc::clone(&host), bundled, Some(tools.clone()));
        let mut loaded = toolbox.load().await;
        ScriptFolder::new(host, engines(), tools).add_tools_to(&mut loaded);
        assert!(loaded.quarantined.is_empty(), "{:?}", loaded.quarantined);
        let config: Config = serde_json::from_value(config).unwrap();
        let world = PipelineSnapshot {
            registry: Registry::new(loaded.tools, loaded.quarantined),
            policy: Policy::new(&config, "the bench").unwrap(),
        };
        let ports = PipelinePorts {
            approver: Arc::new(Nobody),
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(FileAuditSink::new(
                folder.path().join("audit.jsonl"),
                config.audit,
            )),
            clock: Arc::new(SystemClock),
            runner: Arc::new(SandboxRunner::new(workspace, config.sandbox.clone())),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        Self {
            folder,
            pipeline: Pipeline::new(world, ports),
        }
    }

    /// The decision about a call, without running it.
    pub async fn decided(&self, tool: &str, arguments: Value) -> Decision {
        let call = Call::new(tool, arguments, context());
        let explanation = self.pipeline.explain(call).await.unwrap();
        explanation.evaluation.decision()
    }

    /// Runs a call that must succeed.
    pub async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let call = Call::new(tool, arguments, context());
        let outcome = self.pipeline.call(call).await;
        assert!(outcome.is_ok(), "{}", outcome.text());
        outcome
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Number of calls in the audit log, which must verify.
    pub fn recorded(&self) -> usize {
        let log = AuditLog::at(self.folder.path().join("audit.jsonl"));
        let report = verify(&log.snapshot().unwrap(), None, None).unwrap();
        assert!(report.ok, "{:?}", report.findings);
        // Each full file ends with a line about itself.
        report.head.seq as usize - report.files.saturating_sub(1)
    }
}

fn context() -> CallContext {
    CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: "bench".to_owned(),
        conversation_id: None,
        user: None,
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("mimir-bench-")
        .tempdir()
        .unwrap()
}
