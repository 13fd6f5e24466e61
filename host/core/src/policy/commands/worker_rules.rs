//! The command rules of a worker's file.

use mimir_commands::PlainCommand;

use crate::command::{CommandPattern, ParsedCommand, ShellWord};
use crate::decision::{Decision, DecisionReason, PolicyLayer};
use crate::policy::RuleSource;

/// The command rules of a worker. The strictest decision of all matching patterns wins.
#[derive(Debug, Clone)]
pub struct WorkerCommandRules {
    /// The patterns, each with its decision.
    pub rules: Vec<(CommandPattern, Decision)>,
    /// The decision if no pattern matches.
    pub default: Decision,
}

impl WorkerCommandRules {
    /// Evaluates the rules for one command. `None` if it runs no program.
    pub(super) fn evaluate(
        &self,
        simple: &ParsedCommand,
        shown: &str,
        source: &RuleSource,
    ) -> Option<DecisionReason> {
        if simple.words.is_empty() {
            return None;
        }
        let plain = PlainCommand::normalize(&simple.words);
        let rules = self.rules.iter().enumerate();
        let decisions = rules.filter_map(|(at, (pattern, rule_decision))| {
            let decision = evaluate_rule(pattern, *rule_decision, &simple.words, &plain)?;
            Some((at, decision))
        });
        // Of several strictest decisions, the first is kept.
        let strictest = decisions.reduce(|one, other| if other.1 > one.1 { other } else { one });
        let decision = strictest.map_or(self.default, |(_, decision)| decision);
        let rule = strictest.and_then(|(at, _)| Some((at, &self.rules.get(at)?.0)));
        let (key, rule) = match rule {
            Some((at, pattern)) => (
                format!("toolsets.shell.rules[{at}]"),
                pattern.as_str().to_owned(),
            ),
            None => (
                "toolsets.shell".to_owned(),
                "commands that no rule names".to_owned(),
            ),
        };
        Some(DecisionReason {
            layer: PolicyLayer::Commands,
            decision,
            rule,
            source: source.at(&key),
            text: format!("`{shown}`: the worker's rules decide {}", decision.as_str()),
        })
    }
}

/// Evaluates one rule for a command. `None` if the rule does not match. An `allow` matches only the words as written. A
/// rule that denies or asks also matches unknown words, which may expand to anything, and the normalized command (other
/// program path, options before the subcommand). If it matches only an alternative reading of the command, it asks.
fn evaluate_rule(
    pattern: &CommandPattern,
    rule_decision: Decision,
    words: &[ShellWord],
    plain: &PlainCommand,
) -> Option<Decision> {
    if rule_decision == Decision::Allow {
        return pattern.matches(words).then_some(rule_decision);
    }
    if pattern.may_match(words) || pattern.may_match(&plain.words) {
        return Some(rule_decision);
    }
    let may_match = plain
        .alternatives
        .iter()
        .any(|other| pattern.may_match(other));
    may_match.then_some(Decision::Ask)
}
