//! Tools that only one worker has: those of the module or the npm package that its file names.
//!
//! Out of scope: building and loading them.

use std::sync::Arc;

use mimir_core::config::{ApprovalDefaults, Config, ToolApproval};
use mimir_core::name_suggestions::did_you_mean;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use mimir_core::{Decision, Tool, ToolError, ToolSource};

use super::missing_names::MissingName;
use super::{Worker, is_in_module, matches_name, tool_approval};

/// A toolset whose tools only the worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerOwnToolset {
    /// `toolsets.custom`, with a module beside the worker's file.
    Module,
    /// `toolsets.external`, with an npm package.
    Package,
}

impl WorkerOwnToolset {
    /// Returns the key of the toolset in the worker's file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Module => "toolsets.custom",
            Self::Package => "toolsets.external",
        }
    }
}

/// The loaded tools of a toolset that only the worker has.
#[derive(Debug, Clone)]
pub struct WorkerOwnTools {
    /// The toolset.
    pub toolset: WorkerOwnToolset,
    /// All tools of the module or the package, with their grants.
    pub tools: Vec<Arc<Tool>>,
}

/// Returns the decision about calls of a worker's own tool: that of the worker's file, or a stricter one of the author.
fn own_decision(tool: &Tool, approval: &ApprovalDefaults) -> Decision {
    let author = &tool.definition;
    match tool_approval(tool, approval, None) {
        ToolApproval::Word(decision) if author.silent => decision,
        ToolApproval::Word(decision) => decision.max(author.approval),
        _ if author.silent => Decision::Ask,
        _ => author.approval,
    }
}

/// A listed tool that the worker cannot have.
const NOT_FOR_NESTED: &str = "needs rights that the calling worker does not have";

impl Worker {
    /// Adds the loaded tools of the worker's own toolsets. Fails if the worker's file lists a tool that is not among
    /// them.
    pub fn with_own_tools(mut self, own: Vec<WorkerOwnTools>) -> Result<Self, ToolError> {
        for set in &own {
            let (name, listed) = self.own_toolset(set.toolset);
            let exists = |name: &String| set.tools.iter().any(|tool| matches_name(tool, name));
            let approval = self.own_approval(set.toolset).into_iter();
            let decided = approval.flat_map(|approval| approval.tools.keys());
            if let Some(unknown) = listed.iter().chain(decided).find(|name| !exists(name)) {
                let known = set.tools.iter().map(|tool| tool.name().as_str());
                let near = did_you_mean(unknown, known);
                let at = self.at(&format!("{}.tools", set.toolset.key()));
                let (name, unknown) = (visible(&name), visible(unknown));
                let message = format!("{at}: `{name}` exports no tool `{unknown}`.{near}");
                return Err(ToolError::invalid_input(message));
            }
        }
        self.own = own.into();
        Ok(self)
    }

    /// Returns true if the tools of the toolset were added.
    pub(super) fn has_own(&self, toolset: WorkerOwnToolset) -> bool {
        self.own.iter().any(|set| set.toolset == toolset)
    }

    /// Returns the module or the package of a toolset, and the listed tools. An empty list stands for all tools.
    fn own_toolset(&self, toolset: WorkerOwnToolset) -> (String, Vec<String>) {
        let sets = &self.settings.toolsets;
        let named = match toolset {
            WorkerOwnToolset::Module => {
                let custom = sets.custom.as_ref();
                custom.map(|custom| (custom.module.clone(), custom.tools.clone()))
            }
            WorkerOwnToolset::Package => sets.external.as_ref().map(|external| {
                let tools = external.tools.clone().unwrap_or_default();
                (external.package.clone(), tools)
            }),
        };
        named.unwrap_or_default()
    }

    fn own_approval(&self, toolset: WorkerOwnToolset) -> Option<&ApprovalDefaults> {
        let sets = &self.settings.toolsets;
        match toolset {
            WorkerOwnToolset::Module => Some(&sets.custom.as_ref()?.approval),
            WorkerOwnToolset::Package => Some(&sets.external.as_ref()?.approval),
        }
    }

