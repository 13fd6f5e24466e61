//! The rules that decide about calls, each with its location in a file.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::config::{
    ApprovalDefaults, Config, EmbeddingsEndpoint, LimitSettings, NetworkSettings, ToolDiscovery,
    ToolProfile, ToolSettings, UntrustedMarking, WebSearchEndpoint,
};
use crate::decision::{Decision, DecisionReason, PolicyEvaluation};
use crate::limits::Limits;
use crate::name_suggestions::did_you_mean;
use crate::paths::PathRules;
use crate::redact::{ExceptionError, Redactor};
use crate::tool::{Tool, ToolName};

mod argument_path;
mod commands;
mod compiled_rules;
mod condition;
mod danger;
mod error;
mod evaluate;
mod link_resolver;
mod network;
mod path_arguments;
mod regex_budget;
mod remedies;
mod rules;
mod source;
mod spelling;
mod team;
mod tool_default;
mod tool_forms;
mod tool_lists;
mod tool_settings;
mod unused_rules;

pub(crate) use link_resolver::LinkResolver;
pub(crate) use path_arguments::evaluate_path_arguments;
pub(crate) use remedies::{GRANT, remedies, widening_remedies};
pub(crate) use tool_default::{evaluate_tool_default, evaluate_trust};
pub(crate) use tool_forms::{equivalent_tool_name, resolve_called_tool};

pub(crate) use commands::WorkerCommandRules;
pub use error::PolicyError;
pub use source::RuleSource;

pub(crate) use commands::{CommandCheck, command_of, only_reads};
use regex_budget::RegexBudget;

use commands::CommandRules;
use danger::DangerRules;
use rules::ArgumentRules;
use tool_lists::ToolLists;

/// Approximate token budget of the tool definitions that agents are shown; other tools are found by search. A tenth of
/// a common context window.
const DISCOVERY_TOKENS: u64 = 20_000;

/// The rules and settings of a person and of teams. Created from a [`Config`], evaluated by the decide stage.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    source: Arc<RuleSource>,
    lists: Arc<ToolLists>,
    rules: Arc<ArgumentRules>,
    commands: Arc<CommandRules>,
    danger: Arc<BTreeMap<String, DangerRules>>,
    tools: BTreeMap<String, ToolSettings>,
    /// Globs of files that no tool may reach.
    hidden: Vec<String>,
    approval: ApprovalDefaults,
    limits: Limits,
    /// The limits that the file itself sets.
    own_limits: LimitSettings,
    network: NetworkSettings,
    /// The names of the secrets of each MCP server, by the location of its tools.
    server_secrets: BTreeMap<String, Vec<String>>,
    web_search: Option<WebSearchEndpoint>,
    embeddings: Option<EmbeddingsEndpoint>,
    longest: Option<Duration>,
    profile: ToolProfile,
    discovery: (ToolDiscovery, Option<u64>),
    untrusted_marking: UntrustedMarking,
    lease_days: u32,
    files: Vec<Policy>,
    team: bool,
    unaccepted: bool,
    untrusted_text: bool,
    is_worker: bool,
    /// The path rules of each tool, compiled at its first call.
    paths: Arc<Mutex<HashMap<String, PathRules>>>,
}

/// The arguments that rules can match in a request of a running call.
const REQUEST: &[&str] = &["method", "url", "host"];

/// The arguments that rules can match in a command of a running call.
const COMMAND: &[&str] = &["command", "workdir"];

