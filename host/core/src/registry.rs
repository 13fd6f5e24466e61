//! The set of callable tools, by name and alias.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::error::{ToolError, ToolErrorCode};
use crate::name_suggestions::did_you_mean;
use crate::tool::{Tool, ToolSource, ToolTrust};

mod newer_names;
mod reserved;

pub use reserved::ReservedNames;

use newer_names::NewerNames;

/// Maximum number of missing files that an error names.
const MAX_MISSING_FILES: usize = 3;

/// Maximum size of a quoted reason in bytes.
const MAX_REASON: usize = 500;

/// A file, or one tool of a file, that was left out of the registry, with the reason. The other tools stay usable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// The file, or the tool in the file.
    pub location: String,
    /// The kind of fault.
    pub code: ToolErrorCode,
    /// The problem, and how to fix it.
    pub reason: String,
}

/// An immutable set of tools. Each change creates a new registry.
#[derive(Debug, Default)]
pub struct Registry {
    tools: Vec<Arc<Tool>>,
    names: HashMap<String, usize>,
    quarantined: Vec<Quarantined>,
    /// True if errors about quarantined tools quote the reason.
    quotes_reasons: bool,
    reserved: ReservedNames,
    left_out: Vec<Arc<Tool>>,
    /// Tools without a grant that have the name of a built-in tool. They cannot be called.
    displaced: Vec<Arc<Tool>>,
    /// The built-in tools that granted tools replace.
    replaced: Vec<Quarantined>,
}

impl Registry {
    /// Creates a registry from tools in order of precedence. A tool is quarantined if an earlier tool has its name as a
    /// name or alias. If several sources have a tool with the same name and exactly one is granted, the granted tool
    /// wins even if it comes later. If one of these sources is a server and not exactly one tool is granted, all are
    /// quarantined: mimir cannot tell for which of them the rules about the name were written. A built-in tool keeps
    /// its name; only a granted tool replaces a newer one (`NewerNames`).
    pub fn new(tools: impl IntoIterator<Item = Tool>, quarantined: Vec<Quarantined>) -> Self {
        let mut registry = Self {
            quarantined,
            ..Self::default()
        };
        let mut tools: Vec<Tool> = tools.into_iter().collect();
        let names = NewerNames::remove_losers(&mut tools);
        registry.quarantined.extend(names.quarantined);
        registry.displaced = names.displaced;
        registry.replaced = names.replaced;
        let contested = contested(&tools);
        for tool in tools {
            match contested.get(tool.name().as_str()) {
                Some(holder) if holder.as_deref() != Some(&*tool.origin.location) => {
                    registry.quarantine_contested(&tool, holder.as_deref());
                }
                _ => registry.add(tool),
            }
        }
        registry.tools.sort_by(|a, b| a.name().cmp(b.name()));
        registry.names.clear();
        for (at, tool) in registry.tools.iter().enumerate() {
            // Names before aliases: an alias never hides a tool.
            registry.names.insert(tool.name().to_string(), at);
        }
        for (at, tool) in registry.tools.iter().enumerate() {
            for alias in &tool.aliases {
                registry.names.entry(alias.to_string()).or_insert(at);
            }
        }
        registry
    }

    /// Reserves names for servers: for an unknown name with a reserved prefix, [`Self::find`] reports why the server is
    /// not available.
    #[must_use]
    pub fn with_reserved(mut self, reserved: ReservedNames) -> Self {
        self.reserved = reserved;
        self
    }

    /// Lets the error for a tool that was left out quote the reason. Reasons may quote the files of tools, so only for
    /// files that an administrator has published: nobody who reads the error has them at hand.
    #[must_use]
    pub fn with_quoted_reasons(mut self, quotes: bool) -> Self {
        self.quotes_reasons = quotes;
        self
    }

