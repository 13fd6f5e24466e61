//! The bundled tools in use: the real components under the real pipeline.

mod bounds;
mod documents;
mod errors;
mod gates;
mod masks;
mod names;
mod patches;
mod undo;
mod work;

use mimir_core::{ToolError, ToolErrorCode};
use mimir_testkit::{Testkit, Value};

/// A workspace with the bundled tools only.
fn kit() -> Testkit {
    let kit = Testkit::with_bundled(mimir_kit::builtins()).unwrap();
    assert!(kit.quarantined().is_empty(), "{:?}", kit.quarantined());
    kit
}

/// The structured result of a call that succeeds.
fn done(kit: &Testkit, tool: &str, arguments: Value) -> Value {
    let outcome = kit.call(tool, arguments);
    let output = outcome
        .result()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    output.structured.clone().expect("they have output schemas")
}

/// The error of a call that fails with this code.
fn fails(kit: &Testkit, tool: &str, arguments: Value, code: ToolErrorCode) -> ToolError {
    let outcome = kit.call(tool, arguments.clone());
    let error = outcome.result().expect_err("it was refused").clone();
    assert_eq!(error.code, code, "{tool} {arguments}: {error}");
    error
}
