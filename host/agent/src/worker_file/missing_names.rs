//! Names in a worker's file that match no server, custom module or tool.

use std::collections::BTreeSet;

use mimir_core::Tool;
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;

use super::{Worker, WorkerOwnToolset, is_from_server, is_in_module, matches_name};

/// A name in a worker's file that matches no server, custom module or tool.
pub(super) struct MissingName {
    /// The key in the file.
    pub(super) key: String,
    /// The name, such as "the tool `x` of `y`".
    pub(super) name: String,
    /// The error message with a remedy.
    pub(super) message: String,
}

impl Worker {
    /// Reports the servers, custom modules and tools that the worker's file names but `snapshot` does not have. Returns
    /// one message for each, for a person who runs the worker with all tools of the workspace.
    pub fn missing(&self, snapshot: &PipelineSnapshot) -> Vec<String> {
        let missing = self.find_missing(snapshot).into_iter();
        missing
            .map(|missing| format!("{}: {}", self.at(&missing.key), missing.message))
            .collect()
    }

    /// Returns the names that [`Self::missing`] reports, with their locations in the file.
    pub fn missing_names(&self, snapshot: &PipelineSnapshot) -> Vec<String> {
        let missing = self.find_missing(snapshot).into_iter();
        missing
            .map(|missing| format!("{} ({})", missing.name, self.at(&missing.key)))
            .collect()
    }

    fn find_missing(&self, snapshot: &PipelineSnapshot) -> Vec<MissingName> {
        let mut missing = self.missing_own_tools(snapshot);
        let tools = snapshot.registry.tools();
        let custom = self.settings.toolsets.custom.as_ref();
        if let Some(custom) = custom.filter(|_| !self.has_own(WorkerOwnToolset::Module)) {
            let own = tools
                .iter()
                .filter(|tool| is_in_module(tool, &custom.module));
            let own: Vec<&Tool> = own.map(AsRef::as_ref).collect();
            if own.is_empty() {
                let module = visible(&custom.module);
                missing.push(MissingName {
                    key: "toolsets.custom.module".to_owned(),
                    name: format!("the tools of `{module}`"),
                    message: format!(
                        "no tools are loaded from `{module}`: expected a TypeScript or JavaScript module beside the \
                         worker's file, or a tool file in .mimir/tools that `mimir tools list` shows"
                    ),
                });
            } else {
                let exists = |name: &str| own.iter().any(|tool| matches_name(tool, name));
                for name in custom.tools.iter().filter(|name| !exists(name)) {
                    let near = did_you_mean(name, own.iter().map(|tool| tool.name().as_str()));
                    let (module, name) = (visible(&custom.module), visible(name));
                    missing.push(MissingName {
                        key: "toolsets.custom.tools".to_owned(),
                        name: format!("the tool `{name}` of `{module}`"),
                        message: format!("`{module}` has no tool `{name}`.{near}"),
                    });
                }
            }
        }
        for (server, toolset) in &self.settings.toolsets.mcp {
            let own = tools.iter().filter(|tool| is_from_server(tool, server));
            let own: Vec<&Tool> = own.map(AsRef::as_ref).collect();
            let key = format!("toolsets.mcp.{server}");
            let server = visible(server);
            if own.is_empty() {
                missing.push(MissingName {
                    key,
                    name: format!("the tools of the server `{server}`"),
                    message: format!(
                        "the server `{server}` does not exist or has no tools: `mimir mcp list` shows the servers"
                    ),
                });
                continue;
            }
            // `new` has checked that approvals are only set for listed tools, if tools are listed.
            let listed = toolset.tools.iter().flatten();
            let names = listed.chain(toolset.approval.tools.keys());
            let unknown: BTreeSet<&String> = names
                .filter(|name| !own.iter().any(|tool| matches_name(tool, name)))
                .collect();
            for name in unknown {
                let near = did_you_mean(name, own.iter().map(|tool| tool.name().as_str()));
                let name = visible(name);
                missing.push(MissingName {
                    key: key.clone(),
                    name: format!("the tool `{name}` of the server `{server}`"),
                    message: format!("the server `{server}` has no tool `{name}`.{near}"),
                });
            }
        }
        missing
    }
}
