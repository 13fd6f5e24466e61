//! The rules that decide, and where they are written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;

use crate::config::{
    ApprovalDefaults, Config, Discovery, Embeddings, LimitSettings, Marks, NetworkSettings,
    Profile, ToolSettings, WebSearch,
};
use crate::decision::{Decision, Evaluation, Reason};
use crate::limits::Limits;
use crate::names::did_you_mean;
use crate::paths::PathRules;
use crate::redact::{ExceptionError, Redactor};
use crate::tool::{Tool, ToolName};

mod budget;
mod commands;
mod condition;
mod danger;
mod error;
mod evaluate;
mod forms;
mod idle;
mod judge;
mod links;
mod lists;
mod network;
mod of_tool;
mod own;
mod place;
mod places;
mod rules;
mod source;
mod spelling;
mod team;
mod ways;

pub(crate) use forms::{called, same_as};
pub(crate) use links::Links;
pub(crate) use own::{own_word, trust};
pub(crate) use places::places;
pub(crate) use ways::{GRANT, ways, widening};

pub(crate) use commands::WorkerCommands;
pub use error::PolicyError;
pub use source::Source;

use budget::Budget;
pub(crate) use commands::{CommandQuestion, command_of, only_reads};

use commands::Commands;
use danger::Danger;
use lists::Lists;
use rules::RuleBook;

/// About how many tokens of definitions are listed for agents; the rest is found by search. A tenth of what models
/// commonly read.
const DISCOVERY_TOKENS: u64 = 20_000;

/// What a person and a team have said about tools. Made from a [`Config`], asked by the decide stage.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    source: Arc<Source>,
    lists: Arc<Lists>,
    rules: Arc<RuleBook>,
    commands: Arc<Commands>,
    danger: Arc<BTreeMap<String, Danger>>,
    tools: BTreeMap<String, ToolSettings>,
    /// Globs of files that no tool reaches.
    hidden: Vec<String>,
    approval: ApprovalDefaults,
    limits: Limits,
    /// The bounds that the file itself sets.
    own_limits: LimitSettings,
    network: NetworkSettings,
    /// The names of the secrets that each MCP server is given, by where its tools say that they come from.
    server_secrets: BTreeMap<String, Vec<String>>,
    web_search: Option<WebSearch>,
    embeddings: Option<Embeddings>,
    longest: Option<Duration>,
    profile: Profile,
    discovery: (Discovery, Option<u64>),
    marks: Marks,
    lease_days: u32,
    files: Vec<Policy>,
    team: bool,
    unaccepted: bool,
    strange: bool,
    narrows: bool,
    /// Compiled when a tool is first called.
    paths: Arc<Mutex<HashMap<String, PathRules>>>,
}

/// What rules look at of a request in the middle of a call, by name.
const REQUEST: &[&str] = &["method", "url", "host"];

/// The same of a command.
const COMMAND: &[&str] = &["command", "workdir"];

