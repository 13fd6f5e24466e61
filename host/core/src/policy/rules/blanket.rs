//! Rules that match every call of a tool. A file that cannot disable a tool cannot refuse all its calls with such a rule.

use crate::decision::Decision;
use crate::tool::{Tool, ToolSource};

use super::super::condition::{ArgumentCondition, ValueTest};
use super::unused::{is_every_text, is_required, matches_all};
use super::{ArgumentRule, ArgumentRules};

/// The rules of a file that do not count for a tool, because the tool comes from a team.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct TeamRuleExceptions {
    /// True if the file cannot disable the tool: rules that deny every call of it do not count.
    pub keeps_enabled: bool,
    /// True if the file means other teams: rules that allow calls of `sources: [teams]` do not count.
    pub is_of_other_team: bool,
}

impl TeamRuleExceptions {
    /// Returns true if a rule counts for the tool.
    pub(super) fn allow(self, rule: &ArgumentRule, tool: &Tool) -> bool {
        match rule.decision {
            Decision::Deny => !(self.keeps_enabled && rule.is_blanket(tool)),
            Decision::Allow => {
                !(self.is_of_other_team && rule.sources.contains(&ToolSource::Teams))
            }
            Decision::Ask => true,
        }
    }
}

impl ArgumentRules {
    /// Returns the name and the location of each rule that denies every call of the tool.
    pub(in super::super) fn blanket_denials(&self, tool: &Tool) -> Vec<(String, String)> {
        let rules = self.rules.iter();
        let denying = rules.filter(|rule| {
            rule.decision == Decision::Deny && rule.applies_to(tool) && rule.is_blanket(tool)
        });
        denying
            .map(|rule| (rule.name.clone(), rule.source.clone()))
            .collect()
    }
}

impl ArgumentRule {
    /// Returns true if the conditions hold for every call of the tool.
    fn is_blanket(&self, tool: &Tool) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| always_holds(condition, tool))
    }
}

/// Returns true if a condition holds for all arguments that the tool takes.
fn always_holds(condition: &ArgumentCondition, tool: &Tool) -> bool {
    let schema = &tool.definition.input_schema;
    let Some(argument) = condition.path.argument_name() else {
        let value = schema.to_value();
        let required = value["required"].as_array();
        return condition.path.is_each_argument()
            && required.is_some_and(|required| !required.is_empty())
            && !condition.negated
            && matches_every_value(&condition.test);
    };
    if condition.negated {
        // An argument that the tool does not take never passes the test.
        return !schema.allows_member(argument);
    }
    condition.path.is_argument_name()
        && is_required(&schema.to_value(), argument)
        && matches_every_value(&condition.test)
}

/// Returns true if a test passes for every value.
fn matches_every_value(test: &ValueTest) -> bool {
    match test {
        ValueTest::Exists => true,
        ValueTest::Glob(glob) => matches_all(glob),
        ValueTest::Regex(pattern) => is_every_text(pattern),
        ValueTest::Range { min, max } => *min == f64::NEG_INFINITY && *max == f64::INFINITY,
        ValueTest::Inside(folder) => folder.is_empty(),
        ValueTest::Equals(_) => false,
    }
}
