//! Tools that only one worker has: approvals, names, and workers that were called by workers.

use std::sync::Arc;

use mimir_agent::{Worker, WorkerOwnTools, WorkerOwnToolset};
use mimir_core::needs::FileNeed;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{ApprovalAnswer, Decision, DirectoryAccess, Tool, ToolErrorCode};
use mimir_kit::TestPipeline;
use serde_json::{Value, json};

use crate::workers::{call, code, names, snapshot_with, tool, with_toolsets};

/// Creates a tool of the module `.mimir/workers/tools.ts` that leaves its approval to the worker's file.
fn own_tool(name: &str) -> Tool {
    let mut tool = tool(name);
    tool.definition.approval = Decision::Ask;
    tool.definition.silent = true;
    Arc::get_mut(&mut tool.origin).unwrap().location = ".mimir/workers/tools.ts".to_owned();
    tool
}

fn with_module(toolsets: Value, tools: Vec<Tool>) -> Worker {
    let own = WorkerOwnTools {
        toolset: WorkerOwnToolset::Module,
        tools: tools.into_iter().map(Arc::new).collect(),
    };
    with_toolsets(toolsets).with_own_tools(vec![own]).unwrap()
}

fn custom(tools: Value, approval: Value) -> Value {
    json!({"custom": {"module": "./tools.ts", "tools": tools, "approval": approval}})
}

/// Returns the code of a call by the worker, whose questions are answered with no.
async fn call_code(worker: &Worker, name: &str) -> Option<ToolErrorCode> {
    let bench = TestPipeline::new(snapshot_with(vec![], json!({})), ApprovalAnswer::No);
    let worker = worker.clone();
    let pipeline = bench
        .pipeline
        .restricted(move |snapshot| worker.restrict(snapshot));
    code(&pipeline.call(call(name, json!({}))).await)
}

#[tokio::test]
async fn own_tools_have_the_approval_of_the_worker_file() {
    for (approval, expected) in [
        (json!({}), Some(ToolErrorCode::ApprovalDenied)),
        (json!({"default": "preApproved"}), None),
        (
            json!({"default": "preApproved", "tools": {"twoWords": "ask"}}),
            Some(ToolErrorCode::ApprovalDenied),
        ),
        (
            json!({"default": "ask", "tools": {"twoWords": "preApproved"}}),
            None,
        ),
        (
            json!({"default": "blocked"}),
            Some(ToolErrorCode::PolicyDenied),
        ),
    ] {
        let worker = with_module(
            custom(json!(["twoWords"]), approval.clone()),
            vec![own_tool("two_words")],
        );
        assert_eq!(
            call_code(&worker, "two_words").await,
            expected,
            "{approval}"
        );
    }
}

#[test]
fn own_decisions_are_those_of_calls() {
    let decision = |silent: bool, author: Decision, approval: &Value| {
        let mut tool = own_tool("two_words");
        (tool.definition.silent, tool.definition.approval) = (silent, author);
        let settings = custom(json!(["two_words"]), approval.clone());
        let worker = with_module(settings, vec![tool, own_tool("unlisted")]);
        let decisions = worker.own_decisions();
        assert_eq!(decisions.len(), 1, "only listed tools");
        decisions[0].1
    };
    let (ask, allow) = (Decision::Ask, Decision::Allow);
    let approved = json!({"default": "preApproved"});
    assert_eq!(decision(true, ask, &json!({})), ask);
    assert_eq!(decision(true, ask, &approved), allow);
    assert_eq!(decision(false, ask, &approved), ask);
    assert_eq!(decision(false, allow, &json!({})), allow);
    assert_eq!(decision(false, allow, &json!({"default": "ask"})), ask);
    let named = json!({"default": "preApproved", "tools": {"two_words": "blocked"}});
    assert_eq!(decision(true, ask, &named), Decision::Deny);
}

#[tokio::test]
async fn own_tools_keep_a_stricter_approval_of_their_author() {
    let mut asking = own_tool("two_words");
    asking.definition.silent = false;
    let settings = custom(json!(["two_words"]), json!({"default": "preApproved"}));
    let worker = with_module(settings, vec![asking]);
    let denied = Some(ToolErrorCode::ApprovalDenied);
    assert_eq!(call_code(&worker, "two_words").await, denied);
}

