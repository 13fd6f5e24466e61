//! The allow and deny lists of tools, by name and by group. Deny wins.

use globset::{Glob, GlobMatcher};

use crate::config::{EnforcementSettings, RoleTools, ToolPolicy};
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::name_suggestions::did_you_mean;
use crate::tool::{Tool, ToolGroup, ToolName, ToolSource};

use super::error::PolicyError;
use super::regex_budget::shorten;
use super::source::RuleSource;
use super::tool_forms::is_operation_of;

/// The tool lists of one file or one role.
#[derive(Debug)]
pub(super) struct ToolLists {
    /// The keys of the lists.
    allow_key: String,
    deny_key: String,
    /// End of a reason that names the owner of a list.
    owner: String,
    allow: ToolNamePatterns,
    deny: ToolNamePatterns,
    allow_groups: Vec<ToolGroup>,
    deny_groups: Vec<ToolGroup>,
    /// `enforcement.allowTools`: names, and sources.
    only: ToolNamePatterns,
    only_sources: Vec<ToolSource>,
}

impl ToolLists {
    pub(super) fn new(
        policy: &ToolPolicy,
        enforcement: &EnforcementSettings,
        source: &RuleSource,
    ) -> Result<Self, PolicyError> {
        let (sources, names) = split_sources(&enforcement.allow_tools, source)?;
        Ok(Self {
            allow_key: "policy.allow".to_owned(),
            deny_key: "policy.deny".to_owned(),
            owner: String::new(),
            only: ToolNamePatterns::read("enforcement.allowTools", &names, source)?,
            only_sources: sources,
            allow: ToolNamePatterns::read("policy.allow", &policy.allow, source)?,
            deny: ToolNamePatterns::read("policy.deny", &policy.deny, source)?,
            allow_groups: policy.groups.allow.clone(),
            deny_groups: policy.groups.deny.clone(),
        })
    }

    /// Parses the lists of a role.
    pub(super) fn for_role(
        role: &str,
        tools: &RoleTools,
        source: &RuleSource,
    ) -> Result<Self, PolicyError> {
        let allow_key = format!("roles.{role}.tools.allow");
        let deny_key = format!("roles.{role}.tools.deny");
        Ok(Self {
            allow: ToolNamePatterns::read(&allow_key, &tools.allow, source)?,
            deny: ToolNamePatterns::read(&deny_key, &tools.deny, source)?,
            allow_key,
            deny_key,
            owner: format!(" of the role `{role}`"),
            allow_groups: Vec::new(),
            deny_groups: Vec::new(),
            only: ToolNamePatterns::default(),
            only_sources: Vec::new(),
        })
    }

    /// Adds a denial for each list that excludes the tool.
    pub(super) fn evaluate(
        &self,
        tool: &Tool,
        source: &RuleSource,
        evaluation: &mut PolicyEvaluation,
    ) {
        let group = tool.definition.group;
        let mut deny = |key: &str, rule: String, text: String| {
            evaluation.push(DecisionReason {
                layer: PolicyLayer::ToolPolicy,
                decision: Decision::Deny,
                source: source.at(key),
                rule,
                text,
            });
        };
        if let Some(at) = self.deny.find_entry(tool) {
            let list = &self.deny_key;
            deny(
                &format!("{list}[{at}]"),
                format!("{list}: [{}]", self.deny.written[at]),
                format!("`{}` is in the deny list{}", tool.name(), self.owner),
            );
        }
        if !self.allow.written.is_empty() && self.allow.find_entry(tool).is_none() {
            let list = &self.allow_key;
            deny(
                list,
                format!("{list}: [{}]", self.allow.written.join(", ")),
                format!("`{}` is not in the allow list{}", tool.name(), self.owner),
            );
        }
        if let Some(at) = self.deny_groups.iter().position(|denied| *denied == group) {
            deny(
                &format!("policy.groups.deny[{at}]"),
                format!("policy.groups.deny: [{}]", group.as_str()),
                format!("tools of the group `{}` are denied", group.as_str()),
            );
        }
        if !self.allow_groups.is_empty() && !self.allow_groups.contains(&group) {
            let names: Vec<_> = self
                .allow_groups
                .iter()
                .map(|group| group.as_str())
                .collect();
            deny(
                "policy.groups.allow",
                format!("policy.groups.allow: [{}]", names.join(", ")),
                format!(
                    "tools of the group `{}` are not among the allowed groups",
                    group.as_str()
                ),
            );
        }
    }

