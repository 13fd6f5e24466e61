//! Workers: agents defined by a file, with a subset of the caller's tools.
//!
//! `.mimir/workers/NAME.yml` sets a worker's instructions and toolsets. A worker only gets tools that its caller also
//! has: [`Worker::restrict`] removes tools from the caller's snapshot and adds rules that deny or ask. The file cannot
//! add permissions, but its instructions are free text, so the code that reads worker files asks a person first.
//!
//! Out of scope: models, reading files, and the agent loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::command::CommandPattern;
use mimir_core::config::{
    AgentBudget, AgentSettings, ApprovalDefaults, Config, MatcherSettings, RuleSettings,
    ToolApproval, ToolSettings,
};
use mimir_core::name_suggestions::{did_you_mean, mcp_snake, snake};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::policy::{PolicyFile, RuleSource, WorkerCommandRules};
use mimir_core::text::{prefix, visible};
use mimir_core::{Decision, DirectoryAccess, Registry, Tool, ToolGroup, ToolName, ToolSource};
use schemars::JsonSchema;
use serde::Deserialize;

mod external_toolset;
mod missing_names;
mod own_tools;
mod toolsets;

pub use external_toolset::ExternalToolset;
pub use own_tools::{WorkerOwnTools, WorkerOwnToolset};
pub use toolsets::{
    CustomToolset, EmptyToolset, FilesystemToolset, McpToolset, ShellRule, ShellToolset,
    WorkerToolsets,
};

/// The tool that calls workers.
pub const WORKER_CALL: &str = "worker_call";

/// Contents of a worker's file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerSettings {
    /// Name of the worker. Optional; if set, it must equal the file name.
    #[serde(default)]
    pub name: Option<String>,
    /// Purpose of the worker in one line, for the calling model.
    #[serde(default)]
    pub description: Option<String>,
    /// Instructions for the worker's model, in addition to those that every model gets.
    #[serde(default)]
    pub instructions: String,
    /// Model as PROVIDER/MODEL. Default: the caller's model.
    #[serde(default)]
    pub model: Option<String>,
    /// Limits of one task. They cannot exceed the limits of `agent` in the settings.
    #[serde(default)]
    pub budget: WorkerBudget,
    /// Tools of the worker.
    #[serde(default)]
    pub toolsets: WorkerToolsets,
}

/// Limits of one worker task. Unset limits are those of `agent` in the settings.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerBudget {
    /// Maximum number of model replies.
    pub max_turns: Option<u64>,
    /// Maximum number of tool calls.
    pub max_tool_calls: Option<u64>,
    /// Maximum number of tokens, sent and received.
    pub max_tokens: Option<u64>,
    /// Maximum cost, in the currency of `providers.*.prices`.
    pub max_cost: Option<f64>,
    /// Maximum time in milliseconds, excluding time spent on approvals.
    pub max_time_ms: Option<u64>,
}

/// A worker with validated settings.
#[derive(Debug, Clone)]
pub struct Worker {
    name: String,
    file: String,
    lines: Arc<BTreeMap<String, u64>>,
    settings: Arc<WorkerSettings>,
    shell: Option<WorkerCommandRules>,
    own: Arc<[WorkerOwnTools]>,
}

/// Maximum length of the description shown to the calling model, in characters.
const DESCRIPTION_MAX: usize = 500;

impl Worker {
    /// Validates the settings of a worker's file. `lines` maps the file's keys to line numbers. The error is the
    /// invalid key and the reason.
    pub fn new(
        name: &str,
        file: &str,
        lines: BTreeMap<String, u64>,
        settings: WorkerSettings,
    ) -> Result<Self, (String, String)> {
        let invalid = |key: &str, why: String| Err((key.to_owned(), why));
        if ToolName::new(&name.replace('-', "_")).is_err() {
            return invalid(
                "name",
                format!("`{name}` is not a valid worker name: use a-z, 0-9, `-` and `_`"),
            );
        }
        if settings.name.as_ref().is_some_and(|own| own != name) {
            return invalid(
                "name",
                format!(
                    "`name` differs from the file name `{name}`: remove `name` or rename the file"
                ),
            );
        }
        if settings.instructions.trim().is_empty() && settings.toolsets == WorkerToolsets::default()
        {
            let why = "the file has neither instructions nor toolsets: add at least one".to_owned();
            return invalid("instructions", why);
        }
        if let Err(why) = settings.budget.agent_settings().check("budget") {
            return invalid("budget", why);
        }
        let shell = match &settings.toolsets.shell {
            Some(toolset) => Some(parse_shell_rules(toolset)?),
            None => None,
        };
        if let Some(custom) = &settings.toolsets.custom {
            if custom.tools.is_empty() {
                let why = "`tools` is empty: list the worker's tools".to_owned();
                return invalid("toolsets.custom.tools", why);
            }
            check_approvals("toolsets.custom", &custom.tools, &custom.approval)?;
        }
        if let Some(external) = &settings.toolsets.external {
            external.check()?;
        }
        for (server, toolset) in &settings.toolsets.mcp {
            if let Some(tools) = &toolset.tools {
                check_approvals(&format!("toolsets.mcp.{server}"), tools, &toolset.approval)?;
            }
        }
        if let Some(filesystem) = &settings.toolsets.filesystem {
            let mut config = Config::default();
            config.files.deny.clone_from(&filesystem.deny);
            if let Err(error) = PolicyFile::for_worker(&config, file.into(), None) {
                return invalid("toolsets.filesystem.deny", error.to_string());
            }
        }
        Ok(Self {
            name: name.to_owned(),
            file: file.to_owned(),
            lines: Arc::new(lines),
            settings: Arc::new(settings),
            shell,
            own: Arc::default(),
        })
    }

