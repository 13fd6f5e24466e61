//! Workers: agents that a file describes, with some of the tools of whoever calls them.
//!
//! `.mimir/workers/NAME.yml` says what a worker is told and which toolsets it has. Its rights are those of its toolsets
//! that its caller has too: [`Worker::narrow`] takes tools away from the caller's world, and adds rules that forbid and
//! ask. Nothing in the file allows what would not be allowed without it. What it says to a model is another matter, and
//! whoever reads the files asks a person first.
//!
//! Never here: models, files, and the loop of an agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::CommandPattern;
use crate::config::{
    AgentSettings, ApprovalDefaults, ApprovalSetting, Budget, Config, MatcherSettings,
    RuleSettings, ToolSettings,
};
use crate::decision::Decision;
use crate::names::{did_you_mean, snake};
use crate::needs::Access;
use crate::pipeline::World;
use crate::policy::{Policy, WorkerCommands};
use crate::tool::{Group, Source, Tool, ToolName};
use schemars::JsonSchema;
use serde::Deserialize;

mod toolsets;

pub use toolsets::{Custom, Filesystem, Nothing, Server, Shell, ShellRule, Toolsets};

/// The tool that calls workers.
pub const WORKER_CALL: &str = "worker_call";

/// A worker's file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerSettings {
    /// The name of the file, where somebody wants to read it inside, too.
    #[serde(default)]
    pub name: Option<String>,
    /// What it is for, in a line for the model that calls it.
    #[serde(default)]
    pub description: Option<String>,
    /// What its model is told, beside what all are told.
    #[serde(default)]
    pub instructions: String,
    /// PROVIDER/MODEL, in place of the caller's.
    #[serde(default)]
    pub model: Option<String>,
    /// Bounds of one task, within those of `agent` in the settings.
    #[serde(default)]
    pub budget: WorkerBudget,
    /// The tools that it has.
    #[serde(default)]
    pub toolsets: Toolsets,
}

/// Bounds of one task of a worker.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerBudget {
    /// Answers of the model.
    pub max_turns: Option<u64>,
    /// Calls of tools.
    pub max_tool_calls: Option<u64>,
    /// Tokens, sent and answered.
    pub max_tokens: Option<u64>,
    /// Money, in the currency of `providers.*.prices`.
    pub max_cost: Option<f64>,
    /// Time in milliseconds, without that of a person.
    pub max_time_ms: Option<u64>,
}

/// A worker.
#[derive(Debug, Clone)]
pub struct Worker {
    name: String,
    file: String,
    lines: Arc<BTreeMap<String, u64>>,
    settings: Arc<WorkerSettings>,
    shell: Option<WorkerCommands>,
}

/// Letters of a description that a caller's model reads.
const DESCRIPTION_MOST: usize = 500;

