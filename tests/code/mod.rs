//! Code in WebAssembly: it behaves as in the real interpreters, and harmful code is stopped.
//!
//! A tool of this test passes code directly to the engines, so that nothing else can affect the result.

mod agreement;
mod calculator;
mod hostile;
mod library;
mod node;
mod sessions;
mod tools;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_audit::FileAuditSink;
use mimir_core::approval::NoApprovalStore;
use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::call::CallObserver;
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::NoCommandRunner;
use mimir_core::config::Config;
use mimir_core::needs::{DirectoryAccess, FileNeed, Needs};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::pipeline::{PipelinePorts, PipelineSnapshot};
use mimir_core::redact::Redactor;
use mimir_core::tool::{
    RiskLevel, Tool, ToolDefinition, ToolGroup, ToolHints, ToolName, ToolOrigin, ToolSource,
    ToolTrust,
};
use mimir_core::{
    ApprovalAnswer, Approved, Approver, Call, CallContext, Card, Clock, Decision, Outcome,
    Pipeline, Policy, Registry, RequestId, Schema,
};
use mimir_kit::engines;
use mimir_script::{CodeEngine, CodeEngines, CodeSnippet, ScriptFolder};
use mimir_wasm::{HostOptions, LoadedTools, SystemClock, WasmHost};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace for running code.
pub struct CodeFixture {
    workspace: TempDir,
    _state: TempDir,
    pipeline: Pipeline,
    engines: Arc<CodeEngines>,
    runtime: tokio::runtime::Runtime,
}

/// Result of code.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeResult {
    pub stdout: String,
    pub code: i64,
    pub stderr: String,
}

struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let remedy = String::new();
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

struct Runs(Arc<CodeEngines>);

impl Backend for Runs {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let given = call.arguments();
            let texts = |key: &str| -> Vec<String> {
                let all = given[key].as_array().cloned().unwrap_or_default();
                all.iter()
                    .map(|one| one.as_str().unwrap().to_owned())
                    .collect()
            };
            let timeout = given["timeout"].as_u64().unwrap_or(600_000);
            let snippet = CodeSnippet {
                language: serde_json::from_value::<CodeLanguage>(given["language"].clone())
                    .unwrap(),
                code: given["code"].as_str().unwrap().to_owned(),
                arguments: texts("args"),
                environment: vec![("GREETING".to_owned(), "hi".to_owned())],
                stdin: given["stdin"].as_str().unwrap_or_default().into(),
                directory: given["in"].as_str().map(str::to_owned),
                timeout: Duration::from_millis(timeout),
                session: given["session"].as_str().map(str::to_owned),
            };
            let ran = self.0.run(&call, &snippet).await;
            let result = ran.result.map(|finished| ToolOutput {
                content: vec![Content::text(
                    json!({
                        "stdout": ends(&finished.stdout.bytes),
                        "stderr": ends(&finished.stderr.bytes),
                        "code": finished.exit_code,
                        "missing": finished.stdout.omitted_bytes,
                    })
                    .to_string(),
                )],
                structured: None,
                exit_code: Some(finished.exit_code),
            });
            RawResult {
                result,
                usage: ran.usage,
                truncated: false,
            }
        })
    }
}

/// Sanitises text as it is done for a model: some characters would otherwise be escaped in JSON.
fn plain(text: &str) -> String {
    mimir_core::text::sanitize(text.to_owned())
}

/// Output as text, shortened if it exceeds the limit of a result.
fn ends(bytes: &[u8]) -> String {
    let text = plain(&String::from_utf8_lossy(bytes));
    if text.len() < 20_000 {
        return text;
    }
    match text.find("bytes are missing") {
        Some(at) => text[at..at + 17].to_owned(),
        None => text.chars().take(1_000).collect(),
    }
}

