//! Code in WebAssembly: it behaves as in the real interpreters, and harmful code is stopped.
//!
//! A tool of this test passes code directly to the engines, so that nothing else can affect the result.

mod agreement;
mod calculator;
mod hostile;
mod library;
mod node;
mod sessions;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_audit::FileAudit;
use mimir_core::approval::NoLedger;
use mimir_core::backend::{Backend, BoxFuture, Raw};
use mimir_core::call::Observer;
use mimir_core::code::{Engine, Language, Snippet};
use mimir_core::command::NoRunner;
use mimir_core::config::Config;
use mimir_core::needs::{Access, FileNeed, Needs};
use mimir_core::outcome::{Content, Output};
use mimir_core::pipeline::{Ports, World};
use mimir_core::redact::Redactor;
use mimir_core::tool::{Definition, Group, Hints, Origin, Risk, Source, Tool, ToolName, Trust};
use mimir_core::{
    Answer, Approved, Approver, Call, CallContext, Card, Decision, Outcome, Pipeline, Policy,
    Registry, RequestId, Schema,
};
use mimir_kit::engines;
use mimir_script::{CodeEngines, Scripts};
use mimir_wasm::{HostOptions, Loaded, SystemClock, WasmHost};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace for running code.
pub struct Place {
    workspace: TempDir,
    _state: TempDir,
    pipeline: Pipeline,
    engines: Arc<CodeEngines>,
    runtime: tokio::runtime::Runtime,
}

/// Result of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub stdout: String,
    pub code: i64,
    pub stderr: String,
}

struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, Answer> {
        let way_out = String::new();
        Box::pin(std::future::ready(Answer::Nobody { way_out }))
    }
}

struct Runs(Arc<CodeEngines>);

impl Backend for Runs {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let given = call.arguments();
            let texts = |key: &str| -> Vec<String> {
                let all = given[key].as_array().cloned().unwrap_or_default();
                all.iter()
                    .map(|one| one.as_str().unwrap().to_owned())
                    .collect()
            };
            let timeout = given["timeout"].as_u64().unwrap_or(600_000);
            let snippet = Snippet {
                language: serde_json::from_value::<Language>(given["language"].clone()).unwrap(),
                code: given["code"].as_str().unwrap().to_owned(),
                arguments: texts("args"),
                environment: vec![("GREETING".to_owned(), "hi".to_owned())],
                stdin: given["stdin"].as_str().unwrap_or_default().into(),
                directory: given["in"].as_str().map(str::to_owned),
                timeout: Duration::from_millis(timeout),
                session: given["session"].as_str().map(str::to_owned),
            };
            let ran = self.0.run(&call, &snippet).await;
            let result = ran.result.map(|finished| Output {
                content: vec![Content::text(
                    json!({
                        "stdout": ends(&finished.stdout.bytes),
                        "stderr": ends(&finished.stderr.bytes),
                        "code": finished.exit_code,
                        "missing": finished.stdout.missing,
                    })
                    .to_string(),
                )],
                structured: None,
                exit_code: Some(finished.exit_code),
            });
            Raw {
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

fn tool(engines: Arc<CodeEngines>, access: Access) -> Tool {
    let needs = Needs {
        files: vec![FileNeed {
            path: ".".to_owned(),
            access,
            reason: "the test says so".to_owned(),
        }],
        ..Needs::default()
    };
    Tool {
        definition: Definition {
            name: ToolName::new("run").unwrap(),
            title: None,
            description: "Runs code.".to_owned(),
            group: Group::Runtime,
            input_schema: Schema::parse(r#"{"type": "object"}"#).unwrap(),
            output_schema: None,
            silent: false,
            approval: Decision::Allow,
            risk: Risk::Low,
            hints: Hints::default(),
            needs: needs.clone(),
        },
        aliases: Vec::new(),
        source: Source::BuiltIn,
        origin: Arc::new(Origin {
            prefix: String::new(),
            plugin: "run".to_owned(),
            version: String::new(),
            location: "the test".to_owned(),
            digest: String::new(),
            speaks: true,
            proofs: Vec::new(),
            listed: Vec::new(),
            imports: Vec::new(),
        }),
        trust: Trust::Trusted,
        granted: needs,
        flags: Vec::new(),
        changes: None,
        assessed: false,
        off: false,
        token_cost: None,
        backend: Arc::new(Runs(engines)),
    }
}

impl Place {
    pub fn new() -> Self {
        Self::with(Access::ReadWrite)
    }

    pub fn with(access: Access) -> Self {
        Self::with_tools(access, &[])
    }

    /// Creates a workspace with these tools in YAML files, with all their needs granted.
    pub fn with_tools(access: Access, tools: &[(&str, &str)]) -> Self {
        Self::with_settings(access, tools, json!({}))
    }

    /// Creates a workspace with these limits of each call.
    pub fn with_limits(limits: Value) -> Self {
        Self::with_settings(Access::ReadWrite, &[], json!({ "limits": limits }))
    }

    fn with_settings(access: Access, tools: &[(&str, &str)], settings: Value) -> Self {
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
        let scripts = Scripts::new(WasmHost::new(options), engines(), folder);
        let mut loaded = Loaded {
            scripts: tools.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..Loaded::default()
        };
        scripts.join(&mut loaded);
        assert!(loaded.quarantined.is_empty(), "{:?}", loaded.quarantined);
        let own = |tool: &Tool| tool.source == Source::Custom;
        let mut all: Vec<Tool> = loaded.tools.into_iter().filter(own).collect();
        for tool in &mut all {
            tool.granted = tool.definition.needs.clone();
            tool.trust = Trust::Trusted;
        }
        all.push(tool(Arc::clone(scripts.engines()), access));
        let config: Config = serde_json::from_value(settings).unwrap();
        let state = tempfile::tempdir().unwrap();
        let world = World {
            registry: Registry::new(all, Vec::new()),
            policy: Policy::new(&config, "the test").unwrap(),
        };
        let ports = Ports {
            approver: Arc::new(Nobody),
            ledger: Arc::new(NoLedger),
            vault: Arc::new(Redactor::new()),
            audit: Arc::new(FileAudit::new(
                state.path().join("audit.jsonl"),
                config.audit,
            )),
            clock: Arc::new(SystemClock),
            runner: Arc::new(NoRunner),
            model: Arc::new(mimir_core::model::NoModel),
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
        observer: Option<Arc<dyn Observer>>,
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
    pub fn run(&self, language: &str, code: &str) -> Left {
        let outcome = self.call(json!({
            "language": language, "code": code, "args": ["one", "two words"], "stdin": "a b\nc\n",
        }));
        left(&outcome)
    }
}

pub fn left(outcome: &Outcome) -> Left {
    assert!(outcome.is_ok(), "{}", outcome.text());
    let told: Value = serde_json::from_str(&outcome.text()).unwrap();
    Left {
        stdout: told["stdout"].as_str().unwrap().to_owned(),
        code: told["code"].as_i64().unwrap(),
        stderr: told["stderr"].as_str().unwrap().to_owned(),
    }
}
