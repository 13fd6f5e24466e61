//! The conditions of argument rules. A condition has an argument path and a test of the values there.

use globset::{Glob, GlobBuilder};
use serde_json::Value;

use crate::config::{MatcherSettings, RuleSettings};
use crate::decision::Decision;

use super::argument_path::ArgumentPath;
use super::regex_budget::{RegexBudget, shorten};
use super::spelling;

/// A condition: an argument path, and a test of the values at the path.
#[derive(Debug, Clone)]
pub(super) struct ArgumentCondition {
    pub(super) path: ArgumentPath,
    pub(super) test: ValueTest,
    pub(super) negated: bool,
}

/// A test of a value.
#[derive(Debug, Clone)]
pub(super) enum ValueTest {
    Glob(Glob),
    Regex(String),
    Equals(Value),
    Range { min: f64, max: f64 },
    Inside(String),
    Exists,
}

/// Parses the conditions of a rule. The error names the first invalid condition and the reason.
pub(super) fn parse_conditions(
    rule: &RuleSettings,
    budget: &mut RegexBudget,
) -> Result<Vec<ArgumentCondition>, String> {
    let mut conditions = Vec::new();
    for (key, matcher) in &rule.when {
        let path =
            ArgumentPath::parse(key).map_err(|why| format!("when.`{}`: {why}", shorten(key)))?;
        if path
            .argument_name()
            .is_some_and(|name| PATH_ARGUMENTS.contains(&name))
        {
            check_normalized(matcher).map_err(|why| format!("when.`{}`: {why}", shorten(key)))?;
        }
        let before = conditions.len();
        let mut add = |test, negated| {
            conditions.push(ArgumentCondition {
                path: path.clone(),
                test,
                negated,
            });
        };
        let fault = |why: String| format!("when.`{}`: {why}", shorten(key));
        for test in value_tests(matcher, rule.decision, budget).map_err(fault)? {
            add(test, false);
        }
        if let Some(exists) = matcher.exists {
            add(ValueTest::Exists, !exists);
        }
        if let Some(not) = &matcher.not {
            if not.not.is_some() || not.exists.is_some() {
                return Err(fault(
                    "`not` supports only glob, regex, equals, min, max and inside".into(),
                ));
            }
            let inner = value_tests(not, rule.decision, budget).map_err(fault)?;
            let [test] = <[ValueTest; 1]>::try_from(inner).map_err(|_| {
                fault(
                    "`not` must have exactly one condition; write a rule for each condition".into(),
                )
            })?;
            add(test, true);
        }
        if conditions.len() == before {
            return Err(fault("a condition is missing: set one of glob, regex, equals, min, max, inside, exists, not".into()));
        }
    }
    Ok(conditions)
}

/// Common names of path arguments.
pub(super) const PATH_ARGUMENTS: [&str; 14] = [
    "path",
    "paths",
    "from",
    "to",
    "source",
    "destination",
    "dest",
    "file",
    "files",
    "directory",
    "dir",
    "folder",
    "workdir",
    "cwd",
];

/// Fails if a path can never match, because path arguments are normalized before they are compared.
fn check_normalized(matcher: &MatcherSettings) -> Result<(), String> {
    let equals = matcher.equals.as_ref().and_then(Value::as_str);
    for text in [matcher.glob.as_deref(), equals].into_iter().flatten() {
        let has_dots = text.split('/').any(|part| matches!(part, "." | ".."));
        let is_odd = has_dots || text.contains("//") || (text.len() > 1 && text.ends_with('/'));
        if is_odd && !text.contains("://") {
            let advice = match spelling::lexical(text) {
                Some(path) if !path.is_empty() => format!("write `{}`", shorten(&path)),
                Some(_) => "match the names below the workspace root, such as with `**`".to_owned(),
                None => "the path leads out of the workspace".to_owned(),
            };
            return Err(format!(
                "`{}` never matches: path arguments are normalized before they are compared; {advice}",
                shorten(text)
            ));
        }
    }
    match &matcher.not {
        Some(not) => check_normalized(not),
        None => Ok(()),
    }
}

fn value_tests(
    matcher: &MatcherSettings,
    decision: Decision,
    budget: &mut RegexBudget,
) -> Result<Vec<ValueTest>, String> {
    let mut tests = Vec::new();
    if let Some(text) = &matcher.glob {
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            // A restriction must hold on case-insensitive file systems; a permission is exact.
            .case_insensitive(decision != Decision::Allow)
            .build()
            .map_err(|error| {
                format!("`{}` is not a valid glob: {}", shorten(text), error.kind())
            })?;
        tests.push(ValueTest::Glob(glob));
    }
    if let Some(text) = &matcher.regex {
        budget.take(text)?;
        tests.push(ValueTest::Regex(text.clone()));
    }
    if let Some(value) = &matcher.equals {
        tests.push(ValueTest::Equals(value.clone()));
    }
    if matcher.min.is_some() || matcher.max.is_some() {
        let min = matcher.min.unwrap_or(f64::NEG_INFINITY);
        let max = matcher.max.unwrap_or(f64::INFINITY);
        if min.is_nan() || max.is_nan() || min > max {
            return Err(format!(
                "`min` ({min}) must not be greater than `max` ({max})"
            ));
        }
        tests.push(ValueTest::Range { min, max });
    }
    if let Some(text) = &matcher.inside {
        let Some(folder) = spelling::lexical(text) else {
            return Err(format!(
                "`{}` leads out of the workspace; write a folder relative to the workspace root",
                shorten(text)
            ));
        };
        tests.push(ValueTest::Inside(folder.into_owned()));
    }
    Ok(tests)
}
