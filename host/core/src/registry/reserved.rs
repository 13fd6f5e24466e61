//! Names that are kept for the servers in the settings: what a person says of `mcp_x_go` is said of the server `x`,
//! whether it runs at the moment or not.
//!
//! Never here: which servers there are.

use super::Quarantined;
use crate::error::{Code, ToolError};
use crate::tool::{Source, Tool, Trust};

/// The beginnings of names that servers have for themselves.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// Where each server's tools say that they come from, and what their names begin with.
    servers: Vec<(String, String)>,
    /// Why the tools of a server are not there, by what their names begin with.
    faults: Vec<(String, ToolError)>,
}

impl Reserved {
    /// Of these servers, by their locations. One without a prefix keeps no names.
    pub fn new(servers: impl IntoIterator<Item = (String, String)>) -> Self {
        let servers = servers.into_iter();
        Self {
            servers: servers.filter(|(_, prefix)| !prefix.is_empty()).collect(),
            faults: Vec::new(),
        }
    }

    /// The same, with why the tools of some servers are not there, by what their names begin with.
    #[must_use]
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = (String, ToolError)>) -> Self {
        let faults = faults.into_iter();
        self.faults = faults.filter(|(prefix, _)| !prefix.is_empty()).collect();
        self
    }

    /// Why there is no tool of this name, if it may be one of a server that is not there.
    pub(super) fn fault(&self, name: &str) -> Option<&ToolError> {
        let faults = self.faults.iter();
        let faults = faults.filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        let fault = faults.max_by_key(|(prefix, _)| prefix.len());
        let (prefix, fault) = fault?;
        // A server that is there may have the longer beginning.
        let others = self.servers.iter().map(|(_, prefix)| prefix);
        let mut longer = others.filter(|other| other.len() > prefix.len());
        let other = longer.any(|other| name.starts_with(other.as_str()));
        (!other).then_some(fault)
    }

    /// Takes out the tools whose names are kept for others, and says why.
    pub fn keep(&self, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
        tools.retain(|tool| match self.owner(tool) {
            None => true,
            Some((server, prefix)) => {
                quarantined.push(Quarantined {
                    location: format!("{} ({})", tool.origin.location, tool.name()),
                    code: Code::AlreadyExists,
                    reason: format!(
                        "names that begin with `{prefix}` are kept for the tools of {server}; rename this one, or give \
                         a server another `prefix`"
                    ),
                });
                false
            }
        });
    }

    /// The server that a name of this tool is kept for, if that is another.
    fn owner(&self, tool: &Tool) -> Option<&(String, String)> {
        let location = &tool.origin.location;
        let own = self.servers.iter().find(|(server, _)| server == location);
        let own = own.map_or(0, |(_, prefix)| prefix.len());
        // A server of the same prefix, or of one that goes on, could have a tool of this name, too.
        let kept = |name: &str| {
            self.servers.iter().find(|(server, prefix)| {
                server != location && prefix.len() >= own && name.starts_with(prefix.as_str())
            })
        };
        match tool.source {
            Source::BuiltIn => None,
            // A person who granted it has seen its name.
            Source::Mcp if tool.trust == Trust::Trusted => None,
            _ => {
                let aliases = tool.aliases.iter().map(|alias| alias.as_str());
                let mut names = std::iter::once(tool.name().as_str()).chain(aliases);
                names.find_map(kept)
            }
        }
    }
}