impl Policy {
    /// The policy that a config file states; `source` names the file and the lines of its keys.
    pub fn new(config: &Config, source: impl Into<Source>) -> Result<Self, PolicyError> {
        let source = source.into();
        for (name, server) in &config.mcp.servers {
            server.check(name).map_err(|error| PolicyError::Rule {
                place: source.at(&format!("mcp.servers.{name}")),
                text: error.to_string(),
            })?;
        }
        for (name, provider) in &config.providers {
            provider.check(name).map_err(|text| PolicyError::Rule {
                place: source.at(&format!("providers.{name}")),
                text,
            })?;
        }
        let agent = config.agent.check("agent");
        agent.map_err(|text| PolicyError::Rule {
            place: source.at("agent"),
            text,
        })?;
        config.check().map_err(|error| PolicyError::Limit {
            place: source.at(&error.key),
            error,
        })?;
        let web_search = config.web_search.as_ref().map(|block| block.check());
        let web_search = web_search.transpose().map_err(|text| PolicyError::Rule {
            place: source.at("webSearch"),
            text,
        })?;
        let embeddings = config.embeddings.as_ref().map(|block| block.check());
        let embeddings = embeddings.transpose().map_err(|text| PolicyError::Rule {
            place: source.at("embeddings"),
            text,
        })?;
        let mut budget = Budget::default();
        let mut danger = BTreeMap::new();
        for name in config.approval.tools.keys() {
            ToolName::new(name).map_err(|error| PolicyError::Rule {
                place: source.at(&format!("approval.tools.{name}")),
                text: format!("approval.tools: {error}"),
            })?;
        }
        check_globs("files.deny", &config.files.deny, &source)?;
        for (tool, settings) in &config.tools.each {
            check_tool(tool, settings, &source)?;
            if let Some(block) = settings.approval.block() {
                let key = format!("tools.{tool}.approval");
                danger.insert(tool.clone(), Danger::new(key, block, &source, &mut budget)?);
            }
        }
        let own = config.policy.rules.iter().enumerate();
        let own = own.map(|(at, rule)| (format!("policy.rules[{at}]"), None, rule));
        let each = config.tools.each.iter().flat_map(|(tool, settings)| {
            let rules = settings.rules.iter().enumerate();
            rules.map(move |(at, rule)| {
                (
                    format!("tools.{tool}.rules[{at}]"),
                    Some(tool.as_str()),
                    rule,
                )
            })
        });
        Ok(Self {
            lists: Arc::new(Lists::new(&config.policy, &source)?),
            rules: Arc::new(RuleBook::new(own.chain(each), &source, &mut budget)?),
            commands: Arc::new(Commands::new(&config.exec_approvals, &source)?),
            danger: Arc::new(danger),
            tools: config.tools.each.clone(),
            hidden: config.files.deny.clone(),
            approval: config.approval.clone(),
            limits: config.limits(),
            own_limits: config.limits,
            network: config.network.clone(),
            server_secrets: server_secrets(config),
            web_search,
            embeddings,
            longest: config.tools.max_execution_time.map(Duration::from_millis),
            profile: config.profile,
            discovery: (config.tool_discovery, config.tool_discovery_tokens),
            marks: config.mcp.marks,
            lease_days: config.approvals.lease_days,
            files: Vec::new(),
            team: false,
            unaccepted: false,
            strange: false,
            narrows: false,
            paths: Arc::default(),
            source: Arc::new(source),
        })
    }

    /// The same, before a person has accepted it: what it forbids counts, what it allows does not.
    #[must_use]
    pub fn unaccepted(mut self) -> Self {
        self.unaccepted = true;
        self
    }

    /// The same, with words that nobody has accepted: what it says counts as before, and a model does not read why.
    #[must_use]
    pub fn of_strangers(mut self) -> Self {
        self.strange = true;
        self
    }

    /// These rules and those of a worker beside them, which forbid and ask, and allow nothing.
    #[must_use]
    pub fn narrowed(&self, worker: Policy) -> Self {
        let mut files = self.voices().to_vec();
        files.push(Policy {
            narrows: true,
            ..worker
        });
        Self {
            files,
            paths: Arc::default(),
            ..self.clone()
        }
    }

    /// The rules of a worker's file.
    pub(crate) fn of_worker(
        config: &Config,
        source: Source,
        commands: Option<WorkerCommands>,
    ) -> Result<Self, PolicyError> {
        let mut policy = Self::new(config, source)?;
        if let Some(commands) = commands {
            policy.commands = Arc::new(Commands::of_worker(commands));
        }
        Ok(policy)
    }

    /// Whether what it allows counts.
    fn lowers(&self) -> bool {
        !self.unaccepted && !self.narrows
    }

    /// The settings and bounds of `together`, judged by the rules of several files. Each file speaks for
    /// itself, so that what one of them forbids stays forbidden.
    pub fn of_files(together: &Config, files: Vec<Policy>) -> Result<Self, PolicyError> {
        if files.is_empty() {
            return Self::new(together, "");
        }
        Ok(Self {
            tools: together.tools.each.clone(),
            limits: together.limits(),
            own_limits: together.limits,
            network: together.network.clone(),
            server_secrets: server_secrets(together),
            web_search: together.web_search(),
            embeddings: together.embeddings(),
            longest: together.tools.max_execution_time.map(Duration::from_millis),
            profile: together.profile,
            discovery: (together.tool_discovery, together.tool_discovery_tokens),
            marks: together.mcp.marks,
            lease_days: together.approvals.lease_days,
            files,
            ..Self::default()
        })
    }

