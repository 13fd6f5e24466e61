//! Finds argument rules that never match, match everything, or have no effect.

use globset::Glob;
use serde_json::Value;

use crate::decision::Decision;
use crate::name_suggestions::did_you_mean;
use crate::tool::Tool;

use super::super::UnusedSettingKind::{Misleading, NoEffect};
use super::super::condition::{self, ArgumentCondition, ValueTest};
use super::super::{COMMAND, REQUEST, UnusedSetting};
use super::{ArgumentRule, ArgumentRules};

impl ArgumentRules {
    /// Finds rules that never match a call of these tools, or are misleading. Returns each problem. `refusal`
    /// returns the source of the reason why every call of a tool is denied anyway; `None` if not every call is.
    pub(in crate::policy) fn unused_rules(
        &self,
        tools: &[&Tool],
        refusal: &dyn Fn(&Tool) -> Option<String>,
    ) -> Vec<UnusedSetting> {
        let mut unused = Vec::new();
        for rule in &self.rules {
            let mut report = |kind, reason: String| {
                unused.push(UnusedSetting {
                    location: rule.source.clone(),
                    key: rule.name.clone(),
                    reason,
                    kind,
                });
            };
            let never = rule.never_matches(tools);
            let is_unused = never.is_some();
            if let Some(why) = never {
                report(Misleading, why);
            } else if let Some(why) = self.no_effect(rule, tools, refusal) {
                report(NoEffect, why);
            } else {
                for why in rule.unmatched_tools(tools) {
                    report(Misleading, why);
                }
            }
            if let Some(argument) = rule.guarded_argument().filter(|_| !is_unused) {
                let why = format!(
                    "tests only the argument `{argument}`, but a search, a move or a command can reach the same files in \
                     another way; `files.deny` hides files from every tool."
                );
                report(Misleading, why);
            }
            for condition in rule
                .conditions
                .iter()
                .filter(|condition| !condition.negated)
            {
                let (kind, pattern) = match &condition.test {
                    ValueTest::Glob(glob) if matches_all(glob) => ("glob", glob.glob()),
                    ValueTest::Regex(pattern) if is_every_text(pattern) => {
                        ("regex", pattern.as_str())
                    }
                    _ => continue,
                };
                let why = format!(
                    "has a {kind} that matches everything (`{pattern}`); leave it out, or write `exists: true`."
                );
                report(Misleading, why);
            }
        }
        unused
    }

    /// Returns the reason why the rule has no effect. `None` if it has one.
    fn no_effect(
        &self,
        rule: &ArgumentRule,
        tools: &[&Tool],
        refusal: &dyn Fn(&Tool) -> Option<String>,
    ) -> Option<String> {
        if rule.decision == Decision::Deny {
            return None;
        }
        let mut applicable = tools.iter().filter(|tool| rule.applies_to(tool));
        let blanket_denial = |tool: &Tool| {
            let denies_all = |other: &&ArgumentRule| {
                other.decision == Decision::Deny
                    && other.conditions.is_empty()
                    && other.applies_to(tool)
            };
            self.rules.iter().find(denies_all)
        };
        let is_refused = |tool: &&&Tool| refusal(tool).is_some() || blanket_denial(tool).is_some();
        if !applicable.all(|tool| is_refused(&tool)) {
            return None;
        }
        let first = tools.iter().find(|tool| rule.applies_to(tool))?;
        Some(match blanket_denial(first) {
            Some(other) => format!(
                "changes nothing: {} ({}) denies every call of its tools.",
                other.name, other.source
            ),
            None => {
                let source = refusal(first).filter(|source| !source.is_empty());
                let by = source.map_or_else(String::new, |source| format!(" ({source})"));
                format!("changes nothing: every call of its tools is denied{by}.")
            }
        })
    }
}

impl ArgumentRule {
    /// Returns the path argument that the rule restricts, if any.
    fn guarded_argument(&self) -> Option<&str> {
        if self.decision == Decision::Allow {
            return None;
        }
        self.conditions.iter().find_map(|condition| {
            let is_path_test = matches!(condition.test, ValueTest::Inside(_) | ValueTest::Glob(_));
            let argument = condition.path.argument_name()?;
            let is_guarded =
                is_path_test && !condition.negated && condition::PATH_ARGUMENTS.contains(&argument);
            is_guarded.then_some(argument)
        })
    }

