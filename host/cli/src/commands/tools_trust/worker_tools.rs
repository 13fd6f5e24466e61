//! Lookup of the tools that only workers have, which are not in the list of tools.

use std::sync::Arc;

use mimir_core::text::visible;
use mimir_core::{Decision, Tool};

use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;
use mimir::setup::HostSetup;
use mimir::worker_modules::{WorkerDecisions, WorkerToolSource};

/// Maximum number of tools that a line about a worker names.
const MAX_NAMED_TOOLS: usize = 8;

/// The tools of a worker's module or package.
pub struct FoundWorkerTools {
    /// All tools of the module or the package.
    pub tools: Vec<Arc<Tool>>,
    /// The decisions of the workers that have them.
    pub decisions: Vec<WorkerDecisions>,
}

/// Returns the tools of a worker's module or package. `name` is the location, or the name of one of the tools. `None` if
/// no worker has them. Fails if the named source cannot be built, or if several sources have a tool of this name.
pub async fn find_worker_tools(
    setup: &HostSetup,
    name: &str,
) -> CommandResult<Option<FoundWorkerTools>> {
    let modules = setup.worker_modules();
    let sources = modules.all_sources();
    let location = name.trim_start_matches("./");
    let found = |source: &WorkerToolSource, tools: Vec<Arc<Tool>>| FoundWorkerTools {
        decisions: modules.decisions(source, &tools),
        tools,
    };
    if let Some(source) = sources.iter().find(|source| source.location == location) {
        let tools = modules.load(source).await?;
        return Ok(Some(found(source, tools)));
    }
    let mut matching = Vec::new();
    for source in &sources {
        match modules.load(source).await {
            Ok(tools) if tools.iter().any(|tool| tool.answers_to(name)) => {
                matching.push((source, tools));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, location = source.location, "not loaded"),
        }
    }
    if matching.len() > 1 {
        let locations: Vec<String> = matching
            .iter()
            .map(|(source, _)| format!("`{}`", visible(&source.location)))
            .collect();
        return Err(CommandFailure::usage(format!(
            "several sources of workers have a tool `{}`: name one of {}",
            visible(name),
            locations.join(", ")
        )));
    }
    let found = matching.pop().map(|(source, tools)| found(source, tools));
    Ok(found)
}

/// Prints which calls of the tools ask in which worker.
pub fn note_decisions(decisions: &[WorkerDecisions]) {
    for decided in decisions {
        for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
            let tools = decided.tools.iter();
            let names: Vec<String> = tools
                .filter(|(_, own)| *own == decision)
                .map(|(tool, _)| format!("`{}`", tool.name()))
                .collect();
            if !names.is_empty() {
                note(decision_line(&decided.worker, decision, &names));
            }
        }
    }
}

fn decision_line(worker: &str, decision: Decision, names: &[String]) -> String {
    let shown = match names.len().saturating_sub(MAX_NAMED_TOOLS) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..MAX_NAMED_TOOLS].join(", ")),
    };
    let worker = visible(worker);
    let (one, several) = match decision {
        Decision::Allow => ("runs without a question", "run without a question"),
        Decision::Ask => ("asks you before each call", "ask you before each call"),
        Decision::Deny => ("is blocked", "are blocked"),
    };
    let what = if names.len() == 1 { one } else { several };
    let condition = match decision {
        Decision::Allow => ", unless your settings say otherwise",
        Decision::Ask | Decision::Deny => "",
    };
    format!("{shown} {what} in the worker `{worker}`{condition}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_decision_line_names_the_tools_and_the_worker() {
        let names = |count: usize| vec!["`price`".to_owned(); count];
        assert_eq!(
            decision_line("calc", Decision::Allow, &names(1)),
            "`price` runs without a question in the worker `calc`, unless your settings say otherwise."
        );
        assert_eq!(
            decision_line("calc", Decision::Ask, &names(2)),
            "`price`, `price` ask you before each call in the worker `calc`."
        );
        let many = decision_line("calc", Decision::Deny, &names(10));
        assert!(
            many.ends_with("`price` and 2 more are blocked in the worker `calc`."),
            "{many}"
        );
    }
}