impl Worker {
    /// The worker of a file whose keys stand in these lines. The error says which key is wrong, and what.
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
                format!("`{name}` is no name of a worker: a-z, 0-9, `-` and `_`"),
            );
        }
        if settings.name.as_ref().is_some_and(|own| own != name) {
            return wrong(
                "name",
                format!("the file is that of `{name}`; leave `name` out"),
            );
        }
        if settings.instructions.trim().is_empty() && settings.toolsets == Toolsets::default() {
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
                // The seeds' way to say: whatever follows.
                let rest = if rule.pattern.ends_with(' ') { "*" } else { "" };
                match CommandPattern::parse(&format!("{}{rest}", rule.pattern)) {
                    Ok(pattern) => rules.push((pattern, rule.approval)),
                    Err(why) => return wrong(&format!("toolsets.shell.rules[{at}].pattern"), why),
                }
            }
            shell = Some(WorkerCommands {
                rules,
                rest: toolset.default,
            });
        }
        if let Some(custom) = &settings.toolsets.custom {
            if custom.tools.is_empty() {
                return wrong(
                    "toolsets.custom.tools",
                    "it names no tools; a worker has those that are named".to_owned(),
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
            if let Err(error) = Policy::of_worker(&config, file.into(), None) {
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

    /// What it is called by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How messages call its file.
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
            false => crate::text::visible(&all.join("; ")),
        }
    }

    /// What its file says.
    pub fn settings(&self) -> &WorkerSettings {
        &self.settings
    }

    /// What it is for, on one line.
    pub fn description(&self) -> String {
        let own = self.settings.description.as_deref();
        let text = own.unwrap_or(&self.settings.instructions);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        crate::text::visible(crate::text::prefix(
            line.unwrap_or_default(),
            DESCRIPTION_MOST,
        ))
    }

    /// The bounds of a task for somebody who has these.
    pub fn budget(&self, outer: Budget) -> Budget {
        self.settings.budget.agent().over(outer).tightest(outer)
    }

    /// Of the tools and rules of whoever calls it those that it has, and the rules of its file.
    pub fn narrow(&self, world: &World) -> World {
        let mut config = Config::default();
        if let Some(files) = &self.settings.toolsets.filesystem {
            // For commands and tools of others, too.
            config.files.deny.clone_from(&files.deny);
        }
        let registry = world.registry.with(|tool| {
            let settings = self.has(tool)?;
            config.tools.each.insert(tool.name().to_string(), settings);
            Some(self.within_files(tool))
        });
        match Policy::of_worker(&config, self.source(), self.shell.clone()) {
            Ok(policy) => World {
                registry,
                policy: world.policy.narrowed(policy),
            },
            // All of it was checked when the file was read; were it wrong all the same, the worker has nothing.
            Err(_) => World {
                registry: world.registry.only(|_| false),
                policy: world.policy.clone(),
            },
        }
    }

    /// The tool with as much of its files as the worker has. `filesystem` bounds what writes by another way, too: code,
    /// commands, tools of one's own. Where there is none, commands and one's own tools are named in the worker's file and
    /// keep what they need; code is nobody's in particular, and has no files. The memories are a toolset of their own.
    fn within_files(&self, tool: &Arc<Tool>) -> Arc<Tool> {
        if tool.definition.group == Group::Memory && tool.source == Source::BuiltIn {
            return Arc::clone(tool);
        }
        let most = match &self.settings.toolsets.filesystem {
            Some(files) if files.read_only => Some(Access::Read),
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

    /// What its file names and is not there: a sentence for each.
    pub fn missing(&self, world: &World) -> Vec<String> {
        let mut missing = Vec::new();
        let tools = world.registry.tools();
        if let Some(custom) = &self.settings.toolsets.custom {
            let own = tools.iter().filter(|tool| of_module(tool, &custom.module));
            let own: Vec<&Tool> = own.map(AsRef::as_ref).collect();
            if own.is_empty() {
                let module = crate::text::visible(&custom.module);
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
                        crate::text::visible(&custom.module),
                        crate::text::visible(name)
                    ));
                }
            }
        }
        for name in self.settings.toolsets.mcp.keys() {
            if !tools.iter().any(|tool| of_server(tool, name)) {
                missing.push(format!(
                    "{}: there are no tools of a server `{}`; `mimir mcp list` shows the servers",
                    self.at("toolsets.mcp"),
                    crate::text::visible(name)
                ));
            }
        }
        missing
    }

    /// `file:line` of a key.
    pub fn at(&self, key: &str) -> String {
        self.source().at(key)
    }

    fn source(&self) -> crate::policy::Source {
        let lines = Arc::clone(&self.lines);
        crate::policy::Source::new(self.file.clone(), move || (*lines).clone())
    }

    /// Whether it has a tool, and what its file sets for it.
    fn has(&self, tool: &Tool) -> Option<ToolSettings> {
        let sets = &self.settings.toolsets;
        let mut own = ToolSettings::default();
        match tool.source {
            Source::BuiltIn => match (tool.definition.group, tool.name().as_str()) {
                (Group::Fs, _) => {
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
                (Group::Runtime, _) => drop(sets.shell.as_ref()?),
                (Group::Net | Group::Browser, _) => drop(sets.web?),
                (Group::Memory, _) => drop(sets.memory?),
                (Group::System, _) => return None,
            },
            Source::Custom => {
                let custom = sets.custom.as_ref()?;
                let named = custom.tools.iter().any(|name| is_called(tool, name));
                if !named || !of_module(tool, &custom.module) {
                    return None;
                }
                own.approval = approval(tool, &custom.approval);
            }
            Source::Mcp => {
                let (name, server) = sets.mcp.iter().find(|(name, _)| of_server(tool, name))?;
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
            Source::Teams => return None,
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

/// What is said of a tool by name, or else of all of them where the tool has no word of its own; asking, where nothing is.
fn approval(tool: &Tool, set: &ApprovalDefaults) -> ApprovalSetting {
    let named = set.tools.iter().find(|(name, _)| is_called(tool, name));
    match named {
        Some((_, decision)) => ApprovalSetting::Word(*decision),
        None if tool.definition.silent || set.default.is_some() => {
            ApprovalSetting::Word(set.default.unwrap_or(Decision::Ask))
        }
        None => ApprovalSetting::Unset,
    }
}

/// Whether a worker's file means this tool: by its name, or by that of the function in a module that it was made of.
fn is_called(tool: &Tool, name: &str) -> bool {
    let exported = || tool.source == Source::Custom && snake(name) == tool.name().as_str();
    tool.answers_to(name) || exported()
}

/// Whether a tool is in a file of `.mimir/tools` that is named with its ending or without, and with folders or without;
/// or is a plugin and the module that it was built from is named.
fn of_module(tool: &Tool, module: &str) -> bool {
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
    tool.source == Source::Custom && is_it
}

fn of_server(tool: &Tool, server: &str) -> bool {
    tool.source == Source::Mcp && tool.origin.location == format!("mcp:{server}")
}

/// The rule that no other worker is called.
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