    /// Returns the name of the worker.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the worker's file, as shown in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Describes the toolsets for display, on one line; `none` if there are no toolsets.
    pub fn toolsets(&self) -> String {
        let sets = &self.settings.toolsets;
        let files = sets.filesystem.as_ref().map(|files| {
            if files.read_only {
                "filesystem (read only)".to_owned()
            } else {
                "filesystem".to_owned()
            }
        });
        let custom = sets.custom.as_ref();
        let custom =
            custom.map(|custom| format!("{} of {}", custom.tools.join(", "), custom.module));
        let named = [
            files,
            sets.shell.as_ref().map(|_| "shell".to_owned()),
            custom,
            sets.external.as_ref().map(ExternalToolset::summary),
            sets.web.map(|_| "web".to_owned()),
            sets.code.map(|_| "code".to_owned()),
            sets.memory.map(|_| "memory".to_owned()),
        ];
        let servers = sets.mcp.keys().map(|name| format!("the server {name}"));
        let workers = sets.workers.iter().map(|name| format!("the worker {name}"));
        let all: Vec<String> = named
            .into_iter()
            .flatten()
            .chain(servers)
            .chain(workers)
            .collect();
        if all.is_empty() {
            "none".to_owned()
        } else {
            visible(&all.join("; "))
        }
    }

    /// Returns the contents of the worker's file.
    pub fn settings(&self) -> &WorkerSettings {
        &self.settings
    }

    /// Returns the purpose on one line: the first line of the description, or else of the instructions.
    pub fn description(&self) -> String {
        let own = self.settings.description.as_deref();
        let text = own.unwrap_or(&self.settings.instructions);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        visible(prefix(line.unwrap_or_default(), DESCRIPTION_MAX))
    }

    /// Returns the limits of a task: those of the file, capped at `outer`, the limits of `agent` in the settings.
    pub fn budget(&self, outer: AgentBudget) -> AgentBudget {
        self.settings
            .budget
            .agent_settings()
            .over(outer)
            .tightest(outer)
    }

    /// Restricts the caller's snapshot to the worker's tools and adds the rules of the worker's file.
    pub fn restrict(&self, snapshot: &PipelineSnapshot) -> PipelineSnapshot {
        let mut config = Config::default();
        if let Some(files) = &self.settings.toolsets.filesystem {
            // Also covers commands and third-party tools.
            config.files.deny.clone_from(&files.deny);
        }
        let unmatched = self.unmatched_approvals(&snapshot.registry);
        let registry = snapshot.registry.map_tools(|tool| {
            let settings = self.settings_for(tool, &unmatched)?;
            config.tools.each.insert(tool.name().to_string(), settings);
            Some(self.limit_file_access(tool))
        });
        let registry = registry.with_added(self.own_tools(snapshot, &mut config));
        match PolicyFile::for_worker(&config, self.source(), self.shell.clone()) {
            Ok(file) => PipelineSnapshot {
                registry,
                policy: snapshot.policy.restricted_by_worker(file),
            },
            // `new` has validated the file. If this fails nevertheless, the worker must not run without the rules, so
            // it gets no tools.
            Err(_) => PipelineSnapshot {
                registry: snapshot.registry.only(|_| false),
                policy: snapshot.policy.clone(),
            },
        }
    }

    /// Restricts a tool's file access to that of `toolsets.filesystem`, which covers code, commands and custom tools as
    /// well. Without `filesystem`, `run_code` gets no files, and all other tools keep their needs. Memory tools are
    /// never restricted here, because `memory` is a toolset of its own.
    fn limit_file_access(&self, tool: &Arc<Tool>) -> Arc<Tool> {
        if tool.definition.group == ToolGroup::Memory && tool.source == ToolSource::BuiltIn {
            return Arc::clone(tool);
        }
        let max_access = match &self.settings.toolsets.filesystem {
            Some(files) if files.read_only => Some(DirectoryAccess::Read),
            Some(_) => return Arc::clone(tool),
            None if tool.runs_code() => None,
            None => return Arc::clone(tool),
        };
        let mut tool = Tool::clone(tool);
        for needs in [&mut tool.granted, &mut tool.definition.needs] {
            match max_access {
                Some(max_access) => {
                    for need in &mut needs.files {
                        need.access = need.access.min(max_access);
                    }
                }
                None => needs.files.clear(),
            }
        }
        Arc::new(tool)
    }

