//! The rules that decide about calls, each with its location in a file. [`PolicyFile`] holds the rules of one file;
//! [`Policy`] combines the rules of all files.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::config::{
    Config, EmbeddingsEndpoint, ToolDiscovery, ToolProfile, UntrustedMarking, WebSearchEndpoint,
};
use crate::decision::{Decision, DecisionReason, PolicyEvaluation};
use crate::limits::Limits;
use crate::network::HostPattern;
use crate::paths::PathRules;
use crate::tool::Tool;

mod argument_forms;
mod argument_path;
mod commands;
mod compiled_rules;
mod condition;
mod danger;
mod error;
mod evaluate;
mod halt;
mod link_resolver;
mod network;
mod patch_effects;
mod path_arguments;
mod policy_file;
mod regex_budget;
mod remedies;
mod roles;
mod rules;
mod source;
mod spelling;
mod team_effects;
mod tool_default;
mod tool_forms;
mod tool_lists;
mod tool_settings;
mod unused_rules;

pub use argument_forms::schema_argument;
pub(crate) use link_resolver::LinkResolver;
pub use patch_effects::patched_paths;
pub(crate) use patch_effects::{is_patch_tool, patch_effects};
pub(crate) use path_arguments::{evaluate_path_arguments, named_paths};
pub(crate) use remedies::{NOT_GRANTED, remedies, remedies_besides_approval, widening_remedies};
pub(crate) use tool_default::{evaluate_tool_default, evaluate_trust};
pub use tool_forms::BROWSER_TOOLS;
pub(crate) use tool_forms::{equivalent_tool_name, is_inner_form, resolve_called_tool};

pub use commands::{DEFAULT_LIST, WorkerCommandRules};
pub use error::PolicyError;
pub use halt::PolicyHalt;
pub use path_arguments::path_rule_name;
pub use policy_file::{EnforcedTools, OutdatedTeam, PolicyFile};
pub use source::RuleSource;
pub use unused_rules::{UnusedSetting, UnusedSettingKind};

pub(crate) use roles::CallerBudget;

pub(crate) use commands::{CommandCheck, command_in_arguments, only_reads};
use roles::{CompiledRole, FileRoles};
use tool_settings::SettingsByTool;

/// Approximate token budget for the tool definitions shown to agents: a tenth of a common context window. Other tools
/// are found by search.
const DISCOVERY_TOKENS: u64 = 20_000;

/// The rules of all settings files, and the merged values of their settings. Evaluated by the decide stage.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The files, each evaluated separately.
    files: Vec<PolicyFile>,
    settings: SettingsByTool,
    limits: Limits,
    /// The names of each MCP server's secrets, by the location of the server's tools.
    server_secrets: BTreeMap<String, Vec<String>>,
    web_search: Option<WebSearchEndpoint>,
    embeddings: Option<EmbeddingsEndpoint>,
    /// The hosts to which requests of tools carry the trace context of the call.
    trace_hosts: Vec<HostPattern>,
    profile: ToolProfile,
    /// True if the browser tools are listed instead of being found by search.
    lists_browser: bool,
    discovery: (ToolDiscovery, Option<u64>),
    untrusted_marking: UntrustedMarking,
    lease_days: u32,
    /// The roles of users.
    roles: FileRoles,
    /// The role whose restrictions are among the files.
    role: Option<Arc<CompiledRole>>,
    /// The folders of trusted skills, which tools may read.
    skill_folders: Vec<String>,
    /// The folders of trusted skills that are checked before each call.
    checked_skills: Option<CheckedSkills>,
    /// Why no call may run, if that is so.
    halt: Option<Arc<PolicyHalt>>,
    /// The path rules of each tool, compiled at its first call.
    paths: Arc<Mutex<HashMap<String, PathRules>>>,
}

/// The decision about the calls of a tool that does not depend on their arguments, without that about trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolRuleDecision {
    /// The strictest decision, if there is one.
    pub decision: Option<Decision>,
    /// True if the tool's own default depends on the call: on its assessment, or on the rules about commands.
    pub by_arguments: bool,
}

/// Finds the folders of trusted skills whose files are checked before each call.
pub trait CheckedSkillFolders: Send + Sync {
    /// Returns the folders that tools may read, relative to the workspace root.
    fn folders(&self) -> Vec<String>;
}