    /// Returns the tools that only this worker has, and adds the approvals of the worker's file to `config`.
    pub(super) fn own_tools(
        &self,
        snapshot: &PipelineSnapshot,
        config: &mut Config,
    ) -> Vec<Arc<Tool>> {
        let mut tools = Vec::new();
        for (set, tool) in self.listed_own_tools() {
            let Some(approval) = self.own_approval(set) else {
                continue;
            };
            if self.fault(set, tool, snapshot).is_some() {
                continue;
            }
            let mut tool = Tool::clone(&self.limit_file_access(tool));
            let mut decision = tool_approval(&tool, approval, None);
            if tool.definition.silent {
                // The author leaves the decision to the worker's file, which the user has accepted.
                let own = own_decision(&tool, approval);
                (tool.definition.approval, tool.definition.silent) = (own, false);
                decision = ToolApproval::Word(own);
            }
            let name = tool.name().to_string();
            config.tools.each.entry(name).or_default().approval = decision;
            tools.push(Arc::new(tool));
        }
        tools
    }

    /// Returns the tools that only this worker has, with the decision about their calls by the worker's file and the
    /// authors of the tools. The user's settings and rules may be stricter.
    pub fn own_decisions(&self) -> Vec<(Arc<Tool>, Decision)> {
        let decided = self.listed_own_tools().filter_map(|(set, tool)| {
            let decision = own_decision(tool, self.own_approval(set)?);
            Some((Arc::clone(tool), decision))
        });
        decided.collect()
    }

    fn listed_own_tools(&self) -> impl Iterator<Item = (WorkerOwnToolset, &Arc<Tool>)> {
        self.own.iter().flat_map(|set| {
            let (_, listed) = self.own_toolset(set.toolset);
            let is_listed = move |tool: &&Arc<Tool>| {
                listed.is_empty() || listed.iter().any(|name| matches_name(tool, name))
            };
            let tools = set.tools.iter().filter(is_listed);
            tools.map(|tool| (set.toolset, tool))
        })
    }

    /// Returns the reason why a worker cannot have its own tool with the tools of its caller.
    fn fault(
        &self,
        set: WorkerOwnToolset,
        tool: &Tool,
        snapshot: &PipelineSnapshot,
    ) -> Option<String> {
        if snapshot.policy.is_restricted_by_worker() && !tool.definition.needs.is_empty() {
            return Some(NOT_FOR_NESTED.to_owned());
        }
        let (module, _) = self.own_toolset(set);
        // A rule about the name may have been written for the other tool. A plugin that was installed from the same
        // module is replaced.
        let is_other = |other: &Tool| {
            let is_same = other.origin.location == tool.origin.location
                || set == WorkerOwnToolset::Module && is_in_module(other, &module);
            !(is_same && other.source == ToolSource::Custom)
                && other.answers_to(tool.name().as_str())
        };
        let registry = &snapshot.registry;
        let mut others = registry.tools().iter().chain(registry.left_out());
        let in_registry = others.find(|other| is_other(other));
        let mut own = self.listed_own_tools().filter(|(other, _)| *other != set);
        let in_other_set = || {
            own.find(|(_, other)| other.name() == tool.name())
                .map(|(_, other)| other)
        };
        let other = in_registry.or_else(in_other_set)?;
        let remedy = match set {
            WorkerOwnToolset::Module => "rename it",
            WorkerOwnToolset::Package => "set another `prefix` in `toolsets.external`",
        };
        Some(format!(
            "has the name of a tool of {}; {remedy}",
            visible(&other.origin.location)
        ))
    }

    /// Reports the listed own tools that the worker cannot have.
    pub(super) fn missing_own_tools(&self, snapshot: &PipelineSnapshot) -> Vec<MissingName> {
        let faulty = self.listed_own_tools().filter_map(|(set, tool)| {
            let fault = self.fault(set, tool, snapshot)?;
            let (module, _) = self.own_toolset(set);
            let (module, name) = (visible(&module), tool.name());
            Some(MissingName {
                key: format!("{}.tools", set.key()),
                name: format!("the tool `{name}` of `{module}`"),
                message: format!("the tool `{name}` of `{module}` {fault}"),
            })
        });
        faulty.collect()
    }
}
