//! Workers: agents described by a file, with a part of their caller's tools.
//!
//! `.mimir/workers/NAME.yml` sets a worker's instructions and toolsets. Its rights are those of its toolsets that its
//! caller has too: [`Worker::restrict`] removes tools from the caller's snapshot, and adds rules that deny and ask. The
//! file cannot add permissions. Its instructions for the model are not covered by this: the code that reads the files
//! asks a person first.
//!
//! Out of scope: models, files, and the loop of an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use mimir_core::command::CommandPattern;
use mimir_core::config::{
    AgentBudget, AgentSettings, ApprovalDefaults, Config, MatcherSettings, RuleSettings,
    ToolApproval, ToolSettings,
};
use mimir_core::name_suggestions::{did_you_mean, snake};
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::policy::{PolicyFile, RuleSource, WorkerCommandRules};
use mimir_core::text::{prefix, visible};
use mimir_core::{Decision, DirectoryAccess, Tool, ToolGroup, ToolName, ToolSource};
use schemars::JsonSchema;
use serde::Deserialize;

mod toolsets;

pub use toolsets::{
    CustomToolset, EmptyToolset, FilesystemToolset, McpToolset, ShellRule, ShellToolset,
    WorkerToolsets,
};

/// The tool that calls workers.
pub const WORKER_CALL: &str = "worker_call";

/// The settings in a worker's file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerSettings {
    /// The name of the file, repeated inside if the author wishes.
    #[serde(default)]
    pub name: Option<String>,
    /// Its purpose, in one line for the model that calls it.
    #[serde(default)]
    pub description: Option<String>,
    /// The instructions for its model, in addition to those that all models get.
    #[serde(default)]
    pub instructions: String,
    /// PROVIDER/MODEL, in place of the caller's.
    #[serde(default)]
    pub model: Option<String>,
    /// Limits of one task, within those of `agent` in the settings.
    #[serde(default)]
    pub budget: WorkerBudget,
    /// Its tools.
    #[serde(default)]
    pub toolsets: WorkerToolsets,
}

/// Limits of one task of a worker.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerBudget {
    /// Replies of the model.
    pub max_turns: Option<u64>,
    /// Tool calls.
    pub max_tool_calls: Option<u64>,
    /// Tokens, sent and received.
    pub max_tokens: Option<u64>,
    /// Money, in the currency of `providers.*.prices`.
    pub max_cost: Option<f64>,
    /// Time in milliseconds, without the time spent on approvals.
    pub max_time_ms: Option<u64>,
}

/// A worker.
#[derive(Debug, Clone)]
pub struct Worker {
    name: String,
    file: String,
    lines: Arc<BTreeMap<String, u64>>,
    settings: Arc<WorkerSettings>,
    shell: Option<WorkerCommandRules>,
}

/// Maximum length of a description that a caller's model reads, in characters.
const DESCRIPTION_MAX: usize = 500;

