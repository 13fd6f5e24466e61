//! Reserved tool names: a rule for `mcp_x_go` applies to the server `x` only, and a rule for the name of a team's tool to
//! this tool only, whether the server or the component is available or not.
//!
//! Out of scope: the lists of servers and of teams' tools.

use std::collections::BTreeMap;

use super::{Quarantined, other_name};
use crate::error::{ToolError, ToolErrorCode};
use crate::tool::{Tool, ToolSource, ToolTrust};

/// The name prefixes reserved for servers, and the names reserved for teams' tools.
#[derive(Debug, Clone, Default)]
pub struct ReservedNames {
    /// The location of each server's tools, with the prefix of the tool names.
    servers: Vec<(String, String)>,
    /// The errors of servers whose tools are not available, by prefix.
    faults: Vec<(String, ToolError)>,
    /// The location of each team's tool, by name.
    team_tools: BTreeMap<String, String>,
    /// The errors of single tools that are not available, by name.
    tool_faults: Vec<(String, ToolError)>,
}

impl ReservedNames {
    /// Reserves names for servers, given as pairs of location and prefix. A server with an empty prefix reserves no
    /// names.
    pub fn new(servers: impl IntoIterator<Item = (String, String)>) -> Self {
        let servers = servers.into_iter();
        Self {
            servers: servers.filter(|(_, prefix)| !prefix.is_empty()).collect(),
            faults: Vec::new(),
            team_tools: BTreeMap::new(),
            tool_faults: Vec::new(),
        }
    }

    /// Adds the errors of servers whose tools are not available, by prefix.
    #[must_use]
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = (String, ToolError)>) -> Self {
        let faults = faults.into_iter();
        self.faults = faults.filter(|(prefix, _)| !prefix.is_empty()).collect();
        self
    }

    /// Reserves the names of teams' tools, given with the location of each.
    #[must_use]
    pub fn with_team_tools(mut self, tools: BTreeMap<String, String>) -> Self {
        self.team_tools = tools;
        self
    }

    /// Adds the error of a tool that is not available.
    #[must_use]
    pub fn with_tool_fault(mut self, name: &str, fault: ToolError) -> Self {
        self.tool_faults.push((name.to_owned(), fault));
        self
    }

    /// Returns the error of this tool, if it is not available.
    pub(super) fn tool_fault(&self, name: &str) -> Option<&ToolError> {
        let mut faults = self.tool_faults.iter();
        faults
            .find(|(tool, _)| tool == name)
            .map(|(_, fault)| fault)
    }

    /// Returns the error of the unavailable server that a tool name may belong to.
    pub(super) fn fault(&self, name: &str) -> Option<&ToolError> {
        let faults = self.faults.iter();
        let faults = faults.filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        let fault = faults.max_by_key(|(prefix, _)| prefix.len());
        let (prefix, fault) = fault?;
        // An available server may have a longer matching prefix.
        let others = self.servers.iter().map(|(_, prefix)| prefix);
        let mut longer = others.filter(|other| other.len() > prefix.len());
        let has_longer_match = longer.any(|other| name.starts_with(other.as_str()));
        (!has_longer_match).then_some(fault)
    }

    /// Moves the tools whose names are reserved for another server or a team's tool to `quarantined`, with the reason.
    pub fn remove_conflicts(&self, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
        tools.retain(|tool| {
            let Some((name, location)) = self.team_tool_like(tool) else {
                return true;
            };
            quarantined.push(Quarantined {
                location: format!("{} ({})", tool.origin.location, tool.name()),
                code: ToolErrorCode::AlreadyExists,
                reason: format!(
                    "the name `{name}` belongs to {location}; {}, or give the server another `prefix`",
                    other_name(tool)
                ),
            });
            false
        });
        tools.retain(|tool| match self.reserving_server(tool) {
            None => true,
            Some((server, prefix)) => {
                quarantined.push(Quarantined {
                    location: format!("{} ({})", tool.origin.location, tool.name()),
                    code: ToolErrorCode::AlreadyExists,
                    reason: format!(
                        "names that begin with `{prefix}` are reserved for the tools of {server}; rename this tool, or \
                         give a server another `prefix`"
                    ),
                });
                false
            }
        });
    }

    /// Returns the team's tool for which the name or an alias of a tool of the workspace or a server is reserved. A grant
    /// does not lift this.
    fn team_tool_like(&self, tool: &Tool) -> Option<(&String, &String)> {
        if !matches!(tool.source, ToolSource::Custom | ToolSource::Mcp) {
            return None;
        }
        let mut names = std::iter::once(tool.name()).chain(&tool.aliases);
        names.find_map(|name| self.team_tools.get_key_value(name.as_str()))
    }

    /// Returns the other server, with its prefix, for which the name or an alias of the tool is reserved.
    fn reserving_server(&self, tool: &Tool) -> Option<&(String, String)> {
        let location = &tool.origin.location;
        let own = self.servers.iter().find(|(server, _)| server == location);
        let own = own.map_or(0, |(_, prefix)| prefix.len());
        // Another server with an equally long or longer matching prefix could have a tool of this name, too.
        let reserved_for = |name: &str| {
            self.servers.iter().find(|(server, prefix)| {
                server != location && prefix.len() >= own && name.starts_with(prefix.as_str())
            })
        };
        match tool.source {
            // No server of a project takes the name of a team's tool.
            ToolSource::BuiltIn | ToolSource::Teams => None,
            // The person who granted the tool has seen its name.
            ToolSource::Mcp if tool.trust == ToolTrust::Trusted => None,
            _ => {
                let aliases = tool.aliases.iter().map(|alias| alias.as_str());
                let mut names = std::iter::once(tool.name().as_str()).chain(aliases);
                names.find_map(reserved_for)
            }
        }
    }
}
