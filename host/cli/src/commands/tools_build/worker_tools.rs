//! Builds of the modules and npm packages that worker files name. Only the workers get their tools, so the components
//! are stored in the user's cache instead of `.mimir/tools`.

use std::path::Path;
use std::sync::Arc;

use mimir_core::files;
use mimir_core::tool::ToolTrust;
use mimir_core::{Tool, ToolError};
use serde_json::json;

use super::{BuildContext, PluginFolder, typescript, within_time_limit};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use mimir::file_error::file_error;
use mimir::setup::HostSetup;
use mimir::worker_modules::WorkerToolSource;

/// Returns the sources at a path: those of a worker's file, or a module that worker files name. `None` if the path is
/// neither.
pub fn find_sources(
    setup: &HostSetup,
    path: &Path,
) -> CommandResult<Option<Vec<WorkerToolSource>>> {
    let Ok(real) = path.canonicalize() else {
        return Ok(None);
    };
    let modules = setup.worker_modules();
    let workers = setup.workers();
    let is_path = |other: &Path| other.canonicalize().is_ok_and(|other| other == real);
    if let Some((file, _)) = workers
        .files()
        .into_iter()
        .find(|(file, _)| is_path(&file.path))
    {
        let usage = |error| CommandFailure::with_exit(error, ExitReason::Usage);
        let worker = workers.read_worker(&file.name).map_err(usage)?;
        let sources = modules.sources(&worker).map_err(usage)?;
        if sources.is_empty() {
            let message = format!(
                "{} names no tools to build: expected `toolsets.custom` with a module beside the file, or `toolsets.external`",
                file.shown
            );
            return Err(CommandFailure::usage(message));
        }
        return Ok(Some(sources));
    }
    let mut sources = modules.all_sources();
    sources.retain(|source| is_path(&source.plugin.path));
    Ok(Some(sources).filter(|sources| !sources.is_empty()))
}

/// Builds the sources, stores the components and prints their tools.
pub async fn build(cx: &BuildContext<'_>, sources: &[WorkerToolSource]) -> CommandResult {
    let modules = cx.setup.worker_modules();
    let mut report = Vec::new();
    for source in sources {
        if source.is_generated() {
            write_generated(cx.setup, source)?;
        }
        let folder = PluginFolder::find(&source.plugin.path, None)?;
        let built = within_time_limit("the build", async {
            typescript::build_source(cx, &folder, &source.plugin).await
        });
        modules.store(source, &built.await?)?;
        let tools = modules.load(source).await?;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
        if !cx.printer().is_json() {
            note(format_args!("{}: {}", source.location, names.join(", ")));
            note_missing_grant(source, &tools);
        }
        report.push(json!({ "location": source.location, "tools": names }));
    }
    if cx.printer().is_json() {
        cx.printer().print_json(&json!({ "built": report }))?;
    }
    Ok(ExitReason::Done)
}

fn note_missing_grant(source: &WorkerToolSource, tools: &[Arc<Tool>]) {
    let lacks_grant =
        |tool: &Arc<Tool>| tool.trust == ToolTrust::Untrusted && !tool.definition.needs.is_empty();
    if tools.iter().any(lacks_grant) {
        note(format_args!(
            "This build has no grant of the rights that it needs: `mimir tools trust {}` shows and grants them.",
            quote_for_shell(&source.location)
        ));
    }
}

/// Writes the module that imports a package to the build folder beside the worker files.
fn write_generated(setup: &HostSetup, source: &WorkerToolSource) -> Result<(), ToolError> {
    let path = &source.plugin.path;
    let folder = path.parent().unwrap_or(path);
    let failed = |error: &std::io::Error| file_error("write", path, error);
    files::reject_links(setup.workspace.root(), path)
        .and_then(|()| std::fs::create_dir_all(folder))
        .and_then(|()| files::ignore(folder))
        .and_then(|()| std::fs::write(path, &source.plugin.text))
        .map_err(|error| failed(&error))
}
