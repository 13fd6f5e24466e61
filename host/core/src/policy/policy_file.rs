//! The compiled rules of one settings file, and the rank of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{ApprovalDefaults, Config, ToolSettings};
use crate::name_suggestions::did_you_mean;
use crate::paths::PathRules;
use crate::redact::{ExceptionError, Redactor};
use crate::tool::ToolName;

use super::commands::{CommandRules, WorkerCommandRules};
use super::danger::DangerRules;
use super::regex_budget::{self, RegexBudget};
use super::roles::FileRoles;
use super::rules::ArgumentRules;
use super::tool_lists::ToolLists;
use super::tool_settings::SettingsByTool;
use super::{PolicyError, RuleSource};

/// The rank of a file among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyFileRank {
    /// A settings file of the user or the project.
    Settings,
    /// A team's file: its denials and limits override every other file.
    Team,
    /// A worker's file: it can deny and ask, but not allow.
    Worker,
    /// The restrictions of a role of users: they can deny and ask, but not allow.
    Role,
}

/// A team whose bundle is too old or has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutdatedTeam {
    /// Begin of the locations of the team's tools.
    pub locations: String,
    /// The limit that was exceeded, such as `teams.maxAgeHours`.
    pub limit: String,
    /// The explanation, with the remedy.
    pub text: String,
}

impl OutdatedTeam {
    /// The limit of a bundle that has expired.
    pub const EXPIRY: &'static str = "expiresAt";
    /// The limit of a bundle that was not checked for too long.
    pub const MAX_AGE: &'static str = "teams.maxAgeHours";
    /// The remedy for a bundle that has expired.
    pub const RENEWAL: &'static str = "ask the administrator of the team to run `mimir team publish` again, and then use `mimir team sync`";
    /// The remedy for a bundle that was not checked for too long.
    pub const CHECK: &'static str = "`mimir team sync` checks it again";
    /// The remedy for a bundle that was checked in the future.
    pub const CLOCK: &'static str =
        "set the clock of this machine, or check again with `mimir team sync`";

    /// Returns the remedy for a limit; `None` if it is another rule.
    pub(super) fn remedy(limit: &str) -> Option<&'static str> {
        match limit.strip_prefix(Self::MAX_AGE) {
            Some("") => Some(Self::CLOCK),
            Some(_) => Some(Self::CHECK),
            None => (limit == Self::EXPIRY).then_some(Self::RENEWAL),
        }
    }
}

/// The rules of one settings file. Files are evaluated separately, so that a denial in any file always holds. The
/// merged settings of all files are in the [`Policy`](super::Policy).
#[derive(Debug, Clone)]
pub struct PolicyFile {
    pub(super) source: Arc<RuleSource>,
    pub(super) lists: Arc<ToolLists>,
    pub(super) rules: Arc<ArgumentRules>,
    pub(super) commands: Arc<CommandRules>,
    pub(super) danger: Arc<BTreeMap<String, DangerRules>>,
    pub(super) settings: SettingsByTool,
    /// Globs of files that no tool may reach.
    pub(super) hidden: Vec<String>,
    pub(super) approval: ApprovalDefaults,
    pub(super) is_accepted: bool,
    pub(super) has_untrusted_text: bool,
    pub(super) roles: FileRoles,
    /// Why no tool of a team can be called, if the team's bundle is too old.
    pub(super) outdated_team: Option<OutdatedTeam>,
    /// The tools enforced by teams that the file can disable, for a team's file.
    pub(super) disables: EnforcedTools,
    /// Begins of the locations of the teams' tools that `source:teams` means in this file; `None` for all teams.
    pub(super) covered_teams: Option<Vec<String>>,
    rank: PolicyFileRank,
}

/// The tools enforced by teams that a team's file can disable. A team cannot disable what another one enforces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EnforcedTools {
    /// Those of all teams, for an administrator's file.
    #[default]
    All,
    /// Those whose locations begin with this text, for the team itself.
    At(String),
    /// None, for a file below a required team.
    None,
}

