//! Lookup of the tools that only workers have, which are not in the list of tools.

use std::sync::Arc;

use mimir_core::Tool;

use crate::exit::CommandResult;
use mimir::setup::HostSetup;

/// Returns the tools of a worker's module or package. `name` is the location, or the name of one of the tools. `None` if
/// no worker has them. Fails if the named source cannot be built.
pub async fn find_worker_tools(
    setup: &HostSetup,
    name: &str,
) -> CommandResult<Option<Vec<Arc<Tool>>>> {
    let modules = setup.worker_modules();
    for source in modules.all_sources() {
        let is_location = source.location == name.trim_start_matches("./");
        match modules.load(&source).await {
            Ok(tools) => {
                if is_location || tools.iter().any(|tool| tool.answers_to(name)) {
                    return Ok(Some(tools));
                }
            }
            Err(error) if is_location => return Err(error.into()),
            Err(error) => tracing::debug!(%error, location = source.location, "not loaded"),
        }
    }
    Ok(None)
}
