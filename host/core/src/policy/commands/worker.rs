//! The rules of a worker's file about commands.

use crate::command::{CommandPattern, Simple};
use crate::decision::{Decision, Layer, Reason};
use crate::policy::Source;

/// Which commands a worker may run: of all patterns that match the strictest word, and one where none does.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCommands {
    /// The patterns.
    pub(crate) rules: Vec<(CommandPattern, Decision)>,
    /// Where none matches.
    pub(crate) rest: Decision,
}

impl WorkerCommands {
    /// What is said of one command.
    pub(super) fn judge(&self, simple: &Simple, shown: &str, source: &Source) -> Option<Reason> {
        if simple.words.is_empty() {
            return None;
        }
        let mut rules = self.rules.iter().enumerate();
        let spoken = self
            .rules
            .iter()
            // What only the shell will know may be what a rule is about.
            .filter(|(pattern, decision)| {
                pattern.matches(&simple.words)
                    || (*decision > Decision::Allow && pattern.may_match(&simple.words))
            })
            .map(|(_, decision)| *decision)
            .max();
        let decision = spoken.unwrap_or(self.rest);
        let at =
            rules.find(|(_, (pattern, own))| *own == decision && pattern.may_match(&simple.words));
        let (key, rule) = match at {
            Some((at, (pattern, _))) => (
                format!("toolsets.shell.rules[{at}]"),
                pattern.as_str().to_owned(),
            ),
            None => (
                "toolsets.shell".to_owned(),
                "commands that no rule names".to_owned(),
            ),
        };
        Some(Reason {
            layer: Layer::Commands,
            decision,
            rule,
            source: source.at(&key),
            text: format!("`{shown}`: the worker's rules say {}", decision.as_str()),
        })
    }
}