    /// Adds a denial if `enforcement.allowTools` of the file does not name the tool. `covers_team` is false for the tool
    /// of a team that the file does not mean.
    pub(super) fn evaluate_enforcement(
        &self,
        tool: &Tool,
        covers_team: bool,
        source: &RuleSource,
        evaluation: &mut PolicyEvaluation,
    ) {
        let is_unrestricted = self.only.written.is_empty() && self.only_sources.is_empty();
        if is_unrestricted
            || (covers_team && self.only_sources.contains(&tool.source))
            || self.only.find_entry(tool).is_some()
        {
            return;
        }
        let file = source.file();
        let sources = self.only_sources.iter();
        let sources = sources.map(|source| format!("{SOURCE_PREFIX}{}", source.as_str()));
        let allowed: Vec<String> = sources.chain(self.only.written.iter().cloned()).collect();
        evaluation.push(DecisionReason {
            layer: PolicyLayer::ToolPolicy,
            decision: Decision::Deny,
            source: source.at("enforcement.allowTools"),
            rule: format!("enforcement.allowTools: [{}]", allowed.join(", ")),
            text: if covers_team {
                format!("`{}` is not among the tools that {file} allows", tool.name())
            } else {
                format!(
                    "`{}` is of a team that {file} does not require, and `{SOURCE_PREFIX}{}` of it allows only tools of teams that it requires",
                    tool.name(),
                    ToolSource::Teams.as_str()
                )
            },
        });
    }

    /// Finds entries that never match, match every tool, or contradict each other. Returns one line for each.
    pub(super) fn unused_entries(&self, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        let mut lines = Vec::new();
        let keys = [(&self.allow_key, &self.allow), (&self.deny_key, &self.deny)];
        for (key, names) in keys {
            lines.extend(names.unused_entries(key, tools, source));
        }
        for (key, names, effect) in [
            (&self.allow_key, &self.allow, "lets every tool be called"),
            (&self.deny_key, &self.deny, "refuses every tool"),
        ] {
            for name in names.catch_all_entries() {
                let location = source.at(key);
                lines.push(format!("{location}: `{name}` in {key} {effect}."));
            }
        }
        let is_denied_too = |name: &&String| self.deny.written.contains(name);
        for name in self.allow.written.iter().filter(is_denied_too) {
            let (allow, deny) = (&self.allow_key, &self.deny_key);
            let location = source.at(allow);
            lines.push(format!(
                "{location}: `{name}` is in {allow} and in {deny}; deny wins."
            ));
        }
        for group in self
            .allow_groups
            .iter()
            .filter(|group| self.deny_groups.contains(group))
        {
            let location = source.at("policy.groups.allow");
            let group = group.as_str();
            lines.push(format!(
                "{location}: the group `{group}` is allowed and denied; deny wins."
            ));
        }
        lines
    }

    /// Finds entries of a role that match no tool. Returns one line for each. A role may refuse every tool.
    pub(super) fn unused_role_entries(&self, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        let mut lines = self.allow.unused_entries(&self.allow_key, tools, source);
        lines.extend(self.deny.unused_entries(&self.deny_key, tools, source));
        lines
    }

    /// Finds entries of the deny list that match no tool. Returns one line for each.
    pub(super) fn unused_denials(&self, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        self.deny.unused_entries("policy.deny", tools, source)
    }
}

/// Begin of an entry of `enforcement.allowTools` that allows the tools of a source.
const SOURCE_PREFIX: &str = "source:";

