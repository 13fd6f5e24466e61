//! Restrictions of workers: they get only those tools of their toolsets that their caller has, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mimir_agent::{Worker, WorkerSettings};
use mimir_core::config::AgentBudget;
use mimir_core::needs::{CommandNeed, FileNeed};
use mimir_core::outcome::{DataClass, ToolOutput, TrustLevel};
use mimir_core::pipeline::{Approved, PipelineSnapshot};
use mimir_core::tool::{ToolDefinition, ToolHints, ToolOrigin, ToolTrust};
use mimir_core::{
    ApprovalAnswer, Backend, BoxFuture, Call, CallContext, Content, Decision, DirectoryAccess,
    Needs, Outcome, Policy, RawResult, Registry, RequestId, RiskLevel, Schema, Tool, ToolErrorCode,
    ToolGroup, ToolName, ToolSource,
};
use mimir_kit::TestPipeline;
use serde_json::{Value, json};

/// A backend that returns `done`.
struct Done;

impl Backend for Done {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        let output = ToolOutput {
            content: vec![Content::text("done")],
            ..ToolOutput::default()
        };
        Box::pin(std::future::ready(RawResult::from(Ok(output))))
    }
}

/// Creates a custom tool without needs that is allowed by default.
pub fn tool(name: &str) -> Tool {
    let definition = ToolDefinition {
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
    };
    let origin = ToolOrigin {
        declares_needs: true,
        plugin: name.into(),
        version: "1.0.0".into(),
        location: format!("{name}.wasm"),
        digest: "00".into(),
        ..ToolOrigin::default()
    };
    Tool::new(
        definition,
        ToolSource::Custom,
        Arc::new(origin),
        ToolTrust::Harmless,
        Arc::new(Done),
    )
}

pub fn snapshot_with(tools: Vec<Tool>, settings: Value) -> PipelineSnapshot {
    let settings = serde_json::from_value(settings).unwrap();
    PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&settings, "config.yml").unwrap(),
    }
}

pub fn call(tool: &str, arguments: Value) -> Call {
    let context = CallContext {
        request_id: RequestId::new(SystemTime::now()),
        session_id: "session".into(),
        conversation_id: None,
        user: None,
    };
    Call::new(tool, arguments, context)
}

pub fn code(outcome: &Outcome) -> Option<ToolErrorCode> {
    outcome.result().err().map(|error| error.code)
}

fn worker(name: &str, settings: Value) -> Result<Worker, (String, String)> {
    let settings: WorkerSettings =
        serde_json::from_value(settings).map_err(|error| (String::new(), error.to_string()))?;
    let lines = BTreeMap::from([("toolsets.shell.rules[1]".to_owned(), 7)]);
    Worker::new(name, ".mimir/workers/w.yml", lines, settings)
}

pub fn with_toolsets(toolsets: Value) -> Worker {
    worker("w", json!({"instructions": "Work.", "toolsets": toolsets})).unwrap()
}