    /// Quarantines a tool whose name is contested. `holder` is the location of the granted tool with that name.
    fn quarantine_contested(&mut self, tool: &Tool, holder: Option<&str>) {
        let name = tool.name();
        let reason = match holder {
            Some(holder) => format!(
                "the name `{name}` belongs to {holder}{}; {}, or give the server another `prefix`",
                if holder.starts_with("team:") {
                    ""
                } else {
                    ", which was granted"
                },
                other_name(tool)
            ),
            None => format!(
                "more than one source has a tool `{name}`, and mimir cannot choose between them, so all are left out; \
                 remove one, or give the server another `prefix`"
            ),
        };
        self.quarantined.push(Quarantined {
            location: format!("{} ({name})", tool.origin.location),
            code: ToolErrorCode::AlreadyExists,
            reason,
        });
    }

    fn add(&mut self, tool: Tool) {
        let taken = self.names.get(tool.name().as_str());
        if let Some(&at) = taken {
            let other = &self.tools[at];
            self.quarantined.push(Quarantined {
                location: format!("{} ({})", tool.origin.location, tool.name()),
                code: ToolErrorCode::AlreadyExists,
                reason: format!(
                    "the name `{}` is already used by {} ({}); {}, or remove one of the two",
                    tool.name(),
                    other.origin.location,
                    other.name(),
                    other_name(&tool),
                ),
            });
            return;
        }
        let at = self.tools.len();
        self.names.insert(tool.name().to_string(), at);
        for alias in &tool.aliases {
            self.names.entry(alias.to_string()).or_insert(at);
        }
        self.tools.push(Arc::new(tool));
    }

