//! Names of built-in tools that were added when users already had tools of these names. A tool of another source keeps
//! such a name if a person has granted it. Any other tool is left out: the rules that people write for the name are
//! about the built-in tool.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Quarantined, other_name};
use crate::error::ToolErrorCode;
use crate::text;
use crate::tool::{Tool, ToolGroup, ToolSource, ToolTrust};

/// The newer built-in tools, in addition to the browser tools.
const NEWER: [&str; 6] = [
    "apply_patch",
    "format_code",
    "install_package",
    "read_document",
    "run_tests",
    "search_code",
];

/// The tools that are left out because another tool has their name.
#[derive(Debug, Default)]
pub(super) struct NewerNames {
    /// The tools of other sources whose names the built-in tools keep, with the reports about them.
    pub(super) displaced: Vec<Arc<Tool>>,
    pub(super) quarantined: Vec<Quarantined>,
    /// The reports about the built-in tools that granted tools replace.
    pub(super) replaced: Vec<Quarantined>,
}

impl NewerNames {
    /// Removes the tools that do not have their name.
    pub(super) fn remove_losers(tools: &mut Vec<Tool>) -> Self {
        let newer: HashSet<String> = tools
            .iter()
            .filter(|tool| is_newer(tool))
            .map(|tool| tool.name().to_string())
            .collect();
        let mut holders: HashMap<String, String> = HashMap::new();
        for tool in tools.iter().filter(|tool| has_grant(tool)) {
            if newer.contains(tool.name().as_str()) {
                let location = tool.origin.location.clone();
                holders.entry(tool.name().to_string()).or_insert(location);
            }
        }
        let mut names = Self::default();
        tools.retain(|tool| {
            let name = tool.name().as_str();
            match holders.get(name) {
                _ if !newer.contains(name) || has_grant(tool) => true,
                Some(holder) => names.leave_out_for(holder, tool),
                None if tool.source == ToolSource::BuiltIn => true,
                None => names.leave_out_for_built_in(tool),
            }
        });
        names
    }

    /// Reports a tool whose name a granted tool has. Returns false.
    fn leave_out_for(&mut self, holder: &str, tool: &Tool) -> bool {
        let name = tool.name();
        if tool.source == ToolSource::BuiltIn {
            let reason = format!(
                "the tool `{name}` of {holder}, which was granted, replaces it; rename or remove that tool to use the built-in one"
            );
            self.replaced.push(left_out(tool, reason));
        } else {
            let reason = format!(
                "the name `{name}` belongs to {holder}, which was granted; {}",
                other_name(tool)
            );
            self.quarantined.push(left_out(tool, reason));
        }
        false
    }

    /// Reports a tool that has the name of a built-in tool, and no grant. Returns false.
    fn leave_out_for_built_in(&mut self, tool: &Tool) -> bool {
        let rename = other_name(tool);
        let remedy = match (tool.source, tool.origin.location.strip_prefix("mcp:")) {
            (ToolSource::Mcp, Some(server)) => format!(
                "`mimir mcp trust {}` lets the tools of the server replace the built-in ones; or give the server another `prefix`",
                text::visible(server)
            ),
            (ToolSource::Custom, _) if tool.trust == ToolTrust::Untrusted => {
                let file = tool.origin.location.rsplit('/').next().unwrap_or_default();
                format!(
                    "`mimir tools trust {}` lets it replace the built-in tool; or {rename}",
                    text::visible(file)
                )
            }
            _ => rename,
        };
        let reason = format!(
            "`{}` is the name of a built-in tool, which a tool without a grant does not replace; {remedy}",
            tool.name()
        );
        self.quarantined.push(left_out(tool, reason));
        self.displaced.push(Arc::new(tool.clone()));
        false
    }
}

fn is_newer(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn
        && (tool.definition.group == ToolGroup::Browser || NEWER.contains(&tool.name().as_str()))
}

/// Returns true if a team shares the tool, or a person has granted its plugin, in this build or an earlier one.
fn has_grant(tool: &Tool) -> bool {
    // A team has chosen the names of its tools.
    tool.source == ToolSource::Teams
        || tool.source != ToolSource::BuiltIn
            && (tool.trust == ToolTrust::Trusted || tool.changes.is_some())
}

fn left_out(tool: &Tool, reason: String) -> Quarantined {
    Quarantined {
        location: format!("{} ({})", tool.origin.location, tool.name()),
        code: ToolErrorCode::AlreadyExists,
        reason,
    }
}
