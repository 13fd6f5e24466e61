//! Components that were not written for mimir: other worlds, WASI 0.3, async functions, resources, and their attacks.
//!
//! The guests of `tests/guests` are built first. [`table`] lists the components of other projects.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in tests a panic is the report"
)]

mod concurrent;
mod http_server;
mod near_agent;
mod preview3_files;
mod resources;
mod storage;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mimir_core::grants::{self, Grant, ToolsLock};
use mimir_core::needs::Needs;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Registry, Tool};
use mimir_testkit::{Testkit, Value, json};

/// Returns the path of a guest in `tests/guests/examples`. The first use builds all of them.
fn guest(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-guests");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(source)
            .args(["build", "--locked", "--release", "--examples"])
            .args(["--target", "wasm32-wasip2"])
            .env("CARGO_TARGET_DIR", &target);
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(name);
        }
        assert!(
            cargo.status().unwrap().success(),
            "the guests are not built"
        );
        target.join("wasm32-wasip2/release/examples")
    });
    folder.join(format!("{name}.wasm"))
}

/// Returns a kit with a guest and a time limit of three seconds.
fn kit(name: &str) -> Testkit {
    limited(name, json!({ "timeMs": 3_000 }))
}

/// Returns a kit with a guest and these limits.
fn limited(name: &str, limits: Value) -> Testkit {
    let kit = Testkit::empty().unwrap();
    kit.add(guest(name)).unwrap();
    kit.settings(json!({ "limits": limits })).unwrap()
}

/// Grants these rights to the only component of a kit, as `mimir tools trust` does.
fn grant(kit: &Testkit, named: Needs) {
    let mut tools: Vec<Tool> = kit.tools().iter().map(|tool| Tool::clone(tool)).collect();
    let grant = Grant::new(&kit.tools(), vec![]).unwrap().with_named(named);
    let mut lock = ToolsLock::default();
    lock.plugins.insert(tools[0].origin.location.clone(), grant);
    assert!(grants::apply(&lock, &mut tools, |_, _| true).is_empty());
    let policy = kit.pipeline().snapshot().policy.clone();
    let registry = Registry::new(tools, Vec::new());
    kit.pipeline()
        .replace(PipelineSnapshot { registry, policy });
}

/// Calls a tool that must succeed, and returns its structured result.
fn result(kit: &Testkit, tool: &str, arguments: Value) -> Value {
    let outcome = kit.call(tool, arguments);
    let output = outcome
        .result()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    output.structured.clone().unwrap_or(Value::Null)
}

/// Calls a tool that must fail, and returns its error code and message.
fn failure(kit: &Testkit, tool: &str, arguments: Value) -> (mimir_core::ToolErrorCode, String) {
    let outcome = kit.call(tool, arguments);
    let error = outcome.result().expect_err(tool);
    (error.code, error.message.clone())
}