    /// The files whose rules count.
    fn voices(&self) -> &[Policy] {
        if self.files.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.files
        }
    }

    /// Whether the tool may be listed and called at all.
    pub fn is_enabled(&self, tool: &Tool) -> bool {
        let mut voices = self.voices().iter();
        voices.all(|file| !file.is_off(tool)) && !self.is_left_off(tool)
    }

    /// Whether its own file says that it is not in use, and nobody has switched it on.
    fn is_left_off(&self, tool: &Tool) -> bool {
        let on = |file: &Policy| {
            let mut settings = file.settings(tool);
            settings.any(|settings| settings.enabled == Some(true))
        };
        tool.off && !self.voices().iter().any(on)
    }

    fn is_off(&self, tool: &Tool) -> bool {
        let mut settings = self.settings(tool);
        settings.any(|settings| settings.enabled == Some(false))
    }

    /// The rule that refuses every call of the tool, if there is one.
    pub fn refusal(&self, tool: &Tool) -> Option<Reason> {
        let mut evaluation = Evaluation::default();
        self.always(tool, &mut evaluation);
        let mut reasons = evaluation.reasons().iter();
        reasons
            .find(|reason| reason.decision == Decision::Deny)
            .cloned()
    }

    /// How long the answer "always" counts.
    pub fn lease_life(&self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.lease_days) * 24)
    }

    /// Whether models see it: it can be called, and it is the form of its kind that the profile chooses.
    pub fn is_listed(&self, tool: &Tool) -> bool {
        self.is_shown(tool) && self.refusal(tool).is_none() && !own::is_unseen(tool)
    }

    /// Returns true if it would be listed, but no person has yet seen the description that its server gives.
    pub fn awaits_trust(&self, tool: &Tool) -> bool {
        own::is_unseen(tool) && self.is_shown(tool) && self.refusal(tool).is_none()
    }

    /// About how many tokens of tool definitions agents are shown; tools beyond it are found by search. `None` is no
    /// bound.
    pub fn discovery_budget(&self) -> Option<u64> {
        match self.discovery {
            (Discovery::Off, _) => None,
            (Discovery::On, _) => Some(0),
            (Discovery::Auto, most) => Some(most.unwrap_or(DISCOVERY_TOKENS)),
        }
    }

    /// The untrusted content that is marked for MCP clients.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Returns true if it is the form of its kind that the profile chooses.
    pub fn is_shown(&self, tool: &Tool) -> bool {
        forms::is_shown(tool, self.profile)
    }

    /// How many examples of argument rules were checked when the files were read.
    pub fn examples(&self) -> usize {
        self.voices().iter().map(|file| file.rules.examples()).sum()
    }
}

/// The names of the secrets in the variables and headers of each MCP server.
fn server_secrets(config: &Config) -> BTreeMap<String, Vec<String>> {
    let servers = config.mcp.servers.iter().map(|(name, server)| {
        let texts = server.env.values().chain(server.headers.values());
        let names = texts.flat_map(|text| {
            let starts = text.split("${").skip(1);
            starts.filter_map(|rest| rest.split_once('}').map(|(name, _)| name.to_owned()))
        });
        (format!("mcp:{name}"), names.collect())
    });
    servers.collect()
}

/// Checks the path rules and the exceptions of a tool, so that a fault is told with its file.
fn check_tool(tool: &str, settings: &ToolSettings, source: &Source) -> Result<(), PolicyError> {
    check_globs(&format!("tools.{tool}.deny"), &settings.deny, source)?;
    if let Err(error) = Redactor::new().except(&settings.redaction.exceptions) {
        let key = format!("tools.{tool}.redaction.exceptions");
        let hint = match &error {
            ExceptionError::Unknown { rule } => did_you_mean(rule, Redactor::rules()),
            ExceptionError::Value { .. } => String::new(),
        };
        return Err(PolicyError::Rule {
            place: source.at(&key),
            text: format!("{key}: {error}.{hint}"),
        });
    }
    if !settings.reveal.is_empty() {
        let key = format!("tools.{tool}.reveal");
        PathRules::none()
            .reveal(&settings.reveal)
            .map_err(|error| PolicyError::Pattern {
                place: source.at(&key),
                error,
            })?;
    }
    Ok(())
}

/// Checks globs of files that are out of reach.
fn check_globs(key: &str, globs: &[String], source: &Source) -> Result<(), PolicyError> {
    let place = || source.at(key);
    if let Some(glob) = globs.iter().find(|glob| glob.starts_with('!')) {
        return Err(PolicyError::Exception {
            place: place(),
            glob: glob.clone(),
        });
    }
    if let Some(glob) = globs.iter().find(|glob| glob.starts_with('/')) {
        return Err(PolicyError::Rule {
            place: place(),
            text: format!(
                "{key}: `{}` begins with a slash; globs count from the root of the workspace",
                budget::shown(glob)
            ),
        });
    }
    if !globs.is_empty() {
        let rules = PathRules::none().deny(globs);
        rules.map_err(|error| PolicyError::Pattern {
            place: place(),
            error,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
