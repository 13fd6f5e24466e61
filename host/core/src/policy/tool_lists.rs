//! The allow and deny lists of tools, by name and by group. Deny wins.

use globset::{Glob, GlobMatcher};

use crate::config::ToolPolicy;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation, PolicyLayer};
use crate::name_suggestions::did_you_mean;
use crate::tool::{Tool, ToolGroup, ToolName};

use super::error::PolicyError;
use super::regex_budget::shorten;
use super::source::RuleSource;
use super::tool_forms::is_operation_of;

/// The tool lists of one file.
#[derive(Debug, Default)]
pub(super) struct ToolLists {
    allow: ToolNamePatterns,
    deny: ToolNamePatterns,
    allow_groups: Vec<ToolGroup>,
    deny_groups: Vec<ToolGroup>,
}

impl ToolLists {
    pub(super) fn new(policy: &ToolPolicy, source: &RuleSource) -> Result<Self, PolicyError> {
        Ok(Self {
            allow: ToolNamePatterns::read("policy.allow", &policy.allow, source)?,
            deny: ToolNamePatterns::read("policy.deny", &policy.deny, source)?,
            allow_groups: policy.groups.allow.clone(),
            deny_groups: policy.groups.deny.clone(),
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
            let key = format!("policy.deny[{at}]");
            let rule = format!("policy.deny: [{}]", self.deny.written[at]);
            deny(&key, rule, format!("`{}` is in the deny list", tool.name()));
        }
        if !self.allow.written.is_empty() && self.allow.find_entry(tool).is_none() {
            deny(
                "policy.allow",
                format!("policy.allow: [{}]", self.allow.written.join(", ")),
                format!("`{}` is not in the allow list", tool.name()),
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

    /// Finds entries that never match, match every tool, or contradict each other. Returns one line for each.
    pub(super) fn unused_entries(&self, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, names) in [("policy.allow", &self.allow), ("policy.deny", &self.deny)] {
            lines.extend(names.unused_entries(key, tools, source));
        }
        for (key, names, effect) in [
            ("policy.allow", &self.allow, "lets every tool be called"),
            ("policy.deny", &self.deny, "refuses every tool"),
        ] {
            for name in names.catch_all_entries() {
                let location = source.at(key);
                lines.push(format!("{location}: `{name}` in {key} {effect}."));
            }
        }
        let is_denied_too = |name: &&String| self.deny.written.contains(name);
        for name in self.allow.written.iter().filter(is_denied_too) {
            let location = source.at("policy.allow");
            lines.push(format!(
                "{location}: `{name}` is in policy.allow and in policy.deny; deny wins."
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

    /// Finds entries of the deny list that match no tool. Returns one line for each.
    pub(super) fn unused_denials(&self, tools: &[&Tool], source: &RuleSource) -> Vec<String> {
        self.deny.unused_entries("policy.deny", tools, source)
    }
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