impl PolicyFile {
    /// Compiles the rules of a config file. `source` has the file name and the line of each key.
    ///
    /// # Errors
    /// Reports the first invalid value, with its line.
    pub fn new(config: &Config, source: impl Into<RuleSource>) -> Result<Self, PolicyError> {
        let source = Arc::new(source.into());
        for (name, server) in &config.mcp.servers {
            server.check(name).map_err(|error| PolicyError::Rule {
                location: source.at(&format!("mcp.servers.{name}")),
                text: error.to_string(),
            })?;
        }
        for (name, provider) in &config.providers {
            provider.check(name).map_err(|text| PolicyError::Rule {
                location: source.at(&format!("providers.{name}")),
                text,
            })?;
        }
        let agent = config.agent.check("agent");
        agent.map_err(|text| PolicyError::Rule {
            location: source.at("agent"),
            text,
        })?;
        config.check().map_err(|error| PolicyError::Limit {
            location: source.at(&error.key),
            error,
        })?;
        let web_search = config.web_search.as_ref().map(|block| block.check());
        web_search.transpose().map_err(|text| PolicyError::Rule {
            location: source.at("webSearch"),
            text,
        })?;
        let embeddings = config.embeddings.as_ref().map(|block| block.check());
        embeddings.transpose().map_err(|text| PolicyError::Rule {
            location: source.at("embeddings"),
            text,
        })?;
        let telemetry = config.telemetry.as_ref().map(|block| block.check());
        telemetry.transpose().map_err(|text| PolicyError::Rule {
            location: source.at("telemetry"),
            text,
        })?;
        let alerts = config.alerts.as_ref().map(|block| block.check());
        alerts.transpose().map_err(|text| PolicyError::Rule {
            location: source.at("alerts"),
            text,
        })?;
        let browser = config.browser.as_ref().map(|block| block.check());
        browser.transpose().map_err(|text| PolicyError::Rule {
            location: source.at("browser"),
            text,
        })?;
        if let Some((at, fault)) = config.enforcement.bad_model_pattern() {
            let key = format!("enforcement.models[{at}]");
            return Err(PolicyError::Rule {
                location: source.at(&key),
                text: format!("{key}: {fault}"),
            });
        }
        let mut budget = RegexBudget::default();
        let mut danger = BTreeMap::new();
        for name in config.approval.tools.keys() {
            ToolName::new(name).map_err(|error| PolicyError::Rule {
                location: source.at(&format!("approval.tools.{name}")),
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
        let shared = config.policy.rules.iter().enumerate();
        let shared = shared.map(|(at, rule)| (format!("policy.rules[{at}]"), None, rule));
        let of_tools = config.tools.each.iter().flat_map(|(tool, settings)| {
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
            lists: Arc::new(ToolLists::new(
                &config.policy,
                &config.enforcement,
                &source,
            )?),
            rules: Arc::new(ArgumentRules::new(
                shared.chain(of_tools),
                &source,
                &mut budget,
            )?),
            commands: Arc::new(CommandRules::new(&config.exec_approvals, &source)?),
            danger: Arc::new(danger),
            settings: SettingsByTool::new(config),
            hidden: config.files.deny.clone(),
            approval: config.approval.clone(),
            is_accepted: true,
            has_untrusted_text: false,
            roles: FileRoles::new(&config.roles, &source, &mut budget)?,
            outdated_team: None,
            disables: EnforcedTools::All,
            covered_teams: None,
            rank: PolicyFileRank::Settings,
            source,
        })
    }

    /// Compiles the rules of a worker's file. `commands` replaces the command rules of `config`.
    pub fn for_worker(
        config: &Config,
        source: RuleSource,
        commands: Option<WorkerCommandRules>,
    ) -> Result<Self, PolicyError> {
        let mut file = Self::new(config, source)?;
        file.rank = PolicyFileRank::Worker;
        if let Some(commands) = commands {
            file.commands = Arc::new(CommandRules::for_worker(commands));
        }
        Ok(file)
    }

    /// Marks the file as not accepted by a person: its restrictions apply, its permissions do not.
    #[must_use]
    pub fn unaccepted(mut self) -> Self {
        self.is_accepted = false;
        self
    }

    /// Marks the texts of the file as untrusted: its rules still apply, but models do not see the reasons in the file.
    #[must_use]
    pub fn with_untrusted_text(mut self) -> Self {
        self.has_untrusted_text = true;
        self
    }

    /// Marks the file as a team's: its denials and limits override every other file.
    #[must_use]
    pub fn as_team(mut self) -> Self {
        self.rank = PolicyFileRank::Team;
        self
    }

    /// Sets the tools enforced by teams that this file of a team can disable.
    #[must_use]
    pub fn disabling(mut self, tools: EnforcedTools) -> Self {
        self.disables = tools;
        self
    }

    /// Limits the meaning of `source:teams`, and of rules with `sources: [teams]` that allow, to the tools of the teams at
    /// these locations: what an administrator allows to the own teams does not count for a team that a user has joined.
    #[must_use]
    pub fn covering_teams(mut self, locations: Vec<String>) -> Self {
        self.covered_teams = Some(locations);
        self
    }

    /// Refuses the calls of a team's tools, because the team's bundle is too old. The rules of the file stay in force.
    #[must_use]
    pub fn with_outdated_team(mut self, outdated: OutdatedTeam) -> Self {
        self.outdated_team = Some(outdated);
        self
    }

    pub(super) fn is_team(&self) -> bool {
        self.rank == PolicyFileRank::Team
    }

    pub(super) fn is_worker(&self) -> bool {
        self.rank == PolicyFileRank::Worker
    }

    /// Returns true for the rules of a worker or a role, which can deny and ask, but not allow.
    pub(super) fn only_restricts(&self) -> bool {
        matches!(self.rank, PolicyFileRank::Worker | PolicyFileRank::Role)
    }

    /// Returns true if the file can allow calls: a person has accepted it, and it does not only restrict.
    pub(super) fn permissions_apply(&self) -> bool {
        self.is_accepted && !self.only_restricts()
    }

    pub(super) fn set_rank(&mut self, rank: PolicyFileRank) {
        self.rank = rank;
    }
}

/// Checks the path rules and the masking exceptions of a tool when the file is read, so that an error names the file.
fn check_tool(tool: &str, settings: &ToolSettings, source: &RuleSource) -> Result<(), PolicyError> {
    check_globs(&format!("tools.{tool}.deny"), &settings.deny, source)?;
    if let Err(error) = Redactor::new().except(&settings.redaction.exceptions) {
        let key = format!("tools.{tool}.redaction.exceptions");
        let hint = match &error {
            ExceptionError::Unknown { rule } => did_you_mean(rule, Redactor::rules()),
            ExceptionError::Value { .. } => String::new(),
        };
        return Err(PolicyError::Rule {
            location: source.at(&key),
            text: format!("{key}: {error}.{hint}"),
        });
    }
    if !settings.reveal.is_empty() {
        let key = format!("tools.{tool}.reveal");
        PathRules::none()
            .reveal(&settings.reveal)
            .map_err(|error| PolicyError::Pattern {
                location: source.at(&key),
                error,
            })?;
    }
    Ok(())
}

/// Checks the globs of files that no tool may reach.
fn check_globs(key: &str, globs: &[String], source: &RuleSource) -> Result<(), PolicyError> {
    let location = || source.at(key);
    if let Some(glob) = globs.iter().find(|glob| glob.starts_with('!')) {
        return Err(PolicyError::Exception {
            location: location(),
            glob: glob.clone(),
        });
    }
    if let Some(glob) = globs.iter().find(|glob| glob.starts_with('/')) {
        return Err(PolicyError::Rule {
            location: location(),
            text: format!(
                "{key}: `{}` begins with `/`: write it relative to the workspace root, without `/` at the beginning",
                regex_budget::shorten(glob)
            ),
        });
    }
    if !globs.is_empty() {
        let rules = PathRules::none().deny(globs);
        rules.map_err(|error| PolicyError::Pattern {
            location: location(),
            error,
        })?;
    }
    Ok(())
}
