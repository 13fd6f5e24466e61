//! The rules that decide, and where they are written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use crate::config::{
    ApprovalDefaults, Config, Discovery, Embeddings, LimitSettings, NetworkSettings, Profile,
    ToolSettings, WebSearch,
};
use crate::decision::{Decision, Evaluation, Layer, Reads, Reason, Withheld};
use crate::limits::Limits;
use crate::paths::PathRules;
use crate::redact::Redactor;
use crate::tool::{Source as ToolSource, Tool, ToolName};

mod budget;
mod commands;
mod condition;
mod danger;
mod error;
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
pub(crate) use ways::{GRANT, ways};

pub(crate) use commands::WorkerCommands;
pub use error::PolicyError;
pub use source::Source;

use budget::Budget;
pub(crate) use commands::{CommandQuestion, command_of};

use commands::Commands;
use danger::Danger;
use lists::Lists;
use rules::RuleBook;

/// From about so many tokens of definitions on agents are shown what finds tools: a tenth of what models commonly read.
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
    web_search: Option<WebSearch>,
    embeddings: Option<Embeddings>,
    longest: Option<Duration>,
    profile: Profile,
    discovery: (Discovery, Option<u64>),
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
            web_search,
            embeddings,
            longest: config.tools.max_execution_time.map(Duration::from_millis),
            profile: config.profile,
            discovery: (config.tool_discovery, config.tool_discovery_tokens),
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
            web_search: together.web_search(),
            embeddings: together.embeddings(),
            longest: together.tools.max_execution_time.map(Duration::from_millis),
            profile: together.profile,
            discovery: (together.tool_discovery, together.tool_discovery_tokens),
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
        self.is_shown(tool) && self.refusal(tool).is_none() && !own::is_withdrawn(tool)
    }

    /// Whether agents are shown what finds tools, in place of tools that take about so many tokens to read.
    pub fn finds_tools(&self, tokens: u64) -> bool {
        match self.discovery {
            (Discovery::Off, _) => false,
            (Discovery::On, _) => true,
            (Discovery::Auto, most) => tokens > most.unwrap_or(DISCOVERY_TOKENS),
        }
    }

    /// Whether it is the form of its kind that the profile chooses.
    pub fn is_shown(&self, tool: &Tool) -> bool {
        forms::is_shown(tool, self.profile)
    }

    /// What the layers before the tool's own word say of this call, and whether a person has set its approval.
    pub(crate) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        links: &Links<'_>,
        evaluation: &mut Evaluation,
    ) -> bool {
        let mut set = self.always(tool, evaluation);
        for file in self.voices() {
            let before = evaluation.reasons().len();
            file.commands.forbid(tool, &file.source, evaluation);
            let ours = file.rules.evaluate(tool, arguments, links, evaluation);
            set |= ours && file.lowers();
            if !file.danger.is_empty() {
                let names = std::iter::once(tool.name()).chain(&tool.aliases);
                for danger in names.filter_map(|name| file.danger.get(name.as_str())) {
                    danger.evaluate(tool, arguments, &file.source, evaluation);
                }
            }
            file.sign(before, evaluation);
        }
        set
    }

    /// What is said of every call of the tool, whatever its arguments, and whether a person has set its approval.
    fn always(&self, tool: &Tool, evaluation: &mut Evaluation) -> bool {
        let mut set = false;
        if self.is_left_off(tool) {
            evaluation.push(Reason {
                layer: Layer::Enabled,
                decision: Decision::Deny,
                source: tool.origin.location.clone(),
                rule: "enabled: false".to_owned(),
                text: format!("`{}` is switched off in its own file", tool.name()),
            });
        }
        for file in self.voices() {
            let before = evaluation.reasons().len();
            file.enabled(tool, evaluation);
            file.lists.evaluate(tool, &file.source, evaluation);
            // Whatever it says, the tool's own word is heard beside it.
            set |= file.approval(tool, evaluation) && file.lowers();
            file.sign(before, evaluation);
        }
        set
    }

    /// What a team says is the team's layer, whatever kind of rule it is; what does not count yet says so.
    fn sign(&self, from: usize, evaluation: &mut Evaluation) {
        if self.unaccepted {
            evaluation.withhold(from, Withheld::Unaccepted);
        }
        if self.narrows {
            evaluation.withhold(from, Withheld::Narrowed);
        }
        if self.strange || self.unaccepted {
            evaluation.estrange(from);
        }
        if self.team {
            evaluation.sign_team(from);
        }
    }

    /// What a person has set for this very tool replaces its own word; the default for all custom tools is heard
    /// beside it, and stands in its place where the tool has none.
    fn approval(&self, tool: &Tool, evaluation: &mut Evaluation) -> bool {
        let mut any = false;
        let mut say = |key: String, decision: Decision, text: String| {
            let reason = Reason {
                layer: Layer::ToolApproval,
                decision,
                source: self.source.at(&key),
                rule: format!("{key}: {}", decision.as_str()),
                text,
            };
            evaluation.push_from(reason, Reads::nothing().into());
        };
        let set = |decision: Decision| {
            format!("the config sets `{}` to {}", tool.name(), decision.as_str())
        };
        for (name, settings) in self.named_settings(tool) {
            if let Some(decision) = settings.approval.level() {
                any = true;
                say(format!("tools.{name}.approval"), decision, set(decision));
            }
        }
        if self.approval.is_empty() {
            return any;
        }
        for name in std::iter::once(tool.name()).chain(&tool.aliases) {
            if let Some(decision) = self.approval.tools.get(name.as_str()) {
                any = true;
                say(format!("approval.tools.{name}"), *decision, set(*decision));
            }
        }
        if let (false, Some(decision)) = (any, self.approval.default)
            && tool.source == ToolSource::Custom
        {
            let text = format!("the config sets custom tools to {}", decision.as_str());
            say("approval.default".to_owned(), decision, text);
            any = tool.definition.silent;
        }
        any
    }

    fn enabled(&self, tool: &Tool, evaluation: &mut Evaluation) {
        for (name, settings) in self.named_settings(tool) {
            if settings.enabled == Some(false) {
                let key = format!("tools.{name}.enabled");
                evaluation.push(Reason {
                    layer: Layer::Enabled,
                    decision: Decision::Deny,
                    source: self.source.at(&key),
                    rule: format!("{key}: false"),
                    text: format!("`{}` is switched off in the config", tool.name()),
                });
            }
        }
    }

    /// How many examples of argument rules were checked when the files were read.
    pub fn examples(&self) -> usize {
        self.voices().iter().map(|file| file.rules.examples()).sum()
    }
}

/// Checks the path rules and the exceptions of a tool, so that a fault is told with its file.
fn check_tool(tool: &str, settings: &ToolSettings, source: &Source) -> Result<(), PolicyError> {
    check_globs(&format!("tools.{tool}.deny"), &settings.deny, source)?;
    if let Err(error) = Redactor::new().except(&settings.redaction.exceptions) {
        let key = format!("tools.{tool}.redaction.exceptions");
        return Err(PolicyError::Rule {
            place: source.at(&key),
            text: format!("{key}: {error}"),
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
