//! Roles of the users of a server: which role a user has, and the restrictions of calls in a role.

use std::sync::Arc;

use crate::config::{Config, DEFAULT_ROLE, RoleList, RoleSettings};
use crate::tool::Tool;

use super::error::PolicyError;
use super::policy_file::PolicyFileRank;
use super::regex_budget::RegexBudget;
use super::rules::ArgumentRules;
use super::source::RuleSource;
use super::tool_lists::ToolLists;
use super::{Policy, PolicyFile};

/// The compiled roles of one settings file.
#[derive(Debug, Clone, Default)]
pub(super) struct FileRoles {
    settings: RoleList,
    compiled: Vec<Arc<CompiledRole>>,
}

/// A role with its compiled restrictions.
#[derive(Debug)]
pub(super) struct CompiledRole {
    name: String,
    groups: Vec<String>,
    restrictions: PolicyFile,
    calls_per_minute: Option<u32>,
}

/// The limit of calls of each user in the role of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerBudget {
    /// Maximum number of calls per minute.
    pub(crate) calls_per_minute: u32,
    /// The key of the limit.
    pub(crate) key: String,
}

impl FileRoles {
    /// Compiles the roles of a file.
    pub(super) fn new(
        settings: &RoleList,
        source: &Arc<RuleSource>,
        budget: &mut RegexBudget,
    ) -> Result<Self, PolicyError> {
        if let Some((key, fault)) = settings.find_fault() {
            return Err(PolicyError::Rule {
                location: source.at(&key),
                text: format!("{key} {fault}"),
            });
        }
        let compiled = settings
            .iter()
            .map(|(name, role)| CompiledRole::new(name, role, source, budget).map(Arc::new));
        Ok(Self {
            compiled: compiled.collect::<Result<_, _>>()?,
            settings: settings.clone(),
        })
    }

    /// Finds tool names in the roles that match no tool. Returns one line for each.
    pub(super) fn unused_entries(&self, tools: &[&Tool]) -> Vec<String> {
        let roles = self.compiled.iter().map(|role| &role.restrictions);
        roles
            .flat_map(|file| file.lists.unused_role_entries(tools, &file.source))
            .collect()
    }

    fn find(&self, name: &str) -> Option<&Arc<CompiledRole>> {
        self.compiled.iter().find(|role| role.name == name)
    }
}

impl CompiledRole {
    fn new(
        name: &str,
        settings: &RoleSettings,
        source: &Arc<RuleSource>,
        budget: &mut RegexBudget,
    ) -> Result<Self, PolicyError> {
        let rules = settings.rules.iter().enumerate();
        let rules = rules.map(|(at, rule)| (format!("roles.{name}.rules[{at}]"), None, rule));
        let mut restrictions = PolicyFile::new(&Config::default(), source.file())?;
        restrictions.rules = Arc::new(ArgumentRules::new(rules, source, budget)?);
        restrictions.lists = Arc::new(ToolLists::for_role(name, &settings.tools, source)?);
        restrictions.source = Arc::clone(source);
        restrictions.set_rank(PolicyFileRank::Role);
        Ok(Self {
            name: name.to_owned(),
            groups: settings.groups.clone(),
            restrictions,
            calls_per_minute: settings.budget.calls_per_minute,
        })
    }
}

impl Policy {
    /// Returns the role of a user with these groups: the first in the settings that one of the groups has, or else
    /// `default`. `None` if the user has no role, and no restrictions.
    pub fn role_of(&self, groups: &[String]) -> Option<&str> {
        let roles = self.roles.compiled.iter();
        let mut matching =
            roles.filter(|role| role.groups.iter().any(|group| groups.contains(group)));
        let role = matching.next().or_else(|| self.roles.find(DEFAULT_ROLE))?;
        Some(&role.name)
    }

    /// Returns a copy with the restrictions of a role added, which can deny and ask, but not allow. `None` if the role is
    /// not in the settings (any more).
    #[must_use]
    pub fn in_role(&self, name: &str) -> Option<Self> {
        let role = self.roles.find(name)?;
        let mut restricted = self.clone();
        restricted.files.push(role.restrictions.clone());
        restricted.role = Some(Arc::clone(role));
        restricted.paths = Arc::default();
        Some(restricted)
    }

    /// Returns the name of the role of [`Self::in_role`].
    pub fn role(&self) -> Option<&str> {
        self.role.as_ref().map(|role| role.name.as_str())
    }

    /// Returns the limit of calls of each user in this role.
    pub(crate) fn caller_budget(&self) -> Option<CallerBudget> {
        let role = self.role.as_ref()?;
        Some(CallerBudget {
            calls_per_minute: role.calls_per_minute?,
            key: format!("roles.{}.budget.callsPerMinute", role.name),
        })
    }

    /// Selects the roles of the file from which the merged settings have theirs.
    pub(super) fn select_roles(merged: &Config, files: &[PolicyFile]) -> FileRoles {
        let mut files = files.iter().map(|file| &file.roles);
        let selected = files.find(|roles| roles.settings == merged.roles);
        selected.cloned().unwrap_or_default()
    }
}