#[derive(Clone)]
struct CheckedSkills(Arc<dyn CheckedSkillFolders>);

impl fmt::Debug for CheckedSkills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedSkills")
    }
}

/// The arguments that rules can match for a request of a running call.
const REQUEST: &[&str] = &["method", "url", "host"];

/// The arguments that rules can match for a command of a running call.
const COMMAND: &[&str] = &["command", "workdir"];

impl Policy {
    /// Creates a policy from a single config file. `source` has the file name and the line of each key.
    ///
    /// # Errors
    /// Reports the first invalid value, with its line.
    pub fn new(config: &Config, source: impl Into<RuleSource>) -> Result<Self, PolicyError> {
        let file = PolicyFile::new(config, source)?;
        Ok(Self::from_files(config, vec![file]))
    }

    /// Combines the settings and limits of the merged config with the rules of its files.
    pub fn from_files(merged: &Config, files: Vec<PolicyFile>) -> Self {
        Self {
            roles: Self::select_roles(merged, &files),
            role: None,
            files,
            settings: SettingsByTool::new(merged),
            limits: merged.limits(),
            server_secrets: server_secrets(merged),
            web_search: merged.web_search(),
            embeddings: merged.embeddings(),
            trace_hosts: merged
                .telemetry
                .as_ref()
                .map_or_else(Vec::new, |telemetry| telemetry.propagate_to.clone()),
            profile: merged.profile,
            lists_browser: merged
                .browser
                .as_ref()
                .is_some_and(|browser| browser.list_tools),
            discovery: (merged.tool_discovery, merged.tool_discovery_tokens),
            untrusted_marking: merged.mcp.marks,
            lease_days: merged.approvals.lease_days,
            skill_folders: Vec::new(),
            halt: None,
            checked_skills: None,
            paths: Arc::default(),
        }
    }

    /// Lets tools read the folders of these skills, given relative to the workspace root. A person has trusted them.
    #[must_use]
    pub fn with_trusted_skills(mut self, folders: Vec<String>) -> Self {
        self.skill_folders = folders;
        self.paths = Arc::default();
        self
    }

    /// Lets tools read these folders of skills, too, which are checked before each call.
    #[must_use]
    pub fn with_checked_skills(mut self, folders: Arc<dyn CheckedSkillFolders>) -> Self {
        self.checked_skills = Some(CheckedSkills(folders));
        self
    }

    /// Returns a copy with the rules of a worker added, which can deny and ask, but not allow.
    #[must_use]
    pub fn restricted_by_worker(&self, worker: PolicyFile) -> Self {
        let mut restricted = self.clone();
        restricted.files.push(worker);
        restricted.paths = Arc::default();
        restricted
    }

    /// Returns true if the rules of a worker were added.
    pub fn is_restricted_by_worker(&self) -> bool {
        self.files.iter().any(PolicyFile::is_worker)
    }

    /// Returns the files that can allow calls.
    fn accepted_files(&self) -> impl Iterator<Item = &PolicyFile> {
        self.files.iter().filter(|file| file.permissions_apply())
    }

    /// Returns the files of teams.
    fn team_files(&self) -> impl Iterator<Item = &PolicyFile> {
        self.files.iter().filter(|file| file.is_team())
    }

    /// Returns true if the tool may be listed and called at all.
    pub fn is_enabled(&self, tool: &Tool) -> bool {
        let disables = |file: &PolicyFile| {
            if !file.can_disable(tool) {
                return false;
            }
            let mut settings = file.settings.restricting(tool);
            settings.any(|(_, settings)| settings.enabled == Some(false))
        };
        !self.files.iter().any(disables) && !self.is_off_by_default(tool)
    }

    /// Returns true if the tool is disabled by its own manifest, and no file enables it.
    fn is_off_by_default(&self, tool: &Tool) -> bool {
        let enables = |file: &PolicyFile| {
            let mut settings = file.settings.of_tool(tool);
            settings.any(|settings| settings.enabled == Some(true))
        };
        tool.off && !self.files.iter().any(enables)
    }