    /// Returns the tool with this name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.names.get(name).map(|&at| &self.tools[at])
    }

    /// Returns the tool with this name or alias. The error suggests similar names, or explains why the tool's server is
    /// not available or why the tool was left out.
    pub fn find(&self, name: &str) -> Result<&Arc<Tool>, ToolError> {
        self.get(name).ok_or_else(|| {
            let shown = crate::text::visible(crate::text::prefix(name, 64));
            if let Some(fault) = self.reserved.tool_fault(name) {
                return fault.clone();
            }
            if let Some(fault) = self.reserved.fault(name) {
                let message = format!("`{shown}` is not available: {}", fault.message);
                let remedies = fault.remedies.iter().cloned();
                return ToolError::new(ToolErrorCode::Unavailable, message).with_remedies(remedies);
            }
            if let Some(quarantined) = self.find_quarantined(name) {
                let (location, reason) = (&quarantined.location, &quarantined.reason);
                // The reason may quote the file, so mostly only the person sees it, as a remedy.
                let message = match quarantined.code {
                    ToolErrorCode::FileNotFound => {
                        let file = location.split(" (").next().unwrap_or(location);
                        format!("`{shown}` is not available: the file {file} is missing")
                    }
                    _ if self.quotes_reasons => format!(
                        "`{shown}` is left out because of a problem in {location}: {}",
                        crate::text::visible(crate::text::prefix(reason, MAX_REASON))
                    ),
                    _ => format!(
                        "`{shown}` is left out because of a problem in {location}; `mimir tools info {shown}` shows it"
                    ),
                };
                return ToolError::new(ToolErrorCode::NotFound, message).with_remedies([reason.clone()]);
            }
            let near = did_you_mean(name, self.names.keys().map(String::as_str));
            let (missing, remedies) = self.missing_files();
            ToolError::new(
                ToolErrorCode::NotFound,
                format!("unknown tool `{shown}`.{near} `mimir tools list` shows all.{missing}"),
            )
            .with_remedies(remedies)
        })
    }

    /// Returns true if the registry does not have this tool, and not the reason why it is missing either.
    pub fn is_unknown(&self, name: &str) -> bool {
        let is_left_out = || {
            self.left_out
                .iter()
                .any(|tool| tool.name().as_str() == name)
        };
        self.get(name).is_none()
            && self.reserved.tool_fault(name).is_none()
            && self.reserved.fault(name).is_none()
            && self.find_quarantined(name).is_none()
            && !is_left_out()
    }

    /// Returns a sentence about the files of tools that are missing, which an unknown tool may be in, and what a person can
    /// do about them. Both are empty without such files.
    fn missing_files(&self) -> (String, Vec<String>) {
        let missing = self.quarantined.iter().filter(|left_out| {
            left_out.code == ToolErrorCode::FileNotFound && !left_out.location.contains(" (")
        });
        let missing: Vec<&Quarantined> = missing.collect();
        let shown = missing.iter().take(MAX_MISSING_FILES);
        let files = shown
            .clone()
            .map(|left_out| crate::text::visible(crate::text::prefix(&left_out.location, 100)));
        let files: Vec<String> = files.collect();
        let mut remedies: Vec<String> = shown.map(|left_out| left_out.reason.clone()).collect();
        remedies.dedup();
        let more = match missing.len().saturating_sub(MAX_MISSING_FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = match files.as_slice() {
            [] => String::new(),
            [file] => format!(" It may be in the file {file}, which is missing."),
            _ => format!(
                " It may be in one of these files, which are missing: {}{more}.",
                files.join(", ")
            ),
        };
        (text, remedies)
    }

    /// Returns the file or the tool that was left out under this name.
    fn find_quarantined(&self, name: &str) -> Option<&Quarantined> {
        self.quarantined.iter().find(|quarantined| {
            // Either `file` or `file (tool)`.
            let (file, tool) = match quarantined.location.split_once(" (") {
                Some((file, tool)) => (file, tool.strip_suffix(')')),
                None => (quarantined.location.as_str(), None),
            };
            let stem = || {
                let file = file.rsplit('/').next()?;
                let (stem, _) = file.rsplit_once('.')?;
                Some(crate::name_suggestions::snake(stem))
            };
            match tool {
                Some(tool) => tool == name,
                None => stem().is_some_and(|stem| stem == name),
            }
        })
    }

    /// Returns a registry with the tools for which `keep` returns true. Names and aliases stay unchanged.
    #[must_use]
    pub fn only(&self, mut keep: impl FnMut(&Tool) -> bool) -> Self {
        self.map_tools(|tool| keep(tool).then(|| Arc::clone(tool)))
    }

    /// Returns a registry with the tools of one source, and with the reports about all tools that were left out.
    #[must_use]
    pub fn only_source(&self, source: ToolSource) -> Self {
        Self {
            quarantined: self.quarantined.clone(),
            quotes_reasons: self.quotes_reasons,
            ..self.only(|tool| tool.source == source)
        }
    }

    /// Returns a registry with the tools that `choose` returns, and without those for which it returns `None`. Names
    /// and aliases stay unchanged.
    #[must_use]
    pub fn map_tools(&self, mut choose: impl FnMut(&Arc<Tool>) -> Option<Arc<Tool>>) -> Self {
        let mut new_indexes = HashMap::new();
        let mut tools = Vec::new();
        let mut left_out = self.left_out.clone();
        for (at, tool) in self.tools.iter().enumerate() {
            match choose(tool) {
                Some(tool) => {
                    new_indexes.insert(at, tools.len());
                    tools.push(tool);
                }
                None => left_out.push(Arc::clone(tool)),
            }
        }
        let names = self.names.iter();
        let names = names.filter_map(|(name, at)| Some((name.clone(), *new_indexes.get(at)?)));
        Self {
            names: names.collect(),
            tools,
            quarantined: Vec::new(),
            quotes_reasons: false,
            reserved: ReservedNames::default(),
            left_out,
            displaced: self.displaced.clone(),
            replaced: Vec::new(),
        }
    }

    /// Returns a registry with more tools. A tool whose name or alias is taken is not added.
    #[must_use]
    pub fn with_added(mut self, added: Vec<Arc<Tool>>) -> Self {
        let targets: Vec<(String, String)> = self
            .names
            .iter()
            .map(|(name, &at)| (name.clone(), self.tools[at].name().to_string()))
            .collect();
        for tool in added {
            if self.get(tool.name().as_str()).is_none() {
                self.tools.push(tool);
            }
        }
        self.tools.sort_by(|a, b| a.name().cmp(b.name()));
        let positions = self.tools.iter().enumerate();
        self.names = positions
            .map(|(at, tool)| (tool.name().to_string(), at))
            .collect();
        for (name, target) in targets {
            if let Some(&at) = self.names.get(&target) {
                self.names.insert(name, at);
            }
        }
        self
    }

    /// Returns all tools, sorted by name.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the tools that [`Self::map_tools`] and [`Self::only`] have removed. They cannot be called.
    pub fn left_out(&self) -> &[Arc<Tool>] {
        &self.left_out
    }

    /// Returns all tools of the plugin that provides `tool`, with those that get their names when it is granted.
    pub fn plugin(&self, tool: &Tool) -> Vec<Arc<Tool>> {
        let location = &tool.origin.location;
        let all = self.tools.iter().chain(&self.displaced);
        all.filter(|other| other.origin.location == *location)
            .cloned()
            .collect()
    }

    /// Returns the tools that were left out because they have the name of a built-in tool, and no grant.
    pub fn displaced(&self) -> &[Arc<Tool>] {
        &self.displaced
    }

    /// Returns the built-in tools that granted tools replace, with reasons.
    pub fn replaced(&self) -> &[Quarantined] {
        &self.replaced
    }

    /// Returns the files and tools that were left out, with reasons.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }
}

