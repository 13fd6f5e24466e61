//! The first tool of a workspace: a YAML file that needs no toolchain and no grant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Approver, Outcome, ToolError};
use serde_json::{Value, json};

use crate::args::ApproveMode;
use crate::commands::{call, editor_support};
use crate::exit::CommandResult;
use crate::output::{ResultPrinter, STRONG, outcome, styled};
use crate::terminal::{CallWatcher, StartedCommand, approver};
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::workspace::WorkspaceFolder;

/// Name of the tool.
const NAME: &str = "word_count";

/// Name of its file.
const FILE: &str = "word_count.yml";

/// Content of its file.
const TEXT: &str = include_str!("../../templates/word_count.yml.txt");

/// The text that the tool counts.
const EXAMPLE: &str = "Each call runs in a fresh sandbox.";

/// Returns true if the workspace has no tool of its own yet.
pub fn is_missing(workspace: &WorkspaceFolder) -> bool {
    let entries = std::fs::read_dir(workspace.tools());
    entries.is_ok_and(|mut entries| entries.next().is_none()) || !workspace.tools().is_dir()
}

/// Writes the tool, and the files with which editors complete it. Returns its path.
pub fn make(workspace: &WorkspaceFolder) -> Result<PathBuf, ToolError> {
    let path = workspace.tools().join(FILE);
    workspace.check_no_links(&path)?;
    editor_support::write_editor_files(workspace)?;
    let text = format!("{}{TEXT}", editor_support::SCHEMA_COMMENT);
    mimir::file_error::write_atomically(&path, text.as_bytes())
        .map_err(|error| file_error("write", &path, &error))?;
    Ok(path)
}

/// Calls the tool, and prints the call and its result.
pub async fn call(
    printer: ResultPrinter,
    setup: &HostSetup,
    path: &Path,
) -> CommandResult<Outcome> {
    if !printer.is_json() {
        let shown = setup.workspace.display_path(path);
        let line = format!("mimir call {NAME} text='{EXAMPLE}'");
        printer.print_result(&(), |out| {
            writeln!(out, "\nYour first tool is {shown}. This calls it:\n")?;
            writeln!(out, "$ {}", styled(STRONG, line))
        })?;
    }
    let asks = approver(ApproveMode::Never, StartedCommand::Call);
    let outcome = run_tool(setup, NAME, json!({ "text": EXAMPLE }), asks).await?;
    if !printer.is_json() {
        outcome::print(printer, &outcome)?;
    }
    Ok(outcome)
}

/// Runs a call through the pipeline of the workspace.
pub async fn run_tool(
    setup: &HostSetup,
    tool: &str,
    arguments: Value,
    approver: Arc<dyn Approver>,
) -> CommandResult<Outcome> {
    let loaded = tokio::select! {
        loaded = setup.registry_for(tool) => loaded,
        exit = call::wait_for_interrupt() => return Err(call::cancelled(exit)),
    };
    let policy = setup.settings.policy()?;
    // If this fails, the pipeline cannot record the call and reports it.
    let _ = setup.workspace.make_state();
    let registry = loaded.into_registry();
    let pipeline = setup.pipeline(PipelineSnapshot { registry, policy }, approver);
    let watcher = Arc::new(CallWatcher::new(tool));
    let mut call = call::new_call(tool.to_owned(), arguments);
    call.observer = Arc::clone(&watcher) as Arc<_>;
    let outcome = tokio::select! {
        outcome = pipeline.call(call) => Ok(outcome),
        exit = call::wait_for_interrupt() => Err(call::cancelled(exit)),
    };
    watcher.finish();
    outcome
}