fn tool(engines: Arc<CodeEngines>, access: DirectoryAccess, callable: Vec<String>) -> Tool {
    let needs = Needs {
        files: vec![FileNeed {
            path: ".".to_owned(),
            access,
            reason: "the test says so".to_owned(),
        }],
        tools: callable,
        ..Needs::default()
    };
    Tool {
        definition: ToolDefinition {
            name: ToolName::new("run").unwrap(),
            title: None,
            description: "Runs code.".to_owned(),
            group: ToolGroup::Runtime,
            input_schema: Schema::parse(r#"{"type": "object"}"#).unwrap(),
            output_schema: None,
            silent: false,
            approval: Decision::Allow,
            risk: RiskLevel::Low,
            hints: ToolHints::default(),
            needs: needs.clone(),
        },
        aliases: Vec::new(),
        source: ToolSource::BuiltIn,
        origin: Arc::new(ToolOrigin {
            prefix: String::new(),
            plugin: "run".to_owned(),
            version: String::new(),
            location: "the test".to_owned(),
            digest: String::new(),
            declares_needs: true,
            proofs: Vec::new(),
            listed: Vec::new(),
            imports: Vec::new(),
        }),
        trust: ToolTrust::Trusted,
        granted: needs,
        flags: Vec::new(),
        changes: None,
        assessed: false,
        off: false,
        enforced: false,
        token_cost: None,
        backend: Arc::new(Runs(engines)),
    }
}

impl CodeFixture {
    pub fn new() -> Self {
        Self::with(DirectoryAccess::ReadWrite)
    }

    pub fn with(access: DirectoryAccess) -> Self {
        Self::with_tools(access, &[])
    }

    /// Creates a workspace with these tools in YAML files, with all their needs granted.
    pub fn with_tools(access: DirectoryAccess, tools: &[(&str, &str)]) -> Self {
        Self::with_settings(access, tools, json!({}))
    }

    /// Creates a workspace with these limits of each call.
    pub fn with_limits(limits: Value) -> Self {
        Self::with_settings(DirectoryAccess::ReadWrite, &[], json!({ "limits": limits }))
    }

    fn with_settings(access: DirectoryAccess, tools: &[(&str, &str)], settings: Value) -> Self {
        let (approver, clock) = (Arc::new(NoApprover), Arc::new(SystemClock));
        Self::with_ports(access, tools, settings, approver, clock)
    }

    fn with_ports(
        access: DirectoryAccess,
        tools: &[(&str, &str)],
        settings: Value,
        approver: Arc<dyn Approver>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let folder = workspace.path().join(".mimir/tools");
        for (name, text) in tools {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), text).unwrap();
        }
        let mut options = HostOptions::new(workspace.path());
        // The cache is shared, because the engines take seconds to compile.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("code-cache");
        options.cache_dir = Some(cache);
        let scripts = ScriptFolder::new(WasmHost::new(options), engines(), folder);
        let mut loaded = LoadedTools {
            scripts: tools.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..LoadedTools::default()
        };
        scripts.add_tools_to(&mut loaded);
        assert!(loaded.quarantined.is_empty(), "{:?}", loaded.quarantined);
        let own = |tool: &Tool| tool.source == ToolSource::Custom;
        let mut all: Vec<Tool> = loaded.tools.into_iter().filter(own).collect();
        for tool in &mut all {
            tool.granted = tool.definition.needs.clone();
            tool.trust = ToolTrust::Trusted;
        }
        let callable = all.iter().map(|tool| tool.name().to_string()).collect();
        all.push(tool(Arc::clone(scripts.engines()), access, callable));
        let config: Config = serde_json::from_value(settings).unwrap();
        let state = tempfile::tempdir().unwrap();
        let world = PipelineSnapshot {
            registry: Registry::new(all, Vec::new()),
            policy: Policy::new(&config, "the test").unwrap(),
        };
        let ports = PipelinePorts {
            approver,
            approval_store: Arc::new(NoApprovalStore),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(FileAuditSink::new(
                state.path().join("audit.jsonl"),
                config.audit,
            )),
            clock,
            runner: Arc::new(NoCommandRunner),
            model: Arc::new(mimir_core::language_model::NoLanguageModel),
        };
        Self {
            workspace,
            _state: state,
            pipeline: Pipeline::new(world, ports),
            engines: Arc::clone(scripts.engines()),
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.workspace.path()
    }

    pub fn call(&self, arguments: Value) -> Outcome {
        self.call_tool("run", arguments)
    }

    pub fn call_tool(&self, name: &str, arguments: Value) -> Outcome {
        self.observed(name, arguments, None)
    }

    /// Runs a call with an observer.
    pub fn observed(
        &self,
        name: &str,
        arguments: Value,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Outcome {
        let context = CallContext {
            request_id: RequestId::new(SystemTime::now()),
            session_id: "test".to_owned(),
            conversation_id: None,
            user: None,
        };
        let mut call = Call::new(name, arguments, context);
        if let Some(observer) = observer {
            call.observer = observer;
        }
        self.runtime.block_on(self.pipeline.call(call))
    }

    /// Runs code that must end.
    pub fn run(&self, language: &str, code: &str) -> CodeResult {
        let outcome = self.call(json!({
            "language": language, "code": code, "args": ["one", "two words"], "stdin": "a b\nc\n",
        }));
        code_result(&outcome)
    }
}

pub fn code_result(outcome: &Outcome) -> CodeResult {
    assert!(outcome.is_ok(), "{}", outcome.text());
    let told: Value = serde_json::from_str(&outcome.text()).unwrap();
    CodeResult {
        stdout: told["stdout"].as_str().unwrap().to_owned(),
        code: told["code"].as_i64().unwrap(),
        stderr: told["stderr"].as_str().unwrap().to_owned(),
    }
}