/// Returns advice for renaming a tool. The tool names of a component are part of its file, which the user may be unable
/// to change, so the advice for components is a prefix.
fn other_name(tool: &Tool) -> String {
    let file = tool.origin.location.rsplit('/').next().unwrap_or_default();
    match file.strip_suffix(".wasm") {
        Some(stem) if tool.source == ToolSource::Custom => {
            let prefix = crate::name_suggestions::snake(stem);
            format!(
                "`mimir tools trust {} --prefix {}_` adds a prefix to the names of its tools",
                crate::text::visible(file),
                crate::text::prefix(&crate::text::visible(&prefix), 24)
            )
        }
        _ => "rename the tool".to_owned(),
    }
}

/// Returns the contested names: names used by several sources for which the first source does not win by default. Each
/// comes with the location of the team's tool, else of the only granted source, if there is exactly one. Names of built-in tools are never
/// contested.
fn contested(tools: &[Tool]) -> HashMap<String, Option<String>> {
    let mut by_name: HashMap<&str, Vec<&Tool>> = HashMap::new();
    for tool in tools {
        by_name.entry(tool.name().as_str()).or_default().push(tool);
    }
    let contested = by_name.into_iter().filter_map(|(name, tools)| {
        let first = tools.first()?;
        let has_several = tools
            .iter()
            .any(|tool| tool.origin.location != first.origin.location);
        let has = |source: ToolSource| tools.iter().any(|tool| tool.source == source);
        if !has_several || has(ToolSource::BuiltIn) {
            return None;
        }
        // No other source takes the name of a team's tool, with or without a grant.
        if let Some(team) = tools.iter().find(|tool| tool.source == ToolSource::Teams) {
            return Some((name.to_owned(), Some(team.origin.location.clone())));
        }
        let mut granted = tools.iter().filter(|tool| tool.trust == ToolTrust::Trusted);
        let holder = match (granted.next(), granted.next()) {
            (Some(tool), None) => Some(tool.origin.location.clone()),
            _ => None,
        };
        // Among plugin files the first wins, unless exactly one of them is granted.
        (holder.is_some() || has(ToolSource::Mcp)).then(|| (name.to_owned(), holder))
    });
    contested.collect()
}

#[cfg(test)]
mod tests;
