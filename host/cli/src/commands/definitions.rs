//! `mimir schema`.

use crate::args::{DefinitionFormat, GlobalOptions};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::definitions;
use mimir::setup::HostSetup;

/// Prints the definitions of the named tools, or of all listed tools if `names` is empty.
pub async fn run(
    globals: &GlobalOptions,
    format: DefinitionFormat,
    names: &[String],
) -> CommandResult {
    let printer = globals.printer();
    let snapshot = HostSetup::find_with_bundles(globals.workspace.as_deref(), false)
        .await?
        .load_snapshot()
        .await?;
    let registry = &snapshot.registry;
    let mut chosen = Vec::new();
    if names.is_empty() {
        chosen.extend(
            registry
                .tools()
                .iter()
                .filter(|tool| snapshot.policy.is_listed(tool)),
        );
    }
    for name in names {
        let found = registry.find(name);
        chosen.push(found.map_err(|error| CommandFailure::with_exit(error, ExitReason::Usage))?);
    }
    let all: Vec<_> = chosen
        .into_iter()
        .map(|tool| definitions::tool_definition(tool, format))
        .collect();
    printer.print_json(&all)?;
    Ok(ExitReason::Done)
}