    /// Returns for each server the strictest approval that the worker's file sets for a tool that the server does not
    /// have. Such a name may be misspelt, so the approval applies to the tools without one of their own. Tools that
    /// only the caller lacks are not misspelt. If the file lists the server's tools, a misspelt one is not available.
    fn unmatched_approvals(&self, registry: &Registry) -> BTreeMap<&str, Decision> {
        let all = || registry.tools().iter().chain(registry.left_out());
        let servers = self.settings.toolsets.mcp.iter();
        let unlisted = servers.filter(|(_, toolset)| toolset.tools.is_none());
        let unmatched = unlisted.filter_map(|(server, toolset)| {
            let exists = |name: &str| {
                all().any(|tool| is_from_server(tool, server) && matches_name(tool, name))
            };
            let entries = toolset.approval.tools.iter();
            let entries = entries.filter(|(name, _)| !exists(name));
            let strictest = entries.map(|(_, decision)| *decision).max()?;
            Some((server.as_str(), strictest))
        });
        unmatched.collect()
    }

    /// Returns the location of a key as `FILE:LINE`.
    pub fn at(&self, key: &str) -> String {
        self.source().at(key)
    }

    fn source(&self) -> RuleSource {
        let lines = Arc::clone(&self.lines);
        RuleSource::new(self.file.clone(), move || (*lines).clone())
    }

    /// Returns the settings that the worker's file adds for a tool; `None` if the worker does not have the tool.
    /// `unmatched` has the result of [`Self::unmatched_approvals`].
    fn settings_for(
        &self,
        tool: &Tool,
        unmatched: &BTreeMap<&str, Decision>,
    ) -> Option<ToolSettings> {
        let sets = &self.settings.toolsets;
        let mut own = ToolSettings::default();
        match tool.source {
            ToolSource::BuiltIn => match (tool.definition.group, tool.name().as_str()) {
                (ToolGroup::Fs, _) => {
                    let files = sets.filesystem.as_ref()?;
                    if files.read_only && !tool.definition.hints.read_only {
                        return None;
                    }
                }
                (_, WORKER_CALL) => {
                    if sets.workers.is_empty() {
                        return None;
                    }
                    own.rules = only_workers(&sets.workers);
                }
                _ if tool.runs_code() => drop(sets.code?),
                (ToolGroup::Runtime, _) => drop(sets.shell.as_ref()?),
                (ToolGroup::Net | ToolGroup::Browser, _) => drop(sets.web?),
                (ToolGroup::Memory, _) => drop(sets.memory?),
                (ToolGroup::System, _) => return None,
            },
            ToolSource::Custom | ToolSource::Teams => {
                if self.has_own(WorkerOwnToolset::Module) {
                    return None;
                }
                let custom = sets.custom.as_ref()?;
                let named = custom.tools.iter().any(|name| matches_name(tool, name));
                if !named || !is_in_module(tool, &custom.module) {
                    return None;
                }
                // `new` has checked that each approval is of a listed tool. If its name matches no tool, the worker
                // does not get the tool.
                own.approval = tool_approval(tool, &custom.approval, None);
            }
            ToolSource::Mcp => {
                let server = server_of(tool)?;
                let toolset = sets.mcp.get(server)?;
                if let Some(names) = &toolset.tools
                    && !names.iter().any(|name| matches_name(tool, name))
                {
                    return None;
                }
                let unmatched = unmatched.get(server).copied();
                own.approval = tool_approval(tool, &toolset.approval, unmatched);
            }
        }
        Some(own)
    }
}

/// Parses the command patterns of a shell toolset. The error is the invalid key and the reason.
fn parse_shell_rules(toolset: &ShellToolset) -> Result<WorkerCommandRules, (String, String)> {
    let mut rules = Vec::new();
    for (at, rule) in toolset.rules.iter().enumerate() {
        // In worker files, a space at the end means "any arguments".
        let rest = if rule.pattern.ends_with(' ') { "*" } else { "" };
        match CommandPattern::parse(&format!("{}{rest}", rule.pattern)) {
            Ok(pattern) => rules.push((pattern, rule.approval)),
            Err(why) => return Err((format!("toolsets.shell.rules[{at}].pattern"), why)),
        }
    }
    Ok(WorkerCommandRules {
        rules,
        default: toolset.default,
    })
}