/// Creates built-in tools, custom tools and tools of servers.
fn tools() -> Vec<Tool> {
    let built_in = |name: &str, group: ToolGroup, read_only: bool| {
        let mut tool = tool(name);
        tool.source = ToolSource::BuiltIn;
        tool.trust = ToolTrust::Trusted;
        tool.definition.group = group;
        tool.definition.hints.read_only = read_only;
        tool
    };
    let mut exec = built_in("exec", ToolGroup::Runtime, false);
    exec.definition.input_schema =
        Schema::parse(r#"{"type":"object","properties":{"command":{"type":"string"}}}"#).unwrap();
    exec.definition.needs.commands = vec![CommandNeed {
        pattern: "*".into(),
        reason: String::new(),
    }];
    exec.granted = exec.definition.needs.clone();
    let mut call = built_in("worker_call", ToolGroup::System, false);
    call.definition.input_schema =
        Schema::parse(r#"{"type":"object","properties":{"worker":{"type":"string"}}}"#).unwrap();
    let of_file = |name: &str, file: &str| {
        let mut tool = tool(name);
        Arc::get_mut(&mut tool.origin).unwrap().location = format!(".mimir/tools/{file}");
        tool
    };
    let mut silent = of_file("fibonacci", "math.yml");
    silent.definition.silent = true;
    let mut prefixed = of_file("m_fib", "prefixed.wasm");
    Arc::get_mut(&mut prefixed.origin).unwrap().prefix = "m_".into();
    let of_server = |name: &str, server: &str| {
        let mut tool = tool(name);
        Arc::get_mut(&mut tool.origin).unwrap().location = format!("mcp:{server}");
        tool.source = ToolSource::Mcp;
        tool
    };
    vec![
        built_in("read_file", ToolGroup::Fs, true),
        built_in("write_file", ToolGroup::Fs, false),
        exec,
        call,
        built_in("run_code", ToolGroup::Runtime, false),
        built_in("web_fetch", ToolGroup::Net, true),
        built_in("memory_get", ToolGroup::Memory, true),
        silent,
        of_file("factorial", "math.yml"),
        of_file("other", "other.wasm"),
        of_file("two_words", "tools.wasm"),
        prefixed,
        of_server("mcp_hub_issues", "hub"),
        // The server's own name is `repos/listPRs`.
        of_server("mcp_git_hub_repos_list_prs", "gitHub"),
        of_server("mcp_git_hub_httpget", "gitHub"),
        of_server("mcp_my_hub_list_pulls", "my-hub"),
        of_server("fg_issues", "forge"),
    ]
}

pub fn names(worker: &Worker, snapshot: &PipelineSnapshot) -> Vec<String> {
    let restricted = worker.restrict(snapshot);
    let tools = restricted.registry.tools().iter();
    tools.map(|tool| tool.name().to_string()).collect()
}

#[tokio::test]
async fn worker_has_only_the_tools_of_its_toolsets() {
    let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
    let snapshot = bench.pipeline.snapshot();
    for (toolsets, expected) in [
        (json!({}), &[][..]),
        (json!({"filesystem": {}}), &["read_file", "write_file"]),
        (json!({"filesystem": {"readOnly": true}}), &["read_file"]),
        (json!({"shell": {}}), &["exec"]),
        (
            json!({"code": {}, "web": {}, "memory": {}}),
            &["memory_get", "run_code", "web_fetch"],
        ),
        (json!({"workers": ["other"]}), &["worker_call"]),
        (
            json!({"custom": {"module": "./math.yml", "tools": ["fibonacci"]}}),
            &["fibonacci"],
        ),
        (
            json!({"custom": {"module": "math", "tools": ["fibonacci", "other"]}}),
            &["fibonacci"],
        ),
        // A plugin, by its source module and the name that the module exports.
        (
            json!({"custom": {"module": "./tools.ts", "tools": ["twoWords"]}}),
            &["two_words"],
        ),
        (
            json!({"custom": {"module": "./tools.yml", "tools": ["twoWords"]}}),
            &[],
        ),
        // With and without the tool's prefix.
        (
            json!({"custom": {"module": "prefixed", "tools": ["mFib"]}}),
            &["m_fib"],
        ),
        (
            json!({"custom": {"module": "prefixed", "tools": ["fib"]}}),
            &["m_fib"],
        ),
        (
            json!({"mcp": {"hub": {"tools": ["issues"]}}}),
            &["mcp_hub_issues"],
        ),
        (
            json!({"mcp": {"hub": {"tools": ["mcp_hub_issues"]}}}),
            &["mcp_hub_issues"],
        ),
        (json!({"mcp": {"hub": {"tools": ["pulls"]}}}), &[]),
        (json!({"mcp": {"hub": {}}}), &["mcp_hub_issues"]),
        // The server's own spelling.
        (
            json!({"mcp": {"my-hub": {"tools": ["listPulls"]}}}),
            &["mcp_my_hub_list_pulls"],
        ),
        (
            json!({"mcp": {"gitHub": {"tools": ["repos/listPRs"]}}}),
            &["mcp_git_hub_repos_list_prs"],
        ),
        (
            json!({"mcp": {"gitHub": {"tools": ["HTTPGet"]}}}),
            &["mcp_git_hub_httpget"],
        ),
        (json!({"mcp": {"my-hub": {"tools": ["pulls"]}}}), &[]),
        (json!({"mcp": {"my_hub": {}}}), &[]),
        // The settings change the prefix.
        (
            json!({"mcp": {"forge": {"tools": ["fg_issues"]}}}),
            &["fg_issues"],
        ),
        (json!({"mcp": {"forge": {"tools": ["issues"]}}}), &[]),
    ] {
        assert_eq!(
            names(&with_toolsets(toolsets.clone()), &snapshot),
            expected,
            "{toolsets}"
        );
    }
    let worker = with_toolsets(json!({"filesystem": {}}));
    let pipeline = bench
        .pipeline
        .restricted(move |snapshot| worker.restrict(snapshot));
    assert!(pipeline.call(call("read_file", json!({}))).await.is_ok());
    let outcome = pipeline.call(call("exec", json!({"command": "ls"}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::NotFound));
    // A denial for the caller also applies to the worker, even if the rules change later.
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools(), vec![]),
        policy: Policy::new(
            &serde_json::from_value(json!({"policy": {"deny": ["read_file"]}})).unwrap(),
            "config.yml",
        )
        .unwrap(),
    };
    bench.pipeline.replace(snapshot);
    let outcome = pipeline.call(call("read_file", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
}

#[tokio::test]
async fn worker_file_only_tightens_the_rules_of_the_caller() {
    let custom = |approval: Value| json!({"custom": {"module": "math", "tools": ["fibonacci", "factorial"], "approval": approval}});
    // The caller's rule for `fibonacci`, the worker's file, and true if the call needs approval. `None` is a denial.
    for (caller, own, needs_approval) in [
        ("allow", json!({"default": "preApproved"}), Some(false)),
        ("allow", json!({}), Some(true)),
        (
            "allow",
            json!({"default": "preApproved", "tools": {"fibonacci": "ask"}}),
            Some(true),
        ),
        ("allow", json!({"tools": {"fibonacci": "blocked"}}), None),
        (
            "ask",
            json!({"tools": {"fibonacci": "preApproved"}}),
            Some(true),
        ),
        ("deny", json!({"tools": {"fibonacci": "preApproved"}}), None),
    ] {
        let config = json!({"tools": {"fibonacci": {"approval": caller}}});
        let bench = TestPipeline::new(snapshot_with(tools(), config), ApprovalAnswer::Once);
        let worker = with_toolsets(custom(own.clone()));
        let pipeline = bench
            .pipeline
            .restricted(move |snapshot| worker.restrict(snapshot));
        let outcome = pipeline.call(call("fibonacci", json!({}))).await;
        let questions = bench.approver.questions();
        match needs_approval {
            Some(needs_approval) => {
                assert!(outcome.is_ok(), "{caller} {own}: {outcome:?}");
                assert_eq!(questions, usize::from(needs_approval), "{caller} {own}");
            }
            None => assert_eq!(
                code(&outcome),
                Some(ToolErrorCode::PolicyDenied),
                "{caller} {own}"
            ),
        }
    }
}

#[tokio::test]
async fn worker_approvals_of_server_tools_apply_by_any_name() {
    let issues = |approval: Value| json!({"hub": {"approval": {"default": "preApproved", "tools": approval}}});
    let pulls = |name: &str| json!({"my-hub": {"tools": [name], "approval": {"default": "preApproved", "tools": {name: "blocked"}}}});
    for (servers, tool, expected) in [
        (issues(json!({})), "mcp_hub_issues", Decision::Allow),
        (
            issues(json!({"issues": "blocked"})),
            "mcp_hub_issues",
            Decision::Deny,
        ),
        (
            issues(json!({"issues": "ask"})),
            "mcp_hub_issues",
            Decision::Ask,
        ),
        (
            issues(json!({"mcp_hub_issues": "blocked"})),
            "mcp_hub_issues",
            Decision::Deny,
        ),
        // The strictest entry applies.
        (
            issues(json!({"issues": "blocked", "mcp_hub_issues": "preApproved"})),
            "mcp_hub_issues",
            Decision::Deny,
        ),
        (pulls("listPulls"), "mcp_my_hub_list_pulls", Decision::Deny),
        (pulls("list-pulls"), "mcp_my_hub_list_pulls", Decision::Deny),
        // A misspelt name makes nothing milder.
        (
            issues(json!({"isues": "blocked"})),
            "mcp_hub_issues",
            Decision::Deny,
        ),
        (
            json!({"hub": {"approval": {"default": "blocked", "tools": {"isues": "preApproved"}}}}),
            "mcp_hub_issues",
            Decision::Deny,
        ),
        (
            issues(json!({"isues": "blocked", "issues": "ask"})),
            "mcp_hub_issues",
            Decision::Ask,
        ),
    ] {
        let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
        let worker = with_toolsets(json!({"mcp": servers.clone()}));
        let pipeline = bench
            .pipeline
            .restricted(move |snapshot| worker.restrict(snapshot));
        let explained = pipeline.explain(call(tool, json!({}))).await.unwrap();
        assert_eq!(explained.evaluation.decision(), expected, "{servers}");
    }
}

#[tokio::test]
async fn worker_approvals_of_tools_that_only_the_caller_lacks_affect_no_others() {
    let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
    let outer = with_toolsets(json!({"mcp": {"gitHub": {"tools": ["HTTPGet"],
        "approval": {"default": "preApproved"}}}}));
    let inner = with_toolsets(json!({"mcp": {"gitHub": {
        "approval": {"default": "preApproved", "tools": {"repos/listPRs": "blocked"}}}}}));
    let outer = bench
        .pipeline
        .restricted(move |snapshot| outer.restrict(snapshot));
    assert_eq!(
        inner.missing_names(&outer.snapshot()),
        ["the tool `repos/listPRs` of the server `gitHub` (.mimir/workers/w.yml)"]
    );
    let pipeline = outer.restricted(move |snapshot| inner.restrict(snapshot));
    let explained = pipeline
        .explain(call("mcp_git_hub_httpget", json!({})))
        .await;
    assert_eq!(explained.unwrap().evaluation.decision(), Decision::Allow);
}

#[tokio::test]
async fn worker_shell_rules_judge_each_simple_command() {
    let shell = json!({"shell": {"rules": [
        {"pattern": "git ", "approval": "preApproved"},
        {"pattern": "git push *", "approval": "blocked"},
        {"pattern": "make *", "approval": "ask"},
    ]}});
    let open = json!({"shell": {"default": "preApproved", "rules": [
        {"pattern": "docker rm *", "approval": "blocked"},
    ]}});
    let mut blocked = shell.clone();
    blocked["shell"]["default"] = json!("blocked");
    for (toolsets, command, decision) in [
        (&shell, "git status", Decision::Allow),
        (&shell, "git", Decision::Allow),
        (&shell, "git push origin", Decision::Deny),
        (&shell, "git status; git push origin", Decision::Deny),
        (&shell, "git $x", Decision::Deny),
        (&shell, "/usr/bin/git push origin", Decision::Deny),
        (&shell, "git -C . push", Decision::Deny),
        (&shell, "git -c a.b=c --no-pager push", Decision::Deny),
        (&shell, "git -C . status", Decision::Allow),
        (&shell, "/opt/bin/make all", Decision::Ask),
        (&open, "docker --context x rm y", Decision::Ask),
        (&open, "docker rm y", Decision::Deny),
        (&open, "docker --context x ps", Decision::Allow),
        (&open, "ls", Decision::Allow),
        (&shell, "make all", Decision::Ask),
        (&shell, "ls", Decision::Ask),
        (&shell, "git status; ls", Decision::Ask),
        (&blocked, "ls", Decision::Deny),
    ] {
        // The caller may run everything.
        let config = json!({"execApprovals": {"mode": "full"}});
        let bench = TestPipeline::new(snapshot_with(tools(), config), ApprovalAnswer::No);
        let worker = with_toolsets(toolsets.clone());
        let pipeline = bench
            .pipeline
            .restricted(move |snapshot| worker.restrict(snapshot));
        let exec = call("exec", json!({"command": command}));
        let explained = pipeline.explain(exec).await.unwrap();
        assert_eq!(
            explained.evaluation.decision(),
            decision,
            "{command}: {:?}",
            explained.evaluation
        );
        if decision == Decision::Deny && command.contains("push") {
            let reasons = explained.evaluation.reasons();
            let sources: Vec<_> = reasons.map(|reason| reason.source.as_str()).collect();
            assert!(sources.contains(&".mimir/workers/w.yml:7"), "{sources:?}");
        }
    }
    // The worker cannot run commands that are denied for the caller.
    let bench = TestPipeline::new(
        snapshot_with(tools(), json!({"execApprovals": {"mode": "deny"}})),
        ApprovalAnswer::No,
    );
    let worker = with_toolsets(shell);
    let pipeline = bench
        .pipeline
        .restricted(move |snapshot| worker.restrict(snapshot));
    let outcome = pipeline
        .call(call("exec", json!({"command": "git status"})))
        .await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
}

#[tokio::test]
async fn worker_remedies_omit_what_would_not_help() {
    let mut all = tools();
    for tool in &mut all {
        tool.definition.approval = Decision::Ask;
    }
    let bench = TestPipeline::new(snapshot_with(all, json!({})), ApprovalAnswer::No);
    // The worker's file allows the tool, but the caller's rules ask. Accepting the worker again does not change that.
    let worker = with_toolsets(
        json!({"custom": {"module": "math", "tools": ["factorial"], "approval": {"default": "preApproved"}}}),
    );
    let pipeline = bench
        .pipeline
        .restricted(move |snapshot| worker.restrict(snapshot));
    let explained = pipeline.explain(call("factorial", json!({}))).await;
    let explained = explained.unwrap();
    let decision = explained.evaluation.decision();
    assert_eq!(decision, Decision::Ask, "{:?}", explained.evaluation);
    let remedies = explained.remedies.join("\n");
    assert!(remedies.contains("factorial"), "{remedies}");
    assert!(!remedies.contains("in force"), "{remedies}");
}

#[test]
fn worker_read_only_filesystem_applies_to_other_tools_too() {
    let mut all = tools();
    for tool in &mut all {
        let need = FileNeed {
            path: ".".into(),
            access: DirectoryAccess::ReadWrite,
            reason: String::new(),
        };
        tool.granted.files = vec![need.clone()];
        tool.definition.needs.files = vec![need];
    }
    let snapshot = PipelineSnapshot {
        registry: Registry::new(all, vec![]),
        policy: Policy::default(),
    };
    let files = |toolsets: Value, name: &str| {
        let restricted = with_toolsets(toolsets).restrict(&snapshot);
        let tool = restricted.registry.get(name).unwrap();
        assert_eq!(tool.granted.files, tool.definition.needs.files);
        tool.granted.files.first().map(|need| need.access)
    };
    let reads = json!({"filesystem": {"readOnly": true}, "code": {}, "shell": {}, "memory": {},
        "custom": {"module": "math", "tools": ["fibonacci"]}});
    for name in ["run_code", "exec", "fibonacci", "read_file"] {
        assert_eq!(
            files(reads.clone(), name),
            Some(DirectoryAccess::Read),
            "{name}"
        );
    }
    assert_eq!(files(reads, "memory_get"), Some(DirectoryAccess::ReadWrite));
    assert_eq!(files(json!({"code": {}}), "run_code"), None);
    assert_eq!(
        files(json!({"shell": {}}), "exec"),
        Some(DirectoryAccess::ReadWrite)
    );
    let writes = json!({"filesystem": {}, "code": {}});
    assert_eq!(files(writes, "run_code"), Some(DirectoryAccess::ReadWrite));
}

#[tokio::test]
async fn worker_of_a_worker_has_the_common_tools() {
    let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
    let reads = with_toolsets(json!({"filesystem": {"readOnly": true}, "workers": ["files"]}));
    let files = with_toolsets(json!({"filesystem": {}, "shell": {}}));
    let outer = bench
        .pipeline
        .restricted(move |snapshot| reads.restrict(snapshot));
    let inner = outer.restricted(move |snapshot| files.restrict(snapshot));
    let snapshot = inner.snapshot();
    let tools: Vec<_> = snapshot
        .registry
        .tools()
        .iter()
        .map(|tool| tool.name().as_str())
        .collect();
    assert_eq!(tools, ["read_file"]);
    for (worker, expected) in [
        ("files", None),
        ("filesX", Some(ToolErrorCode::PolicyDenied)),
        ("", Some(ToolErrorCode::PolicyDenied)),
    ] {
        let outcome = outer
            .call(call("worker_call", json!({"worker": worker})))
            .await;
        assert_eq!(code(&outcome), expected, "{worker}");
    }
}

#[tokio::test]
async fn worker_reads_taint_the_session_of_the_caller() {
    let labels = json!({"outputTrust": "untrusted", "outputDataClass": "sensitive"});
    let config = json!({"tools": {"read_file": {"labels": labels}}});
    let bench = TestPipeline::new(snapshot_with(tools(), config), ApprovalAnswer::No);
    let worker = with_toolsets(json!({"filesystem": {}}));
    let pipeline = bench
        .pipeline
        .restricted(move |snapshot| worker.restrict(snapshot));
    pipeline.call(call("read_file", json!({}))).await;
    let label = bench.pipeline.session_label("session");
    assert_eq!(
        (label.trust, label.data_class),
        (TrustLevel::Untrusted, DataClass::Sensitive)
    );
}

#[test]
fn worker_invalid_file_error_names_the_key() {
    let of = |toolsets: Value| json!({"instructions": "x", "toolsets": toolsets});
    for (settings, key, words) in [
        (
            json!({"instructions": " "}),
            "instructions",
            "neither instructions nor toolsets",
        ),
        (
            json!({"instructions": "x", "name": "other"}),
            "name",
            "differs from the file name `w`",
        ),
        (
            json!({"instructions": "x", "tools": []}),
            "",
            "unknown field `tools`",
        ),
        (
            json!({"instructions": "x", "budget": {"maxTurns": 0}}),
            "budget",
            "budget.maxTurns",
        ),
        (
            of(json!({"filesystems": {}})),
            "",
            "unknown field `filesystems`",
        ),
        (
            of(json!({"shell": {"rules": [{"pattern": "", "approval": "ask"}]}})),
            "toolsets.shell.rules[0].pattern",
            "empty",
        ),
        (
            of(json!({"shell": {"rules": [{"pattern": "* x", "approval": "ask"}]}})),
            "toolsets.shell.rules[0].pattern",
            "wildcard",
        ),
        (
            of(json!({"shell": {"rules": [{"pattern": "x", "approval": "sometimes"}]}})),
            "",
            "unknown variant",
        ),
        (
            of(json!({"custom": {"module": "m", "tools": []}})),
            "toolsets.custom.tools",
            "`tools` is empty",
        ),
        (
            of(
                json!({"custom": {"module": "m", "tools": ["abc"], "approval": {"tools": {"abd": "ask"}}}}),
            ),
            "toolsets.custom.approval.tools",
            "`abd` is not among `tools`. Did you mean `abc`?",
        ),
        (
            of(
                json!({"mcp": {"hub": {"tools": ["issues"], "approval": {"tools": {"isues": "blocked"}}}}}),
            ),
            "toolsets.mcp.hub.approval.tools",
            "`isues` is not among `tools`. Did you mean `issues`?",
        ),
        (
            of(json!({"filesystem": {"deny": ["../x"]}})),
            "toolsets.filesystem.deny",
            "../x",
        ),
    ] {
        let error = worker("w", settings.clone()).unwrap_err();
        assert_eq!(error.0, key, "{settings}: {}", error.1);
        assert!(error.1.contains(words), "{settings}: {}", error.1);
    }
    assert!(worker("No Name", json!({"instructions": "x"})).is_err());
}

#[tokio::test]
async fn worker_missing_tools_and_servers_are_reported() {
    let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
    let snapshot = bench.pipeline.snapshot();
    let missing = |toolsets: Value| with_toolsets(toolsets).missing(&snapshot).join("\n");
    let servers = json!({"hub": {"tools": ["issues"]}, "my-hub": {"approval": {"tools": {"listPulls": "ask"}}}});
    assert_eq!(missing(json!({"filesystem": {}, "mcp": servers})), "");
    for (servers, expected) in [
        (
            json!({"hub": {"tools": ["isues"]}}),
            "the server `hub` has no tool `isues`.",
        ),
        (
            json!({"my-hub": {"approval": {"tools": {"listPuls": "blocked"}}}}),
            "the server `my-hub` has no tool `listPuls`.",
        ),
        (
            json!({"forge": {"tools": ["issues"]}}),
            "the server `forge` has no tool `issues`. Did you mean `fg_issues`?",
        ),
    ] {
        let messages = missing(json!({"mcp": servers}));
        assert!(messages.contains(expected), "{messages}");
        assert_eq!(messages.lines().count(), 1, "{messages}");
    }
    let built = json!({"custom": {"module": "./tools.ts", "tools": ["twoWords"],
        "approval": {"default": "ask", "tools": {"twoWords": "preApproved"}}}});
    assert_eq!(missing(built), "");
    let messages = missing(json!({"custom": {"module": "math", "tools": ["fibonaci"]}}));
    assert!(
        messages.contains("has no tool `fibonaci`. Did you mean `fibonacci`?"),
        "{messages}"
    );
    let messages =
        missing(json!({"custom": {"module": "./more.ts", "tools": ["x"]}, "mcp": {"hup": {}}}));
    assert!(
        messages.contains("no tools are loaded from `./more.ts`")
            && messages.contains("the server `hup`"),
        "{messages}"
    );
}

#[tokio::test]
async fn worker_denied_paths_apply_to_every_tool() {
    let bench = TestPipeline::new(snapshot_with(tools(), json!({})), ApprovalAnswer::No);
    let files = json!({"filesystem": {"deny": ["secrets/**"]}, "shell": {}});
    let snapshot = with_toolsets(files).restrict(&bench.pipeline.snapshot());
    for name in ["read_file", "exec"] {
        let tool = snapshot.registry.get(name).unwrap();
        let paths = snapshot.policy.paths(tool);
        assert!(
            paths.check("secrets/a").against_reading().is_some(),
            "{name}"
        );
        assert!(paths.check("src/a").against_reading().is_none(), "{name}");
    }
    let outer = bench.pipeline.snapshot();
    let tool = outer.registry.get("read_file").unwrap();
    assert!(
        outer
            .policy
            .paths(tool)
            .check("secrets/a")
            .against_reading()
            .is_none()
    );
}

#[test]
fn worker_budget_is_within_the_budget_of_the_caller() {
    let of = |budget: Value| {
        let worker = worker("w", json!({"instructions": "x", "budget": budget})).unwrap();
        worker.budget(AgentBudget::default())
    };
    let all = of(json!({}));
    assert_eq!(all, AgentBudget::default());
    assert_eq!(of(json!({"maxTurns": 3})).turns, 3);
    assert_eq!(of(json!({"maxToolCalls": 3})).tool_calls, 3);
    assert_eq!(of(json!({"maxTokens": 3})).tokens, 3);
    assert_eq!(of(json!({"maxCost": 0.5})).cost, Some(0.5));
    assert_eq!(of(json!({"maxTimeMs": 3})).time, Duration::from_millis(3));
    let more = json!({"maxTurns": 9999, "maxToolCalls": 9999, "maxTokens": 1u64 << 40, "maxTimeMs": 80_000_000});
    assert_eq!(of(more), all);
}