    /// Finds tools in the rule's own list whose calls the rule never matches. Returns one line for each.
    fn unmatched_tools(&self, tools: &[&Tool]) -> Vec<String> {
        if self.tools.is_empty() {
            return Vec::new();
        }
        let applicable = tools.iter().filter(|tool| self.applies_to(tool));
        applicable
            .filter_map(|tool| {
                let mismatch = self.mismatch(tool)?;
                Some(format!(
                    "does not apply to `{}`, {}.",
                    tool.name(),
                    mismatch.describe_for_one()
                ))
            })
            .collect()
    }

    /// Returns the reason why the rule never matches a call of these tools. `None` if it may match one.
    fn never_matches(&self, tools: &[&Tool]) -> Option<String> {
        let applicable: Vec<_> = tools.iter().filter(|tool| self.applies_to(tool)).collect();
        if applicable.is_empty() {
            let names = tools.iter().map(|tool| tool.name().as_str());
            let first = self.tools.first();
            let near = first.map_or_else(String::new, |name| did_you_mean(name, names));
            return Some(format!("matches no available tool.{near}"));
        }
        if let Some(why) = contradiction(&self.conditions) {
            return Some(format!("can never match: {why}."));
        }
        let never: Option<Vec<RuleMismatch>> =
            applicable.iter().map(|tool| self.mismatch(tool)).collect();
        let why = never?.into_iter().next()?.describe_for_all();
        Some(format!("can never match: {why}."))
    }

    /// Returns the reason why the rule never matches a call of this tool. `None` if it may match one.
    fn mismatch(&self, tool: &Tool) -> Option<RuleMismatch> {
        // Effects of a call are checked too, with arguments of their own.
        let needs = [&tool.definition.needs, &tool.granted];
        if needs.iter().any(|needs| !needs.hosts.is_empty()) && self.depends_only_on(REQUEST)
            || needs.iter().any(|needs| !needs.commands.is_empty()) && self.depends_only_on(COMMAND)
        {
            return None;
        }
        let schema = &tool.definition.input_schema;
        let value = schema.to_value();
        self.conditions.iter().find_map(|condition| {
            let argument = condition.path.argument_name()?;
            let is_absence = condition.negated && matches!(condition.test, ValueTest::Exists);
            if !condition.negated && !schema.allows_member(argument) {
                return Some(RuleMismatch::NoArgument(argument.to_owned()));
            }
            if is_absence && condition.path.is_argument_name() && is_required(&value, argument) {
                return Some(RuleMismatch::Value(format!("`{argument}` is always there")));
            }
            let inner = condition.path.schema(&value)?;
            (!condition.negated)
                .then(|| schema_mismatch(&condition.test, inner))?
                .map(|why| RuleMismatch::Value(format!("`{argument}` {why}")))
        })
    }
}

/// Reason why a rule never matches a call of a tool.
enum RuleMismatch {
    /// The tool has no such argument.
    NoArgument(String),
    /// The argument never has a matching value; the text is a clause without a full stop.
    Value(String),
}

impl RuleMismatch {
    /// Returns the reason as a clause about all tools of a rule.
    fn describe_for_all(&self) -> String {
        match self {
            Self::NoArgument(argument) => {
                format!("none of its tools takes an argument `{argument}`")
            }
            Self::Value(why) => why.clone(),
        }
    }

    /// Returns the reason as a clause about one tool.
    fn describe_for_one(&self) -> String {
        match self {
            Self::NoArgument(argument) => format!("which takes no argument `{argument}`"),
            Self::Value(why) => format!("where {why}"),
        }
    }
}

pub(super) fn is_required(schema: &Value, argument: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|name| name == argument))
}