/// Checks that the toolset at the key `toolset` sets approvals only for the tools that it lists. The error is the
/// invalid key and the reason.
fn check_approvals(
    toolset: &str,
    tools: &[String],
    approval: &ApprovalDefaults,
) -> Result<(), (String, String)> {
    match approval.tools.keys().find(|name| !tools.contains(name)) {
        Some(unlisted) => {
            let near = did_you_mean(unlisted, tools.iter().map(String::as_str));
            Err((
                format!("{toolset}.approval.tools"),
                format!("`{unlisted}` is not among `tools`.{near}"),
            ))
        }
        None => Ok(()),
    }
}

impl WorkerBudget {
    /// Converts the limits to agent settings. Limits that a worker file cannot set stay unset.
    fn agent_settings(&self) -> AgentSettings {
        AgentSettings {
            max_turns: self.max_turns,
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            max_time_ms: self.max_time_ms,
            ..AgentSettings::default()
        }
    }
}

/// Returns the approval setting of a tool: the strictest entry that names the tool, or else the toolset's `default`. If
/// neither is set, a tool without a default of its own asks; any other tool keeps its default (`Unset`). `unmatched`
/// replaces a default that is less strict.
fn tool_approval(tool: &Tool, set: &ApprovalDefaults, unmatched: Option<Decision>) -> ToolApproval {
    let named = set
        .tools
        .iter()
        .filter(|(name, _)| matches_name(tool, name));
    if let Some(decision) = named.map(|(_, decision)| *decision).max() {
        return ToolApproval::Word(decision);
    }
    let default = match set.default {
        None if tool.definition.silent => Some(Decision::Ask),
        default => default,
    };
    let least = default.unwrap_or(tool.definition.approval);
    match unmatched.filter(|unmatched| *unmatched > least).or(default) {
        Some(decision) => ToolApproval::Word(decision),
        None => ToolApproval::Unset,
    }
}

/// Returns true if `name` is the tool's name or alias, the name of the exported function of a custom tool, with or
/// without the tool's prefix, or a server's own name of its tool. If the settings change the prefix of a server's tools,
/// only the whole name matches.
fn matches_name(tool: &Tool, name: &str) -> bool {
    let is_own_name = || match tool.source {
        ToolSource::Custom | ToolSource::Teams => {
            let name = snake(name);
            tool.own_name() == name || tool.name().as_str() == name
        }
        ToolSource::Mcp => server_of(tool).is_some_and(|server| {
            tool.name().as_str() == format!("mcp_{}_{}", mcp_snake(server), mcp_snake(name))
        }),
        ToolSource::BuiltIn => false,
    };
    tool.answers_to(name) || is_own_name()
}

/// Returns true if a custom tool comes from the given file of `.mimir/tools`, or from the plugin built from that
/// TypeScript or JavaScript module, or if a team's tool comes from a file of this name. Folders are ignored, and the file
/// extension is optional.
fn is_in_module(tool: &Tool, module: &str) -> bool {
    let file_name = |path: &str| {
        path.rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let (own, named) = (file_name(&tool.origin.location), file_name(module));
    let Some((stem, extension)) = own.rsplit_once('.') else {
        return false;
    };
    let is_built_from = || {
        let (named_stem, named_extension) = named.rsplit_once('.')?;
        let is_source = matches!(named_extension, "ts" | "mts" | "cts" | "js" | "mjs" | "cjs");
        Some(extension == "wasm" && is_source && named_stem == stem)
    };
    let matches = own == named || stem == named || is_built_from() == Some(true);
    matches && matches!(tool.source, ToolSource::Custom | ToolSource::Teams)
}

fn is_from_server(tool: &Tool, server: &str) -> bool {
    server_of(tool) == Some(server)
}

/// Returns the name of the MCP server that provides a tool.
fn server_of(tool: &Tool) -> Option<&str> {
    let location = tool.origin.location.strip_prefix("mcp:")?;
    (tool.source == ToolSource::Mcp).then_some(location)
}

/// Returns a rule that denies calls of all other workers.
fn only_workers(workers: &[String]) -> Vec<RuleSettings> {
    let names: Vec<String> = workers.iter().map(|name| regex::escape(name)).collect();
    let listed = MatcherSettings {
        regex: Some(format!("^(?:{})$", names.join("|"))),
        ..MatcherSettings::default()
    };
    let unlisted_worker = MatcherSettings {
        not: Some(Box::new(listed)),
        ..MatcherSettings::default()
    };
    vec![RuleSettings {
        name: None,
        tools: Vec::new(),
        groups: Vec::new(),
        sources: Vec::new(),
        when: [("worker".to_owned(), unlisted_worker)].into(),
        decision: Decision::Deny,
        reason: Some("the worker may only call the workers listed in its file".to_owned()),
        matches: Vec::new(),
        no_match: Vec::new(),
    }]
}
