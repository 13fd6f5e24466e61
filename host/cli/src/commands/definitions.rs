//! `mimir schema`.

use crate::args::{Format, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, definitions};
use mimir::setup::Setup;

/// Prints the definitions of the named tools, or of all tools that models see.
pub async fn run(
    globals: &Globals,
    printer: Printer,
    format: Format,
    names: &[String],
) -> Result<Exit, Failure> {
    let world = Setup::find(globals.workspace.as_deref())?.world().await?;
    let registry = &world.registry;
    let mut chosen = Vec::new();
    if names.is_empty() {
        chosen.extend(
            registry
                .tools()
                .iter()
                .filter(|tool| world.policy.is_listed(tool)),
        );
    }
    for name in names {
        let found = registry.find(name);
        chosen.push(found.map_err(|error| Failure::ending(error, Exit::Usage))?);
    }
    let all: Vec<_> = chosen
        .into_iter()
        .map(|tool| definitions::definition(tool, format))
        .collect();
    printer.value(&all)?;
    Ok(Exit::Done)
}