/// Splits the entries of `enforcement.allowTools` into sources and names.
fn split_sources(
    entries: &[String],
    source: &RuleSource,
) -> Result<(Vec<ToolSource>, Vec<String>), PolicyError> {
    let (mut sources, mut names) = (Vec::new(), Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        let Some(named) = entry.strip_prefix(SOURCE_PREFIX) else {
            names.push(entry.clone());
            continue;
        };
        let mut known = ToolSource::ALL.into_iter();
        let Some(known) = known.find(|known| known.as_str() == named) else {
            let key = format!("enforcement.allowTools[{at}]");
            let all = ToolSource::ALL.map(|known| format!("`{SOURCE_PREFIX}{}`", known.as_str()));
            return Err(PolicyError::Rule {
                location: source.at(&key),
                text: format!(
                    "{key}: `{}` is not a source: expected one of {}",
                    shorten(entry),
                    all.join(", ")
                ),
            });
        };
        sources.push(known);
    }
    Ok((sources, names))
}

/// Tool names, and globs over them.
#[derive(Debug, Default)]
struct ToolNamePatterns {
    written: Vec<String>,
    /// The compiled glob of each entry, or `None` for a plain name.
    globs: Vec<Option<GlobMatcher>>,
}

impl ToolNamePatterns {
    fn read(key: &str, written: &[String], source: &RuleSource) -> Result<Self, PolicyError> {
        let mut globs = Vec::with_capacity(written.len());
        for (at, name) in written.iter().enumerate() {
            let key = format!("{key}[{at}]");
            let fault = |why: String| PolicyError::Rule {
                location: source.at(&key),
                text: format!("{key}: `{}` {why}", shorten(name)),
            };
            globs.push(parse_glob(name).map_err(fault)?);
        }
        Ok(Self {
            written: written.to_vec(),
            globs,
        })
    }

    /// Returns the index of the first entry that matches the tool.
    fn find_entry(&self, tool: &Tool) -> Option<usize> {
        (0..self.written.len()).find(|&at| self.entry_matches(at, tool))
    }

    fn entry_matches(&self, at: usize, tool: &Tool) -> bool {
        match &self.globs[at] {
            None => {
                let name = &self.written[at];
                tool.answers_to(name) || is_operation_of(tool, name)
            }
            Some(glob) => {
                let mut names = std::iter::once(tool.name()).chain(&tool.aliases);
                names.any(|name| glob.is_match(name.as_str()))
            }
        }
    }

    /// Returns the entries that match every tool name.
    fn catch_all_entries(&self) -> impl Iterator<Item = &String> {
        let is_catch_all =
            |name: &&String| name.bytes().all(|byte| byte == b'*') && !name.is_empty();
        self.written.iter().filter(is_catch_all)
    }

    /// Finds the entries that match no tool. Returns one line for each.
    fn unused_entries(&self, key: &str, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        let is_unused = |at: &usize| !tools.iter().any(|tool| self.entry_matches(*at, tool));
        let line = |at: usize| {
            let name = &self.written[at];
            let known = tools.iter().map(|tool| tool.name().as_str());
            let near = did_you_mean(name, known);
            let location = source.at(&format!("{key}[{at}]"));
            format!("{location}: {key} names the unknown tool `{name}`.{near}")
        };
        (0..self.written.len())
            .filter(is_unused)
            .map(line)
            .collect()
    }
}

/// Parses the glob of an entry. `None` if the entry is a plain name.
fn parse_glob(entry: &str) -> Result<Option<GlobMatcher>, String> {
    if ToolName::new(entry).is_ok() {
        return Ok(None);
    }
    let is_glob_character =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*?[]!-{},".contains(c);
    if !entry.contains(['*', '?', '[', '{']) || !entry.chars().all(is_glob_character) {
        let why = "is neither a tool name (a-z, 0-9 and _) nor a glob over names such as `git_*`";
        return Err(why.to_owned());
    }
    match Glob::new(entry) {
        Ok(glob) => Ok(Some(glob.compile_matcher())),
        Err(error) => Err(format!("is not a valid glob: {}", error.kind())),
    }
}