impl Policy {
    /// Creates the policy of a config file; `source` names the file and the lines of its keys.
    pub fn new(config: &Config, source: impl Into<RuleSource>) -> Result<Self, PolicyError> {
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
        let mut budget = RegexBudget::default();
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
                danger.insert(
                    tool.clone(),
                    DangerRules::new(key, block, &source, &mut budget)?,
                );
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
            lists: Arc::new(ToolLists::new(&config.policy, &source)?),
            rules: Arc::new(ArgumentRules::new(own.chain(each), &source, &mut budget)?),
            commands: Arc::new(CommandRules::new(&config.exec_approvals, &source)?),
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
            untrusted_marking: config.mcp.marks,
            lease_days: config.approvals.lease_days,
            files: Vec::new(),
            team: false,
            unaccepted: false,
            untrusted_text: false,
            is_worker: false,
            paths: Arc::default(),
            source: Arc::new(source),
        })
    }

    /// Marks the policy as not yet accepted by a person: its restrictions count, its permissions do not.
    #[must_use]
    pub fn unaccepted(mut self) -> Self {
        self.unaccepted = true;
        self
    }

    /// Marks the texts of the policy as untrusted: its rules count as before, but models do not see their reasons.
    #[must_use]
    pub fn with_untrusted_text(mut self) -> Self {
        self.untrusted_text = true;
        self
    }

    /// Adds the rules of a worker, which can deny and ask, but not allow.
    #[must_use]
    pub fn restricted_by_worker(&self, worker: Policy) -> Self {
        let mut files = self.rule_files().to_vec();
        files.push(Policy {
            is_worker: true,
            ..worker
        });
        Self {
            files,
            paths: Arc::default(),
            ..self.clone()
        }
    }

    /// Creates the policy of a worker's file.
    pub(crate) fn for_worker(
        config: &Config,
        source: RuleSource,
        commands: Option<WorkerCommandRules>,
    ) -> Result<Self, PolicyError> {
        let mut policy = Self::new(config, source)?;
        if let Some(commands) = commands {
            policy.commands = Arc::new(CommandRules::for_worker(commands));
        }
        Ok(policy)
    }

    /// Returns true if its permissions count.
    fn allows_count(&self) -> bool {
        !self.unaccepted && !self.is_worker
    }

    /// Combines the settings and limits of `together` with the rules of several files. Each file is evaluated
    /// separately, so that a denial in one of them always holds.
    pub fn from_files(together: &Config, files: Vec<Policy>) -> Result<Self, PolicyError> {
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
            untrusted_marking: together.mcp.marks,
            lease_days: together.approvals.lease_days,
            files,
            ..Self::default()
        })
    }

    /// Returns the policies of the files whose rules count.
    fn rule_files(&self) -> &[Policy] {
        if self.files.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.files
        }
    }

    /// Returns true if the tool may be listed and called at all.
    pub fn is_enabled(&self, tool: &Tool) -> bool {
        let mut voices = self.rule_files().iter();
        voices.all(|file| !file.is_off(tool)) && !self.is_left_off(tool)
    }

    /// Returns true if the tool is disabled by its own manifest, and no file enables it.
    fn is_left_off(&self, tool: &Tool) -> bool {
        let on = |file: &Policy| {
            let mut settings = file.settings(tool);
            settings.any(|settings| settings.enabled == Some(true))
        };
        tool.off && !self.rule_files().iter().any(on)
    }

    fn is_off(&self, tool: &Tool) -> bool {
        let mut settings = self.settings(tool);
        settings.any(|settings| settings.enabled == Some(false))
    }

    /// Returns the rule that refuses every call of the tool, if there is one.
    pub fn refusal(&self, tool: &Tool) -> Option<DecisionReason> {
        let mut evaluation = PolicyEvaluation::default();
        self.evaluate_tool_rules(tool, &mut evaluation);
        let mut reasons = evaluation.reasons().iter();
        reasons
            .find(|reason| reason.decision == Decision::Deny)
            .cloned()
    }

    /// Returns the lifetime of the answer "always".
    pub fn approval_lifetime(&self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.lease_days) * 24)
    }

    /// Returns true if models see the tool: it can be called, and the profile shows this form of it.
    pub fn is_listed(&self, tool: &Tool) -> bool {
        self.is_shown(tool) && self.refusal(tool).is_none() && !tool_default::is_unseen(tool)
    }

    /// Returns true if it would be listed, but no person has yet seen the description that its server gives.
    pub fn awaits_trust(&self, tool: &Tool) -> bool {
        tool_default::is_unseen(tool) && self.is_shown(tool) && self.refusal(tool).is_none()
    }

    /// Returns the approximate token budget of the tool definitions that agents are shown; other tools are found by
    /// search. `None` means no limit.
    pub fn discovery_budget(&self) -> Option<u64> {
        match self.discovery {
            (ToolDiscovery::Off, _) => None,
            (ToolDiscovery::On, _) => Some(0),
            (ToolDiscovery::Auto, most) => Some(most.unwrap_or(DISCOVERY_TOKENS)),
        }
    }

    /// Returns the kinds of untrusted content that are marked for MCP clients.
    pub fn untrusted_marking(&self) -> UntrustedMarking {
        self.untrusted_marking
    }

    /// Returns true if the profile shows this form of the tool.
    pub fn is_shown(&self, tool: &Tool) -> bool {
        tool_forms::is_shown(tool, self.profile)
    }

    /// Returns the number of examples of argument rules that were checked when the files were read.
    pub fn examples(&self) -> usize {
        self.rule_files()
            .iter()
            .map(|file| file.rules.examples())
            .sum()
    }
}

/// Returns the names of the secrets in the variables and headers of each MCP server.
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

/// Checks the path rules and the exceptions of a tool when the file is read, so that an error names the file.
fn check_tool(tool: &str, settings: &ToolSettings, source: &RuleSource) -> Result<(), PolicyError> {
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

/// Checks the globs of files that no tool may reach.
fn check_globs(key: &str, globs: &[String], source: &RuleSource) -> Result<(), PolicyError> {
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
                regex_budget::shown(glob)
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