    /// Returns the first reason to deny every call of the tool, if there is one.
    pub fn refusal(&self, tool: &Tool) -> Option<DecisionReason> {
        self.halt_reason().or_else(|| self.tool_refusal(tool))
    }

    /// Returns the first rule about the tool that denies every call of it, if there is one.
    fn tool_refusal(&self, tool: &Tool) -> Option<DecisionReason> {
        let mut evaluation = PolicyEvaluation::default();
        self.evaluate_tool_rules(tool, &mut evaluation);
        let mut reasons = evaluation.reasons();
        reasons
            .find(|reason| reason.decision == Decision::Deny)
            .cloned()
    }

    /// Returns the strictest decision of the rules about the tool that do not depend on the arguments of a call; `None` if
    /// there are none.
    pub fn tool_decision(&self, tool: &Tool) -> Option<Decision> {
        let mut evaluation = PolicyEvaluation::default();
        self.evaluate_tool_rules(tool, &mut evaluation);
        (!evaluation.is_empty()).then(|| evaluation.decision())
    }

    /// Returns the decision about the calls of a tool, as far as the rules about the tool and its own default make it.
    pub fn decision_by_tool(&self, tool: &Tool) -> ToolRuleDecision {
        let mut evaluation = PolicyEvaluation::default();
        let is_set_by_person = self.evaluate_tool_rules(tool, &mut evaluation);
        let is_judged_by_call = tool.assessed || self.evaluates_commands_of(tool);
        if !is_set_by_person && !is_judged_by_call {
            evaluate_tool_default(tool, None, &mut evaluation);
        }
        ToolRuleDecision {
            decision: (!evaluation.is_empty()).then(|| evaluation.decision()),
            by_arguments: !is_set_by_person && is_judged_by_call,
        }
    }

    /// Returns the decision about the calls of a tool that the person has not trusted; `None` for other tools.
    pub fn decision_by_trust(&self, tool: &Tool) -> Option<Decision> {
        let mut evaluation = PolicyEvaluation::default();
        evaluate_trust(tool, &mut evaluation);
        (!evaluation.is_empty()).then(|| evaluation.decision())
    }

    /// Returns how long the answer "always" stays valid.
    pub fn approval_lifetime(&self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.lease_days) * 24)
    }

    /// Returns true if models see the tool: it can be called, the profile shows this form of it, and a person has seen
    /// its description if that comes from a server.
    pub fn is_listed(&self, tool: &Tool) -> bool {
        self.is_offered(tool) && !self.is_only_searched(tool)
    }

    /// Returns true if models see the tool in the list, or find it by search.
    pub fn is_offered(&self, tool: &Tool) -> bool {
        self.is_shown(tool) && self.tool_refusal(tool).is_none() && !tool_default::is_unseen(tool)
    }

    /// Returns true if models would see the tool, except that no person has seen its server's description yet.
    pub fn awaits_trust(&self, tool: &Tool) -> bool {
        tool_default::is_unseen(tool) && self.is_shown(tool) && self.tool_refusal(tool).is_none()
    }

    /// Returns the approximate token budget for the tool definitions shown to agents. Other tools are found by search.
    /// `None` means no limit.
    pub fn discovery_budget(&self) -> Option<u64> {
        match self.discovery {
            (ToolDiscovery::Off, _) => None,
            (ToolDiscovery::On, _) => Some(0),
            (ToolDiscovery::Auto, tokens) => Some(tokens.unwrap_or(DISCOVERY_TOKENS)),
        }
    }

    /// Returns true if models find the tool only by search: few need the browser tools, and their definitions are long.
    pub fn is_only_searched(&self, tool: &Tool) -> bool {
        tool_forms::is_browser_tool(tool) && !self.lists_browser
    }

    /// Returns the kinds of untrusted content that are marked for MCP clients.
    pub fn untrusted_marking(&self) -> UntrustedMarking {
        self.untrusted_marking
    }

    /// Returns true if the profile shows this form of the tool.
    pub fn is_shown(&self, tool: &Tool) -> bool {
        tool_forms::is_shown(tool, self.profile)
    }

    /// Returns the number of argument rule examples that were checked when the files were read.
    pub fn examples(&self) -> usize {
        self.files.iter().map(|file| file.rules.examples()).sum()
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

#[cfg(test)]
mod tests;
