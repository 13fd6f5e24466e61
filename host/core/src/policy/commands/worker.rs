//! The rules of a worker's file about commands.

use crate::command::{CommandPattern, Plain, Simple, Word};
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
        let plain = Plain::of(&simple.words);
        let rules = self.rules.iter().enumerate();
        let spoken = rules.filter_map(|(at, (pattern, own))| {
            let decision = says(pattern, *own, &simple.words, &plain)?;
            Some((at, decision))
        });
        // The first of the strictest.
        let strictest = spoken.reduce(|one, other| match other.1 > one.1 {
            true => other,
            false => one,
        });
        let decision = strictest.map_or(self.rest, |(_, decision)| decision);
        let at = strictest.and_then(|(at, _)| Some((at, &self.rules.get(at)?.0)));
        let (key, rule) = match at {
            Some((at, pattern)) => (
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

/// What one rule says of a command. What allows speaks of the words as they are written. What forbids or asks speaks of
/// what they may come to, too: what only the shell will know, the program under another path, and what its own options
/// stand before. Where they may come to it and nobody knows, a rule asks.
fn says(
    pattern: &CommandPattern,
    own: Decision,
    words: &[Word],
    plain: &Plain,
) -> Option<Decision> {
    if own == Decision::Allow {
        return pattern.matches(words).then_some(own);
    }
    if pattern.may_match(words) || pattern.may_match(&plain.words) {
        return Some(own);
    }
    let may = plain.others.iter().any(|other| pattern.may_match(other));
    may.then_some(Decision::Ask)
}