/// Returns a description of two conditions that exclude each other, or of one that cannot hold.
fn contradiction(conditions: &[ArgumentCondition]) -> Option<String> {
    for condition in conditions {
        if !condition.negated {
            let is_same_path = |other: &&ArgumentCondition| {
                !other.negated && other.path == condition.path && other.path.is_single()
            };
            if let ValueTest::Equals(value) = &condition.test
                && !conditions
                    .iter()
                    .filter(is_same_path)
                    .all(|other| may_pass(&other.test, value))
            {
                return Some("two of its conditions contradict each other".to_owned());
            }
            continue;
        }
        if let ValueTest::Glob(glob) = &condition.test
            && glob.glob() == "**"
        {
            return Some("its `not` matches everything".to_owned());
        }
        let opposite = conditions.iter().find(|other| {
            !other.negated
                && other.path == condition.path
                // With several values, one may satisfy the first and another the second.
                && other.path.is_single()
                && (matches!(condition.test, ValueTest::Exists) || implies(&other.test, &condition.test))
        });
        if opposite.is_some() {
            return Some("two of its conditions contradict each other".to_owned());
        }
    }
    None
}

/// Returns true if `one` obviously implies `other`.
fn implies(one: &ValueTest, other: &ValueTest) -> bool {
    match (one, other) {
        (ValueTest::Glob(one), ValueTest::Glob(other)) => {
            one.glob() == other.glob() || (matches_all(other) && other.glob() != "*")
        }
        (ValueTest::Regex(one), ValueTest::Regex(other)) => one == other,
        (ValueTest::Equals(one), ValueTest::Equals(other)) => one == other,
        (ValueTest::Equals(Value::String(text)), ValueTest::Glob(glob)) => {
            glob.compile_matcher().is_match(text)
        }
        (ValueTest::Inside(one), ValueTest::Inside(other)) => {
            other.is_empty() || one == other || one.starts_with(&format!("{other}/"))
        }
        (
            ValueTest::Range { min, max },
            ValueTest::Range {
                min: low,
                max: high,
            },
        ) => low <= min && max <= high,
        _ => false,
    }
}

/// Returns true if the glob matches every text, or every text without a slash.
pub(super) fn matches_all(glob: &Glob) -> bool {
    matches!(glob.glob(), "*" | "**" | "**/*" | "**/**")
}

/// Returns true if a regular expression seems to match every text: it matches both the empty text and a control
/// character.
pub(in super::super) fn is_every_text(pattern: &str) -> bool {
    let pattern = regex::Regex::new(pattern);
    pattern.is_ok_and(|pattern| pattern.is_match("") && pattern.is_match("\u{1}"))
}

/// Returns the reason why no value of this schema passes the test. `None` if a value may pass.
fn schema_mismatch(test: &ValueTest, schema: &Value) -> Option<String> {
    let expected = match test {
        ValueTest::Glob(_) | ValueTest::Regex(_) | ValueTest::Inside(_) => "string",
        ValueTest::Range { .. } => "number",
        ValueTest::Equals(value) => json_type(value),
        ValueTest::Exists => return None,
    };
    if !allows_type(schema, expected) {
        return Some(format!("is not of type {expected}"));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.iter().any(|value| may_pass(test, value))
    {
        return Some("has none of the values that it takes".to_owned());
    }
    if let ValueTest::Range { min, max } = test {
        let below = schema["maximum"].as_f64().is_some_and(|most| *min > most);
        let above = schema["minimum"].as_f64().is_some_and(|least| *max < least);
        if below || above {
            return Some("is never such a number".to_owned());
        }
    }
    None
}

/// Returns false if the value obviously fails the test.
fn may_pass(test: &ValueTest, value: &Value) -> bool {
    match (test, value) {
        (ValueTest::Glob(glob), Value::String(text)) => glob.compile_matcher().is_match(text),
        (ValueTest::Regex(regex), Value::String(text)) => {
            // An expression that does not compile is rejected elsewhere.
            regex::Regex::new(regex).map_or(true, |regex| regex.is_match(text))
        }
        (ValueTest::Equals(expected), value) => expected == value,
        (ValueTest::Range { min, max }, value) => value
            .as_f64()
            .is_some_and(|number| *min <= number && number <= *max),
        // A path can be written in many ways.
        _ => true,
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns true if the schema allows values of this type. A schema without `type` allows all types.
fn allows_type(schema: &Value, json_type: &str) -> bool {
    let is_type = |word: &Value| word == json_type || (json_type == "number" && word == "integer");
    match &schema["type"] {
        Value::Array(words) => words.iter().any(is_type),
        word @ Value::String(_) => is_type(word),
        _ => true,
    }
}