impl Worker {
    /// Creates a worker from a file with the line numbers of its keys. The error names the wrong key and the reason.
    pub fn new(
        name: &str,
        file: &str,
        lines: BTreeMap<String, u64>,
        settings: WorkerSettings,
    ) -> Result<Self, (String, String)> {
        let wrong = |key: &str, why: String| Err((key.to_owned(), why));
        if ToolName::new(&name.replace('-', "_")).is_err() {
            return wrong(
                "name",
                format!("`{name}` is not a valid worker name: use a-z, 0-9, `-` and `_`"),
            );
        }
        if settings.name.as_ref().is_some_and(|own| own != name) {
            return wrong(
                "name",
                format!("the file belongs to `{name}`: leave `name` out"),
            );
        }
        if settings.instructions.trim().is_empty() && settings.toolsets == WorkerToolsets::default()
        {
            let why = "there are neither instructions nor toolsets".to_owned();
            return wrong("instructions", why);
        }
        if let Err(why) = settings.budget.agent().check("budget") {
            return wrong("budget", why);
        }
        let mut shell = None;
        if let Some(toolset) = &settings.toolsets.shell {
            let mut rules = Vec::new();
            for (at, rule) in toolset.rules.iter().enumerate() {
                // The established syntax for "any arguments follow".
                let rest = if rule.pattern.ends_with(' ') { "*" } else { "" };
                match CommandPattern::parse(&format!("{}{rest}", rule.pattern)) {
                    Ok(pattern) => rules.push((pattern, rule.approval)),
                    Err(why) => return wrong(&format!("toolsets.shell.rules[{at}].pattern"), why),
                }
            }
            shell = Some(WorkerCommandRules {
                rules,
                default: toolset.default,
            });
        }
        if let Some(custom) = &settings.toolsets.custom {
            if custom.tools.is_empty() {
                return wrong(
                    "toolsets.custom.tools",
                    "`tools` is empty: name the tools that the worker has".to_owned(),
                );
            }
            let strange = custom
                .approval
                .tools
                .keys()
                .find(|name| !custom.tools.contains(name));
            if let Some(strange) = strange {
                let near = did_you_mean(strange, custom.tools.iter().map(String::as_str));
                return wrong(
                    "toolsets.custom.approval.tools",
                    format!("`{strange}` is not among `tools`.{near}"),
                );
            }
        }
        if let Some(filesystem) = &settings.toolsets.filesystem {
            let mut config = Config::default();
            config.files.deny.clone_from(&filesystem.deny);
            if let Err(error) = PolicyFile::for_worker(&config, file.into(), None) {
                return wrong("toolsets.filesystem.deny", error.to_string());
            }
        }
        Ok(Self {
            name: name.to_owned(),
            file: file.to_owned(),
            lines: Arc::new(lines),
            settings: Arc::new(settings),
            shell,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file, as messages show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its toolsets, for a person.
    pub fn toolsets(&self) -> String {
        let sets = &self.settings.toolsets;
        let files = sets.filesystem.as_ref().map(|files| match files.read_only {
            true => "filesystem (read only)".to_owned(),
            false => "filesystem".to_owned(),
        });
        let custom = sets.custom.as_ref();
        let custom =
            custom.map(|custom| format!("{} of {}", custom.tools.join(", "), custom.module));
        let named = [
            files,
            sets.shell.as_ref().map(|_| "shell".to_owned()),
            custom,
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
        match all.is_empty() {
            true => "none".to_owned(),
            false => visible(&all.join("; ")),
        }
    }

    /// The settings in its file.
    pub fn settings(&self) -> &WorkerSettings {
        &self.settings
    }

    /// Its purpose, on one line.
    pub fn description(&self) -> String {
        let own = self.settings.description.as_deref();
        let text = own.unwrap_or(&self.settings.instructions);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        visible(prefix(line.unwrap_or_default(), DESCRIPTION_MAX))
    }

    /// The limits of a task for a caller with these limits.
    pub fn budget(&self, outer: AgentBudget) -> AgentBudget {
        self.settings.budget.agent().over(outer).tightest(outer)
    }

    /// Restricts the caller's tools and rules to those that the worker has, and adds the rules of its file.
    pub fn restrict(&self, snapshot: &PipelineSnapshot) -> PipelineSnapshot {
        let mut config = Config::default();
        if let Some(files) = &self.settings.toolsets.filesystem {
            // Also covers commands and third-party tools.
            config.files.deny.clone_from(&files.deny);
        }
        let registry = snapshot.registry.map_tools(|tool| {
            let settings = self.has(tool)?;
            config.tools.each.insert(tool.name().to_string(), settings);
            Some(self.within_files(tool))
        });
        match PolicyFile::for_worker(&config, self.source(), self.shell.clone()) {
            Ok(file) => PipelineSnapshot {
                registry,
                policy: snapshot.policy.restricted_by_worker(file),
            },
            // The file was validated when it was read; should it fail all the same, the worker gets nothing.
            Err(_) => PipelineSnapshot {
                registry: snapshot.registry.only(|_| false),
                policy: snapshot.policy.clone(),
            },
        }
    }

    /// Restricts the tool to the worker's files. `filesystem` also bounds tools that write in other ways: code,
    /// commands, custom tools. Without it, commands and custom tools named in the worker's file keep their needs;
    /// code, which belongs to no toolset, gets no files. Memories are a toolset of their own.
    fn within_files(&self, tool: &Arc<Tool>) -> Arc<Tool> {
        if tool.definition.group == ToolGroup::Memory && tool.source == ToolSource::BuiltIn {
            return Arc::clone(tool);
        }
        let most = match &self.settings.toolsets.filesystem {
            Some(files) if files.read_only => Some(DirectoryAccess::Read),
            Some(_) => return Arc::clone(tool),
            None if tool.runs_code() => None,
            None => return Arc::clone(tool),
        };
        let mut tool = Tool::clone(tool);
        for needs in [&mut tool.granted, &mut tool.definition.needs] {
            match most {
                Some(most) => {
                    for need in &mut needs.files {
                        need.access = need.access.min(most);
                    }
                }
                None => needs.files.clear(),
            }
        }
        Arc::new(tool)
    }

    /// Names in its file that do not exist: a sentence for each.
    pub fn missing(&self, snapshot: &PipelineSnapshot) -> Vec<String> {
        let mut missing = Vec::new();
        let tools = snapshot.registry.tools();
        if let Some(custom) = &self.settings.toolsets.custom {
            let own = tools
                .iter()
                .filter(|tool| is_in_module(tool, &custom.module));
            let own: Vec<&Tool> = own.map(AsRef::as_ref).collect();
            if own.is_empty() {
                let module = visible(&custom.module);
                missing.push(format!(
                    "{}: no tools are loaded from `{module}`: expected a tool file in .mimir/tools. Build a TypeScript \
                     module with `mimir tools build {module}`, or name the file that `mimir tools list` shows",
                    self.at("toolsets.custom.module"),
                ));
            } else {
                let is_there = |name: &str| own.iter().any(|tool| is_called(tool, name));
                for name in custom.tools.iter().filter(|name| !is_there(name)) {
                    let near = did_you_mean(name, own.iter().map(|tool| tool.name().as_str()));
                    missing.push(format!(
                        "{}: `{}` has no tool `{}`.{near}",
                        self.at("toolsets.custom.tools"),
                        visible(&custom.module),
                        visible(name)
                    ));
                }
            }
        }
        for name in self.settings.toolsets.mcp.keys() {
            if !tools.iter().any(|tool| is_from_server(tool, name)) {
                missing.push(format!(
                    "{}: the server `{}` is unknown or has no tools; `mimir mcp list` shows the servers",
                    self.at("toolsets.mcp"),
                    visible(name)
                ));
            }
        }
        missing
    }

    /// `file:line` of a key.
    pub fn at(&self, key: &str) -> String {
        self.source().at(key)
    }

    fn source(&self) -> RuleSource {
        let lines = Arc::clone(&self.lines);
        RuleSource::new(self.file.clone(), move || (*lines).clone())
    }

    /// Returns the settings for a tool if the worker has it.
    fn has(&self, tool: &Tool) -> Option<ToolSettings> {
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
            ToolSource::Custom => {
                let custom = sets.custom.as_ref()?;
                let named = custom.tools.iter().any(|name| is_called(tool, name));
                if !named || !is_in_module(tool, &custom.module) {
                    return None;
                }
                own.approval = approval(tool, &custom.approval);
            }
            ToolSource::Mcp => {
                let (name, server) = sets
                    .mcp
                    .iter()
                    .find(|(name, _)| is_from_server(tool, name))?;
                let named = |wanted: &String| {
                    tool.answers_to(wanted) || tool.answers_to(&format!("mcp_{name}_{wanted}"))
                };
                if server
                    .tools
                    .as_ref()
                    .is_some_and(|tools| !tools.iter().any(named))
                {
                    return None;
                }
                own.approval = approval(tool, &server.approval);
            }
            ToolSource::Teams => return None,
        }
        Some(own)
    }
}

impl WorkerBudget {
    fn agent(&self) -> AgentSettings {
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

/// The approval setting of a tool by name, or else that of all tools; `ask` if neither is set.
fn approval(tool: &Tool, set: &ApprovalDefaults) -> ToolApproval {
    let named = set.tools.iter().find(|(name, _)| is_called(tool, name));
    match named {
        Some((_, decision)) => ToolApproval::Word(*decision),
        None if tool.definition.silent || set.default.is_some() => {
            ToolApproval::Word(set.default.unwrap_or(Decision::Ask))
        }
        None => ToolApproval::Unset,
    }
}

/// Returns true if a worker's file refers to this tool: by its name, or by the name of its function in a module.
fn is_called(tool: &Tool, name: &str) -> bool {
    let exported = || tool.source == ToolSource::Custom && snake(name) == tool.name().as_str();
    tool.answers_to(name) || exported()
}

/// Returns true if a tool comes from the given file of `.mimir/tools`, named with or without its extension and
/// folders; or from a plugin built from that module.
fn is_in_module(tool: &Tool, module: &str) -> bool {
    let file = |path: &str| {
        path.rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let (own, named) = (file(&tool.origin.location), file(module));
    let Some((stem, ending)) = own.rsplit_once('.') else {
        return false;
    };
    let of_source = || {
        let (named, written) = named.rsplit_once('.')?;
        let is_module = matches!(written, "ts" | "mts" | "cts" | "js" | "mjs" | "cjs");
        Some(ending == "wasm" && is_module && named == stem)
    };
    let is_it = own == named || stem == named || of_source() == Some(true);
    tool.source == ToolSource::Custom && is_it
}

fn is_from_server(tool: &Tool, server: &str) -> bool {
    tool.source == ToolSource::Mcp && tool.origin.location == format!("mcp:{server}")
}

/// The rule that forbids calls of all other workers.
fn only_workers(workers: &[String]) -> Vec<RuleSettings> {
    let names: Vec<String> = workers.iter().map(|name| regex::escape(name)).collect();
    let one_of_them = MatcherSettings {
        regex: Some(format!("^(?:{})$", names.join("|"))),
        ..MatcherSettings::default()
    };
    let another = MatcherSettings {
        not: Some(Box::new(one_of_them)),
        ..MatcherSettings::default()
    };
    vec![RuleSettings {
        name: None,
        tools: Vec::new(),
        groups: Vec::new(),
        sources: Vec::new(),
        when: [("worker".to_owned(), another)].into(),
        decision: Decision::Deny,
        reason: Some("it may call the workers that its file names, and no others".to_owned()),
        matches: Vec::new(),
        no_match: Vec::new(),
    }]
}