#[test]
fn own_tools_are_only_those_listed() {
    let snapshot = snapshot_with(vec![tool("two_words")], json!({}));
    let settings = custom(json!(["listed"]), json!({}));
    let worker = with_module(
        settings.clone(),
        vec![own_tool("listed"), own_tool("other")],
    );
    assert_eq!(names(&worker, &snapshot), ["listed"]);
    assert_eq!(worker.missing(&snapshot), Vec::<String>::new());
    let own = WorkerOwnTools {
        toolset: WorkerOwnToolset::Module,
        tools: vec![Arc::new(own_tool("lister"))],
    };
    let error = with_toolsets(settings)
        .with_own_tools(vec![own])
        .unwrap_err();
    assert!(
        error
            .message
            .contains("exports no tool `listed`. Did you mean `lister`?"),
        "{error}"
    );
}

#[test]
fn own_tools_cannot_have_the_name_of_another_tool() {
    let snapshot = snapshot_with(vec![tool("fetch")], json!({}));
    let worker = with_module(custom(json!(["fetch"]), json!({})), vec![own_tool("fetch")]);
    assert_eq!(names(&worker, &snapshot), Vec::<String>::new());
    // Also if the caller itself does not have the other tool.
    let restricted = PipelineSnapshot {
        registry: snapshot.registry.only(|_| false),
        policy: snapshot.policy.clone(),
    };
    for snapshot in [&snapshot, &restricted] {
        let missing = worker.missing(snapshot).join("\n");
        let expected = "`fetch` of `./tools.ts` has the name of a tool of fetch.wasm; rename it";
        assert!(missing.contains(expected), "{missing}");
    }
    // A plugin that was built from the same module is replaced.
    let mut installed = tool("fetch");
    Arc::get_mut(&mut installed.origin).unwrap().location = ".mimir/tools/tools.wasm".to_owned();
    let snapshot = snapshot_with(vec![installed], json!({}));
    let restricted = worker.restrict(&snapshot);
    let location = &restricted.registry.get("fetch").unwrap().origin.location;
    assert_eq!(location, ".mimir/workers/tools.ts");
}

#[test]
fn own_tools_with_needs_are_not_for_workers_of_workers() {
    let mut reads = own_tool("reads");
    reads.definition.needs.files = vec![FileNeed {
        path: ".".into(),
        access: DirectoryAccess::ReadWrite,
        reason: String::new(),
    }];
    reads.granted = reads.definition.needs.clone();
    let settings = custom(json!(["reads", "pure"]), json!({}));
    let worker = with_module(settings, vec![reads, own_tool("pure")]);
    let snapshot = snapshot_with(vec![], json!({}));
    assert_eq!(names(&worker, &snapshot), ["pure", "reads"]);
    let nested = with_toolsets(json!({"filesystem": {}})).restrict(&snapshot);
    assert_eq!(names(&worker, &nested), ["pure"]);
    let missing = worker.missing_names(&nested).join("\n");
    assert!(
        missing.contains("the tool `reads` of `./tools.ts`"),
        "{missing}"
    );
    // The caller's own limits of files apply to the worker's own tools.
    let read_only = json!({"filesystem": {"readOnly": true}, "custom": {"module": "./tools.ts", "tools": ["reads"]}});
    let mut reads = own_tool("reads");
    reads.definition.needs.files = vec![FileNeed {
        path: ".".into(),
        access: DirectoryAccess::ReadWrite,
        reason: String::new(),
    }];
    let restricted = with_module(read_only, vec![reads]).restrict(&snapshot);
    let needs = &restricted.registry.get("reads").unwrap().definition.needs;
    assert_eq!(needs.files[0].access, DirectoryAccess::Read);
}

#[test]
fn own_tools_of_a_package_are_all_but_approvals_name_existing_ones() {
    let package = |approval: Value| {
        let own = WorkerOwnTools {
            toolset: WorkerOwnToolset::Package,
            tools: ["one", "two"].map(|name| Arc::new(own_tool(name))).into(),
        };
        let external = json!({"package": "@kit/tools", "import": "tools", "approval": approval});
        with_toolsets(json!({"external": external})).with_own_tools(vec![own])
    };
    let snapshot = snapshot_with(vec![], json!({}));
    let worker = package(json!({"tools": {"one": "blocked"}})).unwrap();
    assert_eq!(names(&worker, &snapshot), ["one", "two"]);
    let error = package(json!({"tools": {"ones": "blocked"}})).unwrap_err();
    assert!(
        error
            .message
            .contains("`@kit/tools` exports no tool `ones`. Did you mean `one`?"),
        "{error}"
    );
}
