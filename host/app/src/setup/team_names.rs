//! The names of teams' tools. No other tool takes one of them, also while the team's component is not described yet, or is
//! damaged: rules and answers for the name are about the team's tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::tool::{Tool, ToolSource};
use mimir_core::{Quarantined, ToolError};

use crate::teams::TeamInForce;

/// The names of the tools of all teams.
pub(super) struct TeamToolNames {
    /// Location of the tool and name of the team, by the name of the tool. The first team has the name.
    names: BTreeMap<String, (String, String)>,
}

impl TeamToolNames {
    /// Returns the names of the tools in the bundles.
    pub(super) fn new(teams: &[Arc<TeamInForce>]) -> Self {
        let mut names = BTreeMap::new();
        for team in teams {
            for (name, location) in team.tool_names() {
                names
                    .entry(name)
                    .or_insert_with(|| (location, team.shown()));
            }
        }
        Self { names }
    }

    /// Returns true if the name belongs to a team's tool.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Returns the location of each tool, by name.
    pub(super) fn locations(&self) -> BTreeMap<String, String> {
        let names = self.names.iter();
        names
            .map(|(name, (location, _))| (name.clone(), location.clone()))
            .collect()
    }

    /// Returns the errors for calls of the tools that are not among `tools`, because their component is not loaded.
    pub(super) fn faults(
        &self,
        tools: &[Tool],
        quarantined: &[Quarantined],
    ) -> Vec<(String, ToolError)> {
        let is_loaded = |location: &str| {
            let mut team_tools = tools.iter();
            team_tools
                .any(|tool| tool.source == ToolSource::Teams && tool.origin.location == location)
        };
        let missing = self.names.iter();
        let missing = missing.filter(|(_, (location, _))| !is_loaded(location));
        let faults = missing.map(|(name, (location, team))| {
            let message = format!(
                "`{name}` of {team} is not ready: its component is not loaded yet, or it is missing or damaged; `mimir team sync` fetches it again"
            );
            // The reason may quote the component, so only the person sees it.
            let mut known = quarantined.iter();
            let why = known.find(|one| one.location == *location);
            let remedy = why.map_or_else(
                || "try again, or run `mimir team sync`".to_owned(),
                |why| format!("{location}: {}", why.reason),
            );
            let fault = ToolError::unavailable(message).with_remedies([remedy]);
            (name.clone(), fault)
        });
        faults.collect()
    }
}
