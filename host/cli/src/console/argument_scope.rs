//! The calls about which an edit of the rules decides by their arguments.

use mimir_console::PolicyEdit;
use mimir_core::config::RuleSettings;
use mimir_core::{Decision, Tool};

use mimir::settings::MergedSettings;

/// The tools about whose calls an edit decides by their arguments.
pub struct ArgumentScope {
    /// True if it may concern the calls of any tool.
    all: bool,
    /// Tools whose own block is edited.
    tools: Vec<String>,
    /// Rules about the calls of several tools.
    removed: Vec<RuleSettings>,
    added: Vec<RuleSettings>,
}

/// Effect of the rules about arguments on a call whose arguments are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentEffect {
    /// The edit changes nothing about the call.
    Unchanged,
    /// The edit adds this decision, whatever the arguments are.
    AtLeast(Decision),
    /// The arguments decide.
    Unknown,
}

impl ArgumentScope {
    /// Compares the settings before and after an edit.
    pub fn new(edit: &PolicyEdit, before: &MergedSettings, after: &MergedSettings) -> Self {
        let (before, after) = (policy_rules(before), policy_rules(after));
        let mut scope = Self {
            all: false,
            tools: Vec::new(),
            removed: without(&before, &after),
            added: without(&after, &before),
        };
        for change in &edit.changes {
            let key: Vec<&str> = change.key.trim().split('.').collect();
            match key.as_slice() {
                // These decide about all calls of a tool, or are compared above.
                ["approval", ..]
                | ["policy", "allow" | "deny" | "groups" | "rules", ..]
                | ["tools", _, "approval" | "enabled"]
                | ["tools", _, "approval", "level"] => {}
                // Keys about all tools have upper-case letters, and the names of tools have none.
                ["tools", tool, ..] if !tool.contains(|c: char| c.is_ascii_uppercase()) => {
                    scope.tools.push((*tool).to_owned());
                }
                _ => scope.all = true,
            }
        }
        scope
    }

    /// Returns the effect on a call of a tool.
    pub fn effect_on(&self, tool: &Tool) -> ArgumentEffect {
        let concerns = |rule: &&RuleSettings| rule_names(rule, tool);
        let is_edited = self.tools.iter().any(|name| tool.answers_to(name));
        if self.all || is_edited || self.removed.iter().any(|rule| concerns(&rule)) {
            return ArgumentEffect::Unknown;
        }
        let mut effect = ArgumentEffect::Unchanged;
        for rule in self.added.iter().filter(concerns) {
            // A rule that allows replaces defaults, which may have decided.
            if !rule.when.is_empty() || rule.decision == Decision::Allow {
                return ArgumentEffect::Unknown;
            }
            effect = match effect {
                ArgumentEffect::AtLeast(decision) => {
                    ArgumentEffect::AtLeast(decision.max(rule.decision))
                }
                _ => ArgumentEffect::AtLeast(rule.decision),
            };
        }
        effect
    }
}

fn policy_rules(settings: &MergedSettings) -> Vec<&RuleSettings> {
    let files = settings.files.iter();
    files.flat_map(|file| &file.config.policy.rules).collect()
}

/// Returns the rules that `others` does not have as often.
fn without(rules: &[&RuleSettings], others: &[&RuleSettings]) -> Vec<RuleSettings> {
    let mut others = others.to_vec();
    let is_new = |rule: &&&RuleSettings| match others.iter().position(|other| other == *rule) {
        Some(at) => {
            others.swap_remove(at);
            false
        }
        None => true,
    };
    rules
        .iter()
        .filter(is_new)
        .map(|rule| (*rule).clone())
        .collect()
}

fn rule_names(rule: &RuleSettings, tool: &Tool) -> bool {
    (rule.tools.is_empty() || rule.tools.iter().any(|name| tool.answers_to(name)))
        && (rule.groups.is_empty() || rule.groups.contains(&tool.definition.group))
        && (rule.sources.is_empty() || rule.sources.contains(&tool.source))
}
